"""
The redact hook: what it is asked, what it changes, and that nothing else tells the secret.
"""

from __future__ import annotations

import re
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eventlog import APPEND, Event, LiveSessions, Recorder, Replace, Session, open_store
from eventlog.errors import InvalidArgument, InvalidSurface, RedactionFailed, ValueRejected
from eventlog.query import SessionQuery, session_query_tool

SECRET = "sk-test-000111222333"
KEY = re.compile(r"sk-[\w-]+")


def hide_keys(event_type: str, path: str, text: str) -> str:
    """Hide what looks like a key, but in signatures, which must not change."""
    return text if path.endswith(".thinkingSignature") else KEY.sub("[key]", text)


def said(text: str, **fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text, **fields}]}


def result(text: str, meta: str) -> dict[str, Any]:
    block = {"type": "tool-result", "toolCallId": "c", "content": [{"type": "text", "text": text}]}
    message = {"role": "user", "content": [block], "source": {"kind": "tool", "callId": "c"}}
    return {"turn": 1, "step": 1, "message": message, "meta": meta}


@pytest.mark.parametrize("scheme", ["memory", "lmdb", "jsonl"])
def test_i9_redacted_is_what_everything_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """
    Live, told, stored, merged, searched and given to the model: the secret is nowhere.

    Keys in the output of tools were stored in clear; and what replaced them replaced
    parts of signed fields and of honest text as well.
    """
    monkeypatch.setenv("EVENTLOG_CACHE", str(tmp_path / "cache"))
    live = LiveSessions(redact=hide_keys)
    told: list[Event] = []
    live.observe(lambda session, event: told.append(event))
    signature = f"Ab+/{SECRET}=="
    url = "memory:" if scheme == "memory" else f"{scheme}:{tmp_path}/store"
    with open_store(url) as store, Recorder(live, store) as recorder:
        session = live.create("s1")
        data = said(f"KEY={SECRET} and a word on the password", thinkingSignature=signature)
        returned = session.append("user/message", data, surface_op=APPEND)
        recorder.flush()
        query = SessionQuery(live, store)
        stored_query = SessionQuery(store=store)

        expected = said("KEY=[key] and a word on the password", thinkingSignature=signature)
        assert expected == returned.data == told[0].data == session.read(0, 1)[0].data
        assert [expected] == session.messages()
        assert [returned] == store.snapshot("s1").read(0, 1)
        for asked in (query, stored_query):
            assert [expected] == [event.data for event in asked.read_surface("s1").events]
            assert expected == asked.read_event("s1", 0).target.data
            assert () == asked.search_events("s1", "000111222333").items
            (hit,) = asked.search_events("s1", "password").items
            assert "KEY=[key]" in hit.excerpt
            tool = session_query_tool(asked, "s1")
            assert tool is not None
            assert "KEY=[key]" in tool.call({"query": "password"})
        assert said(f"KEY={SECRET} and a word on the password", thinkingSignature=signature) == data

    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"KEY=" + SECRET.encode() not in kept
    assert (scheme != "memory") == (signature.encode() in kept), "excluded: byte by byte"


def test_i9_hook_is_asked_once_for_each_string() -> None:
    """
    It sees the type, the path in the notation of errors, and the text, in order; not the
    keys, the numbers, or the strings of other events.
    """
    asked: list[tuple[str, str, str]] = []

    def redact(event_type: str, path: str, text: str) -> str:
        asked.append((event_type, path, text))
        return text

    live = LiveSessions(redact=redact)
    live.observe(lambda session, event: asked.append((event.type, "told", str(event.seq))))
    data = {
        "message": {"content": [{"text": "a"}, 1, None, True, 2.5, "b"]},
        "a.b": {"": "c", "it's": "d", "名": "e"},
        "long" * 100: ("f", ["g"]),
        "": "",
    }
    event = live.create().append("x/a", data, source_event_seqs=None)

    assert [
        ("x/a", "data.message.content[0].text", "a"),
        ("x/a", "data.message.content[5]", "b"),
        ("x/a", "data['a.b']['']", "c"),
        ("x/a", "data['a.b'][\"it's\"]", "d"),
        ("x/a", "data['a.b'].名", "e"),
        ("x/a", f"data[{('long' * 100)[:199] + '…'!r}][0]", "f"),
        ("x/a", f"data[{('long' * 100)[:199] + '…'!r}][1][0]", "g"),
        ("x/a", "data['']", ""),
        ("x/a", "told", "0"),
    ] == asked
    assert event.payload == LiveSessions().create().append("x/a", data).payload


