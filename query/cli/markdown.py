"""
A session as a Markdown document.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from attrs import define, field

from eventlog.model import Replace, SessionHeader
from eventlog.query.text import one_line, visible
from eventlog.vocabulary import Vocabulary

from .entries import Entry
from .output import counted
from .times import shown_time
from .transcript import blocks_of

__all__ = ["Markdown"]


@define
class Markdown:
    """
    Writes a conversation, entry by entry.

    What was said stands as it is, since most of it is Markdown itself; what tools were
    called with and answered stands in fences that nothing inside can close. Control
    characters are shown as escapes.

    Attributes:
        vocabulary: What the events mean.

        write: Takes the text.

        tools: Names of the tools called so far, by the call's id.
    """

    vocabulary: Vocabulary
    write: Callable[[str], object]
    tools: dict[str, str] = field(factory=dict)

    def begin(self, header: SessionHeader, length: int, title: str) -> None:
        """Write the title and the facts of the session."""
        self._paragraph(f"# {one_line(title or header.id)}")
        facts = [f"session `{one_line(header.id)}`", shown_time(header.created_at)]
        facts.append(counted(length, "event"))
        if header.cwd is not None:
            facts.append(f"in `{one_line(header.cwd)}`")
        if header.parent_session is not None:
            facts.append(f"child of `{one_line(header.parent_session)}`")
        self._paragraph(" · ".join(facts))

    def add(self, entry: Entry) -> None:
        """Write one event."""
        event = entry.event
        if not event.is_node:
            self._paragraph(f"*#{event.seq} {one_line(event.type)}: {one_line(entry.text)}*")
            return
        message = self.vocabulary.message(event)
        blocks = list(blocks_of(message))
        role = None if message is None else message.get("role")
        speaker = role if type(role) is str else event.type
        if any(block.get("type") == "tool-result" for block in blocks):
            speaker = "tool"
        elif isinstance(event.surface_op, Replace):
            self._paragraph("---\n\n*Context was compacted here; this took the place of it:*")
        marks = "" if entry.replaced_by is None else f" · replaced by #{entry.replaced_by}"
        self._paragraph(f"## {one_line(speaker).capitalize()} · #{event.seq}{marks}")
        for block in blocks:
            self._block(block)

    def _block(self, block: dict[str, Any]) -> None:
        kind = block.get("type")
        if kind == "text":
            self._paragraph(visible(str(block.get("text"))).strip("\n"))
        elif kind == "reasoning":
            lines = visible(str(block.get("text"))).strip("\n").split("\n")
            self._paragraph("\n".join(f"> {line}".rstrip() for line in lines))
        elif kind == "tool-call":
            name = str(block.get("name"))
            self.tools[str(block.get("id"))] = name
            self._paragraph(f"**→ {one_line(name)}**")
            self._fenced(str(block.get("arguments")), "json")
        elif kind == "tool-result":
            name = self.tools.get(str(block.get("toolCallId")), "result")
            failed = ", failed" if block.get("isError") is True else ""
            self._paragraph(f"**← {one_line(name)}**{failed}")
            for inner in blocks_of(block):
                if "text" in inner:
                    self._fenced(str(inner["text"]))
                else:
                    self._paragraph(f"*[{one_line(str(inner.get('type')))}]*")
        else:
            self._paragraph(f"*[{one_line(str(kind))}]*")

    def _fenced(self, text: str, language: str = "") -> None:
        text = visible(text).strip("\n")
        # A fence is closed by one at least as long.
        longest = max((len(run) for run in re.findall("`+", text)), default=0)
        fence = "`" * max(3, longest + 1)
        self._paragraph(f"{fence}{language}\n{text}\n{fence}")

    def _paragraph(self, text: str) -> None:
        if text:
            self.write(f"{text}\n\n")
