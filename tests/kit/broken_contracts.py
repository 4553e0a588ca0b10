"""
The contract over every broken store, and over the good ones that they are made of; of
each only the promises in question.

Not collected with the other tests, since it fails: ``test_broken_drivers.py`` runs it and
asserts how.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eventlog.testing import StoreContract
from support.broken import BROKEN, GOOD
from support.broken.appends import BrokenMemory
from support.sqlite_contract import SqliteContract


class MemoryContract(StoreContract):
    reopens = False


def contract_of(kind: type[Any], promises: set[str]) -> type[StoreContract]:
    """Return the contract of one store class, held to these promises only."""

    def open_store(self: object, root: Path, *, read_only: bool = False) -> object:
        return kind(root, read_only=read_only)

    members: dict[str, object] = {"open_store": open_store}
    # What is no function is not collected.
    members |= {
        name: None
        for name in dir(StoreContract)
        if name.startswith("test_") and name not in promises
    }
    base = MemoryContract if issubclass(kind, BrokenMemory) else SqliteContract
    return type(f"Test{kind.__name__}", (base,), members)


contracts = {f"Test{name}": contract_of(kind, {kind.promise}) for name, kind in BROKEN.items()}
all_promises = {kind.promise for kind in BROKEN.values()}
contracts |= {f"Test{name}": contract_of(kind, all_promises) for name, kind in GOOD.items()}
globals().update(contracts)
