"""The LMDB store under several processes, some of which are killed."""

from __future__ import annotations

import signal
import time
from functools import partial
from pathlib import Path
from random import Random
from threading import Event as Flag
from threading import Thread

import pytest

from eventlog.drivers.lmdb import LmdbStore
from eventlog.errors import SequenceConflict, StoreBusy
from support import log_only, make_header, message
from support.processes import forked, forked_together, output, running, script

APPENDER = """
    import sys
    from support import make_header, message
    from eventlog.drivers.lmdb import LmdbStore

    with LmdbStore(sys.argv[1]) as store:
        seq, size = store.append(make_header(), []), int(sys.argv[2])
        while True:
            seq = store.append(make_header(), [message(seq + n, "x" * size) for n in range(3)])
            print(seq, flush=True)
"""


def open_new_store_at_once(path: Path) -> list[int]:
    """Let 8 processes open a new store at one moment and append; return their exit codes."""

    def use(number: int) -> None:
        with LmdbStore(path) as store:
            assert 1 == store.append(make_header(f"s{number}"), [message(0)])
            assert [message(0)] == store.snapshot(f"s{number}").read(0, 1)

    return forked_together([partial(use, number) for number in range(8)])


def test_processes_open_a_new_store_at_once(tmp_path: Path) -> None:
    """
    Eight processes that find no store and make one at the same moment all succeed.
    """
    for turn in range(3):
        assert [0] * 8 == open_new_store_at_once(tmp_path / f"store-{turn}")
        with LmdbStore(tmp_path / f"store-{turn}", read_only=True) as store:
            assert 8 == len(store.heads().items)


@pytest.mark.long
def test_processes_open_a_new_store_at_once_many_times(tmp_path: Path) -> None:
    """
    The same, a hundred times.
    """
    codes = [open_new_store_at_once(tmp_path / f"store-{turn}") for turn in range(100)]

    assert [[0] * 8] * 100 == codes


def test_d1_second_writer_of_a_session_conflicts(tmp_path: Path) -> None:
    """
    Of two processes that both would write seq 1, one is told of the conflict; the log has
    each seq once.

    Field report d1: two processes were alive on resume and both wrote seq 580.
    """
    with LmdbStore(tmp_path) as store:
        store.append(make_header(), [message(0)])

        def append_two() -> None:
            assert 3 == store.append(make_header(), [message(1, "b"), message(2, "b")])

        assert 0 == forked(append_two)
        with pytest.raises(SequenceConflict) as caught:
            store.append(make_header(), [message(1, "a")])

        assert (3, 1) == (caught.value.expected, caught.value.actual)
        expected = [message(0), message(1, "b"), message(2, "b")]
        assert expected == store.snapshot("s1").read(0, 9)


def test_d5_processes_append_to_shared_sessions(tmp_path: Path) -> None:
    """
    Processes that append to the same sessions leave contiguous logs with everything that
    was acknowledged, and meet no error but the documented conflict.
    """
    appends = 30

    def append(number: int) -> None:
        with LmdbStore(tmp_path) as store:
            for count in range(appends):
                while True:
                    session_id = f"s{count % 2}"
                    seq = store.append(make_header(session_id), [])
                    event = log_only(seq, data={"by": number, "count": count})
                    try:
                        store.append(make_header(session_id), [event])
                        break
                    except SequenceConflict:
                        pass

    assert [0] * 4 == forked_together([partial(append, number) for number in range(4)])

    found = []
    with LmdbStore(tmp_path) as store:
        for session_id in ("s0", "s1"):
            events = store.snapshot(session_id).read(0, 1_000)
            assert list(range(len(events))) == [event.seq for event in events]
            found += [(event.data["by"], event.data["count"]) for event in events]
    assert sorted((by, count) for by in range(4) for count in range(appends)) == sorted(found)


def kill_appender(path: Path, size: int, delay_s: float) -> int:
    """Kill a process that appends after a while; return the seq that it last acknowledged."""
    child = script(APPENDER, path, size)
    assert child.stdout is not None
    acknowledged = int(child.stdout.readline())
    time.sleep(delay_s)
    child.send_signal(signal.SIGKILL)
    lines = child.communicate()[0].splitlines()
    # The last line may be cut by the kill.
    return max([acknowledged, *(int(line) for line in lines[:-1])])


def check_after_kill(path: Path, size: int, acknowledged: int) -> None:
    """Hold the store to what was acknowledged, whole batches, and the next append."""
    with LmdbStore(path, wait_s=5) as store:
        length = store.snapshot("s1").length
        assert length >= acknowledged
        assert 0 == length % 3, "batches are whole"
        expected = [message(seq, "x" * size) for seq in range(length)]
        assert expected == store.snapshot("s1").read(0, length + 1)
        assert list(range(length)) == store.snapshot("s1").nodes()
        assert length + 3 == store.append(
            make_header(), [message(length + n, "x" * size) for n in range(3)]
        )


