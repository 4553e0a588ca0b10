"""
The layout of an environment: its databases, keys and values, byte by byte.

This text is the specification of layout 1. Integers in keys are big-endian, so that
their order is that of the bytes; integers in values are little-endian. ``u64`` and
``i64`` have 8 bytes. ``crc`` is the CRC-32 of all bytes before it, 4 bytes.

========== ==================================== =======================================
database   key                                  value
========== ==================================== =======================================
about      ``layout``                           ``1``
about      ``store``                            16 random bytes: which store this is
sessions   id                                   ordinal u64, length u64, last time i64,
                                                feed position u64, header line, crc
newest     (2⁵³−1 − created at) u64, id         –
children   digest of the parent's id, 16 bytes, –
           (2⁵³−1 − created at) u64, id
events     ordinal u64, seq u64                 an event, see below
rows       ordinal u64, ``n``, label u64        node u64
rows       ordinal u64, ``l``, seq u64          label u64 of a replacement
rows       ordinal u64, ``r``, seq u64          nodes u64 … that it shadowed
rows       ordinal u64, ``s``, shadowed u64     its replacer u64
rows       ordinal u64, ``c``, source u64,      –
           citing seq u64
feed       position u64                         id
tombstones id                                   feed position u64, deleted u8
remains    ordinal u64                          –
========== ==================================== =======================================

- The *ordinal* is a session's identity: the feed position at its creation. Positions
  only grow, so no two sessions ever share one, not even under the same id.
- The *header line* is that of :mod:`eventlog.codec`.
- *feed* holds the latest change of each session, deleted ones included. Its greatest
  position never shrinks.
- A tombstone with *deleted* 0 was forgotten; it only remembers the feed position.
- *remains* names sessions that are deleted but whose events and rows are not all gone.
- The digest is BLAKE2b-128. A parent's id of 255 bytes, a time and a child's id would
  not fit into LMDB's keys of at most 511 bytes.

An event is::

    seq u64 | time i64 | sources u32 | type bytes u16 | flags u8
    [ start u64 | end u64 ]     with flag 2: the bounds of a replacement
    [ source u64 … ]            with flag 4
    type | payload | crc

Flags: 1 appends to the surface, 2 replaces, 4 has sources (perhaps none), 8 ignorable.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from typing import Final
from zlib import crc32

from eventlog.codec import decode_line, encode_line
from eventlog.errors import EventLogError
from eventlog.model import APPEND, Event, Replace, SessionHeader, SurfaceOp
from eventlog.values import TIME_MAX

__all__ = [
    "DATABASES",
    "LAYOUT",
    "Damaged",
    "SessionRow",
    "child_key",
    "children_prefix",
    "decode_events",
    "encode_event",
    "newest_key",
    "number_in",
    "place_in",
    "text_in",
    "tombstone_in",
]

LAYOUT: Final = b"1"
DATABASES: Final = (
    "about",
    "sessions",
    "newest",
    "children",
    "events",
    "rows",
    "feed",
    "tombstones",
    "remains",
)

U64: Final = struct.Struct(">Q")
EVENT_KEY: Final = struct.Struct(">QQ")
TOMBSTONE: Final = struct.Struct("<QB")

_SESSION: Final = struct.Struct("<QQqQ")
_ORDINAL: Final = struct.Struct("<Q")
_CRC: Final = struct.Struct("<I")
_EVENT: Final = struct.Struct("<QqIHB")
_EVENT_BYTES: Final = _EVENT.size
_BOUNDS: Final = struct.Struct("<QQ")

_APPENDS, _REPLACES, _HAS_SOURCES, _IGNORABLE = 1, 2, 4, 8
_SPECIAL = _REPLACES | _HAS_SOURCES

# The CRC-32 of any bytes followed by their own CRC-32: one call proves a whole value.
_CRC_RESIDUE: Final = 0x2144DF1C


class Damaged(Exception):
    """
    A value that is not what was written. The caller knows whose it is.

    Attributes:
        seq: The event concerned, None where it is none.

        detail: What was seen.
    """

    def __init__(self, seq: int | None, detail: str) -> None:
        super().__init__(seq, detail)
        self.seq = seq
        self.detail = detail


class SessionRow:
    """What the database *sessions* holds of one session."""

    __slots__ = ("header", "last_time", "length", "ordinal", "position")

    def __init__(
        self, ordinal: int, length: int, last_time: int, position: int, header: SessionHeader
    ) -> None:
        self.ordinal = ordinal
        self.length = length
        self.last_time = last_time
        self.position = position
        self.header = header

    @classmethod
    def decode(cls, value: bytes) -> SessionRow:
        """
        Read a row.

        Raises:
            Damaged: Its bytes are not those that were written.
        """
        if crc32(value) != _CRC_RESIDUE or len(value) < _SESSION.size + _CRC.size:
            raise Damaged(None, "the session's row does not match its checksum")
        ordinal, length, last_time, position = _SESSION.unpack_from(value)
        header = _decode_header(value[_SESSION.size : -_CRC.size])
        return cls(ordinal, length, last_time, position, header)

    @staticmethod
    def has_ordinal(value: bytes, ordinal: int) -> bool:
        """Tell whether a row is that of *ordinal*, by looking at nothing else."""
        return value.startswith(_ORDINAL.pack(ordinal))

    def encode(self) -> bytes:
        """Return the row's bytes."""
        numbers = _SESSION.pack(self.ordinal, self.length, self.last_time, self.position)
        return _sealed(numbers + _encode_header(self.header))


