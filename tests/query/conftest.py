"""The stores that queries are tested over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog import EventStore, LiveSessions
from eventlog.drivers.memory import MemoryStore
from eventlog.query import SessionQuery
from support.query import SCHEMES, opened


@pytest.fixture(params=SCHEMES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EventStore]:
    """A new store of each driver."""
    with opened(request.param, tmp_path) as store:
        yield store


@pytest.fixture
def memory() -> Iterator[EventStore]:
    """A new store in memory, where the driver makes no difference."""
    with MemoryStore() as store:
        yield store


@pytest.fixture
def live() -> LiveSessions:
    """No live sessions yet."""
    return LiveSessions()


@pytest.fixture
def query(live: LiveSessions, store: EventStore) -> SessionQuery:
    """A query over *live* and *store*."""
    return SessionQuery(live, store)
