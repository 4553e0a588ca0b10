"""What is on the LMDB store's medium: nothing too early, and nothing of others."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import lmdb
import pytest

from eventlog import Batch, open_store
from eventlog.drivers.lmdb import LmdbStore
from eventlog.errors import (
    EventLogError,
    InvalidArgument,
    SequenceConflict,
    SessionNotFound,
    StoreUnavailable,
    UnsupportedFormat,
)
from support import make_header, message, messages
from support.lmdb_files import make_store, raw


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with two sessions; the surface of the first has a replacement."""
    return make_store(tmp_path / "store")


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


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="names descriptors by /proc")
def test_names_of_new_files_are_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Before the first append returns, every folder that got a new entry is on the disk, so
    that a power cut leaves no data without its name.
    """
    synced: list[str] = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    path = tmp_path / "a" / "b"
    with LmdbStore(path) as store:
        store.append(make_header(), messages(1))
        first = set(synced)
        store.append(make_header(), messages(2))

    assert {str(path), str(path.parent), str(tmp_path)} == first
    assert first == set(synced)


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
        with store._environment.writer, pytest.raises(EventLogError):
            store._environment.write(fail, wait_s=1)
        assert 12 == store.append(make_header(), [message(11)])


@pytest.mark.skipif(os.name != "posix", reason="elsewhere open files cannot be moved")
@pytest.mark.parametrize("how", ["removed", "moved", "replaced"])
def test_files_that_are_gone_take_no_more_events(path: Path, tmp_path: Path, how: str) -> None:
    """
    A folder was removed, moved, or replaced by a backup while a store was open. Appends
    went on into files that nobody could find, and were acknowledged. The first one is
    refused; the next ones are judged by what is at the path then.
    """
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(path, elsewhere)
    with LmdbStore(path) as store:
        length = store.append(make_header("new"), messages(2))
        if how == "removed":
            shutil.rmtree(path)
        else:
            os.rename(path, tmp_path / "moved")
        if how == "replaced":
            os.rename(elsewhere, path)

        with pytest.raises(StoreUnavailable) as caught:
            store.append(make_header("new"), messages(1, start=length))
        assert "replaced" in caught.value.detail
        with pytest.raises(SequenceConflict) as conflict:
            store.append(make_header("new"), messages(1, start=length))
        assert 0 == conflict.value.expected
        assert length + 1 == store.append(make_header("new"), messages(length + 1))
        expected = {"new"} if how != "replaced" else {"new", "s1", "s2"}
        assert expected == {head.header.id for head in store.heads().items}

    with LmdbStore(path, read_only=True) as again:
        assert messages(length + 1) == again.snapshot("new").read(0, 99)
