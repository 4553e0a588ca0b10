"""
What the reference harness asserts of its surface, S1–S56, each by its number.

Left out, for want of a meaning here: S7 (a list with holes), S21–S23 (a fold over a window
of a log whose earlier events are not there; stores keep the fold's rows instead), S26 (a
fold that forgets its replacements), the half of S28 that a list of nodes stays the same
object (lists are fresh), and S43 (an op is frozen).
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from eventlog import APPEND, Event, EventClass, LiveSessions, Replace, Session, fold_surface
from eventlog.errors import InvalidSurface, SequenceConflict
from eventlog.log import MemoryLog
from eventlog.model import Append, SurfaceOp
from eventlog.surface import MUST_BE_NODES, NEVER_NODES
from support import make_header, message, messages, replacement

Sources = list[int] | None


def boundary(seq: int, type: str = "turn/start", **fields: Any) -> Event:
    return Event(seq, 1_000 + seq, type, {"turn": 1}, **fields)


def assistant(
    seq: int, sources: Sources = None, op: SurfaceOp = APPEND, text: str = "answer"
) -> Event:
    content = [{"type": "text", "text": text}] if text else []
    said = {"role": "assistant", "id": f"m{seq}", "content": content}
    data = {"turn": 1, "step": 1, "message": said}
    return Event(seq, 1, "assistant/message", data, surface_op=op, source_event_seqs=sources)


def result(seq: int, sources: Sources = None, op: SurfaceOp = APPEND, **changes: Any) -> Event:
    """A tool's result; *changes* name what differs from the usual one."""
    block = {
        "type": "tool-result",
        "toolCallId": changes.get("block_call", "c1"),
        "content": changes.get("content", [{"type": "text", "text": "long"}]),
        "isError": changes.get("is_error", False),
    }
    call = changes.get("call", "c1")
    message = {
        "id": changes.get("id", "r1"),
        "role": "user",
        "content": [block],
        "source": {"kind": "tool", "callId": call},
    }
    data = {"turn": 1, "step": 1, "message": message}
    if "meta" in changes:
        data["meta"] = changes["meta"]
    return Event(seq, 1, "tool/result", data, surface_op=op, source_event_seqs=sources)


def cut(seq: int, target: int, **changes: Any) -> Event:
    """A rewrite of one tool result."""
    changes.setdefault("content", [{"type": "text", "text": "short"}])
    return result(seq, [target], Replace(target, target), **changes)


def folded(*events: Event) -> list[int]:
    """The nodes, by a fold of the whole log and by appending event by event, which agree."""
    log = MemoryLog(make_header())
    for event in events:
        log.append(event)
    nodes = fold_surface(events).nodes
    assert nodes == log.snapshot().nodes()
    return nodes


def refused(*events: Event) -> str:
    """Why the last event is refused, by a fold and by an append, which changes nothing."""
    *before, last = events
    log = MemoryLog(make_header())
    log.extend(before)
    nodes, replacements = log.snapshot().nodes(), log.tables.replacements
    with pytest.raises(InvalidSurface) as by_append:
        log.append(last)
    with pytest.raises(InvalidSurface) as by_fold:
        fold_surface(events)

    assert (len(before), nodes) == (log.length, log.snapshot().nodes())
    assert replacements == log.tables.replacements
    assert last.seq == by_append.value.seq == by_fold.value.seq
    assert by_append.value.reason == by_fold.value.reason
    return by_append.value.reason


def test_s1_a_replacement_cites_what_it_replaces() -> None:
    """
    Two plain messages, then one that replaces and cites both: accepted.
    """
    assert [2] == folded(*messages(2), replacement(2, 0, 1, [0, 1]))


def test_s2_a_boundary_cannot_cite() -> None:
    """
    An event of a type that is never on the surface carries no sources.
    """
    assert "cannot carry sources" in refused(message(0), boundary(1, source_event_seqs=[0]))


def test_s3_an_answer_may_cite_nothing() -> None:
    """
    An empty list on an assistant/message says that its stream is known to be empty.
    """
    assert [0] == folded(assistant(0, []))


@pytest.mark.parametrize("sources", ["0", 0, {0}, {"0": 0}])
def test_s4_sources_are_a_list(sources: Any) -> None:
    """
    Anything else in their place is refused where the event is made.
    """
    with pytest.raises(InvalidSurface) as caught:
        message(1, source_event_seqs=sources)
    assert "must be a list" in caught.value.reason


