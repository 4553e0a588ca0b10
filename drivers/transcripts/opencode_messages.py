"""
The messages of one opencode session, of either form, as entries.
"""

from __future__ import annotations

from typing import Final

import orjson

from eventlog.drafts import SessionDraft
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
from .records import Record, digest_of
from .times import number_ms

__all__ = ["OpenCodeSession"]

TOOL: Final = "opencode"
CLEARED: Final = "[Old tool result content cleared]"
ANSWERED: Final = ("completed", "error")


class OpenCodeSession:
    """
    One session, message by message.

    Args:
        draft: Where its entries go.
    """

    def __init__(self, draft: SessionDraft) -> None:
        self.draft = draft
        self._talk = Conversation(draft, TOOL)
        # The first node of each message.
        self._nodes: dict[str, int] = {}
        # Of each request for a compaction, where the part begins that is kept.
        self._compactions: dict[str, JSONValue] = {}
        self._seen: set[str] = set()

    def add(self, record: Record) -> bool:
        """Take the next message; returns whether it has a meaning here, else it was kept."""
        value = record.value
        info = value.get("info")
        is_old = type(info) is dict
        facts = info if type(info) is dict else value
        given = facts.get("id")
        key = given if type(given) is str and given else f"@{record.place['at']}"
        if key in self._seen:
            at = record.place["at"]
            self._talk.keep(record, "repeated", _time(facts), f"{key}#again@{at}")
            return False
        self._seen.add(key)
        mapped = self._add_old(record, key, facts) if is_old else self._add_new(record, key)
        if not mapped:
            kind = facts.get("role") if is_old else facts.get("type")
            self._talk.keep(record, kind, _time(facts), key)
        return mapped

    def add_facts(self, record: Record, key: str) -> None:
        """Keep what is said of the session as a whole, and take its title."""
        facts = record.value
        title = facts.get("title")
        if type(title) is str and title:
            origin = record.origin(TOOL, f"{key}#title")
            source = {"kind": "provider", "provider": TOOL}
            self._talk.title(self._talk.time, title, source, origin)
        self._talk.keep(record, "session", None, key)

    # Rows of the newer form.

    def _add_new(self, record: Record, key: str) -> bool:
        value = record.value
        data = value.get("data")
        if type(data) is not dict:
            return False
        kind = value.get("type")
        outer = {name: part for name, part in value.items() if name != "data"}
        if kind == "user" and type(data.get("text")) is str:
            rest = {name: part for name, part in data.items() if name != "text"}
            origin = record.origin(TOOL, key, {**outer, "data": rest})
            files = data.get("files")
            content = [text_block(data["text"]), *(files if type(files) is list else [])]
            self._said(key, _blocks(content), HUMAN, origin, value, is_prompt=True)
            return True
        if kind == "assistant" and type(data.get("content")) is list:
            rest = {name: part for name, part in data.items() if name != "content"}
            self._add_answer(record, key, data["content"], data, {**outer, "data": rest}, value)
            return True
        if kind == "idle":
            origin = record.origin(TOOL, key, {**outer, "data": data})
            time = self._talk.at(_time(value), origin)
            self._talk.keep(record, "idle", _time(value), key)
            self._talk.end_turn(time, _outcome(data.get("outcome")), origin)
            return True
        return False

    # Messages of the older form, with their parts.

    def _add_old(self, record: Record, key: str, info: Object) -> bool:
        found = record.value.get("parts", [])
        parts = found if type(found) is list else [found]
        role = info.get("role")
        if role == "user":
            return self._add_old_user(record, key, info, parts)
        if role != "assistant":
            return False
        fields = {name: part for name, part in record.value.items() if name != "parts"}
        if info.get("summary") is True:
            return self._add_old_summary(record, key, info, parts, fields)
        shown, rest = _parted(parts, "text", "reasoning", "tool")
        if rest:
            fields["parts"] = rest
        self._add_answer(record, key, shown, info, fields, info)
        error = info.get("error")
        if type(error) is dict or info.get("finish") == "stop":
            origin = record.origin(TOOL, key)
            time = self._talk.at(_time(info), origin)
            self._talk.end_turn(time, _ending(error), origin)
        return True

    def _add_old_user(self, record: Record, key: str, info: Object, parts: list[JSONValue]) -> bool:
        for part in parts:
            if type(part) is dict and part.get("type") == "compaction":
                self._compactions[key] = part.get("tail_start_id")
                return False
        shown, rest = _parted(parts, "text", "file", takes_ignored=False)
        fields = {name: part for name, part in record.value.items() if name != "parts"}
        if rest:
            fields["parts"] = rest
        origin = record.origin(TOOL, key, fields)
        is_human = any(part.get("synthetic") is not True for part in shown)
        source = HUMAN if is_human else plugin(TOOL, "synthetic")
        self._said(key, _blocks(shown), source, origin, info, is_prompt=is_human)
        return True

    def _add_old_summary(
        self, record: Record, key: str, info: Object, parts: list[JSONValue], fields: Object
    ) -> bool:
        """A summary counts once it is finished, and without a fault."""
        request = info.get("parentID")
        if type(request) is not str or request not in self._compactions:
            return False
        if not info.get("finish") or info.get("error"):
            return False
        tail = self._compactions[request]
        texts, rest = _parted(parts, "text")
        origin = record.origin(TOOL, key, {**fields, "parts": rest})
        time = self._talk.at(_time(info), origin)
        last: int | None = None
        first_kept = self._nodes.get(str(tail)) if tail is not None else None
        nodes = self.draft.nodes
        if first_kept is not None and first_kept in nodes:
            place = nodes.index(first_kept)
            if place == 0:
                # All is kept: nothing stands where the summary would.
                source = plugin("compact")
                self._said(key, _blocks(texts), source, origin, info, is_prompt=False)
                return True
            last = nodes[place - 1]
        number = self._talk.summary(time, key, _blocks(texts), origin, last=last)
        self._nodes[key] = number
        return True

    def _said(
        self,
        key: str,
        content: list[JSONValue],
        source: Object,
        origin: Object,
        facts: Object,
        *,
        is_prompt: bool,
    ) -> None:
        time = self._talk.at(_time(facts), origin)
        self._nodes[key] = self._talk.user(time, key, content, source, origin, is_prompt=is_prompt)

    def _add_answer(
        self,
        record: Record,
        key: str,
        parts: list[JSONValue],
        facts: Object,
        fields: Object,
        timed: Object,
    ) -> None:
        """Add an answer with its calls and what came of them."""
        tools = [_Tool(part, f"{key}/{n}") for n, part in enumerate(parts) if _is_tool(part)]
        by_part = {id(tool.part): tool for tool in tools}
        content = [
            by_part[id(part)].block if id(part) in by_part else _block(part) for part in parts
        ]
        origin = record.origin(TOOL, key, fields)
        # What came of a call is told by an entry of its own, and changes on its own.
        origin["digest"] = digest_of(orjson.dumps([fields, content]))
        time = self._talk.at(_time(timed), origin)
        provider, model = _model(facts)
        self._nodes[key] = self._talk.assistant(
            time, key, content, origin, provider=provider, model=model, usage=_usage(facts)
        )
        for tool in tools:
            part = record.origin(TOOL, f"{key}#call:{tool.call_id}")
            part["digest"] = digest_of(orjson.dumps(tool.block))
            if tool.status not in ANSWERED:
                part["fields"] = tool.fields
            self._talk.call(time, tool.call_id, tool.name, tool.arguments, part)
        for tool in tools:
            self._add_result(record, key, tool, time)

    def _add_result(self, record: Record, key: str, tool: _Tool, time: int) -> None:
        if tool.status not in ANSWERED:
            return
        origin = record.origin(TOOL, f"{key}#result:{tool.call_id}")
        origin["digest"] = digest_of(orjson.dumps([tool.content, tool.rest]))
        origin["fields"] = tool.fields
        at = number_ms(tool.ended)
        time = time if at is None else at
        self._talk.result(
            time,
            str(origin["key"]),
            tool.call_id,
            tool.content,
            origin,
            is_error=tool.status == "error",
        )
        if tool.cleared is not None:
            self._talk.clear_result(time, tool.call_id, [text_block(CLEARED)], origin)


