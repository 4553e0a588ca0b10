"""Damaged logs: what can be read is read, what cannot is named, and reads change no byte."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from eventlog import Event
from eventlog.codec import encode_line
from eventlog.drivers.jsonl import JsonlStore
from eventlog.errors import CorruptLog, SequenceConflict
from support import make_header, message, messages
from support.jsonl import files_in, log_bytes, plant, wire

HEADER = encode_line(make_header())


def read(store: JsonlStore, start: int, stop: int) -> list[Event]:
    return store.snapshot("s1").read(start, stop)


def lines_of(*lines: bytes) -> bytes:
    return HEADER + b"".join(line + b"\n" for line in lines)


def test_a1_torn_tail_is_passed_over(tmp_path: Path) -> None:
    """
    Power was cut while a line was written, and the conversation came back empty. Readers
    stop at the last whole line and change no byte.
    """
    data = log_bytes() + encode_line(message(10))[:40]
    plant(tmp_path, data)
    store = JsonlStore(tmp_path)

    assert 10 == store.snapshot("s1").length
    assert messages(10) == read(store, 0, 99)
    assert list(range(10)) == store.snapshot("s1").nodes()
    assert () == store.heads().faults
    assert {"s1.jsonl": data} == files_in(tmp_path)


def test_a1_torn_tail_is_kept_aside_and_cut(tmp_path: Path) -> None:
    """
    The next writer moves a torn tail aside, cuts it, and goes on with the next seq; so a
    fused line never comes about.
    """
    torn = encode_line(message(10))[:40]
    plant(tmp_path, log_bytes() + torn)
    store = JsonlStore(tmp_path)

    assert 11 == store.append(make_header(), [message(10, "again")])

    events = [*messages(10), message(10, "again")]
    assert {"s1.jsonl": log_bytes(events=events), "s1.torn": torn + b"\n"} == files_in(tmp_path)
    assert events == read(JsonlStore(tmp_path), 0, 99)


def test_torn_tails_add_up_aside(tmp_path: Path) -> None:
    """Each torn tail is a line of its own in the file beside the log."""
    path = plant(tmp_path, log_bytes(events=1))
    store = JsonlStore(tmp_path)
    for seq in (1, 2):
        with path.open("ab") as file:
            file.write(b'{"type":"torn%d' % seq)
        store.append(make_header(), [message(seq)])

    assert b'{"type":"torn1\n{"type":"torn2\n' == (tmp_path / "s1.torn").read_bytes()
    assert messages(3) == read(store, 0, 9)


@pytest.mark.parametrize("refused", ["empty batch", "conflict", "retry"])
def test_torn_tail_stays_where_nothing_is_added(tmp_path: Path, refused: str) -> None:
    """An append that stores nothing leaves a torn tail alone."""
    data = log_bytes() + b'{"type":'
    plant(tmp_path, data)
    store = JsonlStore(tmp_path)

    if refused == "conflict":
        with pytest.raises(SequenceConflict):
            store.append(make_header(), [message(11)])
    else:
        store.append(make_header(), [] if refused == "empty batch" else messages(10))

    assert {"s1.jsonl": data} == files_in(tmp_path)


@pytest.mark.parametrize(
    "tail", [b"\0" * 4096, b"\0" * 4096 + b"\n", b"\n", b" \r\n\t\n", b"\0\n" * 5 + b"\0"]
)
def test_a4_padding_is_a_torn_tail(tmp_path: Path, tail: bytes) -> None:
    """
    After a crash a file had a run of NUL bytes at its end, and its session was gone. NUL
    and white space behind the last line are no lines, and the next writer trims them.
    """
    plant(tmp_path, log_bytes() + tail)
    store = JsonlStore(tmp_path)

    assert messages(10) == read(store, 0, 99)
    assert 10 == store.heads().items[0].length
    assert 11 == store.append(make_header(), [message(10)])
    assert {"s1.jsonl": log_bytes(events=11)} == files_in(tmp_path)


def test_a2_fused_line_is_named(tmp_path: Path) -> None:
    """
    A cut-off record was followed by the next on the same line. The line is named with its
    place, and what stands before and behind it is served as what it is.
    """
    fused = b'{"seq":2,"ty' + wire(2)
    data = HEADER + wire(0) + wire(1) + fused + wire(3)
    plant(tmp_path, data)
    store = JsonlStore(tmp_path)

    assert [0, 1] == [event.seq for event in read(store, 0, 2)]
    assert [3] == [event.seq for event in read(store, 3, 4)]
    for call in (
        lambda: read(store, 0, 4),
        lambda: read(store, 2, 3),
        lambda: store.snapshot("s1").nodes(),
        lambda: store.append(make_header(), [message(4)]),
    ):
        with pytest.raises(CorruptLog) as caught:
            call()
        assert (4, data.index(fused), 2, "malformed") == place(caught.value)
    assert {"s1.jsonl": data} == files_in(tmp_path)


def place(error: CorruptLog) -> tuple[int | None, int | None, int | None, str]:
    """Line, offset, seq and kind of an error."""
    return error.line, error.offset_bytes, error.seq, error.kind


def test_a6_empty_files_and_strays_are_faults(tmp_path: Path) -> None:
    """
    Empty session files and orphan folders broke resume. They are faults of a listing, an
    empty file is no fresh session, and what file managers leave is nothing.
    """
    store = JsonlStore(tmp_path)
    store.append(make_header("good"), messages(2))
    for name in ("e1.jsonl", "e2.jsonl", "e3.jsonl", ".DS_Store"):
        (tmp_path / name).touch()
    (tmp_path / "orphan").mkdir()

    page = store.heads()

    assert ["good"] == [head.header.id for head in page.items]
    assert [
        ("e1", "empty"),
        ("e2", "empty"),
        ("e3", "empty"),
        (None, "directory"),
    ] == [(fault.session_id, fault.kind) for fault in page.faults]
    for call in (
        lambda: store.head("e1"),
        lambda: store.snapshot("e1"),
        lambda: store.append(make_header("e1"), []),
        lambda: store.append(make_header("e1"), messages(1)),
    ):
        with pytest.raises(CorruptLog) as caught:
            call()
        assert ("e1", "empty") == (caught.value.session_id, caught.value.kind)
    assert b"" == (tmp_path / "e1.jsonl").read_bytes()


@pytest.mark.parametrize(
    "header",
    [
        b"{broken header",
        b"",
        b"null",
        b"\0" * 100,
        wire(0)[:-1],
        b'{"type":"session","version":0,"id":"s1","createdAt":1.5,"delegationDepth":0}',
        b'{"type":"session","version":0,"id":"s1","id":"s1","createdAt":1,"delegationDepth":0}',
        b'{"type":"session","version":0,"id":"s1","createdAt":1}',
    ],
)
def test_a7_damaged_header_is_never_overwritten(tmp_path: Path, header: bytes) -> None:
    """
    An unreadable first line was taken for "no session", and resuming wrote an empty file
    over it. Every call refuses, and the bytes stay.
    """
    path = plant(tmp_path, header + b"\n" + wire(0))
    before = sha256(path.read_bytes()).digest()
    store = JsonlStore(tmp_path)

    for call in (
        lambda: store.snapshot("s1"),
        lambda: store.head("s1"),
        lambda: store.append(make_header(), []),
        lambda: store.append(make_header(), messages(1)),
    ):
        with pytest.raises(CorruptLog) as caught:
            call()
        assert (1, 0, None, "header") == place(caught.value)
    assert [("s1", "header")] == [(fault.session_id, fault.kind) for fault in store.heads().faults]
    assert before == sha256(path.read_bytes()).digest()
    assert ["s1.jsonl"] == list(files_in(tmp_path))


def test_a9_log_that_starts_above_0_is_refused(tmp_path: Path) -> None:
    """
    A tool had lost the first part of big logs. A log whose first seq is not 0 is refused
    with both values, not renumbered and not called empty; its session is still listed.
    """
    data = HEADER + b"".join(encode_line(message(seq)) for seq in range(5, 10))
    plant(tmp_path, data)
    store = JsonlStore(tmp_path)

    for call in (
        lambda: read(store, 0, 10),
        lambda: read(store, 5, 10),
        lambda: store.snapshot("s1").nodes(),
        lambda: store.append(make_header(), [message(10)]),
    ):
        with pytest.raises(CorruptLog) as caught:
            call()
        assert (2, len(HEADER), 5, "seq") == place(caught.value)
        assert "first seq expected 0, found 5" == caught.value.detail
    assert [10] == [head.length for head in store.heads().items]
    assert {"s1.jsonl": data} == files_in(tmp_path)


def test_a10_raw_line_break_inside_a_string(tmp_path: Path) -> None:
    """
    Tool output was written with real line breaks, so one record spans several lines. The
    range of those lines is damage, the others are served.
    """
    broken = wire(1, "line1 line2").replace(b" ", b"\n")
    plant(tmp_path, HEADER + wire(0) + broken + wire(2))
    store = JsonlStore(tmp_path)

    assert [0] == [event.seq for event in read(store, 0, 1)]
    assert [2] == [event.seq for event in read(store, 2, 3)]
    with pytest.raises(CorruptLog) as caught:
        read(store, 0, 3)
    assert (3, len(HEADER + wire(0)), 1, "malformed") == place(caught.value)


def test_b6_byte_order_mark_in_front(tmp_path: Path) -> None:
    """
    A byte-order mark before the first brace hid the first record. It is passed over in
    front of the file, never written, and damage anywhere else.
    """
    bom = b"\xef\xbb\xbf"
    plant(tmp_path, bom + log_bytes())
    store = JsonlStore(tmp_path)

    assert messages(10) == read(store, 0, 99)
    assert 11 == store.append(make_header(), [message(10)])
    assert bom + log_bytes(events=11) == (tmp_path / "s1.jsonl").read_bytes()
    assert messages(11) == read(JsonlStore(tmp_path), 0, 99)

    lines = log_bytes().splitlines(keepends=True)
    plant(tmp_path, b"".join([*lines[:3], bom, *lines[3:]]))
    assert messages(2) == read(store, 0, 2)
    with pytest.raises(CorruptLog) as caught:
        read(store, 0, 10)
    assert (4, 2, "malformed") == (caught.value.line, caught.value.seq, caught.value.kind)


def test_d2_seq_that_goes_back(tmp_path: Path) -> None:
    """
    A stored log stepped back in seq, and was silently shortened. It is refused with the
    line and both values; what stands before is served, and so are all other sessions.
    """
    seqs = (0, 1, 2, 3, 2, 3, 4)
    data = HEADER + b"".join(encode_line(message(seq)) for seq in seqs)
    plant(tmp_path, data)
    store = JsonlStore(tmp_path)
    store.append(make_header("other"), messages(2))

    for call in (
        lambda: read(store, 0, 5),
        lambda: read(store, 2, 5),
        lambda: store.snapshot("s1").nodes(),
        lambda: store.append(make_header(), [message(5)]),
    ):
        with pytest.raises(CorruptLog) as caught:
            call()
        assert (6, 2, "seq") == (caught.value.line, caught.value.seq, caught.value.kind)
        assert "seq expected 4, found 2" == caught.value.detail
    assert [0, 1, 2, 3] == [event.seq for event in read(store, 0, 4)]
    assert {"s1": 5, "other": 2} == {head.header.id: head.length for head in store.heads().items}
    assert () == store.heads().faults
    assert data == files_in(tmp_path)["s1.jsonl"]


@pytest.mark.parametrize("last", [0, 2, 9])
def test_last_line_that_goes_back_hides_nothing(tmp_path: Path, last: int) -> None:
    """The seq of a last line that steps back is not taken for the log's length."""
    plant(tmp_path, log_bytes() + encode_line(message(last)))
    store = JsonlStore(tmp_path)

    assert 11 == store.snapshot("s1").length
    assert messages(10) == read(store, 0, 10)
    with pytest.raises(CorruptLog) as caught:
        read(store, 0, 11)
    assert (12, last, "seq") == (caught.value.line, caught.value.seq, caught.value.kind)
    with pytest.raises(CorruptLog):
        store.append(make_header(), [message(11)])


