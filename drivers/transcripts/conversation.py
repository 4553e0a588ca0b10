"""
What the conversations of all tools have in common, as events of the common vocabulary.

Turns and steps are numbered here: a turn begins with a prompt, a step with an answer of
the model. Calls and results are paired by the newest call of an id that has no result
yet, since ids repeat. A result without a call, and a call without a result, are kept as
they are: transcripts are cut and turns are killed.
"""

from __future__ import annotations

from typing import Final

import orjson

from eventlog.drafts import TOOL_RESULT, SessionDraft
from eventlog.errors import ValueRejected
from eventlog.values import JSONValue, check_event_type

from .records import Record, digest_of
from .times import iso_ms

__all__ = [
    "HUMAN",
    "Conversation",
    "Object",
    "arguments_text",
    "call_block",
    "plugin",
    "sibling",
    "text_block",
]

Object = dict[str, JSONValue]

HUMAN: Final[Object] = {"kind": "user"}
"""The source of a message that a person wrote."""

KINDS_KEPT_MAX: Final = 200
# What a session's records may have put on its surface once more, and what each counts for
# beside its size.
REPEATED_BYTES_MAX: Final = 128 << 20
REPEATED_BYTES_EACH: Final = 1000


def plugin(name: str, form: str | None = None) -> Object:
    """Return the source of a message that a program put in: its *name*, and what it is."""
    source: Object = {"kind": "plugin", "plugin": name}
    if form is not None:
        source["form"] = form
    return source


def text_block(text: str) -> Object:
    """Return a block of text."""
    return {"type": "text", "text": text}


def call_block(call_id: JSONValue, name: JSONValue, arguments: JSONValue) -> Object:
    """Return a block that calls a tool."""
    return {
        "type": "tool-call",
        "id": call_id,
        "name": name,
        "arguments": arguments_text(arguments),
    }


