"""Writers killed at random moments, crowds of writers, and bytes that nobody wrote."""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import signal
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog import Event, EventStore, LiveSessions, Recorder, open_store
from eventlog.codec import decode_line, encode_line
from eventlog.drivers.lmdb.layout import Damaged, SessionRow, decode_events
from eventlog.errors import EventLogError, SequenceConflict
from eventlog.testing.crashing import CrashPlan, crash_campaign
from support import make_header, message, messages, replacement
from support.crowd import append_shared
from support.damage import DAMAGED, HEADER
from support.jsonl import plant, wire
from support.processes import forked

DRIVERS = ["lmdb", "jsonl"]


def opener(driver: str) -> Callable[[Path], EventStore]:
    return lambda path: open_store(f"{driver}:{path}")


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("batch", [1, 7])
def test_d5_e3_killed_writers(tmp_path: Path, driver: str, batch: int) -> None:
    """
    A writer that is killed at a random moment loses nothing that it acknowledged, leaves no
    event half there, and the next one needs no help: 15 kills of each kind. With those of
    the kit's contract there are 100.
    """
    plan = CrashPlan(15, batch, (50, 2_000, 60_000), seed=batch)
    account = crash_campaign(opener(driver), tmp_path, plan)
    assert 15 == account.kills
    assert account.acknowledged + account.unacknowledged


@pytest.mark.long
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(
    "plan",
    [
        CrashPlan(450, 1, (50, 500, 5_000), run_ms_max=25, seed=11),
        CrashPlan(300, 7, (50, 5_000, 100_000), run_ms_max=60, seed=12),
        CrashPlan(150, 1, (50, 100_000, 1_000_000), run_ms_max=80, seed=13),
        CrashPlan(110, 3, (50, 100_000, 5_000_000), kills_a_store=10, run_ms_max=400, seed=14),
    ],
)
def test_d5_killed_writers_in_a_long_campaign(tmp_path: Path, driver: str, plan: CrashPlan) -> None:
    """The same for 1,010 kills of each driver, payloads from 50 B to 5 MB."""
    print(driver, plan, crash_campaign(opener(driver), tmp_path, plan))  # noqa: T201


@pytest.mark.parametrize("driver", DRIVERS)
def test_j1_a_recorder_delivers_once_there_is_room(tmp_path: Path, driver: str) -> None:
    """
    The disk is full in the middle of recording: the log can be read, and when there is room
    again the recorder delivers what it kept, in order, by itself.
    """
    root = tmp_path / "store"

    def record() -> None:
        unlimited = resource.RLIM_INFINITY
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, unlimited))
        with open_store(f"{driver}:{root}") as store:
            live = LiveSessions()
            recorder = Recorder(live, store, window_ms=5)
            session = live.create(session_id="s1")
            for number in range(60):
                session.append("x/note", {"number": number, "text": "x" * 10_000})
            until = time.monotonic() + 20
            while recorder.health().ok and time.monotonic() < until:
                time.sleep(0.01)
            head = store.head("s1")
            length = 0 if head is None else head.length
            assert length < 60
            if length:
                stored = store.snapshot("s1").read(0, length)
                assert list(range(length)) == [event.data["number"] for event in stored]
            resource.setrlimit(resource.RLIMIT_FSIZE, (unlimited, unlimited))
            while time.monotonic() < until:
                head = store.head("s1")
                if head is not None and head.length == 60:
                    break
                time.sleep(0.02)
            recorder.close()

    assert 0 == forked(record)
    with open_store(f"{driver}:{root}") as store:
        assert list(range(60)) == [e.data["number"] for e in store.snapshot("s1").read(0, 99)]
        assert [] == list(store.verify())


def crowd(url: str, processes: int, appends: int) -> None:
    """Let processes append at once, and hold the store to what they acknowledged."""
    context = multiprocessing.get_context("spawn")
    told = context.Queue()
    children = [
        context.Process(target=append_shared, args=(url, number, appends, told))
        for number in range(processes)
    ]
    for child in children:
        child.start()
    acknowledged = [entry for _ in children for entry in told.get(timeout=300)]
    for child in children:
        child.join(60)
        assert 0 == child.exitcode
    assert processes * appends == len(acknowledged)
    with open_store(url) as store:
        found = []
        for head in store.heads(limit=1_000).items:
            events = store.snapshot(head.header.id).read(0, head.length)
            assert list(range(head.length)) == [event.seq for event in events]
            found += [(head.header.id, e.seq, e.data["content"][0]["text"]) for e in events]
        assert sorted(acknowledged) == sorted(found)
        assert [] == list(store.verify())


