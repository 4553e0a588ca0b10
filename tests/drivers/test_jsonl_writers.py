"""Several writers, crashes at any moment, and media that fail: nothing half, nothing twice."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from eventlog.codec import encode_line
from eventlog.drivers.jsonl import JsonlStore
from eventlog.errors import (
    EventLogError,
    SequenceConflict,
    SessionDeleted,
    SessionNotFound,
    StoreBusy,
    StoreFull,
    StoreUnavailable,
)
from support import make_header, message, messages
from support.jsonl import Child, files_in, forked, in_child, log_bytes, plant

Tell = Callable[[Any], None]


def append_until(store: JsonlStore, writer: str, count: int, tell: Tell) -> None:
    """Append *count* events of one writer at the end, whoever else does; tell each seq."""
    for number in range(count):
        while True:
            head = store.head("s1")
            seq = 0 if head is None else head.length
            try:
                store.append(make_header(), [message(seq, f"{writer}-{number}")])
            except SequenceConflict:
                continue
            tell((seq, f"{writer}-{number}"))
            break


def texts(store: JsonlStore) -> list[str]:
    """The text of every message of the session."""
    snapshot = store.snapshot("s1")
    events = snapshot.read(0, snapshot.length)
    assert list(range(snapshot.length)) == [event.seq for event in events]
    return [event.data["content"][0]["text"] for event in events]


def test_d5_two_processes_append_to_one_session(tmp_path: Path) -> None:
    """
    Two processes resumed one file and appended from their own stale end. Each event that
    was acknowledged is there, once, at the seq that was told, in contiguous order.
    """
    with (
        Child(lambda tell: append_until(JsonlStore(tmp_path), "a", 100, tell)) as one,
        Child(lambda tell: append_until(JsonlStore(tmp_path), "b", 100, tell)) as other,
    ):
        told = dict(child.told() for child in (one, other) for _ in range(100))

    found = texts(JsonlStore(tmp_path))
    assert 200 == len(found)
    assert {seq: found[seq] for seq in told} == told
    assert ["s1.jsonl"] == list(files_in(tmp_path))


def test_d5_dead_owner_is_recovered_from(tmp_path: Path) -> None:
    """
    A writer that is killed leaves no lock and nothing to mend by hand: what it acknowledged
    is there, and the next process appends.
    """
    for number in range(4):
        with Child(partial(append_until, JsonlStore(tmp_path), f"w{number}", 10_000)) as child:
            told = [child.told() for _ in range(20)]
            child.kill()
            try:
                while True:
                    told.append(child.told())
            except EOFError:
                pass
        store = JsonlStore(tmp_path)
        found = texts(store)
        assert [text for _, text in told] == [found[seq] for seq, _ in told]
        assert len(found) + 1 == store.append(make_header(), [message(len(found), "mine")])


def hold(path: Path, tell: Tell) -> None:
    """Hold the lock of a log, half a record written, until killed."""
    fd = os.open(path, os.O_RDWR | os.O_APPEND)
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.write(fd, encode_line(message(10))[:50])
    tell(os.getpid())
    time.sleep(60)


def test_x7_reader_beside_a_writer_in_the_middle_of_a_line(tmp_path: Path) -> None:
    """
    While a writer is in the middle of a record, readers see the whole ones, mend nothing
    and wait for nobody; another writer is told who holds the log, in bounded time.
    """
    path = plant(tmp_path, log_bytes())
    store = JsonlStore(tmp_path, lock_wait_s=0.2)
    with Child(lambda tell: hold(path, tell)) as child:
        pid = child.told()
        before = path.read_bytes()
        began = time.monotonic()
        assert messages(10)[5:] == store.snapshot("s1").read(5, 99)
        assert list(range(10)) == store.snapshot("s1").nodes()
        assert () == store.heads().faults
        assert time.monotonic() - began < 0.2
        calls: list[Callable[[], object]] = [
            lambda: store.append(make_header(), [message(10)]),
            lambda: store.delete("s1"),
        ]
        for call in calls:
            with pytest.raises(StoreBusy) as caught:
                call()
            assert f"pid {pid}" == caught.value.owner
            assert 0.2 <= caught.value.waited_s < 2
        assert before == path.read_bytes()

    assert 11 == store.append(make_header(), [message(10)])
    assert log_bytes(events=11) == path.read_bytes()


def test_x7_record_shows_when_it_is_complete(tmp_path: Path) -> None:
    """A record that another process writes in two parts shows with its line end."""
    path = plant(tmp_path, log_bytes())
    store = JsonlStore(tmp_path)
    line = encode_line(message(10))
    snapshots = []
    for part in (line[:30], line[30:-1], line[-1:]):
        with path.open("ab") as file:
            file.write(part)
        snapshots.append(store.snapshot("s1").length)

    assert [10, 10, 11] == snapshots
    assert messages(11) == store.snapshot("s1").read(0, 99)


def test_d10_readers_see_what_other_processes_append(tmp_path: Path) -> None:
    """
    A second store kept the end of a log in mind and did not return newer events. Each call
    sees what is there: lengths, windows, surface, lists.
    """
    store = JsonlStore(tmp_path)
    assert store.head("s1") is None
    for length in (1, 2, 3, 40, 41, 3_000):
        events = messages(length)
        in_child(partial(JsonlStore(tmp_path).append, make_header(), events))
        snapshot = store.snapshot("s1")
        assert length == snapshot.length
        assert messages(length)[-3:] == snapshot.read(max(length - 3, 0), length)
        assert [length] == [head.length for head in store.heads().items]
        assert list(range(length)) == snapshot.nodes()
    in_child(lambda: JsonlStore(tmp_path).delete("s1"))
    assert store.head("s1") is None
    with pytest.raises(SessionNotFound):
        snapshot.read(0, 1)


def test_threads_wait_for_each_other_in_bounded_time(tmp_path: Path) -> None:
    """A thread that waits for another of its process is told that process, in bounded time."""
    store = JsonlStore(tmp_path, lock_wait_s=0.1)
    entered, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with store._writing("s1"):
            entered.set()
            leave.wait(30)

    thread = threading.Thread(target=stay)
    thread.start()
    entered.wait(30)
    with pytest.raises(StoreBusy) as caught:
        store.append(make_header(), messages(1))
    leave.set()
    thread.join()

    assert f"pid {os.getpid()}" == caught.value.owner
    assert 1 == store.append(make_header(), messages(1))


def test_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    """
    A child that is forked while another thread appends shares its open file. It gives the
    lock up, so that its parent's death frees the log.
    """
    plant(tmp_path, log_bytes())

    def parent(tell: Tell) -> None:
        store = JsonlStore(tmp_path)
        entered = threading.Event()

        def stay() -> None:
            with store._writing("s1"):
                entered.set()
                time.sleep(60)

        threading.Thread(target=stay, daemon=True).start()
        entered.wait(30)
        grandchild = forked()
        if grandchild == 0:
            time.sleep(60)
            os._exit(0)
        tell(grandchild)
        time.sleep(60)

    with Child(parent) as child:
        grandchild = child.told()
        try:
            with pytest.raises(StoreBusy):
                JsonlStore(tmp_path, lock_wait_s=0.1).append(make_header(), [message(10)])
            child.kill()
            store = JsonlStore(tmp_path, lock_wait_s=5)
            assert 11 == store.append(make_header(), [message(10)])
        finally:
            os.kill(grandchild, signal.SIGKILL)


def test_store_works_on_both_sides_of_a_fork(tmp_path: Path) -> None:
    """A store that was open and read before a fork reads and appends in parent and child."""
    store = JsonlStore(tmp_path)
    store.append(make_header(), messages(3))
    snapshot = store.snapshot("s1")
    assert [0, 1, 2] == snapshot.nodes()

    def child() -> tuple[list[int], int]:
        return store.snapshot("s1").nodes(), store.append(make_header(), [message(3)])

    with store._logs.lock:  # as if another thread were reading
        assert ([0, 1, 2], 4) == in_child(child)
    assert [0, 1, 2, 3] == store.snapshot("s1").nodes()
    assert 5 == store.append(make_header(), [message(4)])


# What a writer asks of the system; a crash falls between any two of them.
WRITES = ("makedirs", "open", "write", "fdatasync", "link", "unlink", "ftruncate", "fsync")


def dies_at(moment: int, work: Callable[[], object]) -> bool:
    """
    Run *work* in a process that is killed when it is about to write for the *moment*-th time.

    Returns whether it came that far.
    """

    def child(tell: Tell) -> None:
        calls = 0

        def counting(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **options: Any) -> Any:
                nonlocal calls
                if calls == moment:
                    os.kill(os.getpid(), signal.SIGKILL)
                calls += 1
                return real(*args, **options)

            return call

        reals = {name: getattr(os, name) for name in WRITES}
        for name, real in reals.items():
            setattr(os, name, counting(real))
        work()
        for name, real in reals.items():
            setattr(os, name, real)
        tell("done")

    with Child(child) as process:
        try:
            process.told()
            return False
        except EOFError:
            assert -signal.SIGKILL == process.wait()
            return True


def test_crash_while_a_log_is_created(tmp_path: Path) -> None:
    """
    A process that dies while it creates a log leaves all of it, or nothing that a reader
    takes for a session; the next writer needs no help.
    """
    states = set()
    for moment in range(100):
        root = tmp_path / str(moment)
        died = dies_at(moment, lambda: JsonlStore(root).append(make_header(), messages(2)))  # noqa: B023
        store = JsonlStore(root)
        head = store.head("s1")
        page = store.heads()
        states.add(None if head is None else head.length)

        assert () == page.faults
        assert ([] if head is None else [head]) == list(page.items)
        assert 2 == store.append(make_header(), messages(2))
        assert log_bytes(events=2) == (root / "s1.jsonl").read_bytes()
        if head is None:
            assert ["s1.jsonl"] == list(files_in(root))
        if not died:
            break
    assert moment > 6
    assert {None, 2} == states


def test_crash_while_lines_are_appended(tmp_path: Path) -> None:
    """
    A process that dies while it mends and appends leaves a prefix of whole events; the torn
    bytes are in the log or beside it, and a retry completes the batch.
    """
    torn = b'{"type":"torn'
    events = messages(13)
    lengths = set()
    for moment in range(100):
        root = tmp_path / str(moment)
        path = plant(root, log_bytes() + torn)
        died = dies_at(moment, lambda: JsonlStore(root).append(make_header(), events))  # noqa: B023
        store = JsonlStore(root)
        length = store.snapshot("s1").length
        lengths.add(length)

        assert events[:length] == store.snapshot("s1").read(0, 99)
        aside = files_in(root).get("s1.torn", b"")
        assert torn in path.read_bytes() + aside
        assert 13 == store.append(make_header(), events)
        assert log_bytes(events=13) == path.read_bytes()
        assert torn + b"\n" in files_in(root)["s1.torn"]
        if not died:
            break
    assert moment > 6
    assert {10, 13} == lengths


def test_crash_while_a_session_is_deleted(tmp_path: Path) -> None:
    """
    A process that dies while it deletes leaves the session whole or hides it for good;
    deleting again takes away what is left.
    """
    states = set()
    for moment in range(100):
        root = tmp_path / str(moment)
        plant(root, log_bytes())
        (root / "s1.torn").write_bytes(b"torn\n")
        died = dies_at(moment, lambda: JsonlStore(root).delete("s1"))  # noqa: B023
        store = JsonlStore(root)
        head = store.head("s1")
        states.add(head is None)

        assert ([] if head is None else [head]) == list(store.heads().items)
        if head is None:
            with pytest.raises(SessionDeleted):
                store.append(make_header(), messages(11))
        else:
            assert messages(10) == store.snapshot("s1").read(0, 99)
        store.delete("s1")
        assert ["s1.deleted"] == list(files_in(root))
        assert store.delete("s1", forget=True)
        assert store.head("s1") is None
        if not died:
            break
    assert moment > 4
    assert {False, True} == states


def test_creators_of_one_session_take_turns(tmp_path: Path) -> None:
    """Of several processes that create one session, one does; the others continue it."""

    def work(tell: Tell) -> None:
        store = JsonlStore(tmp_path / "root")
        for number in range(30):
            events = [message(0), message(1)]
            try:
                tell(store.append(make_header(f"s{number}"), events))
            except EventLogError as error:
                tell(repr(error))

    with Child(work) as one, Child(work) as other, Child(work) as third:
        results = [child.told() for child in (one, other, third) for _ in range(30)]

    assert {2} == set(results)
    assert {f"s{number}.jsonl" for number in range(30)} == set(files_in(tmp_path / "root"))


def test_creation_meets_a_deletion(tmp_path: Path) -> None:
    """A session that was created and deleted while another creator waited stays deleted."""
    store = JsonlStore(tmp_path)
    with store._writing("s1") as log:
        in_child(lambda: JsonlStore(tmp_path).append(make_header(), messages(1)))
        in_child(lambda: JsonlStore(tmp_path).delete("s1"))
        assert log.length == 0
    with pytest.raises(SessionDeleted):
        store.append(make_header(), messages(1))
    assert store.head("s1") is None


def limited(size: int, work: Callable[[], Any]) -> Any:
    """What *work* returns in a process whose files may have at most *size* bytes."""

    def child() -> Any:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        return work()

    return in_child(child)


def test_j1_short_write_is_cut_back(tmp_path: Path) -> None:
    """
    The disk filled up in the middle of a line, the half was never taken back, and the next
    append fused with it. The failing call stores nothing, whole lines before it included,
    and the log goes on once there is room.
    """
    store = JsonlStore(tmp_path)
    store.append(make_header(), messages(10))
    before = files_in(tmp_path)

    def work() -> list[str]:
        inner = JsonlStore(tmp_path)
        results = []
        for count in (200, 2):
            try:
                results.append(str(inner.append(make_header(), messages(count, start=10))))
            except EventLogError as error:
                results.append(type(error).__name__)
            if count == 200:
                assert before == files_in(tmp_path)
                assert inner.snapshot("s1").length == 10
        return results

    assert ["StoreFull", "12"] == limited(len(before["s1.jsonl"]) + 5_000, work)
    assert 210 == store.append(make_header(), messages(200, start=10))
    assert log_bytes(events=210) == files_in(tmp_path)["s1.jsonl"]


def test_j1_full_disk_creates_nothing(tmp_path: Path) -> None:
    """A first append without room leaves no session, and no file."""

    def work() -> str:
        try:
            JsonlStore(tmp_path / "root").append(make_header(), messages(100))
        except StoreFull as error:
            return error.path
        return ""

    assert str(tmp_path / "root" / "s1.jsonl") == limited(5_000, work)
    assert {} == files_in(tmp_path / "root")
    assert JsonlStore(tmp_path / "root").head("s1") is None


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    path = tmp_path / "disk"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(path)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


def test_j1_disk_of_64_kib(small_disk: Path) -> None:
    """
    On a disk of 64 KiB, appends of 10 KB succeed until it is full; then each is refused and
    adds nothing, deletions still work, and with room again the log goes on.
    """
    store = JsonlStore(small_disk / "root")
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * 20_000)
    stored = 0
    for seq in range(10):
        try:
            store.append(make_header(), [message(seq, "y" * 10_000)])
        except StoreFull:
            break
        stored = seq + 1
    assert 2 <= stored <= 4

    events = [message(seq, "y" * 10_000) for seq in range(stored + 1)]
    for _ in range(3):
        with pytest.raises(StoreFull):
            store.append(make_header(), events)
        assert events[:-1] == store.snapshot("s1").read(0, 99)
        assert log_bytes(events=events[:-1]) == files_in(small_disk / "root")["s1.jsonl"]
    with pytest.raises(StoreFull):
        store.append(make_header("s2"), [message(0, "z" * 30_000)])
    assert ["s1.jsonl"] == list(files_in(small_disk / "root"))
    filler.unlink()
    assert stored + 1 == store.append(make_header(), events)
    assert events == JsonlStore(small_disk / "root").snapshot("s1").read(0, 99)


def test_full_disk_does_not_lose_a_torn_tail(small_disk: Path) -> None:
    """Where a torn tail cannot be kept aside for want of room, it is not cut off either."""
    root = small_disk / "root"
    torn = b'{"type":"' + b"x" * 30_000
    plant(root, log_bytes() + torn)
    store = JsonlStore(root)
    (small_disk / "filler").write_bytes(b"x" * 20_000)

    with pytest.raises(StoreFull):
        store.append(make_header(), [message(10)])
    assert log_bytes() + torn == files_in(root)["s1.jsonl"]
    (small_disk / "filler").unlink()
    assert 11 == store.append(make_header(), [message(10)])
    assert {"s1.jsonl": log_bytes(events=11), "s1.torn": torn + b"\n"} == files_in(root)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_failed_sync_is_cut_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """
    What the disk did not confirm is not acknowledged: the lines are cut off again, the
    error says whether room or the medium failed, and the next append goes on; after a
    failure of the medium, in a store that was opened anew.
    """
    store = JsonlStore(tmp_path)
    store.append(make_header(), messages(3))
    before = files_in(tmp_path)
    real = os.fdatasync
    failures = [OSError(code, os.strerror(code))]

    def failing(fd: int) -> None:
        if failures:
            raise failures.pop()
        real(fd)

    monkeypatch.setattr(os, "fdatasync", failing)
    with pytest.raises(StoreUnavailable if code == errno.EIO else StoreFull):
        store.append(make_header(), messages(2, start=3))
    assert before == files_in(tmp_path)
    assert messages(3) == store.snapshot("s1").read(0, 9)
    if code == errno.EIO:
        # What the system kept is not certain any more: a store that is opened anew looks.
        with pytest.raises(StoreUnavailable):
            store.append(make_header(), messages(2, start=3))
        store = JsonlStore(tmp_path)
    assert 5 == store.append(make_header(), messages(2, start=3))
    assert messages(5) == store.snapshot("s1").read(0, 9)

    failures.append(OSError(code, os.strerror(code)))
    with pytest.raises(EventLogError):
        store.append(make_header("s2"), messages(1))
    assert ["s1.jsonl"] == list(files_in(tmp_path))


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.EACCES])
def test_file_systems_without_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Where a file system has no links, a new log still appears whole, and replaces none."""

    def refusing(*paths: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refusing)
    store = JsonlStore(tmp_path / "root")

    assert 2 == store.append(make_header(), messages(2))
    with store._writing("s2") as log:
        in_child(lambda: JsonlStore(tmp_path / "root").append(make_header("s2"), messages(1)))
        assert log.length == 0
    assert 2 == store.append(make_header("s2"), messages(2))
    assert ["s1.jsonl", "s2.jsonl"] == list(files_in(tmp_path / "root"))


