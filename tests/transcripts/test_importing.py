"""What an import promises whatever the source is: its account, and what it notices."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog import SessionHead, open_store
from eventlog.drivers.memory import MemoryStore
from eventlog.drivers.transcripts import conversation
from eventlog.importing import import_transcripts
from eventlog.sources import Item, RecordTally, Transcript
from support.example_source import ExampleSource
from support.samples import SAMPLES, Sample
from support.transcripts import imported, messages_of, whole_log

NOTE = '{"type":"note","uuid":"%s","sessionId":"s"}\n'


class GrowingStore(MemoryStore):
    """A store that is asked for a session while its tool goes on writing the file."""

    def __init__(self, path: Path, line: str) -> None:
        super().__init__()
        self._growing: tuple[Path, str] | None = (path, line)

    def head(self, session_id: str) -> SessionHead | None:
        if self._growing is not None:
            path, line = self._growing
            self._growing = None
            with path.open("a") as file:
                file.write(line)
        return super().head(session_id)


def test_what_is_added_while_a_file_is_read_is_brought_in_by_the_next_import(
    tmp_path: Path,
) -> None:
    """
    A line came between the look at a file's size and the digest by which the next import
    knows it: the file counted as unchanged from then on, and the line was never imported.
    """
    path = tmp_path / "s.jsonl"
    path.write_text(NOTE % "u1")
    with GrowingStore(path, NOTE % "u2") as store:
        first = imported(store, "claude-code", path)
        second = imported(store, "claude-code", path)

        assert (1, 1) == (first.records.found, second.grown)
        notes = [event for event in whole_log(store, "s") if event.type == "claude-code/note"]
        assert ["u1", "u2"] == [event.data["origin"]["key"] for event in notes]


class FailingSource(ExampleSource):
    """A source with a fault: it cannot bear a record whose text is ``"odd"``."""

    def find(self, path: Path) -> Iterator[Transcript]:
        for file in sorted(path.iterdir()):
            yield Transcript(file)

    def read(self, transcript: Transcript, tally: RecordTally) -> Iterator[Item]:
        for item in super().read(transcript, tally):
            yield item
            if getattr(item, "data", {}).get("content") == [{"type": "text", "text": "odd"}]:
                raise KeyError("odd")


def test_j4_a_source_that_fails_fails_for_one_transcript(tmp_path: Path) -> None:
    """
    An exception that is none of ours is the end of its transcript, not of the import: it
    is refused with what was raised, all its records with it, and the next file is read.
    """
    record = {"key": "k", "kind": "user", "text": "odd"}
    (tmp_path / "a.json").write_text(json.dumps([record, {**record, "key": "l"}]))
    (tmp_path / "b.json").write_text(json.dumps([{**record, "text": "even"}]))
    with open_store("memory:") as store:
        account = import_transcripts(store, FailingSource(), [tmp_path])

        assert account.adds_up
        assert [str(tmp_path / "a.json")] == [refused.path for refused in account.refused]
        assert "KeyError: 'odd'" in account.refused[0].reason
        assert (1, 1, 1) == (account.records.mapped, account.records.refused, account.new)


def test_one_file_by_two_names_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Imported as ``s.jsonl`` and by its whole path, through a link as well: a file that its
    tool rewrote was refused as a second copy of itself.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    (tmp_path / "link").symlink_to("here")
    path = tmp_path / "here" / "s.jsonl"
    with open_store("memory:") as store:
        for number, name in enumerate(
            (Path("here/s.jsonl"), path, tmp_path / "link" / "s.jsonl", Path("link/s.jsonl"))
        ):
            path.write_text(NOTE % "u1" + NOTE % f"other{number}")
            assert 1 == imported(store, "claude-code", name).grown + (number == 0)


KINDS = ("text", "tool_use", "tool_result", "thinking", "tool-call", "tool-result")
RESTS: list[dict[str, Any]] = [
    {},
    {"text": 5},
    {"content": 5},
    {"name": [], "id": {}, "input": None},
]
ODD_BLOCKS: list[Any] = [{"type": kind, **rest} for kind in KINDS for rest in RESTS] + [
    {"functionCall": {}},
    {"functionResponse": {"response": None}},
    {"type": "toolCall"},
    None,
    [],
]


def with_odd_blocks(value: Any) -> Any:
    """A record whose contents are blocks that lack what theirs have."""
    if isinstance(value, list):
        return [with_odd_blocks(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: ODD_BLOCKS if key in ("content", "parts") else with_odd_blocks(item)
        for key, item in value.items()
    }


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.kind in ("lines", "document")], ids=str)
def test_j5_blocks_that_lack_what_theirs_have_are_imported(sample: Sample, tmp_path: Path) -> None:
    """
    A block of text without a text, a call without an id, name or arguments, also under the
    names of our own blocks: one such block ended the whole import of three tools.
    """
    records = sample.records()
    if sample.kind == "lines":
        spoilt = [json.dumps(with_odd_blocks(json.loads(r))).encode() + b"\n" for r in records]
    else:
        spoilt = [with_odd_blocks(record) for record in records]
    with open_store("memory:") as store:
        account = imported(store, sample.tool, sample.write(tmp_path, spoilt), refused=True)
        assert account.refused == [] or sample.tool == "dsh"
        for head in store.heads(limit=100).items:
            whole_log(store, head.header.id)


def pi_zigzag(path: Path, entries: int) -> Path:
    """Two branches of pi whose entries take turns: each one changes the branch."""
    lines: list[dict[str, Any]] = [{"type": "session", "id": "s"}]
    for number in range(entries):
        parent = f"e{number - 2}" if number > 1 else None
        message = {"role": "user", "content": str(number)}
        lines.append(
            {"type": "message", "id": f"e{number}", "parentId": parent, "message": message}
        )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def codex_compactions(path: Path, messages: int) -> Path:
    """As many messages, then as many compactions of the old form, which keep what was said."""
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]}
    lines = [
        {"type": "session_meta", "payload": {"id": "s"}},
        *[{"type": "response_item", "payload": item}] * messages,
        *[{"type": "compacted", "payload": {"message": "summary"}}] * messages,
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("tool", "write"), [("pi", pi_zigzag), ("codex", codex_compactions)], ids=["pi", "codex"]
)
def test_a_small_file_cannot_ask_for_events_without_end(
    tool: str, write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Records that put what was said before on the surface again, a thousand times each: two
    hundred kilobytes gave three million events. There is a limit, and below it nothing is
    left out.
    """
    path = write(tmp_path / "rollout-s.jsonl", 100)
    with open_store("memory:") as store:
        free = imported(store, tool, path)
        shown = messages_of(store, "s")
    monkeypatch.setattr(conversation, "REPEATED_BYTES_MAX", 100_000)
    with open_store("memory:") as store:
        limited = imported(store, tool, path)
        again = imported(store, tool, path)

        assert (free.records.found, 0) == (limited.records.found, again.events)
        assert limited.events < 800 < free.events
        assert shown[-1] == messages_of(store, "s")[-1]


