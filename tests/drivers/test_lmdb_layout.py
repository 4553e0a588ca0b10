"""The bytes of the LMDB store's keys and values."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog import Event, HeadKey, SessionHeader
from eventlog.drivers.lmdb.layout import (
    Damaged,
    SessionRow,
    child_key,
    decode_events,
    encode_event,
    newest_key,
    place_in,
)
from eventlog.testing.strategies import headers, logs
from eventlog.values import SEQ_MAX, TIME_MAX
from support import make_header, message, replacement

quick = settings(max_examples=50, deadline=None)


@quick
@given(logs())
def test_events_come_back(log: list[Event]) -> None:
    """
    Every event is its value, and its value is the event.
    """
    values = [encode_event(event) for event in log]

    decoded, size = decode_events(values, 0, len(log))

    assert log == decoded
    assert [event.payload for event in log] == [event.payload for event in decoded]
    assert sum(map(len, values)) == size


@pytest.mark.parametrize(
    "event",
    [
        message(0, source_event_seqs=[]),
        message(7, source_event_seqs=[0, 6]),
        replacement(SEQ_MAX, 3, 1, [3, 2, 1], ignorable=True, time=-1),
        Event(0, -TIME_MAX, "x", {}, ignorable=True),
        Event(SEQ_MAX, TIME_MAX, "é" * 128, {"": "\0"}),
    ],
    ids=["no-sources", "sources", "replacement", "least", "most"],
)
def test_edges_come_back(event: Event) -> None:
    """
    The least and the most that an event may hold come back as they were.
    """
    assert [event] == decode_events([encode_event(event)], event.seq, 1)[0]


def test_every_damaged_byte_is_found() -> None:
    """
    No byte of an event or a session's row can change, go or come without being noticed.
    """
    event = replacement(9, 3, 5, [3, 4, 5])
    row = SessionRow(1, 10, 1_009, 12, make_header(cwd="/w"))
    for value, decode in (
        (encode_event(event), lambda changed: decode_events([changed], 9, 1)),
        (row.encode(), SessionRow.decode),
    ):
        decode(value)
        for at in range(len(value)):
            for changed in (
                value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :],
                value[:at] + value[at + 1 :],
                value[:at] + b"\0" + value[at:],
                value[:at],
            ):
                with pytest.raises(Damaged):
                    decode(changed)


@quick
@given(st.binary(max_size=100))
def test_any_bytes_are_damage(value: bytes) -> None:
    """
    Bytes that nobody wrote are damage, and nothing else happens.
    """
    with pytest.raises(Damaged):
        decode_events([value], 0, 1)
    with pytest.raises(Damaged):
        SessionRow.decode(value)


@quick
@given(headers())
def test_rows_of_sessions_come_back(header: SessionHeader) -> None:
    """
    A session's row holds its header and its numbers.
    """
    row = SessionRow(1, 2, -3, 4, header)
    decoded = SessionRow.decode(row.encode())

    assert header == decoded.header
    assert (1, 2, -3, 4) == (decoded.ordinal, decoded.length, decoded.last_time, decoded.position)
    assert SessionRow.has_ordinal(row.encode(), 1)
    assert not SessionRow.has_ordinal(row.encode(), 2)


ids = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=8)
places = st.tuples(st.integers(0, 3) | st.integers(0, TIME_MAX), ids)


@quick
@given(st.lists(places, min_size=2, unique=True))
def test_keys_have_the_order_of_listings(found: list[tuple[int, str]]) -> None:
    """
    The order of the keys is that of a listing: newest first, then by code point.
    """
    found.sort(key=lambda place: HeadKey(*place).sort_key)
    keys = [newest_key(*place) for place in found]

    assert all(first < second for first, second in pairwise(keys))
    assert found == [place_in(key) for key in keys]


def test_e7_longest_ids_fit_into_keys() -> None:
    """
    A parent's and a child's id of 255 bytes each fit into the 511 bytes of a key.

    Field report e7: an id that one backend accepts fails in another.
    """
    assert len(child_key("p" * 255, TIME_MAX, "日" * 85)) <= 511
