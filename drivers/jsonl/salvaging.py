"""
Giving all of one log that can be read.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from eventlog.errors import CorruptLog, SessionNotFound
from eventlog.findings import Gap
from eventlog.model import Event

from .examining import Piece, pieces_of
from .layout import read_header
from .lines import Lines
from .logs import Logs
from .medium import LogFile
from .recovery import readable
from .verifying import is_being_written

__all__ = ["salvaged"]


def salvaged(logs: Logs, session_id: str) -> Iterator[Event | Gap]:
    """
    Yield the events of a log with a gap wherever they do not continue.

    The file is open from the first event asked for to the last.

    Raises:
        SessionNotFound: It was deleted by then.
    """
    file = logs.open(session_id)
    if file is None:
        raise SessionNotFound(session_id)
    with file:
        yield from _salvaged(file)


def _salvaged(file: LogFile) -> Iterator[Event | Gap]:
    size = file.status().st_size
    lines = Lines(file, size)
    gap = _read_header(file, lines)
    expected = 0
    for piece in pieces_of(lines):
        if piece.fault == "torn" and is_being_written(file, size):
            break
        if piece.fault is not None:
            gap = _widened(gap or _gap(file, piece, expected), piece)
            continue
        for event in piece.events:
            if gap is None and event.seq != expected:
                detail = f"seq expected {expected}, found {event.seq}"
                gap = evolve(_gap(file, piece, expected), kind="seq", detail=detail)
            if gap is not None:
                yield evolve(gap, next_seq=event.seq)
                gap = None
            yield event
            expected = event.seq + 1
    if gap is not None:
        yield gap


def _read_header(file: LogFile, lines: Lines) -> Gap | None:
    """Take the header from *lines*; returns a gap where it is damaged."""
    try:
        read_header(file, file.status())
        next(lines)
        return None
    except CorruptLog as error:
        first = lines.peek(0)
        size = 0
        if first is not None and not isinstance(readable(first.data), list):
            size = next(lines).size
        return Gap(error.kind, None, None, file.path, 1, 0, size, error.detail)


def _gap(file: LogFile, piece: Piece, expected: int) -> Gap:
    return Gap(
        piece.fault or "seq",
        expected,
        None,
        file.path,
        piece.line,
        piece.offset,
        0,
        piece.detail,
    )


def _widened(gap: Gap, piece: Piece) -> Gap:
    """Take a damaged piece into a gap, with what was found in it."""
    start = piece.offset if gap.offset_bytes is None else gap.offset_bytes
    return evolve(gap, size_bytes=piece.stop - start, recovered=(*gap.recovered, *piece.events))
