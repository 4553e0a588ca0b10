"""
Filters: what a listing is narrowed to.

Filters of one call are ANDed, the values within one are ORed, and a filter without values
matches nothing. Ranges are inclusive at both ends; an end that is None is open. A filter
that cannot be meant is refused where it is made, with INVALID_FILTER; made, it never fails.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias, TypeVar, get_args
from unicodedata import normalize

from attrs import astuple, field, frozen

from eventlog.model import EventClass
from eventlog.values import TIME_MAX, JSONValue, is_seq, shown

from .errors import Code, SessionQueryError
from .records import EventRecord, SessionRecord

__all__ = [
    "Availability",
    "Classes",
    "CreatedAt",
    "Cwd",
    "EventFilter",
    "Ids",
    "Parent",
    "Seq",
    "SessionFilter",
    "Text",
    "Time",
    "Types",
]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
LIVE: Final = "live"
PERSISTED: Final = "persisted"

Instant: TypeAlias = int | datetime
"""Unix milliseconds, or a datetime with a zone; what is finer than 1 ms counts."""


def _refused(reason: str) -> SessionQueryError:
    return SessionQueryError(Code.INVALID_FILTER, reason)


def _values(given: object) -> tuple[object, ...]:
    # A str is a collection of its characters, which is never meant.
    if not isinstance(given, Collection) or isinstance(given, (str, bytes, Mapping)):
        raise _refused(f"values must be a list, not {type(given).__name__}")
    return tuple(given)


def _texts(given: Collection[str]) -> tuple[str, ...]:
    for value in _values(given):
        if type(value) is not str:
            raise _refused(f"values must be str, not {type(value).__name__}")
    return tuple(sorted(set(given)))


def _texts_or_none(given: Collection[str | None]) -> tuple[str | None, ...]:
    texts = _texts([value for value in _values(given) if value is not None])  # type: ignore[misc]
    return (None, *texts) if None in given else texts


def _classes(given: Collection[EventClass | str]) -> tuple[EventClass, ...]:
    texts = _texts([str(value) if isinstance(value, str) else value for value in _values(given)])  # type: ignore[misc]
    for value in texts:
        if value not in set(EventClass):
            raise _refused(f"no event class: {shown(value)}")
    return tuple(kind for kind in EventClass if kind in texts)


def _availability(given: Collection[str]) -> tuple[str, ...]:
    texts = _texts(given)
    for value in texts:
        if value not in (LIVE, PERSISTED):
            raise _refused(f"availability is {LIVE!r} or {PERSISTED!r}, not {shown(value)}")
    return texts


@frozen
class Ids:
    """Sessions with one of these ids. Cost of the listing: the ids given."""

    values: tuple[str, ...] = field(converter=_texts)

    def matches(self, record: SessionRecord) -> bool:
        return record.header.id in self.values


@frozen
class Cwd:
    """Sessions whose working directory is exactly one of these; None matches those without."""

    values: tuple[str | None, ...] = field(converter=_texts_or_none)

    def matches(self, record: SessionRecord) -> bool:
        return record.header.cwd in self.values


@frozen
class Parent:
    """
    Sessions whose header names one of these parents; None matches those without a parent.

    Cost of the listing: the children of the parents given, where None is not among them.
    """

    values: tuple[str | None, ...] = field(converter=_texts_or_none)

    def matches(self, record: SessionRecord) -> bool:
        return record.header.parent_session in self.values


@frozen
class Availability:
    """Sessions held by one of these sources: ``"live"``, ``"persisted"``."""

    values: tuple[str, ...] = field(converter=_availability)

    def matches(self, record: SessionRecord) -> bool:
        return (record.live and LIVE in self.values) or (
            record.persisted and PERSISTED in self.values
        )


@frozen(init=False)
class CreatedAt:
    """
    Sessions created from *start* to *end*, both inclusive.

    Attributes:
        start: Unix milliseconds, None for no bound. Given as such or as a datetime with
            a zone.

        end: The same.
    """

    start: int | None
    end: int | None

    def __init__(self, start: Instant | None = None, end: Instant | None = None) -> None:
        self.__attrs_init__(*_span(start, end))

    def matches(self, record: SessionRecord) -> bool:
        return _within(record.header.created_at, self.start, self.end)


@frozen
class Seq:
    """Events from seq *start* to seq *end*, both inclusive; None for no bound."""

    start: int | None = None
    end: int | None = None

    def __attrs_post_init__(self) -> None:
        for bound in (self.start, self.end):
            if bound is not None and not is_seq(bound):
                raise _refused(f"a seq is an int ≥ 0, not {shown(bound)}")
        _check_order(self.start, self.end)

    def matches(self, record: EventRecord, text: Callable[[], str]) -> bool:
        return _within(record.seq, self.start, self.end)


@frozen(init=False)
class Time:
    """
    Events whose time is from *start* to *end*, both inclusive. Times may step back along a
    log, so this never ends a scan.

    Attributes:
        start: Unix milliseconds, None for no bound. Given as such or as a datetime with
            a zone.

        end: The same.
    """

    start: int | None
    end: int | None

    def __init__(self, start: Instant | None = None, end: Instant | None = None) -> None:
        self.__attrs_init__(*_span(start, end))

    def matches(self, record: EventRecord, text: Callable[[], str]) -> bool:
        return _within(record.time, self.start, self.end)


@frozen
class Types:
    """Events of one of these types."""

    values: tuple[str, ...] = field(converter=_texts)

    def matches(self, record: EventRecord, text: Callable[[], str]) -> bool:
        return record.type in self.values


@frozen
class Classes:
    """Events that stand to the surface in one of these ways."""

    values: tuple[EventClass, ...] = field(converter=_classes)

    def matches(self, record: EventRecord, text: Callable[[], str]) -> bool:
        return record.event_class in self.values


@frozen
class Text:
    """
    Events whose text holds *text* literally: any case, and any run of white space for any
    other. Composed and decomposed letters are the same. Nothing in it is a pattern.
    """

    text: str
    _needle: str = field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        if type(self.text) is not str:
            raise _refused(f"text must be a str, not {type(self.text).__name__}")
        needle = _folded(self.text)
        if not needle:
            raise _refused("text must not be blank")
        object.__setattr__(self, "_needle", needle)

    def matches(self, record: EventRecord, text: Callable[[], str]) -> bool:
        return self._needle in _folded(text())


SessionFilter: TypeAlias = Ids | Cwd | Parent | Availability | CreatedAt
EventFilter: TypeAlias = Seq | Time | Types | Classes | Text


def session_filters(filters: object) -> tuple[SessionFilter, ...]:
    """
    Return the session filters of a call, detached from the caller's list.

    Raises:
        SessionQueryError: INVALID_FILTER: it is no list of them.
    """
    return _checked(filters, get_args(SessionFilter), "session")


def event_filters(filters: object) -> tuple[EventFilter, ...]:
    """
    Return the event filters of a call, the dear ones last, detached from the caller's list.

    Raises:
        SessionQueryError: INVALID_FILTER: it is no list of them.
    """
    found: tuple[EventFilter, ...] = _checked(filters, get_args(EventFilter), "event")
    return tuple(sorted(found, key=lambda f: isinstance(f, Text)))


def described(filters: Iterable[SessionFilter | EventFilter]) -> JSONValue:
    """Return *filters* as JSON values: equal for equal filters, in every process."""
    return [[type(f).__name__, *astuple(f, recurse=False)] for f in filters]


def seq_range(filters: Iterable[EventFilter], start: int, stop: int) -> tuple[int, int]:
    """Return the part of ``[start, stop)`` outside which no event passes *filters*."""
    for f in filters:
        if isinstance(f, Seq):
            start = start if f.start is None else max(start, f.start)
            stop = stop if f.end is None else min(stop, f.end + 1)
    return start, max(start, stop)


T = TypeVar("T")


def _checked(filters: object, kinds: tuple[type[T], ...], name: str) -> tuple[T, ...]:
    if isinstance(filters, (str, bytes)) or not isinstance(filters, Sequence):
        raise _refused(f"filters must be a list, not {type(filters).__name__}")
    held = tuple(filters)
    for f in held:
        if type(f) not in kinds:
            raise _refused(f"no {name} filter: {type(f).__name__}")
    return held


def _within(value: int, start: int | None, end: int | None) -> bool:
    return (start is None or value >= start) and (end is None or value <= end)


def _check_order(start: int | None, end: int | None) -> None:
    if start is not None and end is not None and start > end:
        raise _refused(f"the range ends before it starts: {start} … {end}")


def _span(start: object, end: object) -> tuple[int | None, int | None]:
    first, last = _microseconds(start), _microseconds(end)
    _check_order(first, last)
    # Times are whole milliseconds, so a finer bound moves inwards to the next one.
    return (
        None if first is None else -(-first // 1000),
        None if last is None else last // 1000,
    )


def _microseconds(instant: object) -> int | None:
    if instant is None:
        return None
    if isinstance(instant, datetime):
        if instant.utcoffset() is None:
            raise _refused(f"a datetime needs a zone: {instant.isoformat()}")
        return (instant - EPOCH) // timedelta(microseconds=1)
    if type(instant) is not int or abs(instant) > TIME_MAX:
        raise _refused(
            f"a time is Unix milliseconds or a datetime with a zone, not {shown(instant)}"
        )
    return instant * 1000


def _folded(text: str) -> str:
    return " ".join(normalize("NFC", text).casefold().split())
