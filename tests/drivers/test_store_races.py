"""Several processes do everything at once to the same few sessions of one store."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from eventlog import Event, EventStore, open_store
from eventlog.errors import InvalidSurface, SequenceConflict, SessionDeleted, SessionNotFound
from support import IN_MEMORY, make_header, message, replacement
from support.jsonl import Child

PROCESSES = 4
IDS = ("s1", "S1", "ü")


def grown(store: EventStore, session_id: str, pick: random.Random) -> None:
    """Append a few messages that nobody else writes, or a replacement."""
    head = store.head(session_id)
    start = 0 if head is None else head.length
    batch = [message(start, str(pick.random())), message(start + 1, str(pick.random()))]
    if start > 4 and pick.random() < 0.3:
        nodes = store.snapshot(session_id).nodes()
        if len(nodes) > 2:
            batch = [replacement(start, nodes[0], nodes[1], nodes[:2])]
    with suppress(InvalidSurface):  # where the session began anew since its nodes were read
        store.append(make_header(session_id), batch)


def read_whole(store: EventStore, session_id: str) -> None:
    """Read a session in every way; it may be deleted, and not be another one, meanwhile."""
    snapshot = store.snapshot(session_id)
    assert list(range(snapshot.length)) == [e.seq for e in snapshot.read(0, snapshot.length)]
    snapshot.nodes()
    assert all(type(item) is Event for item in store.salvage(session_id))


def act(store: EventStore, pick: random.Random) -> None:
    """Do one thing that none of the others may come to harm by."""
    session_id, chance = pick.choice(IDS), pick.random()
    if chance < 0.15:
        store.delete(session_id, forget=pick.random() < 0.5)
    elif chance < 0.25:
        read_whole(store, session_id)
    elif chance < 0.32:
        assert () == store.heads().faults
    elif chance < 0.40:
        store.archive(session_id)
    elif chance < 0.44:
        assert [] == list(store.verify())
    elif chance < 0.48:
        assert [] == store.repair(dry_run=pick.random() < 0.5)
    else:
        grown(store, session_id, pick)


def worker(url: str, seed: int, seconds: float) -> Callable[[Callable[[Any], None]], None]:
    """A process that acts for so long."""

    def run(tell: Callable[[Any], None]) -> None:
        pick, until = random.Random(seed), time.monotonic() + seconds
        with open_store(url) as store:
            while time.monotonic() < until:
                try:
                    act(store, pick)
                except (SessionNotFound, SessionDeleted, SequenceConflict):
                    pass
        tell("done")

    return run


@pytest.fixture(params=["disk", pytest.param("memory", marks=pytest.mark.long)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Where the store lies: in memory, files come and go so fast that other races show."""
    if request.param == "disk":
        yield tmp_path
    else:
        with TemporaryDirectory(prefix="races-", dir=IN_MEMORY) as folder:
            yield Path(folder)


@pytest.mark.parametrize(
    "seconds", [pytest.param(1.5, id="short"), pytest.param(20, id="long", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("scheme", ["lmdb", "jsonl"])
def test_everything_at_once(place: Path, scheme: str, seconds: float) -> None:
    """Only the contract's own conflicts are told, nothing is damaged, nothing is left over."""
    url = f"{scheme}:{place / 'store'}"
    children = [Child(worker(url, seed, seconds)) for seed in range(PROCESSES)]
    try:
        assert ["done"] * PROCESSES == [child.told() for child in children]
    finally:
        for child in children:
            child.kill()
    with open_store(url) as store:
        assert [] == list(store.verify())
        for head in store.heads().items:
            read_whole(store, head.header.id)
