"""Gemini CLI: snapshots of one session, and the log that they became."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from eventlog import EventStore, Replace, open_store
from eventlog.importing import Outcome
from support import corpus
from support.transcripts import imported, messages_of, table_of, whole_log

SESSION = "f7633853-6663-4dbb-bbf4-6159afa29df8"


def texts(store: EventStore, session_id: str = "s") -> list[str]:
    """The text of each message that the model sees."""
    found = []
    for _, _, content in messages_of(store, session_id):
        blocks = content[0].get("content", content) if content else []
        found.append("".join(block.get("text", "") for block in blocks))
    return found


def test_two_snapshots_of_one_session_become_one_session(tmp_path: Path) -> None:
    """
    The recorded session after 8 and after 13 messages: the message that had gained calls
    takes its own place, the rest is appended, and the surface is that of the second.
    """
    first = corpus("transcripts", "gemini-cli", "session-f7633853.at-t1.json")
    second = corpus("transcripts", "gemini-cli", "session-f7633853.at-t2.json")
    with open_store("memory:") as once, open_store("memory:") as store:
        imported(once, "gemini-cli", second)
        imported(store, "gemini-cli", first)
        account = imported(store, "gemini-cli", second)

        assert (1, Outcome.GROWN, 1) == (
            account.found,
            account.sessions[0].outcome,
            account.sessions[0].rewritten,
        )
        assert messages_of(once, SESSION) == messages_of(store, SESSION)
        replacing = [e for e in whole_log(store, SESSION) if type(e.surface_op) is Replace]
        assert [Replace(16, 16)] == [event.surface_op for event in replacing]

    with open_store("memory:") as store:
        both = imported(store, "gemini-cli", first, second)
        again = imported(store, "gemini-cli", first, second)

    assert (1, 1, 1, 0) == (both.found, both.new, again.same, again.events)


def write(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def said(message_id: str, kind: str, text: str, *calls: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"id": message_id, "type": kind, "content": text}
    return {**message, "toolCalls": list(calls)} if calls else message


def called(call_id: str, output: str | None) -> dict[str, Any]:
    call: dict[str, Any] = {"id": call_id, "name": "read", "args": {"path": call_id}}
    if output is None:
        return {**call, "status": "executing", "result": None}
    response = {"id": call_id, "name": "read", "response": {"output": output}}
    return {**call, "status": "success", "result": [{"functionResponse": response}]}


HEADER = {"sessionId": "s", "projectHash": "h", "startTime": "2026-02-01T00:00:00Z"}


def test_the_last_line_of_an_id_wins(tmp_path: Path) -> None:
    """
    A call finishes, and its message is written again: it takes its own place, the result
    comes behind it, and the same line once more changes nothing.
    """
    lines = [
        HEADER,
        said("u", "user", "go"),
        said("m", "gemini", "so", called("c", None)),
        said("m", "gemini", "so", called("c", "out")),
        said("m", "gemini", "so", called("c", "out")),
        said("n", "gemini", "done"),
    ]
    with open_store("memory:") as store:
        account = imported(store, "gemini-cli", write(tmp_path / "session-1.jsonl", *lines))
        table = table_of(store, "s")

        assert ["go", "so", "out", "done"] == texts(store)
        assert (1, 1, 1) == (table.types["tool/call"], table.pairs, table.rewinds)
        assert 6 == account.records.found
        assert 1 == table.types["gemini-cli/repeated"]


def test_a_rewind_cuts_off_the_message_that_it_names(tmp_path: Path) -> None:
    """A message and all behind it go; an id that nobody knows clears everything."""
    lines = [HEADER, said("u", "user", "a"), said("m", "gemini", "A"), said("v", "user", "b")]
    known = [*lines, {"$rewindTo": "m"}, said("w", "user", "c")]
    unknown = [*lines, {"$rewindTo": "nobody"}, said("w", "user", "c")]
    for spoken, left in ((known, ["a", "c"]), (unknown, ["c"])):
        with open_store("memory:") as store:
            imported(store, "gemini-cli", write(tmp_path / "session-1.jsonl", *spoken))
            assert left == texts(store)


def test_setting_the_messages_puts_another_history_in_place(tmp_path: Path) -> None:
    """A compression: the whole surface is replaced, and lines go on from there."""
    lines = [
        HEADER,
        said("u", "user", "a"),
        said("m", "gemini", "A", called("c", "long output")),
        {
            "$set": {
                "messages": [
                    said("k", "user", "so far"),
                    said("m", "gemini", "A", called("c", "cut")),
                ]
            }
        },
        said("v", "user", "b"),
        {"$set": {"lastUpdated": "2026-02-01T00:01:00Z"}},
    ]
    with open_store("memory:") as store:
        imported(store, "gemini-cli", write(tmp_path / "session-1.jsonl", *lines))

        assert ["so far", "A", "cut", "b"] == texts(store)
        assert 1 == table_of(store, "s").compactions


def test_a_snapshot_that_became_a_log_goes_on(tmp_path: Path) -> None:
    """A session whose file was migrated to lines is the same session, grown."""
    messages = [said("u", "user", "a"), said("m", "gemini", "A")]
    snapshot = tmp_path / "session-1.json"
    snapshot.write_text(json.dumps({**HEADER, "messages": messages}))
    log = write(tmp_path / "session-1.jsonl", HEADER, *messages, said("v", "user", "b"))
    with open_store("memory:") as store:
        account = imported(store, "gemini-cli", snapshot, log)

        assert (1, 1) == (account.found, account.new)
        assert ["a", "A", "b"] == texts(store)
        assert not any(type(e.surface_op) is Replace for e in whole_log(store, "s"))


def test_a_sub_agents_file_names_its_parent(tmp_path: Path) -> None:
    """A file in a folder named after a session is that session's child."""
    folder = tmp_path / "chats" / "s"
    folder.mkdir(parents=True)
    header = {**HEADER, "sessionId": "child", "kind": "subagent"}
    write(tmp_path / "chats" / "session-1.jsonl", HEADER, said("u", "user", "a"))
    write(folder / "child.jsonl", header, said("u", "user", "a"))
    with open_store("memory:") as store:
        account = imported(store, "gemini-cli", tmp_path)

        assert 2 == account.new
        assert "s" == store.snapshot("child").header.parent_session
