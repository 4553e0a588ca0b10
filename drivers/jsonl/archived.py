"""
Logs at rest, compressed: ``STEM.jsonl.zst``, read in place.

The file is a sequence of independent zstd frames, each of whole lines and with a checksum:
the header alone in the first, then about 128 KiB of lines in each. Behind them stands the
seek table of the zstd seekable format (a skippable frame), so that any byte of the log is
found without reading what is before it. ``zstd -d`` and every other decoder give the log
back as it was; where a frame is damaged, the others can be read.

A log that is read so answers by position like a plain one, at the same number of probes;
each costs the frame around it. What was decompressed last is kept, up to 16 MiB a process.

Source of the format: zstd, contrib/seekable_format; RFC 8878.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final

from attrs import frozen

from eventlog.errors import MissingExtra
from eventlog.snapshot import ScanMeter

from .medium import LINE_BYTES_MAX, LogFile
from .refusals import refusal

__all__ = ["ARCHIVE_SUFFIX", "ArchivedLog", "compressed", "open_log"]

ARCHIVE_SUFFIX: Final = ".zst"
"""What stands behind the name of a log that is archived."""

FRAME_BYTES: Final = 128 << 10
FRAME_BYTES_MAX: Final = LINE_BYTES_MAX + FRAME_BYTES
KEPT_BYTES_MAX: Final = 16 << 20
TABLES_MAX: Final = 256
# How often a log that is being archived, or taken out, is looked for in both places.
TURNS_MAX: Final = 16
LEVEL: Final = 9

_SKIPPABLE: Final = struct.Struct("<II")
_SKIPPABLE_MAGIC: Final = 0x184D2A5E
_ENTRY: Final = struct.Struct("<II")
_FOOTER: Final = struct.Struct("<IBI")
_FOOTER_MAGIC: Final = 0x8F92EAB1
# The descriptor's bit for checksums in the table; ours are in the frames.
_HAS_CHECKSUMS: Final = 0x80


def compressed(lines: Iterable[bytes]) -> Iterator[bytes]:
    """
    Yield the archive of a log, piece by piece.

    Args:
        lines: Its lines, LFs included, the header first.

    Raises:
        MissingExtra: The package ``zstandard`` is not installed.
    """
    encoder = _zstandard().ZstdCompressor(level=LEVEL, write_checksum=True, write_content_size=True)
    entries: list[bytes] = []
    for text in _frames(lines):
        frame: bytes = encoder.compress(text)
        entries.append(_ENTRY.pack(len(frame), len(text)))
        yield frame
    table = b"".join(entries)
    yield _SKIPPABLE.pack(_SKIPPABLE_MAGIC, len(table) + _FOOTER.size)
    yield table + _FOOTER.pack(len(entries), 0, _FOOTER_MAGIC)


def _frames(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines in runs: the first alone, then so many that they fill a frame."""
    held: list[bytes] = []
    size = 0
    for number, line in enumerate(lines):
        held.append(line)
        size += len(line)
        if number == 0 or size >= FRAME_BYTES:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


@frozen
class _Table:
    """
    Where the frames of an archive are.

    Attributes:
        packed: Offsets in the file: of each frame, and of the end of the last.

        plain: The same in the log.
    """

    packed: Sequence[int]
    plain: Sequence[int]


_Key = tuple[int, int, int, int]
# By the status of the file. Dictionary steps are atomic, so that no lock is left held in a
# forked child; two threads may at worst do the same work.
_tables: OrderedDict[_Key, _Table] = OrderedDict()
_texts: OrderedDict[tuple[_Key, int], bytes] = OrderedDict()


@frozen
class _Status:
    """The status of an archive: that of its file, with the size of the log."""

    st_dev: int
    st_ino: int
    st_size: int
    st_mtime_ns: int
    st_ctime_ns: int


