"""One process creates a session while another deletes it, at the moments that matter."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eventlog.drivers.jsonl import JsonlStore, logs
from eventlog.drivers.jsonl.locking import FileLock
from eventlog.drivers.jsonl.writing import claimed
from eventlog.errors import SequenceConflict, SessionDeleted, SessionNotFound, StoreBusy
from support import make_header, message, messages
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
