"""The LMDB store grows with its data, and says so when it may not."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path
from threading import Event as Flag
from threading import Thread

import pytest

from eventlog import Batch
from eventlog.drivers.lmdb import LmdbStore
from eventlog.errors import StoreFull
from support import log_only, make_header, message, messages
from support.processes import forked, running

SMALL_MAP = 65_536


def test_e1_map_grows_by_itself(tmp_path: Path) -> None:
    """
    A store whose map is far too small takes a thousand events under open readers.

    Field report e1: a full map was an error, and resizing it under open transactions
    ended in assertions; the failed transaction left none of its rows.
    """
    with LmdbStore(tmp_path, map_bytes=SMALL_MAP) as store:
        store.append(make_header(), [message(0, "x" * 512)])
        old = store.snapshot("s1")
        for seq in range(1, 1_000, 9):
            batch = [message(after, "x" * 512) for after in range(seq, seq + 9)]
            assert seq + 9 == store.append(make_header(), batch)
            assert message(0, "x" * 512) == old.read(0, 1)[0]

        found = store.snapshot("s1").read(0, 1_000)

    assert [message(seq, "x" * 512) for seq in range(1_000)] == found


def test_e1_growth_under_reading_threads(tmp_path: Path) -> None:
    """
    Threads that read without a pause see whole prefixes while the map grows many times.
    """
    stop = Flag()
    failures: list[object] = []

    def read(store: LmdbStore) -> None:
        try:
            while not stop.is_set():
                head = store.head("s1")
                if head is not None:
                    found = store.snapshot("s1").read(0, head.length)
                    assert list(range(head.length)) == [event.seq for event in found]
        except BaseException as error:
            failures.append(error)

    with LmdbStore(tmp_path, map_bytes=SMALL_MAP) as store:
        threads = [Thread(target=read, args=(store,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for start in range(0, 300, 10):
            batch = [message(seq, "x" * 10_000) for seq in range(start, start + 10)]
            store.append(make_header(), batch)
        stop.set()
        for thread in threads:
            thread.join()

        assert not failures
        assert 300 == store.snapshot("s1").length


def test_batch_larger_than_the_map(tmp_path: Path) -> None:
    """
    A batch is replayed until the map holds it, however many doublings that takes.
    """
    events = [message(seq, "x" * 1_000_000) for seq in range(8)]
    with LmdbStore(tmp_path, map_bytes=1) as store:
        assert [8, 2] == store.append_many(
            [Batch(make_header(), events), Batch(make_header("s2"), messages(2))]
        )
        assert events == store.snapshot("s1").read(0, 8)
        assert list(range(8)) == store.snapshot("s1").nodes()


def test_e1_growth_of_another_process_is_followed(tmp_path: Path) -> None:
    """
    Two processes with small maps append in turn; each takes over what the other one grew.
    """
    source = """
        import sys
        from support import make_header, message
        from eventlog.drivers.lmdb import LmdbStore

        with LmdbStore(sys.argv[1], map_bytes=65_536) as store:
            print("ready", flush=True)
            for line in sys.stdin:
                seq = int(line)
                assert seq == store.append(make_header(), [])
                store.append(make_header(), [message(seq, "x" * 50_000)])
                print(seq, flush=True)
    """
    with LmdbStore(tmp_path, map_bytes=SMALL_MAP) as store, running(source, tmp_path) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        snapshots = []
        for seq in range(0, 40, 2):
            store.append(make_header(), [message(seq, "x" * 50_000)])
            snapshots.append(store.snapshot("s1"))
            print(seq + 1, file=other.stdin, flush=True)
            assert f"{seq + 1}\n" == other.stdout.readline()
            # A read is the first to notice here, and a write below.
            assert 50_000 < len(store.snapshot("s1").read(seq + 1, seq + 2)[0].payload)

        assert list(range(40)) == [event.seq for event in store.snapshot("s1").read(0, 40)]
        assert [1, 3, 5] == [snapshot.length for snapshot in snapshots[:3]]


def test_map_limit_is_a_full_store(tmp_path: Path) -> None:
    """
    At the limit of its map a store refuses the batch whole, keeps what it has, goes on
    reading, and takes the next event once it may grow.
    """
    header = make_header()
    with LmdbStore(tmp_path, map_bytes=SMALL_MAP, map_bytes_max=1_000_000) as store:
        store.append(header, messages(3))
        with pytest.raises(StoreFull) as caught:
            store.append(header, [message(seq, "x" * 10_000) for seq in range(3, 200)])
        assert str(tmp_path) == caught.value.path
        assert messages(3) == store.snapshot("s1").read(0, 10)
        assert 4 == store.append(header, [message(3)]), "a smaller one still fits"

    with LmdbStore(tmp_path) as store:
        assert 200 == store.append(header, [message(seq, "x" * 10_000) for seq in range(4, 200)])


def test_full_store_refuses_the_large_batch_only(tmp_path: Path) -> None:
    """
    Of batches that meet in one commit, the one that has no room takes no other with it.
    """
    failures: list[object] = []
    with LmdbStore(tmp_path, map_bytes=SMALL_MAP, map_bytes_max=2_000_000) as store:

        def append_small(number: int) -> None:
            try:
                for seq in range(20):
                    store.append(make_header(f"small-{number}"), [log_only(seq)])
            except BaseException as error:
                failures.append(error)

        threads = [Thread(target=append_small, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(5):
            with pytest.raises(StoreFull):
                store.append(make_header("large"), [message(0, "x" * 3_000_000)])
        for thread in threads:
            thread.join()

        assert not failures
        assert store.head("large") is None
        assert [20] * 4 == [store.snapshot(f"small-{n}").length for n in range(4)]


def test_j1_full_disk_stores_nothing_of_the_call(tmp_path: Path) -> None:
    """
    Where the file may not grow, the append is refused whole; with room it goes on.

    Field report j1: the disk was full in the middle of an append; the half line stayed
    and the next append ran into it.
    """

    def fill_up() -> None:
        with LmdbStore(tmp_path) as store:
            store.append(make_header(), messages(3))
            size = os.stat(tmp_path / "data.mdb").st_size
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50_000, hard))
            stored = append_until_full(store, 3)
            assert 3 < stored < 10
            assert stored == store.snapshot("s1").length
            assert messages(3) == store.snapshot("s1").read(0, 3)
            assert list(range(stored)) == store.snapshot("s1").nodes()
            with pytest.raises(StoreFull):
                store.append(make_header(), [message(stored, "x" * 10_000)])

            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            assert stored + 1 == store.append(make_header(), [message(stored, "x" * 10_000)])

    assert 0 == forked(fill_up)


def test_little_address_space_is_enough(tmp_path: Path) -> None:
    """
    A process that may not have the usual address space gets by with less.
    """

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, resource.RLIM_INFINITY))
        with LmdbStore(tmp_path / "new") as store:
            store.append(make_header(), messages(3))
        with LmdbStore(tmp_path / "old") as store:
            assert messages(3) == store.snapshot("s1").read(0, 3)
            store.append(make_header(), [message(3)])
            assert 4 == store.snapshot("s1").length

    with LmdbStore(tmp_path / "old") as store:
        store.append(make_header(), messages(3))
    assert 0 == forked(limited)
    with LmdbStore(tmp_path / "new") as store:
        assert messages(3) == store.snapshot("s1").read(0, 3)


def test_file_is_as_long_as_its_data(tmp_path: Path) -> None:
    """
    The address space that is reserved takes no room on the disk.
    """
    with LmdbStore(tmp_path) as store:
        store.append(make_header(), messages(3))

    assert (tmp_path / "data.mdb").stat().st_size < 200_000


def append_until_full(store: LmdbStore, seq: int) -> int:
    """Append events of 10 kB from *seq* on, and return how many there are in the end."""
    while True:
        try:
            seq = store.append(make_header(), [message(seq, "x" * 10_000)])
        except StoreFull:
            return seq
