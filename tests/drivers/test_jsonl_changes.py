"""The feed of changed sessions: names and statuses, in any process, and nothing missed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from eventlog.drivers.jsonl import JsonlStore
from eventlog.errors import InvalidArgument
from support import make_header, message, messages
from support.jsonl import in_child, log_bytes, plant


@pytest.fixture
def store(tmp_path: Path) -> JsonlStore:
    """A store of three sessions."""
    store = JsonlStore(tmp_path)
    for session_id in ("s1", "s2", "s3"):
        store.append(make_header(session_id), messages(2))
    return store


def test_nothing_changed(store: JsonlStore) -> None:
    """Reading changes nothing, and asking costs a name and a status for each log."""
    token = store.changes().token
    store.snapshot("s1").nodes()
    store.heads()
    store.append(make_header("s1"), messages(2))
    store.meter.reset()

    assert () == store.changes(token).session_ids
    assert (3, 3, 0) == (store.meter.names, store.meter.probes, store.meter.bytes)


def test_changes_of_other_processes(store: JsonlStore, tmp_path: Path) -> None:
    """What another process appends, creates and deletes is named, each session once."""
    token = store.changes().token

    def work() -> None:
        other = JsonlStore(tmp_path)
        other.append(make_header("s1"), messages(3))
        other.append(make_header("s1"), messages(4))
        other.append(make_header("s4"), messages(1))
        other.delete("s2")

    in_child(work)
    changes = store.changes(token)

    assert ("s1", "s2", "s4") == changes.session_ids
    assert () == in_child(lambda: JsonlStore(tmp_path).changes(changes.token).session_ids)
    assert () == store.changes(changes.token).session_ids


def test_changes_past_the_store(store: JsonlStore, tmp_path: Path) -> None:
    """
    A log that is removed, rewritten in place, damaged or brought back by hand is named,
    also where its size and its time of modification stay as they were.
    """
    token = store.changes().token
    (tmp_path / "s1.jsonl").unlink()
    path = tmp_path / "s2.jsonl"
    status, data = path.stat(), path.read_bytes()
    path.write_bytes(data.replace(b"text 0", b"TEXT 0"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    (tmp_path / "s5.jsonl").touch()
    changes = store.changes(token)
    assert ("s1", "s2", "s5") == changes.session_ids

    plant(tmp_path, log_bytes(make_header("s1"), 2), "s1")
    assert ("s1",) == store.changes(changes.token).session_ids


def test_forgotten_and_returned_sessions(store: JsonlStore) -> None:
    """Deleting, forgetting and making anew are each a change."""
    token = store.changes().token
    assert store.delete("s1")
    changes = store.changes(token)
    assert ("s1",) == changes.session_ids
    assert store.delete("s1", forget=True)
    assert ("s1",) == store.changes(token).session_ids
    changes = store.changes(changes.token)
    assert ("s1",) == changes.session_ids
    store.append(make_header("s1"), messages(2))
    assert ("s1",) == store.changes(changes.token).session_ids
    assert ("s1",) == store.changes(token).session_ids


def test_torn_and_mended_logs_are_changes(store: JsonlStore, tmp_path: Path) -> None:
    """A tail that another tool is writing is a change when it comes, and when it is whole."""
    token = store.changes().token
    with (tmp_path / "s1.jsonl").open("ab") as file:
        file.write(b'{"type"')
    changes = store.changes(token)
    assert ("s1",) == changes.session_ids
    store.append(make_header("s1"), [message(2)])
    assert ("s1",) == store.changes(changes.token).session_ids


@pytest.mark.parametrize(
    "token", ["", "1", "[]", "{}", "x", '{"jsonl":1}', '{"jsonl":{"s1":1}}', "\ud800"]
)
def test_bad_tokens_are_refused(store: JsonlStore, token: str) -> None:
    """What no call has returned is no token."""
    with pytest.raises(InvalidArgument):
        store.changes(token)
