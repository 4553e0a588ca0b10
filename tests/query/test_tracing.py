"""
Traces of events and of sessions.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from eventlog import (
    APPEND,
    Batch,
    Event,
    EventClass,
    EventStore,
    LiveSessions,
    Replace,
    SessionHeader,
)
from eventlog.query import EventTrace, LineageTrace, SessionQuery, SessionQueryErrorCode
from support import log_only, make_header, message, messages, replacement
from support.query import CountingStore, raises

Code = SessionQueryErrorCode


def put(store: EventStore, *sessions: tuple[str, str | None, int]) -> None:
    """Store sessions of one event, each given by its id, its parent and its creation time."""
    for name, parent, created_at in sessions:
        store.append(make_header(name, created_at=created_at, parent_session=parent), messages(1))


def lines(trace: LineageTrace) -> list[tuple[int, str, str]]:
    """The descendants as depth, id and parent."""
    return [(depth, record.header.id, parent) for record, parent, depth in trace.descendants]


def link(number: int) -> SessionHeader:
    """One header of a long chain of parents."""
    parent = f"s{number - 1:04}" if number else None
    return make_header(f"s{number:04}", created_at=number, parent_session=parent)


def test_a_trace_says_what_became_of_an_event(query: SessionQuery, store: EventStore) -> None:
    """
    Twice replaced, an event is shadowed, and the second replacement stands for it.
    """
    store.append(
        make_header(),
        [
            *messages(3),
            replacement(3, 0, 1, [0, 1]),
            message(4),
            replacement(5, 3, 2, [3, 2, 0]),
        ],
    )
    trace = query.trace_event("s1", 0)

    assert EventClass.SHADOWED is trace.target.event_class
    assert (3, 5) == (trace.replaced_by, trace.current_seq)
    assert ((3, 5), True) == (trace.replacement_chain, trace.chain_complete)
    assert ((), (), (3, 5)) == (
        trace.replaced_event_seqs,
        trace.source_event_seqs,
        trace.derived_event_seqs,
    )
    assert ((3, 2), (3, 2, 0)) == (
        query.trace_event("s1", 5).replaced_event_seqs,
        query.trace_event("s1", 5).source_event_seqs,
    )


def test_a_current_event_stands_for_itself(query: SessionQuery, store: EventStore) -> None:
    """
    An event on the surface has no replacer; one that never was there has no stand-in.
    """
    store.append(make_header(), [message(0), log_only(1)])
    current, never = (query.trace_event("s1", seq) for seq in (0, 1))

    assert (None, 0, (), True) == (
        current.replaced_by,
        current.current_seq,
        current.replacement_chain,
        current.chain_complete,
    )
    assert (EventClass.LOG_ONLY, None) == (never.target.event_class, never.current_seq)


def chained(length: int) -> list[Event]:
    """One message that was replaced again and again."""
    return [message(0)] + [
        replacement(seq, seq - 1, seq - 1, [seq - 1]) for seq in range(1, length)
    ]


@pytest.mark.parametrize(
    ("length", "complete"), [(100, True), (101, True), (102, False), (400, False)]
)
def test_a_chain_is_cut_at_a_hundred(
    query: SessionQuery, store: EventStore, length: int, complete: bool
) -> None:
    """
    A longer chain of replacements says that it was cut; the stand-in is right all the same.
    """
    store.append(make_header(), chained(length))
    trace = query.trace_event("s1", 0)

    assert tuple(range(1, min(length, 101))) == trace.replacement_chain
    assert complete is trace.chain_complete
    assert length - 1 == trace.current_seq


def naive_trace(events: list[Event], seq: int) -> tuple[Any, ...]:
    """What a trace says, told from the whole log."""
    surface: list[int] = []
    replacer: dict[int, int] = {}
    taken: dict[int, tuple[int, ...]] = {}
    for e in events:
        if isinstance(e.surface_op, Replace):
            first, last = surface.index(e.surface_op.start), surface.index(e.surface_op.end)
            taken[e.seq] = tuple(surface[first : last + 1])
            replacer |= dict.fromkeys(taken[e.seq], e.seq)
            surface[first : last + 1] = [e.seq]
        elif e.surface_op is APPEND:
            surface.append(e.seq)
    chain = []
    node: int | None = seq
    while (node := replacer.get(node)) is not None:  # type: ignore[arg-type]
        chain.append(node)
    current = chain[-1] if chain else seq if seq in surface else None
    return (
        tuple(chain),
        current,
        taken.get(seq, ()),
        events[seq].source_event_seqs or (),
        tuple(e.seq for e in events if seq in (e.source_event_seqs or ())),
    )


@pytest.mark.parametrize("seed", range(4))
def test_traces_agree_with_the_whole_log(query: SessionQuery, store: EventStore, seed: int) -> None:
    """
    For every event of a random log the trace is what a walk over the whole log says.
    """
    rng = random.Random(seed)
    nodes: list[int] = []
    events: list[Event] = []
    for seq in range(120):
        cited = sorted(rng.sample(range(seq), min(seq, rng.randrange(3))))
        if nodes and rng.random() < 0.3:
            first = rng.randrange(len(nodes))
            span = nodes[first : first + 1 + rng.randrange(4)]
            nodes[first : first + len(span)] = [seq]
            sources = span + [source for source in cited if source not in span]
            events.append(replacement(seq, span[0], span[-1], sources))
        elif rng.random() < 0.3:
            events.append(log_only(seq))
        else:
            nodes.append(seq)
            events.append(message(seq, source_event_seqs=cited or None))
    store.append(make_header(), events)

    for seq in range(120):
        trace = query.trace_event("s1", seq)
        assert naive_trace(events, seq) == (
            trace.replacement_chain,
            trace.current_seq,
            trace.replaced_event_seqs,
            trace.source_event_seqs,
            trace.derived_event_seqs,
        )


def test_a_lineage_goes_both_ways(
    query: SessionQuery, live: LiveSessions, store: EventStore
) -> None:
    """
    A lineage has the ancestors, nearest first, and all below the target in pre-order, by
    creation time and id; from both sources.
    """
    put(store, ("root", None, 1), ("parent", "root", 2), ("b", "target", 4), ("older", "target", 3))
    put(store, ("aunt", "root", 2), ("nephew", "aunt", 3), ("b1", "b", 9))
    for name, parent, created_at in [
        ("target", "parent", 3),
        ("a", "target", 4),
        ("a1", "a", 5),
        ("a2", "a", 5),
    ]:
        live.create(name, parent_session=parent, created_at=created_at)
    trace = query.trace_session("target")

    assert "target" == trace.target.header.id
    assert ["parent", "root"] == [record.header.id for record in trace.ancestors]
    assert trace.root == trace.ancestors[-1]
    assert (True, None) == (trace.complete, trace.unresolved_parent_id)
    assert [
        (1, "older", "target"),
        (1, "a", "target"),
        (2, "a1", "a"),
        (2, "a2", "a"),
        (1, "b", "target"),
        (2, "b1", "b"),
    ] == lines(trace)
    assert [(True, False), (False, True)] == [
        (d.record.live, d.record.persisted) for d in trace.descendants[3:5]
    ]


def test_l1_a_subagent_is_a_session_of_its_own(
    query: SessionQuery, live: LiveSessions, store: EventStore
) -> None:
    """
    A subagent's transcript was merged into its parent, or shown as an unrelated root. It
    is a session with a parent: the parent's events stay its own, and its trace lists it.
    """
    header = make_header("P", created_at=1)
    store.append(header, messages(5))
    put(store, ("a1", "P", 2))
    live.create("a2", parent_session="P", created_at=3, origin="subagent")

    assert 5 == len(query.list_events("P").items)
    assert [(1, "a1", "P"), (1, "a2", "P")] == lines(query.trace_session("P"))
    assert "P" == query.trace_session("a1").ancestors[0].header.id


@pytest.mark.parametrize("held", ["live", "stored", "mixed"])
def test_l3_circles_of_parents(memory: EventStore, held: str) -> None:
    """
    Cyclic parents looped, or gave a dangling id. A circle, a session that is its own
    parent, and what hangs below one are INVALID_LINEAGE; a list shows them as ever.
    """
    live = LiveSessions()
    pairs = [("s1", "s2"), ("s2", "s1"), ("s3", "s3"), ("s4", "s1"), ("ok", None)]
    for number, (name, parent) in enumerate(pairs):
        if held == "live" or (held == "mixed" and number % 2):
            live.create(name, parent_session=parent, created_at=1)
        else:
            put(memory, (name, parent, 1))
    query = SessionQuery(live, memory)

    for name in ("s1", "s2", "s3", "s4"):
        with raises(Code.INVALID_LINEAGE) as caught:
            query.trace_session(name)
        assert caught.value.session_id in ("s1", "s2", "s3")
    assert 5 == len(query.list_sessions().items)
    assert query.trace_session("ok").complete


def test_l3_a_very_deep_chain(query: SessionQuery, store: EventStore) -> None:
    """
    A chain of 5,000 sessions ended in a RecursionError. It is walked in both directions.
    """
    # Files have no index of children on the medium: each look lists the folder's names.
    depth = 5_000 if store.capabilities.bounded_surface else 250
    store.append_many([Batch(link(n), [message(0)]) for n in range(depth)])
    top, bottom, middle = (query.trace_session(link(n).id) for n in (0, depth - 1, depth // 2))

    assert [(n, link(n).id, link(n - 1).id) for n in range(1, depth)] == lines(top)
    assert [link(n).id for n in reversed(range(depth - 1))] == [
        record.header.id for record in bottom.ancestors
    ]
    assert (depth // 2, depth - 1 - depth // 2) == (
        len(middle.ancestors),
        len(middle.descendants),
    )


def test_l4_f5_a_parent_that_is_not_there(query: SessionQuery, store: EventStore) -> None:
    """
    A resume crashed because the parent had been deleted, and tools offered to resume an
    id known from its children only. The children are read, their lineage is incomplete
    and says where; the parent itself is not found.
    """
    put(store, ("child", "x", 2), ("grandchild", "child", 3), ("other", "x", 2))
    for name, ancestors in (("child", []), ("grandchild", ["child"]), ("other", [])):
        trace = query.trace_session(name)

        assert (False, "x", None) == (trace.complete, trace.unresolved_parent_id, trace.root)
        assert ancestors == [record.header.id for record in trace.ancestors]
        assert 1 == len(query.read_surface(name).events)
    with raises(Code.SESSION_NOT_FOUND):
        query.read_surface("x")
    with raises(Code.SESSION_NOT_FOUND) as caught:
        query.trace_session("x")
    assert "named as the parent of 'child', 'other'" in caught.value.detail


def test_a_lineage_touches_its_own_sessions_only(memory: EventStore) -> None:
    """
    Of a hundred other sessions a trace reads nothing.
    """
    put(memory, *[(f"other{n}", None if n % 2 else "other1", n) for n in range(100)])
    put(memory, ("root", None, 1), ("mid", "root", 2), ("leaf", "mid", 3))
    live = LiveSessions()
    live.create("twig", parent_session="mid", created_at=4)
    store = CountingStore(memory)
    SessionQuery(live, store).trace_session("mid")

    assert {"root", "mid", "leaf", "twig"} == {session_id for _, session_id in store.reads}


def test_a_lineage_with_a_conflict_in_it(memory: EventStore) -> None:
    """
    An ancestor or a descendant whose headers differ is SOURCE_CONFLICT, named.
    """
    put(memory, ("root", None, 1), ("mid", "root", 2), ("leaf", "mid", 3))
    live = LiveSessions()
    live.create("root", created_at=7)
    live.create("leaf", parent_session="elsewhere", created_at=3)
    query = SessionQuery(live, memory)

    for name, conflicting in (("mid", "root"), ("root", "root")):
        with raises(Code.SOURCE_CONFLICT) as caught:
            query.trace_session(name)
        assert conflicting == caught.value.session_id
    live.dispose("root")
    with raises(Code.SOURCE_CONFLICT) as caught:
        query.trace_session("mid")
    assert "leaf" == caught.value.session_id


def test_a_trace_is_a_value(query: SessionQuery, store: EventStore) -> None:
    """
    Two traces of one event are equal, frozen, and share nothing that can be changed.
    """
    store.append(make_header(extra={"a": [1]}), [message(0)])
    one, two = (query.trace_event("s1", 0) for _ in range(2))
    one.header.extra["a"].append(2)

    assert isinstance(one, EventTrace)
    assert one == two
    assert {"a": [1]} == two.header.extra
    with pytest.raises(AttributeError):
        one.current_seq = 3  # type: ignore[misc]


def test_a_session_without_events_has_a_lineage(live: LiveSessions) -> None:
    """
    A live session is in lineages from its creation on.
    """
    parent = live.create("parent")
    live.create("child", parent_session=parent.id)
    query = SessionQuery(live)

    assert [(1, "child", "parent")] == lines(query.trace_session("parent"))
    assert isinstance(query.trace_session("child").target.header, SessionHeader)
