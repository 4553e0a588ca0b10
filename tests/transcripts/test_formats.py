"""Of each tool what its format has and no recorded transcript shows, a record or two at a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eventlog import EventStore, open_store
from support.transcripts import imported, whole_log

Line = dict[str, Any]
TIME = "2026-01-01T00:00:00.000Z"


def write(path: Path, *lines: Line) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def first_text(blocks: list[Any]) -> str:
    block = blocks[0] if blocks else {}
    return first_text(block["content"]) if "content" in block else str(block.get("text", ""))


def told(store: EventStore) -> list[str]:
    """
    What the one session's events say, in order: of messages their first text and what put
    them in, of turns how they end, of other events the type.
    """
    session_id = store.heads(limit=1).items[0].header.id
    shown = []
    for event in whole_log(store, session_id):
        data = event.data
        message = data.get("message", data)
        if event.type == "turn/end":
            shown.append(f"end {data['reason']['kind']}")
        elif event.type == "tool/call":
            shown.append(f"call {data['name']} {data['arguments']}")
        elif "content" in message:
            source = message["source"]
            by = source.get("form", source.get("plugin", source["kind"]))
            shown.append(f"{by}: {first_text(message['content'])}")
        elif event.type not in ("turn/start", "import/mark"):
            shown.append(event.type)
    return shown


def node_texts(store: EventStore) -> list[str]:
    """The first text of each node of the one session's surface."""
    head = store.heads(limit=1).items[0]
    log = store.snapshot(head.header.id)
    found = []
    for seq in log.nodes():
        data = log.read(seq, seq + 1)[0].data
        found.append(first_text(data.get("message", data)["content"]))
    return found


# Claude Code.


