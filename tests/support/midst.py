"""What a signal handler or a finalizer does, at each place where one may run."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["steps_of", "struck"]

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


def steps_of(call: Callable[[], object]) -> int:
    """Count the places of a call at which something may strike."""
    with struck(lambda: None, 0) as count:
        call()
    return count[0]
