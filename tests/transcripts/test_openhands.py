"""OpenHands: condensations, parallel calls, branches, and lists of the older version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eventlog import EventStore, open_store
from support.transcripts import imported, messages_of, table_of

Event = dict[str, Any]


def message(event_id: str, role: str, text: str, **fields: Any) -> Event:
    said = {"role": role, "content": [{"type": "text", "text": text}]}
    source = "agent" if role == "assistant" else "user"
    return {"id": event_id, "kind": "MessageEvent", "source": source, "llm_message": said, **fields}


def action(event_id: str, call_id: str, response: str, thought: str = "") -> Event:
    call = {"id": call_id, "name": "terminal", "arguments": "{}"}
    return {
        "id": event_id,
        "kind": "ActionEvent",
        "source": "agent",
        "thought": [{"type": "text", "text": thought}] if thought else [],
        "action": {"kind": "TerminalAction"},
        "tool_name": "terminal",
        "tool_call_id": call_id,
        "tool_call": call,
        "llm_response_id": response,
    }


def observation(event_id: str, call_id: str, text: str, **fields: Any) -> Event:
    seen = {"kind": "TerminalObservation", "content": [{"type": "text", "text": text}], **fields}
    return {
        "id": event_id,
        "kind": "ObservationEvent",
        "tool_call_id": call_id,
        "observation": seen,
    }


def write(folder: Path, *events: Event) -> Path:
    """Write a conversation's folder."""
    (folder / "events").mkdir(parents=True)
    state = {"id": "conversation", "workspace": {"working_dir": "/w"}}
    (folder / "base_state.json").write_text(json.dumps(state))
    for number, event in enumerate(events):
        event = {"timestamp": f"2026-01-01T00:00:{number:02}.5", "source": "environment", **event}
        name = f"event-{number:05}-{event['id']}.json"
        (folder / "events" / name).write_text(json.dumps(event))
    return folder


def texts(store: EventStore, session_id: str = "conversation") -> list[str]:
    """The texts of each message that the model sees."""
    found = []
    for _, _, content in messages_of(store, session_id):
        blocks = content[0].get("content", content) if content else []
        found.append("".join(block.get("text", "") for block in blocks))
    return found


def test_calls_of_one_response_are_one_message(tmp_path: Path) -> None:
    """Two actions share a response, the thought stands on the first: one answer, two calls."""
    path = write(
        tmp_path / "c",
        message("m1", "user", "go"),
        action("a1", "c1", "r1", "both"),
        action("a2", "c2", "r1"),
        observation("o1", "c1", "one"),
        observation("o2", "c2", "two"),
        action("a3", "c3", "r2"),
        {"id": "e", "kind": "AgentErrorEvent", "tool_call_id": "c3", "error": "broke"},
    )
    with open_store("memory:") as store:
        imported(store, "openhands", path)
        table = table_of(store, "conversation")

        assert ["go", "both", "one", "two", "", "broke"] == texts(store)
        assert (2, 3, 3) == (
            table.types["assistant/message"],
            table.types["tool/call"],
            table.pairs,
        )
        header = store.snapshot("conversation").header
        assert ("/w", 1767225600500) == (header.cwd, header.created_at)


def test_a_condensation_of_one_stretch_is_one_replacement(tmp_path: Path) -> None:
    """What is forgotten behind the first event is replaced by the summary, in its place."""
    path = write(
        tmp_path / "c",
        message("m1", "user", "keep"),
        message("m2", "assistant", "old 1"),
        message("m3", "user", "old 2"),
        message("m4", "assistant", "new"),
        {
            "id": "d",
            "kind": "Condensation",
            "forgotten_event_ids": ["m2", "m3"],
            "summary": "in short",
            "summary_offset": 1,
        },
        message("m5", "user", "on"),
    )
    with open_store("memory:") as store:
        imported(store, "openhands", path)

        assert ["keep", "in short", "new", "on"] == texts(store)
        assert 1 == table_of(store, "conversation").compactions


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(1, ["a", "sum", "c", "e"]), (2, ["a", "c", "sum", "e"]), (9, ["a", "sum", "c", "e"])],
)
def test_a_condensation_of_a_set_is_a_replacement_for_each_run(
    offset: int, expected: list[str], tmp_path: Path
) -> None:
    """Two runs are forgotten: the summary stands at its offset, the other run is dropped."""
    said = [message(f"m{text}", "user", text) for text in "abcde"]
    condensation = {
        "id": "d",
        "kind": "Condensation",
        "forgotten_event_ids": ["mb", "md"],
        "summary": "sum",
        "summary_offset": offset,
    }
    with open_store("memory:") as store:
        imported(store, "openhands", write(tmp_path / "c", *said, condensation))

        assert expected == texts(store)


