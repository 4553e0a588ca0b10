"""
One session's log as queries see it: live or stored, and with every failure told in codes.
"""

from __future__ import annotations

from eventlog.errors import CorruptLog
from eventlog.model import Event, EventClass, SessionHeader
from eventlog.snapshot import LogSnapshot

from .errors import reading

__all__ = ["CorpusSnapshot"]


class CorpusSnapshot:
    """
    One session's log as of a length, live or stored, with every failure told in codes.

    The same as a :class:`~eventlog.snapshot.LogSnapshot`, which it reads from.

    Attributes:
        live: Whether the live log was taken.
    """

    __slots__ = ("_inner", "header", "length", "live")

    def __init__(self, inner: LogSnapshot, *, live: bool) -> None:
        self._inner = inner
        self.live = live
        self.header: SessionHeader = inner.header
        self.length: int = inner.length

    @property
    def session_id(self) -> str:
        return self.header.id

    def read(self, start: int, stop: int) -> list[Event]:
        stop = min(stop, self.length)
        if start >= stop:
            return []
        with reading(self.header.id):
            events = self._inner.read(start, stop)
            # What a third-party store gives is looked at once more: a window that is short
            # or displaced would be served as the truth.
            if [event.seq for event in events] != [*range(start, stop)]:
                raise CorruptLog(
                    self.header.id, None, None, None, start, "seq", "the store gave other events"
                )
        return events

    def classify(self, seq: int) -> EventClass:
        with reading(self.header.id):
            return self._inner.classify(seq)

    def replaced_by(self, start: int, stop: int) -> dict[int, int]:
        with reading(self.header.id):
            return self._inner.replaced_by(start, stop)

    def replaced(self, seq: int) -> list[int]:
        with reading(self.header.id):
            return self._inner.replaced(seq)

    def stand_in(self, seq: int) -> int | None:
        with reading(self.header.id):
            return self._inner.stand_in(seq)

    def nodes(self, *, after: int | None = None, limit: int | None = None) -> list[int]:
        with reading(self.header.id):
            return self._inner.nodes(after=after, limit=limit)

    def citing(self, seq: int) -> list[int]:
        with reading(self.header.id):
            return self._inner.citing(seq)

    def __repr__(self) -> str:
        kind = "live" if self.live else "stored"
        return f"<CorpusSnapshot of {self.header.id!r}, {kind}, {self.length} events>"
