"""
Where things stand in one log file: its header, its last whole line, and what lies behind.
"""

from __future__ import annotations

import itertools
import os
import time
from typing import Final

from attrs import frozen

from eventlog.codec import decode_line
from eventlog.errors import InvalidSurface, ValueRejected
from eventlog.model import Event, SessionHead, SessionHeader

from .envelope import START_BYTES, first_seq, is_padding, skeletons_of, start_seq
from .medium import LogFile
from .names import log_name

__all__ = ["LINE_BYTES_MAX", "HeaderFacts", "Layout", "read_header", "survey"]

# The largest payload, each character escaped, with room for the envelope around it.
LINE_BYTES_MAX: Final = 512 * 1024 * 1024

BLOCK_BYTES: Final = 4096
BLOCK_BYTES_MAX: Final = 1 << 20
BOM: Final = b"\xef\xbb\xbf"

# Damaged lines at the end of a log that are looked behind.
DAMAGED_LINES_MAX: Final = 1024

# A file whose status is this old when it is looked at cannot change without its status
# changing too: clocks of file systems tick every few milliseconds, some every 2 s.
SETTLED_NS: Final = 2_500_000_000

_identities = itertools.count(1)


@frozen
class HeaderFacts:
    """
    The first line of a log.

    Attributes:
        device, inode: The file it was read from.

        header: What it says.

        stop: The offset behind its LF.

        digest: A hash of the bytes before *stop*, valid in this process.
    """

    device: int
    inode: int
    header: SessionHeader
    stop: int
    digest: int


@frozen
class Layout:
    """
    One log file as of one look at it.

    Attributes:
        identity: Tells this log from any other that this process has seen, one that took
            its name, its header and its inode included.

        facts: Its first line.

        status: Size, modification and change time of the file.

        settled: Whether an equal status means an equal file.

        start: The first seq of the first line behind the header; None where there is no
            whole line, or none that can be read.

        last_offset, last_seq: The last whole line that can be read, and its first seq;
            the header's end and −1 where there is none.

        end: The offset behind the last whole line. What stands there is a torn tail.

        length: How many events the log has. Lines behind the last readable one count as
            one event each, so that reading them shows the damage.

        last_time: The time of the last readable event, None where there is none.

        mark: Offset, size and hash of bytes before *end* that a log that only grew still
            has.
    """

    identity: int
    facts: HeaderFacts
    status: tuple[int, int, int]
    settled: bool
    start: int | None
    last_offset: int
    last_seq: int
    end: int
    length: int
    last_time: int | None
    mark: tuple[int, int, int]

    @property
    def header(self) -> SessionHeader:
        return self.facts.header

    @property
    def size(self) -> int:
        """Bytes of the file, a torn tail included."""
        return self.status[0]

    @property
    def head(self) -> SessionHead:
        return SessionHead(self.facts.header, self.length, self.last_time)


def read_header(file: LogFile, status: os.stat_result) -> HeaderFacts:
    """
    Read the first line, and check that the file's name is that of its id.

    Cost: 4 KiB, or the line where it is longer. The caller counts the record.

    Raises:
        CorruptLog: *kind* is ``"empty"``, ``"header"`` or ``"misnamed"``.
    """
    if status.st_size == 0:
        raise file.corrupt("empty", offset=0, detail="has no bytes, and so no header")
    data = b""
    size = BLOCK_BYTES
    while (stop := data.find(b"\n") + 1) == 0:
        block = file.pread(size, len(data))
        if not block or len(data) > LINE_BYTES_MAX:
            raise file.corrupt("header", offset=0, detail="has no whole first line")
        data += block
        size = min(len(data), 32 * BLOCK_BYTES_MAX)
    line = data[:stop]
    start = len(BOM) if line.startswith(BOM) else 0
    try:
        header = decode_line(line[start:-2] if line.endswith(b"\r\n") else line[start:])
    except (ValueRejected, InvalidSurface) as error:
        raise file.corrupt("header", offset=0, detail=str(error)) from None
    if type(header) is not SessionHeader:
        raise file.corrupt("header", offset=0, detail="the first line is no header")
    if log_name(header.id) != os.path.basename(file.path):
        raise file.corrupt(
            "misnamed",
            offset=0,
            detail=f"holds session {header.id!r}, whose log is {log_name(header.id)}",
        )
    return HeaderFacts(status.st_dev, status.st_ino, header, stop, hash(line))


