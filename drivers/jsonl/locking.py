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
from weakref import ref

from eventlog.errors import StoreBusy
from eventlog.locks import is_own, unowned

from .refusals import refusal

__all__ = ["FileLock", "PathLock"]

PAUSE_FIRST_S = 0.0005
PAUSE_MAX_S = 0.02
PATHS_MAX = 1024

# Weakly: an interrupt may tear away a release, and a lock that nobody refers to is gone.
# By no WeakValueDictionary, which tidies up in a callback: Ctrl-C in there is swallowed.
_paths: dict[str, ref[RLock]] = {}
_paths_lock = RLock()
# Descriptors that hold a lock now, and whose it is.
_held: dict[int, ref[FileLock]] = {}


def _leave_to_parent() -> None:
    global _paths, _paths_lock, _held
    _paths = {}
    _paths_lock = RLock()
    for fd in _held:
        with contextlib.suppress(OSError):
            os.close(fd)
    _held.clear()
    _held = {}  # the parent's locks keep theirs


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
            known = _paths.get(path)
            held = None if known is None else known()
            if held is None:
                if len(_paths) >= PATHS_MAX:
                    _drop_unused()
                held = RLock()
                _paths[path] = ref(held)
        unowned(held)
        try:
            if not held.acquire(timeout=wait_s):
                raise StoreBusy(f"pid {os.getpid()}", wait_s)
        except BaseException:
            if is_own(held):  # an interrupt came right behind it
                held.release()
            raise
        self._held = held

    def __enter__(self) -> None:
        pass

    def __exit__(self, *unused: object) -> None:
        self._held.release()


def _drop_unused() -> None:
    for path, known in list(_paths.items()):
        if known() is None:
            _paths.pop(path, None)


class FileLock:
    """
    Holds the lock of the open file *fd*, and closes *fd* when it is released.

    Raises:
        StoreBusy: Another process holds it for longer than *wait_s*; *fd* is closed.

        StoreUnavailable: The file system has no locks; *fd* is closed.
    """

    __slots__ = ("__weakref__", "_among", "_fd")

    def __init__(self, fd: int, path: str, wait_s: float) -> None:
        self._fd = fd
        self._among = among = _held
        # An interrupt may tear away the end of a lock. Then the object's end is it.
        among[fd] = ref(self, lambda _: _unlock(fd, among))
        try:
            _lock(fd, path, wait_s)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let others write. Null case: they may."""
        fd, among = self._fd, self._among
        if fd in among:
            _unlock(fd, among)
            self._fd = -1  # the number may become another file's

    def __enter__(self) -> None:
        pass

    def __exit__(self, *unused: object) -> None:
        self.release()


def _unlock(fd: int, among: dict[int, ref[FileLock]]) -> None:
    # In a forked child it was closed already.
    if fd in among:
        # Unlocked explicitly: a process that was forked in between may share the file.
        # And first, since an interrupt may tear away the rest.
        with contextlib.suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_UN)
        del among[fd]
        os.close(fd)


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
