"""
pi: one file of JSON lines a session, below ``~/.pi/agent/sessions``.

Entries form a tree by ``id`` and ``parentId``; the conversation is the path from the last
entry to the root. An entry that does not hang off the one before changes the branch: what
the new path lacks is cut off, and what it has and the surface lacks is put there again.
A compaction's summary stands before the entries that it keeps. A tree that changes its
branch so often that more than 128 MiB would be put there again, or be looked through for
it, shows from then on what is new on each branch. A fork copies entries of the file beside
it that it comes from; they are its inherited part, and what it says of itself stands
behind them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Final

from eventlog.drafts import SessionDraft
from eventlog.model import SessionHeader
from eventlog.sources import (
    Item,
    Opened,
    RecordTally,
    Transcript,
    TranscriptSource,
    Unreadable,
)
from eventlog.values import JSONValue

from .conversation import (
    HUMAN,
    Conversation,
    Object,
    arguments_text,
    call_block,
    plugin,
    text_block,
)
from .finding import find_files, id_from_name, usual_place
from .headers import imported_header
from .json_text import read_object
from .records import Record, digest_of, first_record, read_records
from .times import iso_ms, number_ms

__all__ = ["Pi"]

TOOL: Final = "pi"


class Pi(TranscriptSource):
    """Reads the sessions of pi."""

    name = TOOL
    title = "pi"
    reads_plain = True

    def usual_places(self, environ: Mapping[str, str]) -> list[Path]:
        return [usual_place(environ, "PI_CODING_AGENT_DIR", ".pi", "agent") / "sessions"]

    def find(self, path: Path) -> Iterator[Transcript | Unreadable]:
        yield from find_files(path, lambda _folder, _names, name: name.endswith(".jsonl"))

    def read(self, transcript: Transcript, tally: RecordTally) -> Iterator[Item]:
        path = transcript.path
        stop_bytes = os.stat(path).st_size
        first = first_record(path, stop_bytes, lambda _: True)
        copied = _ids_of_parent(first, path)
        header = _header(first, path)
        if copied:
            header = _header(first, path, _count_inherited(header, path, stop_bytes, copied))
        session = _Session(SessionDraft(header), path)
        yield Opened(session.draft.header)
        for record in _ordered(path, stop_bytes, tally, copied):
            tally.count(session.add(record))
            yield from session.draft.take()


def _ids_of_parent(first: Record, path: Path) -> set[JSONValue]:
    """
    Return the ids of the entries that a fork may have copied: those of the file that it
    says it comes from, if that lies beside it.
    """
    named = first.value.get("parentSession")
    if first.value.get("type") != "session" or type(named) is not str:
        return set()
    parent = path.with_name(PurePath(named.replace("\\", "/")).name or path.name)
    ids = set()
    for found in find_files(parent, lambda _folder, _names, _name: False):
        if isinstance(found, Transcript) and parent != path and not parent.is_symlink():
            records = read_records(parent, RecordTally(), stop_bytes=found.size_bytes)
            ids = {given for record in records if type(given := record.value.get("id")) is str}
    return ids


def _ordered(
    path: Path, stop_bytes: int, tally: RecordTally, copied: set[JSONValue]
) -> Iterator[Record]:
    """Yield a file's records; what a fork says of itself stands behind what it copied."""
    own: Record | None = None
    for number, record in enumerate(read_records(path, tally, stop_bytes=stop_bytes)):
        if number == 0 and copied:
            own = record
            continue
        if own is not None and record.value.get("id") not in copied:
            yield own
            own = None
        yield record
    if own is not None:
        yield own


def _count_inherited(
    header: SessionHeader, path: Path, stop_bytes: int, copied: set[JSONValue]
) -> int | None:
    """Return how many entries the lines give that a fork copied, None where there is none."""
    session = _Session(SessionDraft(header), path)
    for record in _ordered(path, stop_bytes, RecordTally(), copied):
        if record.value.get("type") == "session":
            break
        session.add(record)
        session.draft.take()
    return session.draft.count or None


