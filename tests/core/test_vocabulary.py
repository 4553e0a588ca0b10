"""What event types mean: the reference's facts, a harness's own types, entry points."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from eventlog import APPEND, Event
from eventlog.errors import InvalidArgument, ValueRejected
from eventlog.vocabulary import DEFAULT_VOCABULARY, EventType, Vocabulary, load_vocabulary
from support import message

SURFACE_TYPES = ("user/message", "assistant/message", "tool/result")


def event(type: str, data: dict[str, Any]) -> Event:
    return Event(0, 0, type, data, surface_op=APPEND if type in SURFACE_TYPES else None)


def text_of(type: str, data: dict[str, Any]) -> str:
    return DEFAULT_VOCABULARY.text(event(type, data))


MIXED_CONTENT = [
    {"type": "text", "text": " visible "},
    {"type": "reasoning", "text": "hidden"},
    {"type": "tool-call", "id": "c1", "name": "read", "arguments": "{args}"},
    {
        "type": "tool-result",
        "toolCallId": "c1",
        "content": [{"type": "text", "text": "nested"}],
    },
    {"type": "hologram", "text": "unknown"},
]


@pytest.mark.parametrize(
    ("type", "data"),
    [
        ("user/message", {"content": MIXED_CONTENT, "source": {"kind": "plugin"}}),
        ("user/message", {"content": MIXED_CONTENT, "source": {"kind": "user"}}),
        ("assistant/message", {"message": {"content": MIXED_CONTENT}}),
    ],
)
def test_h1_message_text_is_its_visible_blocks(type: str, data: dict[str, Any]) -> None:
    """
    Text, calls and results inside count, trimmed; reasoning and unknown blocks do not.
    """
    assert "visible\nread\n{args}\nnested" == text_of(type, data)


def test_h2_reasoning_alone_has_no_text() -> None:
    """
    A message of reasoning only has nothing to find.
    """
    content = [{"type": "reasoning", "text": "hm"}]
    assert "" == text_of("assistant/message", {"message": {"content": content}})


def test_h3_call_text_is_name_and_arguments() -> None:
    """
    A call is found by its tool and by what it was called with.
    """
    data = {"turn": 1, "step": 1, "callId": "c1", "name": "bash", "arguments": '{"x":1}'}
    assert 'bash\n{"x":1}' == text_of("tool/call", data)


@pytest.mark.parametrize(
    ("blocks", "error", "expected"),
    [
        (
            [{"type": "text", "text": "failed"}],
            {"name": "Oops", "code": "E_OOPS"},
            "failed\nOops\nE_OOPS",
        ),
        ([], None, ""),
    ],
)
def test_h4_result_text_ends_with_its_error(
    blocks: list[Any], error: dict[str, str] | None, expected: str
) -> None:
    """
    A result's text is its blocks, then the error's name and code.
    """
    block = {"type": "tool-result", "toolCallId": "c1", "content": blocks}
    data: dict[str, Any] = {"message": {"role": "user", "content": [block]}}
    if error is not None:
        data["error"] = error
    assert expected == text_of("tool/result", data)


def test_h5_todo_text_is_status_and_content() -> None:
    """
    A list of tasks is found by the state and the words of each.
    """
    todos = [
        {"content": "write", "status": "completed"},
        {"content": "test", "status": "pending"},
    ]
    assert "completed\nwrite\npending\ntest" == text_of("todo/write", {"todos": todos})


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ({"kind": "error", "error": {"message": "no route", "code": "E"}}, "error\nno route"),
        ({"kind": "aborted", "reason": {"kind": "user"}}, "aborted"),
        ({"kind": "aborted"}, "aborted"),
        ({"kind": "max-tokens"}, "max-tokens"),
        ({"kind": "interrupted"}, "interrupted"),
        ({"kind": "completed"}, ""),
        ({"kind": "something-new"}, ""),
    ],
)
def test_h6_turn_end_text_is_a_bad_reason(reason: dict[str, Any], expected: str) -> None:
    """
    Only a turn that ended otherwise than well says so.
    """
    assert expected == text_of("turn/end", {"turn": 1, "reason": reason})


@pytest.mark.parametrize(
    "type",
    [
        *("turn/start", "step/start", "step/end", "assistant/chunk", "request/header"),
        *("session/title", "compaction/summary", "x/unknown"),
    ],
)
def test_h7_other_types_have_no_text(type: str) -> None:
    """
    Boundaries, chunks, requests, plug-in types and unknown ones have nothing to find.
    """
    data = {"text": "t", "content": [{"type": "text", "text": "t"}], "turn": 1}
    assert "" == text_of(type, data)


def test_knows_the_core_and_the_plugin_types() -> None:
    """
    The default knows 48 types; whether a type is known does not depend on its text.
    """
    assert 48 == len(DEFAULT_VOCABULARY.types)
    known = ("user/message", "todo/write", "session/end-seed", "team/message/queued")
    assert all(DEFAULT_VOCABULARY.knows(name) for name in known)
    assert not DEFAULT_VOCABULARY.knows("x/unknown")


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"content": None},
        {"content": 7},
        {"content": [None, 3, "x", [], {"type": "text"}, {"type": "text", "text": 5}]},
        {"message": None, "content": {"type": "text"}, "error": "x"},
        {"message": {"content": [{"type": "tool-result", "content": "x"}]}, "error": [1]},
        {"todos": {"content": "x"}, "reason": "error", "name": 4},
        {"todos": [1, None], "reason": {"kind": ["error"]}, "provenance": 5, "message": []},
    ],
)
@pytest.mark.parametrize("type", sorted(DEFAULT_VOCABULARY.types))
def test_odd_data_is_no_failure(type: str, data: dict[str, Any]) -> None:
    """
    Whatever a log holds under a known type, its text is a str and its role a str or None.
    """
    odd = event(type, data)
    assert isinstance(DEFAULT_VOCABULARY.text(odd), str)
    assert DEFAULT_VOCABULARY.role(odd) in ("user", "assistant", None)


def test_blocks_nested_as_deep_as_values_go() -> None:
    """
    Results inside results are read without recursion.
    """
    block: dict[str, Any] = {"type": "text", "text": "bottom"}
    for _ in range(95):
        block = {"type": "tool-result", "content": [block]}
    assert "bottom" == text_of("user/message", {"content": [block]})


def test_old_shapes_are_read() -> None:
    """
    Messages of old logs, without an envelope of their own, keep text, role and content.
    """
    content = [{"type": "text", "text": "hello"}]
    user = event("user/message", {"content": content, "source": {"kind": "user"}})
    answer = event("assistant/message", {"content": content, "provenance": {"model": "m"}})
    result = event("tool/result", {"callId": "c1", "content": content, "isError": True})

    for old, role in ((user, "user"), (answer, "assistant"), (result, "user")):
        assert "hello" == DEFAULT_VOCABULARY.text(old)
        assert role == DEFAULT_VOCABULARY.role(old)
    block = {"type": "tool-result", "toolCallId": "c1", "content": content, "isError": True}
    assert {
        "role": "user",
        "content": [block],
        "source": {"kind": "tool", "callId": "c1"},
    } == DEFAULT_VOCABULARY.message(result)
    answered = DEFAULT_VOCABULARY.message(answer)
    assert answered is not None
    assert {"model": "m", "kind": "model"} == answered["source"]


def test_content_that_is_a_str_is_its_text() -> None:
    """
    A harness that writes its content as one str finds it again.
    """
    assert "hello" == text_of("user/message", {"role": "user", "content": " hello "})


def test_messages_are_fresh() -> None:
    """
    A caller may change a message; the event and the next one do not see it.
    """
    said = message(0, "kept")
    first = DEFAULT_VOCABULARY.message(said)
    assert first is not None
    first["content"].clear()
    assert said.data == DEFAULT_VOCABULARY.message(said)


def note_text(data: dict[str, Any]) -> list[Any]:
    return [data.get("body")]


def other_text(data: dict[str, Any]) -> list[Any]:
    return [data.get("title")]


def note_message(data: dict[str, Any]) -> dict[str, Any]:
    return {"role": "system", "content": data["body"]}


def test_a_harness_adds_its_types() -> None:
    """
    An added type has text, message and role; the vocabulary it was added to has not.
    """
    richer = DEFAULT_VOCABULARY.with_types({"x/note": EventType(note_text, note_message)})
    note = Event(0, 0, "x/note", {"body": " b "}, surface_op=APPEND)

    assert ("b", "system") == (richer.text(note), richer.role(note))
    assert {"role": "system", "content": " b "} == richer.message(note)
    assert ("", None) == (DEFAULT_VOCABULARY.text(note), DEFAULT_VOCABULARY.role(note))
    assert richer.knows("x/note")
    assert 49 == len(richer.types)


def test_fingerprint_tells_vocabularies_apart() -> None:
    """
    Equal vocabularies have equal fingerprints; a type, a function or a revision changes it.
    """
    variants = [
        EventType(),
        EventType(note_text),
        EventType(other_text),
        EventType(note_text, note_message),
        EventType(note_text, revision=2),
    ]
    vocabularies = [DEFAULT_VOCABULARY.with_types({"x/note": kind}) for kind in variants]
    fingerprints = {vocabulary.fingerprint for vocabulary in vocabularies}
    assert len(variants) == len(fingerprints - {DEFAULT_VOCABULARY.fingerprint})
    assert DEFAULT_VOCABULARY == Vocabulary(DEFAULT_VOCABULARY.types)
    assert DEFAULT_VOCABULARY.fingerprint == Vocabulary(DEFAULT_VOCABULARY.types).fingerprint


@pytest.mark.parametrize("name", ["", "two words", "session", "x" * 129])
def test_a_bad_type_name_is_refused(name: str) -> None:
    """
    A name that no event can have cannot be registered.
    """
    with pytest.raises(ValueRejected):
        DEFAULT_VOCABULARY.with_types({name: EventType()})


def test_a_bad_type_is_refused() -> None:
    """
    Only an EventType says what a type means.
    """
    with pytest.raises(InvalidArgument) as caught:
        DEFAULT_VOCABULARY.with_types({"x/note": note_text})  # type: ignore[dict-item]
    assert "types" == caught.value.name


# What entry points name below.
offered = {"x/note": EventType(note_text)}
whole = DEFAULT_VOCABULARY.with_types({"x/other": EventType()})
clashing = {"x/note": EventType(other_text)}
nonsense = 7


def install(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Make the names of this module installed vocabularies."""
    points = [EntryPoint(name, f"{__name__}:{name}", "eventlog.vocabularies") for name in names]
    monkeypatch.setattr("eventlog.vocabulary.entry_points", lambda group: points)


def test_installed_vocabularies_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The loaded vocabulary knows the default's types and those of every installed harness.
    """
    install(monkeypatch, "offered", "whole")
    assert DEFAULT_VOCABULARY.with_types({**offered, "x/other": EventType()}) == load_vocabulary()


def test_without_installed_vocabularies_it_is_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    Nothing installed, nothing added.
    """
    install(monkeypatch)
    assert DEFAULT_VOCABULARY == load_vocabulary()


@pytest.mark.parametrize("names", [("offered", "clashing"), ("nonsense",), ("absent",)])
def test_a_bad_installed_vocabulary_is_named(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    """
    A vocabulary that contradicts another, is none, or fails to load is an error that
    names it; leaving it out would hide text in silence.
    """
    install(monkeypatch, *names)
    with pytest.raises(InvalidArgument) as caught:
        load_vocabulary()
    assert names[-1] in caught.value.reason
