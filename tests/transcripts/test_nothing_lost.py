"""What a record says is in the store, wherever in the record it stands."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog import EventStore, open_store
from support.samples import SAMPLES, Sample
from support.transcripts import imported, whole_log

TOKEN = "qzxw"

Record = dict[str, Any]
Place = tuple[str | int, ...]

# What the recorded transcripts have none of.
CLAUDE_CODE: list[Record] = [
    {
        "type": "user",
        "uuid": "u1",
        "sessionId": "s",
        "message": {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t", "content": "out", "is_error": False},
                {"type": "text", "text": "and"},
            ],
        },
    },
    {
        "type": "assistant",
        "uuid": "u2",
        "sessionId": "s",
        "message": {
            "id": "m",
            "role": "assistant",
            "type": "message",
            "model": "x",
            "content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {"a": 1}}],
        },
    },
    {
        "type": "system",
        "uuid": "u3",
        "sessionId": "s",
        "subtype": "microcompact_boundary",
        "microcompactMetadata": {"trigger": "auto", "compactedToolIds": ["t"]},
    },
]
CODEX_HISTORY: list[Record] = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "so far"}]},
    {"type": "reasoning", "summary": [], "encrypted_content": "e"},
    {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"},
    {"type": "function_call_output", "call_id": "c", "output": "out"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b"}]},
]
CODEX: list[Record] = [
    {"type": "session_meta", "payload": {"id": "s"}},
    {"type": "compacted", "payload": {"message": "x", "replacement_history": CODEX_HISTORY}},
]
GEMINI_ANSWER: Record = {
    "id": "m1",
    "type": "gemini",
    "content": "b",
    "thoughts": [{"subject": "c", "description": "d"}],
    "toolCalls": [{"id": "t", "name": "f", "args": {}, "status": "scheduled", "displayName": "F"}],
}
GEMINI: list[Record] = [
    {"sessionId": "s"},
    {"id": "m0", "type": "user", "content": [{"text": "a"}]},
    GEMINI_ANSWER,
    {"$set": {"messages": [{"id": "m2", "type": "user", "content": "e"}, GEMINI_ANSWER]}},
]
OPENCODE_TOOLS: list[Record] = [
    {"type": "tool", "callID": "1", "tool": "f", "state": {"status": "running", "input": {}}},
    {
        "type": "tool",
        "callID": "2",
        "tool": "f",
        "state": {
            "status": "error",
            "error": "bad",
            "output": "half",
            "metadata": {"a": 1},
            "time": {"start": 1, "end": 2, "compacted": 3},
        },
    },
]
OPENCODE: list[Record] = [
    {"info": {"id": "msg_1", "role": "user"}, "parts": [{"type": "text", "text": "a"}]},
    {"info": {"id": "msg_2", "role": "assistant"}, "parts": OPENCODE_TOOLS},
    {
        "info": {"id": "msg_3", "role": "user"},
        "parts": [{"type": "compaction", "tail_start_id": "msg_2"}],
    },
    {
        "info": {
            "id": "msg_4",
            "role": "assistant",
            "summary": True,
            "parentID": "msg_3",
            "finish": "stop",
        },
        "parts": [{"type": "text", "text": "so far"}],
    },
]
QWEN: list[Record] = [
    {
        "type": "system",
        "subtype": "chat_compression",
        "sessionId": "s",
        "systemPayload": {"compressedHistory": [{"role": "user", "parts": [{"text": "a"}]}] * 2},
    },
    {
        "type": "assistant",
        "sessionId": "s",
        "message": {
            "role": "model",
            "parts": [{"functionCall": {"id": "c", "name": "f", "args": {}}}],
        },
    },
    {
        "type": "tool_result",
        "sessionId": "s",
        "message": {
            "role": "user",
            "parts": [{"functionResponse": {"id": "c", "name": "f", "response": {"output": "o"}}}],
        },
        "toolCallResult": {"callId": "c", "status": "success"},
    },
]
OPENHANDS: list[Record] = [
    {
        "id": "e1",
        "kind": "ActionEvent",
        "thought": [{"type": "text", "text": "a"}],
        "reasoning_content": "b",
        "thinking_blocks": [{"type": "thinking", "thinking": "c", "signature": "d"}],
        "tool_name": "f",
        "tool_call": {"id": "t", "name": "f", "arguments": "{}"},
        "llm_response_id": "r",
    }
]
WRITTEN = {
    "claude-code": ("s.jsonl", CLAUDE_CODE),
    "codex": ("rollout-s.jsonl", CODEX),
    "gemini-cli": ("session-s.jsonl", GEMINI),
    "opencode": ("export.json", OPENCODE),
    "qwen-code": ("s.jsonl", QWEN),
    "openhands": ("s.json", OPENHANDS),
}
# What is told by what stands beside it: an answer's response repeats the call's id and tool.
REPEATED = {
    ("gemini-cli", f"toolCalls.*.result.*.functionResponse.{name}") for name in ("id", "name")
}


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Every place in a record, the record itself first."""
    yield place
    if isinstance(value, dict):
        names: list[str] | range = list(value)
    else:
        names = range(len(value)) if isinstance(value, list) else range(0)
    for name in names:
        yield from places(value[name], (*place, name))


