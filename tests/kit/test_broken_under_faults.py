"""The kit's faults, held to find every store that keeps no promise under them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from eventlog import EventLogError, EventStore
from eventlog.testing import CrashPlan, FaultContract
from support import IN_MEMORY
from support.broken.faults import BROKEN_UNDER_FAULTS, BareSqlite

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


class SqliteFaults(FaultContract):
    """The contract over one store class, with few kills."""

    crash_plans = (CrashPlan(6, 1, (50, 500), seed=1), CrashPlan(6, 7, (50, 500), seed=2))

    def __init__(self, kind: type[BareSqlite]) -> None:
        self._kind = kind

    def open_store(self, root: Path, *, read_only: bool = False) -> EventStore:
        return self._kind(root, read_only=read_only)


@pytest.fixture
def place() -> Iterator[Path]:
    """Where nothing is yet, on a medium whose speed decides nothing."""
    with TemporaryDirectory(prefix="faults-", dir=IN_MEMORY) as folder:
        yield Path(folder, "store")


@pytest.mark.parametrize("name", BROKEN_UNDER_FAULTS)
def test_fault_is_found_by_its_promise(place: Path, name: str) -> None:
    """
    The promise that a store breaks under faults fails for it.
    """
    kind = BROKEN_UNDER_FAULTS[name]

    with pytest.raises((AssertionError, EventLogError)):
        getattr(SqliteFaults(kind), kind.promise)(place)


@pytest.mark.parametrize("promise", sorted({kind.promise for kind in BROKEN_UNDER_FAULTS.values()}))
def test_promise_is_kept_without_the_fault(place: Path, promise: str) -> None:
    """
    The store that the broken ones are made of keeps each of these promises.
    """
    getattr(SqliteFaults(BareSqlite), promise)(place)
