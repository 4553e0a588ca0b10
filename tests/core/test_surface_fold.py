"""
The fold: what it refuses, where replacements stand, and the surface of earlier lengths.
"""

from __future__ import annotations

import gc
import random
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog import APPEND, Event, EventClass, Replace, fold_surface
from eventlog.errors import InvalidArgument, InvalidSurface
from eventlog.log import MemoryLog
from eventlog.model import SessionHeader
from eventlog.surface import MUST_BE_NODES, NEVER_NODES
from support import log_only, message, messages, replacement

CURRENT, SHADOWED, LOG_ONLY = EventClass.CURRENT, EventClass.SHADOWED, EventClass.LOG_ONLY


def refused(*events: Event) -> InvalidSurface:
    """The error of a fold that must fail."""
    with pytest.raises(InvalidSurface) as caught:
        fold_surface(events)
    return caught.value


def test_an_empty_log_has_an_empty_surface() -> None:
    """
    Nothing folded is nothing on the surface.
    """
    surface = fold_surface([])

    assert [] == surface.nodes
    assert () == surface.replacements


def test_f6_a_replacement_stands_where_its_range_began() -> None:
    """
    A summary of the first two messages stood for all of them; the later ones stay.
    """
    surface = fold_surface([*messages(4), replacement(4, 0, 1, [0, 1])])

    assert [4, 2, 3] == surface.nodes
    assert [SHADOWED, SHADOWED, CURRENT, CURRENT, CURRENT] == [
        surface.classify(seq) for seq in range(5)
    ]
    assert [4, 4, None] == [surface.replaced_by(seq) for seq in range(3)]
    for bad in (-1, True, None, "0"):
        with pytest.raises(InvalidArgument) as caught:
            surface.replaced_by(bad)  # type: ignore[arg-type]
        assert "seq" == caught.value.name


def test_f2_a_shadowed_node_cannot_be_an_end_of_a_range() -> None:
    """
    A second compaction that named a node of before the first hung everything on nothing;
    named by what stands there now, it is accepted.
    """
    log = [*messages(4), replacement(4, 0, 2, [0, 1, 2]), *messages(2, start=5)]

    error = refused(*log, replacement(7, 1, 5, [1, 3, 4, 5]))
    accepted = fold_surface([*log, replacement(7, 4, 5, [4, 3, 5])])

    assert (7, "replace: start seq 1 not found in surface") == (error.seq, error.reason)
    assert [7, 6] == accepted.nodes


def test_f1_a_cited_event_must_exist() -> None:
    """
    A replacement that cites an event which was never written is refused by name.
    """
    error = refused(*messages(6), replacement(6, 3, 5, [3, 4, 5, 7]))

    assert 6 == error.seq
    assert "7" in error.reason


@pytest.mark.parametrize(
    "event",
    [
        replacement(4, 2, 1, [1, 2]),
        message(4, surface_op=Replace(1, 1), source_event_seqs=[]),
        replacement(4, 1, 1, [1, 1]),
        message(4, surface_op=Replace(1, 1)),
        replacement(4, 1, 2, [1]),
        replacement(4, 1, 1, [1, 4]),
        replacement(4, 9, 9, [9]),
        replacement(4, 1, 4, [1, 2, 3]),
    ],
)
def test_f8_odd_replacements_are_refused_and_leave_the_log_as_it_was(event: Event) -> None:
    """
    Ranges the wrong way round, no sources, doubled ones: each is refused, and the session
    goes on.
    """
    log = MemoryLog(SessionHeader("s", 0))
    log.extend(messages(4))

    with pytest.raises(InvalidSurface):
        log.append(event)
    log.append(message(4))

    assert [0, 1, 2, 3, 4] == log.snapshot().nodes()


def test_the_order_of_refusals_is_fixed() -> None:
    """
    Type before range, range before sources, sources before the rule of tool results.
    """
    log = messages(2)
    result: dict[str, Any] = {"surface_op": Replace(0, 1), "source_event_seqs": [0]}

    assert (
        "cannot carry a surface op"
        in refused(
            *log, Event(2, 0, "turn/start", {}, surface_op=Replace(9, 9), source_event_seqs=[7, 7])
        ).reason
    )
    assert (
        "start seq 9"
        in refused(
            *log, Event(2, 0, "tool/result", {}, surface_op=Replace(9, 1), source_event_seqs=[7, 7])
        ).reason
    )
    assert "missing 1" in refused(*log, Event(2, 0, "tool/result", {}, **result)).reason