def _header(first: Record, path: Path, seed_length: int | None = None) -> SessionHeader:
    facts = first.value if first.value.get("type") == "session" else {}
    session_id = facts.get("id")
    if type(session_id) is not str:
        session_id = id_from_name(path.stem)
    parent = facts.get("parentSession")
    if type(parent) is str and parent:
        # The path of the file that this one was forked from: TIME_ID.jsonl.
        parent = Path(parent.replace("\\", "/")).stem.rpartition("_")[2]
    created_at = iso_ms(first.value.get("timestamp"))
    return imported_header(
        TOOL,
        path,
        session_id,
        created_at,
        cwd=facts.get("cwd"),
        parent=parent,
        seed_length=seed_length,
    )


class _Session:
    """One session, entry by entry."""

    def __init__(self, draft: SessionDraft, path: Path) -> None:
        self.draft = draft
        self._path = path
        self._talk = Conversation(draft, TOOL)
        self._model: JSONValue = None
        self._provider = "unknown"
        # The tree: each entry's parent, and of those that the model sees where they stand.
        self._parents: dict[str, str | None] = {}
        self._places: dict[str, dict[str, JSONValue]] = {}
        self._compactions: dict[str, JSONValue] = {}
        # The entries that are on the surface, and the node of each.
        self._nodes: dict[str, int] = {}
        self._tip: str | None = None
        self._again = 0

    def add(self, record: Record) -> bool:
        """Take the next line; returns whether it has a meaning here, else it was kept."""
        value = record.value
        kind = value.get("type")
        if kind == "session":
            self._talk.keep(record, "session", iso_ms(value.get("timestamp")), "session")
            return False
        given = value.get("id")
        key = given if type(given) is str and given else f"@{record.place['line']}"
        if key in self._parents:
            self._talk.keep(record, "repeated", _time(value), f"{key}#again{record.place['line']}")
            return False
        parent = value.get("parentId", self._tip)
        parent = parent if type(parent) is str else None
        if parent != self._tip and (parent is None or parent in self._parents):
            self._move_to(parent)
        self._parents[key] = parent
        self._tip = key
        if self._put(record, key):
            return True
        self._talk.keep(record, kind, _time(value), key)
        return False

    def _put(self, record: Record, key: str) -> bool:
        """Map an entry; returns whether it has a meaning."""
        value = record.value
        kind = value.get("type")
        message = value.get("message")
        if kind == "message" and type(message) is dict:
            return self._put_message(record, key, message)
        if kind == "compaction" and type(value.get("summary")) is str:
            self._put_compaction(record, key)
            return True
        if kind == "branch_summary" and type(value.get("summary")) is str:
            content = [text_block(value["summary"])]
            self._put_said(record, key, content, plugin(TOOL, "branch-summary"), "summary")
            return True
        if kind == "custom_message":
            source = plugin(TOOL, str(value.get("customType") or "custom"))
            self._put_said(record, key, _content(value.get("content")), source, "content")
            return True
        origin = record.origin(TOOL, key, dict(value))
        if kind == "model_change" and type(value.get("modelId")) is str:
            self._provider, self._model = str(value.get("provider")), value["modelId"]
            time = self._talk.at(_time(value), origin)
            data = {"provider": self._provider, "model": self._model, "origin": origin}
            self.draft.log("request/context", time, data)
            return True
        if kind == "session_info" and type(value.get("name")) is str and value["name"]:
            self._talk.title(self._talk.at(_time(value), origin), value["name"], HUMAN, origin)
            return True
        return False

    def _put_said(
        self, record: Record, key: str, content: list[JSONValue], source: Object, said: str
    ) -> None:
        rest = {name: part for name, part in record.value.items() if name != said}
        origin = record.origin(TOOL, key, rest)
        time = self._talk.at(_time(record.value), origin)
        self._enter(key, record, self._talk.user(time, key, content, source, origin))

    def _put_message(self, record: Record, key: str, message: Object) -> bool:
        role = message.get("role")
        rest = {name: part for name, part in record.value.items() if name != "message"}
        rest["message"] = {name: part for name, part in message.items() if name != "content"}
        origin = record.origin(TOOL, key, rest)
        at = _time(record.value)
        content = _content(message.get("content"))
        if role == "user":
            time = self._talk.at(at, origin)
            number = self._talk.user(time, key, content, HUMAN, origin, is_prompt=True)
        elif role == "assistant":
            time = self._talk.at(at, origin)
            number = self._put_answer(record, key, message, content, time, origin)
        elif role == "toolResult":
            time = self._talk.at(at, origin)
            call_id = str(message.get("toolCallId") or "")
            is_error = message.get("isError") is True
            number = self._talk.result(time, key, call_id, content, origin, is_error=is_error)
        elif role == "bashExecution" and message.get("excludeFromContext") is not True:
            time = self._talk.at(at, origin)
            text = f"$ {message.get('command')}\n{message.get('output')}"
            source = plugin(TOOL, "bash")
            number = self._talk.user(time, key, [text_block(text)], source, origin)
        else:
            return False
        self._enter(key, record, number)
        return True

    def _put_answer(
        self,
        record: Record,
        key: str,
        message: Object,
        content: list[JSONValue],
        time: int,
        origin: Object,
    ) -> int:
        number = self._talk.assistant(
            time,
            key,
            content,
            origin,
            provider=str(message.get("provider") or self._provider),
            model=message.get("model") or self._model,
            usage=_usage(message.get("usage")),
        )
        for position, block in enumerate(content):
            if type(block) is dict and block.get("type") == "tool-call":
                part = record.origin(TOOL, f"{key}#call{position}")
                call_id = str(block.get("id") or "")
                self._talk.call(time, call_id, block.get("name"), block.get("arguments"), part)
        reason = message.get("stopReason")
        if reason in ("stop", "aborted"):
            ended: Object = {"kind": "completed"}
            if reason == "aborted":
                ended = {"kind": "aborted", "reason": {"kind": "user"}}
            self._talk.end_turn(time, ended, origin)
        return number

    def _put_compaction(self, record: Record, key: str) -> None:
        value = record.value
        rest = {name: part for name, part in value.items() if name != "summary"}
        origin = record.origin(TOOL, key, rest)
        time = self._talk.at(_time(value), origin)
        content = [text_block(value["summary"])]
        kept = value.get("firstKeptEntryId")
        if not self._talk.may_repeat(len(self._parents)):
            kept = None
        self._compactions[key] = kept
        nodes = self.draft.nodes
        first_kept = self._first_kept(kept)
        again: list[str] = []
        last: int | None = None
        if first_kept is not None:
            place = nodes.index(first_kept)
            if place:
                last = nodes[place - 1]
            else:
                # All is kept, and nothing stands where the summary would: it takes the
                # place of all, and what is kept is put behind it again.
                again = list(self._nodes)
        number = self._talk.summary(time, key, content, origin, last=last)
        self._nodes = {k: node for k, node in self._nodes.items() if node in nodes}
        self._nodes = {key: number, **self._nodes}
        self._places[key] = record.place
        for entry in again:
            self._put_again(entry)

    def _first_kept(self, kept: JSONValue) -> int | None:
        """Return the first node at or behind the entry *kept*; None where none is known."""
        if type(kept) is not str or kept not in self._parents:
            return None
        if kept in self._nodes:
            return self._nodes[kept]
        path = self._path_to(self._tip)
        if kept not in path:
            return None
        for entry in path[path.index(kept) :]:
            if entry in self._nodes:
                return self._nodes[entry]
        return None

    # The tree.

    def _enter(self, key: str, record: Record, number: int) -> None:
        """Note that an entry is on the surface, at its end."""
        if len(self._nodes) + 1 != len(self.draft.nodes):
            self._nodes = {k: n for k, n in self._nodes.items() if n in self.draft.nodes}
        self._nodes[key] = number
        self._places[key] = record.place

    def _path_to(self, entry: str | None) -> list[str]:
        path = []
        seen = set()
        while entry is not None and entry not in seen:
            seen.add(entry)
            path.append(entry)
            entry = self._parents.get(entry)
        return path[::-1]

    def _context_of(self, entry: str | None) -> list[str]:
        """Return the entries that the model sees at an entry, in order."""
        shown: list[str] = []
        path = self._path_to(entry)
        for position, step in enumerate(path):
            if step in self._compactions:
                kept = self._compactions[step]
                before = path[:position]
                start = before.index(kept) if kept in before else position
                behind = set(before[start:])
                shown = [step, *(e for e in shown if e in behind)]
            elif step in self._places:
                shown.append(step)
        return shown

    def _move_to(self, parent: str | None) -> None:
        """Make the surface that of another branch."""
        if not self._talk.may_repeat(len(self._parents)):
            last = parent if parent in self._nodes else None
            while self._nodes and next(reversed(self._nodes)) != last:
                self._nodes.popitem()
            self.draft.cut_behind(None if last is None else self._nodes[last])
            return
        present = list(self._nodes)
        wanted = self._context_of(parent)
        common = 0
        while common < min(len(wanted), len(present)) and wanted[common] == present[common]:
            common += 1
        self.draft.cut_behind(self._nodes[wanted[common - 1]] if common else None)
        self._nodes = {entry: self._nodes[entry] for entry in wanted[:common]}
        for entry in wanted[common:]:
            self._put_again(entry)

    def _put_again(self, entry: str) -> None:
        """Put an entry on the surface once more, as long as that is not without end."""
        if not self._talk.may_repeat(self._places[entry]["bytes"]):
            return
        self._again += 1
        key = f"{entry}#again{self._again}"
        record = self._read_again(entry)
        if entry in self._compactions:
            content = [text_block(record.value["summary"])]
            origin = record.origin(TOOL, key, {})
            time = self._talk.at(_time(record.value), origin)
            number = self._talk.user(time, entry, content, plugin("compact"), origin)
        else:
            self._put(record, key)
            del self._places[key]
            number = self._nodes.pop(key)
        self._nodes[entry] = number

    def _read_again(self, entry: str) -> Record:
        """Read an entry's line once more: a session's lines are not kept in memory."""
        place = self._places[entry]
        with self._path.open("rb") as file:
            file.seek(place["offset"])
            text = file.read(place["bytes"])
        return Record(read_object(text).value, digest_of(text), place)


