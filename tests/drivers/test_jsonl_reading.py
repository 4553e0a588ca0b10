"""Finding, reading and folding: every seq in any file, at a cost that is that of the answer."""

from __future__ import annotations

import os
import random
import resource
import sys
import tracemalloc
from collections.abc import Callable
from math import log2
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog import APPEND, Event, EventClass
from eventlog.codec import encode_line
from eventlog.drivers.jsonl import JsonlStore
from eventlog.drivers.jsonl.names import log_name
from eventlog.testing.strategies import event_data
from support import make_header, message, messages
from support.jsonl import in_child, log_bytes, plant


def sized(seq: int, size: int, *, node: bool = False) -> Event:
    """An event whose line is *size* bytes longer than an empty one's."""
    return Event(seq, seq, "x/note", {"t": "x" * size}, surface_op=APPEND if node else None)


def write_big(path: Path, count: int, event_of: Callable[[int], Event]) -> None:
    """Write a log of *count* events past the store."""
    with path.open("wb", buffering=1 << 20) as file:
        file.write(encode_line(make_header()))
        for seq in range(count):
            file.write(encode_line(event_of(seq)))


line_lengths = st.lists(
    st.one_of(st.integers(0, 200), st.just(0), st.integers(5_000, 20_000), st.just(100_000)),
    min_size=1,
    max_size=40,
)


@settings(max_examples=40, deadline=None)
@given(line_lengths, st.integers(1, 40))
def test_every_seq_is_found(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], repeat: int
) -> None:
    """However long the lines are, each window holds exactly its events."""
    root = tmp_path_factory.mktemp("lengths")
    sizes = (lengths * repeat)[: max(1, 2_000_000 // (60 + max(lengths)))][:400]
    events = [sized(seq, size) for seq, size in enumerate(sizes)]
    plant(root, log_bytes(events=events))
    snapshot = JsonlStore(root).snapshot("s1")

    assert len(events) == snapshot.length
    for start in range(0, len(events), 1 + len(events) // 40):
        for count in (1, 3, 20):
            assert events[start : start + count] == snapshot.read(start, start + count)


ADVERSARIAL: dict[str, Callable[[int], int]] = {
    "all alike": lambda seq: 100,
    "long at the start": lambda seq: 200_000 if seq < 20 else 5,
    "long at the end": lambda seq: 200_000 if seq > 19_980 else 5,
    "one in the middle": lambda seq: 5_000_000 if seq == 10_000 else 5,
    "growing": lambda seq: seq // 20,
    "steps": lambda seq: 3_000 if seq % 2_000 < 500 else 3,
    "heavy tail": lambda seq: int(50 / (1 - random.Random(seq).random()) ** 0.9) % 100_000,
}


@pytest.mark.parametrize("shape", ADVERSARIAL)
def test_probes_stay_logarithmic(tmp_path: Path, shape: str) -> None:
    """No mixture of line lengths makes a window cost more than twice a bisection of bytes."""
    count = 20_000
    path = tmp_path / "s1.jsonl"
    write_big(path, count, lambda seq: sized(seq, ADVERSARIAL[shape](seq)))
    store = JsonlStore(tmp_path)
    snapshot = store.snapshot("s1")
    most = 2 * log2(path.stat().st_size) + 20

    for seq in [*range(0, count, 1_499), count - 11, 9_999, 10_000]:
        expected = [sized(s, ADVERSARIAL[shape](s)) for s in range(seq, min(seq + 11, count))]
        store.meter.reset()
        assert expected == snapshot.read(seq, seq + 11)
        assert len(expected) == store.meter.records
        assert store.meter.probes <= most


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(event_data(), max_size=4), min_size=1, max_size=6))
def test_appends_round_trip(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[dict[str, Any]]]
) -> None:
    """Whatever is appended comes back equal, and takes one line with one LF."""
    root = tmp_path_factory.mktemp("trip")
    store = JsonlStore(root)
    events: list[Event] = []
    for batch in batches:
        fresh = [
            Event(len(events) + number, 0, "x/any", data, surface_op=APPEND)
            for number, data in enumerate(batch)
        ]
        events += fresh
        assert len(events) == store.append(make_header(), fresh)

    again = JsonlStore(root)
    if not events:
        assert not list(root.iterdir())
        return
    assert events == again.snapshot("s1").read(0, len(events))
    assert 1 + len(events) == (root / "s1.jsonl").read_bytes().count(b"\n")
    assert list(range(len(events))) == again.snapshot("s1").nodes()


