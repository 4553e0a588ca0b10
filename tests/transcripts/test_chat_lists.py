"""Lists of messages: the forms they come in, and lists that were edited."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eventlog import EventStore, open_store
from support.transcripts import imported, messages_of, table_of

Item = dict[str, Any]


def texts(store: EventStore, session_id: str = "list") -> list[str]:
    """The texts of each message that the model sees."""
    found = []
    for _, _, content in messages_of(store, session_id):
        blocks = content[0].get("content", content) if content else []
        found.append("".join(block.get("text", "") for block in blocks))
    return found


def write(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value))
    return path


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
CHAT: list[Item] = [
    {"role": "system", "content": "be good"},
    {"role": "user", "content": [{"type": "text", "text": "go"}]},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c", "content": "out"},
    {"role": "assistant", "content": "done", "refusal": None},
]
ITEMS: list[Item] = [
    {"role": "developer", "content": "be good"},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
    {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "out"},
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "done"}],
    },
    {"type": "item_reference", "id": "z"},
]


@pytest.mark.parametrize(("tool", "items"), [("chat-completions", CHAT), ("responses", ITEMS)])
@pytest.mark.parametrize("form", ["list", "object", "lines"])
def test_every_form_gives_the_same_conversation(
    tool: str, items: list[Item], form: str, tmp_path: Path
) -> None:
    """A list, an object that holds it, and a line for each message."""
    path = tmp_path / "list.json"
    if form == "lines":
        path = tmp_path / "list.jsonl"
        path.write_text("".join(json.dumps(item) + "\n" for item in items))
    else:
        write(path, items if form == "list" else {"model": "m", "messages": items})
    with open_store("memory:") as store:
        account = imported(store, tool, path)
        table = table_of(store, "list")

        assert ["be good", "go", "", "out", "done"] == texts(store)
        assert (1, 1, 2) == (
            table.pairs,
            table.types["tool/call"],
            table.types["assistant/message"],
        )
        assert len(items) + (form == "object") == account.records.found


def test_a_file_of_many_lists_has_a_session_for_each(tmp_path: Path) -> None:
    """One list a line, as training files have them."""
    path = tmp_path / "many.jsonl"
    path.write_text("".join(json.dumps({"messages": CHAT[:n], "n": n}) + "\n" for n in (2, 5)))
    with open_store("memory:") as store:
        account = imported(store, "chat-completions", path)

        assert 2 == account.new
        assert ["be good", "go"] == texts(store, "many.1")
        assert 5 == len(texts(store, "many.2"))


def said(*words: str) -> list[Item]:
    return [{"role": "user", "content": word} for word in words]


@pytest.mark.parametrize(
    ("after", "nodes"),
    [
        (["a", "b", "c", "d", "e"], 0),  # grown
        (["a", "b"], 1),  # shortened: a gap behind it
        (["a", "sum", "e"], 1),  # the rest replaced by a summary, and one more
        (["a", "sum", "d"], 1),  # the middle replaced
        (["x", "b", "c", "d"], 1),  # the first one edited
        (["a", "b", "b", "c", "d"], 1),  # one put between
        (["d", "c", "b", "a"], 1),  # reversed
        (["new"], 1),  # another conversation
        ([], 1),  # cleared
    ],
)
def test_an_edited_list_takes_the_place_of_what_it_was(
    after: list[str], nodes: int, tmp_path: Path
) -> None:
    """Whatever a list became, the surface is that list, and the first form is in the log."""
    with open_store("memory:") as store:
        imported(store, "chat-completions", write(tmp_path / "list.json", said("a", "b", "c", "d")))
        before = store.snapshot("list").length
        imported(store, "chat-completions", write(tmp_path / "list.json", said(*after)))
        log = store.snapshot("list")

        assert after == texts(store)
        assert nodes <= sum(event.is_node for event in log.read(before, log.length))
        imported(store, "chat-completions", write(tmp_path / "list.json", said("a", "b", "c", "d")))
        assert ["a", "b", "c", "d"] == texts(store)


def test_legacy_functions_pair_by_their_name(tmp_path: Path) -> None:
    """Old lists have a function call without an id, and an answer by the function's name."""
    items: list[Item] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "out"},
    ]
    with open_store("memory:") as store:
        imported(store, "chat-completions", write(tmp_path / "list.json", items))
        assert 1 == table_of(store, "list").pairs