def test_s5_others_may_not_cite_nothing() -> None:
    """
    An empty list on any other type is refused.
    """
    assert "must not be empty" in refused(message(0, source_event_seqs=[]))


def test_s6_sources_are_unique() -> None:
    """
    An event is cited once.
    """
    assert "duplicates" in refused(message(0), message(1, source_event_seqs=[0, 0]))


@pytest.mark.parametrize("source", ["0", 0.5, -1, True, None, 0.0, 2**53])
def test_s8_sources_are_seqs(source: Any) -> None:
    """
    Only ints from 0 to 2⁵³−1 are.
    """
    with pytest.raises(InvalidSurface) as caught:
        message(1, source_event_seqs=[source])
    assert 1 == caught.value.seq


@pytest.mark.parametrize("source", [1, 2])
def test_s9_sources_are_earlier(source: int) -> None:
    """
    An event cites neither itself nor a later one.
    """
    assert "earlier events" in refused(message(0), message(1, source_event_seqs=[source]))


def test_s10_seqs_have_no_gap() -> None:
    """
    A log with the seqs 0 and 2 is none.
    """
    events = [message(0), message(2)]
    with pytest.raises(InvalidSurface) as caught:
        fold_surface(events)
    assert (2, "is not contiguous; expected seq 1") == (caught.value.seq, caught.value.reason)

    log = MemoryLog(make_header())
    with pytest.raises(InvalidSurface):
        log.extend(events)
    log.append(events[0])
    with pytest.raises(SequenceConflict) as conflict:
        log.append(events[1])
    assert (1, 2) == (conflict.value.expected, conflict.value.actual)


def test_s11_every_shadowed_node_is_cited() -> None:
    """
    A replacement that leaves one out is refused, and told which.
    """
    assert refused(*messages(2), replacement(2, 0, 1, [0])).endswith("missing 1")


def test_s12_a_result_rewrites_one_node() -> None:
    """
    A tool result that replaces two nodes is refused.
    """
    rewrite = result(2, [0, 1], Replace(0, 1))
    assert "exactly one current node" in refused(result(0), result(1), rewrite)


def test_s13_a_result_rewrites_a_result() -> None:
    """
    A tool result cannot stand for a user's message.
    """
    assert "must target a current tool/result" in refused(message(0), cut(1, 0))


@pytest.mark.parametrize(
    "change", [{"id": "r2"}, {"call": "c2"}, {"block_call": "c2"}, {"is_error": True}]
)
def test_s14_s15_a_rewrite_keeps_everything_else(change: dict[str, Any]) -> None:
    """
    Message id, call id, the block's own call id and its error flag stay.
    """
    assert "may change only content" in refused(result(0), cut(1, 0, **change))


def test_s16_equal_meta_is_equal() -> None:
    """
    Meta is compared by value; the order of keys does not count.
    """
    meta = {"a": [1, {"b": 2}], "c": None}
    again = {"c": None, "a": copy.deepcopy(meta["a"])}
    assert [1] == folded(result(0, meta=meta), cut(1, 0, meta=again))


@pytest.mark.parametrize(
    ("meta", "changed"),
    [
        ([1, 2], [1, 3]),
        ([1], 1),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": 1, "b": 1}),
        (1, True),
        (1, 1.0),
        ({"a": None}, {}),
    ],
)
def test_s17_to_s20_changed_meta_is_refused(meta: Any, changed: Any) -> None:
    """
    Another element, shape, key or number of keys is a change; here also another type of
    number.
    """
    assert "may change only content" in refused(result(0, meta=meta), cut(1, 0, meta=changed))
    assert "may change only content" in refused(result(0, meta=changed), cut(1, 0, meta=meta))


def test_s24_a_range_is_one_of_places_not_of_numbers() -> None:
    """
    After 2 took the place of 0, the range from 2 to 1 is in order.
    """
    events = [*messages(2), replacement(2, 0, 0, [0]), replacement(3, 2, 1, [2, 1])]
    assert [3] == folded(*events)
    assert [(2, 0, 0, (0,)), (3, 2, 1, (2, 1))] == [
        (r.seq, r.start, r.end, r.shadowed) for r in fold_surface(events).replacements
    ]


def test_s25_what_a_fold_returns_is_detached() -> None:
    """
    A caller that changes the nodes it got changes neither session nor later folds.
    """
    session = LiveSessions().create(seed=messages(2))
    session.nodes.clear()
    surface = fold_surface(messages(2))
    surface.nodes.clear()
    assert [0, 1] == session.nodes == surface.nodes
    replaced = session.snapshot().replaced(0)
    replaced.append(9)
    assert [] == session.snapshot().replaced(0)


