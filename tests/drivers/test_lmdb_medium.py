"""What is on the LMDB store's medium: nothing too early, foreign things, damage, rights."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import lmdb
import pytest

from eventlog import Batch, EventClass, open_store
from eventlog.drivers.lmdb import LmdbStore, removal
from eventlog.drivers.lmdb.layout import EVENT_KEY
from eventlog.errors import (
    CorruptLog,
    EventLogError,
    InvalidArgument,
    SequenceConflict,
    SessionNotFound,
    StoreReadOnly,
    StoreUnavailable,
    UnsupportedFormat,
)
from support import make_header, message, messages, replacement
from support.processes import dropping_root, forked, output, script


@contextmanager
def raw(path: Path) -> Iterator[tuple[lmdb.Transaction[bytes], Callable[[str], lmdb._Database]]]:
    """A write transaction past the store, and its databases by name."""
    with (
        lmdb.open(str(path), max_dbs=16, map_size=2**30) as env,
        env.begin(write=True) as transaction,
    ):
        yield transaction, lambda name: env.open_db(name.encode(), txn=transaction)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with two sessions; the surface of the first has a replacement."""
    path = tmp_path / "store"
    with LmdbStore(path) as store:
        store.append(make_header(), [*messages(10), replacement(10, 2, 4, [2, 3, 4])])
        store.append(make_header("s2"), messages(3))
    return path


def test_nothing_is_created_before_the_first_event(tmp_path: Path) -> None:
    """
    Opening, reading, empty batches, refused batches and deletions create nothing.
    """
    path = tmp_path / "a" / "store"
    for read_only in (False, True):
        with LmdbStore(path, read_only=read_only) as store:
            assert () == store.heads().items
            assert () == store.children("s1").items
            assert store.head("s1") is None
            assert () == store.changes(store.changes().token).session_ids
            with pytest.raises(SessionNotFound):
                store.snapshot("s1")
    with LmdbStore(path) as store:
        assert 0 == store.append(make_header(), [])
        with pytest.raises(SequenceConflict):
            store.append(make_header(), messages(1, start=1))
        results = store.append_many([Batch(make_header(), messages(1, start=1))])
        assert [SequenceConflict] == [type(result) for result in results]
        assert not store.delete("s1")
        assert not store.delete("s1", forget=True)

    assert [] == list(tmp_path.iterdir())


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    """
    The folder gets the mode 0700 and its files 0600, whatever the umask allows.
    """
    before = os.umask(0)
    try:
        with LmdbStore(tmp_path / "store") as store:
            store.append(make_header(), messages(1))
    finally:
        os.umask(before)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert {"store": 0o700, "data.mdb": 0o600, "lock.mdb": 0o600} == modes


