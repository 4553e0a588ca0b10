"""
Lists of messages: Chat Completions, and the items of the Responses API.

A file is a JSON list, or an object with the list under ``messages``, ``items`` or
``input``, or JSON lines of messages. A file of lines that hold a list each has a session
for each line. Lists have no ids, no times and no session: the file's name is the
session's id, the time of its last change stands for every time, and a message is told
from others by what it says. So a list that was edited or shortened since the last import
is compared with it, and what differs takes the place of what was there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from eventlog.drafts import SessionDraft
from eventlog.errors import CorruptLog
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
from .documents import Document, read_document, record_of
from .finding import find_files, id_from_name
from .headers import imported_header
from .records import Record, read_records
from .response_items import call_of, content_of, is_result, output_of, reasoning_of

__all__ = ["ChatCompletions", "Responses"]

LIST_KEYS: Final = ("messages", "items", "input", "history")
PROGRAM_ROLES: Final = ("system", "developer")


class ChatCompletions(TranscriptSource):
    """Reads lists of Chat Completions messages, and of Responses items."""

    name = "chat-completions"
    title = "Chat Completions lists"
    reads_plain = True
    snapshots = True

    def usual_places(self, environ: Mapping[str, str]) -> list[Path]:
        return []

    def find(self, path: Path) -> Iterator[Transcript | Unreadable]:
        yield from find_files(
            path, lambda _folder, _names, name: name.endswith((".json", ".jsonl"))
        )

    def read(self, transcript: Transcript, tally: RecordTally) -> Iterator[Item]:
        path = transcript.path
        if path.suffix == ".jsonl":
            yield from self._read_lines(path, tally)
            return
        document = read_document(path)
        messages, facts = _list_of(document, path)
        session = self._session(id_from_name(path.stem), path)
        yield Opened(session.draft.header)
        if facts:
            record = record_of(facts, "/", path, tally)
            if record is not None:
                session.keep(record, "list")
                tally.kept += 1
        yield from _read_list(session, messages, "", path, tally)
        tally.refuse_unread(document.fault)
        tally.bytes_read = os.stat(path).st_size

    def _read_lines(self, path: Path, tally: RecordTally) -> Iterator[Item]:
        stop_bytes = os.stat(path).st_size
        name = id_from_name(path.stem)
        whole: ChatSession | None = None
        for record in read_records(path, tally, stop_bytes=stop_bytes):
            inner = _inner_list(record.value)
            if inner is None:
                if whole is None:
                    whole = self._session(name, path)
                    yield Opened(whole.draft.header)
                whole.add(record, tally)
                yield from whole.draft.take()
                continue
            number = record.place["line"]
            session = self._session(f"{name}.{number}", path)
            yield Opened(session.draft.header)
            rest = {key: part for key, part in record.value.items() if part is not inner}
            session.keep(Record(rest, record.digest, record.place, record.raw), "list")
            tally.kept += 1
            yield from _read_list(session, inner, f"{number}/", path, RecordTally())
        if whole is not None:
            whole.settle()
            yield from whole.draft.take()
        elif tally.mapped + tally.kept == 0:
            raise CorruptLog(None, str(path), None, None, None, "empty", "it has no record")

    def _session(self, session_id: str, path: Path) -> ChatSession:
        changed_ms = os.stat(path).st_mtime_ns // 1_000_000
        header = imported_header(self.name, path, session_id, changed_ms)
        return ChatSession(SessionDraft(header), self.name)


class Responses(ChatCompletions):
    """Reads lists of Responses items, and of Chat Completions messages."""

    name = "responses"
    title = "Responses lists"
    reads_plain = True


def _read_list(
    session: ChatSession,
    messages: list[JSONValue],
    prefix: str,
    path: Path,
    tally: RecordTally,
) -> Iterator[Item]:
    for position, message in enumerate(messages):
        record = record_of(message, f"{prefix}{position}", path, tally)
        if record is not None:
            session.add(record, tally)
            yield from session.draft.take()
    session.settle()
    yield from session.draft.take()


def _list_of(document: Document, path: Path) -> tuple[list[JSONValue], Object]:
    """Return a document's messages, and what else it says."""
    value = document.value
    if type(value) is list:
        return value, {}
    found = _inner_list(value) if type(value) is dict else None
    if found is None:
        detail = f"it is no list, and has none under {', '.join(LIST_KEYS)}"
        raise CorruptLog(None, str(path), None, None, None, "header", detail)
    return found, {key: part for key, part in value.items() if part is not found}


def _inner_list(value: Object) -> list[JSONValue] | None:
    for key in LIST_KEYS:
        found = value.get(key)
        if type(found) is list:
            return found
    return None


