"""
What the reference asserts of its storage, fact by fact, by the numbers of its tests.

Elsewhere: B3–B5 and J74 with resuming, J33 and J67–J70 with recording, C13 with the codec,
J27 and J28 with failing syncs, J32 with names. Different here, on purpose:

- B7, J19–J23: calls are not cancelled and carry no revision; ``changes`` says what may have
  changed, and a read that meets a change proves what it returns.
- B10, J31: events that are stored already are a retry and add nothing; only different
  ones are refused.
- C1–C8, C10, C14, J47, J53: packed rows are read and never written.
- J36, J41, J45, J46, J52: damage is named where it is read and never cut off in silence;
  what stands before it is served, salvage gives what stands behind it.
- J4, J5, J56–J60, J64, J66: logs lie flat in one folder, so there are no project folders.
- J6, J8, J9: a log of another version is read as far as its header parses, and refuses
  appends.
- J11–J13, J15: the file is the log; its path is that of its id.
- J22, J23, J63: retired event types and header keys are kept and served like any other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from eventlog import EventStore, LiveSessions, Recorder, open_store
from eventlog.codec import decode_line, encode_line
from eventlog.drivers.jsonl import JsonlStore
from eventlog.errors import (
    CorruptLog,
    EventLogError,
    HeaderConflict,
    InvalidArgument,
    InvalidSurface,
    SequenceConflict,
    SessionNotFound,
    StoreUnavailable,
    UnsupportedFormat,
    ValueRejected,
)
from eventlog.model import Event, SessionHeader
from eventlog.values import TIME_MAX
from support import log_only, make_header, message, messages
from support.damage import HEADER
from support.jsonl import files_in, log_bytes, plant, wire

TURN = [
    log_only(0, "turn/start", data={"turn": 1}),
    message(1),
    log_only(2, "step/start", data={"turn": 1, "step": 1}),
    log_only(3, "assistant/chunk", data={"turn": 1, "step": 1, "chunk": {"type": "x"}}),
    log_only(4, "step/end", data={"turn": 1, "step": 1}),
    log_only(5, "turn/end", data={"turn": 1, "reason": {"kind": "completed"}}),
]


@pytest.fixture(params=["memory", "lmdb", "jsonl"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EventStore]:
    """Each store in turn, empty."""
    url = "memory:" if request.param == "memory" else f"{request.param}:{tmp_path / 'store'}"
    with open_store(url) as opened:
        yield opened


def test_b1_a_turn_is_loaded_as_it_was_appended(store: EventStore) -> None:
    """Version, id, working directory and all six events are those that were appended."""
    header = make_header(cwd="/w")
    assert 6 == store.append(header, TURN)
    snapshot = store.snapshot("s1")
    assert (0, "s1", "/w") == (snapshot.header.version, snapshot.header.id, snapshot.header.cwd)
    assert TURN == snapshot.read(0, 99)


def test_b2_a_bad_creation_time_costs_no_id(store: EventStore) -> None:
    """A creation time of 1.5 is refused where the header is made; the id stays free."""
    for bad in (1.5, -1, True, "1"):
        with pytest.raises(ValueRejected):
            SessionHeader("s1", bad)  # type: ignore[arg-type]
    assert 1 == store.append(make_header(), messages(1))


def test_b6_j10_a_session_without_events_is_nowhere(store: EventStore, tmp_path: Path) -> None:
    """Before the first event nothing is stored, listed or on the disk."""
    assert 0 == store.append(make_header(), [])
    assert () == store.heads().items
    assert store.head("s1") is None
    assert [] == list(tmp_path.iterdir())


def test_b8_windows_to_the_end(store: EventStore) -> None:
    """From 0 all, from 3 the rest, at or behind the end nothing; bad starts are refused."""
    store.append(make_header(), TURN[:5])
    snapshot = store.snapshot("s1")
    assert TURN[:5] == snapshot.read(0, 99)
    assert TURN[3:5] == snapshot.read(3, 99)
    assert [] == snapshot.read(5, 99) == snapshot.read(70, 99)
    for bad in (-1, 1.5, True):
        with pytest.raises(InvalidArgument):
            snapshot.read(bad, 9)  # type: ignore[arg-type]
    with pytest.raises(SessionNotFound):
        store.snapshot("s2")


def test_b9_what_changed_is_said_once(store: EventStore) -> None:
    """Looking changes no token's meaning; an append does."""
    store.append(make_header(), messages(1))
    token = store.changes().token
    store.heads()
    assert () == store.changes(token).session_ids
    store.append(make_header(), messages(1, start=1))
    assert ("s1",) == store.changes(token).session_ids


