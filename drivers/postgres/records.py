"""
Events and headers as rows.

The checksum of an event is the CRC-32 of its payload, begun with that of its type, begun
with that of the line of its numbers: seq, time, whether it is a node and whether it is
ignorable (0 or 1), the bounds of its replacement and its sources, separated by spaces and
"-" where there is none. That of a session is the CRC-32 of its header line. Both are
stored less 2³¹, as PostgreSQL's integers are signed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final
from zlib import crc32

from attrs import frozen

from eventlog.codec import decode_line, encode_line
from eventlog.errors import EventLogError
from eventlog.model import APPEND, Event, Replace, SessionHead, SessionHeader, SurfaceOp

from .failures import Damaged

__all__ = [
    "EVENT_COLUMNS",
    "SESSION_COLUMNS",
    "SessionRow",
    "decode_events",
    "encode_header",
    "event_row",
    "header_crc",
]

EVENT_COLUMNS: Final = (
    "seq, time, type, is_node, replace_start, replace_end, sources, ignorable, crc, payload"
)
SESSION_COLUMNS: Final = "id, ordinal, length, last_time, header, crc"

CRC_OFFSET: Final = 2**31


@frozen
class SessionRow:
    """
    A session that has a log.

    Attributes:
        ordinal: The log's identity.

        length, last_time, header: As in :class:`~eventlog.model.SessionHead`.
    """

    ordinal: int
    length: int
    last_time: int
    header: SessionHeader

    @classmethod
    def decode(cls, row: Sequence[Any]) -> SessionRow:
        """
        Read the columns of :data:`SESSION_COLUMNS`.

        Raises:
            Damaged: The header is not what was written, or another session's.
        """
        session_id, ordinal, length, last_time, line, crc = row
        if crc != header_crc(line):
            raise Damaged(None, "the header does not match its checksum")
        header = _decode_header(line)
        if header.id.encode() != session_id:
            raise Damaged(None, f"the row is that of {header.id!r}")
        return cls(ordinal, length, last_time, header)

    def head(self) -> SessionHead:
        return SessionHead(self.header, self.length, self.last_time)


def header_crc(line: bytes) -> int:
    return crc32(line) - CRC_OFFSET


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
def encode_header(header: SessionHeader) -> bytes:
    """Return the header's line."""
    return encode_line(header)


def event_row(event: Event) -> tuple[Any, ...]:
    """Return the values of :data:`EVENT_COLUMNS`, the sources as an array's text."""
    op, name = event.surface_op, event.type.encode()
    start, end = (op.start, op.end) if type(op) is Replace else (None, None)
    sources = event.source_event_seqs
    row = (event.seq, event.time, name, op is not None, start, end, sources, event.ignorable)
    text = None if sources is None else f"{{{','.join(map(str, sources))}}}"
    return (*row[:6], text, event.ignorable, _crc(*row, event.payload), event.payload)


def _crc(
    seq: int,
    time: int,
    name: bytes,
    is_node: bool,
    start: int | None,
    end: int | None,
    sources: Sequence[int] | None,
    ignorable: bool,
    payload: bytes,
) -> int:
    if start is None and end is None and sources is None:
        numbers = b"%d %d %d %d - - -" % (seq, time, is_node, ignorable)
    else:
        cited = "-" if sources is None else ",".join(map(str, sources))
        bounds = " ".join("-" if bound is None else str(bound) for bound in (start, end))
        numbers = f"{seq} {time} {is_node:d} {ignorable:d} {bounds} {cited}".encode()
    return crc32(payload, crc32(name, crc32(numbers))) - CRC_OFFSET


def decode_events(rows: Iterable[Sequence[Any]], start: int) -> tuple[list[Event], int]:
    """
    Build the events with the seqs from *start* on. Payloads are not decoded.

    Args:
        rows: The values of :data:`EVENT_COLUMNS` for each, by seq.

    Returns:
        The events, and how many bytes their types and payloads have.

    Raises:
        Damaged: One of them is missing, or is not what was written.
    """
    events: list[Event] = []
    size = 0
    expected = start
    for seq, time, name, is_node, first, last, sources, ignorable, crc, payload in rows:
        if seq != expected:
            raise Damaged(expected, "the event is missing")
        if crc != _crc(seq, time, name, is_node, first, last, sources, ignorable, payload):
            raise Damaged(seq, "the event does not match its checksum")
        op: SurfaceOp | None = APPEND if is_node else None
        if first is not None:
            op = _replace(seq, first, last)
        cited = None if sources is None else tuple(sources)
        build = Event.from_payload
        events.append(build(seq, time, _type_of(name), payload, op, cited, ignorable))
        size += len(name) + len(payload)
        expected += 1
    return events, size


def _replace(seq: int, start: int, end: int) -> Replace:
    try:
        return Replace(start, end)
    except EventLogError as error:
        raise Damaged(seq, f"the event is malformed: {error}") from error


@lru_cache(maxsize=1024)
def _type_of(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError as error:
        raise Damaged(None, f"a type is no UTF-8: {error}") from error
