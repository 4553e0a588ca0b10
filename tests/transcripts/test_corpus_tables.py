"""The recorded transcripts in numbers that were counted by hand, and by looking at them."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventlog import open_store
from support import corpus
from support.transcripts import Table, imported, table_of

CLAUDE = {
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
}


@pytest.mark.parametrize("name", CLAUDE)
def test_claude_code_in_numbers(name: str, tmp_path: Path) -> None:
    """Every session of every file has the counts that a reader of the file finds."""
    check("claude-code", name, CLAUDE[name], tmp_path)


def check(tool: str, name: str, expected: dict[str, Table], tmp_path: Path) -> None:
    with open_store(f"lmdb:{tmp_path}/store") as store:
        imported(store, tool, corpus("transcripts", name))
        found = {head.header.id: table_of(store, head.header.id) for head in store.heads().items}
    assert expected == found
