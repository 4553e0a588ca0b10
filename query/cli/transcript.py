"""
Writing a log as a conversation that one can read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from attrs import define, field

from eventlog.model import EventClass, Replace
from eventlog.query.corpus_snapshot import CorpusSnapshot
from eventlog.query.text import cut_characters, one_line
from eventlog.vocabulary import Vocabulary

from .entries import Entry
from .output import Screen
from .times import clock

__all__ = ["Transcript", "blocks_of", "is_conversation"]

# Of log-only types with text: a call is in its message already, chunks are its pieces.
_FOLDED_TYPES: Final = ("tool/call", "assistant/chunk")
_MARKER_TYPES: Final = ("session/end-seed", "compaction/prune")


def is_conversation(entry: Entry) -> bool:
    """Tell whether a reader of the conversation wants to see an event."""
    if entry.event.is_node:
        return True
    kind = entry.event.type
    return (bool(entry.text) and kind not in _FOLDED_TYPES) or kind in _MARKER_TYPES


_ROLE_STYLES: Final = {"user": "bold green", "assistant": "bold blue", "tool": "cyan"}
_LINES_MAX: Final = 16
_CHARACTERS_MAX: Final = 2_000


@define
class Transcript:
    """
    Writes entries one after the other.

    Attributes:
        screen: Where to.

        vocabulary: What the events mean.

        full: Whether nothing is folded.

        tools: Names of the tools called so far, by the call's id.
    """

    screen: Screen
    vocabulary: Vocabulary
    full: bool
    tools: dict[str, str] = field(factory=dict)

    def write(self, log: CorpusSnapshot, entries: Iterable[Entry]) -> int:
        """Write entries of *log*; returns how many there were."""
        count = 0
        for entry in entries:
            count += 1
            if entry.event.is_node:
                self._write_node(log, entry)
            else:
                self._write_marker(entry)
        return count

    def _write_marker(self, entry: Entry) -> None:
        event = entry.event
        if event.type == "session/end-seed":
            self.screen.rule("the events above were there before this session's own")
            return
        text = one_line(cut_characters(entry.text, _CHARACTERS_MAX).text)
        self.screen.cut_line((f"#{event.seq} {event.type}", "dim"), (f"  {text}", "dim"))

    def _write_node(self, log: CorpusSnapshot, entry: Entry) -> None:
        event = entry.event
        message = self.vocabulary.message(event)
        blocks = list(blocks_of(message))
        dim = entry.record.event_class is EventClass.SHADOWED
        op = event.surface_op
        results = [block for block in blocks if block.get("type") == "tool-result"]
        if isinstance(op, Replace) and not results:
            gone = len(log.replaced(event.seq))
            self.screen.rule(f"compacted: this took the place of {gone:,} messages", "yellow")
        if results:
            speaker = "tool"
        else:
            role = None if message is None else message.get("role")
            speaker = role if type(role) is str else event.type
        marks = [f"#{event.seq}", clock(event.time)]
        if entry.replaced_by is not None:
            marks.append(f"replaced by #{entry.replaced_by}")
        if entry.record.inherited:
            marks.append("inherited")
        style = "dim" if dim else _ROLE_STYLES.get(speaker, "bold")
        self.screen.line((speaker, style), (f"  {'  '.join(marks)}", "dim"))
        for block in blocks:
            self._write_block(block, "dim" if dim else "")
        self.screen.line()

    def _write_block(self, block: dict[str, Any], style: str) -> None:
        kind = block.get("type")
        if kind == "text":
            self._write_text(block.get("text"), style)
        elif kind == "reasoning":
            self._write_folded("thinking", block.get("text"), "dim italic")
        elif kind == "tool-call":
            name, call_id = str(block.get("name")), str(block.get("id"))
            self.tools[call_id] = name
            arguments = block.get("arguments")
            shown = arguments if isinstance(arguments, str) else str(arguments)
            if self.full:
                self.screen.body((f"→ {name} ", style or "cyan"), (shown, style), indent=2)
            else:
                line = one_line(cut_characters(shown, _CHARACTERS_MAX).text)
                self.screen.cut_line((f"  → {name} ", style or "cyan"), (_folded(line), style))
        elif kind == "tool-result":
            name = self.tools.get(str(block.get("toolCallId")), "")
            failed = " failed" if block.get("isError") is True else ""
            texts = [str(inner.get("text")) for inner in blocks_of(block) if "text" in inner]
            self._write_folded(f"← {name}{failed}".strip(), "\n".join(texts), style)
            for inner in blocks_of(block):
                if "text" not in inner:
                    self.screen.line((f"[{inner.get('type')}]", "dim"), indent=4)
        else:
            self.screen.line((f"[{kind}]", "dim"), indent=4)

    def _write_text(self, text: object, style: str) -> None:
        if type(text) is not str or not text.strip():
            return
        text = text.strip("\n")
        if self.full:
            self.screen.body((text, style))
            return
        cut = cut_characters(text, _CHARACTERS_MAX)
        lines = cut.text.split("\n")
        self.screen.body(("\n".join(lines[:_LINES_MAX]), style))
        left = len(text) - len("\n".join(lines[:_LINES_MAX]))
        if left > 0:
            self.screen.line((f"… {left:,} more characters; --full shows them", "dim"), indent=4)

    def _write_folded(self, label: str, text: object, style: str) -> None:
        text = text if type(text) is str else ""
        if self.full:
            self.screen.line((label, style or "cyan"), indent=2)
            self._write_text(text, style)
            return
        lines = text.count("\n") + 1 if text else 0
        size = "nothing" if not text else f"{lines:,} lines" if lines > 1 else "1 line"
        start = one_line(cut_characters(text, _CHARACTERS_MAX).text)
        self.screen.cut_line(
            (f"  {label} ", style or "cyan"), (f"({size}) ", "dim"), (_folded(start), style)
        )


def _folded(line: str) -> str:
    """Cut a line of folded text; a terminal may cut it shorter."""
    cut = cut_characters(line, 100)
    return f"{cut.text}…" if cut.truncated else cut.text


def blocks_of(message: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """Yield the content blocks of a message or a tool's result, whatever shape it has."""
    content = None if message is None else message.get("content")
    if type(content) is str:
        yield {"type": "text", "text": content}
    elif type(content) is list:
        for block in content:
            yield block if type(block) is dict else {"type": "text", "text": str(block)}
