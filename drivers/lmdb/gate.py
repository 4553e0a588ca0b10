"""
The gate that reads pass, and that closes for what no read may see.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, Lock
from time import monotonic

__all__ = ["ReadGate"]


class ReadGate:
    """
    Lets reads in, and keeps them out while it is closed.

    ``abort`` of a write transaction in lmdb 3.0.0 waits until it sees no other call of
    the environment under way, which two reading threads can put off for ever, and the
    writer lock is held meanwhile. Opening a map anew ends the reads inside. Both
    therefore close the gate and wait for the reads to leave, which is at most one call.

    A read is known by a token, so that leaving twice, or without having entered, does
    no harm: an interrupt may strike between any two steps.
    """

    def __init__(self) -> None:
        lock = Lock()
        self._lock = lock
        self._opened = Condition(lock)
        self._emptied = Condition(lock)
        self._inside: set[object] = set()
        self._closed = False

    def enter(self, token: object) -> None:
        """Go in as *token*, once the gate is open."""
        with self._lock:
            while self._closed:
                self._opened.wait()
            self._inside.add(token)

    def leave(self, token: object) -> None:
        """Go out. Null case: *token* is not inside."""
        with self._lock:
            self._inside.discard(token)
            if self._closed and not self._inside:
                self._emptied.notify_all()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Keep reads out, having waited for those inside. One closer at a time."""
        try:
            self.close()
            yield
        finally:
            self.open()

    def close(self, *, wait_s: float | None = None) -> bool:
        """
        Let nobody in any more and wait until all are out.

        Args:
            wait_s: Wait at most so long; None is without bound.

        Returns:
            Whether all are out.
        """
        until = None if wait_s is None else monotonic() + wait_s
        with self._lock:
            self._closed = True
            while self._inside:
                left = None if until is None else until - monotonic()
                if left is not None and left <= 0:
                    return False
                self._emptied.wait(left)
            return True

    def open(self) -> None:
        """Let reads in again."""
        with self._lock:
            self._closed = False
            self._opened.notify_all()

    @property
    def inside(self) -> int:
        """How many reads are inside."""
        return len(self._inside)