class _Tool:
    """A call of either form, and what came of it."""

    def __init__(self, part: Object, key: str) -> None:
        self.part = part
        state = part.get("state")
        state = state if type(state) is dict else {}
        times = state.get("time", part.get("time"))
        times = times if type(times) is dict else {}
        self.call_id = str(part.get("callID") or part.get("id") or key)
        self.name = part.get("tool", part.get("name"))
        self.arguments = state.get("input")
        self.status = state.get("status")
        self.ended = times.get("end", times.get("completed"))
        self.cleared = times.get("compacted")
        self.block = call_block(self.call_id, self.name, self.arguments)
        told = ("error" if self.status == "error" else "output", "content", "error")
        name = next((name for name in told if state.get(name) is not None), "output")
        said = state.get(name)
        if type(said) is str:
            self.content: list[JSONValue] = [text_block(said)]
        elif type(said) is list:
            self.content = _blocks(said)
        else:
            self.content = [] if said is None else [text_block(arguments_text(said))]
        kept = {name: item for name, item in part.items() if name not in ("state", "time")}
        kept["state"] = {
            item: fact
            for item, fact in state.items()
            if item not in ("input", "time") and (item != name or item == "error")
        }
        self.rest = kept
        # Times change when a result is cleared, which is told by an entry of its own.
        self.fields = {**kept, **{n: part[n] for n in ("time",) if n in part}}
        if "time" in state:
            self.fields["state"] = {**kept["state"], "time": state["time"]}
        elif part.get("state") != state:
            self.fields["state"] = part.get("state")


