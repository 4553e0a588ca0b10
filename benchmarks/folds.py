"""
The fold of a whole log, and the tail of a large file in little memory.

    python benchmarks/folds.py [--sizes 1000,10000,100000,1000000] [--tail-gb 1]

Every 100th event replaces the 99 before it.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import HEADER, chunks, events, print_machine, print_table

from eventlog import fold_surface, open_store

TAIL_PROGRAM = """
import resource, sys, time
from eventlog import open_store
store = open_store("jsonl:" + sys.argv[1], read_only=True)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began = time.perf_counter()
snapshot = store.snapshot("bench")
tail = snapshot.read(snapshot.length - 20, snapshot.length)
first = time.perf_counter() - began
began = time.perf_counter()
middle = snapshot.read(snapshot.length // 2, snapshot.length // 2 + 20)
second = time.perf_counter() - began
assert 20 == len(tail) == len(middle)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
meter = store.meter
print(snapshot.length, first, second, (after - before) * 1024, meter.bytes, meter.probes)
"""


def fold_rows(sizes: list[int]) -> list[list[str]]:
    rows: list[list[str]] = []
    before: float | None = None
    for size in sizes:
        log = list(events(size, replace_every=100))
        gc.collect()
        began = time.process_time()
        surface = fold_surface(log)
        taken = time.process_time() - began
        rows.append(
            [
                f"{size:,}",
                f"{taken * 1e3:,.1f} ms",
                f"{taken / size * 1e6:.2f} µs",
                "" if before is None else f"{taken / before:.1f}×",
                f"{len(surface.nodes):,}",
            ]
        )
        before = taken
    return rows


def tail_row(size_gb: float) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        size_bytes = 512
        count = int(size_gb * 2**30 / size_bytes)
        with open_store(f"jsonl:{folder}") as store:
            for chunk in chunks(events(count, size_bytes=size_bytes - 90), 20_000):
                store.append(HEADER, chunk)
        stored = sum(path.stat().st_size for path in Path(folder).iterdir())
        done = subprocess.run(
            [sys.executable, "-c", TAIL_PROGRAM, folder], capture_output=True, text=True, check=True
        )
        length, first, second, extra, read, probes = done.stdout.split()
    return [
        f"{stored / 2**30:.2f} GB, {int(length):,} events",
        f"{float(first) * 1e3:.1f} ms",
        f"{float(second) * 1e3:.2f} ms",
        f"{int(extra) / 2**20:.1f} MB",
        f"{int(read):,}",
        probes,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1000,10000,100000,1000000")
    parser.add_argument("--tail-gb", type=float, default=1.0)
    options = parser.parse_args()
    print_machine()
    print_table(
        "Fold of a whole log, a replacement every 100 events",
        ["events", "CPU", "an event", "growth", "nodes"],
        fold_rows([int(size) for size in options.sizes.split(",")]),
    )
    print_table(
        "Last 20 events of one large JSONL log, then 20 in its middle, in a fresh process",
        ["log", "tail", "middle", "extra memory", "bytes read", "probes"],
        [tail_row(options.tail_gb)],
    )


if __name__ == "__main__":
    main()