def test_b10_b11_j31_appends_that_do_not_continue(store: EventStore) -> None:
    """The same events again add nothing; other events under their seqs, and gaps, are refused."""
    store.append(make_header(), messages(3))
    assert 3 == store.append(make_header(), messages(3))
    with pytest.raises(SequenceConflict):
        store.append(make_header(), [message(1, "other")])
    with pytest.raises(InvalidSurface):
        store.append(make_header(), [message(3), message(5)])
    with pytest.raises(SequenceConflict):
        store.append(make_header(), [message(4)])
    assert messages(3) == store.snapshot("s1").read(0, 9)


@pytest.mark.parametrize("bad", [10**30, object(), float("inf"), len, {1: 2}, {"a": {1, 2}}, b"x"])
def test_b12_j54_data_that_is_no_json(bad: Any) -> None:
    """What JSON cannot hold without changing it is refused where the event is made."""
    with pytest.raises(ValueRejected):
        Event(0, 1, "x/a", {"value": bad})
    circle: dict[str, Any] = {}
    circle["self"] = circle
    with pytest.raises(ValueRejected):
        Event(0, 1, "x/a", circle)


def row(**changes: Any) -> bytes:
    """A packed row of three text chunks."""
    data = {"turn": 1, "step": 1, "index": 0, "dt": [10, -5], "texts": ["a", "b", "c"]}
    record = {"type": "text-chunks", "seq0": 0, "time0": 1_000, "data": data, **changes}
    return orjson.dumps(record)


def test_c9_times_at_the_ends_of_their_range() -> None:
    """Members at the least and the greatest time are read exactly; beyond is malformed."""
    data = {"turn": 1, "step": 1, "index": 0, "dt": [], "texts": ["a"]}
    for time in (-TIME_MAX, TIME_MAX):
        (event,) = decode_line(row(time0=time, data=data))  # type: ignore[misc]
        assert time == event.time
        assert event == decode_line(encode_line(event))
    for time, step in ((TIME_MAX, 1), (-TIME_MAX, -1), (-TIME_MAX, 2 * TIME_MAX)):
        bad = {**data, "dt": [step], "texts": ["a", "b"]}
        with pytest.raises(ValueRejected):
            decode_line(row(time0=time, data=bad))


def test_c11_what_is_no_row_is_read_as_what_it_is() -> None:
    """An event is one event; a string and null are no records."""
    assert message(0) == decode_line(encode_line(message(0)))
    for other in (b'"x"', b"null"):
        with pytest.raises(ValueRejected):
            decode_line(other)


def test_c12_a_clock_that_stepped_back_in_a_row(tmp_path: Path) -> None:
    """A negative step between members gives the earlier time; order is by seq."""
    plant(tmp_path, HEADER + row() + b"\n")
    with JsonlStore(tmp_path) as store:
        events = store.snapshot("s1").read(0, 9)
        assert [(0, 1_000), (1, 1_010), (2, 1_005)] == [(e.seq, e.time) for e in events]
        assert [] == list(store.verify())


def test_j16_j24_j40_headers_and_sources_come_back(store: EventStore) -> None:
    """Chunks, sources, presets and what a fork's header says are as they were."""
    header = make_header(parent_session="p", seed_length=2, cwd="/w", agent_preset="coder")
    cited = Event(4, 9, "x/made", {}, source_event_seqs=[1])
    store.append(header, [*TURN[:4], cited])
    assert header == store.snapshot("s1").header
    assert cited == store.snapshot("s1").read(4, 5)[0]


