"""
Windows and tails of logs of growing length, beside a raw LMDB cursor.

    python benchmarks/windows.py [--sizes 1000,10000,100000,1000000] [--bytes 300]
                                 [--postgres URL]

The raw loop walks a cursor over keys of 8 bytes and parses each value with orjson, in the
same process and the same turn. "undecoded" builds the events and leaves their data as
bytes; "decoded" parses the data of every event as the raw loop does. With a server of
PostgreSQL the same windows are read there, from a plain table in one statement and from
the store.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import lmdb
import orjson
from common import HEADER, chunks, events, in_turn, print_machine, print_table
from in_postgres import add_postgres_option, bare_insert, bare_window, in_postgres

from eventlog import EventStore, open_store
from eventlog.codec import event_to_wire

WINDOW, TAIL = 11, 50
POSTGRES = ("PostgreSQL table", "PostgreSQL store", f"PostgreSQL tail of {TAIL}")


def fill(path: Path, count: int, size_bytes: int) -> None:
    """Write the same log three times: LMDB store, JSONL store, raw LMDB."""
    with open_store(f"lmdb:{path}/lmdb") as one, open_store(f"jsonl:{path}/jsonl") as two:
        raw = lmdb.open(str(path / "raw"), map_size=1 << 36, sync=False)
        for chunk in chunks(events(count, size_bytes=size_bytes), 5_000):
            one.append(HEADER, chunk)
            two.append(HEADER, chunk)
            with raw.begin(write=True) as txn:
                for event in chunk:
                    txn.put(event.seq.to_bytes(8, "big"), orjson.dumps(event_to_wire(event)))
        raw.close()


def raw_reader(environment: lmdb.Environment, start: int, count: int) -> int:
    """Read *count* raw values from *start* and parse them."""
    seen = 0
    with environment.begin() as txn:
        cursor = txn.cursor()
        cursor.set_range(start.to_bytes(8, "big"))
        for value in cursor.iternext(keys=False, values=True):
            orjson.loads(value)
            seen += 1
            if seen == count:
                break
    return seen


def measure(count: int, size_bytes: int, repeats: int, postgres: str | None) -> list[list[str]]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        fill(path, count, size_bytes)
        environment = lmdb.open(str(path / "raw"), map_size=1 << 36, readonly=True, lock=False)
        rng = random.Random(7)
        starts = [rng.randrange(max(1, count - WINDOW)) for _ in range(repeats)]
        with (
            open_store(f"lmdb:{path}/lmdb", read_only=True) as store,
            open_store(f"jsonl:{path}/jsonl", read_only=True) as files,
            in_postgres(postgres) as server,
        ):

            def window(source: EventStore, decode: bool) -> Callable[[int], object]:
                def call(number: int) -> object:
                    start = starts[number % repeats]
                    found = source.snapshot(HEADER.id).read(start, start + WINDOW)
                    return [event.data for event in found] if decode else found

                return call

            def tail(source: EventStore) -> Callable[[int], object]:
                def call(_: int) -> object:
                    snapshot = source.snapshot(HEADER.id)
                    return snapshot.read(max(0, snapshot.length - TAIL), snapshot.length)

                return call

            more: dict[str, Callable[[int], object]] = {}
            if server is not None:
                there, connection = server
                insert = bare_insert(connection)
                for chunk in chunks(events(count, size_bytes=size_bytes), 5_000):
                    there.append(HEADER, chunk)
                    insert(chunk)
                more = {
                    "bare table": lambda n: bare_window(connection, starts[n % repeats], WINDOW),
                    "PostgreSQL": window(there, False),
                    "PostgreSQL tail": tail(there),
                }

            found = in_turn(
                {
                    "raw": lambda n: raw_reader(environment, starts[n % repeats], WINDOW),
                    "undecoded": window(store, False),
                    "decoded": window(store, True),
                    "tail": tail(store),
                    "jsonl": window(files, False),
                    "jsonl tail": tail(files),
                    **more,
                },
                repeats=repeats,
            )
        environment.close()
    raw = found["raw"].median_us
    rows.append(
        [
            f"{count:,}",
            str(found["raw"]),
            f"{found['undecoded']} ({found['undecoded'].median_us / raw:.2f}×)",
            f"{found['decoded']} ({found['decoded'].median_us / raw:.2f}×)",
            str(found["tail"]),
            f"{found['jsonl']} ({found['jsonl'].median_us / raw:.2f}×)",
            str(found["jsonl tail"]),
            f"{found['raw'].spread:.2f}",
            *(str(found[name]) for name in more),
        ]
    )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1000,10000,100000,1000000")
    parser.add_argument("--bytes", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=5_000)
    add_postgres_option(parser)
    options = parser.parse_args()
    print_machine()
    rows = []
    for size in options.sizes.split(","):
        rows += measure(int(size), options.bytes, options.repeats, options.postgres)
    print_table(
        f"Window of {WINDOW} and tail of {TAIL}, payloads of {options.bytes} bytes",
        [
            "events",
            "raw cursor + orjson",
            "LMDB undecoded",
            "LMDB decoded",
            f"LMDB tail of {TAIL}",
            "JSONL undecoded",
            "JSONL tail",
            "spread",
            *(POSTGRES if options.postgres else ()),
        ],
        rows,
    )


if __name__ == "__main__":
    main()
