"""
The file system as the logs need it: files opened without following links, read by
position, locked, and made durable.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from types import TracebackType
from typing import ClassVar, Final, Protocol, Self

from eventlog.errors import CorruptLog
from eventlog.snapshot import ScanMeter

from .locking import FileLock
from .names import LOG_SUFFIX
from .refusals import refusal

__all__ = ["LINE_BYTES_MAX", "LogFile", "Status", "make_folder", "sync_file", "sync_folder"]

# A line longer than this is no record: room for the largest payload with half of its
# characters escaped, and for the envelope around it.
LINE_BYTES_MAX: Final = 160 << 20

# A pipe in the folder must not block the one who opens it.
_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Status(Protocol):
    """What is asked of a file's status."""

    @property
    def st_dev(self) -> int: ...
    @property
    def st_ino(self) -> int: ...
    @property
    def st_size(self) -> int: ...
    @property
    def st_mtime_ns(self) -> int: ...
    @property
    def st_ctime_ns(self) -> int: ...


class LogFile:
    """
    An open log, read by position.

    Args:
        path: Where it is. Links are not followed.

        session_id: What errors call its session.

        meter: Where reads are counted.

        writing: Open it for appending too.

    Raises:
        FileNotFoundError: There is none.

        PermissionError: The system refuses to open it.

        CorruptLog: *path* is something else than a file; *kind* is ``"symlink"``,
            ``"directory"`` or ``"special"``.

        StoreUnavailable: The medium fails.
    """

    __slots__ = ("_lock", "fd", "meter", "path", "session_id", "stem")

    archived: ClassVar[bool] = False
    """Whether the bytes are those of an archive, decompressed."""

    def __init__(
        self, path: str, session_id: str | None, meter: ScanMeter, *, writing: bool = False
    ) -> None:
        self.path = path
        self.stem = path[path.rindex("/") + 1 :].removesuffix(".zst")[: -len(LOG_SUFFIX)]
        self.session_id = session_id
        self.meter = meter
        flags = os.O_RDWR | os.O_APPEND if writing else os.O_RDONLY
        try:
            self.fd = os.open(path, flags | _FLAGS)
        except (FileNotFoundError, PermissionError):
            raise
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK):
                raise self.corrupt("symlink", detail="links are not followed") from None
            if error.errno == errno.EISDIR:
                raise self.corrupt("directory", detail="is a directory") from None
            if error.errno == errno.ENXIO:
                raise self.corrupt("special", detail="is no regular file") from None
            if error.errno == errno.EROFS:
                raise PermissionError(error.errno, error.strerror, path) from None
            raise refusal(error, path, writing=writing) from error
        mode = os.fstat(self.fd).st_mode
        if not stat.S_ISREG(mode):
            os.close(self.fd)
            kind = "directory" if stat.S_ISDIR(mode) else "special"
            raise self.corrupt(kind, detail="is no regular file")
        self._lock: FileLock | None = None

    def lock(self, wait_s: float) -> None:
        """
        Keep every other writer out until the file is closed.

        Raises:
            StoreBusy: One holds it for longer than *wait_s*. The file is closed then.

            StoreUnavailable: The file system has no locks.
        """
        self._lock = FileLock(self.fd, self.path, wait_s)

    @property
    def is_locked(self) -> bool:
        """Whether this one keeps every other writer out."""
        return self._lock is not None

    def status(self) -> Status:
        """Return the file's status now; its size is that of the log."""
        return os.fstat(self.fd)

    def pread(self, size: int, offset: int) -> bytes:
        """
        Return up to *size* bytes from *offset* on; fewer only at the end of the file.

        Raises:
            StoreUnavailable: The medium fails.
        """
        try:
            data = os.pread(self.fd, size, offset)
        except OSError as error:
            raise refusal(error, self.path) from error
        self.meter.bytes += len(data)
        return data

    def read_block(self, size: int, offset: int) -> bytes:
        """Return what :meth:`pread` does, or the part of it that is had without the rest."""
        return self.pread(size, offset)

    def next_block(self, offset: int) -> int:
        """Return the offset from which a later part can be had where *offset* cannot."""
        return self.status().st_size

    def corrupt(
        self,
        kind: str,
        *,
        offset: int | None = None,
        seq: int | None = None,
        detail: str = "",
    ) -> CorruptLog:
        """
        Build the error for damage in the line at *offset*.

        Cost: with an *offset*, one pass over the bytes before it, to count lines.
        """
        line = None if offset is None else self._line_number(offset)
        return CorruptLog(self.session_id, self.path, line, offset, seq, kind, detail)

    def _line_number(self, offset: int) -> int:
        number, position = 1, 0
        while position < offset:
            block = self.pread(min(1 << 20, offset - position), position)
            if not block:
                break
            number += block.count(b"\n")
            position += len(block)
        return number

    def close(self) -> None:
        """Give back the file, and its lock."""
        if self._lock is None:
            os.close(self.fd)
        else:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<LogFile {self.path}>"


def sync_file(fd: int) -> None:
    """Make a file's bytes and size durable."""
    if sys.platform == "darwin":
        import fcntl

        # fsync there leaves the bytes in the drive's cache.
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(fd)


def sync_folder(path: str) -> None:
    """Make the names in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_folder(root: str) -> None:
    """Create the folder *root* with mode 0700, its parents as needed. Null case: it is there."""
    if os.path.isdir(root):
        return
    os.makedirs(root, mode=0o700, exist_ok=True)
    sync_folder(os.path.dirname(os.path.abspath(root)))