def test_a_condensation_without_a_summary_only_forgets(tmp_path: Path) -> None:
    """What is forgotten is gone from what the model sees, and is in the log."""
    path = write(
        tmp_path / "c",
        message("m1", "user", "a"),
        message("m2", "user", "b"),
        {"id": "d", "kind": "Condensation", "forgotten_event_ids": ["m1", "unknown"]},
    )
    with open_store("memory:") as store:
        imported(store, "openhands", path)

        assert ["b"] == texts(store)
        assert 1 == table_of(store, "conversation").types["openhands/Condensation"]


def test_an_event_that_goes_on_elsewhere_cuts_off_what_came_since(tmp_path: Path) -> None:
    """A parent that is not the event before, and an explicit root."""
    path = write(
        tmp_path / "c",
        message("m1", "user", "a"),
        message("m2", "user", "b"),
        message("m3", "user", "c", parent_id="m1"),
    )
    root = write(
        tmp_path / "r", message("m1", "user", "a"), message("m2", "user", "b", parent_id="__root__")
    )
    with open_store("memory:") as store:
        imported(store, "openhands", path)
        assert ["a", "c"] == texts(store)
    with open_store("memory:") as store:
        imported(store, "openhands", root)
        assert ["b"] == texts(store)


def prompt(event_id: str, text: str, kind: str = "SystemPromptEvent", **fields: Any) -> Event:
    return {"id": event_id, "kind": kind, "system_prompt": {"type": "text", "text": text}, **fields}


@pytest.mark.parametrize("branches", [False, True])
def test_a_system_prompt_that_changes_and_what_is_put_to_it(tmp_path: Path, branches: bool) -> None:
    """
    A conversation that was restored with other tools, and skills that were put to a
    message: the model sees the newest system prompt alone, its dynamic part and the
    skills. They were kept as records. A branch from the first prompt cuts off what came.
    """
    context = {"type": "text", "text": "today"}
    skill = {"type": "text", "text": "skill"}
    events = [
        prompt("s1", "old"),
        message("m1", "user", "one", extended_content=[skill]),
        message("m2", "assistant", "two", llm_response_id="r"),
        prompt("s2", "new", "SystemPromptUpdateEvent", reason="x", dynamic_context=context),
        message("m3", "user", "three", **({"parent_id": "s1"} if branches else {})),
    ]
    with open_store("memory:") as store:
        imported(store, "openhands", write(tmp_path / "c", *events))

        said = [
            [block["text"] for block in content]
            for *_, content in messages_of(store, "conversation")
        ]
        expected = [["new", "today"], ["one", "skill"], ["two"], ["three"]]
        assert said == ([expected[0], expected[3]] if branches else expected)


def test_a_file_of_no_event_is_a_fault_of_its_own(tmp_path: Path) -> None:
    """One event's file is empty, one is torn: both are named, the others are imported."""
    path = write(tmp_path / "c", *(message(f"m{n}", "user", str(n)) for n in range(4)))
    files = sorted((path / "events").iterdir())
    files[1].write_bytes(b"")
    files[2].write_bytes(files[2].read_bytes()[:20])
    with open_store("memory:") as store:
        account = imported(store, "openhands", path, refused=True)

        assert ["0", "3"] == texts(store)
        assert [(str(files[1]), "empty"), (str(files[2]), "malformed")] == [
            (fault.path, fault.kind) for fault in account.faults
        ]


def test_a_list_of_the_older_version(tmp_path: Path) -> None:
    """Actions and observations of one file, paired by the cause, condensed by a range."""
    events = [
        {"id": 0, "source": "agent", "action": "system", "args": {"content": "be good"}},
        {"id": 1, "source": "user", "action": "message", "args": {"content": "go"}},
        {"id": 2, "source": "agent", "action": "run", "args": {"command": "ls", "thought": "look"}},
        {"id": 3, "source": "agent", "observation": "run", "cause": 2, "content": "files"},
        {"id": 4, "source": "environment", "observation": "agent_state_changed", "content": ""},
        {
            "id": 5,
            "source": "agent",
            "action": "read",
            "args": {"path": "x"},
            "tool_call_metadata": {"function_name": "read_file", "tool_call_id": "call_1"},
        },
        {"id": 6, "source": "agent", "observation": "error", "cause": 5, "content": "none"},
        {
            "id": 7,
            "source": "agent",
            "action": "condensation",
            "args": {
                "forgotten_events_start_id": 2,
                "forgotten_events_end_id": 3,
                "summary": "looked",
                "summary_offset": 2,
            },
        },
        {"id": 8, "source": "agent", "action": "finish", "args": {"final_thought": "done"}},
    ]
    path = tmp_path / "trajectory.json"
    path.write_text(json.dumps(events))
    with open_store("memory:") as store:
        imported(store, "openhands", path)
        table = table_of(store, "trajectory")

        assert ["be good", "go", "looked", "", "none", ""] == texts(store, "trajectory")
        assert (3, 2, 1) == (table.types["tool/call"], table.pairs, table.compactions)
        assert ("action-8",) == table.open_calls
