"""
What a line says before its data: enough to find it, and enough to fold it.

All functions take a line without its LF.

Lines as we write them, and as most others do, start with ``type``, ``seq`` and ``time``; a
pattern reads those. Any other order of keys is JSON just as well: such a line is parsed.
"""

from __future__ import annotations

import re
from typing import Final

import orjson

from eventlog.codec import decode_line
from eventlog.errors import ValueRejected
from eventlog.model import APPEND, Event, Replace, SessionHeader, SurfaceOp
from eventlog.surface import MUST_BE_NODES, TOOL_RESULT
from eventlog.values import DEPTH_MAX, PAYLOAD_BYTES_MAX, SEQ_MAX, TIME_MAX, check_event_type

__all__ = [
    "START_BYTES",
    "events_of",
    "first_seq",
    "inert_seq",
    "is_padding",
    "plain_seq",
    "skeletons_of",
    "start_seq",
]

# The start of a line within which its seq stands, where it stands in front: a type of 128
# characters in UTF-8, and the keys.
START_BYTES: Final = 640

_PLAIN_TYPE = rb'"type":"([^"\\\x00-\x1f]*)"'
_SEQ = rb"(0|[1-9][0-9]{0,15})"
_PLAIN_START = re.compile(rb"\{(?:" + _PLAIN_TYPE + rb',)?"seq":' + _SEQ + rb",")
_PACKED_START = re.compile(rb'\{"type":"[a-z]+(?:-[a-z]+)?-chunks","seq0":' + _SEQ + rb",")
_HEAD = re.compile(
    rb"\{"
    + _PLAIN_TYPE
    + rb',"seq":'
    + _SEQ
    + rb',"time":(0|-?[1-9][0-9]{0,15})'
    + rb'(?:,"sourceEventSeqs":\[((?:[0-9]{1,15}(?:,[0-9]{1,15})*)?)\])?'
    + rb'(?:,"surfaceOp":(?:("append")|\{"op":"replace","start":'
    + _SEQ
    + rb',"end":'
    + _SEQ
    + rb"\}))?"
    + rb'(,"ignorable":true)?,"data":\{'
)
# A usual start of an event that neither a rule of the fold nor the surface asks for.
_INERT = re.compile(
    rb'\{"type":"(?!(?:'
    + "|".join(sorted(MUST_BE_NODES)).encode()
    + rb')")([^"\\\x00-\x1f]*)","seq":'
    + _SEQ
    + rb',"time":(?:0|-?[1-9][0-9]{0,15})(?:,"ignorable":true)?,"data":\{'
)
_PADDING = b"\x00 \t\r\n"

# Event types already seen, decoded and checked. Bounded, since a hostile log may have a
# new type in every event.
_types: dict[bytes, str] = {}


def is_padding(line: bytes) -> bool:
    """Tell whether *line* holds nothing but NUL and white space."""
    return not line.strip(_PADDING)


def start_seq(start: bytes) -> int | None:
    """
    Return the first seq of the line that begins with *start*, at least
    :data:`START_BYTES` of it or all; None where it is not in front or there is none.
    """
    seq = plain_seq(start)
    if seq is not None:
        return seq
    found = _PACKED_START.match(start)
    return None if found is None else int(found[1])


def plain_seq(start: bytes) -> int | None:
    """Return the seq of a line that is no packed row, as :func:`start_seq` does."""
    found = _PLAIN_START.match(start)
    return None if found is None else int(found[2])


def first_seq(line: bytes) -> int | None:
    """
    Return the first seq of a whole line; None where it has none that can be read.

    Cost: O(1) where it is in front, else one parse.
    """
    seq = start_seq(line)
    if seq is not None:
        return seq
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if type(record) is not dict:
        return None
    seq = record.get("seq", record.get("seq0"))
    return seq if type(seq) is int and 0 <= seq <= SEQ_MAX else None


