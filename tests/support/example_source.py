"""A small tool with transcripts of its own, and a source that reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from eventlog import EventStore, SessionHeader
from eventlog.drafts import SessionDraft
from eventlog.sources import Item, Opened, RecordTally, Transcript, TranscriptSource, Unreadable
from eventlog.values import JSONValue

__all__ = ["ExampleSource", "surface_messages"]


class ExampleSource(TranscriptSource):
    """
    Reads files that hold a JSON list of records ``{"key", "kind", "text", …}``.

    Kinds: ``user`` and ``assistant`` are messages, ``result`` a tool's, ``note`` is no
    node, ``compact`` replaces the first *n* nodes, ``cut`` cuts off all behind the first
    *n*, ``clear`` empties the tool result that stands at *n*, where one does.
    """

    name = "example"
    title = "Example"
    snapshots = True

    def usual_places(self, environ: Mapping[str, str]) -> list[Path]:
        return []

    def find(self, path: Path) -> Iterator[Transcript | Unreadable]:
        yield Transcript(path, size_bytes=path.stat().st_size)

    def read(self, transcript: Transcript, tally: RecordTally) -> Iterator[Item]:
        draft = SessionDraft(SessionHeader("s", 1, extra={"import": {"tool": self.name}}))
        yield Opened(draft.header)
        results: set[int] = set()
        for record in json.loads(transcript.path.read_bytes()):
            tally.found += 1
            tally.mapped += 1
            add(draft, record, results)
            yield from draft.take()


def add(draft: SessionDraft, record: dict[str, Any], results: set[int]) -> None:
    """Add the entries of one record to *draft*; *results* are its tool results."""
    digest = blake2b(json.dumps(record).encode(), digest_size=16).hexdigest()
    origin: dict[str, JSONValue] = {"tool": "example", "key": record["key"], "digest": digest}
    kind, text, n = record["kind"], record["text"], record.get("n", 0)
    content = [{"type": "text", "text": text}]
    if kind == "user":
        draft.append("user/message", 1, message("user", content, origin))
    elif kind == "assistant":
        draft.append(
            "assistant/message", 1, {"message": message("assistant", content, {}), "origin": origin}
        )
    elif kind == "result":
        block = {"type": "tool-result", "toolCallId": record["key"], "content": content}
        results.add(
            draft.append(
                "tool/result", 1, {"message": message("user", [block], {}), "origin": origin}
            )
        )
    elif kind == "compact" and 0 < n <= len(draft.nodes):
        first, last = draft.nodes[0], draft.nodes[n - 1]
        draft.replace(first, last, "user/message", 1, message("user", content, origin))
    elif kind == "clear" and n < len(draft.nodes) and draft.nodes[n] in results:
        note = draft.log("example/clear", 1, {"origin": {**origin, "key": record["key"] + "#note"}})
        results.add(draft.rewrite_result(draft.nodes[n], 1, content, origin, cites=[note]))
    elif kind == "cut" and n <= len(draft.nodes):
        draft.log("example/cut", 1, {"n": n, "origin": origin})
        draft.cut_behind(draft.nodes[n - 1] if n else None)
    else:
        draft.log("example/note", 1, {"text": text, "origin": origin})


def message(role: str, content: list[JSONValue], origin: dict[str, JSONValue]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": "m",
        "role": role,
        "content": content,
        "source": {"kind": "user"},
    }
    return {**found, "origin": origin} if origin else found


def surface_messages(store: EventStore, session_id: str) -> list[JSONValue]:
    """What the model sees of a session: role and content of each message, in order."""
    snapshot = store.snapshot(session_id)
    found = []
    for seq in snapshot.nodes():
        event = snapshot.read(seq, seq + 1)[0]
        data = event.data
        if event.type.startswith("import/"):
            continue
        shown = data.get("message", data)
        found.append((event.type, shown["role"], shown["content"]))
    return found
