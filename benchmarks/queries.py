"""
Queries through the whole read side, beside the bare snapshot; and appends to live sessions.

    python benchmarks/queries.py [--events 1000,10000,100000,1000000]
                                 [--sessions 100,1000,10000,100000]

"bare" is ``store.snapshot(id).read(…)`` of the same window. The meter's figures are those
of one call.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

from common import HEADER, chunks, events, in_turn, payload, print_machine, print_table

from eventlog import APPEND, EventStore, SessionHeader, open_store
from eventlog.codec import encode_line
from eventlog.live import LiveSessions
from eventlog.query import SessionQuery

WINDOW = 5
PAGE = 50


def opened(driver: str, folder: str) -> EventStore:
    return open_store("memory:" if driver == "memory" else f"{driver}:{folder}/{driver}")


def event_rows(driver: str, count: int, repeats: int) -> list[str]:
    """Reads of one session of *count* events, compacted every 300, all but the newest."""
    rng = random.Random(3)
    with tempfile.TemporaryDirectory() as folder, opened(driver, folder) as store:
        last = count - 100
        for chunk in chunks(events(last, replace_every=300, keep_summaries=False), 5_000):
            store.append(HEADER, chunk)
        store.append(HEADER, list(events(100, start=last)))
        query = SessionQuery(store=store)
        seqs = [rng.randrange(WINDOW, count - WINDOW) for _ in range(repeats)]
        began = time.perf_counter()
        query.trace_event(HEADER.id, 0)
        first_ms = (time.perf_counter() - began) * 1e3

        def bare(number: int) -> object:
            seq = seqs[number % repeats]
            return store.snapshot(HEADER.id).read(seq - WINDOW, seq + WINDOW + 1)

        def read_event(number: int) -> object:
            seq = seqs[number % repeats]
            return query.read_event(HEADER.id, seq, before=WINDOW, after=WINDOW)

        found = in_turn(
            {
                "bare": bare,
                "read_event": read_event,
                "list_events": lambda n: query.list_events(
                    HEADER.id, start=seqs[n % repeats], limit=PAGE
                ),
                "trace_event": lambda n: query.trace_event(HEADER.id, seqs[n % repeats]),
                "read_surface": lambda _: query.read_surface(HEADER.id),
            },
            repeats=repeats,
        )
        store.meter.reset()
        read_event(0)
        touched = f"{store.meter.records} + {store.meter.probes}"
    bare_us = found["bare"].median_us
    return [
        driver,
        f"{count:,}",
        str(found["bare"]),
        f"{found['read_event']} ({found['read_event'].median_us / bare_us:.2f}×)",
        touched,
        str(found["list_events"]),
        str(found["trace_event"]),
        str(found["read_surface"]),
        f"{first_ms:,.1f} ms",
    ]


def plant(driver: str, store: EventStore, folder: str, count: int) -> None:
    """Make *count* sessions of one event."""
    log = list(events(1))
    if driver != "jsonl":
        for number in range(count):
            store.append(SessionHeader(f"s{number:06}", number), log)
        return
    # A durable file each would take minutes; these are written as plain files.
    root = Path(folder, driver)
    root.mkdir(exist_ok=True)
    for number in range(count):
        header = SessionHeader(f"s{number:06}", number)
        root.joinpath(f"{header.id}.jsonl").write_bytes(encode_line(header) + encode_line(log[0]))


def session_rows(driver: str, count: int, repeats: int) -> list[str]:
    """Listings and lineages among *count* sessions."""
    with tempfile.TemporaryDirectory() as folder, opened(driver, folder) as store:
        plant(driver, store, folder, count)
        query = SessionQuery(store=store)
        began = time.perf_counter()
        page = query.list_sessions(limit=PAGE)
        first_ms = (time.perf_counter() - began) * 1e3
        cursor = page.next_cursor
        for _ in range(min(1_000, count // PAGE) - 2):
            cursor = query.list_sessions(limit=PAGE, cursor=cursor).next_cursor
        found = in_turn(
            {
                "first page": lambda _: query.list_sessions(limit=PAGE),
                "last page": lambda _: query.list_sessions(limit=PAGE, cursor=cursor),
                "lineage": lambda n: query.trace_session(f"s{n % count:06}"),
                "read": lambda n: query.read_event(f"s{n % count:06}", 0),
            },
            repeats=repeats,
        )
    return [driver, f"{count:,}", f"{first_ms:,.1f} ms", *(str(one) for one in found.values())]


def live_rows() -> list[list[str]]:
    """Appends to a live session, an event at a time."""
    count = 100_000
    data = payload(0, 300)

    def rate(observers: int) -> float:
        live = LiveSessions()
        for _ in range(observers):
            live.observe(lambda session, event: None)
        session = live.create("bench")
        began = time.perf_counter()
        for _ in range(count):
            session.append("user/message", data, surface_op=APPEND)
        return count / (time.perf_counter() - began)

    return [[str(observers), f"{rate(observers):,.0f}"] for observers in (0, 1, 5)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", default="1000,10000,100000,1000000")
    parser.add_argument("--sessions", default="100,1000,10000,100000")
    parser.add_argument("--drivers", default="memory,lmdb,jsonl")
    parser.add_argument("--repeats", type=int, default=1_000)
    options = parser.parse_args()
    drivers = options.drivers.split(",")
    print_machine()
    rows = [
        event_rows(driver, int(count), options.repeats)
        for driver in drivers
        for count in options.events.split(",")
    ]
    print_table(
        f"One session: a window of {2 * WINDOW + 1}, a page of {PAGE}",
        ["driver", "events", "bare window", "read_event", "records + probes", "list_events",
         "trace_event", "read_surface", "first surface read"],
        rows,
    )  # fmt: skip
    print_table(
        f"Many sessions: pages of {PAGE}",
        ["driver", "sessions", "first call", "first page", "page 1,000 or last", "lineage",
         "read_event"],
        [
            session_rows(driver, int(n), max(20, options.repeats // 10))
            for driver in drivers
            for n in options.sessions.split(",")
        ],
    )  # fmt: skip
    print_table("Appends to a live session", ["observers", "events a second"], live_rows())


if __name__ == "__main__":
    main()
