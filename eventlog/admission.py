"""
The rules of appending, written once for every store.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol, TypeVar

from attrs import frozen

from eventlog.errors import (
    HeaderConflict,
    InvalidArgument,
    InvalidSurface,
    SequenceConflict,
    SessionDeleted,
    UnsupportedFormat,
)
from eventlog.model import FORMAT_VERSION, Batch, Event, SessionHeader
from eventlog.surface import Step, plan_batch
from eventlog.tables import FoldTables, MemoryTables

__all__ = [
    "AbsentLog",
    "Admission",
    "ReadableLog",
    "WritableLog",
    "admit",
    "checked_batch",
    "checked_batches",
    "first_difference",
    "members",
]

T = TypeVar("T")

RETRY_CHUNK_EVENTS = 256


@frozen
class Admission:
    """
    What an accepted batch adds.

    Attributes:
        header: The session's header, to be stored where *start* is 0.

        start: The log's length before.

        events: The events to store, from seq *start* on; may be empty.

        steps: What each of them does to the surface's tables.
    """

    header: SessionHeader
    start: int
    events: Sequence[Event]
    steps: Sequence[Step]

    @property
    def length(self) -> int:
        """The log's length afterwards: the next free seq."""
        return self.start + len(self.events)


class ReadableLog(Protocol):
    """One session's log, as far as judging a batch needs it."""

    @property
    def header(self) -> SessionHeader | None:
        """The stored header, None where the session does not exist."""

    @property
    def length(self) -> int:
        """How many events are stored; 0 where the session does not exist."""

    @property
    def deleted(self) -> bool:
        """Whether the session was deleted and is not forgotten."""

    @property
    def tables(self) -> FoldTables:
        """Its surface's tables, folded to its length. Only read here."""

    def read(self, start: int, stop: int) -> list[Event]:
        """Return the stored events of ``[start, stop)``, which is within the log."""


class AbsentLog:
    """The log of a session that does not exist, for a store that has nothing to look into."""

    header: SessionHeader | None = None
    length = 0
    deleted = False

    @property
    def tables(self) -> FoldTables:
        """Tables of nothing, anew each time."""
        return MemoryTables()

    def read(self, start: int, stop: int) -> list[Event]:
        """Return nothing: there is nothing to be read."""
        return []


class WritableLog(ReadableLog, Protocol):
    """One session's log, held by one writer."""

    def write(self, admission: Admission) -> None:
        """
        Make *admission* durable, tables included, whole or not at all.

        Raises:
            StoreFull: The medium has no room.
        """


def checked_batch(header: object, events: object) -> Batch:
    """
    Return the batch of two arguments of an append, its events detached from the caller's list.

    Raises:
        InvalidArgument: One of them is something else.

        UnsupportedFormat: The header's version is not the one that is written.
    """
    if type(header) is not SessionHeader:
        raise InvalidArgument("header", f"must be a SessionHeader, not {type(header).__name__}")
    held = members(events, Event, "events")
    if header.version != FORMAT_VERSION:
        raise UnsupportedFormat(header.version, [FORMAT_VERSION])
    return Batch(header, held)


def checked_batches(batches: object) -> tuple[Batch, ...]:
    """
    Return the argument of an append to several sessions; each batch is still to be checked.

    Raises:
        InvalidArgument: It is something else.
    """
    return members(batches, Batch, "batches")


def members(value: object, kind: type[T], name: str) -> tuple[T, ...]:
    """
    Return what *value* holds, detached from the caller's list.

    Raises:
        InvalidArgument: *value* is no sequence, or holds something that is no *kind*.
    """
    if not isinstance(value, Sequence):
        raise InvalidArgument(name, f"must be a sequence, not {type(value).__name__}")
    held = tuple(value)
    for member in held:
        if type(member) is not kind:
            raise InvalidArgument(
                name, f"must hold {kind.__name__} objects, not {type(member).__name__}"
            )
    return held


def admit(log: ReadableLog, batch: Batch) -> Admission:
    """
    Judge *batch* against the stored log; nothing is written.

    Cost: O(len(batch) + nodes replaced · log n), and the stored events that it repeats.

    Raises:
        SessionDeleted: The session was deleted.

        HeaderConflict: It exists with another header; *field* is the first that differs.

        InvalidSurface: The batch has a gap inside, or the fold refuses an event.

        SequenceConflict: The batch starts beyond the log, or differs from it.
    """
    header, events = batch.header, batch.events
    if log.deleted:
        raise SessionDeleted(header.id)
    if log.header is not None and (name := first_difference(log.header, header)) is not None:
        raise HeaderConflict(header.id, name, getattr(log.header, name), getattr(header, name))
    for before, event in pairwise(events):
        if event.seq != before.seq + 1:
            raise InvalidSurface(event.seq, f"is not contiguous; expected seq {before.seq + 1}")
    length = log.length
    if not events:
        return Admission(header, length, (), ())
    first = events[0].seq
    if first > length:
        raise SequenceConflict(header.id, length, first)
    _check_repeated(log, batch, length)
    fresh = events[length - first :]
    if not fresh:
        return Admission(header, length, (), ())

    def read_event(seq: int) -> Event:
        return log.read(seq, seq + 1)[0]

    return Admission(header, length, fresh, plan_batch(log.tables, fresh, read_event))


def first_difference(stored: SessionHeader, given: SessionHeader) -> str | None:
    """Return the first field in which two headers differ, None where they are equal."""
    if stored == given:
        return None
    for name in _HEADER_FIELDS:
        if getattr(stored, name) != getattr(given, name):
            return name
    return "extra"


# In the order of the wire format.
_HEADER_FIELDS = (
    "version",
    "id",
    "created_at",
    "cwd",
    "parent_session",
    "seed_length",
    "origin",
    "delegation_depth",
    "agent_preset",
)


def _check_repeated(log: ReadableLog, batch: Batch, length: int) -> None:
    """Compare what the batch repeats with what is stored, a bounded number at a time."""
    first = batch.events[0].seq
    stop = min(length, first + len(batch.events))
    for start in range(first, stop, RETRY_CHUNK_EVENTS):
        stored = log.read(start, min(start + RETRY_CHUNK_EVENTS, stop))
        for event in stored:
            if event != batch.events[event.seq - first]:
                raise SequenceConflict(batch.header.id, length, event.seq)