def codex_rollbacks(path: Path, count: int) -> Path:
    """As many prompts, and as many rollbacks that cut off the last one."""
    item = {"type": "message", "role": "user", "content": "x"}
    lines = [
        {"type": "session_meta", "payload": {"id": "s"}},
        *[{"type": "response_item", "payload": item}] * count,
        *[{"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}}] * count,
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def openhands_condensations(path: Path, count: int) -> Path:
    """As many messages, and as many condensations that forget one each."""
    said = {"role": "user", "content": "x"}
    events = [
        {"id": f"m{number}", "kind": "MessageEvent", "source": "user", "llm_message": said}
        for number in range(count)
    ] + [
        {"id": f"c{number}", "kind": "Condensation", "forgotten_event_ids": [f"m{number}"]}
        for number in range(count)
    ]
    path.write_text(json.dumps(events))
    return path


def pi_compactions(path: Path, count: int) -> Path:
    """As many messages, and as many compactions that keep the last one."""
    last = f"e{count - 1}"
    said = {"role": "user", "content": "x"}
    lines: list[dict[str, Any]] = [{"type": "session", "id": "s"}]
    lines += [{"type": "message", "id": f"e{number}", "message": said} for number in range(count)]
    lines += [
        {"type": "compaction", "id": f"c{number}", "summary": "x", "firstKeptEntryId": last}
        for number in range(count)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("tool", "name", "write"),
    [
        ("codex", "rollout-s.jsonl", codex_rollbacks),
        ("openhands", "s.json", openhands_condensations),
        ("pi", "s.jsonl", pi_compactions),
    ],
    ids=["codex", "openhands", "pi"],
)
def test_twice_the_records_are_twice_the_work(
    tool: str, name: str, write: Any, tmp_path: Path
) -> None:
    """
    Records that change what stands at one place looked at all that stands anywhere: a
    megabyte of them took minutes. Counted in calls.
    """
    counts = []
    for records in (200, 400):
        calls = 0

        def count(_frame: object, event: str, _arg: object) -> None:
            nonlocal calls
            calls += event.endswith("call")

        path = write(tmp_path / name, records)
        with open_store("memory:") as store:
            before = sys.getprofile()
            sys.setprofile(count)
            try:
                imported(store, tool, path)
            finally:
                sys.setprofile(before)
        counts.append(calls)
    assert counts[1] < 2.2 * counts[0]


def test_a_name_of_a_mark_that_is_no_path_is_none(tmp_path: Path) -> None:
    """A mark says where the last import found the file; that may be gone, or never was."""
    path = tmp_path / "s.jsonl"
    path.write_text(NOTE % "u1")
    with open_store("memory:") as store:
        imported(store, "claude-code", path)
        moved = path.rename(tmp_path / "t.jsonl")
        moved.write_text(NOTE % "u1" + NOTE % "u2")
        assert 1 == imported(store, "claude-code", moved).grown
        assert os.path.abspath(moved) == whole_log(store, "s")[-1].data["path"]


def test_a_transcript_that_needs_an_extra_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A compressed file where ``zstandard`` is not installed is refused with the line that
    installs it; it ended the import of all that came after.
    """
    (tmp_path / "a.jsonl").write_bytes(b"\x28\xb5\x2f\xfd" + b"\0" * 20)
    (tmp_path / "b.jsonl").write_text(NOTE % "u1")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with open_store("memory:") as store:
        account = imported(store, "claude-code", tmp_path, refused=True)

        assert (1, 1) == (account.new, len(account.refused))
        assert "agent-eventlog[zstd]" in account.refused[0].reason
