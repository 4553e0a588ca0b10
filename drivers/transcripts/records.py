"""
Reading files of one JSON record a line, whatever else they hold.

Every line that is a JSON object is a record. What is none is a fault of its line, and the
next line is read. A last line without its newline counts if it is a whole object: no
prefix of one is. Blank lines are no records.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Generator, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

from eventlog.errors import CorruptLog, ValueRejected
from eventlog.sources import RecordFault, RecordTally
from eventlog.values import JSONValue

from .json_text import read_object, read_plain
from .lines import Line, Readable, read_lines
from .zstd_frames import MAGIC, ZstdFrames

__all__ = ["Record", "digest_of", "first_record", "read_records"]

BUFFER_BYTES: Final = 1 << 16


class Record(NamedTuple):
    """
    One record of a file.

    Attributes:
        value: What it says; a cleaned copy where *raw* is not None.

        digest: Changes with its text.

        place: Where it stands, for the origin of what comes of it: ``line``, ``offset``
            and ``bytes`` in a file of lines, ``at`` in a document.

        raw: Its exact text where no log can hold it.

        altered: What had to be cleaned.
    """

    value: dict[str, JSONValue]
    digest: str
    place: dict[str, JSONValue]
    raw: str | None = None
    altered: str | None = None

    def origin(
        self, tool: str, key: str, fields: dict[str, JSONValue] | None = None
    ) -> dict[str, JSONValue]:
        """
        Return the origin of an entry that comes of this record.

        Args:
            key: Names the record, and where it gives several entries, the part.

            fields: What it says beyond the entry. Given for one entry of a record, the
                one that also keeps its exact text; None for the others.
        """
        origin = {"tool": tool, "key": key, "digest": self.digest, **self.place}
        if fields is not None:
            if fields:
                origin["fields"] = fields
            if self.raw is not None:
                origin["raw"] = self.raw
                origin["altered"] = self.altered
        return origin

    @property
    def size_bytes(self) -> int:
        """How many bytes it has; 0 in a document."""
        size: int = self.place.get("bytes", 0)
        return size


def digest_of(text: bytes) -> str:
    """Return a digest of 128 bits as 32 hexadecimal digits."""
    return blake2b(text, digest_size=16).hexdigest()


def read_records(
    path: Path, tally: RecordTally, *, stop_bytes: int | None = None
) -> Generator[Record, None, None]:
    """
    Yield the records of a file of lines, raw or in zstd frames, counting and naming faults.

    Args:
        stop_bytes: Read a raw file no further than this; None reads to the end.

    Raises:
        OSError: The system refuses to read it.

        MissingExtra: It is compressed, and ``zstandard`` is not installed.
    """
    with io.BufferedReader(io.FileIO(path), BUFFER_BYTES) as raw:
        if raw.peek(4)[:4] == MAGIC:
            frames = ZstdFrames(raw, path)
            yield from _records(io.BufferedReader(frames, BUFFER_BYTES), path, tally, None)
            tally.refuse_unread(frames.fault)
        else:
            yield from _records(raw, path, tally, stop_bytes)


def first_record(
    path: Path, stop_bytes: int, tells: Callable[[dict[str, JSONValue]], bool]
) -> Record:
    """
    Return the first record of a file of lines that *tells* of its session; the first of all
    where none does.

    Raises:
        CorruptLog: It has no record.

        OSError: The system refuses to read it.
    """
    first: Record | None = None
    records = read_records(path, RecordTally(), stop_bytes=stop_bytes)
    try:
        for record in records:
            if tells(record.value):
                return record
            first = first or record
    finally:
        records.close()
    if first is None:
        raise CorruptLog(None, str(path), None, None, None, "empty", "it has no record")
    return first


def _records(
    stream: Readable, path: Path, tally: RecordTally, stop_bytes: int | None
) -> Iterator[Record]:
    for line in read_lines(stream, path, stop_bytes=stop_bytes):
        if isinstance(line, RecordFault):
            tally.refuse_unread(line)
            continue
        number, offset, text, complete = line
        size = len(text)
        tally.bytes_read = offset + size + complete
        if not text or text.isspace():
            continue
        tally.found += 1
        place = {"line": number, "offset": offset, "bytes": size}
        plain = read_plain(text)
        if plain is not None:
            yield Record(plain, digest_of(text), place)
            continue
        try:
            parsed = read_object(text)
        except ValueRejected as error:
            tally.refuse(_fault(line, path, error))
            continue
        tally.altered += parsed.raw is not None
        yield Record(parsed.value, digest_of(text), place, parsed.raw, parsed.reason)


def _fault(line: Line, path: Path, error: ValueRejected) -> RecordFault:
    kind, reason = "malformed", error.reason
    if not line.complete:
        kind = "torn"
        reason = f"the file ends inside a record, {len(line.text)} bytes of it"
    elif not line.text.strip(b"\0"):
        reason = f"{len(line.text)} bytes of NUL"
    return RecordFault(str(path), line.number, line.offset_bytes, kind, reason)
