"""pi and Qwen Code: trees of entries, and compactions that keep a tail or a list."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from eventlog import EventStore, open_store
from support.transcripts import imported, messages_of, table_of, whole_log

Line = dict[str, Any]
HEADER = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00Z"}


def entry(entry_id: str, parent: str | None, role: str, **fields: Any) -> Line:
    message = {"role": role, "content": [{"type": "text", "text": entry_id}], **fields}
    return {"type": "message", "id": entry_id, "parentId": parent, "message": message}


def write(path: Path, *lines: Line) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def texts(store: EventStore, session_id: str = "s") -> list[str]:
    """The texts of each message that the model sees."""
    found = []
    for _, _, content in messages_of(store, session_id):
        blocks = content[0].get("content", content) if content else []
        found.append("".join(block.get("text", "") for block in blocks))
    return found


def test_pi_changing_the_branch_back_and_forth(tmp_path: Path) -> None:
    """The surface is the path to the last entry, also after a return to an older branch."""
    lines = [
        HEADER,
        entry("u1", None, "user"),
        entry("a1", "u1", "assistant"),
        entry("left", "a1", "user"),
        entry("leftA", "left", "assistant"),
        entry("right", "a1", "user"),
        entry("rightA", "right", "assistant"),
    ]
    with open_store("memory:") as store:
        imported(store, "pi", write(tmp_path / "s.jsonl", *lines))
        assert ["u1", "a1", "right", "rightA"] == texts(store)
        lines.append(entry("more", "leftA", "user"))
        imported(store, "pi", write(tmp_path / "s.jsonl", *lines))
        assert ["u1", "a1", "left", "leftA", "more"] == texts(store)
        lines.append(entry("again", "rightA", "user"))
        lines.append(entry("root", None, "user"))
        imported(store, "pi", write(tmp_path / "s.jsonl", *lines[:-1]))
        assert ["u1", "a1", "right", "rightA", "again"] == texts(store)
        imported(store, "pi", write(tmp_path / "s.jsonl", *lines))
        assert ["root"] == texts(store)


def compaction(entry_id: str, parent: str, kept: str) -> Line:
    facts = {"type": "compaction", "id": entry_id, "parentId": parent}
    return {**facts, "summary": f"<{entry_id}>", "firstKeptEntryId": kept}


def test_pi_compactions_stack_and_keep_their_tails(tmp_path: Path) -> None:
    """A tail, everything, an entry that nobody knows, and a second one over the first."""
    start = [
        HEADER,
        entry("a", None, "user"),
        entry("b", "a", "assistant"),
        entry("c", "b", "user"),
    ]
    for kept, expected in (
        ("c", ["<k>", "c", "d"]),
        ("a", ["<k>", "a", "b", "c", "d"]),
        ("nobody", ["<k>", "d"]),
    ):
        lines = [*start, compaction("k", "c", kept), entry("d", "k", "user")]
        with open_store("memory:") as store:
            imported(store, "pi", write(tmp_path / "s.jsonl", *lines))
            assert expected == texts(store), kept
    lines = [*start, compaction("k", "c", "c"), entry("d", "k", "user"), compaction("l", "d", "d")]
    with open_store("memory:") as store:
        imported(store, "pi", write(tmp_path / "s.jsonl", *lines))
        assert ["<l>", "d"] == texts(store)


def test_pi_a_branch_from_before_a_compaction(tmp_path: Path) -> None:
    """Going on from before a compaction undoes it: what it replaced is there again."""
    lines = [
        HEADER,
        entry("a", None, "user"),
        entry("b", "a", "assistant"),
        compaction("k", "b", "nobody"),
        entry("c", "k", "user"),
        entry("d", "b", "user"),
    ]
    with open_store("memory:") as store:
        imported(store, "pi", write(tmp_path / "s.jsonl", *lines))
        assert ["a", "b", "d"] == texts(store)


def test_pi_what_the_model_sees_and_what_not(tmp_path: Path) -> None:
    """Tools, the user's own shell, summaries of branches, and entries that are only kept."""
    call = {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"p": 1}}
    shell = {"command": "ls", "output": "x", "exitCode": 0}
    lines = [
        {**HEADER, "parentSession": "/home/u/.pi/2026-01-01_11111111-aaaa.jsonl"},
        entry("u", None, "user"),
        entry("a", "u", "assistant", content=[call], stopReason="toolUse"),
        entry("t", "a", "toolResult", toolCallId="c1", isError=True),
        entry("s", "t", "bashExecution", **shell),
        entry("x", "s", "bashExecution", **shell, excludeFromContext=True),
        {"type": "branch_summary", "id": "y", "parentId": "x", "summary": "over there"},
        {"type": "label", "id": "z", "parentId": "y", "targetId": "u"},
        {"type": "session_info", "id": "n", "parentId": "z", "name": "Named"},
    ]
    with open_store("memory:") as store:
        imported(store, "pi", write(tmp_path / "s.jsonl", *lines))
        table = table_of(store, "s")

        assert ["u", "", "t", "$ ls\nx", "over there"] == texts(store)
        assert (1, 1, 1) == (table.pairs, table.types["session/title"], table.types["pi/label"])
        assert "11111111-aaaa" == table.parent


