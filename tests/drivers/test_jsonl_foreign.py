"""Logs that others wrote: any spelling of a line is read, and any bytes give events or errors."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog import Event, EventLogError
from eventlog.codec import encode_line
from eventlog.drivers.jsonl import JsonlStore
from eventlog.errors import CorruptLog, InvalidSurface
from support import make_header, message, messages, replacement
from support.jsonl import log_bytes, plant

HEADER = encode_line(make_header())


def read(store: JsonlStore, start: int, stop: int) -> list[Event]:
    return store.snapshot("s1").read(start, stop)


def test_windows_line_ends_are_read(tmp_path: Path) -> None:
    """A file whose lines end in CR and LF holds the same events, and is appended to."""
    plant(tmp_path, log_bytes().replace(b"\n", b"\r\n"))
    store = JsonlStore(tmp_path)

    assert messages(10) == read(store, 0, 99)
    assert list(range(10)) == store.snapshot("s1").nodes()
    assert 11 == store.append(make_header(), [message(10)])
    assert messages(11) == read(store, 0, 99)


def test_spaces_and_key_orders_are_read(tmp_path: Path) -> None:
    """Lines with other spacing and other key orders are the same events."""
    data = HEADER
    for seq in range(8):
        line = json.loads(encode_line(message(seq, source_event_seqs=[seq - 1] if seq else None)))
        keys = list(line)
        shuffled = {key: line[key] for key in keys[seq % 5 :] + keys[: seq % 5]}
        data += json.dumps(shuffled, indent=None).encode() + b"\n"
    plant(tmp_path, data)
    store = JsonlStore(tmp_path)

    expected = [message(seq, source_event_seqs=[seq - 1] if seq else None) for seq in range(8)]
    assert expected == read(store, 0, 9)
    assert [expected[5]] == read(store, 5, 6)
    assert list(range(8)) == store.snapshot("s1").nodes()
    assert [5] == store.snapshot("s1").citing(4)


def packed(seq: int, count: int) -> bytes:
    """The row of so many chunks from *seq* on."""
    row = {
        "type": "text-chunks",
        "seq0": seq,
        "time0": 1_000 + seq,
        "data": {
            "turn": 1,
            "step": 1,
            "index": 0,
            "dt": [1] * (count - 1),
            "texts": [f"t{number}" for number in range(seq, seq + count)],
        },
    }
    return json.dumps(row, separators=(",", ":")).encode() + b"\n"


def chunk(seq: int) -> Event:
    """The event of one member of a packed row."""
    block = {"type": "text-delta", "index": 0, "text": f"t{seq}"}
    return Event(seq, 1_000 + seq, "assistant/chunk", {"turn": 1, "step": 1, "chunk": block})


@pytest.mark.parametrize("keys_turned", [False, True])
def test_packed_rows_are_their_members(tmp_path: Path, keys_turned: bool) -> None:
    """A line that holds several seqs is read from any of them to any other."""
    data = HEADER
    events: list[Event] = []
    while len(events) < 300:
        seq = len(events)
        count = 1 + (seq * 7) % 11
        row = packed(seq, count)
        if keys_turned:
            turned = dict(reversed(json.loads(row).items()))
            row = json.dumps(turned).encode() + b"\n"
        data += row + encode_line(message(seq + count))
        events += [*map(chunk, range(seq, seq + count)), message(seq + count)]
    plant(tmp_path, data)
    store = JsonlStore(tmp_path)

    assert len(events) == store.snapshot("s1").length
    for start in range(0, len(events), 3):
        for stop in (start + 1, start + 2, start + 9, start + 80):
            assert events[start:stop] == read(store, start, stop)
    assert [event.seq for event in events if event.is_node] == store.snapshot("s1").nodes()


def test_packed_row_at_the_end(tmp_path: Path) -> None:
    """A row at the end counts its members; an append goes on behind them, written plain."""
    data = HEADER + encode_line(message(0)) + packed(1, 4)
    path = plant(tmp_path, data)
    store = JsonlStore(tmp_path)

    assert (5, 1_004) == (store.heads().items[0].length, store.heads().items[0].last_time)
    assert 6 == store.append(make_header(), [chunk(4), message(5)])
    assert data + encode_line(message(5)) == path.read_bytes()
    assert [chunk(3), chunk(4), message(5)] == read(store, 3, 9)
    assert [0, 5] == JsonlStore(tmp_path).snapshot("s1").nodes()


@pytest.mark.parametrize(("first", "count"), [(2, 3), (0, 3), (4, 2)])
def test_packed_row_out_of_place(tmp_path: Path, first: int, count: int) -> None:
    """A row that repeats or skips seqs is damage where it stands."""
    plant(tmp_path, log_bytes(events=3) + packed(first, count) + encode_line(message(9)))
    store = JsonlStore(tmp_path)

    for call in (lambda: read(store, 0, 10), lambda: store.snapshot("s1").nodes()):
        with pytest.raises(CorruptLog) as caught:
            call()
        assert (5, first, "seq") == (caught.value.line, caught.value.seq, caught.value.kind)


@pytest.mark.parametrize("size", [100, 4_096, 70_000, 3_000_000])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_headers_of_any_length(tmp_path: Path, size: int, mark: bytes) -> None:
    """A header longer than any buffer is read, and listed."""
    header = make_header(extra={"k": "x" * size})
    plant(tmp_path, mark + log_bytes(header, 3))
    store = JsonlStore(tmp_path)

    for _ in range(2):
        assert header == store.snapshot("s1").header
        assert [header] == [head.header for head in store.heads().items]
        assert messages(3) == read(store, 0, 9)
    assert 4 == store.append(header, [message(3)])
    assert mark + log_bytes(header, 4) == (tmp_path / "s1.jsonl").read_bytes()


OPS_BEHIND = [
    b'{"type":"user/message","seq":3,"time":5,"data":{"a":{}},"surfaceOp":%b}',
    b'{"type":"user/message","seq":3,"time":5,"data":{"a":{"b":1}},  "surfaceOp" : %b  }',
    b'{"type":"user/message","seq":3,"time":5,"data":{"a":"}}"},"surfaceOp":%b}',
    b'{"surfaceOp":%b,"type":"user/message","seq":3,"time":5,"data":{"a":"\\"op\\""}}',
    b'{"type":"user/message","seq":3,"time":5,"data":{},"surf\\u0061ceOp":%b}',
]


@pytest.mark.parametrize("line", OPS_BEHIND, ids=range(len(OPS_BEHIND)))
@pytest.mark.parametrize(
    "op",
    [
        b'{"op":"replace","start":1,"end":2}',
        b'{ "end" : 2, "start": 1, "op" :"replace" }',
        b'{"op":"repl\\u0061ce","start":1,"end":2}',
        b'{"\\u006fp":"replace","start":1,"end":2}',
    ],
)
def test_op_behind_the_data_is_folded(tmp_path: Path, line: bytes, op: bytes) -> None:
    """
    Recorded logs have the surface op behind the data. Wherever it stands, and however it is
    spelt, the fold sees it.
    """
    cited = line.replace(b'"time":5', b'"time":5,"sourceEventSeqs":[1,2]') % op
    plant(tmp_path, log_bytes(events=3) + cited + b"\n")

    assert [0, 3] == JsonlStore(tmp_path).snapshot("s1").nodes()


def test_data_that_looks_like_an_op_is_data(tmp_path: Path) -> None:
    """Text and objects in the data that look like envelope keys are no keys of the envelope."""
    events = [
        Event(0, 0, "x/a", {"surfaceOp": {"op": "replace", "start": 0, "end": 0}}),
        Event(1, 0, "x/a", {"t": ',"surfaceOp":"append"}'}),
        Event(2, 0, "x/a", {"op": "replace"}),
        Event(3, 0, "x/a", {"t": '"op"}}'}),
    ]
    store = JsonlStore(tmp_path)
    store.append(make_header(), events)

    assert [] == JsonlStore(tmp_path).snapshot("s1").nodes()
    assert events == read(JsonlStore(tmp_path), 0, 9)


def test_refused_fold_keeps_its_windows(tmp_path: Path) -> None:
    """
    A log of another tool cites an event that was never written: it has no surface from
    there on, and keeps windows, lists, and the surface before.
    """
    events = [*messages(6), replacement(6, 3, 5, [3, 4, 5, 7]), message(7)]
    plant(tmp_path, log_bytes(events=events))
    store = JsonlStore(tmp_path)

    for call in (
        lambda: store.snapshot("s1").nodes(),
        lambda: store.append(make_header(), [message(8)]),
    ):
        with pytest.raises(InvalidSurface) as caught:
            call()
        assert 6 == caught.value.seq
    assert events == read(store, 0, 9)
    assert [8] == [head.length for head in store.heads().items]
    assert list(range(6)) == store.snapshot("s1", at=6).nodes()


@given(st.data())
def test_truncated_anywhere_is_a_prefix_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """
    Cut at any byte, a log holds a prefix of its events or is a typed error, and the rest
    of the events can be appended where it holds a prefix.
    """
    root = tmp_path_factory.mktemp("cut")
    events = [message(0), message(1, "é\n" * 3), replacement(2, 0, 1, [0, 1]), message(3)]
    whole = log_bytes(events=events)
    size = data.draw(st.integers(0, len(whole)))
    plant(root, whole[:size])
    store = JsonlStore(root)

    if size < len(HEADER):
        with pytest.raises(CorruptLog):
            store.snapshot("s1")
        with pytest.raises(CorruptLog):
            store.append(make_header(), events)
        assert whole[:size] == (root / "s1.jsonl").read_bytes()
        return
    count = whole[:size].count(b"\n") - 1
    snapshot = store.snapshot("s1")
    assert (count, events[:count]) == (snapshot.length, snapshot.read(0, 9))
    assert whole[:size] == (root / "s1.jsonl").read_bytes()
    assert 4 == store.append(make_header(), events)
    assert whole == (root / "s1.jsonl").read_bytes()


@given(st.binary(max_size=200), st.integers(0, 10**6))
def test_any_bytes_inside_give_events_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int
) -> None:
    """Whatever bytes get into a log, reads give its events or typed errors, and write nothing."""
    root = tmp_path_factory.mktemp("noise")
    whole = log_bytes(events=5)
    position = at % (len(whole) + 1)
    data = whole[:position] + noise + whole[position:]
    path = plant(root, data)
    store = JsonlStore(root)

    for start in range(5):
        with suppress(EventLogError):
            assert [start] == [event.seq for event in read(store, start, start + 1)][:1]
    for call in (lambda: store.snapshot("s1").nodes(), lambda: store.heads()):
        with suppress(EventLogError):
            call()
    assert data == path.read_bytes()