def test_lines_too_many_are_seen_by_the_fold(tmp_path: Path) -> None:
    """A log whose end repeats its beginning has no surface, and takes no append."""
    plant(tmp_path, log_bytes() + b"".join(encode_line(message(seq)) for seq in (3, 4)))
    store = JsonlStore(tmp_path)

    for call in (
        lambda: store.snapshot("s1").nodes(),
        lambda: store.append(make_header(), [message(5)]),
    ):
        with pytest.raises(CorruptLog) as caught:
            call()
        assert (12, "seq") == (caught.value.line, caught.value.kind)


def test_gap_is_damage_where_it_is(tmp_path: Path) -> None:
    """Events that are missing are named; both sides of the gap are served."""
    events = [message(seq) for seq in (0, 1, 5, 6)]
    plant(tmp_path, log_bytes(events=events))
    store = JsonlStore(tmp_path)

    assert events[:2] == read(store, 0, 2)
    assert events[2:] == read(store, 5, 7)
    for start, stop in ((0, 7), (1, 3), (2, 5), (3, 4), (4, 7)):
        with pytest.raises(CorruptLog) as caught:
            read(store, start, stop)
        assert (4, 5, "seq") == (caught.value.line, caught.value.seq, caught.value.kind)


MALFORMED = [
    b'{"seq":1}',
    b"[]",
    b"null",
    b'"x"',
    b"",
    b"\0\0\0",
    b"{",
    wire(1)[:-1].replace(b'"seq":1', b'"seq":"1"'),
    wire(1)[:-1].replace(b'"seq":1', b'"seq":1.0'),
    wire(1)[:-1].replace(b'"seq":1', b'"seq":true'),
    wire(1)[:-1].replace(b'"seq":1', b'"seq":null'),
    wire(1)[:-1].replace(b'"seq":1', b'"seq":1,"seq":1'),
    wire(1)[:-1].replace(b'"seq":1', b'"seq":-1'),
    wire(1)[:-1].replace(b'"seq":1', b'"seq":01'),
    wire(1)[:-1].replace(b'"text":"text"', b'"text":NaN'),
    wire(1)[:-1].replace(b'"text":"text"', b'"text":1e400'),
    wire(1)[:-1].replace(b'"text":"text"', b'"text":"\xff"'),
    wire(1)[:-1].replace(b'"text":"text"', b'"text":' + b"9" * 5000),
    wire(1)[:-1].replace(b'"text":"text"', b'"text":' + b"[" * 300 + b"]" * 300),
    wire(1)[:-1].replace(b'"text":"text"', b'"text":' + b"[" * 200_000),
    wire(1)[:-1] + b",",
    wire(1)[:-1].replace(b'"data"', b'"extra":1,"data"'),
    wire(1)[:-1].replace(b'"time":1001', b'"time":1001,"sourceEventSeqs":null'),
    wire(1)[:-1].replace(b'"time":1001', b'"time":1001,"surfaceOp":"later"'),
    wire(1)[:-2] + b',"data":{}}',
    wire(1)[:-2] + b',"seq":1}',
    HEADER[:-1],
]


