"""The LMDB store in a process that forks."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event as Flag
from threading import Thread

import pytest

from eventlog.drivers.lmdb import LmdbStore, environment
from eventlog.errors import StoreUnavailable
from support import log_only, make_header, message, messages
from support.processes import forked, started


def test_e3_child_reads_and_appends(tmp_path: Path) -> None:
    """
    A forked child may exit, read or append through the store that its parent opened, and
    the parent goes on as if nothing had been.

    Field report e3: an environment used across a fork had bad reader slots, and crashed.
    """
    with LmdbStore(tmp_path) as store:
        store.append(make_header(), messages(3))
        snapshot = store.snapshot("s1")
        assert messages(3) == snapshot.read(0, 3)

        def read() -> None:
            assert messages(3) == snapshot.read(0, 3)
            assert [0, 1, 2] == store.snapshot("s1").nodes()

        def append() -> None:
            assert 4 == store.append(make_header(), [message(3)])
            store.append(make_header("child"), messages(2))
            store.close()

        assert 0 == forked(lambda: None)
        assert messages(3) == snapshot.read(0, 3)
        assert 0 == forked(read)
        assert messages(3) == store.snapshot("s1").read(0, 9)
        assert 0 == forked(append)
        assert messages(4) == store.snapshot("s1").read(0, 9)
        assert 5 == store.append(make_header(), [message(4)])
        assert 2 == store.snapshot("child").length


def test_e3_grandchild_appends(tmp_path: Path) -> None:
    """
    A child's child uses the store too, whether or not its own parent has used it.
    """
    with LmdbStore(tmp_path) as store:
        store.append(make_header(), messages(3))

        def child(*, reads: bool) -> None:
            if reads:
                assert messages(3) == store.snapshot("s1").read(0, 3)
            header = make_header(f"grandchild-{reads}")
            assert 0 == forked(lambda: store.append(header, messages(1)))

        assert 0 == forked(lambda: child(reads=True))
        assert 0 == forked(lambda: child(reads=False))
        assert 3 == len(store.heads().items)


def test_e3_child_that_ends_leaves_the_parents_files_open(tmp_path: Path) -> None:
    """
    A child that closes its store, or just ends, takes no lock or slot from its parent.
    """
    with LmdbStore(tmp_path) as store:
        store.append(make_header(), messages(3))

        for _ in range(3):
            assert 0 == forked(store.close)

        assert messages(3) == store.snapshot("s1").read(0, 3)
        # Another process would now reset a lock file that it believes to be unused.
        with LmdbStore(tmp_path) as other:
            other.append(make_header(), [message(3)])
        assert 0 == forked(lambda: LmdbStore(tmp_path).append(make_header(), [message(4)]))
        assert 6 == store.append(make_header(), [message(5)])
        assert messages(6) == store.snapshot("s1").read(0, 9)


def test_e3_fork_while_threads_append_and_read(tmp_path: Path) -> None:
    """
    Children forked in the middle of other threads' appends and reads work, and lose
    nothing of what the parent appends.
    """
    stop = Flag()
    failures: list[BaseException] = []
    with LmdbStore(tmp_path) as store:
        store.append(make_header(), messages(100))

        def guarded(body: Callable[[int], int]) -> None:
            try:
                seq = 0
                while not stop.is_set():
                    seq = body(seq)
            except BaseException as error:
                failures.append(error)

        def appending(session_id: str) -> Callable[[int], int]:
            return lambda seq: store.append(make_header(session_id), [log_only(seq)])

        def reading(seq: int) -> int:
            assert 100 == len(store.snapshot("s1").read(0, 100))
            return seq

        bodies = [appending("a"), appending("b"), reading, reading]
        threads = [Thread(target=guarded, args=(body,)) for body in bodies]
        for thread in threads:
            thread.start()

        def child(number: int) -> None:
            assert 100 == len(store.snapshot("s1").read(0, 100))
            assert 1 == store.append(make_header(f"child-{number}"), messages(1))

        codes = [forked(partial(child, number)) for number in range(10)]
        stop.set()
        for thread in threads:
            thread.join()

        assert [0] * 10 == codes
        assert not failures
        assert 12 + 1 == len(store.heads().items)
        for session_id in ("a", "b"):
            length = store.snapshot(session_id).length
            found = store.snapshot(session_id).read(0, length)
            assert [log_only(seq) for seq in range(length)] == found


def test_e3_fork_inside_a_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A child forked by the very thread that is in a transaction is told so, and the
    parent's append is stored.
    """
    monkeypatch.setattr(environment, "FORK_WAIT_S", 0.1)
    codes = []
    with LmdbStore(tmp_path) as store:
        store.append(make_header(), messages(3))

        def child() -> None:
            for call in (lambda: store.head("s1"), lambda: store.append(make_header(), [])):
                with pytest.raises(StoreUnavailable):
                    call()

        with store._environment.writer:
            store._environment.write(lambda *_: codes.append(forked(child)), wait_s=1)
        with store._environment.reading():
            codes.append(forked(child))

        assert [0, 0] == codes
        assert 4 == store.append(make_header(), [message(3)])
        assert messages(4) == store.snapshot("s1").read(0, 9)


def test_child_does_not_keep_the_writer_lock(tmp_path: Path) -> None:
    """
    A child forked while its parent writes, and living on, keeps no other writer waiting.
    """
    with LmdbStore(tmp_path) as store:
        store.append(make_header(), messages(3))
        with store._environment.held(wait_s=1):
            child = started(lambda: time.sleep(60))
        try:
            other = LmdbStore(tmp_path, wait_s=5)
            assert 0 == forked(lambda: other.append(make_header(), [message(3)]))
            other.close()
            assert 5 == store.append(make_header(), [message(4)])
        finally:
            os.kill(child, 9)
            os.waitpid(child, 0)


def test_x11_store_is_reopened_where_it_is_unpickled(tmp_path: Path) -> None:
    """
    A pickled store is the same store, opened again by its path and with its options.
    """
    with LmdbStore(tmp_path, wait_s=3) as store:
        store.append(make_header(), messages(3))
        with LmdbStore(tmp_path, read_only=True) as reader:
            copies = [pickle.loads(pickle.dumps(each)) for each in (store, reader)]

    assert [False, True] == [copy.read_only for copy in copies]
    for copy in copies:
        assert messages(3) == copy.snapshot("s1").read(0, 3)
        copy.close()