# Headers never change, so those read lately are kept by their bytes.
@lru_cache(maxsize=1024)
def _decode_header(line: bytes) -> SessionHeader:
    try:
        header = decode_line(line)
    except EventLogError as error:
        raise Damaged(None, f"the header is malformed: {error}") from error
    if type(header) is not SessionHeader:
        raise Damaged(None, "the header is none")
    return header


@lru_cache(maxsize=1024)
def _encode_header(header: SessionHeader) -> bytes:
    return encode_line(header)


def newest_key(created_at: int, session_id: str) -> bytes:
    """Return the key of a session in *newest*."""
    return U64.pack(TIME_MAX - created_at) + session_id.encode()


def child_key(parent_id: str, created_at: int, session_id: str) -> bytes:
    """Return the key of a session in *children*."""
    return children_prefix(parent_id) + newest_key(created_at, session_id)


def children_prefix(parent_id: str) -> bytes:
    """Return what the keys of all children of *parent_id* start with."""
    return blake2b(parent_id.encode(), digest_size=16).digest()


def place_in(key: bytes) -> tuple[int, str]:
    """
    Return the creation time and the id in a key of *newest*.

    Raises:
        Damaged: It is none.
    """
    return TIME_MAX - number_in(key[: U64.size]), text_in(key[U64.size :])


def number_in(key: bytes) -> int:
    """
    Return the number that is a whole key.

    Raises:
        Damaged: It is none.
    """
    if len(key) != U64.size:
        raise Damaged(None, f"a key has {len(key)} bytes instead of {U64.size}")
    number: int = U64.unpack(key)[0]
    return number


def text_in(value: bytes) -> str:
    """
    Return a text.

    Raises:
        Damaged: It is none.
    """
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise Damaged(None, f"an id is no UTF-8: {error}") from error


def tombstone_in(value: bytes) -> tuple[int, bool]:
    """
    Return the feed position and whether the session is deleted, and not forgotten.

    Raises:
        Damaged: It is no tombstone.
    """
    if len(value) != TOMBSTONE.size:
        raise Damaged(None, f"a tombstone has {len(value)} bytes instead of {TOMBSTONE.size}")
    position, deleted = TOMBSTONE.unpack(value)
    return position, bool(deleted)


