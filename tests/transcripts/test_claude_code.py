"""Claude Code: branches, sub-agents, forks, answers in several lines, compactions."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from eventlog import APPEND, Event, EventClass, EventStore, Replace, open_store
from eventlog.importing import Outcome
from eventlog.query import SessionQuery, SessionQueryError
from support import make_header, messages
from support.transcripts import imported, messages_of, places_of, table_of, whole_log

Line = dict[str, Any]


def user(uuid: str, parent: str | None, text: str = "", **fields: Any) -> Line:
    message = {"role": "user", "content": text or uuid}
    return line("user", uuid, parent, message=message, **fields)


def assistant(uuid: str, parent: str | None, *blocks: Line, of: str = "", **fields: Any) -> Line:
    content = list(blocks) or [{"type": "text", "text": uuid}]
    message = {"role": "assistant", "id": of or f"msg_{uuid}", "model": "m", "content": content}
    return line("assistant", uuid, parent, message=message, **fields)


def call(call_id: str) -> Line:
    return {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": call_id}}


def result(uuid: str, parent: str, call_id: str, text: str) -> Line:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": text}
    message = {"role": "user", "content": [block]}
    return line("user", uuid, parent, message=message, toolUseResult={"stdout": text})


def line(kind: str, uuid: str, parent: str | None, **fields: Any) -> Line:
    facts = {
        "type": kind,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "P",
        "isSidechain": False,
    }
    return {**facts, "timestamp": "2026-01-01T00:00:00Z", "cwd": "/w", **fields}


def write(path: Path, *lines: Line) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def texts(store: EventStore, session_id: str) -> list[str]:
    """The first text of each message that the model sees."""
    found = []
    for _, _, content in messages_of(store, session_id):
        block = content[0]
        inner = block.get("content") or [block]
        found.append(inner[0].get("text") or inner[0].get("id"))
    return found


def test_f9_a_second_child_of_a_message_loses_nothing(tmp_path: Path) -> None:
    """
    Two answers to one message, and the conversation went on from the second: all five
    lines are in the log, the first branch is shadowed by the second, and the account says
    five found, five mapped.
    """
    path = write(
        tmp_path / "s.jsonl",
        user("m1", None),
        assistant("m2", "m1"),
        user("m3a", "m2"),
        user("m3b", "m2"),
        assistant("m4", "m3b"),
    )
    with open_store("memory:") as store:
        account = imported(store, "claude-code", path)
        log = store.snapshot("P")
        events = {e.data["origin"]["key"]: e for e in whole_log(store, "P") if e.is_node}

        assert (5, 5, 0) == (account.records.found, account.records.mapped, account.records.kept)
        assert {1, 2, 3, 4, 5} == places_of(store)
        assert ["m1", "m2", "m3b", "m4"] == texts(store, "P")
        assert EventClass.SHADOWED is log.classify(events["m3a"].seq)
        assert {events["m3a"].seq: events["m3b"].seq} == log.replaced_by(0, log.length)


def test_parallel_calls_are_no_branch(tmp_path: Path) -> None:
    """Each call hangs off the one before and each result off its call; all stay in order."""
    path = write(
        tmp_path / "s.jsonl",
        user("p", None),
        assistant("a1", "p", call("c1"), of="m"),
        assistant("a2", "a1", call("c2"), of="m"),
        result("r1", "a1", "c1", "one"),
        result("r2", "a2", "c2", "two"),
        assistant("a3", "r2"),
        user("q", "a3"),
    )
    with open_store("memory:") as store:
        imported(store, "claude-code", path)
        table = table_of(store, "P")

        assert (2, 0, 6) == (table.pairs, table.rewinds, table.surface)
        assert ["p", "c1", "one", "two", "a3", "q"] == texts(store, "P")


def test_lines_of_one_answer_become_one_message(tmp_path: Path) -> None:
    """
    Four lines share a message id, results between them: one message at the place of the
    first holds all four blocks, and what every line said beside them is kept.
    """
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    path = write(
        tmp_path / "s.jsonl",
        user("p", None),
        assistant("a1", "p", thought, of="m", requestId="req"),
        assistant("a2", "a1", {"type": "text", "text": "so"}, of="m"),
        assistant("a3", "a2", call("c1"), of="m"),
        result("r1", "a3", "c1", "one"),
        assistant("a4", "a3", call("c2"), of="m"),
        result("r2", "a4", "c2", "two"),
    )
    with open_store("memory:") as store:
        imported(store, "claude-code", path)
        answer = next(e for e in whole_log(store, "P") if e.type == "assistant/message")

        assert ["reasoning", "text", "tool-call", "tool-call"] == [
            block["type"] for block in answer.data["message"]["content"]
        ]
        assert "sig" == answer.data["message"]["content"][0]["signature"]
        assert "req" == answer.data["origin"]["fields"]["requestId"]
        assert [3, 4, 6] == [more["line"] for more in answer.data["origin"]["more"]]
        assert 2 == table_of(store, "P").pairs


def test_an_answer_that_grows_between_imports_takes_its_own_place(tmp_path: Path) -> None:
    """The half of an answer that was imported is replaced by the whole, one for one."""
    lines = [
        user("p", None),
        assistant("a1", "p", of="m"),
        assistant("a2", "a1", call("c"), of="m"),
    ]
    with open_store("memory:") as store:
        imported(store, "claude-code", write(tmp_path / "s.jsonl", *lines[:2]))
        account = imported(store, "claude-code", write(tmp_path / "s.jsonl", *lines))
        replacing = [e for e in whole_log(store, "P") if type(e.surface_op) is Replace]

        assert (Outcome.GROWN, 1) == (account.sessions[0].outcome, account.sessions[0].rewritten)
        assert [Replace(2, 2)] == [event.surface_op for event in replacing]
        assert ["p", "a1"] == texts(store, "P")


def test_a_micro_compaction_empties_the_results_that_it_names(tmp_path: Path) -> None:
    """Only the content changes; the boundary is cited, and an id that is absent is passed over."""
    ids = ["c1", "absent"]
    boundary = line(
        "system",
        "mb",
        "r2",
        subtype="microcompact_boundary",
        microcompactMetadata={"trigger": "auto", "compactedToolIds": ids},
    )
    path = write(
        tmp_path / "s.jsonl",
        user("p", None),
        assistant("a1", "p", call("c1"), of="m"),
        assistant("a2", "a1", call("c2"), of="m"),
        result("r1", "a1", "c1", "one"),
        result("r2", "a2", "c2", "two"),
        boundary,
        user("q", "mb"),
    )
    with open_store("memory:") as store:
        imported(store, "claude-code", path)
        log = whole_log(store, "P")
        rewrite = next(e for e in log if type(e.surface_op) is Replace)
        kept = next(e for e in log if e.type == "claude-code/system.microcompact_boundary")

        assert ["p", "c1", "[Old tool result content cleared]", "two", "q"] == texts(store, "P")
        assert {kept.seq} < set(rewrite.source_event_seqs or ())
        assert 0 == imported(store, "claude-code", path).events


def test_a_client_error_is_no_answer_and_titles_name_the_session(tmp_path: Path) -> None:
    """What the client made itself is kept and not shown to the model."""
    path = write(
        tmp_path / "s.jsonl",
        user("p", None),
        assistant("e", "p", isApiErrorMessage=True),
        {"type": "custom-title", "customTitle": "Fix it", "sessionId": "P"},
        {"type": "ai-title", "aiTitle": "About fixing", "sessionId": "P"},
    )
    with open_store("memory:") as store:
        imported(store, "claude-code", path)
        events = whole_log(store, "P")

        assert ["p"] == texts(store, "P")
        assert ["Fix it", "About fixing"] == [
            e.data["title"] for e in events if e.type == "session/title"
        ]
        assert "claude-code/assistant" in {event.type for event in events}


def family(folder: Path) -> list[Path]:
    """A session, a sub-agent of it, a fork of it, and a fork of the fork."""
    agent: Line = {"isSidechain": True, "agentId": "a1"}
    parent = [user("u1", None), assistant("v1", "u1"), user("u2", "v1"), assistant("v2", "u2")]

    def copied(lines: list[Line], child: str, source: str) -> list[Line]:
        return [
            {
                **line,
                "sessionId": child,
                "forkedFrom": {"sessionId": source, "messageUuid": line["uuid"]},
            }
            for line in lines
        ]

    fork = [
        *copied(parent[:2], "F", "P"),
        user("u3", "v1", sessionId="F"),
        assistant("v3", "u3", sessionId="F"),
    ]
    second = [*copied(fork, "G", "F"), user("u4", "v3", sessionId="G")]
    return [
        write(folder / "P.jsonl", *parent),
        write(
            folder / "P" / "subagents" / "agent-a1.jsonl",
            user("x1", None, **agent),
            assistant("y1", "x1", **agent),
        ),
        write(folder / "F.jsonl", *fork),
        write(folder / "G.jsonl", *second),
    ]


def test_l1_a_sub_agent_is_a_session_of_its_own(tmp_path: Path) -> None:
    """
    A sub-agent's file repeats the parent's session id: two sessions, the child under its
    own id with the parent's as its parent, and the parent's events are not touched.
    """
    parent, child = family(tmp_path)[:2]
    with open_store("memory:") as store:
        imported(store, "claude-code", parent)
        before = whole_log(store, "P")
        imported(store, "claude-code", child)

        assert before == whole_log(store, "P")
        assert ("P", "subagent", 1) == (
            store.snapshot("a1").header.parent_session,
            store.snapshot("a1").header.origin,
            store.snapshot("a1").header.delegation_depth,
        )
        trace = SessionQuery(store=store).trace_session("P")
        assert ["a1"] == [entry.record.header.id for entry in trace.descendants]


def test_a_family_has_one_lineage_in_whatever_order_its_files_come(tmp_path: Path) -> None:
    """All 24 orders of a session, its sub-agent, its fork and the fork's fork."""
    files = family(tmp_path)
    found = set()
    for order in permutations(files):
        with open_store("memory:") as store:
            for path in order:
                imported(store, "claude-code", path)
            found.add(
                tuple(
                    (
                        head.header.id,
                        head.header.parent_session,
                        head.header.seed_length,
                        head.length,
                    )
                    for head in sorted(store.heads().items, key=lambda head: head.header.id)
                )
            )

    assert 1 == len(found)
    assert {("F", "P"), ("G", "F"), ("P", None), ("a1", "P")} == {
        entry[:2] for entry in found.pop()
    }