@pytest.mark.parametrize("driver", DRIVERS)
def test_d5_processes_append_to_shared_sessions_and_own_ones(tmp_path: Path, driver: str) -> None:
    """
    Several processes append to the same sessions and to own ones: each acknowledged event is
    there, once, at its seq, and nothing else; no error but the conflict that is documented.
    """
    crowd(f"{driver}:{tmp_path / 'store'}", 3, 20)


@pytest.mark.long
@pytest.mark.parametrize("driver", DRIVERS)
def test_d5_eight_processes_append_500_times(tmp_path: Path, driver: str) -> None:
    """The same for 8 processes with 500 appends each."""
    crowd(f"{driver}:{tmp_path / 'store'}", 8, 500)


def open_at_once(driver: str, root: Path, rounds: int, processes: int) -> int:
    """Let forked processes open and append to a store that is not there yet; count successes."""
    good = 0
    for number in range(rounds):
        place = root / f"{driver}-{number}"
        start = time.monotonic() + 0.05
        children = []
        for child_number in range(processes):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    time.sleep(max(0.0, start - time.monotonic()))
                    with open_store(f"{driver}:{place}") as store:
                        store.append(make_header(f"s{child_number}"), messages(2))
                    code = 0
                finally:
                    os._exit(code)
            children.append(child)
        good += sum(os.waitpid(child, 0)[1] == 0 for child in children)
        with open_store(f"{driver}:{place}") as store:
            assert processes == len(store.heads(limit=99).items)
            assert [] == list(store.verify())
        shutil.rmtree(place)
    return good


@pytest.mark.parametrize("driver", DRIVERS)
def test_e6_processes_open_a_new_store_at_once(tmp_path: Path, driver: str) -> None:
    """Processes that find no store and make one at the same moment all get it."""
    assert 3 * 8 == open_at_once(driver, tmp_path, 3, 8)


@pytest.mark.long
@pytest.mark.parametrize("driver", DRIVERS)
def test_e6_eight_processes_open_a_new_store_twenty_times(tmp_path: Path, driver: str) -> None:
    """160 of 160."""
    assert 160 == open_at_once(driver, tmp_path, 20, 8)


