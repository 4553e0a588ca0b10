"""
Forking: what a child takes, where a boundary may lie, and that the copies agree.
"""

from __future__ import annotations

import random

import pytest

from eventlog import APPEND, LiveSessions, Replace, Session, fold_surface
from eventlog.errors import InvalidArgument, SessionExists, SessionNotFound
from support import messages


def turn(session: Session, number: int, *, closed: bool = True) -> None:
    """Append a turn of one message."""
    session.append("turn/start", {"turn": number})
    data = {"role": "user", "content": [{"type": "text", "text": f"turn {number}"}]}
    session.append("user/message", data, surface_op=APPEND)
    if closed:
        session.append("turn/end", {"turn": number, "reason": {"kind": "completed"}})


def test_a_fork_has_prefix_and_lineage() -> None:
    """
    The child has the parent's events up to the boundary, unchanged, then its own mark;
    its header takes the working directory and names the parent, and nothing else.
    """
    live = LiveSessions()
    parent = live.create(
        "parent",
        cwd="/w",
        origin="subagent",
        delegation_depth=3,
        agent_preset="p",
        extra={"k": 1},
        created_at=5,
    )
    turn(parent, 1)
    turn(parent, 2)
    child = live.fork(parent, 2, session_id="child", created_at=9)

    header = child.header
    assert ("child", 9, "/w", "parent", 3) == (
        header.id,
        header.created_at,
        header.cwd,
        header.parent_session,
        header.seed_length,
    )
    assert (None, 0, None, {}) == (
        header.origin,
        header.delegation_depth,
        header.agent_preset,
        header.extra,
    )
    assert parent.read(0, 3) == child.read(0, 3)
    assert [(3, "session/end-seed", {})] == [
        (event.seq, event.type, event.data) for event in child.read(3, 9)
    ]
    assert ["child"] == [head.header.id for head in live.children("parent").items]


def test_parent_and_child_part() -> None:
    """
    After the fork neither sees what the other one appends or replaces.
    """
    live = LiveSessions()
    parent = live.create("parent")
    turn(parent, 1)
    child = live.fork("parent")
    data = {"role": "user", "content": [{"type": "text", "text": "new"}]}
    parent.append("user/message", data, surface_op=Replace(1, 1), source_event_seqs=[1])
    turn(child, 2)

    assert ["new"] == [item["content"][0]["text"] for item in parent.messages()]
    assert ["turn 1", "turn 2"] == [item["content"][0]["text"] for item in child.messages()]
    assert (1, 0) == (parent.replace_generation, child.replace_generation)


def test_the_boundary_defaults_to_the_last_event() -> None:
    """
    Without a boundary everything is copied; a log without events gives an empty child.
    """
    live = LiveSessions()
    parent = live.create("parent")
    empty = live.fork(parent)
    turn(parent, 1)
    whole = live.fork(parent)

    assert (0, 1) == (empty.header.seed_length, empty.length)
    assert (3, 4) == (whole.header.seed_length, whole.length)


def test_a_marked_prefix_is_not_marked_again() -> None:
    """
    A prefix that ends with session/end-seed needs no second one.
    """
    live = LiveSessions()
    parent = live.create("parent", seed=messages(2))
    child = live.fork(parent)

    assert parent.read(0, 9) == child.read(0, 9)
    assert 3 == child.header.seed_length


@pytest.mark.parametrize(
    ("boundary", "allowed"),
    [(0, True), (1, False), (2, False), (3, True), (4, True), (5, False), (None, False)],
)
def test_a_boundary_lies_outside_an_open_turn(boundary: int | None, allowed: bool) -> None:
    """
    The last event copied may stand before, between or behind turns, never inside one; a
    later open turn of the source does not matter.
    """
    live = LiveSessions()
    parent = live.create("parent")
    parent.append("session/title", {"title": "t"})
    turn(parent, 1)
    parent.append("session/title", {"title": "t2"})
    turn(parent, 2, closed=False)

    if allowed:
        assert boundary is not None
        assert boundary + 1 == live.fork(parent, boundary).header.seed_length
    else:
        with pytest.raises(InvalidArgument) as caught:
            live.fork(parent, boundary)
        assert "boundary" == caught.value.name


@pytest.mark.parametrize("boundary", [-1, 3, 1.0, True, "0"])
def test_a_boundary_is_a_seq_of_the_log(boundary: int) -> None:
    """
    A boundary that no event has is refused, and creates nothing.
    """
    live = LiveSessions()
    parent = live.create("parent")
    turn(parent, 1)
    with pytest.raises(InvalidArgument) as caught:
        live.fork(parent, boundary)
    assert "boundary" == caught.value.name
    assert 1 == len(live)


def test_an_explicit_boundary_on_an_empty_log_is_refused() -> None:
    """
    There is no event 0 to copy.
    """
    live = LiveSessions()
    with pytest.raises(InvalidArgument):
        live.fork(live.create("parent"), 0)


def test_refusals_come_in_order() -> None:
    """
    A taken child id first, then an unknown source, then the boundary. A disposed session
    is no source, also when its id lives on.
    """
    live = LiveSessions()
    gone = live.create("gone")
    live.dispose(gone)
    live.create("taken")

    with pytest.raises(SessionExists):
        live.fork("nobody", 7, session_id="taken")
    with pytest.raises(SessionNotFound) as caught:
        live.fork("nobody", 7)
    assert "nobody" == caught.value.session_id
    live.create("gone")
    with pytest.raises(SessionNotFound):
        live.fork(gone)
    with pytest.raises(SessionNotFound):
        LiveSessions().fork(live.create("elsewhere"))


def test_the_copied_surface_is_that_of_a_fresh_fold() -> None:
    """
    For random logs and every boundary the child's surface, classes, replacements and
    citations are those of folding its events anew.
    """
    choose = random.Random(4)
    for _ in range(40):
        live = LiveSessions()
        parent = live.create("parent")
        for _ in range(choose.randrange(1, 40)):
            nodes = parent.nodes
            data = {"role": "user", "content": []}
            if len(nodes) > 1 and choose.random() < 0.3:
                first, last = sorted(choose.sample(range(len(nodes)), 2))
                shadowed = nodes[first : last + 1]
                cited = sorted({*shadowed, choose.randrange(parent.length)})
                op = Replace(shadowed[0], shadowed[-1])
                parent.append("user/message", data, surface_op=op, source_event_seqs=cited)
            elif choose.random() < 0.7:
                cite = [choose.randrange(parent.length)] if parent.length else None
                parent.append("user/message", data, surface_op=APPEND, source_event_seqs=cite)
            else:
                parent.append("x/note", {})
        for boundary in range(parent.length):
            child = live.fork(parent, boundary)
            events = child.read(0, child.length)
            fresh = fold_surface(events)
            view, again = child.snapshot(), LiveSessions().create(seed=events).snapshot()
            assert fresh.nodes == view.nodes()
            assert len(fresh.replacements) == child.replace_generation
            for seq in range(child.length):
                assert fresh.classify(seq) is view.classify(seq)
                assert again.replaced(seq) == view.replaced(seq)
                assert again.citing(seq) == view.citing(seq)
            assert again.replaced_by(0, child.length) == view.replaced_by(0, child.length)
