"""The PostgreSQL store under several processes and threads, some of which are killed."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random

import pytest

from eventlog import Batch, open_store
from eventlog.admission import admit
from eventlog.drivers.postgres import PostgresStore
from eventlog.drivers.postgres.schema import LOG_TABLES
from eventlog.errors import SequenceConflict, StoreBusy
from support import log_only, make_header, message, messages
from support.crowd import append_shared
from support.postgres import PASSWORD, need_server, schema_of, store_at
from support.processes import forked, forked_together, script, started, wait_for

APPENDER = """
    import sys
    from support import make_header, message
    from eventlog.drivers.postgres import PostgresStore

    with PostgresStore(sys.argv[1], schema=sys.argv[2]) as store:
        seq = store.append(make_header(), [])
        while True:
            seq = store.append(make_header(), [message(seq + n) for n in range(3)])
            print(seq, flush=True)
"""


@pytest.fixture(autouse=True)
def _server() -> None:
    # Here, and not in the first child that is forked.
    need_server()


def test_processes_open_a_new_store_at_once(tmp_path: Path) -> None:
    """
    Eight processes that find no schema and make it at the same moment all succeed.
    """

    def use(root: Path, number: int) -> None:
        with store_at(root) as store:
            assert 1 == store.append(make_header(f"s{number}"), [message(0)])
            assert [message(0)] == store.snapshot(f"s{number}").read(0, 1)

    for turn in range(3):
        root = tmp_path / f"store-{turn}"
        assert [0] * 8 == forked_together([partial(use, root, number) for number in range(8)])
        with store_at(root, read_only=True) as store:
            assert 8 == len(store.heads().items)
            assert [] == list(store.verify())


def test_processes_create_a_session_at_once(tmp_path: Path) -> None:
    """
    Of eight processes that create one session at the same moment, those that send the
    same first event have stored it, and the others are told of the conflict.
    """

    def use(root: Path, number: int) -> None:
        with store_at(root) as store:
            batch = Batch(make_header(), [message(0, f"by {number % 2}")])
            (answer,) = store.append_many([batch])
            if isinstance(answer, SequenceConflict):
                answer = answer.expected + answer.actual
            assert 1 == answer

    for turn in range(4):
        root = tmp_path / f"store-{turn}"
        if turn % 2:
            with store_at(root) as store:
                store.append(make_header("other"), messages(1))
        assert [0] * 8 == forked_together([partial(use, root, number) for number in range(8)])
        with store_at(root) as store:
            assert 1 == store.snapshot("s1").length
            assert [] == list(store.verify())


def test_d1_second_writer_of_a_session_conflicts(tmp_path: Path) -> None:
    """
    Of two processes that both would write seq 1, one is told of the conflict; the log has
    each seq once.

    Field report d1: two processes were alive on resume and both wrote seq 580.
    """
    with store_at(tmp_path) as store:
        store.append(make_header(), [message(0)])

        def append_two() -> None:
            with store_at(tmp_path) as other:
                assert 3 == other.append(make_header(), [message(1, "b"), message(2, "b")])

        assert 0 == forked(append_two)
        with pytest.raises(SequenceConflict) as caught:
            store.append(make_header(), [message(1, "a")])

        assert (3, 1) == (caught.value.expected, caught.value.actual)
        expected = [message(0), message(1, "b"), message(2, "b")]
        assert expected == store.snapshot("s1").read(0, 9)


def test_d5_processes_append_to_shared_sessions(tmp_path: Path) -> None:
    """
    Eight processes that append to the same sessions, one batch or several at a time, leave
    contiguous logs with everything that was acknowledged, and meet no error but the
    documented conflict.
    """
    appends = 20

    def append(number: int) -> None:
        with store_at(tmp_path) as store:
            waiting = {f"s{(number + turn) % 3}": appends // 2 for turn in range(2)}
            while waiting:
                batches = [
                    Batch(
                        make_header(name),
                        [log_only(store.append(make_header(name), []), data={"by": number})],
                    )
                    for name in waiting
                ]
                for batch, answer in zip(batches, store.append_many(batches), strict=True):
                    if isinstance(answer, int):
                        waiting[batch.header.id] -= 1
                    else:
                        assert isinstance(answer, SequenceConflict), answer
                waiting = {name: left for name, left in waiting.items() if left}

    assert [0] * 8 == forked_together([partial(append, number) for number in range(8)])

    found = []
    with store_at(tmp_path) as store:
        for session_id in ("s0", "s1", "s2"):
            events = store.snapshot(session_id).read(0, 1_000)
            assert list(range(len(events))) == [event.seq for event in events]
            found += [event.data["by"] for event in events]
        assert [] == list(store.verify())
    assert sorted(by for by in range(8) for _ in range(appends)) == sorted(found)


def test_killed_writer_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """
    After a kill, everything acknowledged is there, no batch is half there, and the log goes
    on at once: the server gives up what the dead one held.
    """
    for delay_s in (0.0, 0.02, 0.05):
        child = script(APPENDER, need_server().url, schema_of(tmp_path))
        assert child.stdout is not None
        acknowledged = int(child.stdout.readline())
        time.sleep(delay_s)
        child.send_signal(signal.SIGKILL)
        # The last line may be cut by the kill.
        lines = child.communicate()[0].splitlines()[:-1]
        acknowledged = max([acknowledged, *map(int, lines)])
        with store_at(tmp_path, lock_wait_s=5.0) as store:
            length = store.snapshot("s1").length
            assert length >= acknowledged
            assert 0 == length % 3, "batches are whole"
            assert messages(length) == store.snapshot("s1").read(0, length + 1)
            assert list(range(length)) == store.snapshot("s1").nodes()
            assert length + 3 == store.append(make_header(), messages(3, start=length))
            assert [] == list(store.verify())


def test_writer_waits_a_bounded_time(tmp_path: Path) -> None:
    """
    While another one holds a session, an append to it gives up after its wait and stores
    nothing; reads, other sessions and the other batches of the same call go on.
    """
    with store_at(tmp_path) as holder, store_at(tmp_path, lock_wait_s=0.2) as store:
        store.append(make_header(), [message(0)])
        with holder._writing("s1"):
            began = time.monotonic()
            with pytest.raises(StoreBusy) as caught:
                store.append(make_header(), [message(1)])
            assert 0.15 <= time.monotonic() - began < 5
            assert (None, 0.2) == (caught.value.owner, caught.value.waited_s)
            assert [message(0)] == store.snapshot("s1").read(0, 9)
            with pytest.raises(StoreBusy):
                store.delete("s1")

            assert 1 == store.append(make_header("s2"), messages(1))
            batches = [
                Batch(make_header("s0"), messages(2)),
                Batch(make_header("s1"), [message(1)]),
                Batch(make_header("s2"), [message(1)]),
            ]
            first, second, third = store.append_many(batches)
            assert (2, 2) == (first, third)
            assert isinstance(second, StoreBusy)

        assert 2 == store.append(make_header(), [message(1)])


def test_new_session_that_another_one_is_creating(tmp_path: Path) -> None:
    """
    Who creates a session that another writer is creating waits for it, and then conflicts;
    where the other one gives up, it is created.
    """
    with store_at(tmp_path) as holder, store_at(tmp_path) as store, ThreadPoolExecutor() as pool:
        store.append(make_header("other"), messages(1))
        with holder._writing("s1") as log:
            log.write(admit(log, Batch(make_header(), [message(0, "other")])))
            waiting = pool.submit(store.append, make_header(), messages(1))
            time.sleep(0.1)
            assert not waiting.done()
        with pytest.raises(SequenceConflict):
            waiting.result(10)

        with holder._writing("s2"):
            waiting = pool.submit(store.append, make_header("s2"), messages(1))
            time.sleep(0.1)
            assert not waiting.done()
        assert 1 == waiting.result(10)
        assert [] == list(store.verify())


def test_refused_batch_leaves_no_trace_of_its_session(tmp_path: Path) -> None:
    """
    An append to a new session that is refused leaves no row behind, and is no news.
    """
    with store_at(tmp_path) as store:
        with pytest.raises(SequenceConflict):
            store.append(make_header(), [message(7)])
        assert [] == need_server().query(
            "SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema_of(tmp_path),)
        ), "a refused append makes no store"
        store.append(make_header("other"), messages(1))
        with pytest.raises(SequenceConflict):
            store.append(make_header(), [message(7)])

        assert ("other",) == store.changes().session_ids


def test_deletion_takes_every_row_away(tmp_path: Path) -> None:
    """
    Of a deleted session the server keeps its id, and that it was deleted, and nothing else.
    """
    schema = schema_of(tmp_path)
    with store_at(tmp_path) as store:
        header = make_header("s1", cwd="/secret", parent_session="p")
        store.append(header, [*messages(3)])
        store.delete("s1")

        for table in LOG_TABLES:
            assert [(0,)] == need_server().query(f"SELECT count(*) FROM {schema}.{table}")
        (row,) = need_server().query(f"SELECT s::text FROM {schema}.sessions s")
        assert "secret" not in row[0]
        assert b"secret".hex() not in row[0]


def test_e3_parent_and_child_go_on_after_a_fork(tmp_path: Path) -> None:
    """
    After a fork both sides read and append through the store that was open before, each
    with connections of its own; so do threads of the parent that were in a call.
    """
    with store_at(tmp_path) as store, ThreadPoolExecutor(2) as pool:
        store.append(make_header(), messages(3))

        def busy(number: int) -> None:
            for seq in range(60):
                store.append(make_header(f"t{number}"), [message(seq)])
                store.snapshot(f"t{number}").nodes()

        threads = [pool.submit(busy, number) for number in range(2)]

        def use(number: int) -> None:
            assert messages(3) == store.snapshot("s1").read(0, 3)
            assert 1 == store.append(make_header(f"c{number}"), messages(1))
            store.close()

        assert [0] * 4 == [forked(partial(use, number)) for number in range(4)]
        for thread in threads:
            thread.result(30)
        assert 4 == store.append(make_header(), [message(3)])
        assert 7 == len(store.heads().items)
        assert [] == list(store.verify())


def test_e3_fork_inside_a_transaction(tmp_path: Path) -> None:
    """
    A child that is forked in the middle of an append can neither end it nor add to it, and
    lives on without keeping others waiting once its parent is killed.
    """
    report, told = os.pipe()

    def parent() -> None:
        store = store_at(tmp_path)
        with store._writing("s1") as log:
            log.write(admit(log, Batch(make_header(), messages(3, start=3))))
            child = started(lambda: time.sleep(60))
            os.write(told, child.to_bytes(8, "big"))
            time.sleep(60)

    with store_at(tmp_path) as store:
        store.append(make_header(), messages(3))
        middle = started(parent)
        child = int.from_bytes(os.read(report, 8), "big")
        try:
            os.kill(middle, signal.SIGKILL)
            wait_for(middle)
            assert 4 == store.append(make_header(), [message(3)])
            os.kill(child, 0)
        finally:
            os.kill(child, signal.SIGKILL)
        assert messages(4) == store.snapshot("s1").read(0, 9)


def test_x11_store_is_reopened_where_it_is_unpickled(tmp_path: Path) -> None:
    """
    A pickled store is the same store, opened again by its URL and with its options.
    """
    schema = schema_of(tmp_path)
    with PostgresStore(need_server().tcp_url(), schema=schema, lock_wait_s=3) as store:
        store.append(make_header(), messages(3))
        with store_at(tmp_path, read_only=True) as reader:
            copies = [pickle.loads(pickle.dumps(each)) for each in (store, reader)]

    assert [False, True] == [copy.read_only for copy in copies]
    assert [repr(copies[0])] == [repr(store).replace(", closed", "")]
    assert PASSWORD not in repr(copies[0])
    for copy in copies:
        assert messages(3) == copy.snapshot("s1").read(0, 3)
        copy.close()


def test_x11_processes_that_are_spawned(tmp_path: Path) -> None:
    """
    Processes that are started afresh open the store by its URL and share its sessions.
    """
    url = f"{need_server().url}&schema={schema_of(tmp_path)}"
    context = multiprocessing.get_context("spawn")
    told = context.Queue()
    children = [
        context.Process(target=append_shared, args=(url, number, 12, told)) for number in range(2)
    ]
    for child in children:
        child.start()
    acknowledged = [entry for _ in children for entry in told.get(timeout=60)]
    for child in children:
        child.join(60)

    assert 24 == len(acknowledged)
    with open_store(url) as store:
        for session_id, seq, text in acknowledged:
            (event,) = store.snapshot(session_id).read(seq, seq + 1)
            assert message(seq, text) == event
        assert [] == list(store.verify())


def interrupt_appends(path: Path, interrupts: int) -> None:
    """Append while the process is interrupted at any point, many times."""
    random = Random(3)

    def strike(*_: object) -> None:
        raise KeyboardInterrupt

    with store_at(path, connections_max=2) as store:
        store.append(make_header(), [log_only(0)])
        signal.signal(signal.SIGALRM, strike)
        seq = 1
        for _ in range(interrupts):
            acknowledged = seq
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0002, 0.02))
                while True:
                    acknowledged = store.append(make_header(), [log_only(acknowledged)])
            except KeyboardInterrupt:
                # The server may still be at it. The next append waits for that.
                seq = store.append(make_header(), [log_only(acknowledged)])
                assert 1 == seq - acknowledged
        assert [log_only(n) for n in range(seq)] == store.snapshot("s1").read(0, seq + 1)
        assert [] == list(store.verify())


def test_x5_interrupted_appends_are_in_or_out(tmp_path: Path) -> None:
    """
    An append that an interrupt ends is wholly in or wholly out, the same one again
    completes it, and no connection or lock is lost by it.
    """
    assert 0 == forked(lambda: interrupt_appends(tmp_path, 60))


@pytest.mark.long
def test_x5_interrupted_appends_are_in_or_out_many_times(tmp_path: Path) -> None:
    """
    The same for a thousand interrupts.
    """
    assert 0 == forked(lambda: interrupt_appends(tmp_path, 1_000), wait_s=280)
