"""Repairing JSONL logs: told first, backed up, done once, and strict reads work after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventlog.codec import encode_line
from eventlog.drivers.jsonl import JsonlStore
from eventlog.errors import CorruptLog, StoreBusy, StoreReadOnly
from eventlog.findings import LOST_TYPE, Finding
from support import make_header, message, messages, replacement
from support.damage import DAMAGED, HEADER
from support.jsonl import Child, files_in, log_bytes, plant, wire


def applied(data: bytes, findings: list[Finding]) -> bytes:
    """What the changes that a dry run told make of a file."""
    for finding in sorted(findings, key=lambda one: one.offset_bytes or 0, reverse=True):
        change, at = finding.change, finding.offset_bytes
        assert change is not None
        assert at is not None
        data = data[:at] + change.inserted + data[at + change.removed_bytes :]
    return data


@pytest.mark.parametrize("name", DAMAGED)
def test_j10_a1_a2_a4_a9_a10_d2_repair(tmp_path: Path, name: str) -> None:
    """
    Users had to mend damaged logs by hand. A dry run tells exactly what it would change; the
    repair changes that, keeps the old bytes, and a second one changes nothing; then strict
    reads, appends and verifying work.
    """
    data = DAMAGED[name]
    path = plant(tmp_path, data)
    with JsonlStore(tmp_path) as store:
        told = store.repair()
        assert {"s1.jsonl": data} == files_in(tmp_path)
        mended = applied(data, told)

        done = store.repair(dry_run=False)

        after = files_in(tmp_path)
        assert mended == path.read_bytes()
        assert [one.kind for one in told] == [one.kind for one in done]
        kept = b"".join(found for name, found in after.items() if name != "s1.jsonl")
        assert data in (kept, mended + kept.removesuffix(b"\n"))
        assert all(one.change and Path(one.change.backup or "?").exists() for one in done)
        assert [] == list(store.verify())
        assert [] == store.repair(dry_run=False)
        assert after == files_in(tmp_path)

        length = store.snapshot("s1").length
        events = store.snapshot("s1").read(0, length)
        assert list(range(length)) == [event.seq for event in events]
        assert length + 1 == store.append(make_header(), [message(length)])
        assert [length] == store.snapshot("s1").nodes()


def test_a2_every_readable_event_keeps_its_seq(tmp_path: Path) -> None:
    """
    No event is renumbered: what was lost is replaced by an event that says so, what was
    recovered takes its place, and what came late is put where it belongs.
    """
    kinds = {}
    for name in ("a2-fused", "a9-beheaded", "garbage", "reordered"):
        plant(tmp_path / name, DAMAGED[name])
        with JsonlStore(tmp_path / name) as store:
            store.repair(dry_run=False)
            events = store.snapshot("s1").read(0, 99)
            kinds[name] = [event.seq for event in events if event.type != LOST_TYPE]
            lost = [event for event in events if event.type == LOST_TYPE]
            assert all(event.ignorable and event.data["reason"] for event in lost)

    assert {
        "a2-fused": [0, 1, 2, 3],
        "a9-beheaded": [5, 6, 7, 8, 9],
        "garbage": [0, 2],
        "reordered": [0, 1, 2, 3],
    } == kinds


def test_d2_the_first_of_two_runs_stays(tmp_path: Path) -> None:
    """Of two events with one seq the first stays; the other is in the backup."""
    plant(tmp_path, DAMAGED["d2-back"])
    with JsonlStore(tmp_path) as store:
        store.repair(dry_run=False)
        texts = [event.data["text"] for event in store.snapshot("s1").read(0, 99)]
    assert ["text"] * 5 == texts
    assert DAMAGED["d2-back"] == (tmp_path / "s1.1.backup").read_bytes()


def test_a_lost_end_of_a_range_was_on_the_surface(tmp_path: Path) -> None:
    """
    Where a later replacement starts or ends with a lost event, that one is put on the
    surface again, so that the log's fold works.
    """
    lines = [encode_line(event) for event in [*messages(4), replacement(4, 1, 2, [1, 2])]]
    lines[1] = b"garbage\n"
    plant(tmp_path, HEADER + b"".join(lines))
    with JsonlStore(tmp_path) as store:
        store.repair(dry_run=False)
        assert [0, 4, 3] == store.snapshot("s1").nodes()
        assert [1, 2] == store.snapshot("s1").replaced(4)
        assert [] == list(store.verify())


def test_a7_what_takes_a_person_is_left(tmp_path: Path) -> None:
    """A damaged header, a fold that fails and a stray are told, and not touched."""
    plant(tmp_path, b"{broken header\n" + wire(0), "broken")
    events = [*messages(3), replacement(3, 0, 1, [0])]
    plant(tmp_path, HEADER + b"".join(map(encode_line, events)))
    (tmp_path / "notes.txt").write_text("?")
    before = files_in(tmp_path)
    with JsonlStore(tmp_path) as store:
        findings = store.repair(dry_run=False)
    assert {("header", None), ("surface", None), ("stray", None)} == {
        (finding.kind, finding.change) for finding in findings
    }
    assert before == files_in(tmp_path)


def test_a6_files_of_the_store_are_put_right(tmp_path: Path) -> None:
    """
    A log under another name gets its own, an empty file and a leftover are set aside, and a
    deletion that was cut short is finished. A name that is taken stays so.
    """
    (tmp_path / "other.jsonl").write_bytes(log_bytes(make_header("named"), 2))
    (tmp_path / "third.jsonl").write_bytes(log_bytes(make_header("s1"), 1))
    plant(tmp_path, log_bytes())
    plant(tmp_path, b"", "empty")
    (tmp_path / ".fresh.new").write_bytes(b"half")
    plant(tmp_path, log_bytes(make_header("gone"), 2), "gone")
    (tmp_path / "gone.deleted").write_bytes(b'{"deleted":"gone"}\n')

    with JsonlStore(tmp_path) as store:
        store.repair(dry_run=False)
        assert ["misnamed"] == [finding.kind for finding in store.verify()]
        assert messages(2) == store.snapshot("named").read(0, 9)
        assert messages(10) == store.snapshot("s1").read(0, 99)
        assert store.head("empty") is None
    assert {
        "empty.1.backup": b"",
        "fresh.1.backup": b"half",
        "gone.deleted": b'{"deleted":"gone"}\n',
        "named.jsonl": log_bytes(make_header("named"), 2),
        "s1.jsonl": log_bytes(),
        "third.jsonl": log_bytes(make_header("s1"), 1),
    } == files_in(tmp_path)


def test_a_leftover_that_is_the_log_is_no_backup(tmp_path: Path) -> None:
    """
    A creation that died between giving the log its name and dropping the other left one file
    under two names. Only the spare name goes.
    """
    path = plant(tmp_path, log_bytes())
    (tmp_path / ".s1.new").hardlink_to(path)
    with JsonlStore(tmp_path) as store:
        store.repair(dry_run=False)
    assert {"s1.jsonl": log_bytes()} == files_in(tmp_path)


def test_backups_are_numbered_and_go_with_their_session(tmp_path: Path) -> None:
    """Each repair has a backup of its own; deleting the session deletes them, and no others."""
    for session_id in ("s1", "s1.1"):
        for _ in range(2):
            plant(
                tmp_path,
                DAMAGED["a2-fused"].replace(b'"s1"', b'"%b"' % session_id.encode()),
                session_id,
            )
            with JsonlStore(tmp_path) as store:
                store.repair(dry_run=False)
    others = {"s1.1.jsonl", "s1.1.1.backup", "s1.1.2.backup"}
    assert others | {"s1.jsonl", "s1.1.backup", "s1.2.backup"} == set(files_in(tmp_path))
    with JsonlStore(tmp_path) as store:
        assert store.delete("s1")
    assert others | {"s1.deleted"} == set(files_in(tmp_path))


def test_a_reader_and_a_writer_beside_a_repair(tmp_path: Path) -> None:
    """
    A store that was open while another mended its log sees the mended one, and appends to
    it; a log that a writer holds is left alone.
    """
    plant(tmp_path, DAMAGED["a2-fused"])
    other = JsonlStore(tmp_path)
    with pytest.raises(CorruptLog):
        other.snapshot("s1").read(0, 4)

    def hold(tell: object) -> None:
        import time

        with JsonlStore(tmp_path)._writing("s1"):
            tell("held")  # type: ignore[operator]
            time.sleep(60)

    with JsonlStore(tmp_path, lock_wait_s=0.1) as store:
        with Child(hold) as child:
            child.told()
            with pytest.raises(StoreBusy):
                store.repair(dry_run=False)
        assert {"s1.jsonl": DAMAGED["a2-fused"]} == files_in(tmp_path)
        store.repair(dry_run=False)
    assert [0, 1, 2, 3] == [event.seq for event in other.snapshot("s1").read(0, 4)]
    assert 5 == other.append(make_header(), [message(4)])


def test_a_read_only_store_tells_and_does_nothing(tmp_path: Path) -> None:
    """Reading rights are enough for a dry run."""
    plant(tmp_path, DAMAGED["a2-fused"])
    with JsonlStore(tmp_path, read_only=True) as store:
        assert ["fused"] == [finding.kind for finding in store.repair()]
        with pytest.raises(StoreReadOnly):
            store.repair(dry_run=False)
    assert {"s1.jsonl": DAMAGED["a2-fused"]} == files_in(tmp_path)


def test_too_much_lost_is_left_to_a_person(tmp_path: Path) -> None:
    """A seq that leaps by a billion is not filled with a billion events."""
    plant(tmp_path, HEADER + wire(0) + wire(10**9))
    with JsonlStore(tmp_path) as store:
        assert [("seq", None)] == [(one.kind, one.change) for one in store.repair(dry_run=False)]