def qwen(uuid: str, parent: str | None, kind: str, *parts: Line, **fields: Any) -> Line:
    role = "model" if kind == "assistant" else "user"
    facts = {"uuid": uuid, "parentUuid": parent, "sessionId": "s", "type": kind}
    return {**facts, "message": {"role": role, "parts": list(parts)}, **fields}


def test_qwen_compression_and_rewind(tmp_path: Path) -> None:
    """A shorter history takes the place of the whole; a prompt on an older line is a rewind."""
    history = [
        {"role": "user", "parts": [{"text": "so far"}]},
        {"role": "model", "parts": [{"text": "understood"}]},
    ]
    payload = {"info": {"originalTokenCount": 9}, "compressedHistory": history}
    lines = [
        qwen("u1", None, "user", {"text": "a"}),
        qwen("a1", "u1", "assistant", {"text": "hm", "thought": True}, {"text": "A"}),
        {
            "uuid": "k",
            "parentUuid": "a1",
            "sessionId": "s",
            "type": "system",
            "subtype": "chat_compression",
            "systemPayload": payload,
        },
        qwen("u2", "k", "user", {"text": "b"}),
        qwen("a2", "u2", "assistant", {"text": "B"}),
        qwen("u3", "a2", "user", {"text": "c"}),
        qwen("u4", "a2", "user", {"text": "d"}),
        {"uuid": "x", "sessionId": "s", "type": "system", "subtype": "slash_command"},
    ]
    with open_store("memory:") as store:
        imported(store, "qwen-code", write(tmp_path / "s.jsonl", *lines))
        table = table_of(store, "s")

        assert ["so far", "understood", "b", "B", "d"] == texts(store)
        assert (1, 1, 1) == (
            table.compactions,
            table.rewinds,
            table.types["qwen-code/system.slash_command"],
        )


def test_f12_what_a_fork_of_pi_copied_is_inherited(tmp_path: Path) -> None:
    """
    A fork repeats the way to where it began, with the ids that it had: its header says how
    many events that gave. Where the parent's file is not beside it, or is a pipe, nothing
    is known to be copied; a path that leads elsewhere is not followed.
    """

    def said(number: int) -> dict[str, Any]:
        message = {"role": "user", "content": f"message {number}"}
        parent = f"e{number - 1}" if number else None
        return {"type": "message", "id": f"e{number}", "parentId": parent, "message": message}

    def lines(name: str, *entries: dict[str, Any], parent: str | None = None) -> Path:
        header: dict[str, Any] = {"type": "session", "version": 3, "id": name}
        if parent is not None:
            header["parentSession"] = parent
        path = tmp_path / f"2026_{name}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in (header, *entries)))
        return path

    entries = [said(number) for number in range(6)]
    parent = lines("p", *entries[:5])
    fork = lines("f", *entries[:3], {**entries[5], "parentId": "e2"}, parent=f"/far/{parent.name}")
    whole = lines("w", *entries[:5], parent=str(parent))
    os.mkfifo(tmp_path / "2026_q.jsonl")
    other = lines("o", *entries[:3], parent=f"../{tmp_path.name}/2026_q.jsonl")
    odd = lines("x", *entries[:3], parent="/a\0b/..")
    with open_store("memory:") as store:
        imported(store, "pi", parent, fork, whole, other, odd)
        for name, owned in (("f", ["message 5"]), ("w", [])):
            seed = store.snapshot(name).header.seed_length
            assert seed is not None
            events = whole_log(store, name)
            own = [e.data["content"][0]["text"] for e in events[seed:] if e.type == "user/message"]
            assert ("p", owned) == (store.snapshot(name).header.parent_session, own)
            copied = [(e.type, e.surface_op) for e in events[:seed]]
            parents = [(e.type, e.surface_op) for e in whole_log(store, "p")[1:]]
            assert copied == parents[: len(copied)]
        assert [None, None] == [store.snapshot(name).header.seed_length for name in ("o", "x")]
        assert 0 == imported(store, "pi", parent, fork, whole, other, odd).events