@pytest.mark.parametrize(
    "text", ["a\u2028b\u2029c\u0085d\x0be\x1cf\x1eg", "l\nf", "c\rr", "cr\r\nlf", "D\x00i"]
)
def test_a10_b3_one_line_for_any_text(tmp_path: Path, text: str) -> None:
    """No text breaks its record into several lines, nor into several events on reading."""
    events = [message(0), message(1, text), message(2)]
    JsonlStore(tmp_path).append(make_header(), events)

    assert 4 == (tmp_path / "s1.jsonl").read_bytes().count(b"\n")
    assert events == JsonlStore(tmp_path).snapshot("s1").read(0, 9)


def test_line_of_many_megabytes(tmp_path: Path) -> None:
    """Lines of 8 MB are appended, found, folded and read like any other."""
    events = [
        message(0),
        message(1, "x" * 8_000_000),
        message(2),
        message(3, "\n" * 4_000_000),
        message(4),
    ]
    store = JsonlStore(tmp_path)
    assert 5 == store.append(make_header(), events)

    for fresh in (store, JsonlStore(tmp_path)):
        snapshot = fresh.snapshot("s1")
        for start in range(5):
            assert events[start : start + 1] == snapshot.read(start, start + 1)
        assert events[3:] == snapshot.read(3, 5)
        assert [0, 1, 2, 3, 4] == snapshot.nodes()
    assert 6 == JsonlStore(tmp_path).append(make_header(), [message(5)])


@pytest.mark.long
def test_line_of_64_mib(tmp_path: Path) -> None:
    """The largest payload there is goes in and comes out."""
    empty = len(sized(0, 0).payload)
    events = [sized(0, 5), sized(1, 64 * 1024 * 1024 - empty), sized(2, 5)]
    JsonlStore(tmp_path).append(make_header(), events)

    snapshot = JsonlStore(tmp_path).snapshot("s1")
    assert events == snapshot.read(0, 3)
    assert events[2:] == snapshot.read(2, 3)
    assert [] == snapshot.nodes()


