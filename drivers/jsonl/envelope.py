"""
What a line says before its data: enough to find it, and enough to fold it.

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
from eventlog.surface import TOOL_RESULT
from eventlog.values import SEQ_MAX, TIME_MAX, check_event_type

__all__ = [
    "START_BYTES",
    "events_of",
    "first_seq",
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
    + rb'(?:,"sourceEventSeqs":\[((?:[0-9]{1,16}(?:,[0-9]{1,16})*)?)\])?'
    + rb'(?:,"surfaceOp":(?:("append")|\{"op":"replace","start":'
    + _SEQ
    + rb',"end":'
    + _SEQ
    + rb"\}))?"
    + rb'(,"ignorable":true)?,"data":\{'
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
    record = decode_line(line[:-2] if line.endswith(b"\r\n") else line)
    if type(record) is Event:
        return [record]
    if type(record) is SessionHeader:
        raise ValueRejected("type", "is a second header")
    assert type(record) is list
    return record


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
    found = _HEAD.match(line)
    if found is None or not _data_is_last(line):
        return events_of(line)
    tag, seq, time, sources, append, start, end, ignorable = found.groups()
    kind = _types.get(tag) or _known_type(tag)
    op: SurfaceOp | None = None
    if append is not None:
        op = APPEND
    elif start is not None:
        if kind == TOOL_RESULT:
            return events_of(line)
        op = Replace(int(start), int(end))
    at = int(time)
    if not -TIME_MAX <= at <= TIME_MAX or (sources and b",0" in sources):
        return events_of(line)
    cited = None if sources is None else tuple(map(int, sources.split(b","))) if sources else ()
    return [Event.from_payload(int(seq), at, kind, b"{}", op, cited, ignorable is not None)]


def _data_is_last(line: bytes) -> bool:
    """
    Tell whether the data of a line that began as usual is surely the last of its keys.

    The line must end in two brackets. The inner one closes the data, or else a surface op
    behind it, which holds no bracket itself: so only an innermost object that may be an op
    is in doubt.
    """
    stop = -3 if line.endswith(b"}}\n") else -4 if line.endswith(b"}}\r\n") else 0
    if not stop:
        return False
    inner = line.rfind(b"{", 0, stop) + 1
    if line.rfind(b"}", inner, stop) >= 0:
        return True
    last = line[inner:stop]
    return b'"op"' not in last and b"\\" not in last


def _known_type(tag: bytes) -> str:
    try:
        kind = tag.decode()
    except UnicodeDecodeError:
        raise ValueRejected("type", "is not UTF-8") from None
    check_event_type(kind)
    if len(_types) < 1024:
        _types[tag] = kind
    return kind
