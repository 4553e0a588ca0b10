"""
What closes the work that a crash left open, against the reference's rules and answers.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from eventlog import APPEND, DEFAULT_VOCABULARY, Event, SessionHeader
from eventlog.closers import OpenWork, closers, open_work
from eventlog.codec import decode_line, event_to_wire
from eventlog.invariants import check_invariants
from support import corpus


def log_of(*rows: tuple[str, dict[str, Any]]) -> list[Event]:
    """Events of these types and data; messages and results are nodes."""
    nodes = ("user/message", "assistant/message", "tool/result")
    return [
        Event(seq, 1_000 + seq, kind, data, surface_op=APPEND if kind in nodes else None)
        for seq, (kind, data) in enumerate(rows)
    ]


def asks(*call_ids: str, step: int = 1) -> tuple[str, dict[str, Any]]:
    """An answer that makes calls."""
    blocks = [
        {"type": "tool-call", "id": call_id, "name": "bash", "arguments": "{}"}
        for call_id in call_ids
    ]
    message = {"id": "a", "role": "assistant", "content": blocks, "source": {"kind": "model"}}
    return "assistant/message", {"turn": 1, "step": step, "message": message}


def starts(call_id: str) -> tuple[str, dict[str, Any]]:
    return "tool/call", {"turn": 1, "step": 1, "callId": call_id, "name": "b", "arguments": ""}


def answers(call_id: str) -> tuple[str, dict[str, Any]]:
    block = {"type": "tool-result", "toolCallId": call_id, "content": [], "isError": False}
    source = {"kind": "tool", "callId": call_id}
    message = {"id": "r", "role": "user", "content": [block], "source": source}
    return "tool/result", {"turn": 1, "step": 1, "message": message}


Row = tuple[str, dict[str, Any]]

TURN: Row = ("turn/start", {"turn": 1})
STEP: Row = ("step/start", {"turn": 1, "step": 1})
STEP_END: Row = ("step/end", {"turn": 1, "step": 1})
TURN_END: Row = ("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
USER: Row = (
    "user/message",
    {"id": "u", "role": "user", "content": [{"type": "text", "text": "hi"}]},
)


def closing(events: list[Event]) -> list[Event]:
    work = open_work(lambda start, stop: events[start:stop], len(events))
    return closers(work, events[-1]) if events else []


def kinds(events: list[Event]) -> list[str]:
    """The type of each event, and the error code of a result."""
    return [
        f"{event.type} {event.data['error']['code']}" if "error" in event.data else event.type
        for event in events
    ]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], []),
        ([USER], []),
        ([TURN, STEP, USER, STEP_END, TURN_END], []),
        ([("compaction/start", {"compactionId": "c", "turn": None})], []),
        ([TURN], ["turn/end"]),
        ([TURN, STEP], ["step/end", "turn/end"]),
        ([TURN, STEP, USER, STEP_END], ["turn/end"]),
        ([TURN, STEP, asks("c1"), starts("c1"), answers("c1")], ["step/end", "turn/end"]),
        ([TURN, STEP, asks("c1"), STEP_END], ["turn/end"]),
        ([TURN, STEP, asks("c1"), STEP_END, TURN_END, asks("c2")], []),
        ([TURN_END, ("turn/start", {"turn": 2}), ("step/start", {"step": 1})],
         ["step/end", "turn/end"]),
    ],
)  # fmt: skip
def test_what_is_open_is_closed_from_the_inside(
    rows: list[tuple[str, dict[str, Any]]], expected: list[str]
) -> None:
    """
    A step that is open, then its turn; nothing where a log ends between turns. Calls of
    a step that has ended are not looked for.
    """
    assert expected == kinds(closing(log_of(*rows)))


def test_b4_b5_a_call_is_answered_by_what_is_known_of_it() -> None:
    """
    A call that was never started is told so, in the order in which calls were made; one
    that was started cites its start, and is told that nobody knows.
    """
    events = log_of(TURN, STEP, asks("c1", "c2", "c3"), starts("c2"), starts("c3"), answers("c3"))
    closed = closing(events)

    assert [
        "tool/result TOOL_NOT_STARTED",
        "tool/result TOOL_OUTCOME_UNKNOWN",
        "step/end",
        "turn/end",
    ] == kinds(closed)
    assert [6, 7, 8, 9] == [event.seq for event in closed]
    assert {1_005} == {event.time for event in closed}
    assert [None, (3,), None, None] == [event.source_event_seqs for event in closed]
    assert [APPEND, APPEND, None, None] == [event.surface_op for event in closed]
    assert {"kind": "interrupted"} == closed[-1].data["reason"]
    texts = [DEFAULT_VOCABULARY.text(event) for event in closed]
    assert "not started" in texts[0] or "before this call was started" in texts[0]
    assert "only if it merely reads" in texts[1]
    assert all("Interrupted" in text for text in texts[:2])
    assert "interrupted" == texts[-1]
    assert "interrupted-tool-result-c1-6" == closed[0].data["message"]["id"]


def test_closed_logs_satisfy_the_invariants() -> None:
    """
    A log with its closers has every turn and step ended and every call answered, and
    gets no more closers.
    """
    for rows in (
        [TURN, STEP, USER, asks("c1", "c2"), starts("c1")],
        [TURN, STEP, USER, asks("c1"), starts("c1"), answers("c1"), asks("c2")],
        [TURN, STEP, USER],
    ):
        events = log_of(*rows)
        whole = [*events, *closing(events)]
        assert [] == list(check_invariants(whole))
        assert [] == closing(whole)


def test_closers_come_out_the_same_everywhere() -> None:
    """
    Two processes that close the same log make equal events.
    """
    events = log_of(TURN, STEP, asks("c1"), starts("c1"))
    assert closing(events) == closing(log_of(TURN, STEP, asks("c1"), starts("c1")))


def test_a_log_without_turns_has_its_last_calls_closed() -> None:
    """
    A harness without turns crashed between call and result. The open calls of the last
    answer are closed; those of earlier ones, and answered ones, are not.
    """
    open_calls = [USER, asks("c0"), USER, asks("c1", "c2"), starts("c1"), answers("c2")]
    closed = closing(log_of(*open_calls))

    assert ["tool/result TOOL_OUTCOME_UNKNOWN"] == kinds(closed)
    assert "c1" == closed[0].data["message"]["source"]["callId"]
    assert [] == closing([*log_of(*open_calls), *closed])


def test_a_turn_without_a_number_is_closed_without_one() -> None:
    """
    A harness that does not count its turns gets the ends that belong to them.
    """
    closed = closing(log_of(("turn/start", {}), ("step/start", {"step": None})))
    assert [{}, {"reason": {"kind": "interrupted"}}] == [event.data for event in closed]


@pytest.mark.parametrize("data", [{}, {"message": 5}, {"content": [None, {"type": "tool-call"}]}])
@pytest.mark.parametrize("type", ["assistant/message", "tool/call", "tool/result", "step/start"])
def test_odd_data_is_closed_all_the_same(type: str, data: dict[str, Any]) -> None:
    """
    Whatever the events of an open turn hold, its end is written.
    """
    assert "turn/end" == kinds(closing(log_of(TURN, (type, data))))[-1]


def test_reading_stays_in_the_last_turn() -> None:
    """
    Of a long log only the last turn is looked at.
    """
    turn = [TURN, STEP, USER, STEP_END, TURN_END]
    events = log_of(*turn * 2000, TURN, STEP)
    touched: list[int] = []

    def read(start: int, stop: int) -> list[Event]:
        touched.append(stop - start)
        return events[start:stop]

    work = open_work(read, len(events))
    assert (10_000, 10_001) == (work.turn_start, work.step_start)
    assert sum(touched) < 300
    assert OpenWork() == open_work(read, 10_000)


def neutral(row: dict[str, Any]) -> dict[str, Any]:
    """A wire record without the words of a synthetic result, which are ours."""
    if row["type"] == "tool/result":
        row["data"]["message"]["content"][0]["content"] = []
    return row


def test_closers_agree_with_the_reference() -> None:
    """
    For recorded and generated logs the closers are those of the reference, word by word
    but for the text of results. Ours answers more: logs without turns, and messages of
    old shape, on which that one fails.
    """
    equal = 0
    more: list[str] = []
    with corpus("fuzz", "surface.jsonl").open(encoding="utf-8", newline="\n") as lines:
        cases = [json.loads(line) for line in lines]
    for case in cases:
        if not isinstance(case["closers"], list) or case["mutation"] in ("weirdOp", "seq"):
            continue
        try:
            decoded = [decode_line(json.dumps(row).encode()) for row in case["events"]]
        except ValueError:
            continue  # an envelope that is none
        events = [event for event in decoded if isinstance(event, Event)]
        ours = [neutral(event_to_wire(event)) for event in closing(events)]
        if [neutral(row) for row in case["closers"]] == ours:
            equal += 1
        else:
            assert not any(event.type in ("turn/start", "turn/end") for event in events), case["id"]
            assert ["tool/result"] * len(ours) == [row["type"] for row in ours], case["id"]
            more.append(case["id"])
    assert equal > 1100
    assert 0 < len(more) < 100


def test_closers_of_recorded_logs_agree() -> None:
    """
    Of the recorded logs one ends inside a turn; those with messages of old shape, where
    the reference fails, end well.
    """
    compared = 0
    for path in sorted(corpus("dsh-oracle").glob("*.json")):
        expected = json.loads(path.read_bytes())["closers"]
        events: list[Event] = []
        for line in corpus("dsh", path.stem + ".jsonl").read_bytes().split(b"\n"):
            record = decode_line(line) if line else []
            if not isinstance(record, SessionHeader):
                events += record if isinstance(record, list) else [record]
        ours = [event_to_wire(event) for event in closing(events)]
        assert (expected if isinstance(expected, list) else []) == ours, path.stem
        compared += len(ours)
    assert 1 == compared
