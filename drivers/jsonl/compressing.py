"""
Putting a log into an archive, at its place.

What a crash leaves, by the moment at which it falls: the log, and ``.STEM.new`` beside it;
then log and archive, of which the log counts; then the archive alone.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from hashlib import blake2b

from eventlog.errors import EventLogError

from .archived import ARCHIVE_SUFFIX, ArchivedLog, compressed
from .layout import Layout
from .lines import Lines
from .medium import LogFile, sync_file, sync_folder
from .refusals import refusal
from .writing import claimed, cut_torn_tail, drop, write_all

__all__ = ["blocks_of", "compress_log"]

BLOCK_BYTES = 1 << 20


def blocks_of(file: LogFile, end: int) -> Iterator[bytes]:
    """
    Yield the first *end* bytes of a log, 1 MiB at a time.

    Raises:
        CorruptLog: It has fewer, or a frame of its archive is damaged.
    """
    position = 0
    while position < end:
        block = file.pread(min(BLOCK_BYTES, end - position), position)
        if not block:
            raise file.corrupt("truncated", offset=position, detail="shrank while it was read")
        yield block
        position += len(block)


def compress_log(
    file: LogFile, layout: Layout, new_path: str, torn_path: str, wait_s: float
) -> None:
    """
    Put *file*, which is locked, into an archive, read that back, and take the log away.

    Raises:
        MissingExtra: The package ``zstandard`` is not installed.

        CorruptLog: A line is longer than any record.

        StoreFull, StoreReadOnly, StoreUnavailable: The log is as it was.
    """
    folder = os.path.dirname(file.path)
    try:
        if layout.size > layout.end:
            cut_torn_tail(file, layout, torn_path)
        with claimed(new_path, wait_s) as fd:
            try:
                for piece in compressed(_lines(file, layout.end)):
                    write_all(fd, piece)
                sync_file(fd)
                archive = file.path + ARCHIVE_SUFFIX
                os.rename(new_path, archive)
                sync_folder(folder)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    drop(fd, new_path)
            try:
                with ArchivedLog(archive, file.session_id, file.meter) as written:
                    if _digest(written, layout.end) != _digest(file, layout.end):
                        raise written.corrupt("frame", detail="does not read back as it was")
            except BaseException:
                os.unlink(archive)
                raise
        os.unlink(file.path)
        sync_folder(folder)
    except OSError as error:
        if isinstance(error, EventLogError):
            raise
        raise refusal(error, file.path, writing=True) from error


def _lines(file: LogFile, end: int) -> Iterator[bytes]:
    for line in Lines(file, end):
        if line.data is None:
            raise file.corrupt("malformed", offset=line.offset, detail="the line is too long")
        yield line.data + b"\n"


def _digest(file: LogFile, end: int) -> bytes:
    digest = blake2b()
    for block in blocks_of(file, end):
        digest.update(block)
    return digest.digest()
