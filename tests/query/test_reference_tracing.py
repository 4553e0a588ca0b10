"""What DeepSeek Harness asserts of lineages and event traces (facts T1–T17)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from eventlog import APPEND, Event, EventStore, LiveSessions, Replace, open_store
from eventlog.errors import InvalidSurface, StoreUnavailable
from eventlog.query import LineageTrace, SessionQuery, SessionQueryErrorCode
from support import make_header, message, messages
from support.query import (
    BrokenStore,
    CountingStore,
    RewritingStore,
    event,
    facts,
    plant,
    raises,
    said,
)

Code = SessionQueryErrorCode

# T16: a source list that is no list, or has gaps in it, cannot be built or read here: it is
# refused at the boundary (ValueRejected, InvalidSurface), and a line of it is malformed.


def family(memory: EventStore, *sessions: tuple[str, str | None, int]) -> SessionQuery:
    for name, parent, created_at in sessions:
        memory.append(make_header(name, created_at=created_at, parent_session=parent), messages(1))
    return SessionQuery(LiveSessions(), memory)


def tree(trace: LineageTrace) -> list[tuple[int, str]]:
    return [(descendant.depth, descendant.record.header.id) for descendant in trace.descendants]


T9 = [
    event(0, "turn/start", {"turn": 1}),
    event(1, "step/start", {"turn": 1, "step": 1}),
    event(2, "assistant/chunk", {"turn": 1, "step": 1}),
    message(3, source_event_seqs=[2]),
    said(4, "assistant", "r", surface_op=Replace(3, 3), source_event_seqs=[3, 2]),
    message(5),
    message(6),
    message(7),
    said(8, "assistant", "r", surface_op=Replace(4, 4), source_event_seqs=[2, 4]),
]


def test_t1_a_complete_lineage(memory: EventStore) -> None:
    """
    Ancestors are nearest first; descendants come by creation time, then id, in pre-order.
    """
    query = family(
        memory,
        ("root", None, 1),
        ("parent", "root", 2),
        ("target", "parent", 3),
        ("b", "target", 4),
        ("a", "target", 4),
        ("older", "target", 3),
        ("grandchild", "a", 5),
    )
    trace = query.trace_session("target")

    assert ["parent", "root"] == [record.header.id for record in trace.ancestors]
    assert trace.root is not None
    assert ("root", True) == (trace.root.header.id, trace.complete)
    assert [(1, "older"), (1, "a"), (2, "grandchild"), (1, "b")] == tree(trace)


def test_t2_a_session_without_parent(memory: EventStore) -> None:
    """
    A session without a parent is its own root.
    """
    trace = family(memory, ("only", None, 1)).trace_session("only")

    assert (True, trace.target, ()) == (trace.complete, trace.root, trace.ancestors)


def test_t3_an_unknown_parent(memory: EventStore) -> None:
    """
    An unknown parent leaves the lineage incomplete and is named.
    """
    trace = family(memory, ("child", "nowhere", 1)).trace_session("child")

    assert (False, "nowhere", ()) == (
        trace.complete,
        trace.unresolved_parent_id,
        trace.ancestors,
    )


def test_t4_a_circle(memory: EventStore) -> None:
    """
    Two sessions that name each other have no lineage.
    """
    with raises(Code.INVALID_LINEAGE):
        family(memory, ("a", "b", 1), ("b", "a", 1)).trace_session("a")


def test_t5_an_unknown_target(memory: EventStore) -> None:
    """
    A target that nobody has is not found.
    """
    with raises(Code.SESSION_NOT_FOUND):
        family(memory, ("a", None, 1)).trace_session("b")


def test_t6_a_stored_target(memory: EventStore) -> None:
    """
    The lineage of a stored session reads heads, and no log.
    """
    family(memory, ("a", None, 1), ("b", "a", 2))
    store = CountingStore(memory)
    trace = SessionQuery(LiveSessions(), store).trace_session("b")

    assert (False, True) == (trace.target.live, trace.target.persisted)
    assert "snapshot" not in {name for name, _ in store.reads}


def test_t7_a_failing_list(memory: EventStore) -> None:
    """
    A lineage fails with the store.
    """
    with raises(Code.PERSISTENCE_FAILED):
        SessionQuery(None, BrokenStore(StoreUnavailable("x"))).trace_session("a")


def test_t8_a_deep_chain(memory: EventStore) -> None:
    """
    A chain of 3,000 children is walked whatever the interpreter's stack allows.
    """
    count = 3 * sys.getrecursionlimit()
    chain = [(f"s{n}", f"s{n - 1}" if n else None, n) for n in range(count)]
    trace = family(memory, *chain).trace_session("s0")

    assert [(n, f"s{n}") for n in range(1, count)] == tree(trace)


@pytest.mark.parametrize(
    ("seq", "class_", "replaced_by", "chain", "replaced", "sources", "derived"),
    [
        (3, "shadowed", 4, (4, 8), (), (2,), (4,)),
        (4, "shadowed", 8, (8,), (3,), (3, 2), (8,)),
        (2, "log-only", None, (), (), (), (3, 4, 8)),
        (8, "current", None, (), (4,), (2, 4), ()),
    ],
)
def test_t9_event_traces(
    memory: EventStore,
    seq: int,
    class_: str,
    replaced_by: int | None,
    chain: tuple[int, ...],
    replaced: tuple[int, ...],
    sources: tuple[int, ...],
    derived: tuple[int, ...],
) -> None:
    """
    A trace has the chain upwards, what was replaced, what is cited and what cites.
    """
    memory.append(make_header(), T9)
    trace = SessionQuery(None, memory).trace_event("s1", seq)

    assert (class_, replaced_by, chain, replaced, sources, derived) == (
        trace.target.event_class,
        trace.replaced_by,
        trace.replacement_chain,
        trace.replaced_event_seqs,
        trace.source_event_seqs,
        trace.derived_event_seqs,
    )


def test_t10_fresh_answers(memory: EventStore) -> None:
    """
    Traces cannot be changed, so that none can reach into another.
    """
    memory.append(make_header(), T9)
    query = SessionQuery(None, memory)
    one, two = query.trace_event("s1", 4), query.trace_event("s1", 4)

    assert one == two
    assert isinstance(one.derived_event_seqs, tuple)
    with pytest.raises(AttributeError):
        one.target.seq = 5  # type: ignore[misc]


def test_t11_a_stored_target_is_listed_and_loaded_once(memory: EventStore) -> None:
    """
    A stored event's trace asks for one head and one log.
    """
    memory.append(make_header(), T9)
    store = CountingStore(memory)
    trace = SessionQuery(LiveSessions(), store).trace_event("s1", 8)

    assert "current" == trace.target.event_class
    assert [("head", "s1"), ("snapshot", "s1")] == store.reads[:2]
    assert [("head", "s1")] == store.reads[2:] or [] == store.reads[2:]


def test_t12_a_live_target_needs_no_store(memory: EventStore) -> None:
    """
    A live event is traced without a call to a store that fails.
    """
    live = LiveSessions()
    live.create("s1", seed=T9)
    store = BrokenStore(StoreUnavailable("x"))
    trace = SessionQuery(live, store).trace_event("s1", 3)

    assert (4, 0) == (trace.replaced_by, store.calls)


def test_t13_failures_of_list_and_load(memory: EventStore) -> None:
    """
    Whichever of the two reads fails, the trace is PERSISTENCE_FAILED.
    """
    memory.append(make_header(), T9)

    def fail_at(moment: str) -> SessionQuery:
        from support.query import HookedStore

        def hook(name: str, _: str | None) -> None:
            if name == moment:
                raise StoreUnavailable("x")

        return SessionQuery(LiveSessions(), HookedStore(memory, hook))

    for moment in ("head", "snapshot"):
        with raises(Code.PERSISTENCE_FAILED):
            fail_at(moment).trace_event("s1", 3)


def test_t14_a_header_that_changes(memory: EventStore) -> None:
    """
    A working directory that changes between list and load is SOURCE_CONFLICT.
    """
    memory.append(make_header(cwd="/a"), T9)
    query = SessionQuery(None, RewritingStore(memory, make_header(cwd="/b")))

    with raises(Code.SOURCE_CONFLICT):
        query.trace_event("s1", 3)


def foreign(tmp_path: Path, events: Sequence[Event]) -> SessionQuery:
    """A query over a stored log that no store would have taken."""
    plant(tmp_path / "logs", make_header(), events)
    return SessionQuery(None, open_store(f"jsonl:{tmp_path / 'logs'}"))


def test_t15_existence_is_checked_first(tmp_path: Path) -> None:
    """
    In a log without a surface an absent event is not found, and a present one has no trace.
    """
    query = foreign(tmp_path, [message(0), message(1, source_event_seqs=[5])])

    with raises(Code.EVENT_NOT_FOUND):
        query.trace_event("s1", 9)
    with raises(Code.INVALID_SURFACE):
        query.trace_event("s1", 0)


T16 = {
    "sources on an event that is no node": event(1, "turn/start", source_event_seqs=[0]),
    "no sources": message(1, source_event_seqs=[]),
    "duplicates": message(1, source_event_seqs=[0, 0]),
    "a source in the future": message(1, source_event_seqs=[2]),
    "itself": message(1, source_event_seqs=[1]),
    "a replacement without sources": message(1, surface_op=Replace(0, 0)),
    "a shadowed node uncited": said(
        1, "assistant", "r", surface_op=Replace(0, 0), source_event_seqs=[]
    ),
    "a surface op on another type": event(1, "turn/start", surface_op=APPEND),
    "a node without a surface op": event(1, "user/message"),
    "an absent node": message(1, surface_op=Replace(1, 1), source_event_seqs=[0]),
}


@pytest.mark.parametrize("broken", T16.values(), ids=T16)
def test_t16_t17_logs_without_a_surface(tmp_path: Path, broken: Event) -> None:
    """
    A log that breaks a rule of the fold is INVALID_SURFACE to traces and listings alike.
    """
    query = foreign(tmp_path, [message(0), broken, message(2)])

    for ask in (
        lambda: query.trace_event("s1", 0),
        lambda: query.list_events("s1"),
        lambda: query.read_surface("s1"),
    ):
        with raises(Code.INVALID_SURFACE) as caught:
            ask()
        assert isinstance(caught.value.__cause__, InvalidSurface)
        assert 1 == caught.value.__cause__.seq


def test_every_fact_has_its_test() -> None:
    """
    T1 to T17 are all here.
    """
    assert {f"T{n}" for n in range(1, 18)} <= facts(sys.modules[__name__])