def claude(kind: str, uuid: str, parent: str | None, **fields: Any) -> Line:
    facts = {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s"}
    return {**facts, "timestamp": TIME, **fields}


def said(uuid: str, parent: str | None, content: Any = None, **fields: Any) -> Line:
    message = {"role": "user", "content": content or uuid}
    return claude("user", uuid, parent, message=message, **fields)


def answer(uuid: str, parent: str) -> Line:
    content = [{"type": "text", "text": uuid}]
    message = {"role": "assistant", "id": f"m-{uuid}", "model": "m", "content": content}
    return claude("assistant", uuid, parent, message=message)


def test_claude_code_turns_end_where_they_say(tmp_path: Path) -> None:
    """A turn ends by its duration or its stop hook, the first of them; by an interruption."""
    interrupted = [{"type": "text", "text": "[Request interrupted by user for tool use]"}]
    path = write(
        tmp_path / "s.jsonl",
        said("p", None),
        claude("system", "h", "p", subtype="stop_hook_summary"),
        claude("system", "d", "h", subtype="turn_duration", durationMs=5),
        said("q", "d"),
        said("i", "q", interrupted),
        said("r", "i"),
    )
    with open_store("memory:") as store:
        imported(store, "claude-code", path)

        assert [
            "user: p",
            "claude-code/system.stop_hook_summary",
            "end completed",
            "claude-code/system.turn_duration",
            "user: q",
            "interrupted: [Request interrupted by user for tool use]",
            "end aborted",
            "user: r",
        ] == told(store)


def test_claude_code_what_no_person_said_is_told_apart(tmp_path: Path) -> None:
    """Commands, their output, injected texts; what is only for the transcript is not shown."""
    path = write(
        tmp_path / "s.jsonl",
        said("c", None, "<command-name>/model</command-name>"),
        said("o", "c", "<local-command-stdout>ok</local-command-stdout>"),
        said("m", "o", "a reminder", isMeta=True),
        said("v", "m", "for the eye", isVisibleInTranscriptOnly=True),
        claude("attachment", "a", "v", attachment={"type": "file"}),
        said("p", "a", [{"type": "image", "source": {"data": "AA=="}}, {"type": "odd"}]),
    )
    with open_store("memory:") as store:
        imported(store, "claude-code", path)

        assert [
            "command: <command-name>/model</command-name>",
            "local-output: <local-command-stdout>ok</local-command-stdout>",
            "meta: a reminder",
            "claude-code/user",
            "claude-code/attachment",
            "end completed",
            "user: ",
        ] == told(store)


@pytest.mark.parametrize(
    "kept",
    [
        {"preservedSegment": {"headUuid": "b", "tailUuid": "c"}},
        {"preservedMessages": {"anchorUuid": "s", "uuids": ["b", "c"]}},
        {"preservedSegment": {"headUuid": "gone"}, "preservedMessages": {"uuids": ["no", "b"]}},
    ],
    ids=["segment", "messages", "both, one is gone"],
)
def test_claude_code_a_compaction_ends_before_what_it_preserves(kept: Line, tmp_path: Path) -> None:
    """By a segment or by a list of messages; of these the first that is there counts."""
    path = write(
        tmp_path / "s.jsonl",
        said("a", None),
        answer("b", "a"),
        said("c", "b"),
        claude("system", "k", None, subtype="compact_boundary", compactMetadata=kept),
        said("s", "k", "summary", isCompactSummary=True),
    )
    with open_store("memory:") as store:
        imported(store, "claude-code", path)
        assert ["summary", "b", "c"] == node_texts(store)


def test_claude_code_a_compaction_whose_segment_is_gone_takes_all(tmp_path: Path) -> None:
    """Neither the head nor any of the messages is in the file."""
    kept = {"preservedSegment": {"headUuid": "x"}, "preservedMessages": {"uuids": [None, 5, "y"]}}
    path = write(
        tmp_path / "s.jsonl",
        said("a", None),
        answer("b", "a"),
        claude("system", "k", None, subtype="compact_boundary", compactMetadata=kept),
        said("s", "k", "summary", isCompactSummary=True),
    )
    with open_store("memory:") as store:
        imported(store, "claude-code", path)
        assert ["summary"] == node_texts(store)


def test_claude_code_back_to_a_branch_that_was_abandoned(tmp_path: Path) -> None:
    """
    A prompt whose parent was cut off takes the place of all behind the nearest ancestor
    that is still there; it was put behind the branch that it does not belong to.
    """
    path = write(
        tmp_path / "s.jsonl",
        said("a", None),
        answer("b", "a"),
        said("c", "b"),
        answer("d", "c"),
        said("e", "b"),
        answer("f", "e"),
        said("g", "d"),
    )
    with open_store("memory:") as store:
        imported(store, "claude-code", path)
        assert ["a", "b", "g"] == node_texts(store)


def test_claude_code_cycles_of_parents_end(tmp_path: Path) -> None:
    """Lines that are their own parents, each other's, or one that comes later."""
    path = write(
        tmp_path / "s.jsonl",
        said("a", "a"),
        said("b", "c"),
        said("c", "b"),
        answer("d", "e"),
        said("e", "d"),
        said("a", "e"),
    )
    with open_store("memory:") as store:
        account = imported(store, "claude-code", path)
        assert (6, 5, 1) == (account.records.found, account.records.mapped, account.records.kept)


# Codex.


def codex(*payloads: tuple[str, Line]) -> list[Line]:
    meta = ("session_meta", {"id": "s", "cwd": "/w"})
    lines = [meta, *payloads]
    return [{"timestamp": TIME, "type": kind, "payload": payload} for kind, payload in lines]


def test_codex_calls_of_every_kind(tmp_path: Path) -> None:
    """A shell, a search without a result, a patch as free text, and an opaque compaction."""
    item = "response_item"
    path = write(
        tmp_path / "rollout-s.jsonl",
        *codex(
            (item, {"type": "local_shell_call", "call_id": "1", "action": {"command": ["ls"]}}),
            (item, {"type": "function_call_output", "call_id": "1", "output": "files"}),
            (item, {"type": "web_search_call", "id": "w", "action": {"query": "q"}}),
            (item, {"type": "custom_tool_call", "call_id": "2", "name": "patch", "input": "*"}),
            (item, {"type": "custom_tool_call_output", "call_id": "2", "output": "done"}),
            (item, {"type": "context_compaction", "encrypted_content": "x"}),
            ("world_state", {"a": 1}),
            (item, {"type": "ghost", "b": 2}),
        ),
    )
    with open_store("memory:") as store:
        account = imported(store, "codex", path)

        assert [
            "codex/session_meta",
            "model: ",
            'call local_shell {"command":["ls"]}',
            "tool: files",
            "model: ",
            'call web_search {"query":"q"}',
            "call patch *",
            "tool: done",
            "compaction: ",
            "codex/world_state",
            "codex/response_item.ghost",
        ] == told(store)
        assert 9 == account.records.found


def test_codex_what_was_put_in_is_no_prompt(tmp_path: Path) -> None:
    """Instructions and the environment in the user's name, and what developers say."""

    def message(role: str, text: str, **fields: Any) -> tuple[str, Line]:
        content = [{"type": "input_text", "text": text}]
        item = {"type": "message", "role": role, "content": content, **fields}
        return "response_item", item

    path = write(
        tmp_path / "rollout-s.jsonl",
        *codex(
            message("user", "# AGENTS.md instructions"),
            message("user", "<environment_context>"),
            message("developer", "be kind"),
            message("user", "hello"),
            message("assistant", "hm", phase="commentary"),
        ),
    )
    with open_store("memory:") as store:
        imported(store, "codex", path)
        prompts = ["context: # AGENTS.md instructions", "context: <environment_context>"]

        assert [*prompts, "developer: be kind", "user: hello", "model: hm"] == told(store)[1:]
        last = whole_log(store, "s")[-2].data["origin"]["fields"]["payload"]
        assert "commentary" == last["phase"]


def test_codex_a_fork_by_reference_names_its_base(tmp_path: Path) -> None:
    """A fork that copies nothing says in ``history_base`` whose history it goes on with."""
    lines = codex()
    lines[0]["payload"]["history_base"] = {"thread_id": "parent", "end_ordinal_exclusive": 5}
    with open_store("memory:") as store:
        imported(store, "codex", write(tmp_path / "rollout-s.jsonl", *lines))
        assert "parent" == store.snapshot("s").header.parent_session


# Gemini CLI.


def test_gemini_cli_a_call_that_was_cancelled(tmp_path: Path) -> None:
    """It has no result, and still an end; thoughts come before what is said."""
    call: Line = {"id": "c", "name": "run", "args": {}, "status": "cancelled", "result": None}
    thought = {"subject": "Look", "description": "around", "timestamp": TIME}
    message = {"id": "m", "type": "gemini", "timestamp": TIME, "content": "ok"}
    path = write(
        tmp_path / "session-1.jsonl",
        {"sessionId": "s", "startTime": TIME},
        {"id": "u", "type": "user", "content": [{"text": "hi"}], "displayContent": "hi!"},
        {**message, "thoughts": [thought], "toolCalls": [call]},
        {"id": "i", "type": "info", "content": "Saved."},
    )
    with open_store("memory:") as store:
        imported(store, "gemini-cli", path)
        results = [e for e in whole_log(store, "s") if e.type == "tool/result"]

        assert [
            "gemini-cli/session",
            "user: hi",
            "model: Look\naround",
            "call run {}",
            "tool: ",
            "gemini-cli/info",
        ] == told(store)
        assert results[0].data["message"]["content"][0]["isError"] is True


# OpenHands.


def openhands(folder: Path, *events: Line) -> Path:
    (folder / "events").mkdir(parents=True)
    (folder / "base_state.json").write_text('{"id": "s"}')
    for number, event in enumerate(events):
        value = {"id": f"e{number}", "timestamp": TIME, "source": "agent", **event}
        (folder / "events" / f"event-{number:05}-e{number}.json").write_text(json.dumps(value))
    return folder


def test_openhands_errors_and_rejections_answer_calls(tmp_path: Path) -> None:
    """Both are results; finishing is a call that ends the turn; the rest is kept."""

    def action(call_id: str, kind: str = "Run") -> Line:
        called = {"tool_name": kind, "tool_call_id": call_id}
        return {"kind": "ActionEvent", "action": {"kind": f"{kind}Action"}, **called}

    path = openhands(
        tmp_path / "c",
        {"kind": "SystemPromptUpdateEvent", "reason": "r"},
        action("1"),
        {"kind": "AgentErrorEvent", "tool_call_id": "1", "error": "broken"},
        action("2"),
        {"kind": "UserRejectObservation", "tool_call_id": "2", "rejection_reason": "no"},
        {"kind": "PauseEvent"},
        action("3", "Finish"),
        {
            "kind": "ObservationEvent",
            "tool_call_id": "3",
            "observation": {"content": [{"type": "text", "text": "bye"}]},
        },
    )
    with open_store("memory:") as store:
        imported(store, "openhands", path)
        shown = [text for text in told(store) if not text.startswith("model")]

        assert [
            "openhands/SystemPromptUpdateEvent",
            'call Run {"kind":"RunAction"}',
            "tool: broken",
            'call Run {"kind":"RunAction"}',
            "tool: no",
            "openhands/PauseEvent",
            'call Finish {"kind":"FinishAction"}',
            "tool: bye",
            "end completed",
            "openhands/base_state",
        ] == shown


def test_openhands_a_branch_from_an_event_that_is_no_message(tmp_path: Path) -> None:
    """
    A message goes on from a change of state between others: what came after that is cut
    off. Only branches from messages were seen.
    """

    def message(text: str, **fields: Any) -> Line:
        content = [{"type": "text", "text": text}]
        llm = {"role": "user", "content": content}
        return {"kind": "MessageEvent", "source": "user", "llm_message": llm, **fields}

    path = openhands(
        tmp_path / "c",
        message("one"),
        {"kind": "ConversationStateUpdateEvent"},
        message("two"),
        message("three", parent_id="e1"),
        message("four"),
    )
    with open_store("memory:") as store:
        imported(store, "openhands", path)
        assert ["one", "three", "four"] == node_texts(store)


def test_openhands_a_range_of_ids_that_are_hardly_numbers(tmp_path: Path) -> None:
    """The older version forgets a range of ids; other digits, and endless ones, are no number."""
    said = {"source": "user", "action": "message", "args": {"content": "x"}}
    gone = {"forgotten_events_start_id": 0, "forgotten_events_end_id": 9, "summary": "short"}
    events: list[Line] = [
        {"id": "²", **said},
        {"id": "9" * 5000, **said},
        {"id": 1, **said},
        {"id": 2, "action": "condensation", "args": gone},
    ]
    path = tmp_path / "s.json"
    path.write_text(json.dumps(events))
    with open_store("memory:") as store:
        imported(store, "openhands", path)
        assert ["x", "x", "short"] == node_texts(store)


# SWE-agent, pi, Qwen Code, opencode.


def test_swe_agent_demonstrations_begin_no_turn(tmp_path: Path) -> None:
    """
    They are shown and no prompt; an action without a call is one, and the observation its
    result; the same id twice answers the newest call.
    """
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    history = [
        {"role": "user", "content": "demo", "is_demo": True},
        {"role": "user", "content": "shown", "message_type": "demonstration"},
        {"role": "user", "content": "task", "message_type": "observation"},
        {"role": "assistant", "content": "go", "action": "ls -l"},
        {"role": "user", "content": "files", "message_type": "observation"},
        {"role": "assistant", "content": "a", "tool_calls": [call]},
        {"role": "tool", "content": "first", "tool_call_ids": ["c"]},
        {"role": "assistant", "content": "b", "tool_calls": [call]},
        {"role": "tool", "content": "second", "tool_call_ids": ["c"]},
    ]
    path = tmp_path / "run.traj"
    path.write_text(json.dumps({"history": history}))
    with open_store("memory:") as store:
        imported(store, "swe-agent", path)
        events = whole_log(store, "run")
        cited = [e.source_event_seqs for e in events if e.type == "tool/result"]
        calls = [(e.seq,) for e in events if e.type == "tool/call"]

        assert [
            "demonstration: demo",
            "demonstration: shown",
            "user: task",
            "model: go",
            "call ls ls -l",
            "tool: files",
            "model: a",
            "call f {}",
            "tool: first",
            "model: b",
            "call f {}",
            "tool: second",
        ] == told(store)
        assert calls == cited
        assert 1 == sum(event.type == "turn/start" for event in events)


def test_pi_entries_of_every_type(tmp_path: Path) -> None:
    """What the model sees of them, and what is only kept."""
    lines: list[Line] = [
        {"type": "model_change", "provider": "p", "modelId": "m"},
        {"type": "thinking_level_change", "thinkingLevel": "high"},
        {"type": "custom_message", "customType": "memo", "content": "noted", "display": True},
        {"type": "branch_summary", "fromId": "e1", "summary": "elsewhere"},
        {"type": "custom", "data": {}},
        {"type": "label", "targetId": "e2"},
        {"type": "session_info", "name": "Title"},
        {"type": "message", "message": {"role": "bashExecution", "command": "ls", "output": "x"}},
        {
            "type": "message",
            "message": {"role": "bashExecution", "command": "pw", "excludeFromContext": True},
        },
    ]
    entries = [
        {"id": f"e{n}", "parentId": f"e{n - 1}" if n else None, "timestamp": TIME, **line}
        for n, line in enumerate(lines)
    ]
    path = write(tmp_path / "s.jsonl", {"type": "session", "version": 3, "id": "s"}, *entries)
    with open_store("memory:") as store:
        imported(store, "pi", path)

        assert [
            "pi/session",
            "request/context",
            "pi/thinking_level_change",
            "memo: noted",
            "branch-summary: elsewhere",
            "pi/custom",
            "pi/label",
            "session/title",
            "bash: $ ls\nx",
            "pi/message",
        ] == told(store)


def test_qwen_code_results_and_what_is_no_prompt(tmp_path: Path) -> None:
    """A call that failed is an error; a slash command is kept; injected text is no prompt."""

    def line(uuid: str, parent: str | None, kind: str, **fields: Any) -> Line:
        return claude(kind, uuid, parent, **fields)

    call = {"functionCall": {"id": "c", "name": "run", "args": {"a": 1}}}
    response = {"functionResponse": {"id": "c", "name": "run", "response": {"error": "no"}}}
    path = write(
        tmp_path / "s.jsonl",
        line("a", None, "user", message={"role": "user", "parts": [{"text": "hi"}]}),
        line("b", "a", "assistant", message={"role": "model", "parts": [call]}),
        line(
            "c",
            "b",
            "tool_result",
            message={"role": "user", "parts": [response]},
            toolCallResult={"callId": "c", "status": "error", "errorType": "x"},
        ),
        line("d", "c", "system", subtype="slash_command", systemPayload={}),
        line(
            "e",
            "d",
            "user",
            provenance="hook",
            message={"role": "user", "parts": [{"text": "put in"}]},
        ),
    )
    with open_store("memory:") as store:
        imported(store, "qwen-code", path)
        result = next(e for e in whole_log(store, "s") if e.type == "tool/result")

        assert [
            "user: hi",
            "model: ",
            'call run {"a":1}',
            "tool: no",
            "qwen-code/system.slash_command",
            "hook: put in",
        ] == told(store)
        assert (True, "x") == (
            result.data["message"]["content"][0]["isError"],
            result.data["meta"]["errorType"],
        )


def test_opencode_parts_that_are_ignored_are_kept_and_not_shown(tmp_path: Path) -> None:
    """Synthetic text is no person's; a summary with a fault does not count; a revert is kept."""
    messages: list[Line] = [
        {
            "info": {"id": "msg_1", "role": "user", "time": {"created": 1}},
            "parts": [
                {"type": "text", "text": "hi"},
                {"type": "text", "text": "not shown", "ignored": True},
            ],
        },
        {
            "info": {"id": "msg_2", "role": "user", "time": {"created": 2}},
            "parts": [{"type": "text", "text": "put in", "synthetic": True}],
        },
        {
            "info": {"id": "msg_3", "role": "user", "time": {"created": 3}},
            "parts": [{"type": "compaction", "auto": True}],
        },
        {
            "info": {
                "id": "msg_4",
                "role": "assistant",
                "parentID": "msg_3",
                "summary": True,
                "finish": "stop",
                "error": {"name": "APIError"},
            },
            "parts": [{"type": "text", "text": "half a summary"}],
        },
    ]
    path = tmp_path / "export.json"
    info = {"id": "s", "time": {"created": 1}, "revert": {"messageID": "msg_2"}}
    path.write_text(json.dumps({"info": info, "messages": messages}))
    with open_store("memory:") as store:
        imported(store, "opencode", path)

        assert ["hi", "put in"] == node_texts(store)
        assert ["opencode/user", "opencode/assistant", "opencode/session"] == told(store)[-3:]
        hidden = [
            part["text"]
            for event in whole_log(store, "s")
            for part in event.data.get("origin", {}).get("fields", {}).get("parts", [])
        ]
        assert ["not shown"] == hidden