def test_i9_without_a_hook_nothing_is_altered() -> None:
    """
    What looks like a secret is kept as it came where nobody asked for anything else.
    """
    event = LiveSessions().create().append("x/a", {"stdout": f"KEY={SECRET}"})

    assert {"stdout": f"KEY={SECRET}"} == event.data


class Loud(Exception):
    """An exception that tells all it knows."""


def shout(event_type: str, path: str, text: str) -> str:
    try:
        raise Loud(text)
    except Loud as error:
        raise ValueError(f"cannot redact {text}") from error


FAILING: dict[str, Callable[..., Any]] = {
    "raises": shout,
    "recurses": lambda event_type, path, text: FAILING["recurses"](event_type, path, text),
    "none": lambda event_type, path, text: None,
    "bytes": lambda event_type, path, text: text.encode(),
    "subclass": lambda event_type, path, text: type("Text", (str,), {})(text),
    "arguments": lambda path, text: text,
    "builtin": ord,
}


@pytest.mark.parametrize("name", FAILING)
def test_i9_failing_hook_keeps_the_event_out(name: str) -> None:
    """
    The event is refused with its type and path, uses no seq and is told to nobody; and
    neither the error nor anything behind it holds the text.
    """
    fails = True
    live = LiveSessions(redact=lambda *given: FAILING[name](*given) if fails else given[2])
    told: list[int] = []
    live.observe(lambda session, event: told.append(event.seq))
    session = live.create()

    with pytest.raises(RedactionFailed) as caught:
        session.append("x/a", {"out": [f"KEY={SECRET}"]})

    error = caught.value
    assert ("x/a", "data.out[0]") == (error.event_type, error.path)
    assert None is error.__cause__ is error.__context__
    shown = "".join(traceback.format_exception(error))
    assert SECRET not in shown
    assert SECRET not in repr(error)
    assert "test_redaction.py:" in error.reason or not error.reason.startswith("raised")
    assert (0, []) == (session.length, told)
    fails = False
    assert 0 == session.append("x/a", {"out": "fine"}).seq


def test_i9_what_the_hook_returns_is_a_value_like_any_other() -> None:
    """
    A replacement that the log cannot hold is refused by its path, without its text.
    """
    session = LiveSessions(redact=lambda event_type, path, text: text + "\ud800").create()
    with pytest.raises(ValueRejected) as caught:
        session.append("x/a", {"out": SECRET})

    assert "data.out" == caught.value.path
    assert SECRET not in str(caught.value)
    assert 0 == session.length


@pytest.mark.parametrize(
    ("type", "data"),
    [("x/a", {"a": "x", "b": float("nan")}), ("", {"a": "x"}), ("x/a", ["x"]), (7, {"a": "x"})],
)
def test_i9_hook_sees_only_what_can_be_kept(type: Any, data: Any) -> None:
    """
    A value or a type that is refused is refused before the hook is asked about any of it.
    """
    asked: list[str] = []

    def redact(event_type: str, path: str, text: str) -> str:
        asked.append(path)
        return text

    session = LiveSessions(redact=redact).create()
    with pytest.raises(ValueRejected):
        session.append(type, data)

    assert [] == asked


def test_i9_forks_and_seeds_are_taken_as_they_are() -> None:
    """
    A fork's prefix was redacted when it was appended, and a seed's events were made by
    whoever gives them; the hook is asked about what is appended from then on.
    """
    asked: list[str] = []

    def redact(event_type: str, path: str, text: str) -> str:
        asked.append(text)
        return hide_keys(event_type, path, text)

    live = LiveSessions(redact=redact)
    parent = live.create("p")
    parent.append("x/a", {"out": SECRET})
    child = live.fork(parent)
    seeded = live.create("s", seed=[Event(0, 0, "x/a", {"out": SECRET})])

    assert [SECRET] == asked
    assert parent.read(0, 1) == child.read(0, 1)
    assert {"out": "[key]"} == child.read(0, 1)[0].data
    assert {"out": SECRET} == seeded.read(0, 1)[0].data
    for session in (child, seeded):
        assert {"out": "[key]"} == session.append("x/a", {"out": SECRET}).data


