"""Pruning and archiving: nothing by itself, nothing live, and told before it is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventlog import EventStore, LiveSessions, PrunePolicy, ReadOnlyStore, open_store
from eventlog.errors import InvalidArgument, SequenceConflict, SessionDeleted, StoreReadOnly
from eventlog.pruning import Pruned, Spared, archive_session, is_same, prune
from support import corpus, make_header, message, messages

DAY_MS = 86_400_000
NOW_MS = 1_000 * DAY_MS


def filled(url: str) -> EventStore:
    """Sessions last used 0, 100, 400 and 800 days ago."""
    store = open_store(url)
    for days in (0, 100, 400, 800):
        time = NOW_MS - days * DAY_MS
        header = make_header(f"d{days}", created_at=time - 1_000, cwd=f"/w{days % 3}")
        store.append(header, [message(seq, time=time - 1 + seq) for seq in range(2)])
    return store


def ids(store: EventStore) -> list[str]:
    return sorted(head.header.id for head in store.heads().items)


@pytest.fixture(params=["memory:", "lmdb:", "jsonl:"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> EventStore:
    """A store of each kind."""
    where = request.param if request.param == "memory:" else f"{request.param}{tmp_path / 'store'}"
    return filled(where)


def test_j8_nothing_is_deleted_unasked(store: EventStore) -> None:
    """
    Old transcripts were deleted by default, silently and for good. A policy needs an age,
    pruning is a dry run unless it is told otherwise, and says what it would do.
    """
    with pytest.raises(TypeError):
        PrunePolicy()  # type: ignore[call-arg]
    account = prune(store, PrunePolicy(365 * DAY_MS), now_ms=NOW_MS)

    assert (4, True, ["d800", "d400"]) == (
        account.found,
        account.dry_run,
        [one.session_id for one in account.pruned],
    )
    assert Pruned("d400", 2, NOW_MS - 400 * DAY_MS, False) == account.pruned[1]
    assert 4 == len(ids(store))
    assert not store.prune(PrunePolicy(365 * DAY_MS)).spared
    assert 4 == len(ids(store))


def test_j8_pruning_does_what_it_told(store: EventStore) -> None:
    """What is old goes and stays away; the account is that of the dry run."""
    policy = PrunePolicy(365 * DAY_MS)
    told = prune(store, policy, now_ms=NOW_MS)
    done = prune(store, policy, dry_run=False, now_ms=NOW_MS)

    assert told.pruned == done.pruned
    assert ["d0", "d100"] == ids(store)
    with pytest.raises(SessionDeleted):
        store.append(make_header("d800"), messages(1))
    assert () == prune(store, policy, dry_run=False, now_ms=NOW_MS).pruned


def test_a_policy_is_all_of_its_conditions(store: EventStore) -> None:
    """The newest are spared, and other directories."""

    def named(policy: PrunePolicy) -> list[str]:
        return [one.session_id for one in prune(store, policy, now_ms=NOW_MS).pruned]

    assert ["d800"] == named(PrunePolicy(365 * DAY_MS, keep_newest=3))
    assert [] == named(PrunePolicy(0, keep_newest=9))
    assert ["d400", "d100"] == named(PrunePolicy(0, cwd="/w1"))
    assert ["d800", "d400", "d100"] == named(PrunePolicy(99 * DAY_MS))
    for bad in (-1, True, 1.5, None):
        with pytest.raises(InvalidArgument):
            PrunePolicy(bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument):
        prune(store, 3)  # type: ignore[arg-type]


def test_a_live_session_is_never_touched(store: EventStore) -> None:
    """A session that this process holds is spared, however old its events are."""
    live = LiveSessions()
    session = live.create(session_id="d800")
    account = prune(store, PrunePolicy(1), dry_run=False, live=live, now_ms=NOW_MS)
    assert (Spared("d800", "live", "it is live"),) == account.spared
    assert "d800" in ids(store)
    live.dispose(session)
    prune(store, PrunePolicy(1), dry_run=False, live=live, now_ms=NOW_MS)
    assert ["d0"] == ids(store)


def test_a_store_that_refuses_writes_ends_it(tmp_path: Path) -> None:
    """One that is read-only would refuse every session in turn; it is the caller's to mend."""
    filled(f"jsonl:{tmp_path}").close()
    with (
        open_store(f"jsonl:{tmp_path}", read_only=True) as store,
        pytest.raises(StoreReadOnly),
    ):
        prune(store, PrunePolicy(1), dry_run=False, now_ms=NOW_MS)


def test_j4_what_cannot_be_looked_at_is_told(tmp_path: Path) -> None:
    """A log without a readable header is left, and is no part of a quiet "nothing to do"."""
    with filled(f"jsonl:{tmp_path}") as store:
        (tmp_path / "broken.jsonl").write_bytes(b"{no header\n")
        account = prune(store, PrunePolicy(365 * DAY_MS), dry_run=False, now_ms=NOW_MS)
    assert 2 == len(account.pruned)
    assert [str(tmp_path / "broken.jsonl")] == [fault.path for fault in account.faults]
    assert (tmp_path / "broken.jsonl").exists()


