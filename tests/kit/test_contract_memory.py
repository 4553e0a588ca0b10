"""The contract, held by the memory store."""

from __future__ import annotations

from pathlib import Path

from eventlog.drivers.memory import MemoryStore
from eventlog.testing import StoreContract


class TestMemoryStore(StoreContract):
    reopens = False

    def open_store(self, root: Path, *, read_only: bool = False) -> MemoryStore:
        return MemoryStore(read_only=read_only)
