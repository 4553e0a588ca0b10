"""One process creates a session while another deletes it, at the moments that matter."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eventlog.drivers.jsonl import JsonlStore, logs, repairing
from eventlog.drivers.jsonl.archived import open_log
from eventlog.drivers.jsonl.catalogue import list_folder
from eventlog.drivers.jsonl.locking import FileLock
from eventlog.drivers.jsonl.verifying import verified
from eventlog.drivers.jsonl.writing import claimed, is_at, write_tombstone
from eventlog.errors import SequenceConflict, SessionDeleted, SessionNotFound, StoreBusy
from eventlog.findings import Change, Finding
from support import make_header, message, messages, replacement
from support.jsonl import Child, files_in, in_child

Call = Callable[..., Any]


def followed_by(call: Call, act: Callable[[], Any]) -> Call:
    """*call*, with *act* in another process behind its first return."""
    pending = [act]

    def wrapped(*args: Any, **named: Any) -> Any:
        result = call(*args, **named)
        if pending:
            in_child(pending.pop())
        return result

    return wrapped


def test_new_log_is_its_creators_until_it_has_looked_at_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The process that created a log let go of it and then looked at it. Where another one
    had deleted it meanwhile, FileNotFoundError got out; where it had put another log in
    its place, that one was taken to have the fold of the first.
    """

    def begin_anew() -> None:
        with JsonlStore(tmp_path, lock_wait_s=0) as other, pytest.raises(StoreBusy):
            other.delete("s1", forget=True)

    store = JsonlStore(tmp_path)
    monkeypatch.setattr(logs.Logs, "survey", followed_by(logs.Logs.survey, begin_anew))

    assert 2 == store.append(make_header(), messages(2))


def test_deleting_leaves_a_log_that_appeared_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Deleting a deleted session removed its log once more. One that another process had
    created since was lost, though acknowledged, and without a tombstone.
    """

    def begin_anew() -> None:
        with JsonlStore(tmp_path) as other:
            other.delete("s1", forget=True)
            other.append(make_header(), messages(2))

    store = JsonlStore(tmp_path)
    store.append(make_header(), messages(1))
    store.delete("s1")
    monkeypatch.setattr(logs.Logs, "is_deleted", followed_by(logs.Logs.is_deleted, begin_anew))

    assert not store.delete("s1")

    assert 2 == store.snapshot("s1").length


def test_deleting_waits_for_a_creation_under_way(tmp_path: Path) -> None:
    """
    Deleting a deleted session took away the file in which another process was creating
    it anew. What that one then published could be a third one's.
    """
    with JsonlStore(tmp_path, lock_wait_s=5) as store:
        store.append(make_header(), messages(1))
        store.delete("s1")
        new_path = f"{tmp_path}/.s1.new"

        def create(tell: Callable[[Any], None]) -> None:
            with claimed(new_path, 5):
                tell("claimed")
                until = time.monotonic() + 0.3
                while os.path.exists(new_path) and time.monotonic() < until:
                    time.sleep(0.01)
                tell(os.path.exists(new_path))

        with Child(create) as child:
            assert "claimed" == child.told()
            store.delete("s1")
            assert child.told() is True
    assert {"s1.deleted"} == set(files_in(tmp_path))


def test_log_begun_anew_after_an_archived_one_has_its_own_fold(tmp_path: Path) -> None:
    """
    A log that was deleted, forgotten and begun anew by another process, shorter and with
    the same header, was taken for an older form of the archived one that was known. It was
    read with its fold, and appends were judged by it: an event that no fold accepts got in.
    """

    root = tmp_path / "store"

    def begin_anew() -> None:
        # Or the new log may get the old one's inode, by which it is told from it.
        os.link(root / "s1.jsonl.zst", tmp_path / "kept")
        with JsonlStore(root) as other:
            other.delete("s1", forget=True)
            other.append(make_header(), messages(3))

    with JsonlStore(root) as store:
        store.append(make_header(), [*messages(4), replacement(4, 1, 2, [1, 2])])
        store.archive("s1")
        assert [0, 4, 3] == store.snapshot("s1").nodes()
        in_child(begin_anew)

        assert [0, 1, 2] == store.snapshot("s1").nodes()
        assert 4 == store.append(make_header(), [replacement(3, 1, 2, [1, 2])])
        assert [0, 3] == store.snapshot("s1").nodes()
        assert [] == list(store.verify())


def test_creation_beside_one_that_was_archived_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A session that another process had created and archived since one had looked for it was
    created once more: the new log hid the archive, and all that was acknowledged in it.
    """

    def create_and_archive() -> None:
        with JsonlStore(tmp_path) as other:
            other.append(make_header(), messages(3))
            other.archive("s1")

    store = JsonlStore(tmp_path)
    monkeypatch.setattr(logs.Logs, "locked", followed_by(logs.Logs.locked, create_and_archive))

    assert 3 == store.append(make_header(), messages(2))

    assert messages(3) == store.snapshot("s1").read(0, 9)
    assert {"s1.jsonl.zst"} == set(files_in(tmp_path))


