"""A standby, which serves reads of what its primary has, and can become a primary itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from eventlog.admission import admit
from eventlog.drivers.postgres import PostgresStore
from eventlog.errors import StoreReadOnly
from eventlog.model import Batch
from eventlog.testing import make_header, message, messages
from support.postgres import Server, need_programs

SETTINGS = {"wal_level": "replica", "max_wal_senders": "4", "wal_receiver_status_interval": "1"}


@pytest.fixture(scope="module")
def primary() -> Iterator[Server]:
    """A server that others may follow."""
    server = Server(need_programs(), settings=SETTINGS)
    yield server
    server.remove()


@pytest.fixture(scope="module")
def standby(primary: Server) -> Iterator[Server]:
    """A server that follows it."""
    server = Server(need_programs(), settings=SETTINGS, primary=primary)
    yield server
    server.remove()


def wait_until(is_so: Callable[[], object]) -> None:
    """Wait for what takes the standby a moment."""
    until = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < until, "the standby never came up with it"
        time.sleep(0.01)


def test_standby_reads_and_refuses_writes(primary: Server, standby: Server) -> None:
    """
    On a standby everything is read that the primary has, by stores for reading and for
    writing alike, and a write says that it cannot be.
    """
    with (
        PostgresStore(primary.url) as store,
        PostgresStore(standby.url) as follower,
        PostgresStore(standby.url, read_only=True) as reader,
    ):
        store.append(make_header(), messages(3))
        wait_until(lambda: follower.head("s1"))

        for one in (follower, reader):
            assert messages(3) == one.snapshot("s1").read(0, 9)
            assert [0, 1, 2] == one.snapshot("s1").nodes()
            assert [] == list(one.verify())
            with pytest.raises(StoreReadOnly):
                one.append(make_header(), [message(3)])
            with pytest.raises(StoreReadOnly):
                one.append(make_header("new"), messages(1))
            with pytest.raises(StoreReadOnly):
                one.delete("s1")
        assert 3 == follower.append(make_header(), [])


def test_d8_poller_on_a_standby_misses_nothing(primary: Server, standby: Server) -> None:
    """
    A reader that follows the changes on a standby is told of an append that began first
    and ended last there, too.
    """
    with PostgresStore(primary.url) as store, PostgresStore(standby.url) as reader:
        store.append(make_header("before"), messages(1))
        wait_until(lambda: reader.head("before"))
        start = reader.changes().token
        with store._writing("first") as log:
            log.write(admit(log, Batch(make_header("first"), messages(1))))
            store.append(make_header("second"), messages(1))
            wait_until(lambda: reader.head("second"))
            between = reader.changes(start)
            assert "second" in between.session_ids
            assert "first" not in between.session_ids
        wait_until(lambda: reader.head("first"))

        after = reader.changes(between.token)
        assert "first" in after.session_ids
        store.append(make_header("last"), messages(1))
        wait_until(lambda: reader.head("last"))
        assert "last" in reader.changes(after.token).session_ids
        # A token of one is understood by the other.
        assert "last" in store.changes(after.token).session_ids


def test_standby_that_takes_over(primary: Server, standby: Server) -> None:
    """
    A store that names both servers goes on with the standby when that has become primary.
    """
    hosts = f"{primary.folder},{standby.folder}".replace("/", "%2F")
    url = (
        f"postgresql://postgres@{hosts}/postgres?port={primary.port},{standby.port}"
        "&target_session_attrs=read-write"
    )
    with PostgresStore(url) as store, PostgresStore(standby.url) as follower:
        store.append(make_header("moves"), messages(2))
        token = store.changes().token
        wait_until(lambda: follower.head("moves"))
        primary.stop()
        standby.query("SELECT pg_promote()")

        assert messages(2) == store.snapshot("moves").read(0, 9)
        assert 3 == store.append(make_header("moves"), messages(3))
        assert ("moves",) == store.changes(token).session_ids
        assert [] == list(store.verify())
