"""
Writing a log: whole lines at its end, and a new log that appears only when it is whole.

What a crash leaves, by the moment at which it falls:

* while lines are appended: a prefix of them, and perhaps a part of one behind it, without
  its LF. Readers stop at the last LF. The next writer moves the part to ``STEM.torn`` and
  cuts it off, under the lock, before it writes;
* while a log is created: ``.STEM.new``, which no reader looks at. It takes the log's name
  only when header and events are durable in it. The next creation takes it away;
* while a session is deleted: the tombstone, or tombstone and log. The tombstone hides the
  log from the moment it is there.

A write that fails is cut off again before the error is raised.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import orjson

from eventlog.errors import EventLogError, StoreUnavailable

from .envelope import is_padding
from .layout import Layout
from .locking import FileLock
from .medium import LogFile, make_folder, sync_file, sync_folder
from .refusals import refusal

__all__ = [
    "LogAppeared",
    "append_lines",
    "claimed",
    "created_log",
    "cut_torn_tail",
    "drop",
    "is_at",
    "read_tombstone",
    "write_all",
    "write_tombstone",
]

# One write holds whole lines, and as many as fit in here.
WRITE_BYTES_MAX: Final = 16 << 20

# How long a creator waits for others on a file system without links.
FOLDER_WAIT_S: Final = 10.0

_NEW_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
# What link() says where a file system has none, or forbids them.
_NO_LINKS: Final = frozenset(
    {errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK}
)


class LogAppeared(Exception):
    """Another process created the log in the meantime: the append must be judged anew."""


def append_lines(file: LogFile, layout: Layout, lines: Sequence[bytes], torn_path: str) -> int:
    """
    Write *lines* behind the last whole line of *file*, durably; the caller holds the lock.

    A torn tail is kept in *torn_path* and cut off first.

    Returns:
        The file's new size.

    Raises:
        StoreFull, StoreReadOnly, StoreUnavailable: Nothing was added.
    """
    if layout.size > layout.end:
        cut_torn_tail(file, layout, torn_path)
    try:
        size = layout.end + _write(file.fd, lines)
        sync_file(file.fd)
        return size
    except BaseException as error:
        _cut_back(file, layout.end, error)
        if isinstance(error, OSError) and not isinstance(error, EventLogError):
            raise refusal(error, file.path, writing=True) from error
        raise


def _write(fd: int, lines: Sequence[bytes]) -> int:
    """Write whole lines, in one call unless they are very many. Returns their bytes."""
    size = sum(map(len, lines))
    if size <= WRITE_BYTES_MAX or len(lines) == 1:
        write_all(fd, b"".join(lines))
    else:
        half = len(lines) // 2
        _write(fd, lines[:half])
        _write(fd, lines[half:])
    return size


def write_all(fd: int, data: bytes) -> None:
    written = os.write(fd, data)
    while written < len(data):
        # The next one says why this one was short.
        written += os.write(fd, memoryview(data)[written:])


def _cut_back(file: LogFile, end: int, error: BaseException) -> None:
    try:
        os.ftruncate(file.fd, end)
        sync_file(file.fd)
    except OSError as failure:
        raise StoreUnavailable(
            file.path,
            f"the lines of a failed append may stay behind: {failure.strerror} after {error!r}",
        ) from error


def cut_torn_tail(file: LogFile, layout: Layout, torn_path: str) -> None:
    """Move the bytes behind the last whole line to *torn_path*, as one line there."""
    try:
        torn: int | None = None
        before = 0
        try:
            for offset in range(layout.end, layout.size, 1 << 20):
                block = file.pread(min(1 << 20, layout.size - offset), offset)
                if torn is None:
                    if is_padding(block):
                        continue
                    flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
                    torn = os.open(torn_path, flags, 0o600)
                    before = os.fstat(torn).st_size
                write_all(torn, block)
            if torn is not None:
                write_all(torn, b"\n")
                sync_file(torn)
                sync_folder(os.path.dirname(torn_path))
        except BaseException:
            if torn is not None:
                with contextlib.suppress(OSError):
                    os.ftruncate(torn, before)
            raise
        finally:
            if torn is not None:
                os.close(torn)
        os.ftruncate(file.fd, layout.end)
    except OSError as error:
        if isinstance(error, EventLogError):
            raise
        raise refusal(error, torn_path, writing=True) from error


@contextmanager
def created_log(
    path: str,
    new_path: str,
    lines: Iterable[bytes],
    wait_s: float,
    is_taken: Callable[[], bool],
) -> Iterator[None]:
    """
    Create the log *path* with *lines*, durably; it appears whole or not at all.

    In the context it is held against every other writer, and stays what and where it is.

    Args:
        new_path: Where it is written first, in the same folder.

        is_taken: Tells whether the session was deleted, or created and archived, in the
            meantime.

    Raises:
        LogAppeared: Another process created it, or deleted it, first.

        StoreBusy: Another process is creating it for longer than *wait_s*.

        StoreFull, StoreReadOnly, StoreUnavailable: Nothing was created.
    """
    folder = os.path.dirname(path)
    try:
        make_folder(folder)
        with claimed(new_path, wait_s) as fd:
            try:
                _write_runs(fd, lines)
                sync_file(fd)
                _publish(new_path, path, folder)
            finally:
                # Where this fails a spare name is left, which means nothing.
                with contextlib.suppress(OSError):
                    drop(fd, new_path)
            # The lock is the log's own now: it is one file under two names.
            try:
                sync_folder(folder)
                if is_taken() or not is_at(fd, path):
                    raise LogAppeared
            except BaseException:
                with contextlib.suppress(OSError):
                    drop(fd, path)
                raise
            yield
    except OSError as error:
        if isinstance(error, EventLogError):
            raise
        raise refusal(error, path, writing=True) from error


def _write_runs(fd: int, lines: Iterable[bytes]) -> None:
    """Write any number of lines, holding no more than one call writes."""
    held: list[bytes] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size >= WRITE_BYTES_MAX:
            _write(fd, held)
            held, size = [], 0
    _write(fd, held)


@contextmanager
def claimed(new_path: str, wait_s: float) -> Iterator[int]:
    """
    Hold an empty, new and locked file at *new_path*.

    What a crash left there is taken away, once nobody holds it; never written to, since
    the crash may have fallen when it had the log's name already.
    """
    while True:
        try:
            fd, is_own = os.open(new_path, _NEW_FLAGS | os.O_CREAT | os.O_EXCL, 0o600), True
        except FileExistsError:
            try:
                fd, is_own = os.open(new_path, _NEW_FLAGS), False
            except FileNotFoundError:
                continue
        with FileLock(fd, new_path, wait_s):
            is_there = is_at(fd, new_path)
            if is_own and is_there:
                yield fd
                return
            if is_there:
                os.unlink(new_path)


def drop(fd: int, path: str) -> None:
    """Take the name *path* away, where it is that of the file *fd*, which is locked."""
    if is_at(fd, path):
        os.unlink(path)


def is_at(fd: int, path: str) -> bool:
    """Tell whether the open file *fd* is the one at *path*."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _publish(new_path: str, path: str, folder: str) -> None:
    """Give the file at *new_path* the name *path*, unless something has it."""
    try:
        os.link(new_path, path)
        return
    except FileExistsError:
        raise LogAppeared from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
    # Renaming would replace a log that appeared, so here creators take turns.
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with FileLock(fd, folder, FOLDER_WAIT_S):
        if os.path.lexists(path):
            raise LogAppeared
        os.rename(new_path, path)


def write_tombstone(path: str, session_id: str) -> None:
    """
    Create the tombstone *path* durably. Null case: it is there.

    Raises:
        StoreFull, StoreReadOnly, StoreUnavailable: It is not there.
    """
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        try:
            fd = os.open(path, flags, 0o600)
        except FileExistsError:
            return
        try:
            write_all(fd, orjson.dumps({"deleted": session_id}) + b"\n")
            sync_file(fd)
            sync_folder(os.path.dirname(path))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise
        finally:
            os.close(fd)
    except OSError as error:
        raise refusal(error, path, writing=True) from error


def read_tombstone(path: str) -> str | None:
    """Return the session id that a tombstone tells; None where it tells none."""
    try:
        with open(path, "rb") as file:
            record = orjson.loads(file.read(4096))
    except (OSError, orjson.JSONDecodeError):
        return None
    session_id = record.get("deleted") if type(record) is dict else None
    return session_id if type(session_id) is str else None
