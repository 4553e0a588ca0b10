"""What a signal handler or a finalizer does, at each place where one may run."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import CO_GENERATOR
from types import FrameType
from typing import Any

__all__ = ["interrupted", "steps_of", "struck"]

AROUND = (__file__, contextlib.__file__)


@contextmanager
def struck(strike: Callable[[], object], at: int) -> Iterator[list[int]]:
    """
    Run *strike* in this thread, in the midst of the block, at place number *at* of those at
    which Python runs handlers: where a function begins, and behind each call.

    The list given counts these places.
    """
    count = [0]

    def profile(frame: FrameType, event: str, *unused: Any) -> None:
        # Not before a call in C: between a lock's release and what comes before it, nothing
        # can strike.
        if event == "c_call" or frame.f_code.co_filename in AROUND:
            return
        count[0] += 1
        if count[0] == at:
            strike()

    sys.setprofile(profile)
    try:
        yield count
    finally:
        sys.setprofile(None)


@contextmanager
def interrupted(at: int) -> Iterator[list[int]]:
    """
    Raise Ctrl-C in this thread, at place number *at* of the block; at none if it has fewer.

    The places are those of :func:`struck` at which the exception is raised in the function
    that runs there: not where one returns, nor where a generator goes on, as it does to be
    closed.
    """
    count = [0]

    def profile(frame: FrameType, event: str, *unused: Any) -> None:
        code = frame.f_code
        if event not in ("call", "c_return") or code.co_filename in AROUND:
            return
        if event == "call" and code.co_flags & CO_GENERATOR and frame.f_lasti > 0:
            return
        count[0] += 1
        if count[0] == at:
            raise KeyboardInterrupt

    # What other tests left is not to be collected, and its callbacks struck, in here.
    gc.disable()
    sys.setprofile(profile)
    try:
        yield count
    finally:
        sys.setprofile(None)
        gc.enable()


def steps_of(call: Callable[[], object]) -> int:
    """Count the places of a call at which something may strike."""
    with struck(lambda: None, 0) as count:
        call()
    return count[0]
