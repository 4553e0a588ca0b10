"""
Where things stand in one log file: its header, its last whole line, and what lies behind.
"""

from __future__ import annotations

import itertools
import time
from typing import Final

from attrs import evolve, frozen

from eventlog.codec import decode_line
from eventlog.errors import InvalidSurface, ValueRejected
from eventlog.model import SessionHead, SessionHeader

from .envelope import START_BYTES, first_seq, start_seq
from .medium import LINE_BYTES_MAX, LogFile, Status
from .names import LOG_SUFFIX, log_name
from .tail import Tail

__all__ = ["SETTLED_NS", "HeaderFacts", "Layout", "read_header", "stamp_of", "survey"]

HEADER_BYTES: Final = 4096
BLOCK_BYTES: Final = 1 << 20
BOM: Final = b"\xef\xbb\xbf"

# A file whose change time is this long past cannot change without that changing too: the
# clocks of file systems tick every few milliseconds, some every 2 s.
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

        archived: Whether that file is an archive.
    """

    device: int
    inode: int
    header: SessionHeader
    stop: int
    digest: int
    archived: bool = False


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


def stamp_of(status: Status) -> tuple[int, int, int]:
    """Return size, modification and change time: what tells whether a file changed."""
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def read_header(file: LogFile, status: Status) -> HeaderFacts:
    """
    Read the first line, and check that the file's name is that of its id.

    Cost: 4 KiB, or the line where it is longer. The caller counts the record.

    Raises:
        CorruptLog: *kind* is ``"empty"``, ``"header"`` or ``"misnamed"``.
    """
    if status.st_size == 0:
        raise file.corrupt("empty", offset=0, detail="has no bytes, and so no header")
    block = file.pread(HEADER_BYTES, 0)
    stop = block.find(b"\n") + 1
    if not stop:
        stop = _behind_lf(file, len(block))
        if not stop:
            raise file.corrupt("header", offset=0, detail="has no whole first line")
        block = file.pread(stop, 0)
    line = block[:stop]
    start = len(BOM) if line.startswith(BOM) else 0
    try:
        header = decode_line(line[start:-2] if line.endswith(b"\r\n") else line[start:])
    except (ValueRejected, InvalidSurface) as error:
        raise file.corrupt("header", offset=0, detail=str(error)) from None
    if type(header) is not SessionHeader:
        raise file.corrupt("header", offset=0, detail="the first line is no header")
    if log_name(header.id) != file.stem + LOG_SUFFIX:
        raise file.corrupt(
            "misnamed",
            offset=0,
            detail=f"holds session {header.id!r}, whose log is {log_name(header.id)}",
        )
    digest = hash(line)
    return HeaderFacts(status.st_dev, status.st_ino, header, stop, digest, file.archived)


def survey(
    file: LogFile,
    *,
    known: Layout | None = None,
    facts: HeaderFacts | None = None,
    moved: bool = False,
) -> Layout:
    """
    Find out where things stand in *file*.

    Args:
        known: What an earlier look said. What it says is checked, not trusted.

        facts: The header as read before; checked likewise.

        moved: Whether the same log may be in another file by now.

    Cost: a probe, of the last line, and the header, which the caller counts; nothing
    where the status is that of *known*, and either that is settled or *file* is locked, so
    that nobody writes. A torn tail is searched backwards.

    Raises:
        CorruptLog: The header is damaged, or the file ends in very many damaged lines.
    """
    status = file.status()
    facts = known.facts if known is not None else facts
    if facts is not None and (facts.device, facts.inode) != (status.st_dev, status.st_ino):
        if not moved:
            known = facts = None
        else:
            # Archived, or taken out of the archive, since: the same log if its bytes are.
            facts = evolve(facts, device=status.st_dev, inode=status.st_ino, archived=file.archived)
            known = None if known is None else evolve(known, facts=facts, settled=False)
    stamp = stamp_of(status)
    if known is not None and known.status == stamp and (known.settled or file.is_locked):
        return known
    if facts is not None and hash(file.pread(facts.stop, 0)) != facts.digest:
        known = facts = None
    if facts is None:
        facts = read_header(file, status)
    tail = Tail(file, facts.stop, status.st_size)
    if known is not None and not tail.has(known.mark):
        known = None
    start = None if known is None else known.start
    if start is None and tail.end > facts.stop:
        start = _start_of(file, facts.stop)
    return Layout(
        identity=next(_identities) if known is None else known.identity,
        facts=facts,
        status=stamp,
        settled=time.time_ns() - status.st_ctime_ns > SETTLED_NS,
        start=start,
        last_offset=tail.last_offset,
        last_seq=tail.last_seq,
        end=tail.end,
        length=tail.length,
        last_time=tail.last_time,
        mark=tail.mark,
    )


def _start_of(file: LogFile, offset: int) -> int | None:
    """Return the first seq of the whole line at *offset*, None where it cannot be read."""
    block = file.pread(START_BYTES, offset)
    seq = start_seq(block)
    if seq is not None:
        return seq
    stop = offset + block.find(b"\n") + 1
    if stop == offset:
        stop = _behind_lf(file, offset + len(block))
    return first_seq(file.pread(stop - 1 - offset, offset)) if stop else None


def _behind_lf(file: LogFile, offset: int) -> int:
    """Return the offset behind the next LF; 0 where no line that is written is so long."""
    for start in range(offset, offset + LINE_BYTES_MAX, BLOCK_BYTES):
        block = file.pread(BLOCK_BYTES, start)
        found = block.find(b"\n") + 1
        if found:
            return start + found
        if not block:
            break
    return 0
