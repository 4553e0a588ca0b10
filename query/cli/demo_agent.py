"""
The demo's harness: a small agent with real tools and no model.

What a model would say is scripted from what the tools really answered. Everything else
is as in any harness: turns and steps, a streamed answer, calls and their results, a
context budget, and compaction when it is reached. Each step is durable before the next.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final
from uuid import uuid4

from attrs import frozen

from eventlog.live import Session
from eventlog.model import APPEND, Event, Replace
from eventlog.store import EventStore
from eventlog.values import JSONValue

__all__ = ["Agent", "Compaction", "Tools", "node_text", "tokens"]

CONTEXT_BUDGET_TOKENS: Final = 3_750
COMPACT_AT_TOKENS: Final = CONTEXT_BUDGET_TOKENS * 8 // 10
OUTPUT_CHARACTERS_MAX: Final = 6_000


class Tools:
    """
    Read-only tools over one folder of source code.

    Each answers in text. What is missing or unreadable is an answer too: ``error: …``.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def list_files(self, folder: str) -> str:
        """List the Python files of *folder* with their sizes in bytes."""
        files = sorted((self.root / folder).glob("*.py"))
        return "\n".join(f"{file.name}  {file.stat().st_size}" for file in files)

    def read_file(self, path: str) -> str:
        """Return a file's text, its front where it is long."""
        text = (self.root / path).read_text(encoding="utf-8", errors="replace")
        if len(text) <= OUTPUT_CHARACTERS_MAX:
            return text
        left = len(text) - OUTPUT_CHARACTERS_MAX
        return f"{text[:OUTPUT_CHARACTERS_MAX]}\n… {left} more characters"

    def search(self, pattern: str, folder: str) -> str:
        """Find the lines that match *pattern* in the Python files of *folder*."""
        expression = re.compile(pattern)
        found = []
        for file in sorted((self.root / folder).glob("*.py")):
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
            for number, line in enumerate(lines, 1):
                if expression.search(line):
                    found.append(f"{file.relative_to(self.root)}:{number}: {line.strip()}")
        return "\n".join(found[:30] + ([f"… {len(found) - 30} more lines"] if found[30:] else []))

    def run(self, name: str, arguments: Mapping[str, str]) -> str:
        """Run one tool."""
        tool: Callable[..., str] = getattr(self, name)
        try:
            return tool(**arguments) or "nothing found"
        except OSError as error:
            return f"error: {error}"


@frozen
class Compaction:
    """
    What one compaction did.

    Attributes:
        checkpoint: The event that took the place of what was replaced.

        before: The surface before it, in order.

        after: The surface after it.
    """

    checkpoint: Event
    before: tuple[Event, ...]
    after: tuple[Event, ...]


