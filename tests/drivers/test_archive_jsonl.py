"""Archived JSONL logs: read in place at the same cost, whole again with the next append."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import zstandard

from eventlog import Event, SessionHeader, open_store
from eventlog.codec import encode_line
from eventlog.drivers.jsonl import JsonlStore
from eventlog.errors import CorruptLog, MissingExtra, SessionDeleted, SessionNotFound, StoreReadOnly
from eventlog.testing import StoreContract
from support import make_header, message, messages, replacement
from support.damage import outline
from support.jsonl import files_in, log_bytes, plant

LONG = [*messages(3_000), replacement(3_000, 10, 20, list(range(10, 21))), message(3_001, "end")]


@pytest.fixture
def store(tmp_path: Path) -> JsonlStore:
    """A store with a long archived session, and a short one that is not."""
    store = JsonlStore(tmp_path)
    store.append(make_header(cwd="/w"), LONG)
    store.append(make_header("s2", parent_session="s1"), messages(3))
    assert store.archive("s1")
    return store


def test_an_archive_reads_as_the_log_did(store: JsonlStore, tmp_path: Path) -> None:
    """Windows, surface, lists and children are those of the log; other processes find it, too."""
    assert {"s1.jsonl.zst", "s2.jsonl"} == set(files_in(tmp_path))
    for reader in (store, JsonlStore(tmp_path, read_only=True)):
        snapshot = reader.snapshot("s1")
        assert LONG == snapshot.read(0, 9_999)
        assert LONG[1_500:1_503] == snapshot.read(1_500, 1_503)
        assert 2_992 == len(snapshot.nodes()) + 1
        assert list(range(10, 21)) == snapshot.replaced(3_000)
        assert ["s1", "s2"] == sorted(head.header.id for head in reader.heads().items)
        assert () == reader.heads().faults
        assert [3_002] == [h.length for h in reader.heads().items if h.header.id == "s1"]
        assert [] == list(reader.verify())
        assert LONG == list(reader.salvage("s1"))
    assert store.archive("s1"), "a second time changes nothing"


def test_changes_and_search_go_on(store: JsonlStore) -> None:
    """Whoever follows the changes hears of an append to an archive, and a search finds it."""
    from eventlog.query import SessionQuery

    query = SessionQuery(store=store)
    token = store.changes().token
    assert [3_001] == [hit.seq for hit in query.search_events("s1", "end").items]
    assert 3_003 == store.append(make_header(cwd="/w"), [message(3_002, "zebra")])
    assert ("s1",) == store.changes(token).session_ids
    store.archive("s1")
    assert [3_002] == [hit.seq for hit in query.search_events("s1", "zebra").items]
    assert "s1" in store.changes(None).session_ids


def test_without_its_package_an_archive_is_a_fault(
    store: JsonlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where zstandard is missing the session says how to install it; the others are listed."""
    import sys

    monkeypatch.setitem(sys.modules, "zstandard", None)
    reader = JsonlStore(store.root)
    with pytest.raises(MissingExtra):
        reader.snapshot("s1")
    page = reader.heads()
    assert ["s2"] == [head.header.id for head in page.items]
    assert ["s1"] == [fault.session_id for fault in page.faults]


def test_any_decoder_gives_the_log_back(store: JsonlStore, tmp_path: Path) -> None:
    """The archive is plain zstd, in frames of whole lines; the seek table is skipped."""
    data = (tmp_path / "s1.jsonl.zst").read_bytes()
    with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
        text = reader.read()
    assert encode_line(make_header(cwd="/w")) + b"".join(map(encode_line, LONG)) == text
    assert len(data) < len(text) / 4


def test_a_window_costs_the_frames_around_it(store: JsonlStore) -> None:
    """A window of an archive decompresses a few frames, not the log."""
    reader = JsonlStore(store.root)
    reader.snapshot("s1")
    reader.meter.reset()
    reader.snapshot("s1").read(2_000, 2_010)
    assert reader.meter.records < 40
    assert reader.meter.bytes < 100_000


def test_an_append_takes_the_log_out_of_the_archive(store: JsonlStore, tmp_path: Path) -> None:
    """The next event, or the retry of stored ones with new, goes on where the log ended."""
    snapshot = store.snapshot("s1")
    other = JsonlStore(tmp_path)
    old = other.snapshot("s1")
    assert 3_002 == store.append(make_header(cwd="/w"), LONG[-2:]), "a retry adds nothing"
    assert "s1.jsonl.zst" in files_in(tmp_path)
    assert 3_003 == store.append(make_header(cwd="/w"), [LONG[-1], message(3_002)])
    assert {"s1.jsonl", "s2.jsonl"} == set(files_in(tmp_path))
    assert [*LONG, message(3_002)] == store.snapshot("s1").read(0, 9_999)
    assert message(3_002).seq == store.snapshot("s1").nodes()[-1]
    assert LONG[:5] == snapshot.read(0, 5) == old.read(0, 5), "older snapshots hold"
    assert store.archive("s1")
    assert LONG[:5] == snapshot.read(0, 5) == old.read(0, 5)
    assert [] == list(store.verify())


