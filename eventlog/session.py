"""
One live session: an append-only log in memory, and the messages that its surface gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import time_ns
from typing import NoReturn

import orjson

from eventlog import values
from eventlog.errors import NotPicklable, SessionNotFound
from eventlog.locks import unowned
from eventlog.log import MemoryLog
from eventlog.model import Event, SessionHead, SessionHeader, SurfaceOp
from eventlog.observers import CREATED, DISPOSED, Observers, Outbox
from eventlog.redaction import Redact, redacted
from eventlog.snapshot import LogSnapshot
from eventlog.values import JSONValue, check_event_type
from eventlog.vocabulary import Vocabulary

__all__ = ["Session", "now_ms"]


def now_ms() -> int:
    """The time now, in Unix milliseconds."""
    return time_ns() // 1_000_000


class Session:
    """
    A session held by a running harness. Made by :class:`~eventlog.live.LiveSessions`.

    Every method may be called from any thread. After the session was disposed it can
    still be read.
    """

    __slots__ = ("_disposed", "_log", "_messages", "_observers", "_outbox", "_redact")

    def __init__(
        self,
        log: MemoryLog,
        vocabulary: Vocabulary,
        observers: Observers,
        redact: Redact | None = None,
    ) -> None:
        self._log = log
        self._redact = redact
        self._messages = _Messages(log, vocabulary)
        self._observers = observers
        self._outbox = Outbox(self, observers)
        self._disposed = False

    @property
    def header(self) -> SessionHeader:
        """The session's creation facts."""
        return self._log.header

    @property
    def id(self) -> str:
        """The session's id."""
        return self._log.header.id

    @property
    def length(self) -> int:
        """How many events the log has, and so the next free seq."""
        return self._log.length

    @property
    def disposed(self) -> bool:
        """Whether the session was disposed and takes no more events."""
        return self._disposed

    @property
    def nodes(self) -> list[int]:
        """The seqs on the surface in order, as a fresh list. Cost: O(nodes)."""
        return self.snapshot().nodes()

    @property
    def replace_generation(self) -> int:
        """How many replacements the log has. While it stays, the surface only grows."""
        with self._log.locked():
            return self._log.tables.replacements

    def append(
        self,
        type: str,  # noqa: A002 - the event's field
        data: Mapping[str, JSONValue],
        *,
        surface_op: SurfaceOp | None = None,
        source_event_seqs: Sequence[int] | None = None,
        ignorable: bool = False,
        time: int | None = None,
    ) -> Event:
        """
        Add one event, then tell the observers.

        The event is committed before any observer hears of it, and whatever they do it
        stays so. Each observer is told of every event in log order. Where an append is
        told of already, by another thread or further up the stack, that one tells this
        event too, maybe after this call has returned.

        An exception that strikes from outside, such as Ctrl-C, leaves the event wholly
        in or wholly out; :attr:`length` tells which.

        Args:
            data: A JSON object, copied here; see :mod:`eventlog.values`.

            surface_op: ``APPEND`` or ``Replace(start, end)`` puts the event on the
                surface; None leaves it off.

            source_event_seqs: Earlier events that it cites; a replacement cites every
                node that it shadows. None records nothing.

            ignorable: Whether a harness that does not know *type* may resume the log.

            time: Unix milliseconds; None is now.

        Cost: O(size of *data* + log n + nodes replaced + sources).

        Returns:
            The event as it stands in the log.

        Raises:
            ValueRejected: A field or a value inside *data* is not accepted. Nothing was
                added.

            InvalidSurface: The fold refuses the event. Nothing was added.

            RedactionFailed: The hook of these live sessions failed. Nothing was added.

            SessionNotFound: The session was disposed.

            StoreBusy: A signal handler or a finalizer appends in the midst of another call
                of its thread to this session. Nothing was added.
        """
        log = self._log
        if self._redact is not None:
            check_event_type(type)
            data = redacted(self._redact, type, data)
        with unowned(log.lock):
            if self._disposed:
                raise SessionNotFound(self._log.header.id)
            event = Event(
                log.length,
                time_ns() // 1_000_000 if time is None else time,
                type,
                data,
                surface_op=surface_op,
                source_event_seqs=source_event_seqs,
                ignorable=ignorable,
            )
            log.append(event)
            if self._observers.current:
                self._outbox.put(event)
        self._outbox.tell()
        return event

    def messages(self) -> list[dict[str, JSONValue]]:
        """
        Return what the model sees: the messages of the surface's nodes, in order.

        Nodes whose type gives no message are left out, as are answers without content.
        The list and all in it are fresh objects.

        Cost: O(bytes of the answer), by one parse; events since the last call are
        looked at once, all nodes again after a replacement.
        """
        return self._messages.current()

    def head(self) -> SessionHead:
        """Return header, length and last time as of now."""
        return self._log.head()

    def read(self, start: int, stop: int) -> list[Event]:
        """
        Return the events of ``[start, stop)``, clipped to the log; [] where none is left.

        Raises:
            InvalidArgument: A bound is no int, or negative.
        """
        return self.snapshot().read(start, stop)

    def snapshot(self, *, at: int | None = None) -> LogSnapshot:
        """
        Return the log as of a length; it stays so whatever is appended later.

        Args:
            at: The length, at most the log's; None is now.

        Raises:
            InvalidArgument: *at* is no int ≥ 0, or beyond the log.
        """
        return self._log.snapshot(at=at)

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied: two objects would be two ends of one log."""
        raise NotPicklable(
            "session",
            f"{self.id!r} cannot leave its LiveSessions; fork it there, or record it and "
            "resume it from the store by its id",
        )

    def __repr__(self) -> str:
        state = ", disposed" if self._disposed else ""
        return f"<Session {self._log.header.id!r}, {self._log.length} events{state}>"

    def _announce(self) -> None:
        """Put the session's creation before all that happens to it."""
        self._outbox.put(CREATED)

    def _tell(self) -> None:
        self._outbox.tell()

    def _dispose(self) -> None:
        """Take no more events, and put that behind all that happened."""
        with unowned(self._log.lock):
            self._disposed = True
            self._outbox.put(DISPOSED)


class _Messages:
    """
    The encoded messages of a surface, kept in step with its log.

    Fresh objects come from one parse of what is kept, several times faster than copies.
    """

    __slots__ = ("_encoded", "_generation", "_length", "_log", "_vocabulary")

    def __init__(self, log: MemoryLog, vocabulary: Vocabulary) -> None:
        self._log = log
        self._vocabulary = vocabulary
        self._encoded: list[bytes] = []
        self._length = 0
        self._generation = 0

    def current(self) -> list[dict[str, JSONValue]]:
        with self._log.locked():
            self._catch_up()
            text = b"[" + b",".join(self._encoded) + b"]"
        found: list[dict[str, JSONValue]] = orjson.loads(text)
        return found

    def _catch_up(self) -> None:
        log, length = self._log, self._log.length
        generation = log.tables.replacements
        if generation == self._generation:
            known, start = self._encoded, self._length
            fresh = [event for event in log.read(start, length) if event.is_node]
        else:
            known = []
            fresh = [log.read(seq, seq + 1)[0] for seq in log.snapshot().nodes()]
        encoded = []
        for event in fresh:
            message = self._vocabulary.message(event)
            if message is not None:
                encoded.append(values.encode_derived(message, path="message"))
        # A new list, so that an exception from outside finds the old state or the new, and
        # a call in a signal handler does not meet this one.
        encoded = known + encoded if encoded else known
        self._encoded, self._length, self._generation = encoded, length, generation
