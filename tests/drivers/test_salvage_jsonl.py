"""Salvaging JSONL logs: everything readable, and no event where it does not belong."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventlog.drivers.jsonl import JsonlStore
from eventlog.errors import SessionNotFound, StoreClosed, ValueRejected
from eventlog.findings import Gap
from support import make_header, messages
from support.damage import DAMAGED, HEADER, broken_record, outline
from support.jsonl import Child, files_in, log_bytes, plant, wire

TEN = list(range(10))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a1-torn", [*TEN, ("torn", 10, None, [])]),
        ("a2-fused", [0, 1, ("fused", 2, 3, [2]), 3]),
        ("a4-nul", [*TEN, ("torn", 10, None, [])]),
        ("a4-nul-line", [*TEN, ("torn", 10, None, [])]),
        ("a9-beheaded", [("seq", 0, 5, []), 5, 6, 7, 8, 9]),
        ("a10-broken", [0, ("broken-line", 1, 2, [1]), 2]),
        ("d2-back", [0, 1, 2, 3, ("seq", 4, 2, []), 2, 3, 4]),
        ("glued", [("fused", 0, 2, [0, 1]), 2]),
        ("hole", [0, ("padding", 1, 2, [1]), 2]),
        ("garbage", [0, ("malformed", 1, 2, []), 2, ("malformed", 3, None, [])]),
        ("reordered", [0, ("seq", 1, 2, []), 2, ("seq", 3, 1, []), 1, ("seq", 2, 3, []), 3]),
        ("second-header", [0, ("malformed", 1, 1, []), 1]),
        ("blank", [0, ("padding", 1, 1, []), 1]),
    ],
)
def test_a1_a2_a4_a9_a10_d2_what_salvage_gives(
    tmp_path: Path, name: str, expected: list[object]
) -> None:
    """
    Each damaged log gives all that is readable, with a gap wherever two events do not
    continue each other. What was found inside damaged bytes stands in the gap, not among
    the events.
    """
    plant(tmp_path, DAMAGED[name])
    with JsonlStore(tmp_path) as store:
        assert expected == outline(store)
    assert {"s1.jsonl": DAMAGED[name]} == files_in(tmp_path)


def test_a2_no_event_seems_to_follow_another(tmp_path: Path) -> None:
    """
    A torn record was fused with the next one, and readers went from event 1 to event 3.
    Between two events that do not continue each other there always is a gap.
    """
    for data in DAMAGED.values():
        plant(tmp_path, data)
        with JsonlStore(tmp_path) as store:
            before: int | None = -1
            for item in store.salvage("s1"):
                if isinstance(item, Gap):
                    before = None
                else:
                    assert before in (None, item.seq - 1)
                    before = item.seq


def test_a_gap_says_where_it_is(tmp_path: Path) -> None:
    """A gap has the file, the line, the bytes, and what was found there as whole events."""
    path = plant(tmp_path, DAMAGED["a10-broken"])
    with JsonlStore(tmp_path) as store:
        gap = next(item for item in store.salvage("s1") if isinstance(item, Gap))

    assert (str(path), 3, len(HEADER + wire(0)), len(broken_record(1))) == (
        gap.path,
        gap.line,
        gap.offset_bytes,
        gap.size_bytes,
    )
    assert [{"text": "line1\nline2"}] == [event.data for event in gap.recovered]


def test_a7_a_damaged_header_hides_no_event(tmp_path: Path) -> None:
    """An unreadable first line was taken for "no session". Its events can be salvaged."""
    plant(tmp_path, b"{broken header\n" + wire(0) + wire(1))
    plant(tmp_path, wire(0) + wire(1), "s2")
    plant(tmp_path, b"", "s3")
    with JsonlStore(tmp_path) as store:
        assert [("header", None, 0, []), 0, 1] == outline(store)
        assert [("header", None, 0, []), 0, 1] == outline(store, "s2")
        assert [("empty", None, None, [])] == outline(store, "s3")


def test_a_whole_log_has_no_gap(tmp_path: Path) -> None:
    """A log without damage gives its events alone."""
    with JsonlStore(tmp_path) as store:
        store.append(make_header(), messages(3))
        assert messages(3) == list(store.salvage("s1"))


def test_a_quoted_record_is_not_taken_for_one(tmp_path: Path) -> None:
    """
    A record that a torn line quotes in its data has a seq of another place, and is not
    offered as recovered.
    """
    quoted = b'{"type":"tool/result","seq":5,"time":1,"data":{"log":' + wire(1)[:-1]
    plant(tmp_path, HEADER + b"".join(map(wire, range(5))) + quoted + b"\n" + wire(6))
    with JsonlStore(tmp_path) as store:
        assert [0, 1, 2, 3, 4, ("malformed", 5, 6, []), 6] == outline(store)


def test_unknown_sessions_are_not_found(tmp_path: Path) -> None:
    """There is nothing to salvage of a session that is not there, or was deleted."""
    store = JsonlStore(tmp_path)
    store.append(make_header(), messages(1))
    store.delete("s1")
    for session_id in ("s1", "s2"):
        with pytest.raises(SessionNotFound):
            store.salvage(session_id)
    with pytest.raises(ValueRejected):
        store.salvage("")
    store.close()
    with pytest.raises(StoreClosed):
        store.salvage("s1")


def test_x7_a_record_being_written_is_no_damage(tmp_path: Path) -> None:
    """
    While a writer is in the middle of a record, neither salvaging nor verifying takes it
    for a torn one; when the writer is dead, both do.
    """
    import fcntl
    import os
    import time
    from collections.abc import Callable

    path = plant(tmp_path, log_bytes())

    def hold(tell: Callable[[object], None]) -> None:
        fd = os.open(path, os.O_RDWR | os.O_APPEND)
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.write(fd, wire(10)[:30])
        tell("half")
        time.sleep(60)

    with JsonlStore(tmp_path) as store, Child(hold) as writer:
        assert "half" == writer.told()
        assert [] == list(store.verify())
        assert TEN == outline(store)
        writer.kill()
        assert ["torn"] == [finding.kind for finding in store.verify()]
        assert [*TEN, ("torn", 10, None, [])] == outline(store)
