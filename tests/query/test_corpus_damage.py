"""
The corpus over stores that hold damage: files of which some cannot be read.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from eventlog import EventStore, LiveSessions, open_store
from eventlog.codec import encode_line
from eventlog.errors import CorruptLog, InvalidSurface
from eventlog.query import (
    CreatedAt,
    Cwd,
    Ids,
    Page,
    Parent,
    SessionFilter,
    SessionQuery,
    SessionQueryErrorCode,
    SessionRecord,
    Text,
)
from support import make_header, message, messages, replacement
from support.processes import need_other_users
from support.query import pages, plant, raises

Code = SessionQueryErrorCode


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of a store of files."""
    return tmp_path / "logs"


@pytest.fixture
def files(root: Path) -> Iterator[EventStore]:
    """A store of files."""
    with open_store(f"jsonl:{root}") as store:
        yield store


def walked(ask: Callable[..., Page[SessionRecord]]) -> Iterator[Page[SessionRecord]]:
    """Every page of a listing."""
    return pages(lambda cursor: ask(cursor=cursor))


@pytest.mark.parametrize("limit", [1, 10, 333, 1_000, 2_000])
def test_one_damaged_header_among_a_thousand(root: Path, files: EventStore, limit: int) -> None:
    """
    999 sessions are listed, and one fault beside them, whatever the limit and the filters.
    """
    for number in range(1_000 if limit > 100 else 40):
        header = make_header(f"s{number:03}", created_at=number, cwd="/w", parent_session="p")
        path = plant(root, header, messages(1))
        if number == 17:
            path.write_bytes(b"{broken header\n" + path.read_bytes())
    count = number
    query = SessionQuery(None, files)
    choices: list[list[SessionFilter]] = [[], [Cwd(["/w"])], [Parent(["p"])], [CreatedAt(0, 5_000)]]
    for filters in choices:
        ask = partial(query.list_sessions, limit=limit, filters=filters)
        found = list(walked(ask))

        assert count == sum(len(page.items) for page in found)
        faults = {fault for page in found for fault in page.faults}
        assert [("s017", str(root / "s017.jsonl"))] == [
            (fault.session_id, fault.path) for fault in faults
        ]
    assert [("s017", "header")] == [
        (fault.session_id, fault.kind)
        for fault in query.list_sessions(filters=[Ids(["s017", "s018"])]).faults
    ]


def test_a_damaged_session_is_corrupt_to_its_readers(root: Path, files: EventStore) -> None:
    """
    What touches damage is CORRUPT_SESSION with the store's error as cause; what does not
    is served.
    """
    path = plant(root, make_header(), messages(300))
    lines = path.read_bytes().split(b"\n")
    lines[151] = lines[151].replace(b'"seq":150', b'"seq":1x0')
    path.write_bytes(b"\n".join(lines))
    query = SessionQuery(None, files)

    for ask in (
        lambda: query.read_event("s1", 150),
        lambda: query.read_event("s1", 148, after=5),
        lambda: list(query.read_log("s1")),
    ):
        with raises(Code.CORRUPT_SESSION) as caught:
            ask()
        assert isinstance(caught.value.__cause__, CorruptLog)
        assert ("s1", 152) == (caught.value.session_id, caught.value.__cause__.line)
        assert caught.value.detail.startswith("stored session 's1' is corrupt: ")
    assert 100 == query.read_event("s1", 100, before=5, after=5).target.seq
    assert 299 == query.read_event("s1", 299, before=50).target.seq
    assert 1 == len(query.list_sessions().items)


def test_a_damaged_header_is_corrupt_and_not_missing(root: Path, files: EventStore) -> None:
    """
    Asked for by its id, a session with a damaged header is CORRUPT_SESSION in every call.
    """
    path = plant(root, make_header(), messages(2))
    path.write_bytes(b"{broken header\n" + path.read_bytes())
    query = SessionQuery(LiveSessions(), files)

    for ask in (
        lambda: query.list_events("s1"),
        lambda: query.read_event("s1", 0),
        lambda: query.read_surface("s1"),
        lambda: query.read_log("s1"),
        lambda: query.trace_event("s1", 0),
        lambda: query.trace_session("s1"),
        lambda: query.filter_events("s1"),
    ):
        with raises(Code.CORRUPT_SESSION):
            ask()


def test_a_live_session_over_a_damaged_file(root: Path, files: EventStore) -> None:
    """
    A live session is listed whatever its stored copy is like; that is a fault beside it.
    """
    live = LiveSessions()
    live.create("s1", created_at=1_000, seed=messages(4))
    path = plant(root, make_header(), messages(2))
    path.write_bytes(b"{broken header\n" + path.read_bytes())
    query = SessionQuery(live, files)
    page = query.list_sessions()
    trace = query.trace_session("s1")

    assert [("s1", True, True)] == [(r.header.id, r.live, r.persisted) for r in page.items]
    assert [("s1", "header")] == [(fault.session_id, fault.kind) for fault in page.faults]
    assert page.items[0] == trace.target
    assert [("s1", "header")] == [(fault.session_id, fault.kind) for fault in trace.faults]
    assert 4 + 1 == len(query.list_events("s1").items)


