"""The contract, held by the memory store."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventlog.drivers.memory import MemoryStore
from eventlog.errors import InvalidArgument
from eventlog.testing import StoreContract
from support import make_header, messages


class TestMemoryStore(StoreContract):
    reopens = False

    def open_store(self, root: Path, *, read_only: bool = False) -> MemoryStore:
        return MemoryStore(read_only=read_only)


def test_token_ahead_of_the_store_is_refused() -> None:
    """
    A made-up token that names a later change was taken, and hid all changes up to it.
    """
    store = MemoryStore()
    store.append(make_header(), messages(1))
    position, _, origin = store.changes().token.partition(".")

    with pytest.raises(InvalidArgument) as caught:
        store.changes(f"{int(position) + 1}.{origin}")

    assert "since" == caught.value.name
