"""Damaged logs of DeepSeek Harness: what is sound is read, what is not is named."""

from __future__ import annotations

import base64
import json
from collections import Counter
from pathlib import Path

import pytest

from eventlog import Event, EventLogError, open_store
from eventlog.drivers.transcripts.dsh import DeepSeekHarness, read_log
from eventlog.importing import import_transcripts
from eventlog.sources import RecordTally
from support import corpus
from support.differences import Difference

HEADER = b'{"type":"session","version":0,"id":"s","createdAt":1,"delegationDepth":0}\n'


def line(seq: int) -> bytes:
    return b'{"type":"turn/start","seq":%d,"time":%d,"data":{"turn":%d}}\n' % (seq, seq, seq)


def read(path: Path) -> tuple[list[int], RecordTally]:
    """The seqs that are read from a log, and the count of its lines."""
    tally = RecordTally()
    items = list(read_log(path, path.stat().st_size, tally))
    assert tally.adds_up
    return [item.seq for item in items if isinstance(item, Event)], tally


def test_prefix_before_the_first_damage_agrees(tmp_path: Path) -> None:
    """
    Of 696 damaged logs the events before the damage are those that the recorder keeps;
    behind it everything is read or named, where the recorder drops whole lines in silence.
    """
    path = tmp_path / "session.jsonl"
    differing: Counter[Difference] = Counter()
    agreeing = 0
    with corpus("fuzz", "scanlog.jsonl").open(encoding="utf-8", newline="\n") as lines:
        for text in lines:
            case = json.loads(text)
            content = base64.b64decode(case["bytesBase64"])
            path.write_bytes(content)
            theirs = case["scan"]
            try:
                seqs, tally = read(path)
            except EventLogError:
                if theirs["ok"]:
                    differing[Difference.HEADER_FIELD_TYPES] += 1
                else:
                    agreeing += 1
                continue
            if theirs["ok"]:
                assert theirs["seqs"] == seqs[: len(theirs["seqs"])], case["id"]
                dropped = theirs["committedBytes"] < len(content)
                assert dropped is (tally.refused > 0), case["id"]
                differing[Difference.REPORTS_DAMAGE] += dropped
                differing[Difference.GOES_ON_BEHIND_DAMAGE] += len(seqs) > len(theirs["seqs"])
                agreeing += not dropped
            elif tally.refused:
                differing[Difference.READS_PREFIX_OF_DAMAGED] += 1
            elif "retired policy" in theirs["error"]["message"]:
                differing[Difference.HEADER_RETIRED_KEYS] += 1
            else:
                assert "not a session header" in theirs["error"]["message"]
                differing[Difference.HEADER_ORIGIN] += 1

    assert {found: found.cases for found in differing} == differing
    assert 284 == agreeing


@pytest.mark.parametrize(
    ("name", "kept", "kinds"),
    [
        ("good", [0, 1], []),
        ("badBeforeEnd", [0, 1], ["malformed"]),
        ("gapThenEnd", [0, 1], ["seq"]),
        ("nul", [0, 1], ["malformed"]),
        ("unknown", [0, 1, 2], []),
        ("unknownIgn", [0, 1, 2], []),
        ("row1", [0, 1, 2], []),
        ("extraKey", [], ["malformed", "seq"]),
        ("floats", [], ["malformed"]),
    ],
)
@pytest.mark.parametrize("encoding", ["none", "zstd"])
def test_damaged_roots_are_read_as_far_as_they_are_sound(
    encoding: str, name: str, kept: list[int], kinds: list[str]
) -> None:
    """The recorder's own damaged logs: what is kept, and how the rest is named."""
    folder = corpus("dsh-roots", "damage", encoding, "--w--", name)
    seqs, tally = read(next(folder.iterdir()))

    assert kept == seqs
    assert kinds == [fault.kind for fault in tally.faults]


def test_a2_a_fused_line_is_a_fault_and_what_follows_never_takes_its_place(tmp_path: Path) -> None:
    """
    A torn stub and the next whole record share a line: the line is named, and the event
    behind it is not read as though it followed the one before.
    """
    path = tmp_path / "session.jsonl"
    path.write_bytes(HEADER + line(0) + line(1) + b'{"seq":2,"ty' + line(2) + line(3))

    seqs, tally = read(path)

    assert [0, 1] == seqs
    assert [(4, "malformed", 1), (5, "seq", 1)] == [
        (fault.line, fault.kind, fault.records) for fault in tally.faults
    ]
    assert len(HEADER + line(0) + line(1)) == tally.faults[0].offset_bytes


