"""
The lines of one Claude Code session, as entries.
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
    sibling,
    text_block,
)
from .records import Record
from .times import iso_ms

__all__ = ["ClaudeSession"]

TOOL: Final = "claude-code"
INTERRUPTED: Final = "[Request interrupted by user"
COMMANDS: Final = ("<command-name>", "<command-message>")
LOCAL_OUTPUT: Final = ("<local-command-stdout>", "<local-command-stderr>")
NO_PROMPTS: Final = (INTERRUPTED, *LOCAL_OUTPUT)
BOUNDARY_FACTS: Final[tuple[str, ...]] = ("trigger", "preTokens")
ABSENT: Final = object()
# What an event and its key say themselves.
SAID: Final = frozenset({"type", "uuid", "timestamp", "message"})
SAID_OF_MESSAGE: Final = frozenset({"role", "content"})
SAID_OF_ANSWER: Final = frozenset({"type", "role", "content", "id", "model"})
CALL_KEYS: Final = frozenset({"type", "id", "name", "input"})
RESULT_KEYS: Final = frozenset({"type", "tool_use_id", "content", "is_error"})
CLEARED: Final = "[Old tool result content cleared]"


class ClaudeSession:
    """
    One session, line by line.

    Args:
        draft: Where its entries go.

        common: What lines repeat; it is left out of what is kept of each.

        is_whole: Whether the first line is the conversation's first.

        is_agent: Whether it is a sub-agent's, whose prompts no person wrote.
    """

    def __init__(
        self, draft: SessionDraft, common: Object, *, is_whole: bool, is_agent: bool
    ) -> None:
        self.draft = draft
        self._talk = Conversation(draft, TOOL)
        self._common = common
        self._is_whole = is_whole
        self._is_agent = is_agent
        # For each line the nearest entry at or above it in the tree that came on the surface,
        # and for each of these the one above it.
        self._nearest: dict[str, int | None] = {}
        self._above: dict[int, int | None] = {}
        # Entries that were rewritten, and what stands for them.
        self._successors: dict[int, int] = {}
        self._repeats = 0
        # The time of the line that is being taken.
        self._moment: int | None = None
        self._boundary: Object = {}
        # The message.id of the answer whose lines are still coming in.
        self._answer_id: str | None = None

    def add(self, record: Record, value: Object) -> bool:
        """
        Take the next line; returns whether it has a meaning here, else it was kept as it is.

        Args:
            value: The line; what *record* carries, where that is another one.
        """
        self.draft.weigh(record.place["bytes"])
        self._moment = iso_ms(value.get("timestamp"))
        uuid = value.get("uuid")
        key = uuid if type(uuid) is str and uuid else f"@{record.digest}"
        if key in self._nearest:
            # Written again: with a new parent behind a compaction, or by a fault.
            self._repeats += 1
            self._keep(record, value, f"{key}#again{self._repeats}", "repeated")
            return False
        kind = value.get("type")
        self._nearest[key] = self._nearest.get(str(value.get("parentUuid")))
        message = value.get("message")
        if kind == "user" and type(message) is dict:
            mapped = self._add_user(record, value, key, message)
        elif kind == "assistant" and type(message) is dict:
            mapped = self._add_assistant(record, value, key, message)
        elif kind == "system":
            mapped = self._add_system(record, value, key)
        elif kind in ("custom-title", "ai-title"):
            mapped = self._add_title(record, value, key)
        else:
            mapped = False
        if not mapped:
            self._keep(record, value, key, kind)
        return mapped

    def settle(self) -> None:
        """Complete what waits for further lines: none come, or none that belong to it."""
        self._answer_id = None
        self._talk.close_answer()

    def _keep(self, record: Record, value: Object, key: str, kind: JSONValue) -> None:
        subtype = value.get("subtype")
        if type(kind) is str and type(subtype) is str:
            kind = f"{kind}.{subtype}"
        self._talk.keep(record, kind, self._moment, key)

    # Prompts, results and whatever else is said to the model.

    def _add_user(self, record: Record, value: Object, key: str, message: Object) -> bool:
        blocks = _blocks(message.get("content"))
        if blocks is None:
            return False
        if value.get("isCompactSummary") is True:
            self._add_summary(record, value, key, message, blocks)
            return True
        if value.get("isVisibleInTranscriptOnly") is True:
            return False
        results = [block for block in blocks if block.get("type") == "tool_result"]
        if results:
            origin = self._origin(record, value, key, message)
            if not all(map(_is_plain, results)):
                origin.setdefault("fields", {})["results"] = results
            number = self._add_results(results, key, origin)
            if len(results) < len(blocks):
                said = [_block(block) for block in blocks if block.get("type") != "tool_result"]
                number = self._add_said(value, key, said, sibling(origin, f"{key}#said"))
        else:
            said = [_block(block) for block in blocks]
            is_prompt = (
                bool(said)
                and value.get("isMeta") is not True
                and not _first_text(said).startswith(NO_PROMPTS)
            )
            if is_prompt:
                self.settle()
                self._rewind(value)
            origin = self._origin(record, value, key, message)
            number = self._add_said(value, key, said, origin, is_prompt=is_prompt)
        self._place(key, number)
        return True

    def _add_said(
        self,
        value: Object,
        key: str,
        said: list[JSONValue],
        origin: Object,
        *,
        is_prompt: bool = False,
    ) -> int:
        time = self._talk.at(self._moment, origin)
        text = _first_text(said)
        source = self._source(text, is_prompt=is_prompt)
        number = self._talk.user(time, key, said, source, origin, is_prompt=is_prompt)
        if text.startswith(INTERRUPTED):
            reason = {"kind": "aborted", "reason": {"kind": "user"}}
            self._talk.end_turn(time, reason, origin)
        return number

    def _source(self, text: str, *, is_prompt: bool) -> Object:
        if text.startswith(COMMANDS):
            return plugin(TOOL, "command")
        if is_prompt and not self._is_agent:
            return HUMAN
        if is_prompt:
            return plugin(TOOL, "delegation")
        if text.startswith(LOCAL_OUTPUT):
            return plugin(TOOL, "local-output")
        return plugin(TOOL, "interrupted" if text.startswith(INTERRUPTED) else "meta")

    def _add_results(self, results: list[Object], key: str, origin: Object) -> int:
        time = self._talk.at(self._moment, origin)
        meta = None
        if len(results) == 1 and "fields" in origin:
            meta = origin["fields"].pop("toolUseResult", None)
        number = -1
        for position, block in enumerate(results):
            number = self._talk.result(
                time,
                key,
                str(block.get("tool_use_id") or ""),
                [_block(part) for part in _blocks(block.get("content")) or []],
                origin if position == 0 else sibling(origin, f"{key}#{position}"),
                is_error=block.get("is_error") is True,
                meta=meta,
            )
        return number

    def _rewind(self, value: Object) -> None:
        """Cut off what a prompt abandons: all behind its parent, where a prompt is there."""
        nodes, prompts = self.draft.nodes, self._talk.prompts
        parent = value.get("parentUuid")
        anchor: int | None = None
        if parent is None:
            if not self._is_whole:
                return
            start = 0
        else:
            anchor = self._ancestor(parent)
            if anchor is None:
                return
            start = nodes.index(anchor) + 1
        if any(nodes[place] in prompts for place in range(start, len(nodes))):
            self.draft.cut_behind(anchor)

    def _place(self, key: str, number: int) -> None:
        """Note that a line came on the surface, as an entry of its own or as a part of one."""
        self._above.setdefault(number, self._nearest[key])
        self._nearest[key] = number

    def _current(self, entry: int | None) -> int | None:
        """Return the node that stands for an entry now, None where none does."""
        passed = []
        while entry is not None and entry in self._successors:
            passed.append(entry)
            entry = self._successors[entry]
        if entry is None:
            return None
        for gone in passed:
            self._successors[gone] = entry
        return entry if entry in self.draft.nodes else None

    def _ancestor(self, uuid: JSONValue) -> int | None:
        """Return the nearest node at or above a line, None where none is on the surface."""
        entry = self._nearest.get(str(uuid))
        node = None
        passed = []
        while entry is not None and (node := self._current(entry)) is None:
            passed.append(entry)
            entry = self._above.get(entry)
        for gone in passed:
            self._above[gone] = entry  # what left the surface never comes back
        return node

    # Compaction.

    def _add_summary(
        self, record: Record, value: Object, key: str, message: Object, blocks: list[Object]
    ) -> None:
        self.settle()
        origin = self._origin(record, value, key, message)
        time = self._talk.at(self._moment, origin)
        boundary, self._boundary = self._boundary, {}
        facts = {name: boundary[name] for name in BOUNDARY_FACTS if name in boundary}
        content = [_block(block) for block in blocks]
        last = None
        head = self._preserved_from(boundary)
        if head is not None:
            place = self.draft.nodes.index(head)
            if place == 0:
                # All is preserved: nothing stands where the summary would.
                source = {**plugin("compact"), **facts}
                self._place(key, self._talk.user(time, key, content, source, origin))
                return
            last = self.draft.nodes[place - 1]
        self._place(key, self._talk.summary(time, key, content, origin, last=last, facts=facts))

    def _preserved_from(self, boundary: Object) -> int | None:
        """Return the first node that a compaction preserves, None where it preserves none."""
        segment, messages = boundary.get("preservedSegment"), boundary.get("preservedMessages")
        uuids = [segment.get("headUuid")] if type(segment) is dict else []
        named = messages.get("uuids") if type(messages) is dict else None
        uuids += named if type(named) is list else []
        heads = (self._current(self._nearest.get(str(uuid))) for uuid in uuids)
        return next((head for head in heads if head is not None), None)

    def _add_system(self, record: Record, value: Object, key: str) -> bool:
        subtype = value.get("subtype")
        if subtype == "compact_boundary":
            self.settle()
            metadata = value.get("compactMetadata")
            self._boundary = metadata if type(metadata) is dict else {}
        elif subtype == "microcompact_boundary":
            return self._clear_results(record, value, key)
        elif subtype in ("turn_duration", "stop_hook_summary"):
            self._keep(record, value, key, "system")
            origin = record.origin(TOOL, key)
            time = self._talk.at(self._moment, origin)
            self._talk.end_turn(time, {"kind": "completed"}, origin)
            return True
        return False

    def _clear_results(self, record: Record, value: Object, key: str) -> bool:
        metadata = value.get("microcompactMetadata")
        ids = metadata.get("compactedToolIds") if type(metadata) is dict else None
        if type(ids) is not list:
            return False
        origin = record.origin(TOOL, key)
        time = self._talk.at(self._moment, origin)
        boundary = self._talk.keep(record, "system.microcompact_boundary", self._moment, key)
        for call_id in dict.fromkeys(named for named in ids if type(named) is str):
            before = self._talk.results.get(call_id)
            number = self._talk.clear_result(
                time, call_id, [text_block(CLEARED)], origin, cites=(boundary,)
            )
            if number is not None and before is not None:
                self._successors[before] = number
        return True

    # Answers.

    def _add_assistant(self, record: Record, value: Object, key: str, message: Object) -> bool:
        blocks = _blocks(message.get("content"))
        if blocks is None or value.get("isApiErrorMessage") is True:
            return False
        message_id = message.get("id")
        if type(message_id) is not str or not message_id:
            message_id = key
        origin = self._origin(record, value, key, message)
        content = [_block(block) for block in blocks]
        usage = _usage(message.get("usage"))
        number = None
        if message_id == self._answer_id:
            number = self._talk.extend_answer(content, origin, usage=usage)
        time = self._talk.at(self._moment, origin)
        if number is None:
            number = self._talk.assistant(
                time,
                message_id,
                content,
                origin,
                provider="anthropic",
                model=message.get("model"),
                usage=usage,
                is_open=True,
            )
            self._answer_id = message_id
        for block, shown in zip(blocks, content, strict=True):
            if block.get("type") == "tool_use":
                call_id = str(block.get("id") or "")
                call_origin = record.origin(TOOL, f"{key}#call:{call_id}")
                self._talk.call(time, call_id, shown["name"], shown["arguments"], call_origin)
        self._place(key, number)
        return True

    def _add_title(self, record: Record, value: Object, key: str) -> bool:
        kind = value["type"]
        title = value.get("customTitle" if kind == "custom-title" else "aiTitle")
        if type(title) is not str or not title:
            return False
        source = HUMAN if kind == "custom-title" else {"kind": "provider", "provider": TOOL}
        origin = self._origin(record, value, key, {})
        time = self._talk.at(self._moment, origin)
        self._talk.title(time, title, source, origin)
        return True

    def _origin(self, record: Record, value: Object, key: str, message: Object) -> Object:
        """
        Return the origin of a line, with all that it says beyond the event that it becomes.

        The event has its text, its time and the names of its roles, the key is its uuid.
        """
        common = self._common
        fields = {
            name: item
            for name, item in value.items()
            if name not in SAID and common.get(name, ABSENT) != item
        }
        timestamp: JSONValue = value.get("timestamp")
        if timestamp is not None and not (
            # As it is always written it says no more than the event's time.
            self._moment is not None and len(timestamp) == 24 and timestamp[23] == "Z"
        ):
            fields["timestamp"] = timestamp
        if "uuid" in value and value["uuid"] != key:
            fields["uuid"] = value["uuid"]
        if value["type"] == "assistant":
            said = SAID_OF_ANSWER
            get = message.get
            is_usual = (
                get("role") == "assistant"
                and get("type", "message") == "message"
                and type(get("id", "")) is type(get("model", "")) is str
            )
        else:
            said = SAID_OF_MESSAGE
            is_usual = message.get("role") == "user"
        rest = message
        if is_usual:
            rest = {name: item for name, item in message.items() if name not in said}
        if rest:
            fields["message"] = rest
        if value is not record.value:
            fields["carrier"] = _carrier(record.value, common)
        return record.origin(TOOL, key, fields)


def _carrier(value: Object, common: Object) -> Object:
    """Return a progress line without the line that it carries."""
    kept = {name: item for name, item in value.items() if common.get(name) != item}
    data = kept.get("data")
    if type(data) is dict:
        kept["data"] = {
            name: item
            for name, item in data.items()
            if name != "message" and common.get(name) != item
        }
    return kept


def _blocks(content: JSONValue) -> list[Object] | None:
    """Return a message's content as blocks; None where it is no content."""
    if type(content) is str:
        return [text_block(content)]
    if type(content) is not list:
        return None
    return [
        block if type(block) is dict else text_block(arguments_text(block)) for block in content
    ]