def test_s27_a_range_that_never_was() -> None:
    """
    Neither a fold nor a seed takes a replacement of nodes that do not exist.
    """
    event = message(1, surface_op=Replace(42, 0), source_event_seqs=[0])
    assert "start seq 42 not found" in refused(message(0), event)
    with pytest.raises(InvalidSurface):
        LiveSessions().create(seed=[message(0), event])


def test_s28_a_refused_append_changes_nothing() -> None:
    """
    After a replacement without sources was refused, length, nodes and generation are as
    before, and the next valid append takes the same seq.
    """
    session = live_session(2)
    with pytest.raises(InvalidSurface) as caught:
        session.append("user/message", {"content": []}, surface_op=Replace(0, 1))

    assert caught.value.reason.endswith("missing 0")
    assert (2, [0, 1], 0) == (session.length, session.nodes, session.replace_generation)
    assert 2 == session.append("user/message", {"content": []}, surface_op=APPEND).seq
    assert [0, 1, 2] == session.nodes


@pytest.mark.parametrize("type", ["user/message", "assistant/message", "tool/result"])
def test_s29_messages_are_nodes(type: str) -> None:
    """
    A message without a surface op is refused.
    """
    assert "requires a surface op" in refused(Event(0, 0, type, {}))


def test_s30_boundaries_are_no_nodes() -> None:
    """
    A boundary with a surface op is refused.
    """
    assert "cannot carry a surface op" in refused(boundary(0, surface_op=APPEND))


def test_s31_s32_only_messages_are_nodes() -> None:
    """
    Boundaries around messages are left out; boundaries alone leave an empty surface.
    """
    assert [1, 2] == folded(boundary(0), message(1), assistant(2), boundary(3, "turn/end"))
    session = LiveSessions().create(seed=[boundary(0), boundary(1, "turn/end")])
    assert ([], []) == (session.nodes, session.messages())


def test_s33_the_surface_grows_after_it_was_read() -> None:
    """
    An append behind a look at the surface shows in the next one.
    """
    session = live_session(2)
    assert [0, 1] == session.nodes
    session.append("turn/start", {"turn": 1})
    session.append("user/message", {"content": []}, surface_op=APPEND)
    assert [0, 1, 3] == session.nodes


def test_s34_a_seeded_session_sees_the_same() -> None:
    """
    A session seeded with another one's events has its nodes and its messages.
    """
    events = [boundary(0), message(1), assistant(2), boundary(3, "turn/end"), message(4)]
    first = LiveSessions().create(seed=events)
    second = LiveSessions().create(seed=first.read(0, first.length))

    assert [1, 2, 4] == first.nodes == second.nodes
    assert first.messages() == second.messages()


@pytest.mark.parametrize(
    ("fact", "events", "nodes"),
    [
        ("s35", [boundary(0), *messages(2, start=1), assistant(3, [1, 2], Replace(1, 2))], [3]),
        ("s36", [*messages(3), replacement(3, 0, 1, [0, 1])], [3, 2]),
        ("s37", [*messages(2), replacement(2, 1, 1, [1])], [0, 2]),
        ("s42", [*messages(3), replacement(3, 1, 1, [1])], [0, 3, 2]),
    ],
)
def test_s35_s36_s37_s42_a_replacement_takes_its_ranges_place(
    fact: str, events: list[Event], nodes: list[int]
) -> None:
    """
    Whatever a replacement is and wherever its range lies, it stands where that stood.
    """
    assert nodes == folded(*events), fact


@pytest.mark.parametrize(
    ("fact", "start", "end", "reason"),
    [
        ("s38", 5, 1, "start seq 5 not found in surface"),
        ("s39", 0, 99, "end seq 99 not found in surface"),
        ("s40", 1, 0, "start seq 1 stands after end seq 0"),
    ],
)
def test_s38_s39_s40_a_bad_range_is_named(fact: str, start: int, end: int, reason: str) -> None:
    """
    A bound that is no node, and a range the wrong way round, are refused by their seqs.
    """
    event = message(2, surface_op=Replace(start, end), source_event_seqs=[0, 1])
    assert reason in refused(*messages(2), event), fact


