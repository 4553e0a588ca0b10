"""What the LMDB store makes of damage, and what a deletion leaves."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog import HeadKey
from eventlog.drivers.lmdb import LmdbStore, removal
from eventlog.drivers.lmdb.layout import DATABASES, EVENT_KEY
from eventlog.errors import (
    CorruptLog,
    EventLogError,
)
from support import make_header, message, messages, replacement
from support.lmdb_files import make_store, raw


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with two sessions; the surface of the first has a replacement."""
    return make_store(tmp_path / "store")


@pytest.mark.parametrize(
    "damage",
    [
        lambda value: b"",
        lambda value: b"{}",
        lambda value: value[:-1],
        lambda value: value[:5],
        lambda value: value + b"\0",
        lambda value: value[:60] + b"\xff" + value[61:],
        lambda value: b"\x06" + value[1:],
        None,
    ],
    ids=["empty", "json", "shorter", "stub", "longer", "payload", "seq", "missing"],
)
def test_damaged_event_is_where_it_is(path: Path, damage: Callable[[bytes], bytes] | None) -> None:
    """
    A window that touches a damaged event is refused with its seq; others are served, and
    so are surface, lists and other sessions.
    """
    with raw(path) as (transaction, database):
        events = database("events")
        cursor = transaction.cursor(events)
        key = next(key for key in cursor.iternext(True, False) if EVENT_KEY.unpack(key)[1] == 5)
        if damage is None:
            transaction.delete(key, db=events)
        else:
            value = transaction.get(key, db=events)
            assert value is not None
            transaction.put(key, damage(value), db=events)

    with LmdbStore(path) as store:
        snapshot = store.snapshot("s1")
        assert messages(5) == snapshot.read(0, 5)
        assert messages(4, start=6) == snapshot.read(6, 10)
        for start, stop in ((5, 6), (0, 11), (4, 7)):
            with pytest.raises(CorruptLog) as caught:
                snapshot.read(start, stop)
            assert ("s1", 5) == (caught.value.session_id, caught.value.seq)
        assert [0, 1, 10, 5, 6, 7, 8, 9] == snapshot.nodes()
        assert 2 == len(store.heads().items)
        assert messages(3) == store.snapshot("s2").read(0, 3)
        with pytest.raises(CorruptLog):
            store.append(make_header(), messages(10))
        assert 12 == store.append(make_header(), [message(11)])


def test_events_that_stop_too_early(path: Path) -> None:
    """
    Where a log's last events are gone, their window is refused, and is not filled up with
    the next session's.
    """
    with raw(path) as (transaction, database):
        events = database("events")
        for key in list(transaction.cursor(events).iternext(True, False))[:11]:
            if EVENT_KEY.unpack(key)[1] >= 8:
                transaction.delete(key, db=events)

    with LmdbStore(path) as store:
        assert messages(8) == store.snapshot("s1").read(0, 8)
        for start in (0, 7, 8, 9):
            with pytest.raises(CorruptLog) as caught:
                store.snapshot("s1").read(start, 11)
            assert max(start, 8) == caught.value.seq


def test_j4_damaged_session_is_a_fault_of_its_page(path: Path) -> None:
    """
    A session whose row is damaged is a fault of each listing and refused by name; the
    others are listed and served.
    """
    with LmdbStore(path) as store:
        store.append(make_header("child", parent_session="s1"), messages(1))
    with raw(path) as (transaction, database):
        sessions = database("sessions")
        for name in (b"s1", b"child"):
            row = transaction.get(name, db=sessions)
            assert row is not None
            transaction.put(name, row[:40] + b"!" + row[41:], db=sessions)

    with LmdbStore(path) as store:
        page = store.heads()
        assert ["s2"] == [head.header.id for head in page.items]
        assert ["child", "s1"] == [fault.session_id for fault in page.faults]
        assert ["header"] * 2 == [fault.kind for fault in page.faults]
        assert "child" == store.children("s1").faults[0].session_id
        assert {"s1", "s2", "child"} == set(store.changes().session_ids)
        for call in (
            lambda: store.head("s1"),
            lambda: store.snapshot("s1"),
            lambda: store.append(make_header(), []),
            lambda: store.append(make_header(), [message(11)]),
            lambda: store.delete("s1"),
        ):
            with pytest.raises(CorruptLog) as caught:
                call()
            assert ("s1", "header") == (caught.value.session_id, caught.value.kind)
        assert 4 == store.append(make_header("s2"), [message(3)])


def test_damaged_row_of_the_surface(path: Path) -> None:
    """
    A row of the surface with the wrong shape is told as damage, by reads and by appends.
    """
    with raw(path) as (transaction, database):
        rows = database("rows")
        for key in list(transaction.cursor(rows).iternext(True, False)):
            if key[8:9] in (b"n", b"r", b"s"):
                transaction.put(key, b"short", db=rows)

    with LmdbStore(path) as store:
        snapshot = store.snapshot("s1")
        for call in (
            lambda: snapshot.nodes(),
            lambda: snapshot.replaced_by(0, 11),
            lambda: snapshot.replaced(10),
            lambda: snapshot.classify(3),
            lambda: store.append(make_header(), [replacement(11, 5, 6, [5, 6])]),
        ):
            with pytest.raises(CorruptLog) as caught:
                call()
            assert ("s1", "row") == (caught.value.session_id, caught.value.kind)
        assert messages(10) == snapshot.read(0, 10)