def encode_event(event: Event) -> bytes:
    """Return the value of *event*. Cost: O(bytes); the payload is copied, not decoded."""
    op, name = event.surface_op, event.type.encode()
    flags = _IGNORABLE if event.ignorable else 0
    if op is APPEND:
        flags |= _APPENDS
    if event.source_event_seqs is None and (op is None or op is APPEND):
        body = _EVENT.pack(event.seq, event.time, 0, len(name), flags) + name + event.payload
    else:
        body = _special_body(event, name, flags)
    return body + _CRC.pack(crc32(body))


def _special_body(event: Event, name: bytes, flags: int) -> bytes:
    op, sources = event.surface_op, event.source_event_seqs
    more = b""
    count = 0
    if type(op) is Replace:
        flags |= _REPLACES
        more = _BOUNDS.pack(op.start, op.end)
    elif op is not None:
        flags |= _APPENDS
    if sources is not None:
        flags |= _HAS_SOURCES
        count = len(sources)
        more += struct.pack(f"<{count}Q", *sources)
    head = _EVENT.pack(event.seq, event.time, count, len(name), flags)
    return b"".join((head, more, name, event.payload))


def decode_events(values: Iterable[bytes], start: int, count: int) -> tuple[list[Event], int]:
    """
    Build *count* events with the seqs from *start* on. Payloads are not decoded.

    Args:
        values: At least the values of these events, in order; no more are taken.

    Returns:
        The events, and how many bytes their values have.

    Raises:
        Damaged: One of them is missing, is another one, or was not written so.
    """
    taken = list(islice(values, count))
    events: list[Event] = []
    # Everything in this loop is paid for each event of each window.
    add, unpack, build, types = events.append, _EVENT.unpack_from, Event.from_payload, _types
    seq = start
    try:
        for seq, value in enumerate(taken, start):
            if crc32(value) != _CRC_RESIDUE:
                raise Damaged(seq, "the event does not match its checksum")
            found, time, sources_count, name_bytes, flags = unpack(value)
            if found != seq:
                raise Damaged(seq, f"event {found} stands in its place")
            if flags & _SPECIAL:
                op, sources, at = _specials(value, flags, sources_count)
            else:
                op, sources, at = (APPEND if flags & _APPENDS else None), None, _EVENT_BYTES
            end = at + name_bytes
            name = types.get(value[at:end]) or _type_of(value[at:end])
            add(build(seq, time, name, value[end:-4], op, sources, flags >= _IGNORABLE))
    except struct.error as error:
        raise Damaged(seq, f"the event is too short: {error}") from error
    except (UnicodeDecodeError, EventLogError) as error:
        raise Damaged(seq, f"the event is malformed: {error}") from error
    if len(events) != count:
        raise Damaged(start + len(events), "the event is missing")
    return events, sum(map(len, taken))


def _specials(
    value: bytes, flags: int, sources_count: int
) -> tuple[SurfaceOp | None, tuple[int, ...] | None, int]:
    """Read an event's bounds and sources, where it has them; and where its type stands."""
    at = _EVENT_BYTES
    op: SurfaceOp | None = APPEND if flags & _APPENDS else None
    sources: tuple[int, ...] | None = None
    if flags & _REPLACES:
        op = Replace(*_BOUNDS.unpack_from(value, at))
        at += _BOUNDS.size
    if flags & _HAS_SOURCES:
        sources = struct.Struct(f"<{sources_count}Q").unpack_from(value, at)
        at += 8 * sources_count
    return op, sources, at


# Types recur. Bounded, since a hostile log may have a new one in every event.
_types: dict[bytes, str] = {}


def _type_of(name: bytes) -> str:
    text = name.decode()
    if len(_types) < 1024:
        _types[name] = text
    return text


def _sealed(body: bytes) -> bytes:
    return body + _CRC.pack(crc32(body))
