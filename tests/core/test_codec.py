"""
The wire format, read and written.
"""

from __future__ import annotations

from typing import Any

import pytest

from eventlog import APPEND, Event, SessionHeader
from eventlog.codec import (
    converter,
    decode_line,
    encode_line,
    event_from_wire,
    event_to_wire,
    header_from_wire,
    header_to_wire,
)
from eventlog.errors import InvalidSurface, ValueRejected
from eventlog.values import shown
from support import log_only, make_header, message, replacement

HEADER: dict[str, Any] = {
    "type": "session",
    "version": 0,
    "id": "s1",
    "createdAt": 1000,
    "delegationDepth": 0,
}
EVENT: dict[str, Any] = {"type": "x/note", "seq": 0, "time": 1, "data": {}}


def test_a_header_is_written_in_the_order_of_the_format() -> None:
    """
    Absent fields are left out, and extra ones stand behind the known.
    """
    header = make_header(cwd="/w", parent_session="p", seed_length=3, extra={"x": [1]})

    assert (
        b'{"type":"session","version":0,"id":"s1","createdAt":1000,"cwd":"/w",'
        b'"parentSession":"p","seedLength":3,"delegationDepth":0,"x":[1]}\n' == encode_line(header)
    )
    assert header == decode_line(encode_line(header)) == header_from_wire(header_to_wire(header))


def test_an_event_is_written_with_its_data_last() -> None:
    """
    The envelope stands before the data, so a reader can stop there.
    """
    event = replacement(3, 0, 2, [0, 1, 2], ignorable=True)

    assert encode_line(event).startswith(
        b'{"type":"user/message","seq":3,"time":1003,"sourceEventSeqs":[0,1,2],'
        b'"surfaceOp":{"op":"replace","start":0,"end":2},"ignorable":true,"data":{'
    )
    assert event == decode_line(encode_line(event)) == event_from_wire(event_to_wire(event))


@pytest.mark.parametrize("event", [message(0), log_only(5), message(1, source_event_seqs=[])])
def test_events_round_trip(event: Event) -> None:
    """
    Absent and empty sources stay apart, and so do absent and given ops.
    """
    assert event == decode_line(encode_line(event))


def test_b3_separators_inside_text_end_no_line() -> None:
    """
    Only LF ends a line, whatever line separators the text holds.
    """
    line = encode_line(message(0, "a\u2028b\u2029c\u0085d\x0be\x1cf\x1eg\n\r\nh"))

    assert 1 == line.count(b"\n")
    assert (
        "a\u2028b\u2029c\u0085d\x0be\x1cf\x1eg\n\r\nh"
        == (
            decode_line(line).data["content"][0]["text"]  # type: ignore[union-attr]
        )
    )


def test_any_order_of_keys_is_read() -> None:
    """
    Recorded logs have the op behind the data.
    """
    line = b'{"data":{"a":1},"surfaceOp":"append","time":5,"seq":2,"type":"x/note"}'

    assert Event(2, 5, "x/note", {"a": 1}, surface_op=APPEND) == decode_line(line)


MALFORMED_EVENTS: list[dict[Any, Any]] = [
    {"seq": True},
    {"seq": 3.0},
    {"seq": "2"},
    {"seq": None},
    {"seq": -1},
    {"seq": 2**53},
    {"time": 1.0},
    {"time": None},
    {"time": True},
    {"type": ""},
    {"type": None},
    {"type": "text-chunks"},
    {"data": None},
    {"data": []},
    {"data": "x"},
    {"ignorable": False},
    {"ignorable": None},
    {"ignorable": 1},
    {"unknown": 1},
    {5: 1},
    {None: 1},
    {10**5000: 1},
    {"u" * 10**6: 1},
    {"surfaceOp": None},
    {"surfaceOp": "replace"},
    {"surfaceOp": {"op": "replace", "start": 0}},
    {"surfaceOp": {"op": "replace", "start": 0, "end": 0, "x": 1}},
    {"surfaceOp": {"op": "replace", "start": True, "end": 0}},
    {"surfaceOp": {"op": "append", "start": 0, "end": 0}},
    {"sourceEventSeqs": None},
]


@pytest.mark.parametrize("change", MALFORMED_EVENTS, ids=lambda change: shown(change))
def test_j5_well_formed_json_of_the_wrong_shape_is_malformed(change: dict[Any, Any]) -> None:
    """
    Another type, null, or an unknown key in an envelope is refused, never coerced.
    """
    with pytest.raises(ValueRejected) as caught:
        event_from_wire({**EVENT, **change})
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("missing", EVENT)
def test_j5_an_event_lacking_a_key_is_malformed(missing: str) -> None:
    """
    Every one of the four keys is required.
    """
    with pytest.raises(ValueRejected):
        event_from_wire({name: value for name, value in EVENT.items() if name != missing})


@pytest.mark.parametrize("sources", ["0", [True], [0.0], [-1], ["0"], [None], {"0": 0}])
def test_sources_on_the_wire_are_a_list_of_seqs(sources: Any) -> None:
    """
    Sources of another shape are a fault of the surface.
    """
    with pytest.raises(InvalidSurface):
        event_from_wire({**EVENT, "sourceEventSeqs": sources})


