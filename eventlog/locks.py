"""
Locks that a thread may meet again while it holds them.

Signal handlers, and finalizers of objects that are let go, run in the middle of whatever
their thread is doing, and the locks that it holds do not keep them out: a plain lock is
waited for for ever, and a reentrant one lets them into what is half done.
"""

from __future__ import annotations

from threading import RLock
from typing import Final

from eventlog.errors import StoreBusy

__all__ = ["is_own", "unowned"]

OWNER: Final = "a call of this thread that this call interrupts"


def is_own(lock: RLock) -> bool:
    """Tell whether this thread holds *lock*."""
    owned: bool = lock._is_owned()  # type: ignore[attr-defined]
    return owned


def unowned(lock: RLock) -> RLock:
    """
    Return *lock*, to be entered by ``with`` at once, unless this thread holds it already.

    Raises:
        StoreBusy: It does. Nothing was done; the call is to be made again later, when the
            one that was interrupted has come to its end.
    """
    if lock._is_owned():  # type: ignore[attr-defined]
        raise StoreBusy(OWNER, 0.0)
    return lock
