"""Search tests never touch the user's own cache folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog import EventStore, open_store
from eventlog.query import SessionQuery


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that indexes are kept in."""
    folder = tmp_path_factory.mktemp("cache") / "eventlog"
    monkeypatch.setenv("EVENTLOG_CACHE", str(folder))
    return folder


@pytest.fixture
def memory() -> Iterator[EventStore]:
    """A store in memory, whose index is in memory too."""
    with open_store("memory:") as store:
        yield store


@pytest.fixture
def query(memory: EventStore) -> Iterator[SessionQuery]:
    """Queries over *memory*."""
    query = SessionQuery(store=memory)
    yield query
    query.engines.close()


@pytest.fixture(params=["lmdb", "jsonl"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EventStore]:
    """A durable store, whose index is a file."""
    with open_store(f"{request.param}:{tmp_path / 'store'}") as store:
        yield store