@pytest.mark.parametrize("size", [50, 100_000])
def test_killed_writer_loses_nothing_acknowledged(tmp_path: Path, size: int) -> None:
    """
    After a kill, everything acknowledged is there, no batch is half there, the log goes
    on, and the writer lock is free.
    """
    for delay_s in (0.0, 0.02):
        check_after_kill(tmp_path, size, kill_appender(tmp_path, size, delay_s))


@pytest.mark.long
def test_killed_writer_loses_nothing_acknowledged_in_many_kills(tmp_path: Path) -> None:
    """
    The same for two hundred kills at random moments, each after the one before.
    """
    random = Random(7)
    for turn in range(200):
        size = random.choice([50, 2_000, 200_000])
        path = tmp_path / f"store-{turn // 10}-{size}"
        check_after_kill(path, size, kill_appender(path, size, random.random() / 10))


def test_writer_waits_a_bounded_time(tmp_path: Path) -> None:
    """
    While another process holds the store, an append gives up after its wait, names the
    holder where the system tells, and stores nothing; reads go on.
    """
    source = """
        import sys, time
        from eventlog.drivers.lmdb import LmdbStore

        with LmdbStore(sys.argv[1])._writing("s1"):
            print("holding", flush=True)
            time.sleep(60)
    """
    with LmdbStore(tmp_path, wait_s=0.2) as store:
        store.append(make_header(), [message(0)])
        with running(source, tmp_path) as holder:
            began = time.monotonic()
            with pytest.raises(StoreBusy) as caught:
                store.append(make_header(), [message(1)])
            waited_s = time.monotonic() - began
            assert 0.2 <= waited_s < 5
            assert 0.15 <= caught.value.waited_s <= waited_s
            assert caught.value.owner in (None, f"pid {holder.pid}")
            assert [message(0)] == store.snapshot("s1").read(0, 9)
            with pytest.raises(StoreBusy):
                store.delete("s1")

        # The holder was killed: nobody has to clear up after it.
        assert 2 == store.append(make_header(), [message(1)])


def test_stopped_writer_is_waited_for(tmp_path: Path) -> None:
    """
    An append that finds the store held goes through as soon as the holder lets go.
    """
    source = """
        import sys
        from eventlog.drivers.lmdb import LmdbStore

        with LmdbStore(sys.argv[1])._writing("s1"):
            print("holding", flush=True)
            sys.stdin.readline()
    """
    with LmdbStore(tmp_path) as store, running(source, tmp_path) as holder:
        assert holder.stdin is not None
        waiting = script(
            """
            import sys
            from support import make_header, message
            from eventlog.drivers.lmdb import LmdbStore

            with LmdbStore(sys.argv[1]) as store:
                print("ready", flush=True)
                print(store.append(make_header(), [message(0)]))
            """,
            tmp_path,
        )
        assert waiting.stdout is not None
        assert "ready\n" == waiting.stdout.readline()
        time.sleep(0.1)
        assert waiting.poll() is None
        assert store.head("s1") is None
        print("go on", file=holder.stdin, flush=True)
        assert "1\n" == output(waiting)
        assert 1 == store.snapshot("s1").length


def interrupt_appends(path: Path, interrupts: int) -> None:
    """Append in two threads while the main one is interrupted at any point, many times."""
    random = Random(3)
    stop = Flag()
    lengths = [0]

    def strike(*_: object) -> None:
        raise KeyboardInterrupt

    def append_beside(store: LmdbStore) -> None:
        while not stop.is_set():
            lengths[0] = store.append(make_header("beside"), [log_only(lengths[0])])

    with LmdbStore(path) as store:
        store.append(make_header(), [log_only(0)])
        thread = Thread(target=append_beside, args=(store,))
        thread.start()
        signal.signal(signal.SIGALRM, strike)
        seq = 1
        for _ in range(interrupts):
            acknowledged = seq
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0002, 0.004))
                while True:
                    acknowledged = store.append(make_header(), [log_only(acknowledged)])
            except KeyboardInterrupt:
                # In or out, whole; and the store goes on at once.
                seq = store.snapshot("s1").length
                assert seq - acknowledged in (0, 1)
                assert [log_only(seq - 1)] == store.snapshot("s1").read(seq - 1, seq)
        stop.set()
        thread.join(30)
        assert not thread.is_alive()
        assert lengths[0] == store.snapshot("beside").length
        assert lengths[0] > 0
        assert [log_only(n) for n in range(seq)] == store.snapshot("s1").read(0, seq + 1)


def test_x5_interrupted_appends_are_in_or_out(tmp_path: Path) -> None:
    """
    An append that an interrupt ends is wholly in or wholly out, and neither it nor the
    appends of other threads that share its commits keep a lock or wait for ever.
    """
    assert 0 == forked(lambda: interrupt_appends(tmp_path, 100))


@pytest.mark.long
def test_x5_interrupted_appends_are_in_or_out_many_times(tmp_path: Path) -> None:
    """
    The same for five thousand interrupts.
    """
    assert 0 == forked(lambda: interrupt_appends(tmp_path, 5_000), wait_s=300)
