"""
The events of one OpenHands conversation, of either version, as entries.
"""

from __future__ import annotations

from typing import Final

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
from .records import Record
from .times import iso_ms

__all__ = ["OpenHandsSession"]

TOOL: Final = "openhands"
ROOT: Final = "__root__"
# Of version 0: what is no call, whatever it looks like.
NO_CALLS: Final = frozenset(
    {"change_agent_state", "recall", "null", "start_hook", "streaming_chunk"}
)
NO_RESULTS: Final = frozenset({"agent_state_changed", "null", "recall", "user_rejected_state"})


class OpenHandsSession:
    """
    One conversation, event by event.

    Args:
        draft: Where its entries go.

        model: The model's name, where it is known.
    """

    def __init__(self, draft: SessionDraft, model: JSONValue) -> None:
        self.draft = draft
        self._talk = Conversation(draft, TOOL)
        self._model = model
        # For each event the newest node at or before it, and of each node its events.
        self._nearest: dict[str, int | None] = {}
        self._events_of: dict[int, set[str]] = {}
        self._last_id: str | None = None
        # The system prompt, and those whose place it took.
        self._prompt: int | None = None
        self._old_prompts: set[int | None] = set()
        self._response_id: JSONValue = None
        # Of version 0: the call of each action.
        self._calls: dict[str, str] = {}
        self._finishing = False

    @staticmethod
    def time_of(value: Object) -> int | None:
        """Return an event's time; one without a zone is read as UTC."""
        return iso_ms(value.get("timestamp"))

    def settle(self) -> None:
        """Complete what waits for further events."""
        self._response_id = None
        self._talk.close_answer()

    def keep(self, record: Record, kind: JSONValue, key: str) -> None:
        """Keep a record as it is."""
        self._talk.keep(record, kind, self.time_of(record.value), key)

    def add(self, record: Record) -> bool:
        """Take the next event; returns whether it has a meaning here, else it was kept."""
        self.draft.weigh(record.size_bytes)
        value = record.value
        given = value.get("id")
        key = str(given) if type(given) in (str, int) else f"@{record.place['at']}"
        if key in self._nearest:
            self.keep(record, "repeated", f"{key}#again@{record.place['at']}")
            return False
        self._nearest[key] = self._follow(value.get("parent_id"))
        self._last_id = key
        kind = value.get("kind")
        mapped = self._add_v1(record, key, str(kind)) if kind else self._add_v0(record, key)
        if not mapped:
            name = kind or value.get("action") or value.get("observation")
            self.keep(record, name, key)
        return mapped

    def _follow(self, parent: JSONValue) -> int | None:
        """
        Go on from another event than the one before, where *parent* says so. Returns the
        newest node there, None where none is.
        """
        last = None if self._last_id is None else self._nearest[self._last_id]
        if type(parent) is not str or parent == self._last_id:
            return last
        if parent != ROOT and parent not in self._nearest:
            return last
        node = self._nearest.get(parent)
        if node in self._old_prompts:
            node = self._prompt
        if self._last_id is not None and (node is None or node in self.draft.nodes):
            self.settle()
            self.draft.cut_behind(node)
        return node

    def _enter(self, key: str, number: int) -> None:
        self._nearest[key] = number
        self._events_of.setdefault(number, set()).add(key)

    def _origin(self, record: Record, key: str, *said: str) -> Object:
        rest = {name: part for name, part in record.value.items() if name not in said}
        return record.origin(TOOL, key, rest)

    def _said(
        self,
        record: Record,
        key: str,
        content: list[JSONValue],
        source: Object,
        origin: Object,
        *,
        is_prompt: bool = False,
    ) -> None:
        self.settle()
        time = self._talk.at(self.time_of(record.value), origin)
        self._enter(
            key,
            self._talk.user(time, key, content, source, origin, is_prompt=is_prompt),
        )

    def _answered(
        self,
        record: Record,
        key: str,
        content: list[JSONValue],
        origin: Object,
        response_id: JSONValue,
    ) -> int:
        """Add to the answer of a response, or begin one."""
        time = self._talk.at(self.time_of(record.value), origin)
        number = None
        if response_id is not None and response_id == self._response_id:
            number = self._talk.extend_answer(content, origin)
        if number is None:
            number = self._talk.assistant(
                time,
                key,
                content,
                origin,
                provider="unknown",
                model=self._model,
                is_open=response_id is not None,
            )
            self._response_id = response_id
        self._enter(key, number)
        return time

    def _result(
        self,
        record: Record,
        key: str,
        call_id: str,
        content: list[JSONValue],
        origin: Object,
        *,
        is_error: bool,
    ) -> None:
        self.settle()
        time = self._talk.at(self.time_of(record.value), origin)
        self._enter(key, self._talk.result(time, key, call_id, content, origin, is_error=is_error))
        if self._finishing:
            self._finishing = False
            self._talk.end_turn(time, {"kind": "completed"}, origin)

    # Version 1.

    def _add_v1(self, record: Record, key: str, kind: str) -> bool:
        value = record.value
        if kind == "SystemPromptEvent" or (
            kind == "SystemPromptUpdateEvent" and value.get("system_prompt") is not None
        ):
            self._add_prompt(record, key)
        elif kind == "MessageEvent" and type(value.get("llm_message")) is dict:
            self._add_message(record, key, value["llm_message"])
        elif kind == "ActionEvent":
            self._add_action(record, key)
        elif kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
            self._add_observation(record, key, kind)
        elif kind == "Condensation":
            return self._add_condensation(
                record, key, value.get("forgotten_event_ids"), value, "summary"
            )
        else:
            return False
        return True

    def _add_prompt(self, record: Record, key: str) -> None:
        """Add the system prompt: the newest takes the place of the one before."""
        said = ("system_prompt", "dynamic_context")
        content = [block for name in said for block in _content(record.value.get(name))]
        origin = self._origin(record, key, *said)
        source = plugin(TOOL, "system")
        before = self._prompt
        if before is None or before not in self.draft.nodes:
            self._said(record, key, content, source, origin)
            self._prompt = self._nearest[key]
            return
        self.settle()
        time = self._talk.at(self.time_of(record.value), origin)
        self._prompt = self._talk.revise_user(before, time, key, content, source, origin)
        self._old_prompts.add(before)
        self._events_of[self._prompt] = {key}

    def _add_message(self, record: Record, key: str, message: Object) -> None:
        origin = self._origin(record, key, "llm_message")
        rest = {name: part for name, part in message.items() if name != "content"}
        if "fields" in origin:
            origin["fields"]["llm_message"] = rest
        content = [
            *_content(message.get("content")),
            *_content(record.value.get("extended_content")),
        ]
        if message.get("role") == "assistant":
            content = [*_thinking(message), *content]
            self._answered(record, key, content, origin, record.value.get("llm_response_id"))
            return
        is_human = record.value.get("source") == "user"
        source = HUMAN if is_human else plugin(TOOL, str(record.value.get("source")))
        self._said(record, key, content, source, origin, is_prompt=is_human)

    def _add_action(self, record: Record, key: str) -> None:
        value = record.value
        call = _object(value.get("tool_call"))
        call_id = str(value.get("tool_call_id") or call.get("id") or key)
        name = value.get("tool_name") or call.get("name")
        arguments = call.get("arguments", value.get("action"))
        said = ("thought", "thinking_blocks", "reasoning_content")
        origin = self._origin(record, key, *(said if _is_plain(value) else said[:1]))
        block = call_block(call_id, name, arguments)
        content = [*_thinking(value), *_content(value.get("thought")), block]
        time = self._answered(record, key, content, origin, value.get("llm_response_id"))
        part = record.origin(TOOL, f"{key}#call")
        self._talk.call(time, call_id, name, arguments, part)
        action = value.get("action")
        if type(action) is dict and action.get("kind") == "FinishAction":
            self._finishing = True

    def _add_observation(self, record: Record, key: str, kind: str) -> None:
        value = record.value
        call_id = str(value.get("tool_call_id") or "")
        seen = value.get("observation")
        origin = self._origin(record, key, "observation")
        is_error = kind != "ObservationEvent"
        if type(seen) is dict:
            rest = {name: part for name, part in seen.items() if name != "content"}
            if "fields" in origin:
                origin["fields"]["observation"] = rest
            is_error = is_error or seen.get("is_error") is True
            content = _content(seen.get("content", seen.get("output")))
        else:
            said = value.get("error", value.get("rejection_reason", seen))
            content = _content(said)
        self._result(record, key, call_id, content, origin, is_error=is_error)

    # Condensation, of both versions.

    def _add_condensation(
        self, record: Record, key: str, forgotten: JSONValue, facts: Object, said: str
    ) -> bool:
        self.settle()
        ids = {str(item) for item in forgotten} if type(forgotten) is list else set()
        runs = self._runs(ids)
        if not runs:
            return False
        origin = self._origin(record, key, said)
        time = self._talk.at(self.time_of(record.value), origin)
        summary = facts.get(said)
        holder = self._holder(runs, facts.get("summary_offset"))
        nodes = self.draft.nodes
        stretches = [(nodes[first], nodes[last]) for first, last in runs]
        for position, (first, last) in enumerate(stretches):
            part = record.origin(TOOL, f"{key}#run{position}")
            if position == holder and type(summary) is str and summary:
                content = [text_block(summary)]
                number = self._talk.summary(time, key, content, origin, first=first, last=last)
                self._enter(key, number)
            else:
                self.draft.drop(first, last, time, part)
        if not (type(summary) is str and summary):
            self.keep(record, "Condensation", key)
        return True

    def _runs(self, ids: set[str]) -> list[tuple[int, int]]:
        """Return the stretches of the surface whose events are all forgotten, by place."""
        nodes = self.draft.nodes
        named = {self._prompt, *(self._nearest.get(event_id) for event_id in ids)}
        runs: list[tuple[int, int]] = []
        for place in sorted(
            nodes.index(node)
            for node in named
            if node is not None and node in nodes and self._events_of[node] <= ids
        ):
            if runs and runs[-1][1] == place - 1:
                runs[-1] = runs[-1][0], place
            else:
                runs.append((place, place))
        return runs

    def _holder(self, runs: list[tuple[int, int]], offset: JSONValue) -> int:
        """Return the run where the summary stands: at *offset* of what is kept, or the first."""
        gone = 0
        for position, (first, last) in enumerate(runs):
            if first - gone == offset:
                return position
            gone += last - first + 1
        return 0

    # Version 0.

    def _add_v0(self, record: Record, key: str) -> bool:
        value = record.value
        action, seen = value.get("action"), value.get("observation")
        args = _object(value.get("args"))
        if type(action) is str:
            return self._add_v0_action(record, key, action, args)
        if type(seen) is not str or seen in NO_RESULTS:
            return False
        content = _content(value.get("content"))
        cause = value.get("cause")
        call_id = self._calls.get(str(cause), "")
        metadata = value.get("tool_call_metadata")
        if not call_id and type(metadata) is dict:
            call_id = str(metadata.get("tool_call_id") or "")
        if not call_id and cause is None:
            return False
        origin = self._origin(record, key, "content")
        self._result(record, key, call_id, content, origin, is_error=seen == "error")
        return True

    def _add_v0_action(self, record: Record, key: str, action: str, args: Object) -> bool:
        value = record.value
        if action == "message" or action == "system":
            content = _content(args.get("content", value.get("message")))
            origin = self._origin(record, key)
            if action == "message" and value.get("source") == "agent":
                self._answered(record, key, content, origin, None)
            else:
                is_human = action == "message" and value.get("source") == "user"
                source = HUMAN if is_human else plugin(TOOL, action)
                self._said(record, key, content, source, origin, is_prompt=is_human)
            return True
        if action == "condensation":
            forgotten = args.get("forgotten_event_ids")
            start, end = args.get("forgotten_events_start_id"), args.get("forgotten_events_end_id")
            if type(forgotten) is not list and type(start) is int and type(end) is int:
                forgotten = [
                    known
                    for known in self._nearest
                    if known.isdecimal() and len(known) < 20 and start <= int(known) <= end
                ]
            facts = {"summary_offset": args.get("summary_offset"), "said": args.get("summary")}
            return self._add_condensation(record, key, forgotten, facts, "said")
        if action in NO_CALLS or value.get("source") == "environment":
            return False
        metadata = _object(value.get("tool_call_metadata"))
        call_id = str(metadata.get("tool_call_id") or f"action-{key}")
        name = metadata.get("function_name") or action
        thought = args.get("thought")
        arguments = {name: part for name, part in args.items() if name != "thought"}
        self._calls[key] = call_id
        block = call_block(call_id, name, arguments)
        content = [*(_content(thought) if thought else []), block]
        response = metadata.get("model_response")
        response_id = response.get("id") if type(response) is dict else None
        time = self._answered(record, key, content, self._origin(record, key), response_id)
        self._talk.call(time, call_id, name, arguments, record.origin(TOOL, f"{key}#call"))
        self._finishing = action == "finish"
        return True