def _time(value: Object) -> int | None:
    time = iso_ms(value.get("timestamp"))
    return number_ms(value.get("timestamp")) if time is None else time


def _content(content: JSONValue) -> list[JSONValue]:
    """Return a message's content as blocks."""
    if type(content) is str:
        return [text_block(content)]
    if type(content) is not list:
        return [] if content is None else [text_block(arguments_text(content))]
    return [_block(part) for part in content]


def _block(part: JSONValue) -> JSONValue:
    if type(part) is not dict:
        return text_block(arguments_text(part))
    if part.get("type") == "thinking":
        rest = {name: item for name, item in part.items() if name not in ("type", "thinking")}
        return {"type": "reasoning", "text": part.get("thinking") or "", **rest}
    if part.get("type") == "toolCall":
        rest = {
            name: item
            for name, item in part.items()
            if name not in ("type", "id", "name", "arguments")
        }
        return {**call_block(part.get("id"), part.get("name"), part.get("arguments")), **rest}
    return part


_USAGE: Final = {
    "input": "inputTokens",
    "output": "outputTokens",
    "cacheRead": "cacheReadTokens",
    "cacheWrite": "cacheWriteTokens",
}


def _usage(usage: JSONValue) -> Object:
    if type(usage) is not dict:
        return {}
    return {
        ours: usage[theirs] for theirs, ours in _USAGE.items() if type(usage.get(theirs)) is int
    }
