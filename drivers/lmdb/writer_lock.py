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
    import fcntl
except ImportError:  # Windows: LMDB's own lock serialises the writers, without a bound
    fcntl = None  # type: ignore[assignment]

__all__ = ["WriterLock"]


class WriterLock:
    """
    An exclusive ``flock`` on the folder of an environment.

    LMDB has a writer lock of its own, but one can only wait for it for ever. Writers of
    this library take this lock first, so that they find LMDB's free. It is no file, holds
    nothing, and dies with its process. Where the file system knows no ``flock``, LMDB's
    lock is all there is.

    Args:
        folder: The folder, which need not exist before :meth:`acquire`.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._descriptor: int | None = None
        self._supported = fcntl is not None

    def acquire(self, *, wait_s: float) -> None:
        """
        Take the lock.

        Cost: 1 µs where it is free, a thread where it is not.

        Raises:
            StoreBusy: Another process held it for *wait_s*.
        """
        if not self._supported:
            return
        if self._descriptor is None:
            self._descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._wait(wait_s)
        except OSError:
            self._supported = False

    def release(self) -> None:
        """Give the lock up. Null case: it is not held."""
        # Not by closing: a child forked meanwhile would keep the lock.
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give up the descriptor. In a forked child this leaves the parent's lock alone."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        self.close()

    def _wait(self, wait_s: float) -> None:
        # A blocking flock knows no timeout, and polling would starve behind a busy
        # writer. So another thread waits in the queue of the system, on a descriptor of
        # its own: should it come too late, it only has to close it.
        waiting = _Waiting(os.open(self._folder, os.O_RDONLY))
        Thread(target=waiting.run, name="eventlog-writer-lock", daemon=True).start()
        started = monotonic()
        try:
            waiting.woken.acquire(timeout=max(wait_s, 0))
        finally:
            descriptor = waiting.take()
        if descriptor is None:
            raise StoreBusy(_owner_of(self._folder), round(monotonic() - started, 3))
        self.close()
        self._descriptor = descriptor


class _Waiting:
    """A thread in the queue for the lock, and whoever may lose patience with it."""

    def __init__(self, descriptor: int) -> None:
        self.woken = Lock()
        self.woken.acquire()
        self._descriptor = descriptor
        self._lock = Lock()
        self._locked = False
        self._abandoned = False

    def run(self) -> None:
        with suppress(OSError):
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        with self._lock:
            if self._abandoned:
                os.close(self._descriptor)
            self._locked = True
        self.woken.release()

    def take(self) -> int | None:
        """Return the locked descriptor, or abandon the wait and return None."""
        with self._lock:
            if self._locked:
                return self._descriptor
            self._abandoned = True
            return None


def _owner_of(folder: str) -> str | None:
    """Name the process that holds the lock on *folder*, where the system tells."""
    try:
        wanted = str(os.stat(folder).st_ino)
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        # 12: FLOCK  ADVISORY  WRITE 4711 fe:00:123456 0 EOF
        parts = line.split()
        if parts[1] == "FLOCK" and parts[5].rpartition(":")[2] == wanted:
            return f"pid {parts[4]}"
    return None