def _block(block: Object) -> Object:
    """Return a block in the common form; one of another kind stays as it is."""
    kind = block.get("type")
    if kind == "thinking":
        rest = {name: item for name, item in block.items() if name not in ("type", "thinking")}
        return {"type": "reasoning", "text": block.get("thinking") or "", **rest}
    if kind == "tool_use":
        call = call_block(block.get("id"), block.get("name"), block.get("input"))
        if not block.keys() <= CALL_KEYS:
            rest = {name: item for name, item in block.items() if name not in CALL_KEYS}
            call = {**rest, **call}
        return call
    return block


def _is_plain(result: Object) -> bool:
    """Tell whether the block of a result says no more than what becomes of it."""
    return (
        result.keys() <= RESULT_KEYS
        and type(result.get("is_error", False)) is bool
        and type(result.get("content", "")) in (str, list)
    )


def _first_text(blocks: list[Object]) -> str:
    for block in blocks:
        text = block.get("text")
        if block.get("type") == "text" and type(text) is str:
            return text.lstrip()
    return ""


_USAGE: Final = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_input_tokens": "cacheReadTokens",
    "cache_creation_input_tokens": "cacheWriteTokens",
}


def _usage(usage: JSONValue) -> Object:
    if type(usage) is not dict:
        return {}
    return {
        ours: usage[theirs] for theirs, ours in _USAGE.items() if type(usage.get(theirs)) is int
    }
