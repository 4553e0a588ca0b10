"""
The lines of one Codex thread, as entries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from eventlog.drafts import SessionDraft
from eventlog.sources import RecordTally
from eventlog.values import JSONValue

from .conversation import HUMAN, Conversation, Object, call_block, plugin, sibling, text_block
from .records import Record
from .response_items import call_of, content_of, is_result, joined_text, output_of, reasoning_of
from .times import iso_ms

__all__ = ["CodexSession", "payload_of"]

TOOL: Final = "codex"
PUT_IN: Final = ("<environment_context>", "# AGENTS.md", "<user_instructions>")
ITEM_TYPES: Final = frozenset({"message", "reasoning", "function_call", "function_call_output"})


def payload_of(value: Object) -> Object:
    """Return what an envelope carries; an empty object where it carries none."""
    payload = value.get("payload")
    return payload if type(payload) is dict else {}


class CodexSession:
    """
    One thread, line by line.

    Args:
        draft: Where its entries go.

        tally: Where its records are counted.
    """

    def __init__(self, draft: SessionDraft, tally: RecordTally) -> None:
        self.draft = draft
        self._tally = tally
        self._talk = Conversation(draft, TOOL)
        self._model: JSONValue = None
        self._provider = "openai"
        # The surface's end when the open turn began, and of each prompt that of its turn.
        self._turn_anchor: int | None = None
        self._anchors: dict[int, int | None] = {}
        self._turn_has_prompt = False
        self._task_is_open = False
        # What the interface said and no item has confirmed yet.
        self._pending: tuple[Record, str, str] | None = None
        self._confirmed: dict[str, str] = {}
        self._has_items = False
        # What the user, and the program in the user's name, said: node, content, source.
        self._said: list[tuple[int, list[JSONValue], Object]] = []

    def add(self, record: Record) -> None:
        """Take the next line."""
        self.draft.weigh(record.size_bytes)
        self._tally.count(self._add(record))

    def _add(self, record: Record) -> bool:
        """Take a line; returns whether it has a meaning here, else it was kept as it is."""
        value = record.value
        kind = value.get("type")
        payload = payload_of(value)
        if kind == "response_item":
            self._has_items = True
            return self._add_item(record, payload)
        if type(kind) is str and kind in ITEM_TYPES and "payload" not in value:
            self._has_items = True
            return self._add_item(record, value)  # the form of the first releases
        if kind == "event_msg":
            return self._add_event(record, payload)
        if kind == "compacted":
            self.settle()
            return self._add_compaction(record, payload)
        if kind == "turn_context":
            return self._add_context(record, payload)
        if kind == "session_meta":
            provider = payload.get("model_provider")
            self._provider = provider if type(provider) is str and provider else self._provider
        self._keep(record, kind)
        return False

    def settle(self) -> None:
        """Complete what waits for further lines."""
        self._flush_pending()
        self._talk.close_answer()

    def _keep(self, record: Record, kind: JSONValue) -> None:
        inner = payload_of(record.value).get("type")
        if type(kind) is str and type(inner) is str:
            kind = f"{kind}.{inner}"
        self._talk.keep(record, kind, _time(record), _key(record))

    def _origin(self, record: Record, item: Object, *content: str) -> Object:
        """Return the origin of a line, with what it says beyond the parts named."""
        rest = {name: part for name, part in item.items() if name not in content}
        if item is record.value:
            return record.origin(TOOL, _key(record), rest)
        outer = dict(record.value)
        if type(outer.get("payload")) is dict:
            outer["payload"] = rest
        if self._talk.tells_time(outer.get("timestamp")):
            del outer["timestamp"]
        return record.origin(TOOL, _key(record), outer)

    # The model's items.

    def _add_item(self, record: Record, item: Object) -> bool:
        kind = item.get("type")
        if kind == "message":
            return self._add_message(record, item)
        if kind == "reasoning":
            self._flush_pending()
            origin = self._origin(record, item, "encrypted_content")
            self._answer(record, [reasoning_of(item)], origin)
            return True
        call = call_of(item, _key(record))
        if call is not None:
            self._flush_pending()
            call_id, name, arguments = call
            origin = self._origin(record, item, "arguments", "input")
            self._answer(record, [call_block(*call)], origin)
            part = record.origin(TOOL, f"{_key(record)}#call")
            time = self._talk.at(_time(record), part)
            self._talk.call(time, call_id, name, arguments, part)
            return True
        if type(kind) is str and kind.endswith("_output"):
            self.settle()
            return self._add_output(record, item)
        if kind in ("compaction", "context_compaction"):
            self.settle()
            origin = self._origin(record, item, *item)
            time = self._talk.at(_time(record), origin)
            source = plugin(TOOL, "compaction")
            self._talk.user(time, _key(record), [item], source, origin)
            return True
        self._flush_pending()
        self._keep(record, "response_item")
        return False

    def _add_message(self, record: Record, item: Object) -> bool:
        content = content_of(item.get("content"))
        role = item.get("role")
        if content is None or role not in ("user", "assistant", "developer", "system"):
            self._keep(record, "response_item")
            return False
        text = joined_text(content)
        if role == "assistant":
            self._confirm("agent_message", text)
            self._answer(record, content, self._origin(record, item, "content"))
            return True
        is_human = role == "user" and not text.startswith(PUT_IN)
        if is_human:
            self._confirm("user_message", text)
        self._talk.close_answer()
        origin = self._origin(record, item, "content")
        source = HUMAN if is_human else plugin(TOOL, "context" if role == "user" else str(role))
        self._say(record, content, source, origin, is_prompt=is_human)
        return True

    def _say(
        self,
        record: Record,
        content: list[JSONValue],
        source: Object,
        origin: Object,
        *,
        is_prompt: bool,
    ) -> None:
        time = self._talk.at(_time(record), origin)
        if is_prompt and (self._turn_has_prompt or not self._task_is_open):
            self._begin_turn(time, origin)
        number = self._talk.user(time, _key(record), content, source, origin)
        self._said.append((number, content, source))
        if is_prompt:
            self._turn_has_prompt = True
            self._anchors[number] = self._turn_anchor
            self._talk.prompts.add(number)

    def _begin_turn(self, time: int, origin: Object) -> None:
        self._talk.start_turn(time, origin)
        kept = self.draft.kept_nodes
        self._turn_anchor = self.draft.nodes[kept - 1] if kept else None
        self._turn_has_prompt = False

    def _answer(self, record: Record, content: list[JSONValue], origin: Object) -> None:
        """Add to what the model says in one go."""
        time = self._talk.at(_time(record), origin)
        if self._talk.extend_answer(content, origin) is None:
            self._talk.assistant(
                time,
                _key(record),
                content,
                origin,
                provider=self._provider,
                model=self._model,
                is_open=True,
            )

    def _add_output(self, record: Record, item: Object) -> bool:
        content, is_error = output_of(item.get("output"))
        # A result in parts of its own says more than its content.
        said = () if type(item.get("output")) is dict else ("output",)
        origin = self._origin(record, item, *said)
        time = self._talk.at(_time(record), origin)
        call_id = str(item.get("call_id") or "")
        key = _key(record)
        self._talk.result(time, key, call_id, content, origin, is_error=is_error)
        return True

    # What the interface reports.

    def _add_event(self, record: Record, payload: Object) -> bool:
        kind = payload.get("type")
        text = payload.get("message")
        if kind in ("user_message", "agent_message") and type(text) is str:
            if self._confirmed.get(str(kind)) == text:
                del self._confirmed[str(kind)]
                self._keep(record, "event_msg")
                return False
            self._flush_pending()
            self._pending = record, str(kind), text
            return True
        if kind == "agent_reasoning" and not self._has_items and type(payload.get("text")) is str:
            self._flush_pending()
            origin = self._origin(record, payload, "text")
            self._answer(record, [{"type": "reasoning", "text": payload["text"]}], origin)
            return True
        if kind == "token_count":
            usage = _usage(payload)
            if usage and self._talk.answer is not None and "usage" not in self._talk.answer:
                self._talk.extend_answer([], None, usage=usage)
            self._keep(record, "event_msg")
            return False
        handler = self._handlers.get(str(kind))
        if handler is None:
            self._keep(record, "event_msg")
            return False
        self.settle()
        origin = self._origin(record, payload)
        handler(self, record, payload, origin, self._talk.at(_time(record), origin))
        return True

    def _confirm(self, kind: str, text: str) -> None:
        """Take note that an item says *text*: the interface's account of it is a repetition."""
        if self._pending is not None and self._pending[1:] == (kind, text):
            record = self._pending[0]
            self._pending = None
            self._keep(record, "event_msg")
            self._tally.mapped -= 1
            self._tally.kept += 1
        else:
            self._flush_pending()
            self._confirmed[kind] = text

    def _flush_pending(self) -> None:
        """Take the interface's word for what no item says."""
        if self._pending is None:
            return
        record, kind, text = self._pending
        self._pending = None
        origin = self._origin(record, payload_of(record.value), "message")
        if kind == "user_message":
            self._talk.close_answer()
            self._say(record, [text_block(text)], HUMAN, origin, is_prompt=True)
        else:
            self._answer(record, [text_block(text)], origin)

    def _start_task(self, record: Record, payload: Object, origin: Object, time: int) -> None:
        self._confirmed.clear()
        self._begin_turn(time, origin)
        self._task_is_open = True
        self._keep(record, "event_msg")

    def _end_task(self, record: Record, payload: Object, origin: Object, time: int) -> None:
        reason: Object = {"kind": "completed"}
        if payload.get("type") == "turn_aborted":
            by_user = payload.get("reason") == "interrupted"
            aborted: Object = {"kind": "user"}
            if not by_user:
                aborted = {"kind": "hook", "reason": str(payload.get("reason"))}
            reason = {"kind": "aborted", "reason": aborted}
        self._keep(record, "event_msg")
        self._talk.end_turn(time, reason, origin)
        self._task_is_open = False

    def _roll_back(self, record: Record, payload: Object, origin: Object, time: int) -> None:
        """Cut off the last turns that hold a prompt, of those that are still there."""
        self._keep(record, "event_msg")
        count = payload.get("num_turns")
        if type(count) is not int or count <= 0:
            return
        nodes, prompts = self.draft.nodes, self._talk.prompts
        place = self.draft.kept_nodes
        prompt: int | None = None
        while place and count and prompts:
            place -= 1
            if nodes[place] in prompts:
                prompt = nodes[place]
                count -= 1
        if prompt is None:
            prompts.clear()  # what was cut off or replaced never comes back
            return
        if count:
            self.draft.cut_behind(None)
            return
        anchor = self._anchors.get(prompt)
        if anchor not in nodes:
            place = nodes.index(prompt)
            anchor = nodes[place - 1] if place else None
        self.draft.cut_behind(anchor)

    _handlers: Final[dict[str, Callable[..., None]]] = {
        "task_started": _start_task,
        "turn_started": _start_task,
        "task_complete": _end_task,
        "turn_complete": _end_task,
        "turn_aborted": _end_task,
        "thread_rolled_back": _roll_back,
    }

    def _add_context(self, record: Record, payload: Object) -> bool:
        model = payload.get("model")
        if type(model) is not str or not model:
            self._keep(record, "turn_context")
            return False
        self._model = model
        origin = self._origin(record, payload, "model")
        time = self._talk.at(_time(record), origin)
        data = {"provider": self._provider, "model": model, "origin": origin}
        self.draft.log("request/context", time, data)
        return True

    # Compaction.

    def _add_compaction(self, record: Record, payload: Object) -> bool:
        key = _key(record)
        summary = payload.get("message")
        history = payload.get("replacement_history")
        # Each an item, and what it shows, with the source of what is said once more.
        parts: list[tuple[Object, list[JSONValue], Object]] = []
        compact = plugin("compact")
        if type(history) is list:
            items = [item if type(item) is dict else {"item": item} for item in history]
            parts += [(item, content_of(item.get("content")) or [item], compact) for item in items]
        else:
            # What was put in and what the user said stays, in their order, before the summary.
            parts += [
                ({}, content, source)
                for node, content, source in self._said
                if node in self.draft.nodes
                and source != compact
                and self._talk.may_repeat(len(joined_text(content)))
            ]
        said = ["replacement_history"] if type(history) is list else []
        if type(summary) is str and summary and not history:
            parts.append(({}, [text_block(summary)], compact))
            said.append("message")
        if not parts:
            self._keep(record, "compacted")
            return False
        origin = self._origin(record, payload, *said)
        time = self._talk.at(_time(record), origin)
        self._said = []
        first: int | None = None
        for position, (item, shown, source) in enumerate(parts):
            part = origin if first is None else sibling(origin, f"{key}#item{position}")
            rest = _rest_of(item, shown, is_first=first is None)
            if rest:
                part.setdefault("fields", {})["item"] = rest
            if first is None:
                # A message, whatever it is: it stands for all that was there.
                first = self._talk.summary(time, key, shown, origin)
                self._said.append((first, shown, source))
            else:
                self._add_history_item(time, part, item, shown, source, first)
        return True

    def _add_history_item(
        self,
        time: int,
        origin: Object,
        item: Object,
        shown: list[JSONValue],
        source: Object,
        first: int,
    ) -> None:
        key = str(origin["key"])
        call = call_of(item, key)
        if is_result(item):
            content, is_error = output_of(item.get("output"))
            call_id = str(item.get("call_id") or "")
            self._talk.result(time, key, call_id, content, origin, is_error=is_error)
        elif call is not None or item.get("type") == "reasoning" or item.get("role") == "assistant":
            content = shown
            if call is not None:
                content = [call_block(*call)]
            elif item.get("type") == "reasoning":
                content = [reasoning_of(item)]
            self._talk.assistant(
                time,
                key,
                content,
                origin,
                provider=self._provider,
                model=self._model,
                cites=(first,),
            )
        else:
            number = self._talk.user(time, key, shown, source, origin, cites=(first,))
            self._said.append((number, shown, source))


