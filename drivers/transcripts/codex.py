"""
OpenAI Codex: one rollout file a thread, JSON lines, raw or in zstd frames.

Lines stand in the order of time. The model's items (``response_item``) become the
conversation; what the model says in one go becomes one message. The interface's own
account of the same (``event_msg`` with ``user_message``, ``agent_message``) is kept as
records, and stands for the items only where a file has none.

- ``compacted`` takes the place of the whole surface: its history, item by item; in old
  files the context put in, what the user had said, and the summary.
- ``thread_rolled_back`` cuts the last turns off: the next message takes their place.
- A fork copies its parent's lines, the parent's ``session_meta`` first; they are its
  inherited part, and the fork's own ``session_meta`` stands behind it.
- A sub-agent's thread names the thread that it was spawned by as its parent.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from attrs import define

from eventlog.drafts import SessionDraft
from eventlog.errors import CorruptLog
from eventlog.model import SessionHeader
from eventlog.sources import (
    Item,
    Opened,
    RecordTally,
    Transcript,
    TranscriptSource,
    Unreadable,
)
from eventlog.values import JSONValue, is_seq

from .codex_lines import CodexSession, payload_of
from .conversation import Object
from .finding import find_files, id_from_name, usual_place
from .headers import imported_header
from .records import Record, read_records
from .times import iso_ms

__all__ = ["Codex"]

ROLLOUT: Final = re.compile(r"rollout-.*?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl.*")
OTHER_FILES: Final = frozenset({"history.jsonl", "session_index.jsonl"})
# Copied lines are written in one go; whatever comes later was lived through.
BURST_MS: Final = 500


class Codex(TranscriptSource):
    """Reads the threads of OpenAI Codex."""

    name = "codex"
    title = "OpenAI Codex"
    reads_plain = True

    def usual_places(self, environ: Mapping[str, str]) -> list[Path]:
        home = usual_place(environ, "CODEX_HOME", ".codex")
        return [home / "sessions", home / "archived_sessions"]

    def find(self, path: Path) -> Iterator[Transcript | Unreadable]:
        yield from find_files(
            path,
            lambda _folder, _names, name: (
                name.endswith((".jsonl", ".jsonl.zst", ".jsonl.zstd")) and name not in OTHER_FILES
            ),
        )

    def read(self, transcript: Transcript, tally: RecordTally) -> Iterator[Item]:
        path = transcript.path
        stop_bytes = os.stat(path).st_size
        facts = _survey(path, stop_bytes)
        if facts.copies:
            facts.seed_length = _count_inherited(path, stop_bytes, facts)
        draft = SessionDraft(facts.header())
        session = CodexSession(draft, tally)
        yield Opened(draft.header)
        inherits = facts.copies
        own_meta: Record | None = None
        before: int | None = None
        for record in read_records(path, tally, stop_bytes=stop_bytes):
            if inherits:
                time = iso_ms(record.value.get("timestamp"))
                if own_meta is None:
                    own_meta = record
                    before = time
                    continue
                inherits = not _is_lived(before, time)
                before = time if time is not None else before
                if not inherits:
                    session.settle()
                    session.add(own_meta)
            session.add(record)
            yield from draft.take()
        session.settle()
        if inherits and own_meta is not None:
            session.add(own_meta)
        yield from draft.take()


def _is_lived(before: int | None, time: int | None) -> bool:
    return before is not None and time is not None and time - before > BURST_MS


def _count_inherited(path: Path, stop_bytes: int, facts: _Facts) -> int:
    """Return how many entries the lines give that a fork copied from its parent."""
    draft = SessionDraft(facts.header())
    session = CodexSession(draft, RecordTally())
    before: int | None = None
    for number, record in enumerate(read_records(path, RecordTally(), stop_bytes=stop_bytes)):
        time = iso_ms(record.value.get("timestamp"))
        if number:
            if _is_lived(before, time):
                break
            session.add(record)
            draft.take()
        before = time if time is not None else before
    session.settle()
    return draft.count


@define
class _Facts:
    """What the first lines of a file tell of its thread."""

    path: Path
    session_id: JSONValue
    created_at: int | None
    cwd: JSONValue
    parent: JSONValue
    depth: int
    copies: bool
    facts: Object
    seed_length: int | None = None

    def header(self) -> SessionHeader:
        return imported_header(
            Codex.name,
            self.path,
            self.session_id,
            self.created_at,
            cwd=self.cwd,
            parent=self.parent,
            seed_length=self.seed_length,
            depth=self.depth,
            facts=self.facts,
        )


def _survey(path: Path, stop_bytes: int) -> _Facts:
    """Read as much of a file as it takes to know whose it is."""
    records = read_records(path, RecordTally(), stop_bytes=stop_bytes)
    first, second = next(records, None), next(records, None)
    records.close()
    if first is None:
        empty = stop_bytes == 0
        raise CorruptLog(
            None, str(path), None, None, None, "empty" if empty else "header", "it has no record"
        )
    meta: Object = {}
    if first.value.get("type") == "session_meta":
        meta = payload_of(first.value)
    elif "type" not in first.value and type(first.value.get("id")) is str:
        meta = first.value  # the form of the first releases
    named = ROLLOUT.fullmatch(path.name)
    session_id = meta.get("id")
    if type(session_id) is not str:
        session_id = named.group(1) if named else id_from_name(path.name.partition(".jsonl")[0])
    spawn = _spawn(meta)
    forked = meta.get("forked_from_id")
    base = meta.get("history_base")
    if forked is None and type(base) is dict:
        forked = base.get("thread_id")
    parent = spawn.get("parent_thread_id") or meta.get("parent_thread_id")
    is_spawned = type(parent) is str and bool(parent)
    created_at = iso_ms(meta.get("timestamp"))
    if created_at is None:
        created_at = iso_ms(first.value.get("timestamp"))
    given = spawn.get("depth")
    depth = 0
    if is_spawned:
        depth = given if type(given) is int and is_seq(given) and given else 1
    return _Facts(
        path,
        session_id,
        created_at,
        meta.get("cwd"),
        parent if is_spawned else forked,
        depth,
        second is not None and bool(meta) and second.value.get("type") == "session_meta",
        {name: meta[name] for name in ("originator", "cli_version") if name in meta},
    )


def _spawn(meta: Object) -> Object:
    """Return what a thread says of the one that spawned it."""
    found: JSONValue = meta.get("source")
    for name in ("subagent", "thread_spawn"):
        found = found.get(name) if type(found) is dict else None
    return found if type(found) is dict else {}
