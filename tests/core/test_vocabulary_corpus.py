"""Text and roles of recorded logs, against what the system that wrote them answered."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eventlog import Event
from eventlog.codec import decode_line
from eventlog.vocabulary import DEFAULT_VOCABULARY
from support import corpus


def recorded() -> Iterator[tuple[str, list[Event], dict[str, Any]]]:
    """Name, events and recorded answers of each log."""
    for path in sorted(corpus("dsh-oracle").glob("*.json")):
        log = Path(str(corpus("dsh")), path.stem + ".jsonl")
        events: list[Event] = []
        for line in log.read_bytes().split(b"\n")[1:]:
            if line:
                decoded = decode_line(line)
                assert not hasattr(decoded, "created_at")
                events += decoded if isinstance(decoded, list) else [decoded]
        yield path.stem, events, json.loads(path.read_bytes())


def test_text_agrees_with_the_recorder() -> None:
    """
    Every event's searchable text is that of the system that wrote the log. Where that
    one fails, on messages of old shape, ours has the text of the blocks.
    """
    count: Counter[str] = Counter()
    for name, events, answers in recorded():
        for event, answer in zip(events, answers["events"], strict=True):
            text = DEFAULT_VOCABULARY.text(event)
            if isinstance(answer["text"], dict):
                count["failed there"] += 1
                assert text or not event.data.get("content"), (name, event)
            else:
                assert answer["text"] == text, (name, event)
                count["with text" if text else "without"] += 1
    assert count["with text"] > 700
    assert count["without"] > 11_000
    assert count["failed there"] < 30


def test_role_agrees_with_the_recorder() -> None:
    """
    Every event's role is that of the message derived by the system that wrote the log.
    Messages of old shape, where that one fails or gives none, have one here.
    """
    count: Counter[str] = Counter()
    for name, events, answers in recorded():
        for event, answer in zip(events, answers["events"], strict=True):
            role = DEFAULT_VOCABULARY.role(event)
            old = event.is_node and "message" not in event.data and "id" not in event.data
            if old:
                count["old"] += 1
                assert role in ("user", "assistant"), (name, event)
            else:
                assert answer["derives"] == role, (name, event)
                count[str(role)] += 1
    assert count["user"] > 350
    assert count["assistant"] > 240
    assert 0 < count["old"] < 40


def test_text_agrees_on_generated_logs() -> None:
    """
    The searchable documents of 1,500 generated logs agree, in seq order.
    """
    compared = 0
    with corpus("fuzz", "surface.jsonl").open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            case = json.loads(line)
            if "documents" not in case or not case["fold"]["ok"]:
                continue
            documents = [
                (event.seq, text)
                for event in (decode_line(json.dumps(row).encode()) for row in case["events"])
                if isinstance(event, Event) and (text := DEFAULT_VOCABULARY.text(event))
            ]
            assert [(doc["seq"], doc["text"]) for doc in case["documents"]] == documents, case["id"]
            compared += 1
    assert compared > 500
