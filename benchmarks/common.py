"""
What the benchmarks share: payloads, timing, and tables that keep the rows we lose.

Every comparison runs its parties in turn within one process, so that a noisy machine
hits them alike; quote the ratios. Times are medians; the spread column is the slowest
decile over the median.
"""

from __future__ import annotations

import gc
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from eventlog import APPEND, Event, Replace, SessionHeader

__all__ = ["Timing", "events", "in_turn", "print_machine", "print_table", "timed"]

HEADER = SessionHeader("bench", 1_000, cwd="/w")


def payload(seq: int, size_bytes: int) -> dict[str, Any]:
    """A message of about *size_bytes*, as agents log them."""
    text = f"event {seq} " + "lorem ipsum dolor sit amet " * (size_bytes // 27 + 1)
    return {
        "id": f"m{seq}",
        "role": "user",
        "content": [{"type": "text", "text": text[: max(size_bytes - 100, 8)]}],
        "source": {"kind": "user"},
    }


def events(
    count: int,
    *,
    start: int = 0,
    size_bytes: int = 300,
    replace_every: int = 0,
    keep_summaries: bool = True,
) -> Iterator[Event]:
    """
    Yield messages; every *replace_every*-th replaces all before it since the last one.

    Args:
        keep_summaries: Let the replacements stand; else each replaces the one before too,
            as a harness that compacts from the front does.
    """
    first = start
    summaries: list[int] = []
    for seq in range(start, start + count):
        data = payload(seq, size_bytes)
        if replace_every and seq % replace_every == replace_every - 1 and seq > first:
            nodes = [*summaries, *range(first, seq)]
            yield Event(
                seq,
                1_000 + seq,
                "user/message",
                data,
                surface_op=Replace(nodes[0], nodes[-1]),
                source_event_seqs=nodes,
            )
            first = seq + 1
            summaries = [] if keep_summaries else [seq]
        else:
            yield Event(seq, 1_000 + seq, "user/message", data, surface_op=APPEND)


def chunks(items: Iterable[Event], size: int) -> Iterator[list[Event]]:
    """Yield *items* in lists of *size*."""
    chunk: list[Event] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


class Timing:
    """Seconds of repeated calls of one thing."""

    def __init__(self, seconds: Sequence[float]) -> None:
        self.seconds = sorted(seconds)

    @property
    def median_us(self) -> float:
        return statistics.median(self.seconds) * 1e6

    @property
    def spread(self) -> float:
        """The slowest decile over the median: the machine's noise."""
        return self.seconds[int(len(self.seconds) * 0.9)] / statistics.median(self.seconds)

    def __str__(self) -> str:
        return f"{self.median_us:,.1f} µs"


def timed(call: Callable[[int], object], repeats: int) -> Timing:
    """Call *call* with 0 … *repeats*−1, each call timed."""
    gc.collect()
    seconds = []
    for number in range(repeats):
        began = time.perf_counter()
        call(number)
        seconds.append(time.perf_counter() - began)
    return Timing(seconds)


def in_turn(
    parties: dict[str, Callable[[int], object]], *, repeats: int, rounds: int = 5
) -> dict[str, Timing]:
    """Time all *parties* in turn, *rounds* times, so that noise hits them alike."""
    seconds: dict[str, list[float]] = {name: [] for name in parties}
    for _ in range(rounds):
        for name, call in parties.items():
            seconds[name] += timed(call, max(1, repeats // rounds)).seconds
    return {name: Timing(found) for name, found in seconds.items()}


def print_machine() -> None:
    """Say on what the figures were taken."""
    load = os.getloadavg()[0]
    print(
        f"{platform.python_implementation()} {platform.python_version()} on {sys.platform} "
        f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f} at the start\n"
    )


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table in Markdown."""
    print(f"### {title}\n")
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    print(flush=True)