def at(value: Any, place: Place) -> Any:
    for name in place:
        value = value[name]
    return value


def with_token(record: Record, place: Place) -> Iterator[Record]:
    """The record with something new in an object, and with something else in its place."""
    if isinstance(at(record, place), dict):
        changed = copy.deepcopy(record)
        at(changed, place)["added"] = TOKEN
        yield changed
    if place:
        for other in (TOKEN, {"added": TOKEN}, [{"added": TOKEN}]):
            changed = copy.deepcopy(record)
            at(changed, place[:-1])[place[-1]] = other
            yield changed


def shape_of(place: Place) -> str:
    return ".".join("*" if isinstance(name, int) else name for name in place)


def stored(store: EventStore) -> str:
    """All that is stored."""
    heads = store.heads(limit=1000).items
    texts = [f"{head.header} {json.dumps(head.header.extra)}" for head in heads]
    for head in heads:
        texts += [f"{e.type} {e.payload.decode()}" for e in whole_log(store, head.header.id)]
    return "\n".join(texts)


def lost(tool: str, records: list[Record], write: Any) -> set[str]:
    """The places, by their shapes, of which something was not stored."""
    seen: set[Any] = set()
    found: set[str] = set()
    for number, record in enumerate(records):
        for place in places(record):
            value = at(record, place)
            kind = value.get("type") if isinstance(value, dict) else None
            shape = shape_of(place)
            known = (record.get("type"), record.get("kind"), record.get("role"), kind, shape)
            if known in seen or (tool, shape) in REPEATED:
                continue
            seen.add(known)
            for changed in with_token(record, place):
                path = write([*records[:number], changed, *records[number + 1 :]])
                with open_store("memory:") as store:
                    account = imported(store, tool, path, refused=True)
                    if not account.refused and TOKEN not in stored(store):
                        found.add(f"{known}: {shape}")
    return found


@pytest.mark.parametrize("tool", WRITTEN)
def test_what_a_record_says_is_stored(tool: str, tmp_path: Path) -> None:
    """
    A key that nobody knows, in any object of a record, and a value of another type in any
    place: beside what the event says they are kept in its origin. Of calls, results and
    histories what was in no place that is read was nowhere.
    """
    name, records = WRITTEN[tool]
    path = tmp_path / name

    def write(records: list[Record]) -> Path:
        if path.suffix == ".jsonl":
            path.write_text("".join(json.dumps(record) + "\n" for record in records))
        elif tool == "opencode":
            path.write_text(json.dumps({"info": {"id": "ses_1"}, "messages": records}))
        else:
            path.write_text(json.dumps(records))
        return path

    assert set() == lost(tool, records, write)


@pytest.mark.long
@pytest.mark.parametrize(
    "sample", [s for s in SAMPLES if s.kind in ("lines", "document") and s.tool != "dsh"], ids=str
)
def test_what_a_recorded_record_says_is_stored(sample: Sample, tmp_path: Path) -> None:
    """The same of every recorded transcript."""
    records = sample.records()
    if sample.kind == "lines":
        records = [json.loads(line) for line in records if line.strip()]

    def write(records: list[Record]) -> Path:
        if sample.kind == "lines":
            return sample.write(tmp_path, [json.dumps(r).encode() + b"\n" for r in records])
        return sample.write(tmp_path, records)

    assert set() == lost(sample.tool, records, write)
