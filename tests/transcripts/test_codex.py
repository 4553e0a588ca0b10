"""OpenAI Codex: forks, rollbacks, compactions, the interface's account, compressed files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eventlog import EventStore, Replace, open_store
from support.transcripts import imported, messages_of, table_of, whole_log

Line = dict[str, Any]
THREAD = "11111111-1111-4111-8111-111111111111"
PARENT = "22222222-2222-4222-8222-222222222222"


class Rollout:
    """The lines of a rollout file, a second apart."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.seconds = 0.0

    def add(self, kind: str, after_s: float = 1.0, **payload: Any) -> Rollout:
        self.seconds += after_s
        minutes, seconds = divmod(self.seconds, 60)
        time = f"2026-01-02T03:{int(minutes):02}:{seconds:06.3f}Z"
        self.lines.append({"timestamp": time, "type": kind, "payload": payload})
        return self

    def meta(self, thread: str = THREAD, after_s: float = 1.0, **facts: Any) -> Rollout:
        return self.add("session_meta", after_s, id=thread, cwd="/w", source="cli", **facts)

    def said(self, role: str, text: str, after_s: float = 1.0) -> Rollout:
        kind = "output_text" if role == "assistant" else "input_text"
        content = [{"type": kind, "text": text}]
        return self.add("response_item", after_s, type="message", role=role, content=content)

    def event(self, kind: str, after_s: float = 1.0, **fields: Any) -> Rollout:
        return self.add("event_msg", after_s, type=kind, **fields)

    def turn(self, prompt: str, answer: str, after_s: float = 1.0) -> Rollout:
        self.event("task_started", after_s).said("user", prompt, after_s)
        return self.said("assistant", answer, after_s).event("task_complete", after_s)

    @property
    def content(self) -> bytes:
        return b"".join(json.dumps(line).encode() + b"\n" for line in self.lines)

    def write(
        self, folder: Path, name: str = f"rollout-2026-01-02T03-00-00-{THREAD}.jsonl"
    ) -> Path:
        path = folder / name
        path.write_bytes(self.content)
        return path


def texts(store: EventStore, session_id: str = THREAD) -> list[str]:
    """The text of each message that the model sees."""
    return [
        "".join(block.get("text", "") for block in content)
        for _, _, content in messages_of(store, session_id)
    ]


def test_f12_a_fork_inherits_what_it_copied(tmp_path: Path) -> None:
    """
    A fork writes its own meta line, then its parent's lines in one burst, the parent's
    meta line first: they are its inherited part, event for event those of the parent,
    and its own meta line stands behind them.
    """
    parent = Rollout().meta(PARENT).turn("one", "first").turn("two", "second")
    fork = Rollout().meta(THREAD, forked_from_id=PARENT).meta(PARENT, 0.001)
    fork.turn("one", "first", 0.001).event("task_started", 60).said("user", "other")
    with open_store("memory:") as store:
        imported(store, "codex", parent.write(tmp_path, f"rollout-x-{PARENT}.jsonl"))
        imported(store, "codex", fork.write(tmp_path))
        owned, events = whole_log(store, PARENT), whole_log(store, THREAD)
        header = store.snapshot(THREAD).header

        assert (PARENT, None) == (header.parent_session, header.origin)
        assert header.seed_length is not None
        seed = header.seed_length
        assert [(e.type, e.surface_op) for e in owned[:seed]] == [
            (e.type, e.surface_op) for e in events[:seed]
        ]
        assert "codex/session_meta" == events[seed].type
        assert THREAD == events[seed].data["record"]["payload"]["id"]
        assert ["one", "first", "other"] == texts(store)


def test_a_spawned_thread_names_its_parent(tmp_path: Path) -> None:
    """The thread that spawned another is its parent, and the depth is that which it says."""
    rollout = Rollout()
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": PARENT, "depth": 2}}}
    rollout.add("session_meta", id=THREAD, source=spawn).turn("do", "done")
    with open_store("memory:") as store:
        imported(store, "codex", rollout.write(tmp_path))
        header = store.snapshot(THREAD).header

    assert (PARENT, "subagent", 2) == (
        header.parent_session,
        header.origin,
        header.delegation_depth,
    )


@pytest.mark.parametrize(
    ("turns", "left"),
    [
        (1, ["a", "A", "b", "B", "new"]),
        (2, ["a", "A", "new"]),
        (3, ["new"]),
        (9, ["new"]),
        (0, ["a", "A", "b", "B", "c", "C", "new"]),
    ],
)
def test_a_rollback_drops_turns_and_the_next_message_takes_their_place(
    turns: int, left: list[str], tmp_path: Path
) -> None:
    """As many of the last turns as it says are replaced by what is said next."""
    rollout = Rollout().meta().turn("a", "A").turn("b", "B").turn("c", "C")
    rollout.event("thread_rolled_back", num_turns=turns)
    with open_store("memory:") as store:
        imported(store, "codex", rollout.write(tmp_path))
        assert ["a", "A", "b", "B", "c", "C"] == texts(store)  # nothing came behind it yet
        rollout.event("task_started").said("user", "new")
        imported(store, "codex", rollout.write(tmp_path))
        assert left == texts(store)