def events_of(line: bytes) -> list[Event]:
    """
    Return the events of a whole line, of which a packed row has several.

    Raises:
        ValueRejected: It is malformed, or a header.

        InvalidSurface: An event's sources are no list of seqs.
    """
    line = line.removesuffix(b"\r")
    event = _written_as_usual(line)
    if event is not None:
        return [event]
    record = decode_line(line)
    if type(record) is Event:
        return [record]
    if type(record) is SessionHeader:
        raise ValueRejected("type", "is a second header")
    assert type(record) is list
    return record


def _written_as_usual(line: bytes) -> Event | None:
    """
    Read a line that stands as we write it; None for any other, good or not.

    Data that dumps to the bytes it was read from is canonical, and so within every rule
    but that of depth; that it ends where the line does shows that no key stands behind it.
    """
    found = _HEAD.match(line)
    if found is None or not line.endswith(b"}"):
        return None
    payload = line[found.end() - 1 : -1]
    if len(payload) > PAYLOAD_BYTES_MAX or payload.count(b"{") + payload.count(b"[") > DEPTH_MAX:
        return None
    try:
        if orjson.dumps(orjson.loads(payload)) != payload:
            return None
    except (orjson.JSONDecodeError, TypeError):
        return None
    return _built(found, payload)


def skeletons_of(line: bytes) -> list[Event]:
    """
    Return the events of a whole line for folding: their data may be missing.

    The data is cut off unread where the line shows that nothing stands behind it. A
    rewritten tool result keeps its data, since the fold compares it.

    Cost: O(1) and a search for the last bracket; one parse where that does not do.

    Raises:
        ValueRejected: It is malformed, or a header. Damage inside data that was cut off
            goes unseen.

        InvalidSurface: An event's sources are no list of seqs.
    """
    line = line.removesuffix(b"\r")
    found = _HEAD.match(line)
    if found is not None and _data_is_last(line):
        event = _built(found, b"{}")
        if event is not None:
            is_rewrite = event.type == TOOL_RESULT and type(event.surface_op) is Replace
            return events_of(line) if is_rewrite else [event]
    return events_of(line)


def inert_seq(line: bytes) -> int | None:
    """
    Return the seq of a line that holds one event which a fold may pass by.

    Null case: None for any other line, and for one that has to be looked at closer to tell.

    Cost: that of :func:`skeletons_of` without building an event, about a third.
    """
    found = _INERT.match(line)
    if found is None or found[1] not in _types or not _data_is_last(line):
        return None
    return int(found[2])


def _data_is_last(line: bytes) -> bool:
    """
    Tell whether the data of a line that began as usual is surely the last of its keys.

    The line must end in two brackets. The inner one closes the data, or else a surface op
    behind it, which holds no bracket itself: so only an innermost object that may be an op
    is in doubt.
    """
    if line.endswith((b"}}}", b"]}}")):
        return True
    if not line.endswith(b"}}"):
        return False
    inner = line.rfind(b"{", 0, -2) + 1
    if line.rfind(b"}", inner, -2) >= 0:
        return True
    last = line[inner:-2]
    return b'"op"' not in last and b"\\" not in last


def _built(found: re.Match[bytes], payload: bytes) -> Event | None:
    """Build the event of a usual start; None where its numbers need a closer look."""
    tag, seq, time, sources, append, start, end, ignorable = found.groups()
    cited: tuple[int, ...] | None = None
    if sources is not None:
        if b",0" in sources or sources[:1] == b"0":
            return None  # seq 0, or a number with zeros in front
        cited = tuple(map(int, sources.split(b","))) if sources else ()
    op: SurfaceOp | None = None
    if append is not None:
        op = APPEND
    elif start is not None:
        op = Replace(int(start), int(end))
    number, at = int(seq), int(time)
    if number > SEQ_MAX or not -TIME_MAX <= at <= TIME_MAX:
        return None
    kind = _types.get(tag) or _known_type(tag)
    return Event.from_payload(number, at, kind, payload, op, cited, ignorable is not None)


def _known_type(tag: bytes) -> str:
    try:
        kind = tag.decode()
    except UnicodeDecodeError:
        raise ValueRejected("type", "is not UTF-8") from None
    check_event_type(kind)
    if len(_types) < 1024:
        _types[tag] = kind
    return kind