def test_x5_interrupts_leave_whole_events(tmp_path: Path) -> None:
    """
    Interrupted again and again in the middle of appends, a writer has each event wholly in
    or wholly out, holds no lock, and goes on.
    """

    def work(tell: Tell) -> None:
        store = JsonlStore(tmp_path)
        # On a busy machine no append may ever be as fast as the longest of the timers.
        store.append(make_header(), messages(3))
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        interrupts = 0
        for round_number in range(150):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0002 + 0.00002 * round_number)
                for _ in range(20):
                    head = store.head("s1")
                    assert head is not None
                    store.append(make_header(), messages(3, start=head.length))
            except KeyboardInterrupt:
                interrupts += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        tell(interrupts)

    with Child(work) as child:
        assert child.told() > 20
        store = JsonlStore(tmp_path, lock_wait_s=1)
        snapshot = store.snapshot("s1")
        assert messages(snapshot.length) == snapshot.read(0, snapshot.length)
        assert snapshot.length + 1 == store.append(make_header(), [message(snapshot.length)])


def test_j7_resuming_writes_one_header(tmp_path: Path) -> None:
    """
    Resuming made a second file with a header only. Opening and appending again and again
    keeps one file with one header, and a session without events leaves nothing.
    """
    for seq in range(5):
        with JsonlStore(tmp_path / "root") as store:
            store.append(make_header("empty"), [])
            store.append(make_header(), [])
            store.append(make_header(), [message(seq)])

    assert {"s1.jsonl": log_bytes(events=5)} == files_in(tmp_path / "root")
    assert ["s1"] == [head.header.id for head in JsonlStore(tmp_path / "root").heads().items]


def test_append_of_a_writer_without_the_lock_is_seen(tmp_path: Path) -> None:
    """Lines that another tool appends past the lock are part of the log."""
    store = JsonlStore(tmp_path)
    store.append(make_header(), messages(3))
    with (tmp_path / "s1.jsonl").open("ab") as file:
        file.write(encode_line(message(3)))

    assert 4 == store.append(make_header(), messages(4))
    assert 6 == store.append(make_header(), messages(3, start=3))
    assert list(range(6)) == store.snapshot("s1").nodes()
    with pytest.raises(SequenceConflict) as caught:
        store.append(make_header(), [message(3, "other")])
    assert (6, 3) == (caught.value.expected, caught.value.actual)
