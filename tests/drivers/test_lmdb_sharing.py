"""One environment a process, however many stores and threads use it."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread
from threading import Event as Flag

import lmdb
import pytest

from eventlog import Batch, Event
from eventlog.drivers.lmdb import LmdbStore, sharing
from eventlog.errors import InvalidSurface, SessionNotFound, StoreClosed, StoreUnavailable
from support import log_only, make_header, message, messages
from support.processes import forked, running


def test_e6_path_opened_twice(tmp_path: Path) -> None:
    """
    Stores at one path, also through a symbolic link or a longer way, share their files,
    and closing one leaves the others alone.

    Field report e6: opening the same file twice in one process is a serious error.
    """
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    paths = [tmp_path / "real", tmp_path / "link", tmp_path / "real" / ".." / "link" / "."]
    stores = [LmdbStore(path) for path in paths]
    for seq, store in enumerate(stores):
        assert seq + 1 == store.append(make_header(), [message(seq)])
    for store in stores:
        assert messages(3) == store.snapshot("s1").read(0, 9)

    snapshot = stores[1].snapshot("s1")
    stores[0].close()
    stores[0].close()
    with pytest.raises(StoreClosed):
        stores[0].snapshot("s1")
    assert messages(3) == snapshot.read(0, 9)
    assert 4 == stores[2].append(make_header(), [message(3)])
    stores[1].close()
    with pytest.raises(StoreClosed):
        snapshot.read(0, 9)
    stores[2].close()

    with LmdbStore(tmp_path / "link") as store:
        assert messages(4) == store.snapshot("s1").read(0, 9)


def test_e6_link_to_a_store_that_is_not_there_yet(tmp_path: Path) -> None:
    """
    A link whose target does not exist is that target once somebody stores something.
    """
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with LmdbStore(tmp_path / "link") as store, LmdbStore(tmp_path / "real") as other:
        assert not (tmp_path / "real").exists()
        store.append(make_header(), messages(1))
        assert messages(1) == other.snapshot("s1").read(0, 1)


def test_e6_threads_open_at_once(tmp_path: Path) -> None:
    """
    Threads that open, use and close the same store at the same moment all succeed.
    """
    start = Barrier(8)
    failures: list[BaseException] = []

    def use(number: int) -> None:
        try:
            for turn in range(10):
                start.wait()
                with LmdbStore(tmp_path / f"store-{turn}") as store:
                    store.append(make_header(f"s{number}"), messages(1))
                    assert messages(1) == store.snapshot(f"s{number}").read(0, 1)
        except BaseException as error:
            failures.append(error)
            start.abort()

    threads = [Thread(target=use, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not failures
    for turn in range(10):
        with LmdbStore(tmp_path / f"store-{turn}") as store:
            assert 8 == len(store.heads().items)


def test_store_that_is_dropped_frees_its_files(tmp_path: Path) -> None:
    """
    A store that nobody closed and nobody holds any more keeps no files open.
    """
    store = LmdbStore(tmp_path)
    store.append(make_header(), messages(1))
    path = store._settings.path
    assert path in sharing._environments
    del store
    gc.collect()

    assert path not in sharing._environments
    lmdb.open(str(tmp_path), max_dbs=16).close()


def test_files_open_elsewhere_in_the_process(tmp_path: Path) -> None:
    """
    Where other code of the process has the files open, the store says so.
    """
    with LmdbStore(tmp_path) as store:
        store.append(make_header(), messages(1))
    with lmdb.open(str(tmp_path)), pytest.raises(StoreUnavailable) as caught:
        LmdbStore(tmp_path)
    assert str(tmp_path) == caught.value.path
    with LmdbStore(tmp_path) as store:
        assert 1 == store.snapshot("s1").length


def run_beside_aborts(path: Path, seconds: float) -> dict[str, int]:
    """Read in two threads while a third commits and aborts; return what each has done."""
    done = {"read-0": 0, "read-1": 0, "commit": 0, "abort": 0, "refuse": 0}
    failures: list[BaseException] = []
    stop = Flag()
    batch = [log_only(seq) for seq in range(20)]

    def read(name: str, store: LmdbStore) -> None:
        try:
            while not stop.is_set():
                assert batch == store.snapshot("s1").read(0, 20)
                assert [] == store.snapshot("s1").nodes()
                done[name] += 1
        except BaseException as error:
            failures.append(error)

    def break_down(transaction: lmdb.Transaction[bytes], databases: object) -> None:
        transaction.put(b"garbage", b"x" * 10_000)
        raise ZeroDivisionError

    with LmdbStore(path) as store:
        store.append(make_header(), batch)
        threads = [Thread(target=read, args=(f"read-{n}", store), daemon=True) for n in range(2)]
        for thread in threads:
            thread.start()
        until = time.monotonic() + seconds
        while time.monotonic() < until and not failures:
            seq = done["commit"]
            store.append(make_header("s2"), [log_only(seq)])
            done["commit"] += 1
            with pytest.raises(InvalidSurface):
                store.append(make_header("s2"), [log_only(seq + 1), log_only(seq + 9)])
            done["refuse"] += 1
            with store._environment.writer, pytest.raises(ZeroDivisionError):
                store._environment.write(break_down, wait_s=5)
            done["abort"] += 1
        stop.set()
        for thread in threads:
            thread.join(10)
        assert not any(thread.is_alive() for thread in threads)
        assert not failures
        assert done["commit"] == store.snapshot("s2").length
    return done


def test_reads_beside_commits_and_aborts(tmp_path: Path) -> None:
    """
    Two threads read while a third commits and aborts, and all of them get on.

    With lmdb 3.0.0 alone, an abort beside two threads that read in a loop does not
    return, and holds the writer lock meanwhile.
    """
    done = run_beside_aborts(tmp_path, 1.0)

    assert min(done.values()) >= 20, done


@pytest.mark.long
def test_reads_beside_commits_and_aborts_for_20_s(tmp_path: Path) -> None:
    """
    The same holds for twenty seconds.
    """
    done = run_beside_aborts(tmp_path, 20.0)

    assert min(done.values()) >= 400, done


def test_e4_slots_of_killed_readers_are_freed(tmp_path: Path) -> None:
    """
    Readers that were killed inside a read take no slot away for good.

    Field report e4: crashed workers left their slots in the table, until it was full.
    """
    with LmdbStore(tmp_path, readers_max=4) as store:
        store.append(make_header(), messages(3))
    for _ in range(2):
        # Each time more readers than the table has slots.
        for _ in range(5):
            kill_reader(lambda: LmdbStore(tmp_path))
        with LmdbStore(tmp_path) as store:
            assert messages(3) == store.snapshot("s1").read(0, 3)


def test_e4_full_table_of_readers_is_cleared(tmp_path: Path) -> None:
    """
    A store that is open already finds the slots of the killed when it needs one.
    """
    with LmdbStore(tmp_path, readers_max=4) as store:
        store.append(make_header(), messages(3))
        for _ in range(4):
            kill_reader(lambda: store)

        assert messages(3) == store.snapshot("s1").read(0, 3)


def kill_reader(get_store: Callable[[], LmdbStore]) -> None:
    """Fork a child that kills itself inside a read."""

    def read() -> None:
        reading = get_store()._environment.reading()
        reading.__enter__()
        assert reading.databases is not None
        os.kill(os.getpid(), signal.SIGKILL)

    assert -signal.SIGKILL == forked(read)


def test_d10_appends_of_another_store_are_seen_at_once(tmp_path: Path) -> None:
    """
    A reader that is open sees what another process appended as soon as it has returned.

    Field report d10: a second store object cached the end of the log.
    """
    source = """
        import sys
        from support import make_header, message
        from eventlog.drivers.lmdb import LmdbStore

        with LmdbStore(sys.argv[1]) as store:
            print("ready", flush=True)
            for line in sys.stdin:
                print(store.append(make_header(), [message(int(line))]), flush=True)
    """
    reader = LmdbStore(tmp_path, read_only=True)
    assert () == reader.heads().items
    token = reader.changes().token
    with running(source, tmp_path) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        for seq in range(20):
            print(seq, file=writer.stdin, flush=True)
            assert f"{seq + 1}\n" == writer.stdout.readline()
            assert seq + 1 == reader.snapshot("s1").length
            assert [message(seq)] == reader.snapshot("s1").read(seq, seq + 1)
            changes = reader.changes(token)
            assert ("s1",) == changes.session_ids
            token = changes.token
    reader.close()


def test_old_snapshot_of_another_session_with_its_id(tmp_path: Path) -> None:
    """
    A snapshot of a deleted session does not read the session that has its id now.
    """
    with LmdbStore(tmp_path) as store:
        store.append(make_header(), messages(5))
        old = store.snapshot("s1")
        store.delete("s1", forget=True)
        store.append(make_header(), [log_only(seq) for seq in range(5)])

        for call in (
            lambda: old.read(0, 3),
            lambda: old.classify(0),
            lambda: old.nodes(),
            lambda: old.replaced_by(0, 5),
            lambda: old.citing(0),
            lambda: old.replaced(0),
        ):
            with pytest.raises(SessionNotFound):
                call()
        assert [] == store.snapshot("s1").nodes()


def test_group_refuses_one_batch_and_keeps_the_others(tmp_path: Path) -> None:
    """
    Of many threads' appends that meet in one commit, the bad ones are refused, each with
    its own error, and every good one is stored.
    """
    failures: list[BaseException] = []
    refused = []

    def append(store: LmdbStore, number: int) -> None:
        try:
            header = make_header(f"s{number}")
            for seq in range(20):
                bad: list[Event] = [log_only(seq), message(seq + 1, source_event_seqs=[seq + 7])]
                with pytest.raises(InvalidSurface) as caught:
                    store.append(header, bad)
                refused.append(caught.value.seq == seq + 1)
                assert seq + 1 == store.append(header, [log_only(seq)])
        except BaseException as error:
            failures.append(error)

    with LmdbStore(tmp_path) as store:
        threads = [Thread(target=append, args=(store, number)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert not failures
        assert [True] * 160 == refused
        assert [20] * 8 == [head.length for head in store.heads().items]


def test_batches_of_one_call_share_a_commit(tmp_path: Path) -> None:
    """
    ``append_many`` commits once, whatever it refuses.
    """
    with LmdbStore(tmp_path) as store:
        store.append(make_header(), messages(1))

        def commits() -> int:
            handle = store._environment._handle
            assert handle is not None
            found: int = handle.env.info()["last_txnid"]
            return found

        before = commits()
        batches = [Batch(make_header(f"s{n}"), messages(3)) for n in range(50)]
        batches.insert(25, Batch(make_header("bad"), messages(1, start=7)))
        results = store.append_many(batches)

        assert before + 1 == commits()
        assert 50 == results.count(3)
        store.append_many([Batch(make_header("s1"), messages(2))])
        assert before + 1 == commits(), "what is stored already is not written again"


def test_x5_read_that_never_began_ends_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt before the first step of a read had Python tell of a weak object gone."""
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    with LmdbStore(tmp_path) as store:
        reading = store._environment.reading()
        del reading
    assert [] == told
