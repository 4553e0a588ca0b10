"""
Bringing a whole stored log into memory.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from eventlog.log import MemoryLog
from eventlog.model import Event, Replace
from eventlog.snapshot import LogSnapshot
from eventlog.tables import MemoryTables

__all__ = ["collector_paused", "load_log"]

PAGE_EVENTS: Final = 8192


def load_log(snapshot: LogSnapshot) -> MemoryLog:
    """
    Return a copy of a stored log in memory. Its events are not judged again.

    Cost: one read of every event; no payload is decoded. A store without tables folds
    the log besides.

    Raises:
        CorruptLog: An event cannot be read.

        InvalidSurface: The log's fold fails.

        SessionNotFound: The session was deleted meanwhile.
    """
    length = snapshot.length
    events: list[Event] = []
    with collector_paused():
        for start in range(0, length, PAGE_EVENTS):
            events += snapshot.read(start, start + PAGE_EVENTS)
        assert length == len(events)
        # A store that keeps no tables has not judged what is in its files. Now it does.
        snapshot.nodes(limit=0)
        tables = _tables_of(events)
    return MemoryLog.from_parts(snapshot.header, events, tables)


@contextmanager
def collector_paused() -> Iterator[None]:
    """
    Keep the cyclic collector from walking a heap that only grows, again and again.

    Events hold no cycles; reference counts free them all the same.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _tables_of(events: Sequence[Event]) -> MemoryTables:
    """
    The surface's tables of an accepted log, without judging it and without searching.

    A replacement cites every node that it shadows, so what it shadows is found among its
    sources: those on the surface, with a label in its range.
    """
    nodes: dict[int, int] = {}
    replaced: dict[int, tuple[int, tuple[int, ...]]] = {}
    labels: dict[int, int] = {}
    citing: dict[int, list[int]] = {}

    def label_of(seq: int) -> int:
        return labels.get(seq, seq)

    for event in events:
        op, seq = event.surface_op, event.seq
        cites: Sequence[int] = event.source_event_seqs or ()
        if op is not None:
            label = seq
            if type(op) is Replace:
                label, last = label_of(op.start), label_of(op.end)
                shadowed = [
                    source
                    for source in cites
                    if nodes.get(at := label_of(source)) == source and label <= at <= last
                ]
                shadowed.sort(key=label_of)
                for source in shadowed:
                    del nodes[label_of(source)]
                cites = sorted(set(cites).difference(shadowed))
                labels[seq] = label
                replaced[seq] = (label, tuple(shadowed))
            nodes[label] = seq
        for source in cites:
            citing.setdefault(source, []).append(seq)
    return MemoryTables.from_rows(nodes, replaced, citing)
