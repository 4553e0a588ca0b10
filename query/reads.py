"""
Reads of one session: listings, windows, the surface, documents.

All of them work on a snapshot, live or stored alike, and read what they answer with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, TypeAlias, TypeVar

from eventlog.model import Event, EventClass
from eventlog.values import is_seq, shown
from eventlog.vocabulary import Vocabulary

from .corpus_snapshot import CorpusSnapshot
from .errors import Code, SessionQueryError, asked, check_cancel
from .filters import EventFilter, Seq, seq_range
from .records import EventDocument, EventRecord, EventWindow, SurfaceSnapshot

__all__ = [
    "check_count",
    "documents",
    "event_records",
    "record_at",
    "surface",
    "whole_log",
    "window",
]

Cancel: TypeAlias = Callable[[], bool]
ItemT = TypeVar("ItemT", EventRecord, EventDocument)

CHUNK_EVENTS: Final = 500
"""Events read at a time; bounds what a scan holds in memory."""


def check_count(value: object, name: str) -> int:
    """
    Return *value*, an argument that counts or addresses events.

    Raises:
        SessionQueryError: INVALID_WINDOW: it is no int ≥ 0.
    """
    if type(value) is not int or value < 0:
        raise SessionQueryError(
            Code.INVALID_WINDOW, f"{name} must be an int ≥ 0, not {shown(value)}"
        )
    return value


def check_seq(log: CorpusSnapshot, seq: object) -> int:
    """
    Return *seq*, where *log* has it.

    Raises:
        SessionQueryError: EVENT_NOT_FOUND: the log has no such event, or *seq* is no seq.
    """
    if type(seq) is not int or not is_seq(seq) or seq >= log.length:
        raise SessionQueryError(
            Code.EVENT_NOT_FOUND,
            f"session {log.session_id!r} has no event {shown(seq)}; it has {log.length}",
            log.session_id,
        )
    return seq


def window(log: CorpusSnapshot, seq: int, before: int, after: int) -> EventWindow:
    """
    Return an event with its neighbours, fewer of them at the ends of the log.

    Cost: the events returned. The surface is not needed, so a log whose fold fails is read.

    Raises:
        SessionQueryError: EVENT_NOT_FOUND; CORRUPT_SESSION: one of them is damaged.
    """
    check_seq(log, seq)
    start = max(0, seq - before)
    events = tuple(log.read(start, seq + after + 1))
    return EventWindow(log.header, events[seq - start], events, start, events[-1].seq)


def record_at(log: CorpusSnapshot, seq: int) -> tuple[Event, EventRecord]:
    """
    Return one event and its record. Cost: 1 record, O(log n) rows.

    Raises:
        SessionQueryError: EVENT_NOT_FOUND, which comes before INVALID_SURFACE.
    """
    check_seq(log, seq)
    (event,) = log.read(seq, seq + 1)
    return event, _record(log, event, log.classify(seq))


def event_records(
    log: CorpusSnapshot,
    start: int,
    limit: int,
    filters: Sequence[EventFilter],
    vocabulary: Vocabulary,
    cancel: Cancel | None,
) -> tuple[list[EventRecord], int | None]:
    """
    Return at most *limit* records from seq *start* on, and where to go on; None at the end.

    Cost: the events returned; with filters, the events scanned until as many have passed.
    """
    matched = (record for record, _ in _scan(log, start, limit, filters, vocabulary, cancel))
    return _filled(matched, limit, log.length)


def documents(
    log: CorpusSnapshot,
    start: int,
    limit: int,
    filters: Sequence[EventFilter],
    vocabulary: Vocabulary,
    cancel: Cancel | None,
) -> tuple[list[EventDocument], int | None]:
    """
    Return at most *limit* events that have text, from seq *start* on, and where to go on;
    None at the end.

    Cost: the events scanned until as many have passed.
    """
    found = (
        EventDocument(
            record.session_id,
            record.seq,
            record.type,
            asked(vocabulary.role, event),
            record.time,
            record.event_class,
            record.inherited,
            text,
        )
        for record, event in _scan(log, start, None, filters, vocabulary, cancel)
        if (text := asked(vocabulary.text, event))
    )
    return _filled(found, limit, log.length)


def surface(log: CorpusSnapshot, cancel: Cancel | None) -> SurfaceSnapshot:
    """
    Return the surface. Cost: its nodes, which it holds in memory.

    Raises:
        SessionQueryError: INVALID_SURFACE; CORRUPT_SESSION: a node is damaged.
    """
    nodes = log.nodes()
    events: dict[int, Event] = {}
    for start, stop in _runs(sorted(nodes)):
        check_cancel(cancel)
        for event in log.read(start, stop):
            events[event.seq] = event
    through = log.length - 1 if log.length else None
    return SurfaceSnapshot(log.header, through, tuple(events[seq] for seq in nodes))


def whole_log(log: CorpusSnapshot, cancel: Cancel | None) -> Iterator[Event]:
    """Yield every event of the snapshot, read in pages. Cost: the events that are taken."""
    for start in range(0, log.length, CHUNK_EVENTS):
        check_cancel(cancel)
        yield from log.read(start, min(start + CHUNK_EVENTS, log.length))


def _scan(
    log: CorpusSnapshot,
    start: int,
    limit: int | None,
    filters: Sequence[EventFilter],
    vocabulary: Vocabulary,
    cancel: Cancel | None,
) -> Iterator[tuple[EventRecord, Event]]:
    """
    Yield what passes *filters*, in seq order.

    Args:
        limit: How many the caller takes, so that no more is read where nothing can be
            filtered out; None where that is not known.
    """
    start, stop = seq_range(filters, start, log.length)
    tests = [test for test in filters if not isinstance(test, Seq)]
    step = CHUNK_EVENTS if tests or limit is None else min(limit, CHUNK_EVENTS)
    while start < stop:
        check_cancel(cancel)
        chunk_stop = min(start + step, stop)
        events = log.read(start, chunk_stop)
        replaced = log.replaced_by(start, chunk_stop)
        for event in events:
            if not event.is_node:
                event_class = EventClass.LOG_ONLY
            elif event.seq in replaced:
                event_class = EventClass.SHADOWED
            else:
                event_class = EventClass.CURRENT
            record = _record(log, event, event_class)

            def text(event: Event = event) -> str:
                return asked(vocabulary.text, event)

            if all(test.matches(record, text) for test in tests):
                yield record, event
        start = chunk_stop
        if limit is not None and not tests:
            limit -= len(events)
            step = max(1, min(limit, CHUNK_EVENTS))


def _filled(items: Iterable[ItemT], limit: int, length: int) -> tuple[list[ItemT], int | None]:
    found: list[ItemT] = []
    for item in items:
        found.append(item)
        if len(found) == limit:
            following = item.seq + 1
            return found, (following if following < length else None)
    return found, None


def _record(log: CorpusSnapshot, event: Event, event_class: EventClass) -> EventRecord:
    return EventRecord(
        log.session_id,
        event.seq,
        event.type,
        event.time,
        event_class,
        event.seq < (log.header.seed_length or 0),
    )


def _runs(seqs: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the maximal ``[start, stop)`` of consecutive ascending *seqs*, in chunks."""
    for _, group in groupby(enumerate(seqs), lambda pair: pair[1] - pair[0]):
        run = [seq for _, seq in group]
        for start in range(run[0], run[-1] + 1, CHUNK_EVENTS):
            yield start, min(start + CHUNK_EVENTS, run[-1] + 1)