def test_x3_duplicate_keys_are_malformed() -> None:
    """
    A record that says a thing twice is refused; a parser would keep the last.
    """
    with pytest.raises(ValueRejected):
        decode_line(b'{"seq":0,"seq":1,"type":"a","type":"b","time":0,"data":{}}\n')


@pytest.mark.parametrize(
    "change",
    [
        {"id": None},
        {"id": 3},
        {"id": ""},
        {"createdAt": 1.5},
        {"createdAt": -1},
        {"createdAt": True},
        {"version": "0"},
        {"version": None},
        {"delegationDepth": "1"},
        {"cwd": None},
        {"cwd": 3},
        {"seedLength": -1},
        {"seedLength": None},
        {"origin": 7},
        {"agentPreset": 7},
        {"parentSession": ""},
        {"type": "x"},
        {"team": float("nan")},
    ],
    ids=str,
)
def test_headers_of_the_wrong_shape_are_refused(change: dict[str, Any]) -> None:
    """
    Another type or null in a header is refused, by the name that it has in the record.
    """
    with pytest.raises(ValueRejected) as caught:
        header_from_wire({**HEADER, **change})

    assert [caught.value.path] == [*change]


@pytest.mark.parametrize("missing", HEADER)
def test_headers_lacking_a_field_are_refused(missing: str) -> None:
    """
    Version, id, creation time and depth are required.
    """
    with pytest.raises(ValueRejected):
        header_from_wire({name: value for name, value in HEADER.items() if name != missing})


def test_unknown_header_fields_are_kept() -> None:
    """
    What a newer harness wrote into a header comes back, and is written again.
    """
    header = header_from_wire({**HEADER, "x": {"y": 1}, "version": 7})

    assert SessionHeader("s1", 1000, version=7, extra={"x": {"y": 1}}) == header
    assert {"y": 1} == header_to_wire(header)["x"]


ROW: dict[str, Any] = {
    "type": "text-chunks",
    "seq0": 4,
    "time0": 1000,
    "data": {"turn": 1, "step": 2, "index": 0, "dt": [10, -5], "texts": ["a", "b", "c"]},
}
CALLS: dict[str, Any] = {
    "type": "tool-call-chunks",
    "seq0": 0,
    "time0": 0,
    "data": {"turn": 1, "step": 1, "index": 0, "id": "c1", "name": "read", "dt": [], "args": ["{"]},
}


def decode(record: dict[str, Any]) -> Any:
    import orjson

    return decode_line(orjson.dumps(record))


def test_packed_rows_are_unpacked() -> None:
    """
    A row's members come back as the events that they were, clock steps included.
    """
    events = decode(ROW)

    assert [(4, 1000), (5, 1010), (6, 1005)] == [(event.seq, event.time) for event in events]
    assert {
        "turn": 1,
        "step": 2,
        "chunk": {"type": "text-delta", "index": 0, "text": "b"},
    } == events[1].data


@pytest.mark.parametrize("named", [True, False])
def test_packed_calls_keep_a_missing_name_missing(named: bool) -> None:
    """
    A chunk without a name is unpacked without one.
    """
    data = {key: value for key, value in CALLS["data"].items() if named or key != "name"}
    (event,) = decode({**CALLS, "data": data})

    assert named is ("name" in event.data["chunk"])
    assert "{" == event.data["chunk"]["argumentsDelta"]


@pytest.mark.parametrize(
    "change",
    [
        {"data": []},
        {"extra": 1},
        {"seq0": -1},
        {"time0": 1.5},
        {"time0": None},
        {"seq0": 2**53 - 2},
        {"time0": 2**53 - 1},
        {"data": {**ROW["data"], "texts": []}},
        {"data": {**ROW["data"], "texts": ["a", 1, "c"]}},
        {"data": {**ROW["data"], "dt": [1]}},
        {"data": {**ROW["data"], "dt": [1, 0.5]}},
        {"data": {**ROW["data"], "turn": "1"}},
        {"data": {**ROW["data"], "more": 1}},
    ],
    ids=str,
)
def test_c13_malformed_rows_are_refused(change: dict[str, Any]) -> None:
    """
    A row that does not add up is refused whole.
    """
    with pytest.raises(ValueRejected):
        decode({**ROW, **change})


def test_c8_data_builds_no_objects() -> None:
    """
    Names of classes inside data stay names.
    """
    import sys

    before = set(sys.modules)
    record = {**EVENT, "data": {"lc": 1, "type": "constructor", "id": ["antigravity", "x"]}}

    assert record["data"] == decode(record).data
    assert before == set(sys.modules)


def test_the_converter_does_not_coerce() -> None:
    """
    Types are taken exactly: a string is no number, and a bool no int.
    """
    for value, kind in (("3", int), (True, int), (5, str), (1, bool), (1, float)):
        with pytest.raises(ValueRejected):
            converter.structure(value, kind)

    assert make_header() == converter.structure(HEADER, SessionHeader)
    assert HEADER == converter.unstructure(make_header())


@pytest.mark.parametrize("record", [None, [], "x", 1], ids=str)
def test_a_record_is_an_object(record: Any) -> None:
    """
    What is no JSON object is no record, and is refused like any malformed one.
    """
    for read in (header_from_wire, event_from_wire):
        with pytest.raises(ValueRejected):
            read(record)
