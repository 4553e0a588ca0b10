"""The recorded transcripts in numbers that were counted by hand, and by looking at them."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventlog import open_store
from support.samples import SAMPLES, Sample
from support.transcripts import Table, imported, table_of

TABLES = {
    "claude-code/dag-rewind-then-compact-preserved.jsonl": {
        "s2": Table(
            types={
                "turn/start": 5,
                "turn/end": 4,
                "user/message": 6,
                "assistant/message": 5,
                "claude-code/system.compact_boundary": 1,
            },
            compactions=1,
            rewinds=1,
            surface=6,
        )
    },
    "claude-code/summary-line-and-task.jsonl": {
        "0790ea37-90df-4d30-8fdf-0bfe301b8f3e": Table(
            types={
                "claude-code/summary": 1,
                "claude-code/file-history-snapshot": 1,
                "turn/start": 1,
                "user/message": 1,
                "assistant/message": 2,
                "tool/call": 1,
                "tool/result": 1,
            },
            pairs=1,
            surface=4,
        )
    },
    "claude-code/sidechain-inline.jsonl": {
        "88a8d761-7b9a-4bf1-a8ca-c1febe6bf358": Table(
            types={"turn/start": 1, "assistant/message": 2, "tool/call": 1, "tool/result": 1},
            pairs=1,
            surface=3,
        ),
        "e1c84ba5": Table(
            types={"turn/start": 1, "assistant/message": 1, "tool/call": 1, "tool/result": 1},
            open_calls=("toolu_01BWgwmyj8gGuqFNHMPqqtN2",),
            parent="88a8d761-7b9a-4bf1-a8ca-c1febe6bf358",
            surface=2,
        ),
    },
    "claude-code/subagents/agent-showcol1.jsonl": {
        "showcol1": Table(
            types={"turn/start": 1, "user/message": 1, "assistant/message": 1},
            parent="55550000-0000-4000-8000-000000000001",
            surface=2,
        )
    },
    "claude-code/auto-compact.jsonl": {
        "198393f2-22db-477b-ac77-1825bea883ae": Table(
            types={
                "claude-code/system.stop_hook_summary": 2,
                "claude-code/file-history-snapshot": 3,
                "claude-code/system.compact_boundary": 1,
                "turn/start": 3,
                "turn/end": 2,
                "user/message": 6,
                "assistant/message": 13,
                "tool/call": 10,
                "tool/result": 10,
            },
            pairs=10,
            compactions=1,
            surface=12,
        )
    },
    "claude-code/subagent-progress.jsonl": {
        "163396cf-348b-4175-90f5-5ca0986ac0f1": Table(
            types={
                "claude-code/file-history-snapshot": 3,
                "claude-code/progress": 7,
                "turn/start": 3,
                "turn/end": 2,
                "user/message": 8,
                "assistant/message": 4,
                "tool/call": 4,
                "tool/result": 4,
            },
            pairs=4,
            surface=16,
        ),
        "a102bdd": Table(
            types={
                "turn/start": 1,
                "user/message": 1,
                "assistant/message": 10,
                "tool/call": 18,
                "tool/result": 18,
            },
            pairs=18,
            parent="163396cf-348b-4175-90f5-5ca0986ac0f1",
            surface=29,
        ),
    },
    "codex/rollout-2026-01-02.tools.jsonl": {
        "11111111-1111-4111-8111-111111111111": Table(
            types={
                "codex/session_meta": 1,
                "request/context": 1,
                "codex/event_msg.user_message": 1,
                "codex/event_msg.agent_message": 1,
                "codex/future_synthetic_record": 1,
                "turn/start": 1,
                "user/message": 1,
                "assistant/message": 4,
                "tool/call": 3,
                "tool/result": 3,
            },
            pairs=3,
            surface=8,
        )
    },
    "codex/rollout-2026-01-03.spawn-agent.jsonl": {
        "22222222-2222-4222-8222-222222222222": Table(
            types={
                "codex/session_meta": 1,
                "codex/event_msg.collab_tool_call": 1,
                "turn/start": 1,
                "user/message": 1,
                "assistant/message": 1,
                "tool/call": 1,
                "tool/result": 1,
            },
            pairs=1,
            surface=3,
        )
    },
    "codex/AUTHORED-compact-rollback-abort.jsonl": {
        "019c0000-0000-7000-8000-0000000000a1": Table(
            types={
                "codex/session_meta": 1,
                "request/context": 1,
                "codex/event_msg.task_started": 4,
                "codex/event_msg.task_complete": 3,
                "codex/event_msg.turn_aborted": 1,
                "codex/event_msg.user_message": 3,
                "codex/event_msg.agent_message": 1,
                "codex/event_msg.context_compacted": 1,
                "codex/event_msg.thread_rolled_back": 1,
                "turn/start": 4,
                "turn/end": 4,
                "user/message": 7,
                "assistant/message": 4,
                "tool/call": 3,
                "tool/result": 2,
            },
            pairs=2,
            open_calls=("call_C",),
            compactions=1,
            rewinds=1,
            parent="019c0000-0000-7000-8000-0000000000a0",
            surface=4,
        )
    },
    "gemini-cli/session-f7633853.at-t1.json": {
        "f7633853-6663-4dbb-bbf4-6159afa29df8": Table(
            types={
                "turn/start": 1,
                "user/message": 1,
                "assistant/message": 6,
                "tool/call": 4,
                "tool/result": 4,
                "gemini-cli/info": 1,
                "gemini-cli/session": 1,
            },
            pairs=4,
            surface=11,
        )
    },
    "gemini-cli/session-f7633853.at-t2.json": {
        "f7633853-6663-4dbb-bbf4-6159afa29df8": Table(
            types={
                "turn/start": 1,
                "user/message": 1,
                "assistant/message": 11,
                "tool/call": 9,
                "tool/result": 9,
                "gemini-cli/info": 1,
                "gemini-cli/session": 1,
            },
            pairs=9,
            surface=21,
        )
    },
    "gemini-cli/session-faff42ab.json": {
        "faff42ab-6ea5-4f78-b8c4-f7dd6272af08": Table(
            types={
                "turn/start": 2,
                "turn/end": 1,
                "user/message": 2,
                "assistant/message": 4,
                "tool/call": 2,
                "tool/result": 2,
                "gemini-cli/session": 1,
            },
            pairs=2,
            surface=8,
        )
    },
    "openhands/pwd-tool": {
        "cd945624-03b9-487e-bdd4-018e3f531dfd": Table(
            types={
                "turn/start": 2,
                "turn/end": 1,
                "user/message": 3,
                "assistant/message": 3,
                "tool/call": 2,
                "tool/result": 2,
                "openhands/base_state": 1,
            },
            pairs=2,
            surface=8,
        )
    },
    "swe-agent/function_calling_simple.traj": {
        "function_calling_simple": Table(
            types={
                "turn/start": 1,
                "user/message": 2,
                "assistant/message": 5,
                "tool/call": 5,
                "tool/result": 5,
            },
            pairs=5,
            surface=12,
        )
    },
    "opencode/question.rows.jsonl": {
        "ses_f34687c4effe4c1OUSq8A7KEeN": Table(
            types={
                "turn/start": 1,
                "turn/end": 1,
                "user/message": 1,
                "assistant/message": 2,
                "tool/call": 1,
                "tool/result": 1,
                "opencode/idle": 1,
                "opencode/session": 1,
                "session/title": 1,
            },
            pairs=1,
            surface=4,
        )
    },
    "pi/branching.jsonl": {
        "branch-uuid": Table(
            types={
                "pi/session": 1,
                "turn/start": 3,
                "turn/end": 2,
                "user/message": 3,
                "assistant/message": 2,
            },
            rewinds=1,
            surface=4,
        )
    },
    "pi/compaction.jsonl": {
        "compaction-test-uuid": Table(
            types={
                "pi/session": 1,
                "request/context": 1,
                "turn/start": 2,
                "turn/end": 1,
                "user/message": 3,
                "assistant/message": 2,
            },
            compactions=1,
            surface=4,
        )
    },
    "qwen-code/session-tools.jsonl": {
        "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee": Table(
            types={
                "turn/start": 1,
                "user/message": 1,
                "assistant/message": 2,
                "tool/call": 4,
                "tool/result": 4,
            },
            pairs=4,
            surface=7,
        )
    },
    "chat-completions/openhands-fncall-messages.json": {
        "openhands-fncall-messages": Table(
            types={
                "turn/start": 1,
                "user/message": 2,
                "assistant/message": 6,
                "tool/call": 6,
                "tool/result": 6,
            },
            pairs=6,
            surface=14,
        )
    },
    "dsh/compaction-recovery.session.jsonl": {
        "{{sessionId}}": Table(
            types={
                "agent/inbox/spliced": 2,
                "turn/start": 1,
                "turn/end": 1,
                "step/start": 2,
                "step/end": 2,
                "user/message": 2,
                "session/title": 1,
                "request/header": 1,
                "request/context": 1,
                "assistant/chunk": 11,
                "assistant/message": 2,
                "tool/call": 1,
                "tool/result": 1,
                "compaction/start": 1,
                "compaction/summary": 1,
                "compaction/end": 1,
            },
            pairs=1,
            compactions=1,
            surface=4,
        )
    },
    "dsh/subagent-fork.parent.session.jsonl": {
        "96cf59c9-b347-48b9-b234-a5200913ad05": Table(
            types={
                "agent/inbox/spliced": 4,
                "turn/start": 2,
                "turn/end": 2,
                "step/start": 3,
                "step/end": 3,
                "user/message": 3,
                "session/title": 1,
                "request/header": 1,
                "request/context": 1,
                "assistant/chunk": 175,
                "assistant/message": 3,
                "tool/call": 1,
                "tool/result": 1,
            },
            pairs=1,
            surface=7,
        )
    },
    "dsh/subagent-fork.child.session.jsonl": {
        "ada8966c-9fa3-441b-8721-37ff1e795e6a": Table(
            types={
                "agent/inbox/spliced": 4,
                "turn/start": 2,
                "turn/end": 2,
                "step/start": 2,
                "step/end": 2,
                "user/message": 4,
                "session/title": 1,
                "session/end-seed": 1,
                "request/header": 2,
                "request/context": 1,
                "assistant/chunk": 74,
                "assistant/message": 2,
                "approval/policy": 1,
                "subagent/descriptor": 1,
            },
            parent="96cf59c9-b347-48b9-b234-a5200913ad05",
            inherited=42,
            surface=6,
        )
    },
}


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_every_transcript_in_numbers(sample: Sample, tmp_path: Path) -> None:
    """Every session of every file has the counts that a reader of the file finds."""
    with open_store("memory:") as store:
        imported(store, sample.tool, sample.whole(tmp_path))
        found = {head.header.id: table_of(store, head.header.id) for head in store.heads().items}

    assert TABLES[sample.name] == found


def test_every_transcript_has_a_table() -> None:
    """No recorded transcript goes without being counted."""
    assert set(TABLES) == {sample.name for sample in SAMPLES}