def test_rollbacks_count_what_survives(tmp_path: Path) -> None:
    """Two rollbacks of one turn in a row drop two."""
    rollout = Rollout().meta().turn("a", "A").turn("b", "B").turn("c", "C")
    rollout.event("thread_rolled_back", num_turns=1).event("thread_rolled_back", num_turns=1)
    rollout.said("user", "new")
    with open_store("memory:") as store:
        imported(store, "codex", rollout.write(tmp_path))
        assert ["a", "A", "new"] == texts(store)


def test_a_compaction_without_a_history_keeps_what_the_user_said(tmp_path: Path) -> None:
    """
    Old files: the context that was put in and the user's messages stay, in their order,
    and the summary stands behind them.
    """
    rollout = Rollout().meta().said("user", "<environment_context>x</environment_context>")
    rollout.turn("a", "A").turn("b", "B").add("compacted", message="so far").turn("c", "C")
    rollout.add("compacted", message="further")
    with open_store("memory:") as store:
        imported(store, "codex", rollout.write(tmp_path))

        context = "<environment_context>x</environment_context>"
        assert [context, "a", "b", "c", "further"] == texts(store)
        replacing = [e for e in whole_log(store, THREAD) if type(e.surface_op) is Replace]
        assert 2 == len(replacing)


def test_a_compaction_with_calls_in_its_history_keeps_their_order(tmp_path: Path) -> None:
    """Calls and results of a replacement history are calls and results on the surface."""
    history = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]},
        {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": "out"},
    ]
    rollout = Rollout().meta().turn("a", "A")
    rollout.add("compacted", message="", replacement_history=history)
    with open_store("memory:") as store:
        imported(store, "codex", rollout.write(tmp_path))
        kinds = [kind for kind, _, _ in messages_of(store, THREAD)]

    assert ["user/message", "assistant/message", "tool/result"] == kinds


def test_the_interfaces_account_stands_in_where_a_file_has_no_items(tmp_path: Path) -> None:
    """Old files hold only what the interface showed; it becomes the conversation."""
    rollout = Rollout().meta().event("user_message", message="hello")
    rollout.event("agent_reasoning", text="hm").event("agent_message", message="hi")
    with open_store("memory:") as store:
        imported(store, "codex", rollout.write(tmp_path))

        assert ["hello", "hmhi"] == texts(store)
        assert 1 == table_of(store, THREAD).types["turn/start"]


@pytest.mark.parametrize("item_first", [True, False])
def test_two_writers_of_one_message_are_one_message(item_first: bool, tmp_path: Path) -> None:
    """An item and the interface's account of it, in either order, are shown once."""
    rollout = Rollout().meta().event("task_started")
    for role, kind, text in (
        ("user", "user_message", "hello"),
        ("assistant", "agent_message", "hi"),
    ):
        if item_first:
            rollout.said(role, text).event(kind, message=text)
        else:
            rollout.event(kind, message=text).said(role, text)
    with open_store("memory:") as store:
        account = imported(store, "codex", rollout.write(tmp_path))

        assert ["hello", "hi"] == texts(store)
        assert (3, 3) == (account.records.mapped, account.records.kept)


def test_usage_is_that_of_the_last_request(tmp_path: Path) -> None:
    """What a token count says of the last request stands with the answer that it was for."""
    rollout = Rollout().meta().event("task_started").said("user", "a").said("assistant", "A")
    last = {"input_tokens": 100, "cached_input_tokens": 60, "output_tokens": 7}
    rollout.event("token_count", info={"last_token_usage": last, "total_token_usage": last})
    with open_store("memory:") as store:
        imported(store, "codex", rollout.write(tmp_path))
        answer = next(e for e in whole_log(store, THREAD) if e.type == "assistant/message")

    usage = {"inputTokens": 40, "outputTokens": 7, "cacheReadTokens": 60}
    assert usage == answer.data["usage"]


@pytest.mark.parametrize("name", ["rollout-x.jsonl.zst", "rollout-x.jsonl.zstd"])
def test_a_compressed_file_reads_like_the_raw_one(name: str, tmp_path: Path) -> None:
    """Archived rollouts in zstd frames give the same events."""
    zstandard = pytest.importorskip("zstandard")
    rollout = Rollout().meta().turn("a", "A")
    half = len(rollout.content) // 2
    frame = zstandard.ZstdCompressor(write_checksum=True).compress
    (tmp_path / name).write_bytes(frame(rollout.content[:half]) + frame(rollout.content[half:]))
    with open_store("memory:") as raw, open_store("memory:") as packed:
        imported(raw, "codex", rollout.write(tmp_path))
        imported(packed, "codex", tmp_path / name)

        assert whole_log(raw, THREAD)[:-1] == whole_log(packed, THREAD)[:-1]


def test_the_form_of_the_first_releases_is_read(tmp_path: Path) -> None:
    """A bare first line, and items without an envelope."""
    lines: list[Any] = [
        {"id": THREAD, "timestamp": "2025-04-01T00:00:00Z", "instructions": ""},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A"}]},
    ]
    path = tmp_path / "rollout-old.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with open_store("memory:") as store:
        imported(store, "codex", path)

        assert ["a", "A"] == texts(store)
