"""Verifying JSONL stores: every problem with its class and place, and no byte changed."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from eventlog.codec import converter, encode_line
from eventlog.drivers.jsonl import JsonlStore
from eventlog.errors import StoreClosed, StoreUnavailable
from eventlog.findings import Finding
from support import make_header, message, messages, replacement
from support.damage import DAMAGED, HEADER
from support.jsonl import files_in, log_bytes, plant, wire
from support.processes import dropping_root, forked


def found(root: Path) -> list[Finding]:
    """What verifying finds, which changes nothing."""
    before = files_in(root)
    with JsonlStore(root, read_only=True) as store:
        findings = list(store.verify())
    assert before == files_in(root)
    return findings


def test_a_sound_store_has_no_findings(tmp_path: Path) -> None:
    """Nothing is found where nothing is wrong, nor where there is no store."""
    assert [] == list(JsonlStore(tmp_path / "none").verify())
    with JsonlStore(tmp_path) as store:
        store.append(make_header(), [*messages(3), replacement(3, 0, 1, [0, 1])])
        store.append(make_header("s2"), messages(1))
        store.delete("s2")
    assert [] == found(tmp_path)


LINE = len(wire(0))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a1-torn", [("torn", 12, 10 * LINE, 40, 10)]),
        ("a2-fused", [("fused", 4, 2 * LINE, 12 + LINE, 2)]),
        ("a4-nul", [("torn", 12, 10 * LINE, 4_096, 10)]),
        ("a4-nul-line", [("torn", 12, 10 * LINE, 4_097, 10)]),
        ("a9-beheaded", [("seq", 2, 0, LINE, 5)]),
        ("a10-broken", [("broken-line", 3, LINE, LINE + 7, 1)]),
        ("d2-back", [("seq", 6, 4 * LINE, 2 * len(wire(2, "b")), 2)]),
        ("glued", [("fused", 2, 0, 2 * LINE - 1, 0)]),
        ("hole", [("padding", 3, LINE, 50 + LINE, 1)]),
        ("garbage", [("malformed", 3, LINE, 8, 1), ("malformed", 5, 2 * LINE + 8, 3, 3)]),
        ("reordered", [("seq", 3, LINE, LINE, 2), ("seq", 4, 2 * LINE, LINE, 1)]),
        ("second-header", [("malformed", 3, LINE, len(HEADER), 1)]),
        ("blank", [("padding", 3, LINE, 3, 1)]),
    ],
)
def test_a1_a2_a4_a9_a10_d2_j10_each_problem_is_named(
    tmp_path: Path, name: str, expected: list[tuple[object, ...]]
) -> None:
    """Each problem has its class, line, byte offset behind the header, size, and seq."""
    path = plant(tmp_path, DAMAGED[name])

    findings = found(tmp_path)

    assert expected == [
        (f.kind, f.line, (f.offset_bytes or 0) - len(HEADER), f.size_bytes, f.seq) for f in findings
    ]
    assert {("s1", str(path))} == {(f.session_id, f.path) for f in findings}


def test_a9_the_first_seq_is_named(tmp_path: Path) -> None:
    """A log whose beginning was dropped is not called empty, nor taken as it is."""
    plant(tmp_path, DAMAGED["a9-beheaded"])

    assert ["first seq expected 0, found 5"] == [finding.detail for finding in found(tmp_path)]


def test_a6_a7_headers_strays_and_names(tmp_path: Path) -> None:
    """
    Empty files, damaged headers, logs under another name, folders, links and strays are
    named one by one; sound logs beside them give nothing.
    """
    plant(tmp_path, log_bytes())
    plant(tmp_path, b"", "empty")
    plant(tmp_path, b"{broken header\n" + wire(0), "broken")
    (tmp_path / "other.jsonl").write_bytes(log_bytes(make_header("named"), 1))
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "link.jsonl").symlink_to("/etc/hostname")
    (tmp_path / "notes.txt").write_text("?")
    (tmp_path / ".fresh.new").write_bytes(b"half")
    (tmp_path / ".DS_Store").write_bytes(b"?")

    assert {
        ("directory", "folder.jsonl"),
        ("symlink", "link.jsonl"),
        ("stray", "notes.txt"),
        ("leftover", ".fresh.new"),
        ("header", "broken.jsonl"),
        ("empty", "empty.jsonl"),
        ("misnamed", "other.jsonl"),
    } == {(finding.kind, Path(finding.path or "").name) for finding in found(tmp_path)}


def test_j5_lines_of_the_wrong_shape_are_named_one_by_one(tmp_path: Path) -> None:
    """Well-formed JSON that is no record is a finding of its line, never another exception."""
    bad = [
        b'{"seq":1}',
        b"[]",
        b"null",
        b'"x"',
        b'{"type":"x/a","seq":"2","time":1,"data":{}}',
        b'{"type":"x/a","seq":3.0,"time":1,"data":{}}',
        b'{"type":"x/a","seq":true,"time":1,"data":{}}',
        b'{"type":"x/a","seq":1,"time":1,"data":{"a":1,"a":2}}',
        b'{"type":"x/a","seq":1,"time":1,"data":{"a":NaN}}',
        b"\xff\xfe",
    ]
    plant(tmp_path, HEADER + wire(0) + b"\n".join(bad) + b"\n" + wire(1))

    assert [("malformed", line) for line in range(3, 3 + len(bad))] == [
        (finding.kind, finding.line) for finding in found(tmp_path)
    ]


def test_f1_a_fold_that_fails_is_named_once(tmp_path: Path) -> None:
    """A replacement that cites a missing node is a finding with its place; a person decides."""
    events = [*messages(6), replacement(6, 3, 5, [3, 4]), *messages(2, start=7)]
    plant(tmp_path, HEADER + b"".join(map(encode_line, events)))

    assert [("surface", 8, 6, None)] == [
        (finding.kind, finding.line, finding.seq, finding.change) for finding in found(tmp_path)
    ]


def test_a_deletion_cut_short_is_named(tmp_path: Path) -> None:
    """A log that a tombstone hides is what a deletion left behind."""
    path = plant(tmp_path, log_bytes())
    (tmp_path / "s1.deleted").write_bytes(b'{"deleted":"s1"}\n')

    assert [("leftover", str(path), "delete")] == [
        (finding.kind, finding.path, finding.change and finding.change.action)
        for finding in found(tmp_path)
    ]


def test_findings_are_machine_readable(tmp_path: Path) -> None:
    """A finding is plain fields, down to what its change would write."""
    plant(tmp_path, DAMAGED["a2-fused"])
    record = converter.unstructure(found(tmp_path)[0])

    assert {"kind": "fused", "session_id": "s1", "line": 4, "seq": 2}.items() <= record.items()
    assert wire(2) == record["change"]["inserted"]
    record["change"]["inserted"] = ""
    assert orjson.dumps(record)


def test_one_pass_over_long_lines_and_many_findings(tmp_path: Path) -> None:
    """A long log with damage in many places is read once, and its findings are in file order."""
    parts = [encode_line(message(seq, "x" * 500)) for seq in range(3_000)]
    for seq in range(0, 3_000, 100):
        parts[seq] = b"garbage\n"
    data = HEADER + b"".join(parts)
    plant(tmp_path, data)
    with JsonlStore(tmp_path) as store:
        store.meter.reset()
        findings = list(store.verify())
        assert len(data) <= store.meter.bytes < 1.1 * len(data) + 10_000
    assert list(range(0, 3_000, 100)) == [finding.seq for finding in findings]


def test_stores_that_cannot_be_verified(tmp_path: Path) -> None:
    """A store that is closed, or that is no folder, is an error and not "no findings"."""
    (tmp_path / "file").write_bytes(b"?")
    with pytest.raises(StoreUnavailable):
        list(JsonlStore(tmp_path / "file").verify())
    store = JsonlStore(tmp_path)
    store.close()
    for call in (store.verify, store.repair):
        with pytest.raises(StoreClosed):
            call()


def test_j4_what_may_not_be_read_is_named_and_hides_nothing(tmp_path: Path) -> None:
    """A log that this user may not read is a finding with its path; the others are verified."""
    root = tmp_path / "logs"
    plant(root, log_bytes())
    plant(root, DAMAGED["a2-fused"].replace(b'"s1"', b'"s2"'), "s2")
    denied = plant(root, log_bytes(make_header("s3")), "s3")
    denied.chmod(0)
    for folder in (tmp_path, *tmp_path.parents[:3]):
        if folder != Path("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o055)
    root.chmod(0o755)

    def look() -> None:
        with JsonlStore(root, read_only=True) as store:
            kinds = [(finding.kind, finding.path) for finding in store.verify()]
        assert [("fused", f"{root}/s2.jsonl"), ("denied", str(denied))] == kinds

    assert 0 == forked(dropping_root(look))
