"""
What queries answer with. All of it is frozen and detached: nothing a caller does with an
answer reaches a store or a live session.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

from attrs import field, frozen

from eventlog.model import Event, EventClass, Fault, SessionHeader

__all__ = [
    "Descendant",
    "EventDocument",
    "EventRecord",
    "EventTrace",
    "EventWindow",
    "LineageTrace",
    "OnConflict",
    "Page",
    "SessionRecord",
    "SurfaceSnapshot",
]

T = TypeVar("T")


class OnConflict(StrEnum):
    """What a listing does with an id whose live and stored headers differ."""

    RAISE = "raise"
    """Fail with SOURCE_CONFLICT."""

    FAULT = "fault"
    """Leave the session out and report a fault of the kind ``"conflict"``."""


@frozen
class Page(Generic[T]):
    """
    One page of an answer.

    Attributes:
        items: At most *limit* of them, in the order of the call.

        next_cursor: The *cursor* of the next page, None at the end. Opaque; it may be
            used in another process.

        faults: What could not be read beside them.
    """

    items: tuple[T, ...]
    next_cursor: str | None
    faults: tuple[Fault, ...] = field(default=())


@frozen
class SessionRecord:
    """
    One session of the corpus.

    Attributes:
        header: Its header.

        live: Whether a running harness holds it.

        persisted: Whether the store holds it.

        length: How many events it has: the live log's where it is live.

        last_time: The time of its last event, Unix milliseconds; None while it has none.
    """

    header: SessionHeader
    live: bool
    persisted: bool
    length: int
    last_time: int | None


@frozen
class EventRecord:
    """
    One event without its data.

    Attributes:
        session_id: Its session.

        seq: Its place in the log.

        type: Its type.

        time: Unix milliseconds.

        event_class: How it stands to the surface.

        inherited: Whether a fork copied it from the parent: its seq is below the
            header's ``seed_length``.
    """

    session_id: str
    seq: int
    type: str
    time: int
    event_class: EventClass
    inherited: bool


@frozen
class EventDocument:
    """
    One event by its text.

    Attributes:
        session_id: Its session.

        seq: Its place in the log.

        type: Its type.

        role: The role of its message, such as ``"user"``; None where it has none.

        time: Unix milliseconds.

        event_class: How it stands to the surface.

        inherited: Whether a fork copied it from the parent.

        text: Its text by the vocabulary, never empty.
    """

    session_id: str
    seq: int
    type: str
    role: str | None
    time: int
    event_class: EventClass
    inherited: bool
    text: str


@frozen
class EventWindow:
    """
    One event and its neighbours.

    Attributes:
        header: The session's header.

        target: The event that was asked for; one of *events*.

        events: Consecutive events.

        start_seq: The seq of the first one.

        end_seq: The seq of the last one, inclusive.
    """

    header: SessionHeader
    target: Event
    events: tuple[Event, ...]
    start_seq: int
    end_seq: int


@frozen
class SurfaceSnapshot:
    """
    What the model sees.

    Attributes:
        header: The session's header.

        captured_through_seq: The last event that was taken into account, None for an
            empty log.

        events: The surface, in its order.
    """

    header: SessionHeader
    captured_through_seq: int | None
    events: tuple[Event, ...]


@frozen
class EventTrace:
    """
    Where an event comes from and what became of it.

    Attributes:
        header: The session's header.

        target: The event.

        replaced_by: The event that replaced it, None where none did.

        current_seq: The event of the surface that stands for it now: itself where it is
            current, None where it never was on the surface.

        replacement_chain: Its replacer, that one's replacer, and so on, at most 100.

        chain_complete: Whether the chain ends on the surface; false where it was cut.

        replaced_event_seqs: The events that it replaced, in surface order.

        source_event_seqs: The events that it cites, as declared.

        derived_event_seqs: The events that cite it, ascending.
    """

    header: SessionHeader
    target: EventRecord
    replaced_by: int | None
    current_seq: int | None
    replacement_chain: tuple[int, ...]
    chain_complete: bool
    replaced_event_seqs: tuple[int, ...]
    source_event_seqs: tuple[int, ...]
    derived_event_seqs: tuple[int, ...]


class Descendant(NamedTuple):
    """
    One session below another; it unpacks as these three.

    Attributes:
        record: The session.

        parent_id: The session that it came from.

        depth: 1 for a child, 2 for a grandchild, and so on.
    """

    record: SessionRecord
    parent_id: str
    depth: int


@frozen
class LineageTrace:
    """
    Where a session comes from and what came from it.

    Attributes:
        target: The session.

        ancestors: Its parent, that one's parent, and so on.

        root: The one without a parent, which may be the target; None where the trace is
            not complete.

        complete: Whether every ancestor is there.

        unresolved_parent_id: The first one that is not, None where *complete*.

        descendants: In pre-order: each session before its own children, children by
            creation time, then id.

        faults: What could not be read and may belong here.
    """

    target: SessionRecord
    ancestors: tuple[SessionRecord, ...]
    root: SessionRecord | None
    complete: bool
    unresolved_parent_id: str | None
    descendants: tuple[Descendant, ...]
    faults: tuple[Fault, ...] = field(default=())
