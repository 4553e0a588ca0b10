"""
Choosing events of a log for people: by filter, from its front or from its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from attrs import frozen

from eventlog.model import Event, EventClass
from eventlog.query.corpus_snapshot import CorpusSnapshot
from eventlog.query.filters import EventFilter, seq_range
from eventlog.query.records import EventDocument, EventRecord
from eventlog.query.text import one_line
from eventlog.vocabulary import Vocabulary

__all__ = ["Entry", "anything", "chosen", "newest", "title_of"]

_CHUNK_EVENTS: Final = 256
_TITLE_EVENTS_MAX: Final = 32


@frozen
class Entry:
    """
    One event, ready to be shown.

    Attributes:
        record: The event without its data.

        event: The event.

        text: Its text by the vocabulary, ``""`` where it has none.

        replaced_by: The event that replaced it, None where none did.
    """

    record: EventRecord
    event: Event
    text: str
    replaced_by: int | None

    def said(self) -> str:
        """Return the text, as filters ask for it."""
        return self.text

    def document(self, vocabulary: Vocabulary) -> EventDocument:
        """Return the record of a query that says the same."""
        record = self.record
        return EventDocument(
            session_id=record.session_id,
            seq=record.seq,
            type=record.type,
            role=vocabulary.role(self.event),
            time=record.time,
            event_class=record.event_class,
            inherited=record.inherited,
            text=self.text,
        )


Wanted = Callable[[Entry], bool]


def anything(entry: Entry) -> bool:
    """Want every event."""
    return True


def chosen(
    log: CorpusSnapshot,
    vocabulary: Vocabulary,
    filters: Sequence[EventFilter] = (),
    wanted: Wanted = anything,
) -> Iterator[Entry]:
    """Yield the wanted events that pass *filters*, in seq order, a chunk in memory at a time."""
    start, stop = seq_range(filters, 0, log.length)
    while start < stop:
        end = min(start + _CHUNK_EVENTS, stop)
        yield from _passing(log, vocabulary, filters, wanted, start, end)
        start = end


def newest(
    log: CorpusSnapshot,
    vocabulary: Vocabulary,
    filters: Sequence[EventFilter],
    wanted: Wanted,
    limit: int,
) -> tuple[list[Entry], bool]:
    """
    Return the last *limit* wanted events that pass *filters*, in seq order, and whether
    events before them were left unread.

    Cost: the events from the first one returned on, and less than a chunk before it.
    """
    start, stop = seq_range(filters, 0, log.length)
    found: list[Entry] = []
    while start < stop and len(found) < limit:
        begin = max(start, stop - min(_CHUNK_EVENTS, 2 * limit))
        found[:0] = _passing(log, vocabulary, filters, wanted, begin, stop)
        stop = begin
    return found[-limit:], start < stop or len(found) > limit


def _passing(
    log: CorpusSnapshot,
    vocabulary: Vocabulary,
    filters: Sequence[EventFilter],
    wanted: Wanted,
    start: int,
    stop: int,
) -> Iterator[Entry]:
    replaced = log.replaced_by(start, stop)
    for event in log.read(start, stop):
        replacer = replaced.get(event.seq)
        if not event.is_node:
            event_class = EventClass.LOG_ONLY
        else:
            event_class = EventClass.CURRENT if replacer is None else EventClass.SHADOWED
        record = EventRecord(
            log.session_id,
            event.seq,
            event.type,
            event.time,
            event_class,
            event.seq < (log.header.seed_length or 0),
        )
        entry = Entry(record, event, vocabulary.text(event), replacer)
        if wanted(entry) and all(test.matches(record, entry.said) for test in filters):
            yield entry


def title_of(log: CorpusSnapshot, vocabulary: Vocabulary) -> str:
    """
    Return what a session is about, on one line: its last title among its first events,
    else what its user said first; ``""`` where there is neither.

    Cost: at most 32 events.
    """
    said = ""
    title = ""
    for event in log.read(0, _TITLE_EVENTS_MAX):
        if event.type == "session/title":
            given = event.data.get("title")
            title = given if type(given) is str else title
        elif not said and event.is_node and vocabulary.role(event) == "user":
            source = event.data.get("source")
            if type(source) is not dict or source.get("kind") in (None, "user"):
                said = vocabulary.text(event)
    return one_line(title or said)
