"""What a read of the LMDB store touches, by its meter and by the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

import pytest

from eventlog import Event, EventClass, ScanMeter
from eventlog.drivers.lmdb import LmdbStore
from support import log_only, make_header, message, replacement

Counts = tuple[int, int, int]


def busy_log(start: int, stop: int) -> list[Event]:
    """Events of which every fourth is a message and every hundredth replaces some."""
    events = []
    for seq in range(start, stop):
        if seq % 100 == 99:
            shadowed = [seq - 19, seq - 15, seq - 11]
            events.append(replacement(seq, shadowed[0], shadowed[-1], shadowed))
        elif seq % 4 == 0:
            events.append(message(seq))
        else:
            events.append(log_only(seq))
    return events


def filled(path: Path, length: int) -> LmdbStore:
    """A store with one session of *length* events among a few others."""
    store = LmdbStore(path)
    store.append(make_header("before"), busy_log(0, 300))
    for start in range(0, length, 10_000):
        store.append(make_header("log"), busy_log(start, min(start + 10_000, length)))
    store.append(make_header("after"), busy_log(0, 300))
    return store


READS: dict[str, Callable[[LmdbStore, int], object]] = {
    "window": lambda store, n: store.snapshot("log").read(n // 2, n // 2 + 11),
    "tail": lambda store, n: store.snapshot("log").read(n - 50, n),
    "class of a current node": lambda store, n: store.snapshot("log").classify(n - 1),
    "class of a shadowed node": lambda store, n: store.snapshot("log").classify(n - 20),
    "class of neither": lambda store, n: store.snapshot("log").classify(n - 2),
    "trace": lambda store, n: (
        store.snapshot("log").replaced(n - 1),
        store.snapshot("log").replaced_by(n - 30, n),
        store.snapshot("log").citing(n - 20),
    ),
    "page of the surface": lambda store, n: store.snapshot("log").nodes(after=0, limit=20),
    "head": lambda store, n: store.head("log"),
    "page of heads": lambda store, n: store.heads(limit=2),
    "nothing new": lambda store, n: store.changes(store.changes().token),
    "retry of the last event": lambda store, n: store.append(
        make_header("log"), busy_log(n - 1, n)
    ),
}


def counts(store: LmdbStore, length: int) -> dict[str, Counts]:
    """What each read costs in records, probes and bytes."""
    found = {}
    for name, read in READS.items():
        store.meter.reset()
        read(store, length)
        meter: ScanMeter = store.meter
        found[name] = (meter.records, meter.probes, meter.bytes)
    return found


def check_counts(short: dict[str, Counts], long: dict[str, Counts]) -> None:
    """Hold two logs to the same counts; larger numbers make a few more bytes."""
    for name, (records, probes, size) in short.items():
        assert (records, probes) == long[name][:2], name
        assert long[name][2] <= size * 1.1, name


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbStore]:
    """A store with a log of 1,000 events."""
    with filled(tmp_path / "short", 1_000) as store:
        yield store


def test_counts_are_exact(store: LmdbStore) -> None:
    """
    The meter counts every record, every row and every byte of a value, and no more.
    """
    found = counts(store, 1_000)

    assert (12, 1) == found["window"][:2], "a header, eleven events, and is it still there"
    assert (51, 1) == found["tail"][:2]
    assert (1, 0) == found["head"][:2]
    assert (2, 3) == found["page of heads"][:2], "two heads, their keys, and a look behind"
    events = store.snapshot("log").read(500, 511)
    payloads = sum(len(event.payload) for event in events)
    assert payloads < found["window"][2] < payloads + 11 * 100
    for name in READS:
        if "class" in name:
            records, probes, size = found[name]
            assert (1, 0) == (records, size)
            assert probes <= 5


def test_g1_cost_does_not_depend_on_the_length(store: LmdbStore, tmp_path: Path) -> None:
    """
    Every read costs the same in a log of 1,000 events and in one of 20,000.

    Field report g1: the tail of a long log was read by reading all of it.
    """
    with filled(tmp_path / "long", 20_000) as long:
        check_counts(counts(store, 1_000), counts(long, 20_000))


@pytest.mark.long
def test_g1_cost_does_not_depend_on_the_length_of_a_long_log(
    store: LmdbStore, tmp_path: Path
) -> None:
    """
    The same for a log of 300,000 events; a window takes at most half as long again.
    """
    with filled(tmp_path / "long", 300_000) as long:
        check_counts(counts(store, 1_000), counts(long, 300_000))

        best = {1_000: float("inf"), 300_000: float("inf")}
        snapshots = {1_000: store.snapshot("log"), 300_000: long.snapshot("log")}
        for turn in range(200):
            # In turn, so that what else the machine does falls on both.
            for length, snapshot in snapshots.items():
                starts = [(turn * 20 + n) * 7919 % (length - 11) for n in range(20)]
                began = perf_counter()
                for start in starts:
                    snapshot.read(start, start + 11)
                best[length] = min(best[length], perf_counter() - began)

        assert best[300_000] <= 1.5 * best[1_000]


def test_a_fresh_process_reads_no_more(store: LmdbStore, tmp_path: Path) -> None:
    """
    The first surface read of a store that was just opened folds nothing.
    """
    store.close()
    with LmdbStore(tmp_path / "short") as reopened:
        snapshot = reopened.snapshot("log")
        reopened.meter.reset()
        assert EventClass.SHADOWED is snapshot.classify(980)
        assert 20 == len(snapshot.nodes(limit=20))
        assert 0 == reopened.meter.records
        assert reopened.meter.probes <= 40