@pytest.mark.parametrize("kind", sorted(MUST_BE_NODES))
def test_messages_are_always_nodes(kind: str) -> None:
    """
    A message without a surface op is refused.
    """
    assert 0 == refused(Event(0, 0, kind, {})).seq


@pytest.mark.parametrize("kind", sorted(NEVER_NODES))
def test_known_bookkeeping_is_never_a_node(kind: str) -> None:
    """
    Boundaries, chunks and known plug-in types carry neither op nor sources.
    """
    refused(Event(0, 0, kind, {}, surface_op=APPEND))
    refused(message(0), Event(1, 0, kind, {}, source_event_seqs=[0]))

    assert LOG_ONLY is fold_surface([Event(0, 0, kind, {})]).classify(0)


def test_a_type_of_a_harness_may_be_on_the_surface_or_not() -> None:
    """
    An unknown type is a node exactly when it carries an op; it may cite either way.
    """
    surface = fold_surface(
        [
            Event(0, 0, "mine/card", {}, surface_op=APPEND),
            log_only(1, "mine/card", source_event_seqs=[0]),
        ]
    )

    assert [CURRENT, LOG_ONLY] == [surface.classify(0), surface.classify(1)]


def test_seqs_are_contiguous_from_zero() -> None:
    """
    A log that starts late or has a gap has no surface.
    """
    assert "expected seq 0" in refused(message(5)).reason
    assert "expected seq 1" in refused(message(0), message(2)).reason


def tool_result(seq: int, *, content: Any = "x", call: str = "c1", **fields: Any) -> Event:
    changes = fields.pop("changes", {})
    data: dict[str, Any] = {
        "turn": 1,
        "step": 1,
        "meta": fields.pop("meta", [1]),
        "message": {
            "id": "m",
            "role": "user",
            "source": {"kind": "tool", "callId": call},
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": call,
                    "content": [{"type": "text", "text": content}],
                }
            ],
        },
    } | changes
    return Event(seq, 0, "tool/result", data, surface_op=fields.pop("surface_op", APPEND), **fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"call": "c2"},
        {"changes": {"turn": 2}},
        {"changes": {"error": {"code": "E"}}},
        {"meta": [1.0]},
        {"meta": [True]},
        {"meta": 1},
        {"meta": [1, 2]},
        {"meta": {"a": 1}},
    ],
    ids=str,
)
def test_a_rewritten_tool_result_changes_only_content(fields: dict[str, Any]) -> None:
    """
    A pruned result keeps everything but its content, in value and in type.
    """
    first = tool_result(0)
    rewrite: dict[str, Any] = {"surface_op": Replace(0, 0), "source_event_seqs": [0]}

    assert [1] == fold_surface([first, tool_result(1, content="cut", **rewrite)]).nodes
    assert "only content" in refused(first, tool_result(1, **fields, **rewrite)).reason


def test_a_tool_result_rewrites_one_tool_result() -> None:
    """
    It covers one node, and that node is a result.
    """
    log = [message(0), tool_result(1), tool_result(2, call="c2")]

    assert (
        "tool/result"
        in refused(*log, tool_result(3, surface_op=Replace(0, 0), source_event_seqs=[0])).reason
    )
    assert (
        "exactly one"
        in refused(*log, tool_result(3, surface_op=Replace(1, 2), source_event_seqs=[1, 2])).reason
    )


def test_a_view_knows_only_its_own_events() -> None:
    """
    Asking an earlier snapshot for a later event is an error, not an answer.
    """
    log = MemoryLog(SessionHeader("s", 0))
    log.extend([*messages(3), replacement(3, 0, 1, [0, 1])])
    early = log.snapshot(at=3)

    for ask in (early.classify, early.replaced, early.citing):
        with pytest.raises(InvalidArgument):
            ask(3)
    with pytest.raises(InvalidArgument):
        early.nodes(after=3)
    with pytest.raises(InvalidArgument):
        log.snapshot().nodes(after=0)

    assert [0, 1, 2] == early.nodes()
    assert {} == early.replaced_by(0, 9)
    assert {0: 3, 1: 3} == log.snapshot().replaced_by(0, 9)
    assert [3] == log.snapshot().citing(0)
    assert [] == early.citing(0)


