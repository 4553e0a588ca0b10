"""
What a stored session is like when it comes back to life, and whether it may.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from eventlog.closers import OpenWork, closers, open_work
from eventlog.errors import UnsupportedFormat
from eventlog.loading import load_log
from eventlog.log import MemoryLog
from eventlog.model import FORMAT_VERSION, Event, SessionHeader
from eventlog.snapshot import LogSnapshot
from eventlog.vocabulary import Vocabulary

__all__ = ["Inspection", "check_resumable", "inspect_live", "inspect_stored"]


@frozen
class Inspection:
    """
    A session as resuming would bring it back.

    Attributes:
        header: Its header.

        length: How many events are stored, or live.

        open_work: What the end of its log leaves open: a turn, a step, calls.

        closers: The synthetic events that resuming would append, in order; empty where
            nothing is open, and for a live session.

        unknown_types: Types that keep it from being resumed, with the first seq of each:
            not known to the vocabulary, and not ignorable.

        snapshot: The log with its closers.
    """

    header: SessionHeader
    length: int
    open_work: OpenWork
    closers: tuple[Event, ...]
    unknown_types: Mapping[str, int]
    snapshot: LogSnapshot
    # Given to the session that is resumed.
    log: MemoryLog | None = field(repr=False, default=None)

    def __repr__(self) -> str:
        return (
            f"<Inspection of {self.header.id!r}, {self.length} events, "
            f"{len(self.closers)} closers, {len(self.unknown_types)} unknown types>"
        )


def inspect_stored(stored: LogSnapshot, vocabulary: Vocabulary) -> Inspection:
    """
    Load a stored log and close it in memory; nothing is written.

    Cost: one read of the log.

    Raises:
        CorruptLog: An event cannot be read.

        InvalidSurface: The log's fold fails.

        SessionNotFound: The session was deleted meanwhile.
    """
    log = load_log(stored)
    length = log.length
    work = open_work(log.read, length)
    closing = closers(work, log.read(length - 1, length)[0]) if length else []
    unknown = unknown_types(log.read(0, length), vocabulary)
    log.extend(closing)
    return Inspection(log.header, length, work, tuple(closing), unknown, log.snapshot(), log)


def inspect_live(live: LogSnapshot, vocabulary: Vocabulary) -> Inspection:
    """Show a live log as it is; what is open goes on, so nothing closes it."""
    events = live.read(0, live.length)
    work = open_work(live.read, live.length)
    return Inspection(live.header, live.length, work, (), unknown_types(events, vocabulary), live)


def check_resumable(inspection: Inspection, vocabulary: Vocabulary) -> None:
    """
    Refuse a log that this harness would misread.

    Raises:
        UnsupportedFormat: Its header has another version, or it has an unknown type that
            is not ignorable: the first one by seq, further ones as notes.
    """
    if inspection.header.version != FORMAT_VERSION:
        raise UnsupportedFormat(inspection.header.version, [FORMAT_VERSION])
    unknown = sorted(inspection.unknown_types.items(), key=lambda item: item[1])
    if unknown:
        (name, seq), *others = unknown
        error = UnsupportedFormat(name, sorted(vocabulary.types), seq)
        for name, seq in others:
            error.add_note(f"event {seq} has the unknown required type {name!r}")
        raise error


def unknown_types(events: list[Event], vocabulary: Vocabulary) -> dict[str, int]:
    """The first seq of each type that is neither known nor ignorable. Cost: O(events)."""
    unknown = {name for name in {event.type for event in events} if not vocabulary.knows(name)}
    found: dict[str, int] = {}
    if unknown:
        for event in events:
            if event.type in unknown and not event.ignorable:
                found.setdefault(event.type, event.seq)
    return found
