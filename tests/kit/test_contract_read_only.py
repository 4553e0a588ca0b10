"""The contract, held by the wrapper that refuses writes, over a store that is written beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from eventlog import (
    Batch,
    ChangeSet,
    Event,
    EventLogError,
    EventStore,
    HeadKey,
    HeadPage,
    LogSnapshot,
    ReadOnlyStore,
    SessionHead,
    SessionHeader,
)
from eventlog.drivers.memory import MemoryStore
from eventlog.errors import StoreClosed, StoreReadOnly
from eventlog.findings import Finding, Gap
from eventlog.testing import StoreContract, make_header, messages


class ReadThrough(EventStore):
    """A store that writes to *inner* and reads it through its read-only wrapper."""

    def __init__(self, inner: EventStore) -> None:
        super().__init__(inner.location)
        self._inner = inner
        self._reader = ReadOnlyStore(inner)
        self.capabilities = inner.capabilities
        self.meter = self._reader.meter

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        return self._inner.append(header, events)

    def append_many(self, batches: Sequence[Batch]) -> list[int | EventLogError]:
        return self._inner.append_many(batches)

    def delete(self, session_id: str, *, forget: bool = False) -> bool:
        return self._inner.delete(session_id, forget=forget)

    def snapshot(self, session_id: str, *, at: int | None = None) -> LogSnapshot:
        return self._reader.snapshot(session_id, at=at)

    def head(self, session_id: str) -> SessionHead | None:
        return self._reader.head(session_id)

    def heads(self, *, after: HeadKey | None = None, limit: int = 50) -> HeadPage:
        return self._reader.heads(after=after, limit=limit)

    def children(
        self, parent_id: str, *, after: HeadKey | None = None, limit: int = 50
    ) -> HeadPage:
        return self._reader.children(parent_id, after=after, limit=limit)

    def changes(self, since: str | None = None) -> ChangeSet:
        return self._reader.changes(since)

    def verify(self) -> Iterator[Finding]:
        return self._reader.verify()

    def repair(self, *, dry_run: bool = True) -> list[Finding]:
        return self._inner.repair(dry_run=dry_run)

    def salvage(self, session_id: str) -> Iterator[Event | Gap]:
        return self._reader.salvage(session_id)

    def close(self) -> None:
        super().close()
        self._reader.close()
        self._inner.close()

    # Never reached: each call above has gone to the inner store.

    def _writing(self, session_id: str) -> NoReturn:
        raise NotImplementedError

    def _read_events(self, head: SessionHead, start: int, stop: int) -> NoReturn:
        raise NotImplementedError

    def _head(self, session_id: str) -> NoReturn:
        raise NotImplementedError

    def _heads(self, after: HeadKey | None, limit: int) -> NoReturn:
        raise NotImplementedError

    def _delete(self, session_id: str, forget: bool) -> NoReturn:
        raise NotImplementedError


class TestReadOnlyStore(StoreContract):
    reopens = False

    def open_store(self, root: Path, *, read_only: bool = False) -> EventStore:
        return ReadOnlyStore(MemoryStore()) if read_only else ReadThrough(MemoryStore())


@pytest.fixture
def inner() -> MemoryStore:
    """A store with one session."""
    store = MemoryStore()
    store.append(make_header(), messages(3))
    return store


def test_wrapper_refuses_writes_to_a_full_store(inner: MemoryStore) -> None:
    """
    Each write is refused by the wrapper, and the store behind it stays as it was.
    """
    wrapper = ReadOnlyStore(inner)

    for write in (
        lambda: wrapper.append(make_header(), messages(1, start=3)),
        lambda: wrapper.append(make_header(), messages(3)),
        lambda: wrapper.append_many([Batch(make_header(), messages(1, start=3))]),
        lambda: wrapper.delete("s1"),
        lambda: wrapper.repair(dry_run=False),
    ):
        with pytest.raises(StoreReadOnly) as caught:
            write()
        assert inner.location == caught.value.path
    assert messages(3) == inner.snapshot("s1").read(0, 9)


def test_closing_the_wrapper_leaves_the_store_open(inner: MemoryStore) -> None:
    """
    The wrapper closes for itself: its snapshots end, those of the store behind it go on.
    """
    wrapper = ReadOnlyStore(inner)
    through, beside = wrapper.snapshot("s1"), inner.snapshot("s1")
    wrapper.close()

    for call in (lambda: wrapper.head("s1"), lambda: through.read(0, 3), through.nodes):
        with pytest.raises(StoreClosed):
            call()
    assert messages(3) == beside.read(0, 3)
    assert 4 == inner.append(make_header(), messages(1, start=3))
