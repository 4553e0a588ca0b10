"""The wire format against generated packed rows and what the recording system made of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import orjson

from eventlog import Event
from eventlog.codec import decode_line, encode_line, event_from_wire
from eventlog.errors import ValueRejected
from support import corpus
from support.differences import Difference


def cases() -> Iterator[dict[str, Any]]:
    # By LF only: the texts hold U+2028 and its like.
    with corpus("fuzz", "chunkrows.jsonl").open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            yield json.loads(line)


def test_packed_rows_decode_to_their_events() -> None:
    """Every packed row of 812 logs gives the events that it was made of, times included."""
    logs = rows = fractional = compared = 0
    for case in cases():
        logs += 1
        found: list[Event] = []
        try:
            for record in case["packed"]:
                decoded = decode_line(orjson.dumps(record))
                assert isinstance(decoded, Event | list)
                rows += isinstance(decoded, list)
                found += decoded if isinstance(decoded, list) else [decoded]
        except ValueRejected:
            fractional += any(type(record.get("time")) is float for record in case["packed"])
            continue
        assert [event_from_wire(record) for record in case["events"]] == found, case["id"]
        compared += 1

    assert (812, Difference.FRACTIONAL_TIME.cases) == (logs, fractional)
    assert logs - fractional == compared
    assert rows > 600


def test_our_lines_read_back_equal() -> None:
    """A recorded event written by us and read again is the same event."""
    compared = 0
    for case in cases():
        for record in case["events"]:
            if type(record["time"]) is int:
                event = event_from_wire(record)
                assert event == decode_line(encode_line(event))
                compared += 1

    assert compared > 4_000
