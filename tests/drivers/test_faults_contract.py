"""The durable drivers under faults, as the kit has them for any driver."""

from __future__ import annotations

from pathlib import Path

from eventlog.drivers.jsonl import JsonlStore
from eventlog.drivers.lmdb import LmdbStore
from eventlog.testing import FaultContract


class TestJsonlFaults(FaultContract):
    def open_store(self, root: Path, *, read_only: bool = False) -> JsonlStore:
        return JsonlStore(root, read_only=read_only)


class TestLmdbFaults(FaultContract):
    def open_store(self, root: Path, *, read_only: bool = False) -> LmdbStore:
        return LmdbStore(root, read_only=read_only)