@pytest.mark.parametrize("is_archived", [False, True])
def test_repair_leaves_a_log_that_began_anew_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_archived: bool
) -> None:
    """
    What a crash had left of a deletion was found without a lock and removed without
    another look. The session may have been forgotten and begun anew meanwhile.
    """

    def begin_anew() -> None:
        with JsonlStore(tmp_path) as other:
            other.delete("s1", forget=True)
            other.append(make_header(), messages(2))
            if is_archived:
                other.archive("s1")

    with JsonlStore(tmp_path) as store:
        store.append(make_header(), messages(3))
        if is_archived:
            store.archive("s1")
        write_tombstone(f"{tmp_path}/s1.deleted", "s1")
        assert ["leftover"] == [finding.kind for finding in store.verify()]
        found = followed_by(lambda logs: list(verified(logs)), begin_anew)
        monkeypatch.setattr(repairing, "verified", found)

        assert [] == store.repair(dry_run=False)

        assert messages(2) == store.snapshot("s1").read(0, 9)


def test_verify_and_repair_beside_a_creation_under_way(tmp_path: Path) -> None:
    """Repair moved the file in which another process was creating a session out of its way."""

    def create(tell: Callable[[Any], None]) -> None:
        with claimed(f"{tmp_path}/.s1.new", 5):
            tell("claimed")
            time.sleep(0.3)
            tell(os.path.exists(f"{tmp_path}/.s1.new"))

    with JsonlStore(tmp_path, lock_wait_s=5) as store, Child(create) as child:
        assert "claimed" == child.told()
        leftover = Finding(
            "leftover", "s1", f"{tmp_path}/.s1.new", detail="", change=Change("set-aside")
        )
        assert [] == list(store.verify())
        repairing._tidied(store._logs, leftover, f"{tmp_path}/.s1.new")
        assert child.told() is True


def test_x5_lock_that_an_interrupt_tore_away_is_free(tmp_path: Path) -> None:
    """
    An interrupt between taking a lock and entering its context left the file locked for as
    long as the process lived: each later append waited, and was StoreBusy.
    """
    store = JsonlStore(tmp_path)
    store.append(make_header(), messages(1))
    fd = os.open(tmp_path / "s1.jsonl", os.O_RDWR)
    FileLock(fd, "s1", 0)

    def append() -> int:
        return JsonlStore(tmp_path, lock_wait_s=0).append(make_header(), messages(1, start=1))

    assert 2 == in_child(append)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)


def test_released_lock_leaves_the_next_one_alone(tmp_path: Path) -> None:
    """The number of a closed file may be that of the next: ending twice must not end that."""
    paths = [tmp_path / name for name in ("one", "other")]
    for path in paths:
        path.touch()
    first_fd = os.open(paths[0], os.O_RDWR)
    first = FileLock(first_fd, "one", 0)
    first.release()
    other_fd = os.open(paths[1], os.O_RDWR)
    assert first_fd == other_fd
    with FileLock(other_fd, "other", 0):
        first.release()
        del first
        os.fstat(other_fd)


def test_many_create_and_delete_one_session(tmp_path: Path) -> None:
    """Whoever loses a race is told so by the contract's errors, and nothing is left over."""

    def work(seed: int) -> Callable[[Callable[[Any], None]], None]:
        def run(tell: Callable[[Any], None]) -> None:
            pick = random.Random(seed)
            store = JsonlStore(tmp_path)
            for _ in range(120):
                try:
                    if pick.random() < 0.4:
                        store.delete("s1", forget=pick.random() < 0.5)
                    head = store.head("s1")
                    start = 0 if head is None else head.length
                    store.append(make_header(), [message(start), message(start + 1)])
                except (SequenceConflict, SessionDeleted, SessionNotFound):
                    pass
            tell("done")

        return run

    with Child(work(1)) as one, Child(work(2)) as other, Child(work(3)) as third:
        assert ["done"] * 3 == [child.told() for child in (one, other, third)]
    assert set(files_in(tmp_path)) <= {"s1.jsonl", "s1.deleted"}
    with JsonlStore(tmp_path) as store:
        assert [] == list(store.verify())