def test_j25_j26_j73_torn_tail_of_an_open_turn(tmp_path: Path) -> None:
    """
    A log that ends in an open turn and a torn line is resumed in a fresh process: the torn
    bytes are gone, the turn is closed, and the committed bytes are a prefix of the file.
    """
    committed = HEADER + b"".join(map(encode_line, TURN[:3]))
    path = plant(tmp_path, committed + wire(3)[:20])
    with JsonlStore(tmp_path) as store:
        recorder = Recorder(LiveSessions(), store)
        session = recorder.resume("s1")
        assert ["step/end", "turn/end"] == [e.type for e in session.read(3, 5)]
        recorder.close()
        assert 6 == store.append(session.header, [message(5)])
        assert list(range(6)) == [event.seq for event in store.snapshot("s1").read(0, 9)]
    assert path.read_bytes().startswith(committed + b'{"type":"step/end"')


def test_j29_j55_headers_are_detached(store: EventStore) -> None:
    """A header that was loaded cannot be changed, nor the stored one through what was given."""
    extra = {"a": [1]}
    header = make_header(extra=extra)
    store.append(header, messages(1))
    extra["a"].append(2)
    loaded = store.snapshot("s1").header
    loaded.extra["a"].append(3)
    assert {"a": [1]} == store.snapshot("s1").header.extra
    with pytest.raises(AttributeError):
        loaded.cwd = "/x"  # type: ignore[misc]
    with pytest.raises(HeaderConflict):
        store.append(make_header(cwd="/x"), messages(1))


def test_j30_a_header_of_another_session(tmp_path: Path) -> None:
    """A log whose header names another session is refused; both files are left as they are."""
    plant(tmp_path, log_bytes(make_header("s2")))
    plant(tmp_path, log_bytes(make_header("s2")), "s2")
    before = files_in(tmp_path)
    with JsonlStore(tmp_path) as store:
        with pytest.raises(CorruptLog):
            store.snapshot("s1")
        with pytest.raises(CorruptLog):
            store.append(make_header(), messages(1))
        assert ["misnamed"] == [finding.kind for finding in store.repair(dry_run=False)]
    assert before == files_in(tmp_path)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        HEADER[:-1],
        HEADER[:20] + b"\n" + HEADER[20:],
        b"not json\n",
        b'{"type":"event"}\n',
        b"42\n",
        *(
            HEADER.replace(b'"createdAt":1000', b'"createdAt":' + bad)
            for bad in (b"1.5", b"-1", b"9007199254740992", b"-0.0", b"null")
        ),
        *(
            HEADER.replace(b'"delegationDepth":0', bad)
            for bad in (b'"x":0', b'"delegationDepth":"1"', b'"delegationDepth":1.5')
        ),
        HEADER.replace(b"}", b',"agentPreset":7}'),
        HEADER.replace(b'"id":"s1"', b'"id":""'),
    ],
)
def test_j7_j34_j38_j39_j65_what_is_no_header(tmp_path: Path, data: bytes) -> None:
    """A first line that is no whole, well-formed header is damage, never a new session."""
    plant(tmp_path, data)
    with JsonlStore(tmp_path) as store:
        with pytest.raises(CorruptLog):
            store.head("s1")
        with pytest.raises(CorruptLog):
            store.append(make_header(), messages(1))
        assert {"header", "empty"} & {finding.kind for finding in store.verify()}
        assert 1 == len(store.heads().faults)
    assert data == (tmp_path / "s1.jsonl").read_bytes()


def test_j35_j37_j44_a_log_is_its_whole_lines(tmp_path: Path) -> None:
    """However a file is cut, the whole lines count, and what is behind the last one does not."""
    data = log_bytes(events=[message(seq, "日本語🔑") for seq in range(3)])
    ends = [len(HEADER), *(at + 1 for at, byte in enumerate(data) if byte == 10)]
    for cut in range(len(HEADER), len(data) + 1):
        plant(tmp_path, data[:cut])
        whole = sum(end <= cut for end in ends) - 2
        with JsonlStore(tmp_path) as store:
            assert whole == store.snapshot("s1").length
            torn = cut not in ends
            assert ["torn"] * torn == [finding.kind for finding in store.verify()]


