"""
One writer at a time across processes, with a bounded wait.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from time import monotonic

from eventlog.errors import StoreBusy

try:
    from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
except ImportError:  # Windows: LMDB's own lock serialises the writers, without a bound
    flock = None  # type: ignore[assignment]

__all__ = ["LOCK_UN", "WriterLock", "flock"]


class WriterLock:
    """
    An exclusive ``flock`` on the folder of an environment.

    LMDB has a writer lock of its own, but one can only wait for it for ever. Writers of
    this library take this lock first, so that they find LMDB's free. It is no file, holds
    nothing, and dies with its process. Where the file system knows no ``flock``, LMDB's
    lock is all there is.

    It is given up by ``flock(descriptor, LOCK_UN)``, one step that no interrupt can
    divide; and not by closing, since a child that was forked meanwhile would keep it.

    Args:
        path: The folder, which need not exist before :meth:`acquire`.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._folder: _Folder | None = None
        self._is_supported = flock is not None

    @property
    def descriptor(self) -> int | None:
        """What the lock is held by; None where it never was, or cannot be."""
        return None if self._folder is None else self._folder.descriptor

    def acquire(self, *, wait_s: float) -> None:
        """
        Take the lock.

        Cost: 1 µs where it is free, a thread where it is not.

        Raises:
            StoreBusy: Another process held it for *wait_s*.

            OSError: The folder cannot be opened.
        """
        if not self._is_supported:
            return
        if self._folder is None:
            self._folder = _Folder(self._path)
        try:
            flock(self._folder.descriptor, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            self._wait(wait_s)
        except OSError:
            self._folder = None
            self._is_supported = False

    def forget(self) -> None:
        """Close the folder. In a forked child this leaves the parent's lock alone."""
        self._folder = None

    def _wait(self, wait_s: float) -> None:
        # A blocking flock knows no timeout, and polling would starve behind a busy
        # writer. So another thread waits in the queue of the system, on a descriptor of
        # its own, which it drops should it come too late.
        waiting = _Waiting(_Folder(self._path))
        Thread(target=waiting.run, name="eventlog-writer-lock", daemon=True).start()
        started = monotonic()
        try:
            waiting.woken.acquire(timeout=max(wait_s, 0))
        finally:
            folder = waiting.take()
        if folder is None:
            raise StoreBusy(_owner_of(self._path), round(monotonic() - started, 3))
        self._folder = folder


class _Folder:
    """An open folder, closed with the object, and its lock with it."""

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, os.O_RDONLY)

    def __del__(self) -> None:
        with suppress(AttributeError, OSError):
            os.close(self.descriptor)


class _Waiting:
    """A thread in the queue for the lock, and whoever may lose patience with it."""

    def __init__(self, folder: _Folder) -> None:
        self.woken = Lock()
        self.woken.acquire()
        self._folder: _Folder | None = folder
        self._lock = Lock()
        self._is_locked = False

    def run(self) -> None:
        folder = self._folder
        assert folder is not None
        with suppress(OSError):
            flock(folder.descriptor, LOCK_EX)
        with self._lock:
            self._is_locked = True
        self.woken.release()

    def take(self) -> _Folder | None:
        """Return the locked folder, or abandon the wait and return None."""
        with self._lock:
            folder, self._folder = self._folder, None
            return folder if self._is_locked else None


def _owner_of(path: str) -> str | None:
    """Name the process that holds the lock on *path*, where the system tells."""
    try:
        wanted = str(os.stat(path).st_ino)
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        # 12: FLOCK  ADVISORY  WRITE 4711 fe:00:123456 0 EOF
        parts = line.split()
        if parts[1] == "FLOCK" and parts[5].rpartition(":")[2] == wanted:
            return f"pid {parts[4]}"
    return None