class Agent:
    """
    Answer prompts with tool calls, inside a context budget.

    Args:
        session: The live session to write to.

        store: Where its events are made durable, after each step.

        tools: What it can do.
    """

    def __init__(self, session: Session, store: EventStore, tools: Tools) -> None:
        self.session = session
        self.compactions: list[Compaction] = []
        self._store = store
        self._tools = tools
        self._stored = 0
        self._turn = 0
        self._step = 0

    def begin(self, prompt: str) -> None:
        """Open a turn with what the user says."""
        self._turn += 1
        self._step = 0
        self.session.append("turn/start", {"turn": self._turn})
        message = _message("user", [_text(prompt)], {"kind": "user"})
        self.session.append("user/message", message, surface_op=APPEND)

    def call(self, thought: str, tool: str, **arguments: str) -> str:
        """Take one step: say *thought*, call *tool*, and return what it answered."""
        self._compact_if_full()
        call_id = f"call_{uuid4().hex[:12]}"
        encoded = json.dumps(arguments)
        with_call = {"type": "tool-call", "id": call_id, "name": tool, "arguments": encoded}
        self._say(thought, with_call)
        names = {"turn": self._turn, "step": self._step}
        called = self.session.append(
            "tool/call", {**names, "callId": call_id, "name": tool, "arguments": encoded}
        )
        answer = self._tools.run(tool, arguments)
        result: JSONValue = {
            "type": "tool-result",
            "toolCallId": call_id,
            "content": [_text(answer)],
            "isError": answer.startswith("error: "),
        }
        self.session.append(
            "tool/result",
            {**names, "message": _message("user", [result], {"kind": "tool", "callId": call_id})},
            surface_op=APPEND,
            source_event_seqs=[called.seq],
        )
        self._end_step()
        return answer

    def answer(self, text: str) -> None:
        """Take the last step of a turn: say *text*, and close the turn."""
        self._compact_if_full()
        self._say(text)
        self._end_step()
        self.session.append("turn/end", {"turn": self._turn, "reason": {"kind": "completed"}})
        self._store_news()

    def surface(self) -> tuple[Event, ...]:
        """Return what the agent has before its eyes."""
        log = self.session.snapshot()
        return tuple(log.read(seq, seq + 1)[0] for seq in log.nodes())

    def _say(self, text: str, call: Mapping[str, JSONValue] | None = None) -> None:
        """Open a step and stream *text*, then log it as the whole message it became."""
        self._step += 1
        names = {"turn": self._turn, "step": self._step}
        self.session.append("step/start", names)
        chunks = [
            self.session.append(
                "assistant/chunk",
                {**names, "chunk": {"type": "text-delta", "index": 0, "text": piece}},
            )
            for piece in re.findall(r".{1,4}", text, re.DOTALL)
        ]
        blocks = [_text(text), *([dict(call)] if call else [])]
        source = {"kind": "model", "provider": "none", "model": "scripted"}
        self.session.append(
            "assistant/message",
            {**names, "message": _message("assistant", blocks, source)},
            surface_op=APPEND,
            source_event_seqs=[chunk.seq for chunk in chunks],
        )

    def _end_step(self) -> None:
        self.session.append("step/end", {"turn": self._turn, "step": self._step})
        self._store_news()

    def _store_news(self) -> None:
        events = self.session.read(self._stored, self.session.length)
        self._stored = self._store.append(self.session.header, events)

    def _compact_if_full(self) -> None:
        before = self.surface()
        if sum(map(tokens, before)) < COMPACT_AT_TOKENS:
            return
        # A call and its result stay together: the newest exchange is kept, all before
        # it, an earlier checkpoint too, gives way to one summary.
        replaced = before[:-2]
        seqs = [event.seq for event in replaced]
        bracket = {"compactionId": str(uuid4()), "turn": self._turn}
        start = self.session.append("compaction/start", bracket)
        blocks = [_text(summarised(replaced))]
        summary = self.session.append(
            "compaction/summary",
            {
                "compactionId": bracket["compactionId"],
                "summary": blocks,
                "shadowedRange": {"start": seqs[0], "end": seqs[-1]},
                "shadowedSeqs": seqs,
                "shadowedTokenCount": sum(map(tokens, replaced)),
                "provider": "none",
                "model": "scripted",
            },
        )
        source = {
            "kind": "plugin",
            "plugin": "compact",
            "compactionId": bracket["compactionId"],
        }
        framed = [
            _text("A summary of the conversation so far.\n\n<compacted-summary>"),
            *blocks,
            _text("</compacted-summary>"),
        ]
        checkpoint = self.session.append(
            "user/message",
            _message("user", framed, source),
            surface_op=Replace(seqs[0], seqs[-1]),
            source_event_seqs=[start.seq, summary.seq, *seqs],
        )
        self.session.append("compaction/end", bracket)
        self._store_news()
        self.compactions.append(Compaction(checkpoint, before, self.surface()))


def summarised(events: tuple[Event, ...]) -> str:
    """
    Sum up a stretch of conversation as a model would: what was asked, said and called.

    What the tools answered is dropped; that is where the details are.
    """
    lines: list[str] = []
    for event in events:
        for block in blocks_of(event):
            if block.get("type") == "text":
                said = str(block["text"]).strip()
                if event.type == "assistant/message":
                    lines.append(f"- {said}")
                elif said.startswith("- "):
                    lines += said.splitlines()  # an earlier summary
                elif "compacted-summary>" not in said:
                    lines.append(f"- The user asked: {said}")
    return "\n".join(lines)


def blocks_of(event: Event) -> Iterator[dict[str, JSONValue]]:
    """Yield the content blocks of a node."""
    data = event.data
    message = data.get("message", data)
    yield from message["content"]


def node_text(event: Event) -> str:
    """Return what a node says: its texts, its calls, its results."""
    parts = []
    for block in blocks_of(event):
        if block["type"] == "text":
            parts.append(block["text"])
        elif block["type"] == "tool-call":
            parts.append(f"→ {block['name']}({block['arguments']})")
        else:
            parts += [inner["text"] for inner in block["content"]]
    return "\n".join(parts)


def tokens(event: Event) -> int:
    """Estimate what a node costs in a context: four characters to a token."""
    return len(node_text(event)) // 4 + 8


def _message(
    role: str, content: list[JSONValue], source: Mapping[str, JSONValue]
) -> dict[str, JSONValue]:
    return {"id": str(uuid4()), "role": role, "content": content, "source": dict(source)}


def _text(text: str) -> JSONValue:
    return {"type": "text", "text": text}