def _object(value: JSONValue) -> Object:
    return value if type(value) is dict else {}


def _content(content: JSONValue) -> list[JSONValue]:
    """Return what an event says as blocks."""
    if content is None:
        return []
    if type(content) is str:
        return [text_block(content)] if content else []
    parts = content if type(content) is list else [content]
    return [part if type(part) is dict else text_block(arguments_text(part)) for part in parts]


def _is_plain(value: Object) -> bool:
    """Tell whether what is shown of an event's thoughts is all that it says of them."""
    thoughts = value.get("thinking_blocks", [])
    return (
        type(value.get("reasoning_content", "")) in (str, type(None))
        and type(thoughts) is list
        and all(
            type(thought) is dict
            and thought.get("type") == "thinking"
            and type(thought.get("thinking")) is str
            for thought in thoughts
        )
    )


def _thinking(value: Object) -> list[JSONValue]:
    blocks: list[JSONValue] = []
    reasoning = value.get("reasoning_content")
    if type(reasoning) is str and reasoning:
        blocks.append({"type": "reasoning", "text": reasoning})
    thoughts = value.get("thinking_blocks")
    for thought in thoughts if type(thoughts) is list else []:
        if type(thought) is dict:
            rest = {k: part for k, part in thought.items() if k not in ("type", "thinking")}
            text = thought.get("thinking")
            blocks.append({"type": "reasoning", "text": text if type(text) is str else "", **rest})
    return blocks
