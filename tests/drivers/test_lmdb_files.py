"""The files of an LMDB store: what stands in their place, and what becomes of open ones."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eventlog.drivers.lmdb import LmdbStore
from eventlog.errors import SessionNotFound, StoreUnavailable
from support import make_header, messages, replacement

LITTLE_SPACE = """
import mmap, resource, sys
from eventlog.drivers.lmdb import LmdbStore
from support import make_header, messages

used = int(open("/proc/self/statm").read().split()[0]) * mmap.PAGESIZE
resource.setrlimit(resource.RLIMIT_AS, (used + 100_000_000, resource.RLIM_INFINITY))
with LmdbStore(sys.argv[1]) as store:
    store.append(make_header(), messages(3))
    mmap.mmap(-1, 30_000_000).close()
    print(len(store.snapshot("s1").read(0, 3)))
"""


def look_now(store: LmdbStore) -> None:
    """Have the next read look at the files, as it would a second later."""
    store._environment.look_at = 0.0


def stored(path: Path, length: int, session_id: str = "s1") -> Path:
    """A new store at *path* with one session."""
    with LmdbStore(path) as store:
        store.append(make_header(session_id), messages(length))
    return path


def test_reads_see_what_replaced_the_files(tmp_path: Path) -> None:
    """
    A reader that was open when a backup took the place of the files read the old ones for
    as long as it lived, with what had been deleted and without what came later.
    """
    path, backup = stored(tmp_path / "store", 5), stored(tmp_path / "backup", 2, "other")
    with LmdbStore(path, read_only=True) as reader:
        assert 5 == reader.snapshot("s1").length
        shutil.rmtree(path)
        os.rename(backup, path)

        until = time.monotonic() + 5
        while reader.head("other") is None and time.monotonic() < until:
            time.sleep(0.05)

        assert ["other"] == [head.header.id for head in reader.heads().items]


def test_reader_of_removed_files_sees_an_empty_store(tmp_path: Path) -> None:
    """Removed files are like a store where nothing was ever stored, until something is."""
    path = stored(tmp_path / "store", 5)
    with LmdbStore(path, read_only=True) as reader:
        shutil.rmtree(path)
        look_now(reader)
        assert () == reader.heads().items
        stored(path, 3)
        assert 3 == reader.snapshot("s1").length


def test_snapshot_is_not_read_from_another_store(tmp_path: Path) -> None:
    """
    The first session of every store has the same ordinal. A snapshot of the store that was
    at the path before must not be taken for one of a session that is there now.
    """
    path, other = stored(tmp_path / "store", 5), tmp_path / "other"
    with LmdbStore(other) as store:
        store.append(make_header(), [*messages(4), replacement(4, 0, 1, [0, 1])])
    with LmdbStore(path, read_only=True) as reader:
        snapshot = reader.snapshot("s1")
        os.replace(other / "data.mdb", path / "data.mdb")
        look_now(reader)

        with pytest.raises(SessionNotFound):
            snapshot.read(0, 5)
        with pytest.raises(SessionNotFound):
            snapshot.nodes()
        assert [4, 2, 3] == reader.snapshot("s1").nodes()


@pytest.mark.parametrize("name", ["data.mdb", "lock.mdb"])
@pytest.mark.parametrize("kind", ["link", "dangling", "loop", "pipe", "folder"])
def test_x8_what_is_no_file_is_not_opened(tmp_path: Path, name: str, kind: str) -> None:
    """
    LMDB followed links to files outside of the folder, made and overwrote them, and waited
    for ever for somebody to write into a pipe.
    """
    path, outside = stored(tmp_path / "store", 2), tmp_path / "outside"
    outside.write_bytes(b"secret" * 2000)
    place = path / name
    place.unlink()
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    else:
        targets = {"link": outside, "dangling": tmp_path / "nowhere", "loop": place}
        place.symlink_to(targets[kind])

    for read_only in (True, False):
        with (
            pytest.raises(StoreUnavailable) as caught,
            LmdbStore(path, read_only=read_only) as store,
        ):
            store.append(make_header(), messages(2))
        assert name in caught.value.detail

    assert b"secret" * 2000 == outside.read_bytes()
    assert not (tmp_path / "nowhere").exists()


def test_path_that_is_not_utf_8(tmp_path: Path) -> None:
    """A path may be any bytes that the system takes; lmdb refused some by UnicodeEncodeError."""
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    with LmdbStore(path) as store:
        assert 2 == store.append(make_header(), messages(2))
        store._environment.close()
    with LmdbStore(path, read_only=True) as store:
        assert messages(2) == store.snapshot("s1").read(0, 2)
        assert [] == list(store.verify())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_map_leaves_room_for_the_process(tmp_path: Path) -> None:
    """
    Under a limit of address space the map took nearly all that was left, and the next
    allocation elsewhere ended the process.
    """
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
    done = subprocess.run(
        [sys.executable, "-c", LITTLE_SPACE, str(tmp_path / "store")],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert ("3\n", "", 0) == (done.stdout, done.stderr, done.returncode)
