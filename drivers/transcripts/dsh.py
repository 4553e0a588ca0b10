"""
DeepSeek Harness: its logs have this library's format, raw or in zstd frames.

A root holds ``PROJECT/ID/session.jsonl`` or ``session.jsonl.zstd``; a single file of any
name is read as well. Events keep their seq and their data, packed rows are unpacked. A
line that cannot be read is a fault; what follows it is imported as long as it continues
the log, and is a fault where it does not. A log whose surface is not valid is refused
whole. A log whose lines have lost ``seq`` and ``time``, as one that was normalised for
comparison, is numbered by its lines, and has the time of its header throughout.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import orjson

from eventlog.codec import decode_line, event_from_wire, header_from_wire
from eventlog.errors import CorruptLog, InvalidSurface, UnsupportedFormat, ValueRejected
from eventlog.model import FORMAT_VERSION, Event, SessionHeader
from eventlog.sources import (
    Item,
    Opened,
    RecordFault,
    RecordTally,
    Transcript,
    TranscriptSource,
    Unreadable,
)
from eventlog.surface import fold_surface

from .finding import find_files, usual_place
from .json_text import read_object
from .lines import Line, read_lines
from .zstd_frames import MAGIC, ZstdFrames

__all__ = ["DeepSeekHarness", "read_log"]

FIXED_NAMES: Final = ("session.jsonl", "session.jsonl.zstd")
PACKED_ROWS: Final = ("text-chunks", "reasoning-chunks", "tool-call-chunks")


class DeepSeekHarness(TranscriptSource):
    """Reads session logs of DeepSeek Harness."""

    name = "dsh"
    title = "DeepSeek Harness"
    keeps_events = True

    def usual_places(self, environ: Mapping[str, str]) -> list[Path]:
        return [usual_place(environ, "DSH_HOME", ".dsh") / "sessions"]

    def find(self, path: Path) -> Iterator[Transcript | Unreadable]:
        yield from find_files(path, _is_log)

    def read(self, transcript: Transcript, tally: RecordTally) -> Iterator[Item]:
        path = transcript.path
        stop_bytes = os.stat(path).st_size
        # A log is folded before anything of it is stored, so that one whose surface is
        # not valid leaves nothing behind.
        first_pass = read_log(path, stop_bytes, RecordTally())
        yield next(first_pass)
        fold_surface(event for event in first_pass if isinstance(event, Event))
        second_pass = read_log(path, stop_bytes, tally)
        next(second_pass)
        yield from second_pass


def _is_log(folder: Path, names: list[str], name: str) -> bool:
    """Tell whether a file found in a folder is a log: beside a session's own none is."""
    if name in FIXED_NAMES:
        return True
    return name.endswith((".jsonl", ".jsonl.zstd")) and not any(
        fixed in names for fixed in FIXED_NAMES
    )


def read_log(path: Path, stop_bytes: int, tally: RecordTally) -> Iterator[Item]:
    """
    Yield the header and then the sound events of a log, counting its lines.

    Args:
        stop_bytes: Read a raw log no further than this; it may grow meanwhile.

    Raises:
        CorruptLog: It has no header.

        UnsupportedFormat: Its version is not 0.
    """
    header: SessionHeader | None = None
    length = 0
    is_numbered: bool | None = None
    with _lines(path, stop_bytes, tally) as lines:
        for line in lines:
            tally.found += 1
            if isinstance(line, RecordFault):
                tally.refuse(line)
                continue
            tally.bytes_read = line.offset_bytes + len(line.text) + line.complete
            if header is None:
                header = _header(line, path)
                tally.mapped += 1
                yield Opened(header)
                continue
            if is_numbered is None:
                is_numbered = not _lacks_numbers(line.text)
            if not is_numbered:
                line = _numbered(line, length, header.created_at)
            events, fault, altered = _events(line, path)
            if fault is None and events[0].seq != length:
                reason = f"expected seq {length}, found {events[0].seq}"
                fault = _fault(line, path, "seq", reason)
            if fault is not None:
                tally.refuse(fault)
                continue
            tally.mapped += 1
            tally.altered += altered
            length += len(events)
            yield from events
    if header is None:
        empty = tally.found == 0
        raise CorruptLog(
            None,
            str(path),
            None if empty else 1,
            0,
            None,
            "empty" if empty else "header",
            "the file has no header",
        )