@pytest.mark.long
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("stores", [1, 16])
def test_d12_sixteen_threads_append_500_times(tmp_path: Path, driver: str, stores: int) -> None:
    """16 threads × 500 appends to one session, through one store or 16: each event once."""
    opened = [open_store(f"{driver}:{tmp_path / 'store'}") for _ in range(stores)]
    failures: list[BaseException] = []
    lock, length = threading.Lock(), [0]

    def work(store: EventStore, thread: int) -> None:
        try:
            for count in range(500):
                while True:
                    with lock:
                        seq = length[0]
                    event = Event(seq, 1, "x/note", {"thread": thread, "count": count})
                    stored = True
                    try:
                        done = store.append(make_header(), [event])
                    except SequenceConflict as conflict:
                        done, stored = conflict.expected, False
                    with lock:
                        length[0] = max(length[0], done)
                    if stored:
                        break
        except BaseException as error:
            failures.append(error)

    threads = [
        threading.Thread(target=work, args=(opened[number % stores], number))
        for number in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert [] == failures
    events = opened[0].snapshot("s1").read(0, 99_999)
    assert list(range(16 * 500)) == [event.seq for event in events]
    expected = sorted((thread, count) for thread in range(16) for count in range(500))
    assert expected == sorted((e.data["thread"], e.data["count"]) for e in events)
    assert [] == list(opened[0].verify())
    for store in opened:
        store.close()


# Bytes that nobody wrote: no exception but the library's, no hang, no memory.

ATOMS = [
    b"\n", b"\r\n", b"\x00", b"{", b"}", b'"', b",", b":", b"[", b"]", b"\\", b"\xff",
    b"\xef\xbb\xbf", b"NaN", b"1e400", b"-0.0", b"9" * 400, b"null", b"true", b"3.0", b" ",
    b'"seq":', b'"seq0":', b'"type":', b'"data":{}', b'"time":1', b'"surfaceOp":"append"',
    b'{"op":"replace","start":0,"end":1}', b'"sourceEventSeqs":[0]', b'"text-chunks"',
    b'"session"', b"\xed\xa0\x80", b"\\ud83d", b"[" * 300, b'{"a":' * 300, HEADER, wire(0), wire(1),
    encode_line(message(0)), encode_line(replacement(2, 0, 1, [0, 1])),
]  # fmt: skip


def mutated(random: Random, seeds: list[bytes]) -> bytes:
    """A seed with a few bytes cut, put in, copied or flipped."""
    data = bytearray(random.choice(seeds))
    for _ in range(random.randrange(1, 5)):
        at = random.randrange(len(data) + 1)
        match random.randrange(5):
            case 0:
                del data[at : at + random.randrange(1, 40)]
            case 1:
                data[at:at] = random.choice(ATOMS)
            case 2 if data:
                data[at % len(data)] ^= 1 << random.randrange(8)
            case 3:
                data[at:at] = data[at // 2 : at // 2 + random.randrange(80)]
            case _:
                del data[at:]
    return bytes(data)


def feed_wire(data: bytes) -> None:
    try:
        decode_line(data)
    except EventLogError:
        pass


def feed_lmdb(data: bytes) -> None:
    from struct import pack
    from zlib import crc32

    for value in (data, data + pack("<I", crc32(data))):
        for read in (lambda v: decode_events([v], 0, 1), SessionRow.decode):
            try:
                read(value)
            except (Damaged, EventLogError):
                pass


class FileFeeder:
    """Plants bytes as a log and asks everything of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = plant(root, HEADER)

    def __call__(self, data: bytes) -> None:
        self.path.write_bytes(data)
        with open_store(f"jsonl:{self.root}") as store:
            list(store.verify())
            list(store.salvage("s1"))
            store.heads()
            for ask in (
                lambda: store.snapshot("s1").read(0, 5),
                lambda: store.snapshot("s1").nodes(),
                lambda: store.append(make_header(), [message(3)]),
                lambda: store.repair(dry_run=False),
                lambda: list(store.verify()),
            ):
                try:
                    ask()
                except EventLogError:
                    pass
        for left in self.root.iterdir():
            if left != self.path:
                left.unlink()


def fuzz(feed: Callable[[bytes], None], seeds: list[bytes], count: int, seed: int) -> None:
    """Feed *count* inputs; none takes a second, or memory."""
    random = Random(seed)
    tracemalloc.start()
    try:
        for number in range(count):
            data = mutated(random, seeds)
            began = time.monotonic()
            feed(data)
            assert time.monotonic() - began < 1.0, data
            if number % 1_000 == 0:
                assert tracemalloc.get_traced_memory()[1] < 200e6
                tracemalloc.reset_peak()
    finally:
        tracemalloc.stop()


EVENT = message(0)
PACKED = (
    b'{"type":"text-chunks","seq0":0,"time0":1,"data":'
    b'{"turn":1,"step":1,"index":0,"dt":[1],"texts":["a","b"]}}'
)
SEEDS_WIRE = [
    HEADER.strip(), wire(0).strip(), encode_line(replacement(2, 0, 1, [0, 1])).strip(),
    PACKED,
]  # fmt: skip


def seeds_lmdb() -> list[bytes]:
    from eventlog.drivers.lmdb.layout import encode_event

    values = [encode_event(EVENT), encode_event(replacement(2, 0, 1, [0, 1]))]
    values.append(SessionRow(1, 2, 3, 4, make_header()).encode())
    return [*(value[:-4] for value in values), *values]


def test_c11_c13_any_wire_record(tmp_path: Path) -> None:
    """A record of any bytes is read or refused, quickly, and with the library's errors."""
    fuzz(feed_wire, SEEDS_WIRE, 3_000, 1)


def test_any_lmdb_value() -> None:
    """A value of any bytes is read or told damaged, with a right checksum too."""
    fuzz(feed_lmdb, seeds_lmdb(), 3_000, 2)


def test_any_jsonl_file(tmp_path: Path) -> None:
    """A file of any bytes is read, verified, salvaged, appended to and repaired, or refused."""
    fuzz(FileFeeder(tmp_path / "store"), [*DAMAGED.values(), HEADER + wire(0) + wire(1)], 40, 3)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(ATOMS) | st.binary(max_size=12), max_size=12))
def test_any_bytes_at_all(parts: list[bytes]) -> None:
    """The same for bytes drawn from anything."""
    data = b"".join(parts)
    feed_wire(data)
    feed_lmdb(data)


@pytest.mark.long
@pytest.mark.parametrize("seed", [11, 12, 13, 14, 15])
def test_a_million_inputs_records(seed: int) -> None:
    """500,000 records."""
    fuzz(feed_wire, SEEDS_WIRE, 100_000, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", [21, 22, 23, 24])
def test_a_million_inputs_values(seed: int) -> None:
    """480,000 values of LMDB, with and without a right checksum."""
    fuzz(feed_lmdb, seeds_lmdb(), 120_000, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", [31, 32, 33, 34])
def test_a_million_inputs_files(tmp_path: Path, seed: int) -> None:
    """20,000 files, each read, verified, salvaged, appended to and repaired."""
    seeds = [*DAMAGED.values(), HEADER + wire(0) + wire(1)]
    fuzz(FileFeeder(tmp_path / "store"), seeds, 5_000, seed)
