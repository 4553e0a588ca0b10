"""
One stored session and the entries of its source, brought together.

An import is made of events that say by their *origin* where they came from, so what is
stored can be told from what is new without keeping anything beside the log. As long as a
source only grows, its first entries are the stored events, and the rest is appended
(:class:`MappedLog`). Where a source changed what was imported before, the log is
completed so that its surface becomes that of the source (:mod:`eventlog.importing.reconciling`).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final

import orjson

from eventlog import values
from eventlog.errors import HeaderConflict
from eventlog.model import Event, Replace, SessionHeader, SurfaceOp
from eventlog.snapshot import LogSnapshot
from eventlog.sources import Entry
from eventlog.store import EventStore
from eventlog.values import JSONValue
from eventlog.vocabulary import DEFAULT_VOCABULARY

from .account import Outcome

__all__ = [
    "MARK",
    "EventBatch",
    "Identity",
    "MappedLog",
    "NativeLog",
    "identity",
    "imported_events",
    "is_foreign",
    "last_mark",
    "result_content",
    "rewritten",
    "tool_of",
]

MARK: Final = "import/mark"
"""
The type of the event behind an import that went through: what was read, and its account.
"""

BATCH_EVENTS_MAX: Final = 1000
BATCH_BYTES_MAX: Final = 4 << 20
PAGE_EVENTS_MAX: Final = 512
PAGE_BYTES_AIM: Final = 4 << 20

Identity = tuple[str, str]


class EventBatch:
    """
    Events on their way into one session's log.

    Args:
        store: Where the log is.

        header: The session's header.

        length: How many events it has.

    Attributes:
        next_seq: The seq of the next event.

        added: How many events were taken.

        stored: How many of them are stored.

        is_full: Whether it is time to :meth:`flush`.
    """

    def __init__(self, store: EventStore, header: SessionHeader, length: int) -> None:
        self.header = header
        self.next_seq = length
        self.added = 0
        self.stored = 0
        self.is_full = False
        self._store = store
        self._length = length
        self._events: list[Event] = []
        self._bytes = 0

    def add(self, event: Event) -> None:
        """Take an event, whose seq is *next_seq*."""
        events = self._events
        events.append(event)
        self._bytes += len(event.payload)
        self.next_seq += 1
        self.added += 1
        self.is_full = len(events) >= BATCH_EVENTS_MAX or self._bytes >= BATCH_BYTES_MAX

    def flush(self) -> None:
        """
        Store what was taken.

        Raises:
            EventLogError: As :meth:`~eventlog.store.EventStore.append`.
        """
        events, self._events, self._bytes = self._events, [], 0
        self.is_full = False
        if events:
            self._store.append(self.header, events)
            self._length += len(events)
            self.stored += len(events)

    def read(self, seq: int) -> Event:
        """Return an event of the log, stored or taken."""
        if seq >= self._length:
            return self._events[seq - self._length]
        return self._store.snapshot(self.header.id).read(seq, seq + 1)[0]


class MappedLog:
    """
    A session that grows with its source.

    Args:
        store: Where it is stored, or will be.

        header: Its header as the source has it; a stored one stays.

        tool: The source's name.

        reads_plain: What the source says of its entries' data.

    Attributes:
        header: Its header in the store.

        held: How many events the store had, None where it had no such session.

        diverged: Whether an entry was found that is not the stored one in its place.

    Raises:
        HeaderConflict: The session exists, and did not come from this tool.
    """

    def __init__(
        self, store: EventStore, header: SessionHeader, tool: str, *, reads_plain: bool = False
    ) -> None:
        head = store.head(header.id)
        self.tool = tool
        self._reads_plain = reads_plain
        self.held = None if head is None else head.length
        self.header = header if head is None else head.header
        if head is not None and tool_of(head.header) != tool:
            raise HeaderConflict(header.id, "extra", head.header.extra, header.extra)
        self.batch = EventBatch(store, self.header, self.held or 0)
        self.diverged = False
        # The seq of each entry. Marks make them differ from the entries' numbers.
        self.seqs = array("q")
        # The stored events that no entry was compared with yet; None once there are none.
        self._stored: Iterator[tuple[Event, dict[str, JSONValue]]] | None = None
        self.snapshot: LogSnapshot | None = None
        if head is not None:
            self.snapshot = store.snapshot(header.id, at=head.length)
            self._stored = imported_events(self.snapshot)

    def add(self, entry: Entry) -> bool:
        """Take the next entry; returns whether a batch was stored."""
        if self._stored is not None and self._compare(entry, self._stored):
            return False
        batch = self.batch
        seq = batch.next_seq
        batch.add(self.event(entry, seq))
        self.seqs.append(seq)
        if batch.is_full:
            batch.flush()
            return True
        return False

    def _compare(self, entry: Entry, events: Iterator[tuple[Event, dict[str, JSONValue]]]) -> bool:
        """Compare *entry* with the next stored event; False where there is none."""
        if self.diverged:
            return True
        stored = next(events, None)
        if stored is None:
            self._stored = None
            return False
        if self._is_stored(entry, *stored):
            self.seqs.append(stored[0].seq)
        else:
            self.diverged = True
        return True

    def ends_early(self, *, shrinks: bool) -> bool:
        """
        Tell, after the last entry, whether records that are stored were taken back: the
        store has more of them, and the tool *shrinks* its files.
        """
        return shrinks and any(not is_foreign(data) for _, data in self._stored or ())

    @property
    def added(self) -> int:
        """How many events were stored."""
        return self.batch.stored

    @property
    def outcome(self) -> Outcome:
        """What became of the session."""
        if self.batch.added == 0:
            return Outcome.SAME
        return Outcome.NEW if self.held is None else Outcome.GROWN

    def event(self, entry: Entry, seq: int) -> Event:
        """Return *entry* as the event *seq*."""
        _, kind, time, data, op, cites, content = entry
        if type(op) is Replace:
            op = self._op(op)
        sources = tuple([self.seqs[number] for number in cites]) if cites else None
        if content is not None:
            assert type(op) is Replace
            data = rewritten(self.batch.read(op.start).data, content)
        ignorable = not DEFAULT_VOCABULARY.knows(kind)
        if self._reads_plain:
            payload = orjson.dumps(data)
            if len(payload) <= values.PAYLOAD_BYTES_MAX:
                return Event.from_payload(seq, time, kind, payload, op, sources, ignorable)
        return Event(
            seq,
            time,
            kind,
            data,
            surface_op=op,
            source_event_seqs=sources,
            ignorable=ignorable,
        )

    def _op(self, op: SurfaceOp | None) -> SurfaceOp | None:
        if type(op) is Replace:
            return Replace(self.seqs[op.start], self.seqs[op.end])
        return op

    def _is_stored(self, entry: Entry, stored: Event, data: dict[str, JSONValue]) -> bool:
        if entry.type != stored.type or is_foreign(data):
            return False
        if self._op(entry.surface_op) != stored.surface_op:
            return False
        if entry.content is not None:
            same: bool = result_content(data) == entry.content
            return same
        return identity(entry.data) == identity(data)


class NativeLog:
    """A log that keeps its events as they are: what is stored must be a part of it."""

    def __init__(self, store: EventStore, header: SessionHeader) -> None:
        head = store.head(header.id)
        self.header = header
        self.added = 0
        self.held = None if head is None else head.length
        self._batch: EventBatch | None = None
        self._store = store

    def add(self, event: Event) -> bool:
        """Take the next event; returns whether a batch was stored."""
        if self._batch is None:
            self._batch = EventBatch(self._store, self.header, event.seq)
        self._batch.add(event)
        if not self._batch.is_full:
            return False
        self.flush()
        return True

    def flush(self) -> None:
        """Store what was taken; what the store holds already is compared with it."""
        if self._batch is not None:
            self._batch.flush()
            self.added = max(0, self._batch.next_seq - (self.held or 0))

    @property
    def outcome(self) -> Outcome:
        """What became of the session."""
        if self.added == 0:
            return Outcome.SAME
        return Outcome.NEW if self.held is None else Outcome.GROWN


def imported_events(snapshot: LogSnapshot) -> Iterator[tuple[Event, dict[str, JSONValue]]]:
    """Yield the events of a log but for marks, and their data."""
    start, count = 0, 16
    while start < snapshot.length:
        page = snapshot.read(start, start + count)
        start += len(page)
        for event in page:
            if event.type != MARK:
                yield event, event.data
        # At most twice the last count: payloads that grow are noticed in time.
        size = sum(len(event.payload) for event in page)
        count = max(1, min(2 * count, PAGE_BYTES_AIM * len(page) // max(size, 1), PAGE_EVENTS_MAX))


def is_foreign(data: dict[str, JSONValue]) -> bool:
    """Tell whether an event of an imported session was put there by somebody else."""
    origin = data.get("origin")
    return type(origin) is not dict or "key" not in origin or "digest" not in origin


def identity(data: dict[str, JSONValue]) -> Identity:
    """Return what tells an entry from another, and from itself after a change."""
    origin = data["origin"]
    return origin["key"], origin["digest"]


def rewritten(data: dict[str, JSONValue], content: list[JSONValue]) -> dict[str, JSONValue]:
    """Return the data of a tool result with another content. *data* is changed."""
    data["message"]["content"][0]["content"] = content
    return data


def result_content(data: dict[str, JSONValue]) -> JSONValue:
    return data["message"]["content"][0]["content"]


def tool_of(header: SessionHeader) -> JSONValue:
    """Return the name of the tool whose session was imported, None for another session."""
    imported = header.extra.get("import")
    return imported.get("tool") if type(imported) is dict else None


def last_mark(snapshot: LogSnapshot) -> dict[str, JSONValue] | None:
    """Return the data of the mark that ends a log, None where none does."""
    if snapshot.length == 0:
        return None
    event = snapshot.read(snapshot.length - 1, snapshot.length)[0]
    return event.data if event.type == MARK else None
