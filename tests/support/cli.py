"""What a run of the command line leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import orjson

__all__ = ["Result", "Run"]


class Result(NamedTuple):
    """What one command left: its exit code, its answer, and what it said about it."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return orjson.loads(self.out)


Run = Callable[..., Result]