def test_b6_a_byte_order_mark_is_accepted_at_the_start_only(tmp_path: Path) -> None:
    """A mark before the header is skipped; one before a later line is damage."""
    path = tmp_path / "session.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + HEADER + b"".join(map(line, range(10))))
    assert (list(range(10)), 0) == (read(path)[0], read(path)[1].refused)

    path.write_bytes(HEADER + line(0) + b"\xef\xbb\xbf" + line(1))
    seqs, tally = read(path)
    assert ([0], ["malformed"]) == (seqs, [fault.kind for fault in tally.faults])


def test_b1_a_lone_surrogate_costs_a_character_and_no_event(tmp_path: Path) -> None:
    """
    Half of an emoji in one event: the event is imported with U+FFFD in its place, its
    exact text beside it, and the events behind it follow.
    """
    path = tmp_path / "session.jsonl"
    broken = b'{"type":"x/note","seq":1,"time":1,"data":{"text":"ok \\ud83d end"}}'
    path.write_bytes(HEADER + line(0) + broken + b"\n" + line(2))
    with open_store("memory:") as store:
        account = import_transcripts(store, DeepSeekHarness(), [path])
        event = store.snapshot("s").read(1, 2)[0]

    assert (3, 1, 0) == (account.events, account.records.altered, account.records.refused)
    assert "ok � end" == event.data["text"]
    assert broken.decode() == event.data["origin"]["raw"]


def test_j5_lines_of_the_wrong_shape_are_named_and_passed_over(tmp_path: Path) -> None:
    """JSON that is no event is a fault of its line; a bool and a float are no seq."""
    wrong = [b'{"seq":1}', b"[]", b"null", b'"x"', b"", b"{}"]
    wrong += [
        line(0).replace(b'"seq":0', b'"seq":%s' % seq).strip() for seq in (b'"0"', b"0.0", b"true")
    ]
    path = tmp_path / "session.jsonl"
    path.write_bytes(HEADER + b"\n".join(wrong) + b"\n" + line(0) + line(1))

    seqs, tally = read(path)

    assert [0, 1] == seqs
    assert len(wrong) == tally.refused == sum(fault.records for fault in tally.faults)
    assert {"malformed"} == {fault.kind for fault in tally.faults}


def test_a6_empty_files_and_strays_are_named_one_by_one(tmp_path: Path) -> None:
    """Three empty logs, a folder without one and a stray file beside a good session."""
    for name in ("e1", "e2", "e3", "good", "orphan"):
        (tmp_path / "p" / name).mkdir(parents=True)
        if name != "orphan":
            (tmp_path / "p" / name / "session.jsonl").write_bytes(b"")
    (tmp_path / "p" / "good" / "session.jsonl").write_bytes(HEADER + line(0))
    (tmp_path / "p" / ".DS_Store").write_bytes(b"\0\1")
    with open_store("memory:") as store:
        account = import_transcripts(store, DeepSeekHarness(), [tmp_path])

    assert (4, 1, 3) == (account.found, account.new, len(account.refused))
    assert all("empty" in refused.reason for refused in account.refused)
    assert account.adds_up


@pytest.mark.parametrize("cut", [1, 5, 40, 200])
def test_a_torn_zstd_frame_gives_what_it_still_holds(tmp_path: Path, cut: int) -> None:
    """The last frame is cut: the frames before it are read, and the damage is named."""
    zstandard = pytest.importorskip("zstandard")
    frame = zstandard.ZstdCompressor(write_checksum=True).compress
    head = frame(HEADER) + frame(line(0) + line(1))
    tail = frame(b"".join(line(n) for n in range(2, 400)))
    path = tmp_path / "session.jsonl.zstd"
    path.write_bytes(head + tail[:-cut])

    seqs, tally = read(path)

    assert [0, 1] == seqs[:2]
    assert list(range(len(seqs))) == seqs
    assert "torn" == tally.faults[-1].kind


def test_a_zstd_frame_with_a_wrong_checksum_is_named(tmp_path: Path) -> None:
    """One byte of a complete frame is changed: the fault has the frame's offset."""
    zstandard = pytest.importorskip("zstandard")
    frame = zstandard.ZstdCompressor(write_checksum=True).compress
    first = frame(HEADER + line(0))
    path = tmp_path / "session.jsonl.zstd"
    second = bytearray(frame(line(1)))
    second[-1] ^= 0xFF
    path.write_bytes(first + bytes(second))

    seqs, tally = read(path)

    assert [0] == [seq for seq in seqs if seq == 0]
    assert ["malformed"] == [fault.kind for fault in tally.faults]
    assert "zstd" in tally.faults[0].reason
