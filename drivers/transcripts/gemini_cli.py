"""
Gemini CLI: one file a session, in ``~/.gemini/tmp/PROJECT/chats``.

Until early 2026 a file is one JSON document, written whole at each change; since then it
is a log of JSON lines. A message of the model holds its calls and their results; they
become an answer, calls and results.

- In the log the last line of an ``id`` wins: it takes the place of the one before.
- ``$rewindTo`` cuts off the message that it names and all behind it.
- ``$set.messages`` puts another history in the place of the whole, as a compression does.

There is no working directory, only the digest of its path. What a file says of itself,
such as when it was last used, is kept as a record.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import orjson

from eventlog.drafts import SessionDraft
from eventlog.errors import CorruptLog
from eventlog.model import SessionHeader
from eventlog.sources import (
    VOLATILE,
    Item,
    Opened,
    RecordTally,
    Transcript,
    TranscriptSource,
    Unreadable,
)
from eventlog.values import JSONValue

from .conversation import HUMAN, Conversation, Object, call_block, plugin
from .documents import read_document, record_of
from .finding import find_files, id_from_name, usual_place
from .gemini_parts import is_plain_response, parts_of, response_text
from .headers import imported_header
from .records import Record, digest_of, first_record, read_records
from .times import iso_ms

__all__ = ["GeminiCli"]

TOOL: Final = "gemini-cli"


class GeminiCli(TranscriptSource):
    """Reads the sessions of Gemini CLI."""

    name = TOOL
    title = "Gemini CLI"
    reads_plain = True
    snapshots = True

    def usual_places(self, environ: Mapping[str, str]) -> list[Path]:
        return [usual_place(environ, "GEMINI_CLI_HOME") / ".gemini" / "tmp"]

    def find(self, path: Path) -> Iterator[Transcript | Unreadable]:
        def is_session(_folder: Path, _names: list[str], name: str) -> bool:
            # Beside the sessions the folder of a project holds logs.json and checkpoints.
            return name.endswith((".json", ".jsonl")) and (
                name.startswith("session-")
                or _folder.name == "chats"
                or _folder.parent.name == "chats"
            )

        yield from find_files(path, is_session)

    def read(self, transcript: Transcript, tally: RecordTally) -> Iterator[Item]:
        path = transcript.path
        if path.suffix == ".jsonl":
            yield from _read_log(path, tally)
        else:
            yield from _read_snapshot(path, tally)


def _read_snapshot(path: Path, tally: RecordTally) -> Iterator[Item]:
    document = read_document(path)
    value = document.value
    if type(value) is not dict:
        raise CorruptLog(None, str(path), None, None, None, "header", "it is no session")
    messages = value.pop("messages", [])
    session = _Session(_header(value, path), tally)
    yield Opened(session.draft.header)
    for position, message in enumerate(messages if type(messages) is list else [messages]):
        record = record_of(message, f"messages/{position}", path, tally)
        if record is not None:
            session.add_message(record)
            yield from session.draft.take()
    facts = record_of(value, "/", path, tally)
    if facts is not None:
        session.add_facts(facts)
    yield from session.draft.take()
    tally.refuse_unread(document.fault)
    tally.bytes_read = os.stat(path).st_size


def _read_log(path: Path, tally: RecordTally) -> Iterator[Item]:
    stop_bytes = os.stat(path).st_size
    first = first_record(path, stop_bytes, lambda value: type(value.get("sessionId")) is str)
    session = _Session(_header(first.value, path), tally)
    yield Opened(session.draft.header)
    for record in read_records(path, tally, stop_bytes=stop_bytes):
        # A message is the same one in a snapshot and in a line, however it is written.
        session.add_line(record._replace(digest=digest_of(orjson.dumps(record.value))))
        yield from session.draft.take()


def _header(facts: Object, path: Path) -> SessionHeader:
    session_id = facts.get("sessionId")
    if type(session_id) is not str:
        session_id = id_from_name(path.stem.removeprefix("session-"))
    parent = None
    if facts.get("kind") == "subagent" and path.parent.parent.name == "chats":
        parent = path.parent.name
    project = facts.get("projectHash")
    return imported_header(
        TOOL,
        path,
        session_id,
        iso_ms(facts.get("startTime")),
        parent=parent,
        depth=1,
        facts={"projectHash": project} if type(project) is str else None,
    )


class _Session:
    """One session, message by message."""

    def __init__(self, header: SessionHeader, tally: RecordTally) -> None:
        self.draft = SessionDraft(header)
        self._talk = Conversation(self.draft, TOOL)
        self._tally = tally
        # The first node of each message, and what was the surface's end before it.
        self._messages: dict[str, int] = {}
        self._before: dict[str, int | None] = {}
        # The digest of each result, as it was last read.
        self._results: dict[str, str] = {}
        self._digests: dict[str, str] = {}

    # A log of lines.

    def add_line(self, record: Record) -> None:
        """Take a line of the log."""
        value = record.value
        changes = value.get("$set")
        if type(value.get("id")) is str and type(value.get("type")) is str:
            self.add_message(record)
            return
        line = str(record.place["line"])
        if "$rewindTo" in value:
            self._rewind(record, value["$rewindTo"], line)
            self._tally.mapped += 1
        elif type(changes) is dict and type(changes.get("messages")) is list:
            self._set_messages(record, changes["messages"], line)
            self._tally.mapped += 1
        else:
            self._talk.keep(record, "session", None, line)
            title = changes.get("summary") if type(changes) is dict else value.get("summary")
            self._add_title(record, title, line)
            self._tally.kept += 1

    def _rewind(self, record: Record, message_id: JSONValue, line: str) -> None:
        self._talk.keep(record, "rewind", None, line)
        node = self._messages.get(str(message_id))
        before = self._before.get(str(message_id))
        if node is None or node not in self.draft.nodes:
            self.draft.cut_behind(None)  # an unknown message clears everything
        elif before is not None and before in self.draft.nodes:
            self.draft.cut_behind(before)
        else:
            place = self.draft.nodes.index(node)
            self.draft.cut_behind(self.draft.nodes[place - 1] if place else None)

    def _set_messages(self, record: Record, messages: list[JSONValue], line: str) -> None:
        """Put another history in the place of the whole."""
        rest = dict(record.value)
        rest["$set"] = {name: part for name, part in rest["$set"].items() if name != "messages"}
        origin = record.origin(TOOL, line, rest)
        time = self._talk.at(iso_ms(record.value.get("timestamp")), origin)
        self._messages.clear()
        self._before.clear()
        self._digests.clear()
        self._results.clear()
        nodes = self.draft.nodes
        if not messages:
            self._talk.keep(record, "cleared", None, line)
            self.draft.cut_behind(None)
            return
        for position, message in enumerate(messages):
            shown = message if type(message) is dict else {"content": message}
            part = origin if position == 0 else record.origin(TOOL, f"{line}#{position}")
            content = parts_of(shown.get("content"))
            message_id = shown.get("id")
            key = message_id if type(message_id) is str and message_id else part["key"]
            if position == 0 or shown.get("type") != "gemini":
                rest = {name: said for name, said in shown.items() if content and name != "content"}
            else:
                rest = _rest_of_answer(shown)
            if rest:
                part.setdefault("fields", {})["message"] = rest
            if position == 0:
                number = self._talk.summary(time, key, content or [shown], part)
            elif shown.get("type") == "gemini":
                number = self._add_answer(shown, key, time, part)
                self._add_calls(record, shown, key, time)
            else:
                source = plugin("compact")
                number = self._talk.user(time, key, content or [shown], source, part)
            place = nodes.index(number)
            self._messages[key] = number
            self._before[key] = nodes[place - 1] if place else None

    # Messages.

    def add_message(self, record: Record) -> None:
        """Take a message, new or written again."""
        value = record.value
        message_id = value.get("id")
        key = message_id if type(message_id) is str and message_id else f"@{record.digest}"
        kind = value.get("type")
        known = self._messages.get(key)
        if self._digests.get(key) == record.digest:
            place = record.place.get("line", record.place.get("at"))
            self._talk.keep(record, "repeated", None, f"{key}#again@{place}")
            self._tally.kept += 1
            return
        self._digests[key] = record.digest
        if kind in ("user", "gemini") and known is not None:
            # Written again: what it says now takes the place of what it said.
            self._repeat(record, value, key, known)
            self._tally.mapped += 1
            return
        kept = self.draft.kept_nodes
        before = self.draft.nodes[kept - 1] if kept else None
        fields = _rest_of_answer(value)
        if kind == "user":
            fields = {name: part for name, part in value.items() if name != "content"}
        origin = record.origin(TOOL, key, fields)
        if kind == "user":
            time = self._talk.at(iso_ms(value.get("timestamp")), origin)
            content = parts_of(value.get("content"))
            number = self._talk.user(time, key, content, HUMAN, origin, is_prompt=True)
        elif kind == "gemini":
            time = self._talk.at(iso_ms(value.get("timestamp")), origin)
            number = self._add_answer(value, key, time, origin)
            self._add_calls(record, value, key, time)
        else:
            self._talk.keep(record, kind, iso_ms(value.get("timestamp")), key)
            self._tally.kept += 1
            return
        self._messages[key] = number
        self._before[key] = before
        self._tally.mapped += 1

    def _add_answer(self, value: Object, key: str, time: int, origin: Object) -> int:
        return self._talk.assistant(
            time,
            key,
            _answer_blocks(value),
            origin,
            provider="google",
            model=value.get("model"),
            usage=_usage(value.get("tokens")),
        )

    def _repeat(self, record: Record, value: Object, key: str, known: int) -> None:
        origin = record.origin(TOOL, key, {"record": value})
        time = self._talk.at(iso_ms(value.get("timestamp")), origin)
        if known not in self.draft.nodes:
            # It was compacted or cut off since; then it comes back at the end.
            number = (
                self._add_answer(value, key, time, origin)
                if value.get("type") == "gemini"
                else self._talk.user(time, key, parts_of(value.get("content")), HUMAN, origin)
            )
        elif value.get("type") == "gemini":
            number = self._talk.revise_answer(
                known,
                time,
                key,
                _answer_blocks(value),
                origin,
                provider="google",
                model=value.get("model"),
                usage=_usage(value.get("tokens")),
            )
        else:
            number = self._talk.revise_user(
                known, time, key, parts_of(value.get("content")), HUMAN, origin
            )
        self._messages[key] = number
        self._add_calls(record, value, key, time)

    def _add_calls(self, record: Record, value: Object, key: str, time: int) -> None:
        calls = value.get("toolCalls")
        for position, call in enumerate(calls if type(calls) is list else []):
            if type(call) is not dict:
                continue
            call_id = str(call.get("id") or f"{key}/{position}")
            name, arguments = call.get("name"), call.get("args")
            mark = f"{key}#call:{call_id}"
            told = digest_of(orjson.dumps([name, arguments]))
            if self._results.get(mark) != told:
                self._results[mark] = told
                origin = {**record.origin(TOOL, mark), "digest": told}
                if not _is_over(call):
                    origin["fields"] = _rest_of_call(call)
                self._talk.call(time, call_id, name, arguments, origin)
            self._add_result(record, call, call_id, key, time)

    def _add_result(self, record: Record, call: Object, call_id: str, key: str, time: int) -> None:
        if not _is_over(call):
            return
        result = call.get("result")
        rest = _rest_of_call(call)
        mark = f"{key}#result:{call_id}"
        told = digest_of(orjson.dumps([rest, result, call.get("resultDisplay")]))
        if self._results.get(mark) == told:
            return
        at = iso_ms(call.get("timestamp"))
        time = time if at is None else at
        origin = {**record.origin(TOOL, mark), "digest": told, "fields": rest}
        is_new = mark not in self._results
        self._results[mark] = told
        content = _result_content(result)
        if not is_new:
            origin["key"] = f"{mark}#{told}"
            if self._talk.clear_result(time, call_id, content, origin) is not None:
                return
        self._talk.result(
            time,
            mark,
            call_id,
            content,
            origin,
            is_error=call.get("status") in ("error", "cancelled"),
            meta=call.get("resultDisplay"),
        )

    def add_facts(self, record: Record) -> None:
        """Take what a snapshot says of itself."""
        key = f"{VOLATILE}session"
        self._add_title(record, record.value.get("summary"), key)
        time = iso_ms(record.value.get("lastUpdated"))
        self._talk.keep(record, "session", time, key)
        self._tally.kept += 1

    def _add_title(self, record: Record, title: JSONValue, key: str) -> None:
        if type(title) is str and title:
            origin = record.origin(TOOL, f"{key}#title")
            source = {"kind": "provider", "provider": TOOL}
            self._talk.title(self._talk.time, title, source, origin)


def _rest_of_answer(value: Object) -> Object:
    """Return what a message of the model says beyond its blocks, calls and results."""
    thoughts, calls = value.get("thoughts", []), value.get("toolCalls", [])
    said = ["content"]
    if type(thoughts) is list and all(map(_is_plain_thought, thoughts)):
        said.append("thoughts")
    if type(calls) is list and all(type(call) is dict for call in calls):
        said.append("toolCalls")
    return {name: part for name, part in value.items() if name not in said}


def _is_plain_thought(thought: JSONValue) -> bool:
    return (
        type(thought) is dict
        and thought.keys() <= {"subject", "description", "timestamp"}
        and all(type(thought.get(name, "")) is str for name in ("subject", "description"))
    )


def _is_over(call: Object) -> bool:
    over = ("success", "error", "cancelled")
    return call.get("result") is not None or call.get("status") in over


def _rest_of_call(call: Object) -> Object:
    result = call.get("result")
    is_plain = type(result) is list and len(result) == 1 and is_plain_response(result[0])
    said = ["id", "name", "args"]
    if _is_over(call):
        said += ["resultDisplay", "result"] if is_plain else ["resultDisplay"]
    return {name: part for name, part in call.items() if name not in said}


def _answer_blocks(value: Object) -> list[JSONValue]:
    blocks: list[JSONValue] = []
    thoughts = value.get("thoughts")
    for thought in thoughts if type(thoughts) is list else []:
        if type(thought) is dict:
            texts = [thought.get("subject"), thought.get("description")]
            text = "\n".join(text for text in texts if type(text) is str and text)
            block: Object = {"type": "reasoning", "text": text}
            if "timestamp" in thought:
                block["timestamp"] = thought["timestamp"]
            blocks.append(block)
    blocks += parts_of(value.get("content"))
    calls = value.get("toolCalls")
    key = value.get("id")
    for position, call in enumerate(calls if type(calls) is list else []):
        if type(call) is dict:
            call_id = str(call.get("id") or f"{key}/{position}")
            blocks.append(call_block(call_id, call.get("name"), call.get("args")))
    return blocks


def _result_content(result: JSONValue) -> list[JSONValue]:
    """Return what a call's result shows the model."""
    blocks: list[JSONValue] = []
    for part in result if type(result) is list else [result]:
        response = part.get("functionResponse") if type(part) is dict else None
        said = response.get("response") if type(response) is dict else None
        if type(said) is dict:
            blocks.append(response_text(said))
        else:
            blocks += parts_of(part)
    return blocks


_USAGE: Final = {
    "output": "outputTokens",
    "cached": "cacheReadTokens",
    "thoughts": "reasoningTokens",
}


def _usage(tokens: JSONValue) -> Object:
    if type(tokens) is not dict or type(tokens.get("input")) is not int:
        return {}
    usage = {
        ours: tokens[theirs] for theirs, ours in _USAGE.items() if type(tokens.get(theirs)) is int
    }
    cached = usage.get("cacheReadTokens", 0)
    return {"inputTokens": max(tokens["input"] - cached, 0), **usage}