def test_f12_what_a_fork_copied_is_inherited(tmp_path: Path) -> None:
    """
    A fork repeats its parent's first lines. Its header says how many of its events they
    gave, and these are the parent's own, event for event.
    """
    parent, _, fork, second = family(tmp_path)
    with open_store("memory:") as store:
        for path in (parent, fork, second):
            imported(store, "claude-code", path)
        owned = whole_log(store, "P")
        for session_id, own_texts in (("F", ["u3", "v3"]), ("G", ["u4"])):
            seed = store.snapshot(session_id).header.seed_length
            events = whole_log(store, session_id)
            assert seed is not None
            shown = [e.data["id"] for e in events[seed:] if e.type == "user/message"]
            assert own_texts[:1] == shown
            if session_id == "F":
                assert [(e.type, e.time, e.surface_op) for e in owned[:seed]] == [
                    (e.type, e.time, e.surface_op) for e in events[:seed]
                ]
        query = SessionQuery(store=store)
        flags = [record.inherited for record in query.list_events("F").items]
        assert store.snapshot("F").header.seed_length == sum(flags)


def test_f5_l4_a_parent_that_is_not_there_is_named(tmp_path: Path) -> None:
    """Two children of a session that was never imported: both are whole, the trace is not."""
    _, child, fork, _ = family(tmp_path)
    with open_store("memory:") as store:
        imported(store, "claude-code", child, fork)
        query = SessionQuery(store=store)
        for session_id in ("a1", "F"):
            trace = query.trace_session(session_id)
            assert (False, "P") == (trace.complete, trace.unresolved_parent_id)
            assert messages_of(store, session_id)
        with pytest.raises(SessionQueryError) as caught:
            query.read_surface("P")
        assert "SESSION_QUERY_SESSION_NOT_FOUND" == caught.value.code


