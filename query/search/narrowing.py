"""
Event and session filters in the terms that an engine can apply by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from attrs import evolve, frozen

from eventlog.model import EventClass, SessionHeader

from ..filters import (
    Availability,
    Classes,
    CreatedAt,
    Cwd,
    EventFilter,
    Ids,
    Parent,
    Seq,
    SessionFilter,
    Text,
    Time,
    Types,
)

__all__ = ["DocumentScope", "SessionScope", "document_scope", "session_scope"]

T = TypeVar("T")


@frozen
class DocumentScope:
    """
    Which documents may match. None of a field lets every one through.

    Attributes:
        start: The first seq.

        stop: The first seq beyond.

        time_start: Unix milliseconds, inclusive.

        time_end: Unix milliseconds, inclusive.

        types: Event types.

        classes: How they stand to the surface.
    """

    start: int = 0
    stop: int | None = None
    time_start: int | None = None
    time_end: int | None = None
    types: frozenset[str] | None = None
    classes: frozenset[EventClass] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing can match."""
        return (
            (self.stop is not None and self.stop <= self.start)
            or self.types == frozenset()
            or self.classes == frozenset()
        )

    def below(self, stop: int | None) -> DocumentScope:
        """Return this scope without the seqs from *stop* on; None changes nothing."""
        if stop is None or (self.stop is not None and self.stop <= stop):
            return self
        return evolve(self, stop=stop)

    def admits(self, seq: int, time: int, type: str, event_class: EventClass) -> bool:  # noqa: A002
        """Tell whether an event with these facts is in the scope."""
        return (
            self.has_seq(seq)
            and self.has_type(type)
            and (self.time_start is None or time >= self.time_start)
            and (self.time_end is None or time <= self.time_end)
            and (self.classes is None or event_class in self.classes)
        )

    def has_seq(self, seq: int) -> bool:
        """Tell whether a seq is in the scope."""
        return seq >= self.start and (self.stop is None or seq < self.stop)

    def has_type(self, type: str) -> bool:  # noqa: A002 - the event's field
        """Tell whether an event type is in the scope."""
        return self.types is None or type in self.types


@frozen
class SessionScope:
    """
    Which sessions are searched. None of a field lets every one through.

    Attributes:
        ids: Session ids.

        cwds: Working directories; None among them is "without one".

        parents: Parents; None among them is "without one".

        created_start: Unix milliseconds, inclusive.

        created_end: Unix milliseconds, inclusive.

        availability: ``"live"`` and ``"persisted"``, one of which must hold; what an
            engine cannot know and its caller sees to.
    """

    ids: frozenset[str] | None = None
    cwds: frozenset[str | None] | None = None
    parents: frozenset[str | None] | None = None
    created_start: int | None = None
    created_end: int | None = None
    availability: tuple[frozenset[str], ...] = ()

    def admits(self, header: SessionHeader) -> bool:
        """Tell whether the session is in the scope, whatever its availability."""
        return self.admits_facts(header.id, header.cwd, header.parent_session, header.created_at)

    def admits_facts(
        self,
        id: str,  # noqa: A002 - the header's field
        cwd: str | None,
        parent: str | None,
        created_at: int,
    ) -> bool:
        """The same, of facts of the header."""
        return (
            (self.ids is None or id in self.ids)
            and (self.cwds is None or cwd in self.cwds)
            and (self.parents is None or parent in self.parents)
            and (self.created_start is None or created_at >= self.created_start)
            and (self.created_end is None or created_at <= self.created_end)
        )

    def admits_source(self, *, live: bool, persisted: bool) -> bool:
        """Tell whether a session that is held so is in the scope."""
        return all(
            (live and "live" in values) or (persisted and "persisted" in values)
            for values in self.availability
        )


def document_scope(filters: Iterable[EventFilter]) -> tuple[DocumentScope, tuple[Text, ...]]:
    """Return the scope of event filters, and those of them that need the text."""
    scope = DocumentScope()
    texts: list[Text] = []
    for f in filters:
        if isinstance(f, Seq):
            scope = evolve(
                scope.below(None if f.end is None else f.end + 1),
                start=max(scope.start, f.start or 0),
            )
        elif isinstance(f, Time):
            scope = evolve(
                scope,
                time_start=_later(scope.time_start, f.start),
                time_end=_earlier(scope.time_end, f.end),
            )
        elif isinstance(f, Types):
            scope = evolve(scope, types=_both(scope.types, f.values))
        elif isinstance(f, Classes):
            scope = evolve(scope, classes=_both(scope.classes, f.values))
        else:
            texts.append(f)
    return scope, tuple(texts)


def session_scope(filters: Iterable[SessionFilter]) -> SessionScope:
    """Return the scope of session filters."""
    scope = SessionScope()
    for f in filters:
        if isinstance(f, Ids):
            scope = evolve(scope, ids=_both(scope.ids, f.values))
        elif isinstance(f, Cwd):
            scope = evolve(scope, cwds=_both(scope.cwds, f.values))
        elif isinstance(f, Parent):
            scope = evolve(scope, parents=_both(scope.parents, f.values))
        elif isinstance(f, CreatedAt):
            scope = evolve(
                scope,
                created_start=_later(scope.created_start, f.start),
                created_end=_earlier(scope.created_end, f.end),
            )
        elif isinstance(f, Availability):
            scope = evolve(scope, availability=(*scope.availability, frozenset(f.values)))
    return scope


def _later(first: int | None, second: int | None) -> int | None:
    return second if first is None else first if second is None else max(first, second)


def _earlier(first: int | None, second: int | None) -> int | None:
    return second if first is None else first if second is None else min(first, second)


def _both(held: frozenset[T] | None, values: Sequence[T]) -> frozenset[T]:
    return frozenset(values) if held is None else held & frozenset(values)