@contextmanager
def _lines(
    path: Path, stop_bytes: int, tally: RecordTally
) -> Iterator[Iterator[Line | RecordFault]]:
    with path.open("rb") as raw:
        if raw.peek(4)[:4] == MAGIC:
            frames = ZstdFrames(raw, path)
            yield _all_lines(io.BufferedReader(frames, 1 << 18), frames, path)
        else:
            yield read_lines(raw, path, stop_bytes=stop_bytes)


def _all_lines(
    text: io.BufferedReader, frames: ZstdFrames, path: Path
) -> Iterator[Line | RecordFault]:
    yield from read_lines(text, path)
    if frames.fault is not None:
        yield frames.fault


def _header(line: Line, path: Path) -> SessionHeader:
    try:
        if not line.complete:
            raise ValueRejected("record", "no newline ends it")
        header = header_from_wire(read_object(line.text).value)
    except ValueRejected as error:
        raise CorruptLog(
            None, str(path), line.number, line.offset_bytes, None, "header", str(error)
        ) from error
    if header.version != FORMAT_VERSION:
        raise UnsupportedFormat(header.version, [FORMAT_VERSION])
    return header


def _events(line: Line, path: Path) -> tuple[list[Event], RecordFault | None, bool]:
    """Return the events of a line, or a fault; and whether they are a cleaned copy."""
    if not line.complete:
        # A line is committed by its newline.
        return [], _fault(line, path, "torn", f"no newline ends its {len(line.text)} bytes"), False
    try:
        record = decode_line(line.text)
    except (ValueRejected, InvalidSurface) as error:
        try:
            return [_cleaned_event(line.text)], None, True
        except (ValueRejected, InvalidSurface):
            return [], _fault(line, path, "malformed", str(error)), False
    if isinstance(record, SessionHeader):
        return [], _fault(line, path, "malformed", "a second header"), False
    return [record] if isinstance(record, Event) else record, None, False


def _lacks_numbers(text: bytes) -> bool:
    """Tell whether a line is an event or a packed row without ``seq`` and ``time``."""
    try:
        record = read_object(text).value
    except ValueRejected:
        return False
    return "data" in record and record.keys().isdisjoint(("seq", "time", "seq0", "time0"))


def _numbered(line: Line, seq: int, time: int) -> Line:
    """Return a line with the numbers that it lacks; another one as it is."""
    if not _lacks_numbers(line.text):
        return line
    record = read_object(line.text).value
    names = ("seq0", "time0") if record.get("type") in PACKED_ROWS else ("seq", "time")
    whole = {"type": record.get("type"), names[0]: seq, names[1]: time, **record}
    return line._replace(text=orjson.dumps(whole))


def _cleaned_event(text: bytes) -> Event:
    """
    Read an event whose data no log can hold, with the exact text beside the cleaned copy.

    Raises:
        ValueRejected: The damage is elsewhere.
    """
    parsed = read_object(text)
    data = parsed.value.get("data")
    if parsed.raw is None or parsed.doubled_key is not None or type(data) is not dict:
        raise ValueRejected("record", "is malformed outside its data")
    origin = {"tool": DeepSeekHarness.name, "raw": parsed.raw, "altered": parsed.reason}
    return event_from_wire({**parsed.value, "data": {**data, "origin": origin}})


def _fault(line: Line, path: Path, kind: str, reason: str) -> RecordFault:
    return RecordFault(str(path), line.number, line.offset_bytes, kind, reason)