# The model of these tests: a list, an index, and a splice.


class NaiveSurface:
    def __init__(self) -> None:
        self.nodes: list[int] = []
        self.shadowed: dict[int, int] = {}
        self.replaced: dict[int, list[int]] = {}
        self.citing: dict[int, list[int]] = {}

    def add(self, event: Event) -> None:
        for source in event.source_event_seqs or ():
            self.citing.setdefault(source, []).append(event.seq)
        op = event.surface_op
        if isinstance(op, Replace):
            start, end = self.nodes.index(op.start), self.nodes.index(op.end)
            taken = self.nodes[start : end + 1]
            self.nodes[start : end + 1] = [event.seq]
            self.replaced[event.seq] = taken
            self.shadowed.update(dict.fromkeys(taken, event.seq))
        elif op is not None:
            self.nodes.append(event.seq)


def random_log(seed: int, length: int) -> list[Event]:
    """A valid log with nested replacements, of every kind of event."""
    rng = random.Random(seed)
    naive, log = NaiveSurface(), []
    for seq in range(length):
        roll = rng.random()
        if roll < 0.3 and naive.nodes:
            start = rng.randrange(len(naive.nodes))
            stop = min(len(naive.nodes), start + rng.randint(1, 6))
            taken = naive.nodes[start:stop]
            cited = [*taken, *(seq for seq in rng.sample(range(seq), min(seq, 2)))]
            rng.shuffle(cited)
            event = replacement(seq, taken[0], taken[-1], list(dict.fromkeys(cited)))
        elif roll < 0.8:
            event = message(seq)
        else:
            event = log_only(seq)
        naive.add(event)
        log.append(event)
    return log


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(0, 60))
def test_every_snapshot_equals_the_fold_of_its_prefix(seed: int, length: int) -> None:
    """
    A snapshot of the past says what a fold of the first events said, though the log has
    grown and compacted since.
    """
    events = random_log(seed, length)
    log = MemoryLog(SessionHeader("s", 0))
    log.extend(events)
    naive = NaiveSurface()
    for at in range(length + 1):
        view = log.snapshot(at=at)
        assert naive.nodes == view.nodes() == fold_surface(events[:at]).nodes
        assert naive.shadowed == view.replaced_by(0, at)
        for seq in range(at):
            expected = (
                SHADOWED if seq in naive.shadowed else CURRENT if seq in naive.nodes else LOG_ONLY
            )
            assert expected is view.classify(seq)
            assert naive.replaced.get(seq, []) == view.replaced(seq)
            assert naive.citing.get(seq, []) == view.citing(seq)
        assert naive.nodes == in_pages(view, 1 + seed % 4)
        if at < length:
            naive.add(events[at])


def in_pages(view: Any, limit: int) -> list[int]:
    found: list[int] = []
    page = view.nodes(limit=limit)
    while page:
        found += page
        page = view.nodes(after=page[-1], limit=limit)
    return found


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 20))
def test_batches_fold_as_single_events_do(seed: int, length: int, size: int) -> None:
    """
    How events are batched does not change the surface, nor what is refused.
    """
    events = random_log(seed, length)
    log = MemoryLog(SessionHeader("s", 0))
    for start in range(0, length, size):
        log.extend(events[start : start + size])
    with pytest.raises(InvalidSurface):
        log.extend([message(length), replacement(length + 1, length, length, [0])])

    assert length == log.length
    assert fold_surface(events).nodes == log.snapshot().nodes()


@pytest.mark.long
def test_g4_folding_is_linear() -> None:
    """
    A fold that walked the list for each replacement took 20 minutes for 4,801 lines.
    """

    def fold_time(length: int) -> float:
        events: list[Event] = []
        for seq in range(length):
            if seq % 100 == 99:
                first = max(0, seq - 99)
                nodes = list(range(first, seq))
                events.append(replacement(seq, nodes[0], nodes[-1], nodes))
            else:
                events.append(message(seq, "x"))
        gc.freeze()  # the test's own events are no part of the measure
        runs = []
        for _ in range(3):
            began = time.process_time()
            fold_surface(events)
            runs.append(time.process_time() - began)
        return min(runs)

    times = [fold_time(length) for length in (5_000, 50_000, 500_000)]

    assert times[1] / times[0] <= 12
    assert times[2] / times[1] <= 12