def peak_bytes(work: Callable[[], object]) -> int:
    """The most memory that Python held beyond what it held before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def small(seq: int) -> Event:
    return sized(seq, 460)


def test_g1_window_of_a_large_log(tmp_path: Path) -> None:
    """
    Resuming a huge log took tens of gigabytes. A tail and a window deep inside decode what
    they return, and hold no more than a few blocks of the file.
    """
    count = 60_000
    path = tmp_path / "s1.jsonl"
    write_big(path, count, small)
    store = JsonlStore(tmp_path)

    def work() -> None:
        snapshot = store.snapshot("s1")
        store.meter.reset()
        assert [small(seq) for seq in range(count - 20, count)] == snapshot.read(count - 20, count)
        assert [small(seq) for seq in range(30_000, 30_020)] == snapshot.read(30_000, 30_020)
        assert 40 == store.meter.records
        assert store.meter.bytes < 200_000

    assert peak_bytes(work) < 1_000_000
    assert peak_bytes(lambda: store.snapshot("s1").nodes()) < 4_000_000


@pytest.mark.long
def test_g1_one_gigabyte(tmp_path: Path) -> None:
    """
    Of a log of 1 GB the tail, a window in the middle and the surface are read with less
    than 64 MB of memory more than before.
    """
    count = 2_000_000
    write_big(tmp_path / "s1.jsonl", count, small)
    assert (tmp_path / "s1.jsonl").stat().st_size > 10**9

    def work() -> list[int]:
        def peak() -> int:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        before = peak()
        store = JsonlStore(tmp_path)
        snapshot = store.snapshot("s1")
        store.meter.reset()
        assert 20 == len(snapshot.read(count - 20, count))
        assert 20 == len(snapshot.read(1_000_000, 1_000_020))
        assert 40 == store.meter.records
        windows = peak()
        assert [] == snapshot.nodes()
        return [windows - before, peak() - before]

    windows_kib, surface_kib = in_child(work)
    (tmp_path / "s1.jsonl").unlink()  # pytest keeps what tests leave
    assert windows_kib < 64 * 1024
    assert surface_kib < 64 * 1024


def test_g2_listing_reads_headers(tmp_path: Path) -> None:
    """
    A picker parsed every transcript when it opened. A first listing reads a header of each
    log and the ends of those on its page, a later one only the latter; no event is decoded.
    """
    count = 200
    body = b"".join(encode_line(sized(seq, 400)) for seq in range(200))
    for number in range(count):
        header = make_header(f"s{number:04}", created_at=number % 7)
        (tmp_path / log_name(header.id)).write_bytes(encode_line(header) + body)
    order = sorted(range(count), key=lambda number: (-(number % 7), number))
    expected = [f"s{number:04}" for number in order]
    store = JsonlStore(tmp_path)

    first = store.heads(limit=50)
    assert expected[:50] == [head.header.id for head in first.items]
    assert [200] * 50 == [head.length for head in first.items]
    assert count == store.meter.names
    assert store.meter.records <= count + 50
    assert store.meter.bytes <= 64 * 1024 * count // 8
    store.meter.reset()
    second = store.heads(after=first.next_key, limit=50)
    assert expected[50:100] == [head.header.id for head in second.items]
    assert (count, 50) == (store.meter.names, store.meter.records)
    assert store.meter.bytes <= 50 * 10_000


def test_surface_is_folded_once_then_its_tail(tmp_path: Path) -> None:
    """One pass over a log serves its surface; what is appended costs itself, here and elsewhere."""
    store = JsonlStore(tmp_path)
    store.append(make_header(), messages(2_000))
    other = JsonlStore(tmp_path)
    assert 2_000 == len(other.snapshot("s1").nodes())
    for length in (2_001, 2_002, 2_050):
        store.meter.reset()
        store.append(make_header(), messages(length)[1_990:])
        assert store.meter.records <= 20
        other.meter.reset()
        snapshot = other.snapshot("s1")
        assert EventClass.CURRENT is snapshot.classify(length - 1)
        assert other.meter.records <= 60
        assert other.meter.bytes < 60_000


def test_tool_results_are_compared_when_folded(tmp_path: Path) -> None:
    """The rewrite of a tool result is judged by the data of both, read from the file."""

    def result(seq: int, text: str, call: str, **fields: Any) -> Event:
        block = {"type": "tool-result", "toolCallId": call, "content": [{"text": text}]}
        return Event(seq, 0, "tool/result", {"message": {"content": [block]}}, **fields)

    def rewriting(call: str) -> list[Event]:
        from eventlog import Replace

        rewrite = result(2, "cut", call, surface_op=Replace(0, 0), source_event_seqs=[0])
        return [result(0, "long", "c", surface_op=APPEND), message(1), rewrite]

    plant(tmp_path, log_bytes(events=rewriting("c")))
    assert [2, 1] == JsonlStore(tmp_path).snapshot("s1").nodes()
    plant(tmp_path, log_bytes(events=rewriting("d")))
    with pytest.raises(ValueError, match="may change only content"):
        JsonlStore(tmp_path).snapshot("s1").nodes()


def test_descriptors_are_given_back(tmp_path: Path) -> None:
    """Reads, appends, refusals and damage leave no file open."""
    store = JsonlStore(tmp_path)
    store.append(make_header(), messages(5))
    (tmp_path / "bad.jsonl").write_bytes(b"bad\n")
    (tmp_path / "dir.jsonl").mkdir()
    folder = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
    before = len(os.listdir(folder))
    for number in range(20):
        snapshot = store.snapshot("s1")
        snapshot.read(0, 3)
        snapshot.nodes()
        store.heads()
        store.changes()
        store.append(make_header(f"n{number}"), messages(1))
        store.delete(f"n{number}")
        for session_id in ("bad", "dir"):
            with pytest.raises(ValueError, match="damaged"):
                store.head(session_id)
            with pytest.raises(ValueError, match="damaged"):
                store.append(make_header(session_id), messages(1))

    assert before == len(os.listdir(folder))
