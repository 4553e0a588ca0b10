"""
Qwen Code: one file of JSON lines a session, below ``~/.qwen/projects``.

Lines form a tree as those of Claude Code do, and carry contents as Gemini has them. Each
result of a call is a line. ``chat_compression`` puts a shorter history in the place of the
whole; a prompt whose parent lies before another prompt is a rewind.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
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

from .conversation import HUMAN, Conversation, Object, plugin
from .finding import find_files, id_from_name, usual_place
from .gemini_parts import is_plain_response, parts_of, response_text
from .headers import imported_header
from .records import Record, first_record, read_records
from .times import iso_ms

__all__ = ["QwenCode"]

TOOL: Final = "qwen-code"


class QwenCode(TranscriptSource):
    """Reads the sessions of Qwen Code."""

    name = TOOL
    title = "Qwen Code"
    reads_plain = True

    def usual_places(self, environ: Mapping[str, str]) -> list[Path]:
        return [usual_place(environ, "QWEN_HOME", ".qwen") / "projects"]

    def find(self, path: Path) -> Iterator[Transcript | Unreadable]:
        yield from find_files(path, lambda _folder, _names, name: name.endswith(".jsonl"))

    def read(self, transcript: Transcript, tally: RecordTally) -> Iterator[Item]:
        path = transcript.path
        stop_bytes = os.stat(path).st_size
        first = first_record(
            path, stop_bytes, lambda value: type(value.get("sessionId")) is str
        ).value
        session = _Session(SessionDraft(_header(first, path)), is_whole=not first.get("parentUuid"))
        yield Opened(session.draft.header)
        for record in read_records(path, tally, stop_bytes=stop_bytes):
            tally.count(session.add(record))
            yield from session.draft.take()


def _header(first: Object, path: Path) -> SessionHeader:
    session_id = first.get("sessionId", id_from_name(path.stem))
    return imported_header(
        TOOL, path, session_id, iso_ms(first.get("timestamp")), cwd=first.get("cwd")
    )


class _Session:
    """One session, line by line."""

    def __init__(self, draft: SessionDraft, *, is_whole: bool) -> None:
        self.draft = draft
        self._talk = Conversation(draft, TOOL)
        self._is_whole = is_whole
        # For each line the nearest entry on the surface at or above it in the tree.
        self._nearest: dict[str, int | None] = {}

    def add(self, record: Record) -> bool:
        """Take the next line; returns whether it has a meaning here, else it was kept."""
        value = record.value
        uuid = value.get("uuid")
        line = record.place["line"]
        key = uuid if type(uuid) is str and uuid else f"@{line}"
        time = iso_ms(value.get("timestamp"))
        kind = value.get("type")
        if key in self._nearest:
            self._talk.keep(record, "repeated", time, f"{key}#again{line}")
            return False
        self._nearest[key] = self._nearest.get(str(value.get("parentUuid")))
        message = value.get("message")
        parts = message.get("parts") if type(message) is dict else None
        if kind == "system" and value.get("subtype") == "chat_compression":
            if self._add_compression(record, key):
                return True
        elif type(parts) is list and kind in ("user", "assistant", "tool_result"):
            self._add_message(record, key, str(kind), parts)
            return True
        subtype = value.get("subtype")
        name = f"{kind}.{subtype}" if type(kind) is str and type(subtype) is str else kind
        self._talk.keep(record, name, time, key)
        return False

    def _add_message(self, record: Record, key: str, kind: str, parts: list[JSONValue]) -> None:
        value = record.value
        rest = {name: part for name, part in value.items() if name != "message"}
        rest["message"] = {name: part for name, part in value["message"].items() if name != "parts"}
        if kind == "tool_result":
            if type(rest.get("toolCallResult")) is dict:
                del rest["toolCallResult"]
            if not all(map(is_plain_response, parts)):
                rest["message"]["parts"] = parts
        is_prompt = kind == "user" and value.get("provenance", "real_user") == "real_user"
        if is_prompt:
            self._rewind(value)
        origin = record.origin(TOOL, key, rest)
        time = self._talk.at(iso_ms(value.get("timestamp")), origin)
        if kind == "assistant":
            number = self._add_answer(record, key, parts, time, origin)
        elif kind == "tool_result":
            number = self._add_results(record, key, parts, time, origin)
        else:
            source = HUMAN if is_prompt else plugin(TOOL, str(value.get("provenance")))
            content = parts_of(parts)
            number = self._talk.user(time, key, content, source, origin, is_prompt=is_prompt)
        self._nearest[key] = number

    def _add_answer(
        self, record: Record, key: str, parts: list[JSONValue], time: int, origin: Object
    ) -> int:
        content = parts_of(parts)
        number = self._talk.assistant(
            time,
            key,
            content,
            origin,
            provider="qwen",
            model=record.value.get("model"),
            usage=_usage(record.value.get("usageMetadata")),
        )
        for position, block in enumerate(content):
            if type(block) is dict and block.get("type") == "tool-call":
                part = record.origin(TOOL, f"{key}#call{position}")
                call_id = str(block.get("id") or "")
                self._talk.call(time, call_id, block.get("name"), block.get("arguments"), part)
        return number

    def _add_results(
        self, record: Record, key: str, parts: list[JSONValue], time: int, origin: Object
    ) -> int:
        facts = record.value.get("toolCallResult")
        facts = facts if type(facts) is dict else {}
        responses = [
            part["functionResponse"]
            for part in parts
            if type(part) is dict and type(part.get("functionResponse")) is dict
        ]
        number = None
        for position, response in enumerate(responses or [{}]):
            call_id = response.get("id") or facts.get("callId") or ""
            part = origin if position == 0 else record.origin(TOOL, f"{key}#{position}")
            if "name" in response:
                part.setdefault("fields", {})["name"] = response["name"]
            content = [response_text(response.get("response"))] if responses else parts_of(parts)
            number = self._talk.result(
                time,
                key,
                str(call_id),
                content,
                part,
                is_error=facts.get("status") in ("error", "cancelled"),
                meta=facts or None if position == 0 else None,
            )
        assert number is not None
        return number

    def _rewind(self, value: Object) -> None:
        """Cut off what a prompt abandons: all behind its parent, where a prompt is there."""
        nodes, prompts = self.draft.nodes, self._talk.prompts
        parent = value.get("parentUuid")
        anchor = self._nearest.get(str(parent)) if parent is not None else None
        if parent is None:
            if not self._is_whole:
                return
            start = 0
        elif anchor is None or anchor not in nodes:
            return
        else:
            start = nodes.index(anchor) + 1
        if any(nodes[place] in prompts for place in range(start, len(nodes))):
            self.draft.cut_behind(anchor)

    def _add_compression(self, record: Record, key: str) -> bool:
        payload = record.value.get("systemPayload")
        history = payload.get("compressedHistory") if type(payload) is dict else None
        if type(history) is not list or not history:
            return False
        assert type(payload) is dict
        rest = {name: part for name, part in record.value.items() if name != "systemPayload"}
        rest["systemPayload"] = {
            name: part for name, part in payload.items() if name != "compressedHistory"
        }
        origin = record.origin(TOOL, key, rest)
        time = self._talk.at(iso_ms(record.value.get("timestamp")), origin)
        first: int | None = None
        for position, item in enumerate(history):
            role = item.get("role") if type(item) is dict else None
            parts = item.get("parts") if type(item) is dict else None
            content = parts_of(parts if type(parts) is list else [item])
            part = origin if position == 0 else record.origin(TOOL, f"{key}#{position}")
            if type(item) is dict and parts is not None and not _is_plain(item):
                part.setdefault("fields", {})["item"] = item
            if first is None:
                first = self._talk.summary(time, key, content, part)
            elif role == "model":
                self._talk.assistant(
                    time, part["key"], content, part, provider="qwen", model=None, cites=(first,)
                )
            else:
                source = plugin("compact")
                self._talk.user(time, part["key"], content, source, part, cites=(first,))
        self._nearest[key] = first
        return True


def _is_plain(item: Object) -> bool:
    """Tell whether a content is nothing but its role and its parts."""
    return item.keys() == {"role", "parts"} and item["role"] in ("user", "model")


_USAGE: Final = {
    "candidatesTokenCount": "outputTokens",
    "cachedContentTokenCount": "cacheReadTokens",
    "thoughtsTokenCount": "reasoningTokens",
}


def _usage(usage: JSONValue) -> Object:
    if type(usage) is not dict or type(usage.get("promptTokenCount")) is not int:
        return {}
    found = {
        ours: usage[theirs] for theirs, ours in _USAGE.items() if type(usage.get(theirs)) is int
    }
    cached = found.get("cacheReadTokens", 0)
    return {"inputTokens": max(usage["promptTokenCount"] - cached, 0), **found}
