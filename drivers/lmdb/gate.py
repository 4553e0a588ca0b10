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

    Reads and closers are known by tokens, so that leaving twice, or without having
    entered, does no harm: an interrupt may strike between any two steps.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._opened = Condition(self._lock)
        self._emptied = Condition(self._lock)
        self._inside: set[object] = set()
        self._closers: set[object] = set()

    def enter(self, token: object) -> None:
        """Go in as *token*, once the gate is open."""
        # Reads are many and closers few, so a read takes no lock while it is open. The
        # token comes first and then the look: a closer closes first and looks then.
        self._inside.add(token)
        if self._closers:
            self._enter_later(token)

    def _enter_later(self, token: object) -> None:
        with self._lock:
            while self._closers:
                self._inside.discard(token)
                self._emptied.notify_all()
                self._opened.wait()
            self._inside.add(token)

    def leave(self, token: object) -> None:
        """Go out. Null case: *token* is not inside."""
        self._inside.discard(token)
        if self._closers:
            with self._lock:
                self._emptied.notify_all()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Keep reads out, having waited for those inside."""
        token = object()
        try:
            self.close(token)
            yield
        finally:
            self.open(token)

    def close(self, token: object, *, wait_s: float | None = None) -> bool:
        """
        Let nobody in any more, as *token*, and wait until all are out.

        Args:
            wait_s: Wait at most so long; None is without bound.

        Returns:
            Whether all are out. The gate is closed in any case.
        """
        until = None if wait_s is None else monotonic() + wait_s
        with self._lock:
            self._closers.add(token)
            while self._inside:
                left = None if until is None else until - monotonic()
                if left is not None and left <= 0:
                    return False
                self._emptied.wait(left)
            return True

    def open(self, token: object) -> None:
        """Let reads in again, once no other closer keeps it closed. Null case: as for leaving."""
        with self._lock:
            self._closers.discard(token)
            self._opened.notify_all()
