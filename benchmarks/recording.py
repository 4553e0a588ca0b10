"""
What recording adds to a live append, and how long a stored session takes to come back.

    python benchmarks/recording.py [--counts 1000,100000,1000000] [--bytes 300]

Appends are timed one by one, each party in turn. Resuming reads the whole log in a process
of its own, so that nothing freed before is used again; memory is what that process holds
besides mapped files, before and after, beside the payloads.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from common import HEADER, chunks, events, in_turn, payload, print_machine, print_table

from eventlog import APPEND, EventStore, LiveSessions, Recorder, open_store


def appender(store: EventStore | None, observed: bool, size_bytes: int) -> Callable[[int], object]:
    """Appends to a session of its own, recorded where a store is given."""
    live = LiveSessions()
    if observed:
        live.observe(lambda session, event: None)
    if store is not None:
        Recorder(live, store)
    session = live.create("bench")
    data = payload(0, size_bytes)
    return lambda _: session.append("user/message", data, surface_op=APPEND)


def append_rows(size_bytes: int, repeats: int) -> list[list[str]]:
    with (
        tempfile.TemporaryDirectory() as folder,
        open_store("memory:") as memory,
        open_store(f"lmdb:{folder}/lmdb") as lmdb,
        open_store(f"jsonl:{folder}/jsonl") as jsonl,
    ):
        found = in_turn(
            {
                "alone": appender(None, False, size_bytes),
                "observed": appender(None, True, size_bytes),
                "recorded, memory": appender(memory, False, size_bytes),
                "recorded, LMDB": appender(lmdb, False, size_bytes),
                "recorded, JSONL": appender(jsonl, False, size_bytes),
            },
            repeats=repeats,
        )
        # Lets the recorders write what they have before their folder goes.
        time.sleep(1)
    bare = found["alone"].median_us
    return [
        [
            name,
            f"{timing.median_us:.1f}",
            f"{1e6 / timing.median_us:,.0f}",
            f"{timing.median_us - bare:+.1f}",
            f"{timing.spread:.1f}",
        ]
        for name, timing in found.items()
    ]


def private_mb() -> float:
    """What the process holds besides mapped files, in MB; 0 where the system does not tell."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0.0
    return next(
        int(line.split()[1]) / 1000 for line in status.splitlines() if line.startswith("RssAnon")
    )


class Resumed(NamedTuple):
    taken_s: float
    worked_s: float
    held_mb: float
    messages: int
    messages_ms: float


def resume(url: str) -> Resumed:
    """Resume the store's one session, and read its messages for the first time."""
    with open_store(url) as store, Recorder(LiveSessions(), store) as recorder:
        store.head(HEADER.id)
        before_mb = private_mb()
        began, worked = time.perf_counter(), time.process_time()
        session = recorder.resume(HEADER.id)
        taken_s = time.perf_counter() - began
        worked_s = time.process_time() - worked
        held_mb = private_mb() - before_mb
        began = time.perf_counter()
        messages = len(session.messages())
        return Resumed(taken_s, worked_s, held_mb, messages, (time.perf_counter() - began) * 1000)


def resume_row(scheme: str, count: int, size_bytes: int) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        url = f"{scheme}:{folder}/store"
        payload_mb = 0.0
        with open_store(url) as store:
            for chunk in chunks(events(count, size_bytes=size_bytes, replace_every=1000), 2000):
                store.append(HEADER, chunk)
                payload_mb += sum(len(event.payload) for event in chunk) / 1e6
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
            found = alone.submit(resume, url).result()
    return [
        scheme,
        f"{count:,}",
        f"{found.taken_s:.2f}",
        f"{found.worked_s:.2f}",
        f"{payload_mb:,.0f}",
        f"{found.held_mb:,.0f} ({found.held_mb / payload_mb:.2f}×)",
        f"{found.messages:,} in {found.messages_ms:.1f} ms",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", default="1000,100000,1000000")
    parser.add_argument("--bytes", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=50_000)
    options = parser.parse_args()
    print_machine()
    print_table(
        f"One append to a live session, payloads of {options.bytes} bytes",
        ["", "µs", "events a second", "added µs", "slowest decile"],
        append_rows(options.bytes, options.repeats),
    )
    print_table(
        f"Resuming, payloads of {options.bytes} bytes, a replacement every 1,000 events",
        ["store", "events", "s", "CPU s", "payload MB", "memory MB", "first messages"],
        [
            resume_row(scheme, int(count), options.bytes)
            for scheme in ("lmdb", "jsonl")
            for count in options.counts.split(",")
        ],
    )


if __name__ == "__main__":
    main()