class ArchivedLog(LogFile):
    """
    An archived log, open for reading by position.

    Arguments and errors are those of :class:`~eventlog.drivers.jsonl.medium.LogFile`.

    Raises:
        CorruptLog: It has no seek table; *kind* is ``"frame"``.

        MissingExtra: The package ``zstandard`` is not installed.
    """

    __slots__ = ("_decoder", "_key", "_table")

    archived = True

    def __init__(
        self, path: str, session_id: str | None, meter: ScanMeter, *, writing: bool = False
    ) -> None:
        super().__init__(path, session_id, meter, writing=writing)
        try:
            self._decoder = _zstandard().ZstdDecompressor()
            status = os.fstat(self.fd)
            self._key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            table = _tables.get(self._key)
            if table is None:
                table = _tables[self._key] = self._read_table(status.st_size)
                while len(_tables) > TABLES_MAX:
                    _tables.popitem(last=False)
            self._table = table
        except BaseException:
            self.close()
            raise

    def status(self) -> Any:
        status = os.fstat(self.fd)
        return _Status(
            status.st_dev,
            status.st_ino,
            self._table.plain[-1],
            status.st_mtime_ns,
            status.st_ctime_ns,
        )

    def pread(self, size: int, offset: int) -> bytes:
        parts: list[bytes] = []
        stop = min(offset + size, self._table.plain[-1])
        while offset < stop:
            part = self.read_block(stop - offset, offset)
            parts.append(part)
            offset += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_block(self, size: int, offset: int) -> bytes:
        """Return up to *size* bytes from *offset* on, of one frame."""
        table = self._table
        number = bisect_right(table.plain, offset) - 1
        if number >= len(table.plain) - 1:
            return b""
        start = offset - table.plain[number]
        data = self._text(number)[start : start + size]
        self.meter.bytes += len(data)
        return data

    def next_block(self, offset: int) -> int:
        table = self._table
        return table.plain[min(bisect_right(table.plain, offset), len(table.plain) - 1)]

    def _text(self, number: int) -> bytes:
        """Return the lines of a frame."""
        found = _texts.get((self._key, number))
        if found is not None:
            return found
        table = self._table
        start, stop = table.packed[number], table.packed[number + 1]
        size = table.plain[number + 1] - table.plain[number]
        frame = self._file_bytes(stop - start, start)
        try:
            text: bytes = self._decoder.decompress(frame, max_output_size=size)
        except _zstandard().ZstdError as error:
            raise self._damaged(number, str(error)) from None
        if len(text) != size:
            raise self._damaged(number, f"has {len(text)} bytes instead of {size}")
        _texts[self._key, number] = text
        while len(_texts) > 1 and sum(map(len, list(_texts.values()))) > KEPT_BYTES_MAX:
            _texts.popitem(last=False)
        return text

    def _damaged(self, number: int, reason: str) -> Exception:
        detail = f"frame {number} of the archive: {reason}"
        # Its line is not known: the frames before it would have to be read to count.
        return self.corrupt("frame", seq=None, detail=detail)

    def _read_table(self, size: int) -> _Table:
        footer = self._file_bytes(_FOOTER.size, size - _FOOTER.size)
        if len(footer) < _FOOTER.size:
            raise self.corrupt("frame", detail="the archive is too short")
        count, descriptor, magic = _FOOTER.unpack(footer)
        width = _ENTRY.size + (4 if descriptor & _HAS_CHECKSUMS else 0)
        start = size - _FOOTER.size - count * width
        if magic != _FOOTER_MAGIC or start < _SKIPPABLE.size:
            raise self.corrupt("frame", detail="the archive has no seek table")
        table = self._file_bytes(count * width, start)
        entries = [_ENTRY.unpack_from(table, at) for at in range(0, len(table), width)]
        packed = list(accumulate((entry[0] for entry in entries), initial=0))
        plain = list(accumulate((entry[1] for entry in entries), initial=0))
        if packed[-1] + _SKIPPABLE.size != start or any(
            entry[1] > FRAME_BYTES_MAX for entry in entries
        ):
            raise self.corrupt("frame", detail="the seek table is not that of the archive")
        return _Table(packed, plain)

    def _file_bytes(self, size: int, offset: int) -> bytes:
        if offset < 0:
            return b""
        try:
            return os.pread(self.fd, size, offset)
        except OSError as error:
            raise refusal(error, self.path) from error


def open_log(path: str, session_id: str | None, meter: ScanMeter) -> LogFile:
    """
    Open the log *path* for reading, or its archive where it has one instead.

    Args:
        path: The path of either.

    Raises:
        FileNotFoundError: There is neither.
    """
    path = path.removesuffix(ARCHIVE_SUFFIX)
    for opening in (LogFile, ArchivedLog) * TURNS_MAX:
        place = path + ARCHIVE_SUFFIX if opening is ArchivedLog else path
        try:
            return opening(place, session_id, meter)
        except FileNotFoundError:
            # It may be on its way from one to the other.
            if opening is ArchivedLog and not any(map(os.path.lexists, (path, place, path))):
                break
    return LogFile(path, session_id, meter)


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError:
        raise MissingExtra("zstd", 'pip install "agent-eventlog[zstd]"') from None
    return zstandard