def test_pruned_into_an_archive(store: EventStore, tmp_path: Path) -> None:
    """What is taken out is in the archive first, compressed, event by event the same."""
    before = {name: store.snapshot(name).read(0, 9) for name in ("d400", "d800")}
    with open_store(f"jsonl:{tmp_path / 'archive'}") as archive:
        account = prune(
            store, PrunePolicy(365 * DAY_MS), dry_run=False, archive=archive, now_ms=NOW_MS
        )
        assert [True, True] == [one.archived for one in account.pruned]
        assert before == {name: archive.snapshot(name).read(0, 9) for name in before}
    assert ["d0", "d100"] == ids(store)
    assert ["d400.jsonl.zst", "d800.jsonl.zst"] == sorted(
        path.name for path in (tmp_path / "archive").iterdir()
    )


def test_an_archive_that_differs_keeps_its_session(store: EventStore, tmp_path: Path) -> None:
    """Where the archive holds another session of that id, nothing is deleted."""
    with open_store(f"jsonl:{tmp_path / 'archive'}") as archive:
        archive.append(make_header("d800", cwd="/other"), messages(1))
        longer = store.snapshot("d400")
        archive.append(longer.header, longer.read(0, 2))
        archive.append(longer.header, [message(2)])
        account = prune(
            store, PrunePolicy(365 * DAY_MS), dry_run=False, archive=archive, now_ms=NOW_MS
        )
        assert [("d800", "HeaderConflict"), ("d400", "SequenceConflict")] == [
            (one.session_id, one.kind) for one in account.spared
        ]
        with pytest.raises(SequenceConflict):
            archive_session(store, "d400", archive)
    assert 4 == len(ids(store))


def test_a_jsonl_store_is_its_own_archive(tmp_path: Path) -> None:
    """With itself as the archive, old sessions are compressed where they lie, and stay."""
    with filled(f"jsonl:{tmp_path}") as store:
        account = prune(
            store, PrunePolicy(365 * DAY_MS), dry_run=False, archive=store, now_ms=NOW_MS
        )
        assert 2 == len(account.pruned)
        assert 4 == len(ids(store))
    assert 2 == len(list(tmp_path.glob("*.zst")))


@pytest.mark.parametrize("driver", ["lmdb", "jsonl"])
def test_a_store_is_not_pruned_into_itself(tmp_path: Path, driver: str) -> None:
    """
    Opened a second time, by another way to the same folder, it is no archive to delete for:
    what cannot be compressed where it lies is left, and nothing is lost.
    """
    (tmp_path / "way").symlink_to(tmp_path, target_is_directory=True)
    with (
        filled(f"{driver}:{tmp_path / 'store'}") as store,
        open_store(f"{driver}:{tmp_path / 'way' / 'store'}") as again,
    ):
        policy = PrunePolicy(365 * DAY_MS)
        account = prune(store, policy, dry_run=False, archive=again, now_ms=NOW_MS)
        wrapped = ReadOnlyStore(again)

        assert is_same(store, again)
        assert is_same(store, wrapped)
        assert not is_same(store, open_store("memory:"))
        assert not is_same(open_store("memory:"), open_store("memory:"))
        assert 4 == len(ids(store))
        assert 4 == sum(2 == len(store.snapshot(name).read(0, 9)) for name in ids(store))
        compressed, left = len(account.pruned), len(account.spared)
        assert (compressed, left) == ((2, 0) if driver == "jsonl" else (0, 2))


def test_a_store_open_for_reading_is_only_told_about(tmp_path: Path) -> None:
    """A dry run needs no right to write."""
    filled(f"jsonl:{tmp_path}").close()
    with open_store(f"jsonl:{tmp_path}", read_only=True) as store:
        assert 4 == len(store.prune(PrunePolicy(DAY_MS)).pruned)
        with pytest.raises(StoreReadOnly):
            store.prune(PrunePolicy(DAY_MS), dry_run=False)


def test_recorded_logs_are_archived_whole(tmp_path: Path) -> None:
    """Logs of the reference, packed rows and all, come back from an archive as they were."""
    from eventlog.codec import decode_line
    from eventlog.drivers.jsonl.names import log_name
    from eventlog.model import SessionHeader

    count = 0
    for path in sorted(corpus("dsh").rglob("*.jsonl"))[:40]:
        data = path.read_bytes()
        header = decode_line(data.partition(b"\n")[0])
        assert isinstance(header, SessionHeader)
        (tmp_path / log_name(header.id)).write_bytes(data)
        with open_store(f"jsonl:{tmp_path}") as store:
            before = list(store.salvage(header.id))
            store.archive(header.id)
            assert before == list(store.salvage(header.id))
        count += 1
    assert count
