"""
The invariants of turns, steps and calls.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog import APPEND, Event, LiveSessions, Replace, SessionHeader
from eventlog.codec import decode_line
from eventlog.invariants import Invariant, InvariantReport, check_invariants
from eventlog.query import SessionQuery
from support import corpus, message
from support.query import event, said

# What a call and its result look like: the id stands in the message's source.


def call(seq: int, call_id: str, turn: int = 1, step: int = 1) -> Event:
    return event(seq, "tool/call", {"turn": turn, "step": step, "callId": call_id, "name": "t"})


def result(seq: int, call_id: str, turn: int = 1, step: int = 1, **fields: Any) -> Event:
    error = fields.pop("error", None)
    block = {"type": "tool-result", "toolCallId": call_id, "content": [], "isError": bool(error)}
    data: dict[str, Any] = {
        "turn": turn,
        "step": step,
        "message": {"id": f"m{seq}", "source": {"kind": "tool", "callId": call_id}},
    }
    data["message"]["content"] = [block]
    if error:
        data["error"] = {"name": "E", "code": error}
    fields.setdefault("surface_op", APPEND)
    return event(seq, "tool/result", data, **fields)


def asked(seq: int, *call_ids: str, turn: int = 1, step: int = 1) -> Event:
    blocks = [{"type": "tool-call", "id": call_id, "name": "t"} for call_id in call_ids]
    data = {"turn": turn, "step": step, "message": {"id": f"m{seq}", "content": blocks}}
    return event(seq, "assistant/message", data, surface_op=APPEND)


def mark(seq: int, type: str, turn: int = 1, step: int | None = None, **data: Any) -> Event:
    return event(seq, type, {"turn": turn, **({} if step is None else {"step": step}), **data})


OPENED = [mark(0, "turn/start"), mark(1, "step/start", step=1)]


def found(report: InvariantReport) -> list[tuple[int, Invariant]]:
    return [(violation.seq, violation.invariant) for violation in report]


def test_a_well_kept_log_has_no_violations() -> None:
    """
    Turns, steps, calls and results in their places are no violations, nor is what is free.
    """
    log = [
        *OPENED,
        message(2),
        mark(3, "request/header"),
        mark(4, "assistant/chunk", step=1),
        asked(5, "a", "b"),
        call(6, "a"),
        call(7, "b"),
        result(8, "a", source_event_seqs=[6]),
        result(9, "b", source_event_seqs=[7]),
        event(10, "x/anything"),
        mark(11, "step/end", step=1),
        mark(12, "step/start", step=2),
        asked(13, step=2),
        mark(14, "step/end", step=2),
        event(15, "todo/write", {"todos": []}),
        mark(16, "turn/end", reason={"kind": "completed"}),
        message(17),
        event(18, "session/title", {"title": "t"}),
        mark(19, "turn/start", 2),
        mark(20, "step/start", 2, 1),
        result(21, "a", 2, 1, surface_op=Replace(8, 8), source_event_seqs=[8]),
        event(22, "session/end-seed"),
    ]
    report = check_invariants(log)

    assert () == report.violations == tuple(report)
    assert not report
    assert (2, 1, ()) == (report.open_turn, report.open_step, report.open_calls)


def test_an_empty_log_is_well_kept() -> None:
    """
    Nothing breaks nothing, and nothing is open.
    """
    report = check_invariants([])

    assert (0, None, None, ()) == (
        len(report),
        report.open_turn,
        report.open_step,
        report.open_calls,
    )


BREACHES: dict[str, tuple[list[Event], list[tuple[int, Invariant]]]] = {
    "a gap": ([message(0), message(2)], [(2, Invariant.SEQ)]),
    "a step back": ([message(0), message(1), message(1)], [(1, Invariant.SEQ)]),
    "a log from the middle": ([message(5), message(6)], [(5, Invariant.SEQ)]),
    "a turn in a turn": (
        [mark(0, "turn/start"), mark(1, "turn/start", 2)],
        [(1, Invariant.TURN)],
    ),
    "a first turn 2": ([mark(0, "turn/start", 2)], [(0, Invariant.TURN)]),
    "a turn twice": (
        [mark(0, "turn/start"), mark(1, "turn/end"), mark(2, "turn/start", 1)],
        [(2, Invariant.TURN)],
    ),
    "an end without a turn": ([mark(0, "turn/end")], [(0, Invariant.TURN)]),
    "the end of another turn": (
        [mark(0, "turn/start"), mark(1, "turn/end", 2)],
        [(1, Invariant.TURN)],
    ),
    "a turn's end in a step": ([*OPENED, mark(2, "turn/end")], [(2, Invariant.STEP)]),
    "a step outside a turn": ([mark(0, "step/start", step=1)], [(0, Invariant.TURN)]),
    "a step in a step": ([*OPENED, mark(2, "step/start", step=2)], [(2, Invariant.STEP)]),
    "a first step 2": (
        [mark(0, "turn/start"), mark(1, "step/start", step=2)],
        [(1, Invariant.STEP)],
    ),
    "the end of another step": ([*OPENED, mark(2, "step/end", step=2)], [(2, Invariant.STEP)]),
    "a chunk outside a step": (
        [mark(0, "turn/start"), mark(1, "assistant/chunk", step=1)],
        [(1, Invariant.STEP)],
    ),
    "a message of another step": ([*OPENED, asked(2, step=2)], [(2, Invariant.STEP)]),
    "a message of another turn": ([*OPENED, asked(2, turn=2)], [(2, Invariant.TURN)]),
    "a message without numbers": (
        [*OPENED, said(2, "assistant", "t")],
        [(2, Invariant.TURN), (2, Invariant.STEP)],
    ),
    "a to-do list outside a turn": ([event(0, "todo/write")], [(0, Invariant.TURN)]),
    "a request outside a turn": ([event(0, "request/context")], [(0, Invariant.TURN)]),
    "a rewrite outside a turn": (
        [
            *OPENED,
            call(2, "a"),
            result(3, "a"),
            mark(4, "step/end", step=1),
            mark(5, "turn/end"),
            result(6, "a", surface_op=Replace(3, 3), source_event_seqs=[3]),
        ],
        [(6, Invariant.TURN)],
    ),
    "a result without a call": ([*OPENED, result(2, "a")], [(2, Invariant.CALL)]),
    "a result of a call that was only asked for": (
        [*OPENED, asked(2, "a"), result(3, "a")],
        [(3, Invariant.CALL)],
    ),
    "a second result": (
        [*OPENED, call(2, "a"), result(3, "a"), result(4, "a")],
        [(4, Invariant.CALL)],
    ),
    "a result in the next step": (
        [
            *OPENED,
            call(2, "a"),
            mark(3, "step/end", step=1),
            mark(4, "step/start", step=2),
            result(5, "a", step=2),
        ],
        [(5, Invariant.CALL)],
    ),
    "a call without an id": (
        [*OPENED, mark(2, "tool/call", step=1)],
        [(2, Invariant.CALL)],
    ),
    "a result of nothing": (
        [*OPENED, mark(2, "tool/result", step=1)],
        [(2, Invariant.CALL)],
    ),
}


@pytest.mark.parametrize(("log", "expected"), BREACHES.values(), ids=BREACHES)
def test_each_breach_is_told_once(log: list[Event], expected: list[tuple[int, Invariant]]) -> None:
    """
    A breach is reported at its event, and does not make those behind it breaches.
    """
    report = check_invariants(log)

    assert expected == found(report)
    assert all(violation.detail for violation in report)
    assert report[0] == report.violations[0] == report[:1][0]


def test_a_call_that_never_started_needs_no_record() -> None:
    """
    A result that says its call never started answers what the model asked for.
    """
    report = check_invariants([*OPENED, asked(2, "a"), result(3, "a", error="TOOL_NOT_STARTED")])

    assert (0, ()) == (len(report), report.open_calls)
    assert [(3, Invariant.CALL)] == found(
        check_invariants([*OPENED, asked(2, "a"), result(3, "a", error="TOOL_OUTCOME_UNKNOWN")])
    )


def test_calls_may_stay_open_at_the_end_of_a_step() -> None:
    """
    An unanswered call is no violation, and is open until its step ends.
    """
    log = [*OPENED, asked(2, "a", "b", "c"), call(3, "b"), result(4, "b")]

    assert ("a", "c") == check_invariants(log).open_calls
    assert () == check_invariants([*log, mark(5, "step/end", step=1)]).open_calls


def test_f14_an_unanswered_call_at_the_end() -> None:
    """
    A crash between a call and its result made providers refuse every later turn. The
    open call is reported, and nothing is changed by looking.
    """
    live = LiveSessions()
    session = live.create("s1", seed=[*OPENED, message(2), asked(3, "c1")])
    query = SessionQuery(live)
    before = session.head()
    report = check_invariants(query.read_log("s1"))

    assert ("c1",) == report.open_calls
    assert (0, 1, 1) == (len(report), report.open_turn, report.open_step)
    assert before == session.head()
    # The same outside any turn, as other tools log it.
    assert ("c1",) == check_invariants([message(0), asked(1, "c1")]).open_calls


def test_f9_two_branches_in_one_log() -> None:
    """
    Two children of one message came out as one, without notice. Where both branches of a
    transcript were put into one log, the second answer to a call is reported, and every
    event is there.
    """
    log = [*OPENED, asked(2, "a"), call(3, "a"), result(4, "a"), result(5, "a"), asked(6, "b")]
    report = check_invariants(log)

    assert [(5, Invariant.CALL)] == found(report)
    live = LiveSessions()
    live.create("s1", seed=log)
    assert 7 + 1 == len(list(SessionQuery(live).read_log("s1")))


def test_messages_without_an_envelope() -> None:
    """
    Old logs hold results and messages without an envelope; they pair all the same.
    """
    flat = event(
        3, "tool/result", {"turn": 1, "step": 1, "callId": "a", "content": []}, surface_op=APPEND
    )

    assert not check_invariants([*OPENED, call(2, "a"), flat])
    assert () == check_invariants([*OPENED, call(2, "a"), flat]).open_calls


KEYS = "turn step callId message source content type id error code isError toolCallId".split()
TYPES = (
    "turn/start turn/end step/start step/end tool/call tool/result assistant/message "
    "assistant/chunk todo/write x/own"
).split()

values = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from(["a", "tool-call", "tool"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=12,
)
odd_events = st.builds(
    lambda seq, kind, data, op: Event(seq, 0, kind, {"turn": 1, "step": 1} | data, surface_op=op),
    st.integers(0, 5),
    st.sampled_from(TYPES),
    st.dictionaries(st.sampled_from(KEYS), values),
    st.sampled_from([None, APPEND, Replace(0, 0)]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(odd_events, max_size=12))
def test_no_log_makes_it_raise(log: list[Event]) -> None:
    """
    Whatever the data of an event is like, the check reports and goes on.
    """
    report = check_invariants(log)

    assert {violation.seq for violation in report} <= {e.seq for e in log}


# Logs of the recorder's own tests that were written by hand or begin in the middle.
NOT_KEPT = {
    "apps__web__tests__snapshots__cordis-tool-round__session",
    "apps__web__tests__snapshots__web-search-round__session",
    "examples__headless-agent__tests__snapshots__ralph-loop__session.1",
    "packages__test-support__acp-snapshot__tests__fixtures__record-suite__rec-child__session.1",
    "packages__test-support__acp-snapshot__tests__fixtures__record-suite__rec-child__session",
    "packages__test-support__acp-snapshot__tests__fixtures__record-suite__rec-pin__session.1",
    "packages__test-support__acp-snapshot__tests__fixtures__record-suite__rec-pin__session",
    "packages__test-support__acp-snapshot__tests__fixtures__suite__authored-error__session",
    "packages__test-support__acp-snapshot__tests__fixtures__suite__pin-turn__session",
    "packages__test-support__acp-snapshot__tests__fixtures__suite__plain-turn__session.1",
    "packages__test-support__acp-snapshot__tests__fixtures__suite__plain-turn__session",
}


def test_recorded_logs_are_well_kept() -> None:
    """
    Of 124 recorded logs all but 11 keep every invariant. What the recorder would append to
    one that was interrupted (a result for each open call, the ends of step and turn) is
    what the report says is open.
    """
    unkept = set()
    logs = sorted(corpus("dsh").glob("*.jsonl"))
    for path in logs:
        events: list[Event] = []
        for line in path.read_bytes().split(b"\n")[:-1]:
            record = decode_line(line)
            if isinstance(record, list):
                events += record
            elif not isinstance(record, SessionHeader):
                events.append(record)
        report = check_invariants(events)
        if report:
            unkept.add(path.stem)
        closers = json.loads(corpus("dsh-oracle", f"{path.stem}.json").read_bytes())["closers"]
        if isinstance(closers, dict):  # the recorder failed on this log
            continue
        results = [c["data"]["message"] for c in closers if c["type"] == "tool/result"]
        assert (report.open_turn is not None) is bool(closers), path.stem
        assert [message["source"]["callId"] for message in results] == list(report.open_calls)

    assert 124 == len(logs)
    assert NOT_KEPT == unkept