class ChatSession:
    """
    One list, message by message.

    Args:
        draft: Where its entries go.

        tool: The source's name.
    """

    def __init__(self, draft: SessionDraft, tool: str) -> None:
        self.draft = draft
        self._tool = tool
        self._talk = Conversation(draft, tool)
        self._seen: dict[str, int] = {}

    def keep(self, record: Record, kind: str) -> None:
        """Keep what a file says beside its messages."""
        self._talk.keep(record, kind, None, f"/{kind}")

    def settle(self) -> None:
        """Complete what waits for further messages."""
        self._talk.close_answer()

    def add(self, record: Record, tally: RecordTally) -> None:
        """Take the next message or item."""
        # The same message may stand in a list many times.
        count = self._seen[record.digest] = self._seen.get(record.digest, 0) + 1
        key = f"{record.digest}#{count}"
        value = record.value
        role, kind = value.get("role"), value.get("type")
        if role in ("user", *PROGRAM_ROLES):
            mapped = self._add_said(record, key, str(role))
        elif role == "assistant":
            mapped = self._add_answer(record, key)
        elif role in ("tool", "function"):
            mapped = self._add_result(record, key)
        elif kind == "reasoning" or call_of(value, key) is not None:
            mapped = self._add_item(record, key)
        elif is_result(value):
            mapped = self._add_output(record, key)
        else:
            mapped = False
        if mapped:
            tally.mapped += 1
        else:
            self._talk.keep(record, kind, None, key)
            tally.kept += 1

    def _origin(self, record: Record, key: str, *said: str) -> Object:
        rest = {name: part for name, part in record.value.items() if name not in ("role", *said)}
        return record.origin(self._tool, key, rest)

    def _at(self, origin: Object) -> int:
        return self._talk.at(None, origin)

    def _add_said(self, record: Record, key: str, role: str) -> bool:
        content = content_of(record.value.get("content"))
        if content is None:
            return False
        self.settle()
        origin = self._origin(record, key, "content")
        is_prompt = role == "user"
        source = HUMAN if is_prompt else plugin(self._tool, role)
        time = self._at(origin)
        self._talk.user(time, key, content, source, origin, is_prompt=is_prompt)
        return True

    def _add_answer(self, record: Record, key: str) -> bool:
        value = record.value
        content = [] if value.get("content") is None else content_of(value["content"])
        if content is None:
            return False
        thought = value.get("reasoning_content")
        if type(thought) is str and thought:
            content = [{"type": "reasoning", "text": thought}, *content]
        if type(value.get("refusal")) is str:
            content.append({"type": "refusal", "text": value["refusal"]})
        calls = _tool_calls(value, key)
        content += [call_block(*call) for call in calls]
        said = ("content", "tool_calls") if _is_plain(value.get("tool_calls")) else ("content",)
        origin = self._origin(record, key, *said)
        time = self._at(origin)
        is_item = value.get("type") == "message"
        if not (is_item and self._talk.extend_answer(content, origin) is not None):
            self._talk.assistant(
                time,
                key,
                content,
                origin,
                provider="unknown",
                model=value.get("model"),
                is_open=is_item,
            )
        for position, (call_id, name, arguments) in enumerate(calls):
            part = record.origin(self._tool, f"{key}#call{position}")
            self._talk.call(self._at(part), call_id, name, arguments, part)
        return True

    def _add_result(self, record: Record, key: str) -> bool:
        value = record.value
        content = [] if value.get("content") is None else content_of(value["content"])
        if content is None:
            content = [text_block(arguments_text(value["content"]))]
        call_id = value.get("tool_call_id")
        if type(call_id) is not str:
            call_id = f"function:{value.get('name')}"
        self.settle()
        origin = self._origin(record, key, "content")
        self._talk.result(self._at(origin), key, call_id, content, origin)
        return True

    # Items of the Responses API.

    def _add_item(self, record: Record, key: str) -> bool:
        """Add to what the model says in one go."""
        value = record.value
        call = call_of(value, key)
        if call is None:
            content: list[JSONValue] = [reasoning_of(value)]
            origin = self._origin(record, key, "encrypted_content")
        else:
            content = [call_block(*call)]
            origin = self._origin(record, key, "arguments", "input")
        time = self._at(origin)
        if self._talk.extend_answer(content, origin) is None:
            self._talk.assistant(
                time, key, content, origin, provider="unknown", model=None, is_open=True
            )
        if call is not None:
            part = record.origin(self._tool, f"{key}#call")
            self._talk.call(self._at(part), *call, part)
        return True

    def _add_output(self, record: Record, key: str) -> bool:
        value = record.value
        self.settle()
        content, is_error = output_of(value.get("output"))
        said = () if type(value.get("output")) is dict else ("output",)
        origin = self._origin(record, key, *said)
        call_id = str(value.get("call_id") or "")
        self._talk.result(self._at(origin), key, call_id, content, origin, is_error=is_error)
        return True


def _is_plain(calls: JSONValue) -> bool:
    """Tell whether calls say no more than their ids, tools and arguments."""
    return calls is None or (
        type(calls) is list
        and all(
            type(call) is dict
            and call.keys() <= {"id", "type", "function"}
            and type(call.get("id")) is str
            and call.get("type", "function") == "function"
            and type(function := call.get("function")) is dict
            and function.keys() <= {"name", "arguments"}
            and type(function.get("name")) is str
            for call in calls
        )
    )


def _tool_calls(value: Object, key: str) -> list[tuple[str, str, str]]:
    """Return the calls of an answer: id, tool and arguments."""
    found = []
    calls = value.get("tool_calls")
    for position, call in enumerate(calls if type(calls) is list else []):
        function = call.get("function") if type(call) is dict else None
        if type(function) is not dict:
            function = call if type(call) is dict else {}
        call_id = call.get("id") if type(call) is dict else None
        found.append(
            (
                call_id if type(call_id) is str else f"{key}/{position}",
                str(function.get("name") or ""),
                arguments_text(function.get("arguments", function.get("input"))),
            )
        )
    legacy = value.get("function_call")
    if type(legacy) is dict:
        name = str(legacy.get("name") or "")
        found.append((f"function:{name}", name, arguments_text(legacy.get("arguments"))))
    return found
