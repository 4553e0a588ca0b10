"""
The gate that reads pass, and that closes for what no read may see.
"""

from __future__ import annotations

from threading import Condition, Lock
from time import monotonic
from typing import Final

__all__ = ["ReadGate"]

# Who waits here is woken. An interrupt may tear a wake away, so one looks up as well.
LOOK_S: Final = 0.05


class ReadGate:
    """
    Lets reads in, and keeps them out while somebody has closed it.

    ``abort`` of a write transaction in lmdb 3.0.0 waits until it sees no other call of
    the environment under way, which two reading threads can put off for ever, and the
    writer lock is held meanwhile. Opening a map anew ends the reads inside. Both
    therefore close the gate and wait for the reads to leave, which takes one call.

    An interrupt may strike between any two steps of Python. So whoever enters or closes
    is a token in a set: adding and discarding are each one step, and discarding what is
    not there does no harm.

    Attributes:
        inside: The tokens of the reads inside.

        closers: The tokens of those who keep it closed. To open it, discard yours and
            call :meth:`wake`.
    """

    __slots__ = ("_changed", "closers", "inside")

    def __init__(self) -> None:
        self.inside: set[object] = set()
        self.closers: set[object] = set()
        self._changed = Condition(Lock())

    def enter(self, token: object) -> None:
        """Go in as *token*, once the gate is open."""
        # Reads are many and closers few, so a read takes no lock while it is open. The
        # token comes first and then the look: a closer closes first and looks then.
        self.inside.add(token)
        while self.closers:
            self.leave(token)
            with self._changed:
                if self.closers:
                    self._changed.wait(LOOK_S)
            self.inside.add(token)

    def leave(self, token: object) -> None:
        """Go out. Null case: *token* is not inside."""
        self.inside.discard(token)
        if self.closers:
            self.wake()

    def close(self, token: object, *, wait_s: float | None = None) -> bool:
        """
        Let nobody in any more, as *token*, and wait until all are out.

        Args:
            wait_s: Wait at most so long; None is without bound.

        Returns:
            Whether all are out. The gate is closed in any case.
        """
        until = None if wait_s is None else monotonic() + wait_s
        self.closers.add(token)
        while self.inside:
            if until is not None and monotonic() >= until:
                return False
            with self._changed:
                if self.inside:
                    self._changed.wait(LOOK_S)
        return True

    def wake(self) -> None:
        """Have all who wait look again."""
        with self._changed:
            self._changed.notify_all()
