"""Searching a store of which one session may not be read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eventlog import open_store
from eventlog.query import SessionQuery, SessionQueryErrorCode, Text
from support.processes import dropping_root, forked, reachable_folder
from support.query import raises
from support.searching import filled, sessions_found

Code = SessionQueryErrorCode


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A store of three sessions and a cache folder that any user may write to."""
    with reachable_folder() as reachable:
        monkeypatch.setenv("EVENTLOG_CACHE", str(reachable / "cache"))
        (reachable / "cache").mkdir()
        yield filled_store(reachable)


def filled_store(reachable: Path) -> Path:
    folder = reachable / "store"
    with open_store(f"jsonl:{folder}") as store:
        for number in range(3):
            filled(store, [f"needle number{number}"], f"s{number}")
    if os.getuid() == 0:
        for path in (folder, *folder.iterdir(), reachable / "cache"):
            os.chown(path, 65_534, 65_534)
        os.chown(folder / "s1.jsonl", 0, 0)
    (folder / "s1.jsonl").chmod(0o644)
    return folder


def searching(root: Path, check: Callable[[SessionQuery], None]) -> Callable[[], object]:
    def body() -> None:
        with open_store(f"jsonl:{root}", read_only=True) as store:
            query = SessionQuery(store=store)
            check(query)
            query.engines.close()

    return dropping_root(body)


def without_one(query: SessionQuery) -> None:
    page = query.search_sessions("needle")
    assert ["s0", "s2"] == sorted(hit.record.header.id for hit in page.items)
    assert ["denied"] == [fault.kind for fault in page.faults]
    assert page.faults[0].path is not None
    assert page.faults[0].path.endswith("s1.jsonl")
    assert [] == sessions_found(query, "number1", event_filters=[Text("number1")])
    with raises(Code.PERSISTENCE_FAILED) as caught:
        query.search_events("s1", "needle")
    assert "s1.jsonl" in caught.value.detail
    assert "permission denied" in caught.value.detail


def all_three(query: SessionQuery) -> None:
    assert ["s0", "s1", "s2"] == sorted(sessions_found(query, "needle"))
    assert () == query.search_sessions("needle").faults


def test_j4_search_goes_on_past_a_denied_session(root: Path) -> None:
    """
    J4: one file without the right to read it, and no session at all could be searched. The
    others are, and a fault names the path; once it may be read again, it is found.
    """
    (root / "s1.jsonl").chmod(0)
    assert 0 == forked(searching(root, without_one))
    assert 0 == forked(searching(root, without_one))
    (root / "s1.jsonl").chmod(0o644)
    assert 0 == forked(searching(root, all_three))


def test_a_session_that_is_denied_once_it_is_indexed(root: Path) -> None:
    """What the index knows of a session is not shown while its log may not be read."""
    assert 0 == forked(searching(root, all_three))
    (root / "s1.jsonl").chmod(0)
    assert 0 == forked(searching(root, without_one))


def test_a_session_that_is_denied_between_two_searches(root: Path) -> None:
    """The same where the right is lost while the store is open."""
    denied = root / "s1.jsonl"

    def check(query: SessionQuery) -> None:
        all_three(query)
        os.rename(denied, denied.with_suffix(".away"))
        denied.write_bytes(denied.with_suffix(".away").read_bytes())
        denied.chmod(0)
        without_one(query)

    assert 0 == forked(searching(root, check))


def test_a_store_that_is_denied_is_no_faulty_session(root: Path) -> None:
    """A folder that may not be entered is the store's failure, and never "no match"."""

    def check(query: SessionQuery) -> None:
        all_three(query)
        root.chmod(0)
        with raises(Code.PERSISTENCE_FAILED):
            query.search_sessions("needle")

    assert 0 == forked(searching(root, check))
    root.chmod(0o755)