def test_l3_sessions_that_name_each_other_as_parent(tmp_path: Path) -> None:
    """Two forks of each other, and one of itself: listed, and the trace refuses the cycle."""

    def fork(session: str, source: str) -> Path:
        origin = {"sessionId": source, "messageUuid": "u"}
        return write(
            tmp_path / f"{session}.jsonl", user("u", None, sessionId=session, forkedFrom=origin)
        )

    with open_store("memory:") as store:
        imported(store, "claude-code", fork("s1", "s2"), fork("s2", "s1"), fork("s3", "s3"))
        query = SessionQuery(store=store)

        assert {"s1", "s2", "s3"} == {r.header.id for r in query.list_sessions().items}
        for session_id in ("s1", "s2"):
            with pytest.raises(SessionQueryError) as caught:
                query.trace_session(session_id)
            assert "SESSION_QUERY_INVALID_LINEAGE" == caught.value.code
        assert query.trace_session("s3").complete


def test_a_file_that_differs_from_another_of_its_session_is_refused(tmp_path: Path) -> None:
    """
    In a later run: a copy that has all that is stored may go on with it, one that lacks
    some of it and has other lines is refused while the first file exists.
    """
    common = [user("m1", None), assistant("m2", "m1")]
    first = write(tmp_path / "a" / "P.jsonl", *common, user("m3", "m2"))
    other = write(tmp_path / "b" / "P.jsonl", *common, user("n3", "m2"))
    longer = write(tmp_path / "c" / "P.jsonl", *common, user("m3", "m2"), assistant("m4", "m3"))
    with open_store("memory:") as store:
        imported(store, "claude-code", first)
        refused = imported(store, "claude-code", other, refused=True).refused
        assert ["m1", "m2", "m3"] == texts(store, "P")
        imported(store, "claude-code", longer)

        assert ["duplicate"] == [entry.kind for entry in refused]
        assert str(first) in refused[0].reason
        assert ["m1", "m2", "m3", "m4"] == texts(store, "P")