def _key(record: Record) -> str:
    return str(record.place["line"])


def _time(record: Record) -> int | None:
    return iso_ms(record.value.get("timestamp"))


def _rest_of(item: Object, shown: list[JSONValue], *, is_first: bool) -> Object:
    """Return what an item of a history says beyond what becomes of it."""
    said: tuple[str, ...] = ("content",)
    if not is_first and is_result(item):
        said = () if type(item.get("output")) is dict else ("output",)
    elif not is_first and call_of(item, "") is not None:
        said = ("arguments", "input")
    elif not is_first and item.get("type") == "reasoning":
        said = ("encrypted_content",)
    elif shown == [item]:
        return {}
    return {name: part for name, part in item.items() if name not in said}


def _usage(payload: Object) -> Object:
    info = payload.get("info")
    usage = info.get("last_token_usage") if type(info) is dict else None
    if type(usage) is not dict:
        return {}
    counts = {
        name: usage.get(name)
        for name in (
            "input_tokens",
            "cached_input_tokens",
            "output_tokens",
            "reasoning_output_tokens",
        )
    }
    if type(counts["input_tokens"]) is not int or type(counts["output_tokens"]) is not int:
        return {}
    cached = counts["cached_input_tokens"] if type(counts["cached_input_tokens"]) is int else 0
    found: Object = {
        "inputTokens": max(counts["input_tokens"] - cached, 0),
        "outputTokens": counts["output_tokens"],
        "cacheReadTokens": cached,
    }
    if type(counts["reasoning_output_tokens"]) is int:
        found["reasoningTokens"] = counts["reasoning_output_tokens"]
    return found
