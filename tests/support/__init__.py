"""Small factories and paths that tests share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from eventlog import APPEND, Event, Replace, SessionHeader

__all__ = ["IN_MEMORY", "corpus", "log_only", "make_header", "message", "messages", "replacement"]

# A file system in memory, where there is one: for tests of which the disk is no part.
IN_MEMORY = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None


def make_header(session_id: str = "s1", *, created_at: int = 1_000, **fields: Any) -> SessionHeader:
    """A header with the fields that a test does not care about filled in."""
    return SessionHeader(session_id, created_at, **fields)


def message(seq: int, text: str | None = None, **fields: Any) -> Event:
    """A ``user/message`` at the end of the surface."""
    data = {
        "id": f"m{seq}",
        "role": "user",
        "content": [{"type": "text", "text": f"text {seq}" if text is None else text}],
        "source": {"kind": "user"},
    }
    return Event(
        seq,
        fields.pop("time", 1_000 + seq),
        "user/message",
        data,
        surface_op=fields.pop("surface_op", APPEND),
        **fields,
    )


def messages(count: int, *, start: int = 0) -> list[Event]:
    """Consecutive messages from seq *start* on."""
    return [message(seq) for seq in range(start, start + count)]


def replacement(seq: int, start: int, end: int, shadowed: list[int], **fields: Any) -> Event:
    """A message that replaces the nodes from *start* to *end* and cites *shadowed*."""
    return message(
        seq, f"summary {seq}", surface_op=Replace(start, end), source_event_seqs=shadowed, **fields
    )


def log_only(seq: int, type: str = "x/note", **fields: Any) -> Event:
    """An event that never is on the surface."""
    return Event(seq, 1_000 + seq, type, fields.pop("data", {"note": seq}), **fields)


def corpus(*parts: str) -> Path:
    """A path in the corpus of recorded logs; the test is skipped where there is none."""
    root = os.environ.get("EVENTLOG_CORPUS")
    if root is None:
        pytest.skip("needs recorded logs; EVENTLOG_CORPUS names their folder")
    path = Path(root, *parts)
    if not path.exists():
        pytest.skip(f"the corpus has no {'/'.join(parts)}")
    return path