def test_url_opens_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    ``lmdb:`` URLs name a path, which may start with ``~``, and the store's options.
    """
    monkeypatch.setenv("HOME", str(tmp_path))
    with open_store("lmdb:~/logs?map_bytes=1000000&map_bytes_max=2000000&wait_s=0.5") as store:
        store.append(make_header(), messages(1))
    with open_store(f"lmdb:{tmp_path}/logs", read_only=True) as store:
        assert messages(1) == store.snapshot("s1").read(0, 9)
        assert store.read_only

    for rest in (
        "",
        "x?maps=3",
        "x?map_bytes=many",
        "x?map_bytes=0",
        "x?wait_s=-1",
        "x?wait_s=nan",
    ):
        with pytest.raises(InvalidArgument):
            open_store(f"lmdb:{rest}")


def test_reads_open_no_file_for_writing(path: Path) -> None:
    """
    A store that has only read was never open for writing, so that it cannot have written.
    """
    with LmdbStore(path) as store:
        assert 11 == len(store.snapshot("s1").read(0, 99))
        handle = store._environment._handle
        assert handle is not None
        assert not handle.writable
        store.append(make_header(), [message(11)])
        assert 12 == store.snapshot("s1").length


@pytest.mark.parametrize("content", [b"not a database" * 1_000, b"x", bytes(20_000)])
def test_file_of_something_else_is_refused(tmp_path: Path, content: bytes) -> None:
    """
    A data file that LMDB did not write is told at once and left as it is.
    """
    (tmp_path / "data.mdb").write_bytes(content)

    for read_only in (False, True):
        with pytest.raises(StoreUnavailable) as caught:
            LmdbStore(tmp_path, read_only=read_only)
        assert str(tmp_path) == caught.value.path
    assert content == (tmp_path / "data.mdb").read_bytes()


@pytest.mark.parametrize("name", [None, "about", "sessions"])
def test_environment_of_something_else_is_refused(tmp_path: Path, name: str | None) -> None:
    """
    An LMDB environment that another program keeps is refused, and left as it is.
    """
    with raw(tmp_path) as (transaction, database):
        if name is None:
            transaction.put(b"key", b"value")
        else:
            transaction.put(b"key", b"value", db=database(name))
    before = (tmp_path / "data.mdb").read_bytes()

    with pytest.raises(StoreUnavailable):
        LmdbStore(tmp_path)
    assert before == (tmp_path / "data.mdb").read_bytes()


def test_environment_of_the_other_engine_is_refused(tmp_path: Path) -> None:
    """
    An environment in the format of LMDB 1.0 is refused; its sessions are not "none".
    """
    with lmdb.open(str(tmp_path), lib_version=1) as env, env.begin(write=True) as transaction:
        transaction.put(b"key", b"value")

    with pytest.raises(StoreUnavailable):
        LmdbStore(tmp_path)


def test_something_else_at_the_path(tmp_path: Path) -> None:
    """
    A file in the place of the folder is told at once.
    """
    (tmp_path / "file").write_text("text")

    with pytest.raises(StoreUnavailable):
        LmdbStore(tmp_path / "file")


def test_newer_layout_is_refused(path: Path) -> None:
    """
    What a newer release wrote in another layout is refused with both versions.
    """
    with raw(path) as (transaction, database):
        transaction.put(b"layout", b"2", db=database("about"))

    with pytest.raises(UnsupportedFormat) as caught:
        LmdbStore(path)
    assert ("2", ["1"]) == (caught.value.found, caught.value.supported)


def test_empty_environment_is_an_empty_store(tmp_path: Path) -> None:
    """
    What a crash leaves between making the files and the first commit is an empty store.
    """
    lmdb.open(str(tmp_path)).close()
    with LmdbStore(tmp_path, read_only=True) as reader:
        assert () == reader.heads().items
        with LmdbStore(tmp_path) as store:
            assert 0 == store.append(make_header(), [])
            store.append(make_header(), messages(1))
        assert 1 == reader.snapshot("s1").length

    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "data.mdb").touch()
    with LmdbStore(tmp_path / "empty") as store:
        assert () == store.heads().items
        store.append(make_header(), messages(1))
        assert 1 == store.snapshot("s1").length


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
        with store._environment.writer(wait_s=1):
            store._environment.transact(
                lambda transaction, databases: removal._take_away(
                    transaction, databases, "s1", forget=True
                )
            )
        assert store.head("s1") is None
        assert 2 == store.append(make_header(), messages(2))
        assert messages(2) == store.snapshot("s1").read(0, 99)
        assert store.delete("s2")

    with raw(path) as (transaction, database):
        assert 2 == transaction.stat(database("events"))["entries"]
        assert 0 == transaction.stat(database("remains"))["entries"]


def test_tokens_of_another_store_are_refused(path: Path, tmp_path: Path) -> None:
    """
    A token of another store, or of a later state than this one's, is none of this store.
    """
    with LmdbStore(path) as store, LmdbStore(tmp_path / "other") as other:
        store.append(make_header("s3"), messages(1))
        other.append(make_header(), messages(1))
        token = store.changes().token
        position, _, origin = token.partition(".")
        for bad in ("", "1", "x", other.changes().token, f"{int(position) + 1}.{origin}", "-1."):
            with pytest.raises(InvalidArgument):
                store.changes(bad)
        assert () == store.changes(token).session_ids


def test_token_of_the_time_before_the_first_event(tmp_path: Path) -> None:
    """
    A token that was taken while nothing was stored stays good.
    """
    with LmdbStore(tmp_path) as store:
        token = store.changes().token
        store.append(make_header(), messages(1))

        assert ("s1",) == store.changes(token).session_ids


# Rights. Root may do everything, so these run in a child that drops it.


def test_j3_store_on_a_read_only_medium(path: Path) -> None:
    """
    Where nothing may be written, not even the lock file, everything reads, says that
    writers do not see it, and refuses writes with the path.

    Field report j3: a read-only or foreign store failed late, and unclearly.
    """
    writable = path.stat().st_mode

    def read() -> None:
        for read_only in (False, True):
            with LmdbStore(path, read_only=read_only) as store:
                assert not store.capabilities.multi_process_read
                assert 11 == len(store.snapshot("s1").read(0, 99))
                assert EventClass.SHADOWED is store.snapshot("s1").classify(3)
                assert 2 == len(store.heads().items)
                writes: list[Callable[[], object]] = [
                    partial(store.append, make_header(), [message(11)]),
                    partial(store.append, make_header("new"), [message(0)]),
                    partial(store.delete, "s1"),
                ]
                for write in writes:
                    with pytest.raises(StoreReadOnly) as caught:
                        write()
                    assert str(path) == caught.value.path
                assert 11 == len(store.snapshot("s1").read(0, 99))

    def contents() -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in path.iterdir()}

    before = contents()
    for file in path.iterdir():
        file.chmod(0o444)
    open_up(path)
    path.chmod(0o555)
    try:
        assert 0 == forked(dropping_root(read))
    finally:
        path.chmod(writable)
    assert before == contents()


def test_j3_copy_without_its_lock_file(path: Path) -> None:
    """
    A data file alone, as a backup leaves it, is read without making a lock file; the
    first append makes one.
    """
    (path / "lock.mdb").unlink()
    with LmdbStore(path, read_only=True) as reader:
        assert 11 == len(reader.snapshot("s1").read(0, 99))
        assert not reader.capabilities.multi_process_read
        assert not (path / "lock.mdb").exists()

        def append() -> None:
            with LmdbStore(path) as store:
                assert 12 == store.append(make_header(), [message(11)])

        assert 0 == forked(append)
        assert 12 == len(reader.snapshot("s1").read(0, 99))
        handle = reader._environment._handle
        assert handle is not None
        assert handle.locked, "the reader uses the lock file as soon as there is one"


def test_j3_folder_that_nobody_may_look_into(path: Path) -> None:
    """
    A store that may not be read is an error that names it, and never an empty store.
    """

    def look() -> None:
        for read_only in (False, True):
            with pytest.raises(StoreUnavailable) as caught:
                LmdbStore(path, read_only=read_only)
            assert str(path) == caught.value.path

    open_up(path.parent)
    path.chmod(0)
    try:
        assert 0 == forked(dropping_root(look))
        path.chmod(0o755)
        (path / "data.mdb").chmod(0)
        assert 0 == forked(dropping_root(look))
    finally:
        path.chmod(0o700)


def test_j3_folder_where_nothing_may_be_made(tmp_path: Path) -> None:
    """
    Where no store can be made, reading finds none, and an append is refused at once.
    """
    parent = tmp_path / "parent"
    parent.mkdir(mode=0o555)
    open_up(parent)

    def use() -> None:
        with LmdbStore(parent / "store") as store:
            assert () == store.heads().items
            with pytest.raises(StoreReadOnly):
                store.append(make_header(), messages(1))

    assert 0 == forked(dropping_root(use))
    assert [] == list(parent.iterdir())


def open_up(path: Path) -> None:
    """Let everybody pass through the folders above *path*, which pytest makes private."""
    for parent in path.parents:
        if parent.stat().st_uid == os.getuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o755)


def test_unlocked_read_that_was_overtaken_is_refused(path: Path) -> None:
    """
    A read that no writer knows of, and that lasts over two commits, is refused: what it
    saw may have been written over.
    """
    append = """
        import sys
        from support import log_only, make_header
        from eventlog.drivers.lmdb import LmdbStore

        with LmdbStore(sys.argv[1]) as store:
            for seq in map(int, sys.argv[2:]):
                store.append(make_header("other"), [log_only(seq)])
    """
    (path / "lock.mdb").unlink()
    with LmdbStore(path, read_only=True) as reader, reader._environment.reading():
        output(script(append, path, 0))
    (path / "lock.mdb").unlink()
    with LmdbStore(path, read_only=True) as reader:
        with pytest.raises(StoreUnavailable), reader._environment.reading():
            output(script(append, path, 1, 2))
        assert 3 == reader.snapshot("other").length


def test_errors_of_the_store_are_all_of_one_tree(path: Path) -> None:
    """
    An error of LMDB that nobody has foreseen leaves the store as one of ours, and the
    store goes on.
    """

    def fail(*_: object) -> None:
        raise lmdb.PanicError("page")

    with LmdbStore(path) as store:
        with pytest.raises(EventLogError), store._environment.reading():
            raise lmdb.CorruptedError("page")
        with store._environment.writer(wait_s=1), pytest.raises(EventLogError):
            store._environment.transact(fail)
        assert 12 == store.append(make_header(), [message(11)])
