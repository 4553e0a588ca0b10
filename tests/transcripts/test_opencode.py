"""opencode: databases, trees of files and exports, compactions and pruned results."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from eventlog import EventStore, Replace, open_store
from support.transcripts import imported, messages_of, table_of, whole_log

Message = tuple[dict[str, Any], list[dict[str, Any]]]
SESSION = {"id": "ses_1", "directory": "/w", "title": "About it", "time": {"created": 5}}


def user(number: int, *parts: dict[str, Any]) -> Message:
    return {"id": f"msg_{number}", "role": "user", "time": {"created": number}}, list(parts)


def answer(number: int, *parts: dict[str, Any], **fields: Any) -> Message:
    info = {"id": f"msg_{number}", "role": "assistant", "time": {"created": number}}
    return {**info, "modelID": "m", "providerID": "p", **fields}, list(parts)


def text(said: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **fields}


def tool(call_id: str, output: str | None, **times: int) -> dict[str, Any]:
    state: dict[str, Any] = {"status": "running", "input": {"n": call_id}}
    if output is not None:
        state |= {"status": "completed", "output": output, "time": {"start": 1, "end": 2, **times}}
    return {"type": "tool", "callID": call_id, "tool": "read", "state": state}


def with_ids(message: Message) -> Message:
    info, parts = message
    return info, [{"id": f"prt_{info['id']}_{n}", **part} for n, part in enumerate(parts)]


def write_export(folder: Path, *messages: Message) -> Path:
    path = folder / "export.json"
    listed = [{"info": info, "parts": parts} for info, parts in map(with_ids, messages)]
    path.write_text(json.dumps({"info": SESSION, "messages": listed}))
    return path


def write_tree(folder: Path, *messages: Message) -> Path:
    storage = folder / "storage"
    session = storage / "session" / "project" / "ses_1.json"
    files: dict[Path, Any] = {session: SESSION}
    for info, parts in map(with_ids, messages):
        files[storage / "message" / "ses_1" / f"{info['id']}.json"] = info
        for part in parts:
            files[storage / "part" / info["id"] / f"{part['id']}.json"] = part
    for path, value in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    return folder


def write_database(folder: Path, *messages: Message) -> Path:
    path = folder / "opencode.db"
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE session (id, parent_id, directory, title, time_created)")
    database.execute("CREATE TABLE message (id, session_id, time_created, data)")
    database.execute("CREATE TABLE part (id, message_id, session_id, data)")
    database.execute("INSERT INTO session VALUES ('ses_1', NULL, '/w', 'About it', 5)")
    for info, parts in map(with_ids, messages):
        rest = json.dumps({name: value for name, value in info.items() if name != "id"})
        database.execute("INSERT INTO message VALUES (?, 'ses_1', 1, ?)", (info["id"], rest))
        for part in parts:
            row = (part["id"], info["id"], json.dumps(part))
            database.execute("INSERT INTO part VALUES (?, ?, 'ses_1', ?)", row)
    database.commit()
    database.close()
    return path


WRITERS = [write_export, write_tree, write_database]


def texts(store: EventStore, session_id: str = "ses_1") -> list[str]:
    """The texts of each message that the model sees."""
    found = []
    for _, _, content in messages_of(store, session_id):
        blocks = content[0].get("content", content) if content else []
        found.append("".join(block.get("text", "") for block in blocks))
    return found


TALK = [
    user(1, text("go")),
    answer(2, {"type": "step-start"}, text("look"), tool("c1", "files"), finish="tool-calls"),
    answer(3, text("done"), finish="stop"),
]


@pytest.mark.parametrize("write", WRITERS)
def test_every_storage_gives_the_same_conversation(write: Any, tmp_path: Path) -> None:
    """An export, a tree of files and a database of one session read alike."""
    with open_store("memory:") as store:
        account = imported(store, "opencode", write(tmp_path, *TALK))
        table = table_of(store, "ses_1")

        assert ["go", "look", "files", "done"] == texts(store)
        assert (4, 3, 1) == (account.records.found, account.records.mapped, account.records.kept)
        assert (1, 1, 1) == (table.pairs, table.types["turn/start"], table.types["turn/end"])
        assert ("/w", 5) == (
            store.snapshot("ses_1").header.cwd,
            store.snapshot("ses_1").header.created_at,
        )


@pytest.mark.parametrize("write", WRITERS)
def test_a_compaction_keeps_its_tail(write: Any, tmp_path: Path) -> None:
    """The summary takes the place of what stands before the tail; unfinished ones count not."""
    request = user(4, {"type": "compaction", "auto": True, "tail_start_id": "msg_3"})
    summary = answer(5, text("so far"), summary=True, parentID="msg_4", finish="stop")
    broken = answer(6, text("half"), summary=True, parentID="msg_4", error={"name": "E"})
    with open_store("memory:") as store:
        imported(
            store, "opencode", write(tmp_path, *TALK, request, summary, broken, user(7, text("on")))
        )

        assert ["so far", "done", "on"] == texts(store)
        assert 1 == table_of(store, "ses_1").compactions


def test_a_compaction_without_a_tail_takes_all(tmp_path: Path) -> None:
    """No tail is named: the summary stands for everything."""
    request = user(4, {"type": "compaction", "auto": True})
    summary = answer(5, text("so far"), summary=True, parentID="msg_4", finish="stop")
    with open_store("memory:") as store:
        imported(store, "opencode", write_export(tmp_path, *TALK, request, summary))

        assert ["so far"] == texts(store)


@pytest.mark.parametrize("write", WRITERS)
def test_a_result_that_is_pruned_later_keeps_what_it_said(write: Any, tmp_path: Path) -> None:
    """
    The result is marked as cleared after the import: one replacement of that result, the
    rest stays, and what it said is in the log.
    """
    pruned = [TALK[0], answer(2, text("look"), tool("c1", "files", compacted=9)), TALK[2]]
    before = [TALK[0], answer(2, text("look"), tool("c1", "files")), TALK[2]]
    with open_store("memory:") as once, open_store("memory:") as store:
        imported(once, "opencode", write(tmp_path, *pruned))
        imported(store, "opencode", write(tmp_path, *before))
        account = imported(store, "opencode", write(tmp_path, *pruned))
        log = whole_log(store, "ses_1")

        assert ["go", "look", "[Old tool result content cleared]", "done"] == texts(store)
        assert texts(once) == texts(store)
        assert 1 == sum(type(event.surface_op) is Replace for event in log)
        assert account.rewritten > 0


def test_a_call_that_finishes_between_imports(tmp_path: Path) -> None:
    """A running call has no result yet; the next import adds it, and the answer stays."""
    running = [user(1, text("go")), answer(2, text("look"), tool("c1", None))]
    finished = [user(1, text("go")), answer(2, text("look"), tool("c1", "files"))]
    with open_store("memory:") as store:
        imported(store, "opencode", write_database(tmp_path, *running))
        assert ("c1",) == table_of(store, "ses_1").open_calls
        imported(store, "opencode", write_database(tmp_path, *finished))

        assert ["go", "look", "files"] == texts(store)
        assert 0 == table_of(store, "ses_1").rewinds


def test_a_database_with_a_log_is_read_and_nothing_beside_it_changes(tmp_path: Path) -> None:
    """
    The tool died and left its write-ahead log: what is only in that log is imported, and
    the folder is as it was, byte by byte.
    """
    path = write_database(tmp_path, *TALK[:1])
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode=WAL")
    info = json.dumps({"role": "user"})
    database.execute("INSERT INTO message VALUES ('msg_9', 'ses_1', 1, ?)", (info,))
    part = json.dumps(text("from the log"))
    database.execute("INSERT INTO part VALUES ('prt_9', 'msg_9', 'ses_1', ?)", (part,))
    database.commit()
    left = {file.name: file.read_bytes() for file in tmp_path.iterdir() if "shm" not in file.name}
    folder = tmp_path / "left"
    folder.mkdir()
    for name, content in left.items():
        (folder / name).write_bytes(content)
    database.close()
    assert left["opencode.db-wal"]
    with open_store("memory:") as store:
        imported(store, "opencode", folder)

        assert ["go", "from the log"] == texts(store)
    assert left == {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_folder_of_the_tool_is_read_without_its_credentials(tmp_path: Path) -> None:
    """Beside its sessions the tool keeps keys; nothing of them is opened or imported."""
    write_tree(tmp_path, *TALK)
    (tmp_path / "auth.json").write_text('{"provider": {"type": "api", "key": "k"}}')
    with open_store("memory:") as store:
        account = imported(store, "opencode", tmp_path)

        assert 1 == account.found
        assert not any(b'"key":"k"' in event.payload for event in whole_log(store, "ses_1"))


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    """A database that is cut in the middle of its pages is refused by its name."""
    path = write_database(tmp_path, *TALK)
    path.write_bytes(path.read_bytes()[:5000])
    with open_store("memory:") as store:
        account = imported(store, "opencode", path, refused=True)

        assert [(str(path), "database")] == [(r.path, r.kind) for r in account.refused]


def test_a_child_session_and_a_fork(tmp_path: Path) -> None:
    """A parent makes a sub-agent's session; a session forked from another is its child."""
    path = tmp_path / "opencode.db"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE session_v2 (id, parent_id, fork_session_id, time_created)")
    database.execute("CREATE TABLE session_message (id, session_id, seq, type, data)")
    rows = [("a", None, None, 1), ("b", "a", None, 2), ("c", None, "a", 3)]
    database.executemany("INSERT INTO session_v2 VALUES (?, ?, ?, ?)", rows)
    for session_id, *_ in rows:
        data = json.dumps({"text": session_id})
        row = (f"m{session_id}", session_id, 7, "user", data)
        database.execute("INSERT INTO session_message VALUES (?, ?, ?, ?, ?)", row)
    database.commit()
    database.close()
    with open_store("memory:") as store:
        imported(store, "opencode", path)
        found = {
            head.header.id: (head.header.parent_session, head.header.origin)
            for head in store.heads().items
        }

    assert {"a": (None, None), "b": ("a", "subagent"), "c": ("a", None)} == found
