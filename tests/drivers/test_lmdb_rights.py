"""The LMDB store where it may not do everything."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from eventlog import EventClass
from eventlog.drivers.lmdb import LmdbStore
from eventlog.errors import (
    StoreReadOnly,
    StoreUnavailable,
)
from eventlog.query.cli import main
from support import make_header, message, messages
from support.lmdb_files import make_store
from support.processes import dropping_root, forked, output, script


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with two sessions; the surface of the first has a replacement."""
    return make_store(tmp_path / "store")


# Root may do everything, so these run in a child that drops it.


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


def test_j4_one_denied_file_of_a_store(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """
    Without its lock file a store is verified, salvaged and repaired on trial as usual, and
    says that writers do not see it; without its data each of these ends in the error that
    names it, never in a store with no sessions and nothing to repair.

    Field report j4: what could not be looked at was reported as empty.
    """

    def unlocked() -> None:
        with LmdbStore(path, read_only=True) as store:
            assert not store.capabilities.multi_process_read
            assert [] == list(store.verify())
            assert [] == store.repair()
            assert 11 == len(list(store.salvage("s1")))

    def denied() -> None:
        for command in ("verify", "repair", "list"):
            assert 4 == main([command, "--store", f"lmdb:{path}"])

    open_up(path)
    path.chmod(0o755)
    (path / "data.mdb").chmod(0o444)
    (path / "lock.mdb").chmod(0)
    assert 0 == forked(dropping_root(unlocked))
    (path / "data.mdb").chmod(0)
    assert 0 == forked(dropping_root(denied))
    out, err = capfd.readouterr()
    assert "" == out
    assert 3 == err.count(str(path))


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
