"""What the server does for a read, past the meter: indexes, and bytes on its disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog import Batch
from eventlog.drivers.postgres.connections import Connection
from eventlog.drivers.postgres.logs import READ
from eventlog.drivers.postgres.reading import CHANGES, CHILDREN, EVER, HEAD, HEADS
from eventlog.testing import StoreContract, busy_log, make_header, message, messages
from support.postgres import need_server, schema_of, store_at

SESSIONS = 2_000


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """The tables of a store with many sessions, one of which is long."""
    root = tmp_path_factory.mktemp("plans")
    with store_at(root) as store, need_server().connect() as connection:
        for start in range(0, SESSIONS, 500):
            store.append_many(
                [
                    Batch(make_header(f"s{n:05}", created_at=n, parent_session="p"), messages(1))
                    for n in range(start, start + 500)
                ]
            )
        store.append(make_header("long"), busy_log(5_000))
        connection.execute("SELECT set_config('search_path', %s, false)", (schema_of(root),))
        connection.execute("ANALYZE")
        yield connection


def plan(connection: Connection, query: str, arguments: Any) -> str:
    """How the server would answer."""
    rows = connection.execute(f"EXPLAIN {query}".encode(), arguments)
    return "\n".join(row[0] for row in rows)


def test_reads_walk_indexes(crowded: Connection) -> None:
    """
    Heads, pages, windows and rows of a surface are found by indexes and need no sorting.
    """
    key = (-1_000, b"s01000")
    for query, arguments in (
        (HEAD, (b"s01000",)),
        (HEADS, (*key, 51)),
        (HEADS, (-(2**53), b"", 51)),
        (CHILDREN, (b"p", *key, 51)),
        (READ, (SESSIONS + 1, 2_000, 2_011)),
        ("SELECT node FROM nodes WHERE ordinal = %s AND label = %s", (1, 5)),
    ):
        found = plan(crowded, query, arguments)
        assert "Index" in found, found
        assert "Seq Scan" not in found, found
        assert "Sort" not in found, found


def test_changes_walk_the_feed(crowded: Connection) -> None:
    """
    What changed since a token is looked for among what changed since, and not in all.
    """
    (now,) = crowded.execute("SELECT pg_current_snapshot()::text").fetchone() or ("",)
    analysed = plan(crowded, f"(ANALYZE, TIMING off) {CHANGES}", {"since": now, "ever": EVER})

    assert "sessions_feed" in analysed, analysed
    assert f"rows={SESSIONS}" not in analysed, analysed


def test_g8_stored_bytes_are_those_of_the_events(tmp_path: Path) -> None:
    """
    A thousand events of a kilobyte, stored one by one, take twice what they are at most.

    Field report g8: each step stored the whole state again; 32 threads took a gigabyte.
    """
    size = 0
    with store_at(tmp_path) as store:
        for seq in range(1_000):
            event = message(seq, f"{seq:04}" * 250)
            size += len(event.payload)
            store.append(make_header(), [event])
    query = """
        SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class
        WHERE relnamespace = %s::regnamespace AND relkind = 'r'
    """
    ((stored,),) = need_server().query(query, (schema_of(tmp_path),))

    assert size <= stored <= StoreContract.storage_factor_max * size