def test_an_archive_can_be_deleted(store: JsonlStore, tmp_path: Path) -> None:
    """A deleted session leaves its tombstone and nothing else; it can be used anew."""
    assert store.delete("s1")
    assert {"s1.deleted", "s2.jsonl"} == set(files_in(tmp_path))
    with pytest.raises(SessionDeleted):
        store.append(make_header(cwd="/w"), messages(1))
    with pytest.raises(SessionNotFound):
        store.archive("s1")
    assert store.delete("s1", forget=True)
    assert 1 == store.append(make_header(), messages(1))


def test_what_is_damaged_in_an_archive_is_told(store: JsonlStore, tmp_path: Path) -> None:
    """
    A damaged frame is refused by the windows that touch it and named; the others are served,
    and everything else is salvaged.
    """
    path = tmp_path / "s1.jsonl.zst"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    with JsonlStore(tmp_path) as reader:
        assert LONG[:10] == reader.snapshot("s1").read(0, 10)
        assert LONG[-10:] == reader.snapshot("s1").read(2_992, 3_002)
        with pytest.raises(CorruptLog) as caught:
            reader.snapshot("s1").read(0, 3_002)
        assert "frame" == caught.value.kind
        assert list(reader.verify())
        assert {None} == {finding.change for finding in reader.repair(dry_run=False)}
        found = outline(reader)
        gaps = [item for item in found if not isinstance(item, int)]
        assert 1 == len(gaps)
        seqs = [item for item in found if isinstance(item, int)]
        assert set(seqs) < set(range(3_002))
        assert len(seqs) > 1_000
        assert messages(3) == reader.snapshot("s2").read(0, 3)
    assert bytes(data) == path.read_bytes()


@pytest.mark.parametrize("data", [b"", b"?", b"\x28\xb5\x2f\xfd" + bytes(60), bytes(1_000)])
def test_what_is_no_archive_is_a_fault(tmp_path: Path, data: bytes) -> None:
    """A file of another kind under the name of an archive is one session's fault."""
    plant(tmp_path, log_bytes())
    (tmp_path / "s2.jsonl.zst").write_bytes(data)
    with JsonlStore(tmp_path) as store:
        assert [("s2", "frame")] == [(f.session_id, f.kind) for f in store.heads().faults]
        assert [("s2", "frame")] == [(f.session_id, f.kind) for f in store.verify()]
        with pytest.raises(CorruptLog):
            store.append(make_header("s2"), messages(1))


def test_log_and_archive_side_by_side(store: JsonlStore, tmp_path: Path) -> None:
    """Where a crash left both, the log counts; verifying tells, a repair sets the archive aside."""
    archive = (tmp_path / "s1.jsonl.zst").read_bytes()
    store.append(make_header(cwd="/w"), [message(3_002)])
    (tmp_path / "s1.jsonl.zst").write_bytes(archive)
    with JsonlStore(tmp_path) as reader:
        assert 3_003 == reader.snapshot("s1").length
        assert [("leftover", "set-aside")] == [
            (one.kind, one.change and one.change.action) for one in reader.verify()
        ]
        reader.repair(dry_run=False)
        assert [] == list(reader.verify())
    assert archive == (tmp_path / "s1.1.backup").read_bytes()


def test_a_torn_tail_is_kept_when_a_log_is_archived(tmp_path: Path) -> None:
    """What a crash tore is not part of the archive, and not lost."""
    plant(tmp_path, log_bytes() + b'{"torn')
    with JsonlStore(tmp_path) as store:
        assert store.archive("s1")
        assert messages(10) == store.snapshot("s1").read(0, 99)
    assert b'{"torn\n' == (tmp_path / "s1.torn").read_bytes()


def test_what_cannot_be_archived(tmp_path: Path) -> None:
    """An unknown session, a store open for reading, and a medium that has no smaller form."""
    with JsonlStore(tmp_path) as store, pytest.raises(SessionNotFound):
        store.archive("s1")
    with JsonlStore(tmp_path, read_only=True) as store, pytest.raises(StoreReadOnly):
        store.archive("s1")
    for url in ("memory:", f"lmdb:{tmp_path / 'lmdb'}"):
        with open_store(url) as store:
            with pytest.raises(SessionNotFound):
                store.archive("s1")
            store.append(make_header(), messages(1))
            assert not store.archive("s1")


class Archiving(JsonlStore):
    """A store that archives every session as soon as something was appended to it."""

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        length = super().append(header, events)
        if events:
            self.archive(header.id)
        return length


@pytest.mark.long
class TestArchivingStore(StoreContract):
    """An archived session keeps every promise of the contract."""

    appends_in_a_row = 20
    crowd_sessions = 200

    def open_store(self, root: Path, *, read_only: bool = False) -> JsonlStore:
        return Archiving(root, read_only=read_only)