def test_i9_resumed_log_and_its_closers_are_taken_as_they_are() -> None:
    """
    Resuming asks the hook about nothing: it adds only what the log says already, and two
    processes that resume at once must add the same. What comes later is redacted.
    """
    store = open_store("memory:")
    call = {"type": "tool-call", "id": SECRET, "name": "run", "arguments": "{}"}
    answer = {"turn": 1, "step": 1, "message": {"role": "assistant", "content": [call]}}
    with Recorder(LiveSessions(), store) as recorder:
        session = recorder.live.create("s1")
        session.append("turn/start", {"turn": 1})
        session.append("step/start", {"turn": 1, "step": 1})
        session.append("assistant/message", answer, surface_op=APPEND, source_event_seqs=[])

    asked: list[str] = []

    def redact(event_type: str, path: str, text: str) -> str:
        asked.append(text)
        return hide_keys(event_type, path, text)

    live = LiveSessions(redact=redact)
    with Recorder(live, store) as recorder:
        resumed = recorder.resume("s1")
        assert [] == asked
        assert SECRET == resumed.read(3, 4)[0].data["message"]["source"]["callId"]
        assert {"out": "[key]"} == resumed.append("x/a", {"out": SECRET}).data
    store.close()


def rewrite(session: Session, text: str, meta: str) -> Event:
    return session.append(
        "tool/result", result(text, meta), surface_op=Replace(0, 0), source_event_seqs=[0]
    )


def test_i9_replaced_tool_result_is_redacted_like_its_original() -> None:
    """
    A result may be rewritten from the log's copy or from the harness's own: a hook that
    answers alike, and leaves its own answers alone, changes both in the same way.
    """
    for meta in (f"KEY={SECRET}", "KEY=[key]"):
        session = LiveSessions(redact=hide_keys).create()
        session.append("tool/result", result(f"out {SECRET}", f"KEY={SECRET}"), surface_op=APPEND)
        event = rewrite(session, f"cut {SECRET}", meta)
        assert result("cut [key]", "KEY=[key]") == event.data
        assert [1] == session.nodes


def test_i9_hook_that_never_answers_alike_cannot_rewrite_a_result() -> None:
    """
    A hook that numbers what it hides makes another result of each rewrite, which the fold
    refuses as it refuses every rewrite of more than content. Nothing is added.
    """
    count = 0

    def number(event_type: str, path: str, text: str) -> str:
        nonlocal count
        count += 1
        return KEY.sub(f"[key {count}]", text)

    session = LiveSessions(redact=number).create()
    session.append("tool/result", result("out", f"KEY={SECRET}"), surface_op=APPEND)
    with pytest.raises(InvalidSurface):
        rewrite(session, "cut", f"KEY={SECRET}")
    assert (1, [0]) == (session.length, session.nodes)


def test_i9_hook_runs_outside_the_lock() -> None:
    """
    While a hook is at work on one event, other threads append and read.
    """
    may_go_on, is_asked = threading.Event(), threading.Event()

    def redact(event_type: str, path: str, text: str) -> str:
        if text == "slow":
            is_asked.set()
            assert may_go_on.wait(20)
        return text

    session = LiveSessions(redact=redact).create()
    slow = threading.Thread(target=session.append, args=("x/slow", {"a": "slow"}))
    slow.start()
    assert is_asked.wait(20)
    assert 0 == session.append("x/quick", {"a": "quick"}).seq
    may_go_on.set()
    slow.join(20)

    assert ["x/quick", "x/slow"] == [event.type for event in session.read(0, 9)]


def test_i9_interrupted_hook_leaves_the_event_out() -> None:
    """
    Ctrl-C while the hook is at work reaches the caller as it is; the next append is as ever.
    """
    interrupts = [KeyboardInterrupt]

    def redact(event_type: str, path: str, text: str) -> str:
        if interrupts:
            raise interrupts.pop()
        return text

    session = LiveSessions(redact=redact).create()
    with pytest.raises(KeyboardInterrupt):
        session.append("x/a", {"a": "x"})
    assert 0 == session.append("x/a", {"a": "x"}).seq


@pytest.mark.parametrize(
    ("name", "bad"), [("redact", "x"), ("redact", 0), ("vocabulary", {}), ("vocabulary", None)]
)
def test_live_sessions_take_no_other_options(name: str, bad: Any) -> None:
    """
    What is no vocabulary, or cannot be called, is refused where it is given.
    """
    with pytest.raises(InvalidArgument) as caught:
        LiveSessions(**{name: bad})
    assert name == caught.value.name
