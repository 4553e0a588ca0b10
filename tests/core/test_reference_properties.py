"""
What the reference harness asserts of random logs, P1–P6, and its answers for replayed logs.

P6 asserts that derived messages are frozen. Here they are fresh: changing one is allowed,
and changes nothing else.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from eventlog import APPEND, Event, LiveSessions, Replace, Session
from eventlog.codec import decode_line
from support import corpus

texts = st.text(st.characters(codec="utf-8"), max_size=8)
notes = st.sampled_from(["turn/start", "step/start", "assistant/chunk", "tool/call", "x/note"])
# Each action is a type to append, or a pair of fractions that choose a range to replace.
actions = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["user/message", "assistant/message"]), texts),
        st.tuples(notes, texts),
        st.tuples(st.just("replace"), st.tuples(st.floats(0, 1), st.floats(0, 1))),
    ),
    max_size=25,
)


def data_of(type: str, text: str, seq: int) -> dict[str, Any]:
    said = {"id": f"m{seq}", "role": "user", "content": [{"type": "text", "text": text}]}
    if type == "user/message":
        return said
    if type == "assistant/message":
        return {"turn": 1, "step": 1, "message": {**said, "role": "assistant"}}
    return {"turn": 1, "step": 1, "text": text}


def run(session: Session, program: list[tuple[str, Any]]) -> None:
    """Append what a program says."""
    for action, detail in program:
        if action != "replace":
            op = APPEND if action in ("user/message", "assistant/message") else None
            session.append(action, data_of(action, detail, session.length), surface_op=op)
            continue
        nodes = session.nodes
        if nodes:
            first, last = sorted(round(fraction * (len(nodes) - 1)) for fraction in detail)
            shadowed = nodes[first : last + 1]
            session.append(
                "user/message",
                data_of("user/message", "summary", session.length),
                surface_op=Replace(shadowed[0], shadowed[-1]),
                source_event_seqs=shadowed,
            )


def events_of(session: Session) -> list[Event]:
    return session.read(0, session.length)


@given(actions)
def test_p1_p2_messages_repeat_and_seqs_count(program: list[tuple[str, Any]]) -> None:
    """
    Asked twice, the messages are equal; the i-th event has the seq i.
    """
    session = LiveSessions().create()
    run(session, program)

    assert session.messages() == session.messages()
    assert list(range(session.length)) == [event.seq for event in events_of(session)]
    assert session.length == session.append("x/note", {}).seq


@given(actions, actions)
def test_messages_are_those_of_a_session_asked_for_the_first_time(
    before: list[tuple[str, Any]], after: list[tuple[str, Any]]
) -> None:
    """
    Messages kept in step with the log are those that a fresh session derives.
    """
    session = LiveSessions().create()
    run(session, before)
    session.messages()
    run(session, after)

    assert LiveSessions().create(seed=events_of(session)).messages() == session.messages()


@given(actions)
def test_p3_p4_a_replay_adds_one_mark(program: list[tuple[str, Any]]) -> None:
    """
    A session seeded with a log has its messages, its events and one session/end-seed;
    seeded with that, it has no further mark.
    """
    session = LiveSessions().create()
    run(session, program)
    replayed = LiveSessions().create(seed=events_of(session))
    again = LiveSessions().create(seed=events_of(replayed))

    assert session.messages() == replayed.messages() == again.messages()
    assert events_of(session) == events_of(replayed)[: session.length]
    assert session.length + 1 == replayed.length
    assert events_of(replayed) == events_of(again)


@given(st.lists(texts, max_size=10), st.data())
def test_p5_other_events_do_not_change_messages(said: list[str], data: st.DataObject) -> None:
    """
    The same messages with any events between them give the same messages.
    """
    plain, mixed = LiveSessions().create(), LiveSessions().create()
    for n, text in enumerate(said):
        for _ in range(data.draw(st.integers(0, 3))):
            mixed.append(data.draw(notes), {"turn": 1})
        for session in (plain, mixed):
            session.append("user/message", data_of("user/message", text, n), surface_op=APPEND)

    assert plain.messages() == mixed.messages()


@given(actions)
def test_p6_messages_have_a_role_and_are_detached(program: list[tuple[str, Any]]) -> None:
    """
    Each has a known role, and changing one changes neither events nor the next answer.
    """
    session = LiveSessions().create()
    run(session, program)
    events, derived = events_of(session), session.messages()
    assert {item["role"] for item in derived} <= {"user", "assistant", "system"}

    before = orjson.dumps(derived)
    for item in derived:
        item["content"].clear()
        item["role"] = "changed"
    assert before == orjson.dumps(session.messages())
    assert events == events_of(session)


def test_recorded_logs_replay_as_they_did() -> None:
    """
    For every recorded log that the reference could replay, the seeded session has its
    length, its surface, its generation and its messages, byte for byte.
    """
    compared = messages = 0
    for path in sorted(corpus("dsh-oracle").glob("*.json")):
        replay = json.loads(path.read_bytes())["replay"]
        if not replay["ok"]:
            continue
        session = LiveSessions().create(seed=recorded_events(path.stem))
        assert replay["lengthAfter"] == session.length, path.stem
        assert replay["surface"] == session.nodes, path.stem
        assert replay["replaceGeneration"] == session.replace_generation, path.stem
        derived = session.messages()
        expected = [(item["role"], item["sha256"]) for item in replay["derivedMessages"]]
        found = [(item["role"], hashlib.sha256(orjson.dumps(item)).hexdigest()) for item in derived]
        assert expected == found, path.stem
        compared += 1
        messages += len(derived)
    assert compared > 100
    assert messages > 500


def recorded_events(name: str) -> list[Event]:
    events: list[Event] = []
    for line in corpus("dsh", name + ".jsonl").read_bytes().split(b"\n")[1:]:
        if line:
            decoded = decode_line(line)
            assert not hasattr(decoded, "created_at")
            events += decoded if isinstance(decoded, list) else [decoded]
    return events


def test_generated_logs_replay_as_they_did() -> None:
    """
    For every generated log that the reference replays, the messages have the same ids in
    the same order.
    """
    compared = 0
    with corpus("fuzz", "surface.jsonl").open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            case = json.loads(line)
            if not case["replay"]["ok"]:
                continue
            events = [decode_line(orjson.dumps(row)) for row in case["events"]]
            session = LiveSessions().create(seed=[e for e in events if isinstance(e, Event)])
            assert case["replay"]["derived"] == [m["id"] for m in session.messages()], case["id"]
            compared += 1
    assert compared > 700
