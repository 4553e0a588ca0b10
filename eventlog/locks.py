"""
Locks that a thread may meet again while it holds them, and a forked child without it.

Signal handlers, and finalizers of objects that are let go, run in the middle of whatever
their thread is doing, and the locks that it holds do not keep them out: a plain lock is
waited for for ever, and a reentrant one lets them into what is half done.

A forked child has the locks of its parent's threads, and none of these threads to let
them go.
"""

from __future__ import annotations

import os
from threading import RLock
from typing import Final
from weakref import ref

from eventlog.errors import StoreBusy

__all__ = ["forkable_lock", "is_own", "unowned"]

OWNER: Final = "a call of this thread that this call interrupts"


# Forgotten by a call in C, which Ctrl-C cannot strike.
_forkable: set[ref[RLock]] = set()


def forkable_lock() -> RLock:
    """
    Return a lock that is free in a forked child, unless the thread that forks holds it.

    What it guards must be whole, or known to be torn, at every place where a thread can be
    interrupted.
    """
    lock = RLock()
    _forkable.add(ref(lock, _forkable.discard))
    return lock


def _free_in_child() -> None:
    for known in list(_forkable):
        lock = known()
        if lock is not None and not is_own(lock):
            lock._at_fork_reinit()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_in_child)


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
