"""
The records of the log: headers, events, and what a listing says of a session.

All of them are frozen. What a caller may change, it gets as a fresh copy: an event keeps
the canonical bytes of its data and decodes them at each access.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, TypeAlias

import orjson
from attrs import field, frozen

from eventlog import values
from eventlog.errors import InvalidSurface, ValueRejected
from eventlog.values import JSONValue

__all__ = [
    "APPEND",
    "FORMAT_VERSION",
    "Append",
    "Batch",
    "Event",
    "EventClass",
    "Fault",
    "HeadKey",
    "HeadPage",
    "Replace",
    "SessionHead",
    "SessionHeader",
    "SurfaceOp",
]

FORMAT_VERSION: Final = 0


class EventClass(StrEnum):
    """How an event stands to the surface."""

    CURRENT = "current"
    """On the surface: the model sees it."""

    SHADOWED = "shadowed"
    """Was on the surface, and was replaced."""

    LOG_ONLY = "log-only"
    """Never was on the surface."""


@frozen
class Append:
    """The surface op that puts an event at the end of the surface; use :data:`APPEND`."""

    def __repr__(self) -> str:
        return "APPEND"


APPEND: Final = Append()


@frozen
class Replace:
    """
    The surface op that puts an event in the place of a range of nodes.

    Attributes:
        start: The seq of the first node replaced.

        end: The seq of the last one, inclusive, at or after *start* in surface order;
            its number may be smaller.

    Raises:
        ValueRejected: A bound is no seq.
    """

    start: int
    end: int

    def __attrs_post_init__(self) -> None:
        values.check_int(self.start, "surface_op.start")
        values.check_int(self.end, "surface_op.end")


SurfaceOp: TypeAlias = Append | Replace


@frozen(init=False, repr=False)
class SessionHeader:
    """
    The creation facts of a session. They never change; what changes is an event.

    Attributes:
        id: 1–255 bytes of UTF-8 without control characters. Compared exactly.

        created_at: Unix milliseconds, 0 … 2⁵³−1.

        cwd: The working directory, None where there is none.

        parent_session: The id of the session that this one came from, or None. It need
            not exist.

        seed_length: How many of the first events were copied from the parent, or None.

        origin: Who made the session, such as ``"subagent"``, or None.

        delegation_depth: How many delegations lead here; 0 for a session of a person.

        agent_preset: The name of the agent's configuration, or None.

        version: The format's version; stores append to version 0 only.

        extra: Further header fields, kept as they came. A detached copy at each access.

    Equal when their canonical encodings are; the order of keys in *extra* counts.

    Raises:
        ValueRejected: A field holds something else; *path* is its name.
    """

    id: str
    created_at: int
    cwd: str | None
    parent_session: str | None
    seed_length: int | None
    origin: str | None
    delegation_depth: int
    agent_preset: str | None
    version: int
    extra_payload: bytes

    def __init__(
        self,
        id: str,  # noqa: A002 - the field's own name
        created_at: int,
        *,
        cwd: str | None = None,
        parent_session: str | None = None,
        seed_length: int | None = None,
        origin: str | None = None,
        delegation_depth: int = 0,
        agent_preset: str | None = None,
        version: int = FORMAT_VERSION,
        extra: Mapping[str, JSONValue] | None = None,
    ) -> None:
        values.check_session_id(id)
        values.check_int(created_at, "created_at")
        if parent_session is not None:
            values.check_session_id(parent_session, path="parent_session")
        if seed_length is not None:
            values.check_int(seed_length, "seed_length")
        values.check_int(delegation_depth, "delegation_depth")
        values.check_int(version, "version")
        for name, text in (("cwd", cwd), ("origin", origin), ("agent_preset", agent_preset)):
            if text is not None:
                values.check_text(text, name)
        self.__attrs_init__(
            id,
            created_at,
            cwd,
            parent_session,
            seed_length,
            origin,
            delegation_depth,
            agent_preset,
            version,
            _encode_extra(extra),
        )

    @property
    def extra(self) -> dict[str, JSONValue]:
        return values.decode(self.extra_payload)

    def __repr__(self) -> str:
        parts = [f"{self.id!r}", f"created_at={self.created_at}"]
        for name, absent in _HEADER_DEFAULTS.items():
            value = getattr(self, name)
            if value != absent:
                parts.append(f"{name}={values.shown(value, 200)}")
        return f"SessionHeader({', '.join(parts)})"


_HEADER_DEFAULTS: Final[dict[str, Any]] = {
    "cwd": None,
    "parent_session": None,
    "seed_length": None,
    "origin": None,
    "delegation_depth": 0,
    "agent_preset": None,
    "version": FORMAT_VERSION,
    "extra": {},
}

# Extra fields would be read back as these, so they cannot bear their wire names.
_HEADER_WIRE_NAMES: Final = frozenset(
    {
        "type",
        "version",
        "id",
        "createdAt",
        "cwd",
        "parentSession",
        "seedLength",
        "origin",
        "delegationDepth",
        "agentPreset",
    }
)


def _encode_extra(extra: Mapping[str, JSONValue] | None) -> bytes:
    if extra is None:
        return b"{}"
    payload = values.encode(extra, path="extra")
    for name in extra:
        if name in _HEADER_WIRE_NAMES:
            raise ValueRejected(f"extra.{name}", "is a field of its own")
    return payload


class _EventSlots:
    """
    Where an event keeps its fields. Only this module sees one that is not an event yet.

    Long windows spend most of their time in making events. Slots of a plain class are set
    in a third of the time that those of a frozen one take in any way, its own setters too.
    """

    __slots__ = (
        "__weakref__",
        "ignorable",
        "payload",
        "seq",
        "source_event_seqs",
        "surface_op",
        "time",
        "type",
    )


@frozen(init=False, repr=False)
class Event(_EventSlots):
    """
    One entry of a session's log. Never edited once appended.

    Attributes:
        seq: Its place in the log: 0, 1, 2 … without gaps.

        time: Unix milliseconds within ±(2⁵³−1). It may step back; order is by seq.

        type: 1–128 characters without control characters or spaces.

        payload: The canonical encoding of its data; see :mod:`eventlog.values`.

        surface_op: :data:`APPEND`, a :class:`Replace`, or None for an event that the
            model never sees.

        source_event_seqs: Earlier events that it cites; None is "not recorded", an
            empty tuple is "known to be none".

        ignorable: Whether a harness that does not know the type may resume the log.

    Equal when all of these are.

    Args:
        data: A JSON object; validated and encoded here, once.

    Raises:
        ValueRejected: A field or a value inside *data* is not accepted.

        InvalidSurface: *source_event_seqs* is no list or tuple of seqs, or *surface_op*
            is no surface op.

    Cost: O(size of *data*).
    """

    seq: int
    time: int
    type: str
    payload: bytes
    surface_op: SurfaceOp | None
    source_event_seqs: tuple[int, ...] | None
    ignorable: bool

    def __init__(
        self,
        seq: int,
        time: int,
        type: str,  # noqa: A002 - the field's own name
        data: Mapping[str, JSONValue],
        *,
        surface_op: SurfaceOp | None = None,
        source_event_seqs: Sequence[int] | None = None,
        ignorable: bool = False,
    ) -> None:
        values.check_int(seq, "seq")
        check_time(time)
        values.check_event_type(type)
        if ignorable is not True and ignorable is not False:
            raise ValueRejected("ignorable", f"must be a bool, not {values.shown(ignorable)}")
        self.__attrs_init__(
            seq,
            time,
            type,
            values.encode(data),
            _checked_op(seq, surface_op),
            _checked_sources(seq, source_event_seqs),
            ignorable,
        )

    @classmethod
    def from_payload(
        cls,
        seq: int,
        time: int,
        type: str,  # noqa: A002
        payload: bytes,
        surface_op: SurfaceOp | None = None,
        source_event_seqs: tuple[int, ...] | None = None,
        ignorable: bool = False,
    ) -> Event:
        """
        Rebuild an event from facts that were checked before: for drivers.

        Nothing is validated. *payload* must be a canonical encoding.

        Cost: O(1); the payload is not decoded.
        """
        made: Any = _EventSlots()
        made.seq = seq
        made.time = time
        made.type = type
        made.payload = payload
        made.surface_op = surface_op
        made.source_event_seqs = source_event_seqs
        made.ignorable = ignorable
        made.__class__ = cls  # frozen from here on
        event: Event = made
        return event

    @property
    def data(self) -> dict[str, JSONValue]:
        """The data, decoded afresh: a detached copy. Cost: O(bytes)."""
        value: dict[str, JSONValue] = orjson.loads(self.payload)
        return value

    @property
    def is_node(self) -> bool:
        """Whether the event entered the surface: exactly when it has a surface op."""
        return self.surface_op is not None

    def __repr__(self) -> str:
        parts = [str(self.seq), self.type]
        if self.surface_op is not None:
            parts.append(repr(self.surface_op))
        if self.source_event_seqs is not None:
            parts.append(f"{len(self.source_event_seqs)} sources")
        if self.ignorable:
            parts.append("ignorable")
        return f"<Event {' '.join(parts)}, {len(self.payload)} bytes>"


def check_time(value: object, *, path: str = "time") -> None:
    """
    Refuse *value* unless it is Unix milliseconds within ±(2⁵³−1).

    Raises:
        ValueRejected: It is not.
    """
    values.check_int(value, path, minimum=-values.TIME_MAX, maximum=values.TIME_MAX)


def _checked_op(seq: int, op: object) -> SurfaceOp | None:
    if op is None or type(op) is Append or type(op) is Replace:
        return op
    raise InvalidSurface(
        seq, f"surface_op must be APPEND, Replace(start, end) or None, not {values.shown(op)}"
    )


def _checked_sources(seq: int, sources: object) -> tuple[int, ...] | None:
    if sources is None:
        return None
    if type(sources) is not list and type(sources) is not tuple:
        raise InvalidSurface(seq, f"sources must be a list, not {type(sources).__name__}")
    for source in sources:
        if not values.is_seq(source):
            raise InvalidSurface(seq, f"sources must be seqs, but hold {values.shown(source)}")
    return tuple(sources)


@frozen
class Batch:
    """
    Events to append to one session.

    Attributes:
        header: The session's header.

        events: Consecutive events; may be empty.
    """

    header: SessionHeader
    events: Sequence[Event]

    def __repr__(self) -> str:
        return f"<Batch of {len(self.events)} events for {self.header.id!r}>"


@frozen
class SessionHead:
    """
    What a store knows of a session without reading its events.

    Attributes:
        header: Its header.

        length: How many events it has, and so the next free seq.

        last_time: The time of its last event, Unix milliseconds; None while it has none.
    """

    header: SessionHeader
    length: int
    last_time: int | None


@frozen
class HeadKey:
    """
    A place in the order of a listing: newest first, then by id in code point order.

    Attributes:
        created_at: The session's creation time, Unix milliseconds.

        session_id: Its id.
    """

    created_at: int
    session_id: str

    @classmethod
    def from_header(cls, header: SessionHeader) -> HeadKey:
        """Return the place of *header*'s session."""
        return cls(header.created_at, header.id)

    @property
    def sort_key(self) -> tuple[int, str]:
        """A key by which ascending order is the order of listings."""
        return (-self.created_at, self.session_id)


@frozen
class Fault:
    """
    Something that could not be read, reported beside what could.

    Attributes:
        session_id: The session concerned, None where it is not known.

        path: The file concerned, None where there is none.

        kind: The class of damage, as in :class:`~eventlog.errors.CorruptLog`; or
            ``"denied"`` where the system refuses to open it.

        detail: What was seen, for a person.
    """

    session_id: str | None
    path: str | None
    kind: str
    detail: str


@frozen
class HeadPage:
    """
    One page of a listing.

    Attributes:
        items: At most *limit* heads, newest first.

        next_key: The *after* of the next page, None at the end.

        faults: Sessions of this listing that could not be read.
    """

    items: tuple[SessionHead, ...]
    next_key: HeadKey | None
    faults: tuple[Fault, ...] = field(default=())

    def __repr__(self) -> str:
        parts = [f"{len(self.items)} sessions"]
        if self.next_key is not None:
            parts.append(f"more after {self.next_key!r}")
        if self.faults:
            parts.append(f"{len(self.faults)} faults")
        return f"<HeadPage of {', '.join(parts)}>"