def test_a_session_that_a_harness_went_on_with_is_left_alone(tmp_path: Path) -> None:
    """Events of somebody else on the surface: a source that grew is refused, nothing is added."""
    lines = [user("m1", None), assistant("m2", "m1"), user("m3", "m2")]
    with open_store("memory:") as store:
        imported(store, "claude-code", write(tmp_path / "P.jsonl", *lines[:2]))
        head = store.head("P")
        assert head is not None
        data = {"id": "x", "role": "user", "content": [], "source": {"kind": "user"}}
        store.append(head.header, [Event(head.length, 1, "user/message", data, surface_op=APPEND)])
        account = imported(store, "claude-code", write(tmp_path / "P.jsonl", *lines), refused=True)

        assert ["SequenceConflict"] == [entry.kind for entry in account.refused]
        assert head.length + 1 == len(whole_log(store, "P"))


def test_nothing_is_put_behind_what_somebody_else_wrote(tmp_path: Path) -> None:
    """
    A session that a person renamed here: an import of the same file adds no mark behind
    it, and one of a grown file goes on. A session that was resumed is left alone.
    """
    lines = [user("m1", None), assistant("m2", "m1"), user("m3", "m2")]
    path = tmp_path / "P.jsonl"
    for kind, grows in (("session/title", True), ("session/end-seed", False)):
        with open_store("memory:") as store:
            imported(store, "claude-code", write(path, *lines[:2]))
            head = store.head("P")
            assert head is not None
            store.append(head.header, [Event(head.length, 1, kind, {"title": "mine"})])
            assert 0 == imported(store, "claude-code", path).events
            account = imported(store, "claude-code", write(path, *lines), refused=True)

            assert grows is (account.refused == [])
            assert ["m1", "m2", "m3"][: 2 + grows] == texts(store, "P")


def test_a_deleted_session_does_not_come_back(tmp_path: Path) -> None:
    """What was deleted from the store is refused, until it is forgotten."""
    path = write(tmp_path / "P.jsonl", user("m1", None))
    with open_store("memory:") as store:
        imported(store, "claude-code", path)
        store.delete("P")
        account = imported(store, "claude-code", path, refused=True)

        assert ["SessionDeleted"] == [entry.kind for entry in account.refused]
        assert store.head("P") is None
        assert account.records.found == account.records.refused


def test_a_session_of_another_origin_is_not_written_to(tmp_path: Path) -> None:
    """A session with the same id that did not come from this tool: a conflict of headers."""
    path = write(tmp_path / "P.jsonl", user("m1", None))
    with open_store("memory:") as store:
        store.append(make_header("P"), messages(1))
        account = imported(store, "claude-code", path, refused=True)

        assert ["HeaderConflict"] == [entry.kind for entry in account.refused]
        assert 1 == len(whole_log(store, "P"))