def _parted(
    parts: list[JSONValue], *types: str, takes_ignored: bool = True
) -> tuple[list[Object], list[JSONValue]]:
    """Return the parts of some types, which are shown, and the others."""
    shown: list[Object] = []
    rest: list[JSONValue] = []
    for part in parts:
        is_shown = type(part) is dict and part.get("type") in types
        if is_shown and (takes_ignored or part.get("ignored") is not True):
            shown.append(part)
        else:
            rest.append(part)
    return shown, rest


def _is_tool(part: JSONValue) -> bool:
    return type(part) is dict and part.get("type") == "tool"


def _blocks(parts: list[JSONValue]) -> list[JSONValue]:
    return [_block(part) for part in parts]


def _block(part: JSONValue) -> JSONValue:
    """Return a part in the common form; one of another kind stays as it is."""
    if type(part) is not dict:
        return text_block(arguments_text(part))
    if part.get("type") in ("text", "reasoning") and type(part.get("text")) is not str:
        return {**part, "text": arguments_text(part.get("text"))}
    return part


def _time(facts: Object) -> int | None:
    times = facts.get("time")
    created = times.get("created") if type(times) is dict else None
    return number_ms(facts.get("time_created", created))


def _model(facts: Object) -> tuple[str, JSONValue]:
    model = facts.get("model")
    if type(model) is dict:
        return str(model.get("providerID") or "unknown"), model.get("id", model.get("modelID"))
    return str(facts.get("providerID") or "unknown"), facts.get("modelID")


def _usage(facts: Object) -> Object:
    tokens = facts.get("tokens")
    if type(tokens) is not dict or type(tokens.get("input")) is not int:
        return {}
    cache = tokens.get("cache")
    cache = cache if type(cache) is dict else {}
    found: Object = {"inputTokens": tokens["input"]}
    for ours, count in (
        ("outputTokens", tokens.get("output")),
        ("cacheReadTokens", cache.get("read")),
        ("cacheWriteTokens", cache.get("write")),
        ("reasoningTokens", tokens.get("reasoning")),
    ):
        if type(count) is int:
            found[ours] = count
    return found


def _outcome(outcome: JSONValue) -> Object:
    if outcome in ("aborted", "interrupted", "cancelled"):
        return {"kind": "aborted", "reason": {"kind": "user"}}
    if outcome in ("failed", "error"):
        return {"kind": "error", "error": {"message": str(outcome), "code": "UNKNOWN"}}
    return {"kind": "completed"}


def _ending(error: JSONValue) -> Object:
    if type(error) is not dict:
        return {"kind": "completed"}
    if error.get("name") == "MessageAbortedError":
        return {"kind": "aborted", "reason": {"kind": "user"}}
    data = error.get("data")
    message = data.get("message") if type(data) is dict else None
    code = str(error.get("name") or "UNKNOWN")
    return {"kind": "error", "error": {"message": str(message or code), "code": code}}