class Conversation:
    """
    One session's conversation.

    Args:
        draft: Where its entries go.

        tool: The source's name.

    Attributes:
        draft: Where its entries go.

        time: The time of the record before; the time of one that has none.

        prompts: The nodes that are prompts.

        results: The newest result of each call, by the call's id.

        answer: The data of the answer that is open, which more may be added to.
    """

    def __init__(self, draft: SessionDraft, tool: str) -> None:
        self.draft = draft
        self.tool = tool
        self.time = draft.header.created_at
        self.prompts: set[int] = set()
        self.results: dict[str, int] = {}
        self.answer: Object | None = None
        self._turn = 0
        self._step = 0
        self._in_turn = False
        self._unanswered: dict[str, list[int]] = {}
        self._kinds: dict[str, str] = {}
        self._repeated_bytes = 0

    def at(self, time: int | None, origin: Object) -> int:
        """Return the time of a record: its own, else the one before, and *origin* says so."""
        if time is None:
            origin["time"] = "none"
            return self.time
        self.time = time
        return time

    @staticmethod
    def tells_time(timestamp: JSONValue) -> bool:
        """
        Tell whether an event's time says all that *timestamp* says: it is written as most
        tools write it, in UTC and to the millisecond.
        """
        return (
            type(timestamp) is str
            and len(timestamp) == 24
            and timestamp[23] == "Z"
            and iso_ms(timestamp) is not None
        )

    def may_repeat(self, size_bytes: int) -> bool:
        """
        Tell whether what was said before may be put on the surface once more, and count it:
        records of a few kilobytes could ask for that without end.
        """
        self._repeated_bytes += size_bytes + REPEATED_BYTES_EACH
        return self._repeated_bytes <= REPEATED_BYTES_MAX

    def start_turn(self, time: int, origin: Object) -> None:
        """Begin a turn; one that is open is over. *origin* is that of the prompt."""
        if self._in_turn:
            self.end_turn(time, {"kind": "completed"}, origin)
        self._turn += 1
        self._step = 0
        self._in_turn = True
        data = {"turn": self._turn, "origin": _part(origin, "turn")}
        self.draft.log("turn/start", time, data)

    def end_turn(self, time: int, reason: Object, origin: Object) -> None:
        """End the open turn. Null case: none is open."""
        if self._in_turn:
            self._in_turn = False
            origin = _part(origin, "turn-end")
            data = {"turn": self._turn, "reason": reason, "origin": origin}
            self.draft.log("turn/end", time, data)

    def user(
        self,
        time: int,
        message_id: str,
        content: list[JSONValue],
        source: Object,
        origin: Object,
        *,
        is_prompt: bool = False,
        cites: tuple[int, ...] = (),
    ) -> int:
        """Add what was said to the model; a prompt begins a turn. Returns its number."""
        if is_prompt:
            self.start_turn(time, origin)
        data = _user_data(message_id, content, source, origin)
        number = self.draft.append("user/message", time, data, cites=cites)
        if is_prompt:
            self.prompts.add(number)
        return number

    def summary(
        self,
        time: int,
        message_id: str,
        content: list[JSONValue],
        origin: Object,
        *,
        first: int | None = None,
        last: int | None = None,
        facts: Object | None = None,
    ) -> int:
        """
        Add what a compaction put in the place of the nodes from *first* to *last*; None
        stands for the ends of the surface. On an empty surface it is the first message.
        """
        nodes = self.draft.nodes
        source = {**plugin("compact"), **(facts or {})}
        data = _user_data(message_id, content, source, origin)
        if not len(nodes):
            return self.draft.append("user/message", time, data)
        return self.draft.replace(
            nodes[0] if first is None else first,
            nodes[-1] if last is None else last,
            "user/message",
            time,
            data,
        )

    def assistant(
        self,
        time: int,
        message_id: str,
        content: list[JSONValue],
        origin: Object,
        *,
        provider: str,
        model: JSONValue,
        usage: Object | None = None,
        cites: tuple[int, ...] = (),
        is_open: bool = False,
    ) -> int:
        """
        Add an answer of the model, which begins a step; returns its number.

        Args:
            is_open: Wait with it, and with what comes behind it, for
                :meth:`extend_answer`, until :meth:`close_answer`.
        """
        self.close_answer()
        self.ensure_turn(time, origin)
        self._step += 1
        data = self._answer_data(message_id, content, origin, provider, model, usage)
        if is_open:
            self.draft.hold(self.draft.count)
            self.answer = data
        return self.draft.append("assistant/message", time, data, cites=cites)

    def _answer_data(
        self,
        message_id: str,
        content: list[JSONValue],
        origin: Object,
        provider: str,
        model: JSONValue,
        usage: Object | None,
    ) -> Object:
        source = {
            "kind": "model",
            "provider": provider,
            "model": model if type(model) is str and model else "unknown",
        }
        data: Object = {
            "turn": max(self._turn, 1),
            "step": max(self._step, 1),
            "message": {
                "id": message_id,
                "role": "assistant",
                "content": content,
                "source": source,
            },
        }
        if usage:
            data["usage"] = usage
        data["origin"] = origin
        return data

    def extend_answer(
        self, content: list[JSONValue], origin: Object | None, *, usage: Object | None = None
    ) -> int | None:
        """
        Add to the open answer what another record says of it; returns its number, None
        where none is open any more.
        """
        if self.answer is None or self.draft.held is None:
            self.answer = None
            return None
        self.answer["message"]["content"] += content
        whole = self.answer.pop("origin")
        if usage:
            self.answer["usage"] = usage
        if origin is not None:
            whole.setdefault("more", []).append(origin)
            whole["digest"] = digest_of(f"{whole['digest']}{origin['digest']}".encode())
        self.answer["origin"] = whole
        return self.draft.held

    def close_answer(self) -> None:
        """Wait no longer: no record that comes belongs to the open answer. Null case: none is."""
        if self.answer is not None:
            self.answer = None
            self.draft.release()

    def call(
        self, time: int, call_id: str, name: JSONValue, arguments: JSONValue, origin: Object
    ) -> int:
        """Add a call of a tool; returns its number."""
        self.ensure_turn(time, origin)
        data = {
            "turn": self._turn,
            "step": max(self._step, 1),
            "callId": call_id,
            "name": name if type(name) is str else "",
            "arguments": arguments_text(arguments),
            "origin": origin,
        }
        number = self.draft.log("tool/call", time, data)
        self._unanswered.setdefault(call_id, []).append(number)
        return number

    def result(
        self,
        time: int,
        message_id: str,
        call_id: str,
        content: list[JSONValue],
        origin: Object,
        *,
        is_error: bool = False,
        meta: JSONValue = None,
    ) -> int:
        """Add a tool's result; it answers the newest call of its id that has none."""
        self.ensure_turn(time, origin)
        waiting = self._unanswered.get(call_id)
        cites: tuple[int, ...] = ()
        if waiting:
            cites = (waiting.pop(),)
            if not waiting:
                del self._unanswered[call_id]
        block: Object = {"type": "tool-result", "toolCallId": call_id, "content": content}
        if is_error:
            block["isError"] = True
        data: Object = {
            "turn": self._turn,
            "step": max(self._step, 1),
            "message": {
                "id": message_id,
                "role": "user",
                "content": [block],
                "source": {"kind": "tool", "callId": call_id},
            },
        }
        if meta is not None:
            data["meta"] = meta
        data["origin"] = origin
        number = self.draft.append(TOOL_RESULT, time, data, cites=cites)
        self.results[call_id] = number
        return number

    def revise_answer(
        self,
        answer: int,
        time: int,
        message_id: str,
        content: list[JSONValue],
        origin: Object,
        *,
        provider: str,
        model: JSONValue,
        usage: Object | None = None,
    ) -> int:
        """Put what an answer, a node, says now in the place of what it said."""
        self.close_answer()
        data = self._answer_data(message_id, content, origin, provider, model, usage)
        return self.draft.replace(answer, answer, "assistant/message", time, data)

    def revise_user(
        self,
        message: int,
        time: int,
        message_id: str,
        content: list[JSONValue],
        source: Object,
        origin: Object,
    ) -> int:
        """Put what was said to the model, a node, in another form in its own place."""
        data = _user_data(message_id, content, source, origin)
        number = self.draft.replace(message, message, "user/message", time, data)
        if message in self.prompts:
            self.prompts.add(number)
        return number

    def clear_result(
        self,
        time: int,
        call_id: str,
        content: list[JSONValue],
        origin: Object,
        *,
        cites: tuple[int, ...] = (),
    ) -> int | None:
        """
        Give the newest result of a call another content; None where none is on the surface.
        """
        result = self.results.get(call_id)
        if result is None or result not in self.draft.nodes:
            return None
        number = self.draft.rewrite_result(
            result, time, content, _part(origin, f"clear:{call_id}"), cites=cites
        )
        self.results[call_id] = number
        return number

    def keep(self, record: Record, kind: JSONValue, time: int | None, key: str) -> int:
        """Keep a record as it is, in a log-only event of the type ``TOOL/KIND``."""
        origin = record.origin(self.tool, key, {})
        at = self.at(time, origin)
        data = {"record": record.value, "origin": origin}
        return self.draft.log(self.kept_type(kind), at, data)

    def kept_type(self, kind: JSONValue) -> str:
        """Return the event type of records of a kind that keep their form."""
        if type(kind) is not str:
            return f"{self.tool}/record"
        found = self._kinds.get(kind)
        if found is None:
            found = f"{self.tool}/{kind}"
            try:
                check_event_type(found)
            except ValueRejected:
                found = f"{self.tool}/record"
            if len(self._kinds) < KINDS_KEPT_MAX:
                self._kinds[kind] = found
        return found

    def title(self, time: int, title: str, source: Object, origin: Object) -> int:
        """Name the session."""
        data = {"title": title, "messageSeqs": [], "source": source, "origin": origin}
        return self.draft.log("session/title", time, data)

    def ensure_turn(self, time: int, origin: Object) -> None:
        """Begin a turn where none is open: a transcript may start in the middle of one."""
        if not self._in_turn:
            self.start_turn(time, origin)


def arguments_text(arguments: JSONValue) -> str:
    """Return a call's arguments as a text of JSON; a text stays as it is."""
    if type(arguments) is str:
        return arguments
    return orjson.dumps(arguments).decode()


def _user_data(message_id: str, content: list[JSONValue], source: Object, origin: Object) -> Object:
    return {
        "id": message_id,
        "role": "user",
        "content": content,
        "source": source,
        "origin": origin,
    }


def sibling(origin: Object, key: str) -> Object:
    """Return the origin of another entry that comes of the same record."""
    found = {name: origin[name] for name in _PLACE if name in origin}
    found["key"] = key
    return found


def _part(origin: Object, part: str) -> Object:
    return sibling(origin, f"{origin['key']}#{part}")


_PLACE: Final[tuple[str, ...]] = ("tool", "key", "digest", "line", "offset", "bytes", "at", "time")
