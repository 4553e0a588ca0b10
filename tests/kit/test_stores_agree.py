"""All drivers and the naive model, held to one meaning by random programs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from eventlog import EventStore
from eventlog.drivers.jsonl import JsonlStore
from eventlog.drivers.jsonl.names import log_name
from eventlog.drivers.lmdb import LmdbStore
from eventlog.drivers.memory import MemoryStore
from eventlog.testing import StoresAgree
from support import IN_MEMORY
from support.sqlite_example import SqliteStore


def tear_jsonl(root: Path, session_id: str, fragment: bytes) -> None:
    """Leave a fragment at the end of a log, as a crash would."""
    with open(root / log_name(session_id), "ab") as log:
        log.write(fragment)


class AllDrivers(StoresAgree):
    """Every driver of the library, and the example of one."""

    factories: ClassVar[Mapping[str, Callable[[Path], EventStore]]] = {
        "memory": lambda root: MemoryStore(),
        "lmdb": LmdbStore,
        "jsonl": JsonlStore,
        "example": lambda root: SqliteStore(root / "log.sqlite"),
    }
    volatile = frozenset({"memory"})
    folder = IN_MEMORY
    tears: ClassVar[Mapping[str, Callable[[Path, str, bytes], None]]] = {"jsonl": tear_jsonl}


TestStoresAgree = AllDrivers.TestCase
TestStoresAgree.settings = settings(
    max_examples=100,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.mark.long
def test_stores_agree_at_length() -> None:
    """
    The stores agree over longer programs too, and over many more of them.
    """
    run_state_machine_as_test(
        AllDrivers,
        settings=settings(
            max_examples=int(os.environ.get("EVENTLOG_AGREE_EXAMPLES", "2000")),
            stateful_step_count=60,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
