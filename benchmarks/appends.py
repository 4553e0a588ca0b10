"""
Durable appends, beside what the media do bare.

    python benchmarks/appends.py [--bytes 300] [--batches 1,10,100,1000] [--postgres URL]

Each party makes the same events durable before it answers: a raw file with write and
fdatasync, raw LMDB puts in one transaction, a plain SQLite table in WAL mode with
``synchronous=FULL``, and the two stores; with a server of PostgreSQL also a plain table
there, and the store. Events are made before the clock starts.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import lmdb
from common import HEADER, events, in_turn, print_machine, print_table
from in_postgres import add_postgres_option, bare_insert, in_postgres

from eventlog import Event, EventStore, SessionHeader, open_store
from eventlog.codec import encode_line

Append = Callable[[list[Event]], object]


def parties(path: Path, stores: dict[str, EventStore]) -> dict[str, Append]:
    """What is compared, each taking a batch and returning when it is durable."""
    file = os.open(path / "raw.jsonl", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    environment = lmdb.open(str(path / "raw"), map_size=1 << 36)
    sqlite = sqlite3.connect(path / "sqlite.db")
    sqlite.execute("PRAGMA journal_mode=WAL")
    sqlite.execute("PRAGMA synchronous=FULL")
    sqlite.execute("CREATE TABLE event(session INT, seq INT, line BLOB, PRIMARY KEY(session, seq))")

    def write(batch: list[Event]) -> None:
        os.write(file, b"".join(encode_line(event) for event in batch))
        os.fdatasync(file)

    def put(batch: list[Event]) -> None:
        with environment.begin(write=True) as txn:
            for event in batch:
                txn.put(event.seq.to_bytes(16, "big"), encode_line(event))

    def insert(batch: list[Event]) -> None:
        with sqlite:
            sqlite.executemany(
                "INSERT INTO event VALUES(1, ?, ?)",
                [(event.seq, encode_line(event)) for event in batch],
            )

    def append(store: EventStore) -> Append:
        return lambda batch: store.append(HEADER, batch)

    bare: dict[str, Append] = {
        "write + fdatasync": write,
        "raw LMDB puts": put,
        "SQLite WAL": insert,
    }
    return bare | {name: append(store) for name, store in stores.items()}


def measure(batch_size: int, size_bytes: int, postgres: str | None) -> list[str]:
    rounds = 5
    repeats = rounds * max(4, min(200, 20_000 // batch_size // rounds))
    with (
        tempfile.TemporaryDirectory() as folder,
        open_store(f"lmdb:{folder}/lmdb") as lmdb_store,
        open_store(f"jsonl:{folder}/jsonl") as jsonl_store,
        in_postgres(postgres) as server,
    ):
        compared = parties(Path(folder), {"LMDB": lmdb_store, "JSONL": jsonl_store})
        if server is not None:
            store, connection = server
            compared["bare table"] = bare_insert(connection)
            compared["PostgreSQL"] = lambda batch: store.append(HEADER, batch)
        log = list(events(batch_size * repeats, size_bytes=size_bytes))

        def appender(append: Append) -> Callable[[int], object]:
            position = 0

            def call(_: int) -> object:
                nonlocal position
                batch = log[position : position + batch_size]
                position += batch_size
                return append(batch)

            return call

        found = in_turn(
            {name: appender(append) for name, append in compared.items()},
            repeats=repeats,
            rounds=rounds,
        )
    raw = found["raw LMDB puts"].median_us
    return [
        f"{batch_size:,}",
        *(
            f"{batch_size / timing.median_us * 1e6:,.0f} ({timing.median_us / raw:.2f}×)"
            for timing in found.values()
        ),
    ]


def group_commit(threads: int, size_bytes: int) -> float:
    """Durable single appends a second by *threads*, each to a session of its own."""
    each = 300
    with tempfile.TemporaryDirectory() as folder, open_store(f"lmdb:{folder}/lmdb") as store:
        logs = [list(events(each, size_bytes=size_bytes)) for _ in range(threads)]
        barrier = threading.Barrier(threads + 1)

        def work(number: int) -> None:
            header = SessionHeader(f"s{number}", 1_000)
            barrier.wait()
            for event in logs[number]:
                store.append(header, [event])

        running = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for thread in running:
            thread.start()
        barrier.wait()
        began = time.perf_counter()
        for thread in running:
            thread.join()
        return threads * each / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=300)
    parser.add_argument("--batches", default="1,10,100,1000")
    add_postgres_option(parser)
    options = parser.parse_args()
    sizes = options.batches.split(",")
    print_machine()
    print_table(
        f"Durable events a second by batch, payloads of {options.bytes} bytes "
        "(time over raw LMDB puts)",
        [
            *("batch", "write + fdatasync", "raw LMDB puts", "SQLite WAL", "LMDB", "JSONL"),
            *(("PostgreSQL table", "PostgreSQL store") if options.postgres else ()),
        ],
        [measure(int(size), options.bytes, options.postgres) for size in sizes],
    )
    single = group_commit(1, options.bytes)
    print_table(
        "Durable single appends by several threads, LMDB",
        ["threads", "events a second", "over one thread"],
        [
            (threads, f"{rate:,.0f}", f"{rate / single:.1f}×")
            for threads, rate in [(1, single)]
            + [(threads, group_commit(threads, options.bytes)) for threads in (4, 16)]
        ],
    )


if __name__ == "__main__":
    main()