def test_deleting_leaves_an_archive_that_appeared_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Deleting removed the log, and with it let go of the session's lock, before the archive
    that might have stood beside it. One that another process had made of a new session by
    then was lost, though all in it was acknowledged.
    """

    def begin_anew() -> None:
        with JsonlStore(tmp_path) as other:
            other.delete("s1", forget=True)
            other.append(make_header(), messages(2))
            other.archive("s1")

    store = JsonlStore(tmp_path)
    store.append(make_header(), messages(1))
    monkeypatch.setattr(os, "unlink", followed_by(os.unlink, begin_anew))
    store.delete("s1")

    assert messages(2) == store.snapshot("s1").read(0, 2)


def test_another_log_with_the_same_header_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A log that was begun anew, and gone again between its opening and the look at it, was
    taken for the old one before it grew, and told to be truncated.
    """

    def begin_anew() -> None:
        with JsonlStore(tmp_path) as other:
            other.delete("s1", forget=True)
            other.append(make_header(), messages(2))

    def delete() -> None:
        with JsonlStore(tmp_path) as other:
            other.delete("s1", forget=True)

    store = JsonlStore(tmp_path)
    store.append(make_header(), messages(4))
    snapshot = store.snapshot("s1")
    with open(tmp_path / "s1.jsonl"):  # its inode is not used again
        in_child(begin_anew)
    monkeypatch.setattr(logs.Logs, "open", followed_by(logs.Logs.open, delete))

    with pytest.raises(SessionNotFound):
        snapshot.read(0, 4)


def test_log_that_moves_and_grows_is_read_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Archived, taken out and longer since it was opened, it is the same log.
    """

    def move() -> None:
        with JsonlStore(tmp_path) as other:
            other.archive("s1")
            other.append(make_header(), messages(2, start=4))

    store = JsonlStore(tmp_path)
    store.append(make_header(), messages(4))
    snapshot = store.snapshot("s1")
    monkeypatch.setattr(logs.Logs, "open", followed_by(logs.Logs.open, move))

    assert messages(4) == snapshot.read(0, 4)
    assert messages(6) == store.snapshot("s1").read(0, 6)


def test_listing_does_not_wait_for_files_to_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A log that is another file at each look, with the same header, has its place all the
    same: the listing was told to be unavailable.
    """

    def move() -> None:
        with JsonlStore(tmp_path) as other:
            if not os.path.lexists(tmp_path / "s1.jsonl.zst"):
                other.archive("s1")
            else:
                length = other.snapshot("s1").length
                other.append(make_header(), [message(length)])

    def open_moved(*args: Any) -> Any:
        in_child(move)
        return open_log(*args)

    store = JsonlStore(tmp_path)
    store.append(make_header(), messages(1))
    assert ["s1"] == [head.header.id for head in store.heads().items]
    monkeypatch.setattr("eventlog.drivers.jsonl.store.open_log", open_moved)

    assert ["s1"] == [head.header.id for head in store.heads().items]


def test_log_of_a_session_that_is_deleted_later_is_not_left_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A session that was forgotten, begun anew and deleted while verifying looked for its log
    and its tombstone was told to have left its log behind.
    """

    def begin_anew() -> None:
        with JsonlStore(tmp_path) as other:
            other.delete("s1", forget=True)
            other.append(make_header(), messages(1))

    def delete() -> None:
        with JsonlStore(tmp_path) as other:
            other.delete("s1")

    store = JsonlStore(tmp_path)
    store.append(make_header(), messages(1))
    store.delete("s1")
    verifying = "eventlog.drivers.jsonl.verifying"
    monkeypatch.setattr(f"{verifying}.list_folder", followed_by(list_folder, begin_anew))
    monkeypatch.setattr(f"{verifying}.is_at", followed_by(is_at, delete))

    assert [] == list(store.verify())