def test_a_damaged_ancestor_leaves_the_lineage_incomplete(root: Path, files: EventStore) -> None:
    """
    A parent that cannot be read is named as unresolved, and as a fault.
    """
    path = plant(root, make_header("parent"), messages(1))
    path.write_bytes(b"{broken header\n" + path.read_bytes())
    plant(root, make_header("child", parent_session="parent"), messages(1))
    trace = SessionQuery(None, files).trace_session("child")

    assert (False, "parent", ()) == (
        trace.complete,
        trace.unresolved_parent_id,
        trace.ancestors,
    )
    assert {("parent", "header")} == {(fault.session_id, fault.kind) for fault in trace.faults}


def test_f1_a_replacement_that_cites_a_missing_node(root: Path, files: EventStore) -> None:
    """
    A reference to an entry that was never written made most of a history unreachable. The
    surface of such a foreign log is refused by seq and node; its windows, its whole log
    and the list are served.
    """
    plant(root, make_header(), [*messages(6), replacement(6, 3, 5, [3, 4, 5, 7]), message(7)])
    query = SessionQuery(None, files)

    for ask in (
        lambda: query.read_surface("s1"),
        lambda: query.list_events("s1"),
        lambda: query.trace_event("s1", 0),
        lambda: query.filter_events("s1", [Text("text")]),
    ):
        with raises(Code.INVALID_SURFACE) as caught:
            ask()
        cause = caught.value.__cause__
        assert isinstance(cause, InvalidSurface)
        assert 6 == cause.seq
        assert "7" in cause.reason
    assert [5, 6, 7] == [e.seq for e in query.read_event("s1", 6, before=1, after=1).events]
    assert 8 == len(list(query.read_log("s1")))
    assert ["s1"] == [record.header.id for record in query.list_sessions().items]
    # The part before the refused event has a surface.
    assert [0, 1, 2, 3, 4, 5] == [e.seq for e in query.read_surface("s1", at=6).events]


def test_h8_one_id_in_two_files(root: Path, files: EventStore) -> None:
    """
    220 ids had several files each, and which one was read depended on the folder's order.
    The file named after the id is the session; the other one is a fault that names both,
    and all other sessions are listed.
    """
    original = plant(root, make_header("s1"), messages(3))
    plant(root, make_header("s2"), messages(1))
    copy = root / "s1-copy.jsonl"
    copy.write_bytes(original.read_bytes() + encode_line(message(3)) + encode_line(message(4)))
    page = SessionQuery(None, files).list_sessions()

    assert [("s1", 3), ("s2", 1)] == [(r.header.id, r.length) for r in page.items]
    assert [(str(copy), "misnamed")] == [(fault.path, fault.kind) for fault in page.faults]
    assert "s1" in page.faults[0].detail


def unreadable(root: Path) -> None:
    """In a process without privileges: list and read a store of which one file is denied."""
    with open_store(f"jsonl:{root}", read_only=True) as store:
        live = LiveSessions()
        query = SessionQuery(live, store)
        page = query.list_sessions()
        assert ["s0", "s2"] == [record.header.id for record in page.items]
        assert [(str(root / "s1.jsonl"), "denied")] == [(f.path, f.kind) for f in page.faults]
        assert "permission denied" in page.faults[0].detail
        assert 2 == len(query.list_events("s2").items)
        with raises(Code.PERSISTENCE_FAILED):
            query.list_events("s1")
        # Live, the session is listed, and what is denied stays a fault.
        live.create("s1", created_at=1_000)
        page = query.list_sessions()
        assert ["s0", "s1", "s2"] == [record.header.id for record in page.items]
        assert [(str(root / "s1.jsonl"), "denied")] == [(f.path, f.kind) for f in page.faults]
        assert [True] == [r.persisted for r in page.items if r.header.id == "s1"]


def test_j4_one_unreadable_session_among_many(root: Path) -> None:
    """
    An unreadable file made a store "empty". Two sessions are listed, and a fault says
    which path was denied.
    """
    need_other_users()
    for number in range(3):
        plant(root, make_header(f"s{number}"), messages(2))
    (root / "s1.jsonl").chmod(0)
    for folder in (root, *root.parents):
        if folder.owner() == "root" and os.geteuid() == 0 and folder.stat().st_mode & 0o005 != 5:
            folder.chmod(folder.stat().st_mode | 0o055)
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgid(65_534)
                os.setuid(65_534)
            unreadable(root)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)

    assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