def test_j36_j41_j43_j46_damage_is_named_and_nothing_cut(tmp_path: Path) -> None:
    """
    A bad line and a gap are refused, before a turn's end and after it; the events before
    are served, those behind are salvaged, and no byte is changed.
    """
    for bad in (b"bad\n", b""):
        lines = list(map(encode_line, TURN))
        lines[3] = bad
        data = HEADER + b"".join(lines)
        plant(tmp_path, data)
        with JsonlStore(tmp_path) as store:
            assert TURN[:3] == store.snapshot("s1").read(0, 3)
            with pytest.raises(CorruptLog):
                store.snapshot("s1").read(0, 6)
            kept = [item.seq for item in store.salvage("s1") if isinstance(item, Event)]
            assert [0, 1, 2, 4, 5] == kept
        assert data == (tmp_path / "s1.jsonl").read_bytes()


def test_j48_to_j52_packed_rows(tmp_path: Path) -> None:
    """A row stands for its members, beside verbatim lines; a bad or misplaced one is damage."""
    plant(tmp_path, HEADER + row() + b"\n" + wire(3))
    with JsonlStore(tmp_path) as store:
        assert [0, 1, 2, 3] == [event.seq for event in store.snapshot("s1").read(0, 9)]
        assert 5 == store.append(make_header(), [message(4)])
        assert ["a", "b", "c"] == [
            event.data["chunk"]["text"] for event in store.snapshot("s1").read(0, 3)
        ]
    for bad in (row(seq0=2), row(seq0=-1), row(time0=0.5)):
        plant(tmp_path, HEADER + wire(0) + bad + b"\n" + wire(4))
        with JsonlStore(tmp_path) as store:
            with pytest.raises(CorruptLog):
                store.snapshot("s1").read(0, 5)
            assert list(store.verify())


def test_j6_j8_j9_another_version(tmp_path: Path) -> None:
    """A log of a newer version is read where its header parses, and refuses appends."""
    newer = HEADER.replace(b'"version":0', b'"version":42')
    plant(tmp_path, newer + wire(0))
    header = decode_line(newer)
    assert isinstance(header, SessionHeader)
    with JsonlStore(tmp_path) as store:
        assert 42 == store.snapshot("s1").header.version
        with pytest.raises(UnsupportedFormat):
            store.append(header, [message(1)])


def test_j61_j62_files_beside_logs(tmp_path: Path) -> None:
    """Files that are no logs are named and hide no session; a long header is read."""
    header = make_header(extra={"long": "x" * 20_000})
    plant(tmp_path, log_bytes(header))
    for name, data in (("a.jsonl", b""), ("b.jsonl", b"?\n"), ("notes", b"?")):
        (tmp_path / name).write_bytes(data)
    with JsonlStore(tmp_path) as store:
        page = store.heads()
        assert [header] == [head.header for head in page.items]
        assert 3 == len(page.faults)


def test_j58_j71_j72_the_folder(tmp_path: Path) -> None:
    """A missing folder is an empty store; a file in its place is an error, later as well."""
    assert () == JsonlStore(tmp_path / "none").heads().items
    (tmp_path / "empty").mkdir()
    assert () == JsonlStore(tmp_path / "empty").heads().items
    store = JsonlStore(tmp_path / "root")
    store.append(make_header(), messages(1))
    os.rename(tmp_path / "root", tmp_path / "moved")
    (tmp_path / "root").write_bytes(b"")
    for opened in (store, JsonlStore(tmp_path / "root")):
        with pytest.raises(StoreUnavailable):
            opened.heads()
        with pytest.raises(EventLogError):
            opened.append(make_header("s2"), messages(1))