@pytest.mark.parametrize("line", MALFORMED, ids=range(len(MALFORMED)))
def test_j5_malformed_records_are_named(tmp_path: Path, line: bytes) -> None:
    """
    Writers that shared a home left lines that are JSON and no records, and loading crashed.
    Such a line is named by its place, wherever in the log it stands.
    """
    for seq in range(4):
        lines = [wire(number) for number in range(4)]
        lines[seq] = line.replace(b'"seq":1', b'"seq":%d' % seq) + b"\n"
        plant(tmp_path, HEADER + b"".join(lines))
        store = JsonlStore(tmp_path)
        if seq == 3 and not line.strip(b"\0"):
            assert 3 == store.snapshot("s1").length  # padding behind the last line
            continue
        assert 4 == store.snapshot("s1").length
        for start, stop in ((0, 9), (seq, seq + 1)):
            with pytest.raises(CorruptLog) as caught:
                read(store, start, stop)
            offset = len(HEADER) + len(wire(0)) * seq
            assert (2 + seq, offset, seq, "malformed") == place(caught.value)
        others = [number for number in range(4) if number != seq]
        assert others == [read(store, number, number + 1)[0].seq for number in others]


@pytest.mark.parametrize("line", MALFORMED[:14], ids=range(14))
def test_no_append_behind_malformed_records(tmp_path: Path, line: bytes) -> None:
    """A log with a line that is no event takes no more events, and keeps its bytes."""
    data = HEADER + wire(0) + line + b"\n" + wire(2)
    plant(tmp_path, data)
    store = JsonlStore(tmp_path)

    for call in (
        lambda: store.append(make_header(), [message(3)]),
        lambda: store.snapshot("s1").nodes(),
    ):
        with pytest.raises(CorruptLog) as caught:
            call()
        assert (3, "malformed") == (caught.value.line, caught.value.kind)
    assert {"s1.jsonl": data} == files_in(tmp_path)


def test_many_damaged_lines_at_the_end(tmp_path: Path) -> None:
    """Damaged lines at the end count as events, so that nothing there is hidden."""
    plant(tmp_path, log_bytes() + b"broken\n" * 50)
    store = JsonlStore(tmp_path)

    assert 60 == store.snapshot("s1").length
    assert 1_009 == store.heads().items[0].last_time
    assert messages(10) == read(store, 0, 10)
    with pytest.raises(CorruptLog) as caught:
        read(store, 50, 60)
    assert (12, "malformed") == (caught.value.line, caught.value.kind)

    plant(tmp_path, log_bytes() + b"broken\n" * 5_000)
    with pytest.raises(CorruptLog):
        store.snapshot("s1")
    assert ["malformed"] == [fault.kind for fault in store.heads().faults]