def test_s41_sources_are_copied() -> None:
    """
    A list that the caller changes after the append is not the one in the log.
    """
    session = live_session(2)
    sources = [0, 1]
    session.append(
        "user/message", {"content": []}, surface_op=Replace(0, 1), source_event_seqs=sources
    )
    sources.clear()
    assert (0, 1) == session.read(2, 3)[0].source_event_seqs


def test_s44_a_session_gives_its_messages() -> None:
    """
    A question and its answer are two messages, with their roles and their content as it was.
    """
    session = LiveSessions().create(seed=[message(0, "ask"), assistant(1)])
    assert ["user", "assistant"] == [item["role"] for item in session.messages()]
    assert [message(0, "ask").data, assistant(1).data["message"]] == session.messages()


def test_s45_chunks_and_boundaries_give_no_message() -> None:
    """
    What is not on the surface is not seen.
    """
    session = live_session(1)
    session.append("assistant/chunk", {"turn": 1, "step": 1, "chunk": {"type": "finish"}})
    session.append("step/end", {"turn": 1, "step": 1})
    assert 1 == len(session.messages())


def test_s46_only_the_replacement_is_seen() -> None:
    """
    After a replacement of the only node its message is the only one.
    """
    session = LiveSessions().create(seed=[message(0), replacement(1, 0, 0, [0])])
    assert [replacement(1, 0, 0, [0]).data] == session.messages()


def test_s47_messages_of_plugins_are_not_framed() -> None:
    """
    What a plug-in put in is a message like a person's, unchanged.
    """
    session = LiveSessions().create()
    data = [
        {"id": "a", "role": "user", "content": [], "source": {"kind": "plugin", "plugin": "p"}},
        {"id": "b", "role": "user", "content": [], "source": {"kind": "user"}},
    ]
    for each in data:
        session.append("user/message", each, surface_op=APPEND)
    assert data == session.messages()


def test_s48_s51_an_append_returns_what_it_logged() -> None:
    """
    Sources and op are on the event returned and on the one in the log.
    """
    session = live_session(2)
    event = session.append(
        "user/message", {"content": []}, surface_op=APPEND, source_event_seqs=[0, 1]
    )
    logged = session.read(2, 3)[0]
    assert (APPEND, (0, 1)) == (event.surface_op, event.source_event_seqs)
    assert (APPEND, (0, 1)) == (logged.surface_op, logged.source_event_seqs)


def test_s49_an_answer_without_content_is_a_silent_node() -> None:
    """
    It stands on the surface and gives no message.
    """
    session = LiveSessions().create(seed=[message(0), assistant(1, text="")])
    assert [0, 1] == session.nodes
    assert [message(0).data] == session.messages()


def test_s50_an_event_off_the_surface_has_neither() -> None:
    """
    Without op and sources there is neither, not an empty one.
    """
    event = LiveSessions().create().append("turn/start", {"turn": 1})
    assert (None, None) == (event.surface_op, event.source_event_seqs)


def test_s52_s53_which_types_are_nodes() -> None:
    """
    Three types must be nodes, boundaries and chunks cannot; an event is one exactly when
    it carries an op.
    """
    assert {"user/message", "assistant/message", "tool/result"} == MUST_BE_NODES
    assert {"turn/start", "assistant/chunk"} <= NEVER_NODES
    assert not MUST_BE_NODES & NEVER_NODES
    assert not Event(0, 0, "user/message", {}).is_node
    assert not boundary(0).is_node
    assert message(0).is_node


def test_s54_s55_an_op_is_one_of_two() -> None:
    """
    A node was either appended or put in the place of others; the rest was neither.
    """
    ops = [message(0).surface_op, replacement(1, 0, 0, [0]).surface_op]
    assert [(True, False), (False, True)] == [
        (type(op) is Append, type(op) is Replace) for op in ops
    ]
    assert [None, None] == [boundary(0).surface_op, Event(0, 0, "user/message", {}).surface_op]


def test_s56_the_generation_counts_replacements() -> None:
    """
    Two appends leave it at 0, a replacement makes it 1, asked before anything else is.
    """
    session = live_session(2)
    assert 0 == session.replace_generation
    session.append("user/message", {"content": []}, surface_op=Replace(0, 0), source_event_seqs=[0])
    assert 1 == session.replace_generation
    assert [2, 1] == session.nodes
    assert EventClass.SHADOWED is session.snapshot().classify(0)


def live_session(count: int) -> Session:
    """A live session with *count* messages."""
    session = LiveSessions().create("s1")
    for seq in range(count):
        session.append("user/message", message(seq).data, surface_op=APPEND)
    return session
