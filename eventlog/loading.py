"""
Bringing a whole stored log into memory.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
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

    Cost: one read of every event, and of the replacements; no payload is decoded.

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
        tables = _tables_of(events, snapshot.replaced_by(0, length))
    assert length == len(events)
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


def _tables_of(events: Sequence[Event], replaced_by: Mapping[int, int]) -> MemoryTables:
    """The surface's tables of an accepted log, from who replaced whom."""
    shadowed: defaultdict[int, list[int]] = defaultdict(list)
    for node, replacer in replaced_by.items():
        shadowed[replacer].append(node)
    nodes: dict[int, int] = {}
    replaced: dict[int, tuple[int, tuple[int, ...]]] = {}
    labels: dict[int, int] = {}
    citing: dict[int, list[int]] = {}

    def label_of(seq: int) -> int:
        return labels.get(seq, seq)

    for event in events:
        op, sources, seq = event.surface_op, event.source_event_seqs, event.seq
        if op is not None:
            label = seq
            if type(op) is Replace:
                label = labels[seq] = label_of(op.start)
                replaced[seq] = (label, tuple(sorted(shadowed[seq], key=label_of)))
            if seq not in replaced_by:
                nodes[label] = seq
        if sources:
            for source in sources:
                if replaced_by.get(source) != seq:
                    citing.setdefault(source, []).append(seq)
    return MemoryTables.from_rows(nodes, replaced, citing)
