"""
The bounds of cost from 1,000 to 100,000, and races of thousands of appends: by hand.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from eventlog import EventStore
from eventlog.drivers.jsonl import JsonlStore
from eventlog.drivers.lmdb import LmdbStore
from eventlog.drivers.memory import MemoryStore
from eventlog.testing.contract.cost import CostContract
from eventlog.testing.contract.sharing import SharingContract

pytestmark = pytest.mark.long


class AtLength(CostContract, SharingContract):
    """A hundred thousand events, ten thousand sessions, 16 threads of 200 appends each."""

    short_log_events = 1_000
    long_log_events = 100_000
    crowd_sessions = 10_000
    threads = 16
    appends_a_thread = 200
    storage_factor_max = 2.5


class TestMemoryAtLength(AtLength):
    reopens = False
    # Sessions in memory cost nothing to make.
    crowd_sessions = 100_000

    def open_store(self, root: Path, *, read_only: bool = False) -> EventStore:
        return MemoryStore(read_only=read_only)


class TestLmdbAtLength(AtLength):
    volatile_files = frozenset({"lock.mdb"})
    crowd_sessions = 100_000

    def open_store(self, root: Path, *, read_only: bool = False) -> EventStore:
        return LmdbStore(root, read_only=read_only)


class TestJsonlAtLength(AtLength):
    storage_factor_max = 1.5

    def open_store(self, root: Path, *, read_only: bool = False) -> EventStore:
        return JsonlStore(root, read_only=read_only)
