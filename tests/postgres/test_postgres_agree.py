"""The PostgreSQL store, memory and the naive model, held to one meaning by random programs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from eventlog import EventStore
from eventlog.drivers.memory import MemoryStore
from eventlog.testing import StoresAgree
from support import IN_MEMORY
from support.postgres import need_server, store_at


class PostgresAgrees(StoresAgree):
    """The store in PostgreSQL beside that in memory."""

    factories: ClassVar[Mapping[str, Callable[[Path], EventStore]]] = {
        "memory": lambda root: MemoryStore(),
        "postgres": store_at,
    }
    volatile = frozenset({"memory"})
    folder = IN_MEMORY


def run(examples: int, steps: int) -> None:
    need_server()
    run_state_machine_as_test(
        PostgresAgrees,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_stores_agree() -> None:
    """
    PostgreSQL answers every program as memory and the naive model do.
    """
    run(12, 20)


@pytest.mark.long
def test_stores_agree_at_length() -> None:
    """
    The same for longer programs, and for many more of them.
    """
    run(int(os.environ.get("EVENTLOG_AGREE_EXAMPLES", "300")), 50)
