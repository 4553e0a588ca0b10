"""Logs damaged in the ways that were met in the field, by the number of their report."""

from __future__ import annotations

from eventlog.codec import encode_line
from eventlog.findings import Gap
from eventlog.model import Event
from eventlog.store import EventStore

from . import make_header
from .jsonl import wire

__all__ = ["DAMAGED", "HEADER", "broken_record", "outline"]

HEADER = encode_line(make_header())


def lines(*seqs: int) -> bytes:
    return b"".join(wire(seq) for seq in seqs)


def broken_record(seq: int) -> bytes:
    """A record with a raw line break inside a string: two physical lines."""
    return wire(seq, "line1 line2").replace(b"1 l", b"1\nl")


DAMAGED = {
    "a1-torn": HEADER + lines(*range(10)) + wire(10)[:40],
    "a2-fused": HEADER + lines(0, 1) + b'{"seq":2,"ty' + lines(2, 3),
    "a4-nul": HEADER + lines(*range(10)) + bytes(4_096),
    "a4-nul-line": HEADER + lines(*range(10)) + bytes(4_096) + b"\n",
    "a9-beheaded": HEADER + lines(5, 6, 7, 8, 9),
    "a10-broken": HEADER + wire(0) + broken_record(1) + wire(2),
    "d2-back": HEADER + lines(0, 1, 2, 3) + wire(2, "b") + wire(3, "b") + wire(4),
    "glued": HEADER + wire(0)[:-1] + lines(1, 2),
    "hole": HEADER + wire(0) + bytes(50) + lines(1, 2),
    "garbage": HEADER + wire(0) + b"garbage\n" + wire(2) + b"{}\n",
    "reordered": HEADER + lines(0, 2, 1, 3),
    "second-header": HEADER + wire(0) + HEADER + wire(1),
    "blank": HEADER + wire(0) + b"\n \n" + wire(1),
}
"""Files whose log can be mended, by the number of the report and a word."""


def outline(store: EventStore, session_id: str = "s1") -> list[object]:
    """A salvaged log: the seq of each event, and (kind, start, next, recovered) of each gap."""
    return [
        item.seq
        if isinstance(item, Event)
        else (item.kind, item.start_seq, item.next_seq, [event.seq for event in item.recovered])
        for item in store.salvage(session_id)
        if isinstance(item, Event | Gap)
    ]
