"""What changed: no change is passed over, in whatever order transactions end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier

import pytest

from eventlog.admission import admit
from eventlog.errors import InvalidArgument
from eventlog.model import Batch
from eventlog.testing import make_header, message, messages
from support.postgres import need_server, schema_of, store_at


def test_d8_change_that_commits_late_is_seen(tmp_path: Path) -> None:
    """
    Of two appends, the one that began first ends last: a reader that asked in between is
    told of both, each once.

    Field report d8: a reader that polled for positions beyond its last one skipped an
    event that was committed late, with a smaller position.
    """
    with store_at(tmp_path) as store, store_at(tmp_path) as reader:
        store.append(make_header("old"), messages(1))
        start = reader.changes().token

        with store._writing("first") as log:
            log.write(admit(log, Batch(make_header("first"), messages(1))))
            assert 1 == store.append(make_header("second"), messages(1))
            between = reader.changes(start)
            idle = reader.changes(between.token)
        after = reader.changes(idle.token)

        assert ("second",) == between.session_ids
        assert () == idle.session_ids
        assert ("first",) == after.session_ids
        assert () == reader.changes(after.token).session_ids
        assert {"first", "second"} == set(reader.changes(start).session_ids)


def test_d8_change_that_is_undone_is_not_news(tmp_path: Path) -> None:
    """
    A transaction that ended without storing anything is nothing that changed.
    """
    with store_at(tmp_path) as store:
        store.append(make_header("old"), messages(1))
        token = store.changes().token
        with suppress(KeyError), store._writing("new") as log:
            log.write(admit(log, Batch(make_header("new"), messages(1))))
            raise KeyError

        assert () == store.changes(token).session_ids
        assert store.head("new") is None


def test_d8_poller_beside_writers_misses_nothing(tmp_path: Path) -> None:
    """
    One that polls while eight threads write knows in the end of every session's last event.
    """
    barrier = Barrier(9)

    def write(number: int) -> None:
        with store_at(tmp_path) as store:
            barrier.wait()
            for seq in range(20):
                store.append(make_header(f"s{(number + seq) % 8}-{number}"), [])
                store.append(make_header(f"s{number}"), [message(seq)])

    known: dict[str, int] = {}
    with store_at(tmp_path) as store, ThreadPoolExecutor(8) as pool:
        store.append(make_header("first"), messages(1))
        writers = [pool.submit(write, number) for number in range(8)]
        barrier.wait()
        token = None
        done = False
        while not done:
            done = all(writer.done() for writer in writers)
            found = store.changes(token)
            token = found.token
            for session_id in found.session_ids:
                head = store.head(session_id)
                assert head is not None
                known[session_id] = head.length
        for writer in writers:
            writer.result()

    assert {"first": 1, **{f"s{number}": 20 for number in range(8)}} == known


def test_transactions_of_others_hold_nothing_up(tmp_path: Path) -> None:
    """
    A transaction that stays open elsewhere in the server does not make the feed repeat itself.
    """
    with store_at(tmp_path) as store, need_server().connect() as other:
        store.append(make_header("a"), messages(1))
        other.execute("BEGIN")
        other.execute("SELECT pg_current_xact_id()")
        store.append(make_header("b"), messages(1))
        token = store.changes().token
        store.append(make_header("c"), messages(1))

        found = store.changes(token)
        assert ("c",) == found.session_ids
        assert () == store.changes(found.token).session_ids


@pytest.mark.parametrize(
    "token",
    [
        "",
        "0",
        "1:1:",
        "0:0:.",
        "5:3:.",
        "1:1:9.",
        "1:x:.",
        "1:1:,.",
        "9999999999999999999:9999999999999999999:.",
        "1:1:.00000000-0000-0000-0000-000000000000",
        "1:1:.'; DROP TABLE sessions",
    ],
)
def test_token_of_no_store_is_refused(tmp_path: Path, token: str) -> None:
    """
    What is no token, or one of another store, is a bad argument, and changes nothing.
    """
    with store_at(tmp_path) as store:
        store.append(make_header(), messages(1))
        with pytest.raises(InvalidArgument):
            store.changes(token)
        assert ("s1",) == store.changes().session_ids


def test_token_from_before_the_store_was_made(tmp_path: Path) -> None:
    """
    A token of a store where nothing was yet knows of nothing.
    """
    with store_at(tmp_path) as store:
        token = store.changes().token
        store.append(make_header(), messages(1))

        assert ("s1",) == store.changes(token).session_ids


def test_token_that_is_ahead_of_the_server(tmp_path: Path) -> None:
    """
    After a restoration on a server whose transactions are fewer, everything may have
    changed; and sessions whose changes are of transactions to come are mended on request.
    """
    with store_at(tmp_path) as store:
        store.append(make_header("a"), messages(1))
        store.append(make_header("b"), messages(1))
        snapshot, store_id = store.changes().token.split(".")
        ahead = int(snapshot.split(":")[1]) + 1_000_000
        assert {"a", "b"} == set(store.changes(f"{ahead}:{ahead}:.{store_id}").session_ids)

        schema = schema_of(tmp_path)
        need_server().query(f"UPDATE {schema}.sessions SET changed = '{ahead}' WHERE id = 'a'")
        assert ("a",) == store.changes(store.changes().token).session_ids
        assert [("index", "a")] == [(one.kind, one.session_id) for one in store.verify()]
        store.repair(dry_run=False)
        assert [] == list(store.verify())
        assert () == store.changes(store.changes().token).session_ids