def survey(
    file: LogFile, *, known: Layout | None = None, facts: HeaderFacts | None = None
) -> Layout:
    """
    Find out where things stand in *file*.

    Args:
        known: What an earlier look said. What it says is checked, not trusted.

        facts: The header as read before; checked likewise.

    Cost: a probe, of the last line, and the header, which the caller counts; nothing
    where *known* is settled and the status is the same. A torn tail is searched backwards.

    Raises:
        CorruptLog: The header is damaged, or the file ends in very many damaged lines.
    """
    status = file.status()
    facts = known.facts if known is not None else facts
    if facts is not None and (facts.device, facts.inode) != (status.st_dev, status.st_ino):
        known = facts = None
    stamp = (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    if known is not None and known.settled and known.status == stamp:
        return known
    if facts is not None and hash(file.pread(facts.stop, 0)) != facts.digest:
        known = facts = None
    if facts is None:
        facts = read_header(file, status)
    tail = _Tail(file, facts.stop, status.st_size)
    if known is not None and not tail.has(known.mark):
        known = None
    start = None if known is None else known.start
    if start is None and tail.end > facts.stop:
        start = _start_of(file, facts.stop, tail.end)
    return Layout(
        identity=next(_identities) if known is None else known.identity,
        facts=facts,
        status=stamp,
        settled=abs(time.time_ns() - max(stamp[1:])) > SETTLED_NS,
        start=start,
        last_offset=tail.last_offset,
        last_seq=tail.last_seq,
        end=tail.end,
        length=tail.length,
        last_time=tail.last_time,
        mark=tail.mark,
    )


def _start_of(file: LogFile, offset: int, end: int) -> int | None:
    """Return the first seq of the line at *offset*."""
    block = file.pread(min(START_BYTES, end - offset), offset)
    seq = start_seq(block)
    size = BLOCK_BYTES
    while seq is None and b"\n" not in block:
        more = file.pread(min(size, end - offset - len(block)), offset + len(block))
        if not more or len(block) > LINE_BYTES_MAX:
            return None
        block += more
        size = min(2 * size, 32 * BLOCK_BYTES_MAX)
    return first_seq(block[: block.index(b"\n")]) if seq is None else seq


class _Tail:
    """The end of a log, read backwards from *size* and no further than the header."""

    def __init__(self, file: LogFile, header_stop: int, size: int) -> None:
        self._file = file
        self._header_stop = header_stop
        self._base, self._block = size, b""
        file.meter.probes += 1
        self.end = stop = self._lf_before(size) + 1
        self.last_offset, self.last_seq, self.last_time = header_stop, -1, None
        damaged, behind = 0, -1
        while stop > header_stop:
            offset = self._lf_before(stop - 1) + 1
            if not damaged and self._is_padding(offset, stop):
                self.end = stop = offset
                continue
            events = self._events(offset, stop)
            if events:
                self.last_offset, self.last_seq = offset, events[0].seq
                self.last_time, behind = events[-1].time, events[-1].seq
                break
            damaged += 1
            if damaged > DAMAGED_LINES_MAX:
                raise file.corrupt("malformed", offset=offset, detail="so is all behind it")
            stop = offset
        self.length = behind + 1 + damaged
        start = max(header_stop, self.end - BLOCK_BYTES)
        self.mark = (start, self.end - start, hash(self._slice(start, self.end)))

    last_time: int | None

    def has(self, mark: tuple[int, int, int]) -> bool:
        """Tell whether the log still holds what was seen at its end before."""
        start, size, digest = mark
        return start + size <= self.end and hash(self._slice(start, start + size)) == digest

    def _lf_before(self, position: int) -> int:
        """Return the offset of the last LF before *position*; the header's own bounds it."""
        size = BLOCK_BYTES
        while True:
            if position > self._base:
                found = self._block.rfind(b"\n", 0, position - self._base)
                if found >= 0:
                    return self._base + found
                position = self._base
            if position < self._header_stop:
                raise self._file.corrupt("truncated", offset=0, detail="shrank while it was read")
            self._base = max(self._header_stop - 1, position - size)
            self._block = self._file.pread(position - self._base, self._base)
            size = min(2 * size, BLOCK_BYTES_MAX)

    def _slice(self, start: int, stop: int) -> bytes:
        if start >= self._base and stop <= self._base + len(self._block):
            return self._block[start - self._base : stop - self._base]
        return self._file.pread(stop - start, start)

    def _is_padding(self, start: int, stop: int) -> bool:
        while start < stop:
            step = min(stop - start, BLOCK_BYTES)
            if not is_padding(self._slice(start, start + step)):
                return False
            start += step
        return True

    def _events(self, start: int, stop: int) -> list[Event]:
        """Return the events of one line; none where it cannot be read."""
        if stop - start > LINE_BYTES_MAX:
            return []
        try:
            return skeletons_of(self._slice(start, stop - 1))
        except (ValueRejected, InvalidSurface):
            return []
