"""
The log of one session in memory, shared by the memory store and by live sessions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from eventlog.errors import InvalidArgument, InvalidSurface, NotPicklable, SequenceConflict
from eventlog.locks import forkable_lock
from eventlog.model import Event, SessionHead, SessionHeader
from eventlog.snapshot import MeteredTables, ScanMeter, Snapshot
from eventlog.surface import Step, apply, plan, plan_batch
from eventlog.tables import MemoryTables, ViewTables
from eventlog.values import check_index, shown

__all__ = ["MemoryLog"]


class MemoryLog:
    """
    A header, its events, and their surface. Thread-safe.

    An exception raised into the middle of an append, as by Ctrl-C, leaves the event
    wholly in or wholly out; :attr:`length` tells which.

    Args:
        header: The session's header.

    Attributes:
        header: The session's header.

        lock: What appends are made under. Reentrant.
    """

    __slots__ = ("_events", "_tables", "_torn", "header", "lock")

    def __init__(self, header: SessionHeader) -> None:
        self.header = header
        self._events: list[Event] = []
        self._tables = MemoryTables()
        self.lock = forkable_lock()
        # True while the tables may lag behind the events or be half written. An event
        # is committed by entering the list, which nothing can interrupt; the tables
        # follow it. Found True by the next one to hold the lock, they are folded anew.
        self._torn = False

    @classmethod
    def from_parts(
        cls, header: SessionHeader, events: list[Event], tables: MemoryTables
    ) -> MemoryLog:
        """
        Take over the events of a log and the tables of exactly these events: for copies
        of logs that were folded before. Nothing is checked. Cost: O(1).
        """
        log = cls(header)
        log._events = events
        log._tables = tables
        return log

    @property
    def length(self) -> int:
        """How many events the log has, and so the next free seq."""
        return len(self._events)

    @property
    def tables(self) -> MemoryTables:
        """The surface's tables; hold :meth:`locked` while reading them."""
        if self._torn:
            self._mend()
        return self._tables

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other threads from appending, with the tables in step with the events."""
        with self.lock:
            self._mend()
            yield

    def head(self) -> SessionHead:
        """Return header, length and last time as of now."""
        with self.lock:
            events = self._events
            return SessionHead(self.header, len(events), events[-1].time if events else None)

    def append(self, event: Event) -> None:
        """
        Add one event. Cost: O(log n + nodes replaced + sources).

        Raises:
            SequenceConflict: Its seq is not the next one. Nothing was added.

            InvalidSurface: The fold refuses it. Nothing was added.
        """
        with self.lock:
            if self._torn:
                self._mend()
            events = self._events
            if event.seq != len(events):
                raise SequenceConflict(self.header.id, len(events), event.seq)
            tables = self._tables
            step = plan(tables, event, events.__getitem__)
            self._torn = True
            events.append(event)
            apply(tables, step)
            # A read in a signal handler may have put others in their place meanwhile.
            self._torn = self._tables is not tables

    def extend(self, events: Sequence[Event]) -> None:
        """
        Add consecutive events, all or none. Null case: none given adds none.

        Raises:
            SequenceConflict: The first seq is not the next one. Nothing was added.

            InvalidSurface: There is a gap inside, or the fold refuses one. Nothing was
                added.
        """
        with self.locked():
            if events and events[0].seq != len(self._events):
                raise SequenceConflict(self.header.id, len(self._events), events[0].seq)
            for expected, event in enumerate(events, len(self._events)):
                if event.seq != expected:
                    raise InvalidSurface(event.seq, f"is not contiguous; expected seq {expected}")
            self.write(events, plan_batch(self._tables, events, self._events.__getitem__))

    def write(self, events: Sequence[Event], steps: Sequence[Step]) -> None:
        """Add events that were judged before, under :meth:`locked`."""
        with self.lock:
            tables = self._tables
            self._torn = True
            self._events.extend(events)
            for step in steps:
                apply(tables, step)
            self._torn = self._tables is not tables

    def read(self, start: int, stop: int) -> list[Event]:
        """Return the events of ``[start, stop)``, clipped."""
        return self._events[start:stop]

    def snapshot(self, *, at: int | None = None, meter: ScanMeter | None = None) -> MemorySnapshot:
        """
        Return the log as of a length.

        Args:
            at: The length, at most the log's; None is now.

            meter: Where reads are counted; None counts nowhere.

        Raises:
            InvalidArgument: *at* is no int ≥ 0, or beyond the log.
        """
        return MemorySnapshot(self, pinned_length(at, self.length), meter or ScanMeter())

    def _mend(self) -> None:
        """Fold the tables anew if an exception cut their writing short."""
        if self._torn:
            tables = MemoryTables()
            for event in self._events:
                apply(tables, plan(tables, event, self._events.__getitem__))
            self._tables = tables
            self._torn = False

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied, as do the snapshots that hold this log."""
        raise NotPicklable(
            "log",
            f"{self.header.id!r} is held in the memory of this process; "
            "pickle its header and its events, or read it from a store that has a path",
        )

    def __repr__(self) -> str:
        return f"<MemoryLog of {self.header.id!r}, {len(self._events)} events>"


class MemorySnapshot(Snapshot):
    """A :class:`MemoryLog` as of a length."""

    __slots__ = ("_log", "_meter")

    def __init__(self, log: MemoryLog, length: int, meter: ScanMeter) -> None:
        super().__init__(log.header, length)
        self._log = log
        self._meter = meter

    def _check_open(self) -> None:
        pass  # a log in memory is never closed; what holds it may be

    def _read(self, start: int, stop: int) -> list[Event]:
        events = self._log.read(start, stop)
        self._meter.records += len(events)
        self._meter.bytes += sum(len(event.payload) for event in events)
        return events

    @contextmanager
    def _tables(self) -> Iterator[ViewTables]:
        with self._log.locked():
            yield MeteredTables(self._log.tables, self._meter)


def pinned_length(at: int | None, length: int) -> int:
    """
    Return the length that a snapshot pins.

    Raises:
        InvalidArgument: *at* is no int ≥ 0, or beyond *length*.
    """
    if at is None:
        return length
    if check_index(at, "at") > length:
        raise InvalidArgument("at", f"{shown(at)} is beyond the log, which has {length} events")
    return at