def test_deleted_rows_are_gone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Deleting a session removes its events and rows, a bounded number a commit; nobody
    else's.
    """
    monkeypatch.setattr(removal, "REMOVED_AT_ONCE", 4)
    with LmdbStore(path) as store:
        assert store.delete("s1")
        assert messages(3) == store.snapshot("s2").read(0, 3)
        assert [0, 1, 2] == store.snapshot("s2").nodes()

    with raw(path) as (transaction, database):
        assert 3 == transaction.stat(database("events"))["entries"]
        assert 3 == transaction.stat(database("rows"))["entries"]
        assert 0 == transaction.stat(database("remains"))["entries"]


def test_interrupted_deletion_is_finished_by_the_next(path: Path) -> None:
    """
    What a crash left of a deleted session cannot be read, and goes with the next deletion.
    """
    with LmdbStore(path) as store:
        with store._environment.writer:
            store._environment.write(
                lambda transaction, databases: removal._take_away(
                    transaction, databases, "s1", forget=True
                ),
                wait_s=1,
            )
        assert store.head("s1") is None
        assert 2 == store.append(make_header(), messages(2))
        assert messages(2) == store.snapshot("s1").read(0, 99)
        assert store.delete("s2")

    with raw(path) as (transaction, database):
        assert 2 == transaction.stat(database("events"))["entries"]
        assert 0 == transaction.stat(database("remains"))["entries"]


def plant_garbage(tmp_path: Path, *, examples: int) -> None:
    """Put garbage into rows, or in the place of some, and use everything; many times."""
    taken = iter(range(10**6))
    template = make_store(tmp_path / "template")
    with LmdbStore(template) as store:
        store.append(make_header("child", parent_session="s1"), messages(2))
        store.delete("s2")

    @settings(max_examples=examples, deadline=None)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        path = tmp_path / str(next(taken))
        shutil.copytree(template, path)
        with raw(path) as (transaction, database):
            for _ in range(data.draw(st.integers(1, 3))):
                rows = database(data.draw(st.sampled_from(DATABASES[1:])))
                keys = list(transaction.cursor(rows).iternext(True, False))
                key = data.draw(st.sampled_from(keys) if keys else st.just(b"s1"))
                value = transaction.get(key, db=rows) or b""
                at = data.draw(st.integers(0, len(key)))
                key = data.draw(st.sampled_from([key, key[:at] + b"\xff" + key[at:], key[:at]]))
                garbage = st.binary(max_size=40) | st.just(value[:at]) | st.just(value * 2)
                transaction.put(key or b"\0", data.draw(garbage), db=rows)
        with LmdbStore(path) as store:
            use_everything(store)
        shutil.rmtree(path)

    check()


def test_any_row_may_be_garbage(tmp_path: Path) -> None:
    """
    Whatever stands in a row, or in the place of one, is told as one of the store's errors
    or as a fault; nothing hangs, and nothing else is raised.
    """
    plant_garbage(tmp_path, examples=25)


@pytest.mark.long
def test_any_row_may_be_garbage_many_times(tmp_path: Path) -> None:
    """
    The same for two thousand kinds of garbage.
    """
    plant_garbage(tmp_path, examples=2_000)


def use_everything(store: LmdbStore) -> None:
    """Call everything that there is, and let through no error but the library's."""
    calls: list[Callable[[], object]] = [
        lambda: store.heads(limit=2),
        lambda: store.heads(after=HeadKey(1_000, "child")),
        lambda: store.children("s1"),
        lambda: store.changes(),
    ]
    for session_id in ("s1", "s2", "child"):
        calls.append(partial(store.head, session_id))
        with suppress(EventLogError):
            snapshot = store.snapshot(session_id)
            for ask in (snapshot.classify, snapshot.replaced, snapshot.citing):
                calls += [partial(ask, seq) for seq in range(snapshot.length)]
            calls += [
                snapshot.nodes,
                partial(snapshot.nodes, after=0, limit=3),
                partial(snapshot.replaced_by, 0, 20),
                partial(snapshot.read, 0, 20),
                partial(snapshot.read, 1, 2),
            ]
        with suppress(EventLogError):
            early = store.snapshot(session_id, at=2)
            calls += [early.nodes, partial(early.classify, 0)]
    calls += [
        partial(store.append, make_header(), [replacement(11, 0, 1, [0, 1])]),
        partial(store.append, make_header(), messages(10)),
        partial(store.append, make_header("s2"), messages(1)),
        partial(store.append, make_header("new", parent_session="s1"), messages(1)),
        partial(store.delete, "child"),
        partial(store.delete, "s1", forget=True),
        partial(store.delete, "s2", forget=True),
    ]
    for call in calls:
        with suppress(EventLogError):
            call()
