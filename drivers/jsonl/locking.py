"""
One writer at a time: a lock on the log itself, and one for the threads of a process.

``flock`` holds for an open file, so it ends with its process however that dies. A forked
child shares the open file and would keep the lock after its parent's death: it closes
what its parent held, and the parent unlocks explicitly.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import random
import time
from threading import RLock
from weakref import WeakValueDictionary

from eventlog.errors import StoreBusy
from eventlog.locks import unowned

from .refusals import refusal

__all__ = ["FileLock", "PathLock"]

PAUSE_FIRST_S = 0.0005
PAUSE_MAX_S = 0.02


class _ThreadLock:
    """A lock that can be referred to weakly."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = RLock()


_paths: WeakValueDictionary[str, _ThreadLock] = WeakValueDictionary()
_paths_lock = RLock()
# Descriptors that hold a lock now.
_held: set[int] = set()


def _leave_to_parent() -> None:
    global _paths, _paths_lock
    _paths = WeakValueDictionary()
    _paths_lock = RLock()
    for fd in _held:
        with contextlib.suppress(OSError):
            os.close(fd)
    _held.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


class PathLock:
    """
    Keeps the other threads of this process from writing the log at *path*.

    Raises:
        StoreBusy: One of them writes for longer than *wait_s*, or this one does, and this
            call interrupts it.
    """

    __slots__ = ("_held",)

    def __init__(self, path: str, wait_s: float) -> None:
        with _paths_lock:
            held = _paths.get(path)
            if held is None:
                held = _paths[path] = _ThreadLock()
        if not unowned(held.lock).acquire(timeout=wait_s):
            raise StoreBusy(f"pid {os.getpid()}", wait_s)
        self._held = held

    def __enter__(self) -> None:
        pass

    def __exit__(self, *unused: object) -> None:
        self._held.lock.release()


class FileLock:
    """
    Holds the lock of the open file *fd*, and closes *fd* when it is released.

    Raises:
        StoreBusy: Another process holds it for longer than *wait_s*; *fd* is closed.

        StoreUnavailable: The file system has no locks; *fd* is closed.
    """

    __slots__ = ("_fd",)

    def __init__(self, fd: int, path: str, wait_s: float) -> None:
        self._fd = fd
        _held.add(fd)
        try:
            _lock(fd, path, wait_s)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let others write."""
        # In a forked child it was closed already, and the number may be another file's.
        if self._fd in _held:
            _held.discard(self._fd)
            # Unlocked explicitly: a process that was forked in between may share the file.
            with contextlib.suppress(OSError):
                fcntl.flock(self._fd, fcntl.LOCK_UN)
            os.close(self._fd)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *unused: object) -> None:
        self.release()


def _lock(fd: int, path: str, wait_s: float) -> None:
    began = time.monotonic()
    pause_s = PAUSE_FIRST_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EINTR):
                raise refusal(error, path, writing=True) from error
        waited_s = time.monotonic() - began
        if waited_s >= wait_s:
            raise StoreBusy(owner_of(fd), round(waited_s, 3))
        # Of several that wait, none should always be the one that comes too late.
        time.sleep(pause_s * random.uniform(0.5, 1.0))
        pause_s = min(2 * pause_s, PAUSE_MAX_S)


def owner_of(fd: int) -> str | None:
    """Say who holds the lock of *fd*; None where nobody does, or the system does not tell."""
    status = os.fstat(fd)
    wanted = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        with open("/proc/locks", encoding="ascii") as table:
            for row in table:
                fields = row.split()
                # "1: FLOCK ADVISORY WRITE 4711 08:01:131090 0 EOF"; waiters have "->".
                if fields[1] == "FLOCK" and fields[5] == wanted and int(fields[4]) > 0:
                    return f"pid {fields[4]}"
    except (OSError, ValueError, IndexError):
        return None
    return None
