"""The recorded transcripts as files that a test may cut, damage and grow."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from support import corpus

__all__ = ["SAMPLES", "Sample", "row_database"]


@frozen
class Sample:
    """
    A transcript of the corpus, as a number of records that can be written in part.

    Attributes:
        tool: The source's name.

        name: Its path in the corpus.

        kind: ``"lines"``, ``"document"``, ``"folder"`` or ``"rows"``.

        key: Of a document the member that holds the records; None for a list.
    """

    tool: str
    name: str
    kind: str = "lines"
    key: str | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def path(self) -> Path:
        """Where it is in the corpus."""
        return corpus("transcripts", self.name)

    def records(self) -> list[Any]:
        """Its records: lines, elements, files or rows."""
        path = self.path
        if self.kind == "lines":
            return path.read_bytes().splitlines(keepends=True)
        if self.kind == "document":
            document = json.loads(path.read_text("utf-8"))
            found: list[Any] = document[self.key] if self.key else document
            return found
        if self.kind == "folder":
            return sorted((path / "events").iterdir())
        return [json.loads(line) for line in path.read_bytes().splitlines()]

    def write(self, folder: Path, records: Sequence[Any]) -> Path:
        """Write *records* as a transcript of its own below *folder*; returns its path."""
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / Path(self.name).name
        if self.kind == "lines":
            target.write_bytes(b"".join(records))
        elif self.kind == "document":
            document = json.loads(self.path.read_text("utf-8"))
            if self.key:
                document[self.key] = list(records)
            else:
                document = list(records)
            target.write_text(json.dumps(document, ensure_ascii=False), "utf-8")
        elif self.kind == "folder":
            shutil.rmtree(target, ignore_errors=True)
            (target / "events").mkdir(parents=True)
            shutil.copyfile(self.path / "base_state.json", target / "base_state.json")
            for record in records:
                shutil.copyfile(record, target / "events" / record.name)
        else:
            target = folder / "opencode.db"
            row_database(target, records)
        return target

    def whole(self, folder: Path) -> Path:
        """Write all of it below *folder*; returns its path."""
        return self.write(folder, self.records())


def row_database(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Build a database from a dump of its rows."""
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path)
    for row in rows:
        names, cells = list(row["row"]), list(row["row"].values())
        database.execute(f"CREATE TABLE IF NOT EXISTS {row['table']} ({', '.join(names)})")
        database.execute(
            f"INSERT INTO {row['table']} VALUES ({', '.join('?' * len(names))})",
            [json.dumps(cell) if isinstance(cell, dict | list) else cell for cell in cells],
        )
    database.commit()
    database.close()


SAMPLES = [
    Sample("claude-code", "claude-code/auto-compact.jsonl"),
    Sample("claude-code", "claude-code/subagent-progress.jsonl"),
    Sample("claude-code", "claude-code/summary-line-and-task.jsonl"),
    Sample("claude-code", "claude-code/sidechain-inline.jsonl"),
    Sample("claude-code", "claude-code/subagents/agent-showcol1.jsonl"),
    Sample("claude-code", "claude-code/dag-rewind-then-compact-preserved.jsonl"),
    Sample("codex", "codex/rollout-2026-01-02.tools.jsonl"),
    Sample("codex", "codex/rollout-2026-01-03.spawn-agent.jsonl"),
    Sample("codex", "codex/AUTHORED-compact-rollback-abort.jsonl"),
    Sample("gemini-cli", "gemini-cli/session-f7633853.at-t1.json", "document", "messages"),
    Sample("gemini-cli", "gemini-cli/session-f7633853.at-t2.json", "document", "messages"),
    Sample("gemini-cli", "gemini-cli/session-faff42ab.json", "document", "messages"),
    Sample("openhands", "openhands/pwd-tool", "folder"),
    Sample("swe-agent", "swe-agent/function_calling_simple.traj", "document", "history"),
    Sample("opencode", "opencode/question.rows.jsonl", "rows"),
    Sample("pi", "pi/branching.jsonl"),
    Sample("pi", "pi/compaction.jsonl"),
    Sample("qwen-code", "qwen-code/session-tools.jsonl"),
    Sample("chat-completions", "chat-completions/openhands-fncall-messages.json", "document"),
    Sample("dsh", "dsh/compaction-recovery.session.jsonl"),
    Sample("dsh", "dsh/subagent-fork.parent.session.jsonl"),
    Sample("dsh", "dsh/subagent-fork.child.session.jsonl"),
]
"""Every transcript of the corpus."""
