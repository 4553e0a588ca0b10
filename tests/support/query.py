"""Stores that misbehave, logs with turns, and short ways to ask: for tests of queries."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, cast

import pytest

from eventlog import (
    APPEND,
    Capabilities,
    Event,
    EventStore,
    HeadKey,
    HeadPage,
    LogSnapshot,
    ReadOnlyStore,
    SessionHead,
    SessionHeader,
)
from eventlog.codec import encode_line
from eventlog.drivers.jsonl import JsonlStore
from eventlog.drivers.lmdb import LmdbStore
from eventlog.drivers.memory import MemoryStore
from eventlog.query import Page, SessionQueryError, SessionQueryErrorCode

__all__ = [
    "SCHEMES",
    "BrokenStore",
    "CountingStore",
    "HookedStore",
    "RewritingStore",
    "event",
    "facts",
    "opened",
    "pages",
    "plant",
    "raises",
    "said",
]


SCHEMES = ("memory", "lmdb", "jsonl")


def opened(scheme: str, folder: Path) -> EventStore:
    """An empty store of its own; by its class, since looking for drivers takes milliseconds."""
    if scheme == "memory":
        return MemoryStore()
    return LmdbStore(folder / scheme) if scheme == "lmdb" else JsonlStore(folder / scheme)


@contextmanager
def raises(code: SessionQueryErrorCode) -> Iterator[pytest.ExceptionInfo[SessionQueryError]]:
    """Expect a query error of this code, and no other exception."""
    with pytest.raises(SessionQueryError) as caught:
        yield caught
    assert code is caught.value.code


def pages(ask: Callable[[str | None], Page[Any]]) -> Iterator[Page[Any]]:
    """Every page of a call that takes a cursor."""
    cursor: str | None = None
    while True:
        page = ask(cursor)
        yield page
        cursor = page.next_cursor
        if cursor is None:
            return


def event(seq: int, type: str, data: dict[str, Any] | None = None, **fields: Any) -> Event:
    """An event whose time follows from its seq."""
    return Event(seq, fields.pop("time", 1_000 + seq), type, data or {}, **fields)


def said(seq: int, role: str, text: str, **fields: Any) -> Event:
    """A message of a user or an assistant with one text, at the end of the surface."""
    content = [{"type": "text", "text": text}]
    if role == "user":
        data: dict[str, Any] = {"id": f"m{seq}", "role": "user", "content": content}
    else:
        data = {"message": {"id": f"m{seq}", "role": role, "content": content}}
    fields.setdefault("surface_op", APPEND)
    return event(seq, f"{role}/message", data, **fields)


def plant(root: Path, header: SessionHeader, events: Sequence[Event]) -> Path:
    """Write a log of the JSONL store past the store, whatever its events."""
    root.mkdir(exist_ok=True)
    path = root / f"{header.id}.jsonl"
    path.write_bytes(encode_line(header) + b"".join(map(encode_line, events)))
    return path


def facts(module: ModuleType) -> set[str]:
    """The ids of the facts that the tests of *module* are named by, such as ``T3``."""
    names = (re.findall(r"(?<=_)[a-z]\d+(?=_)", name) for name in dir(module))
    return {fact.upper() for found in names for fact in found}


class BrokenStore(EventStore):
    """A store of which every call fails, and which counts them."""

    capabilities = Capabilities(False, False, False, False, False)

    def __init__(self, error: Exception) -> None:
        super().__init__("broken:")
        self.error = error
        self.calls = 0

    def _fail(self, *args: object, **options: object) -> NoReturn:
        self.calls += 1
        raise self.error

    head = heads = children = changes = snapshot = append = delete = _fail
    _writing = _read_events = _head = _heads = _delete = _fail


class HookedStore(ReadOnlyStore):
    """A store that calls *hook* with the name of each read and its session, before it."""

    def __init__(self, inner: EventStore, hook: Callable[[str, str | None], None]) -> None:
        super().__init__(inner)
        self._hook = hook

    def head(self, session_id: str) -> SessionHead | None:
        self._hook("head", session_id)
        return super().head(session_id)

    def heads(self, *, after: HeadKey | None = None, limit: int = 50) -> HeadPage:
        self._hook("heads", None)
        return super().heads(after=after, limit=limit)

    def children(
        self, parent_id: str, *, after: HeadKey | None = None, limit: int = 50
    ) -> HeadPage:
        self._hook("children", parent_id)
        return super().children(parent_id, after=after, limit=limit)

    def snapshot(self, session_id: str, *, at: int | None = None) -> LogSnapshot:
        self._hook("snapshot", session_id)
        return super().snapshot(session_id, at=at)


class CountingStore(HookedStore):
    """A store that keeps a list of the reads asked of it."""

    def __init__(self, inner: EventStore) -> None:
        self.reads: list[tuple[str, str | None]] = []
        super().__init__(inner, lambda name, session_id: self.reads.append((name, session_id)))


class RewritingStore(ReadOnlyStore):
    """A store that loads a session under another header than it lists it by."""

    def __init__(self, inner: EventStore, loaded: SessionHeader) -> None:
        super().__init__(inner)
        self._loaded = loaded

    def snapshot(self, session_id: str, *, at: int | None = None) -> LogSnapshot:
        return cast(LogSnapshot, _Relabelled(super().snapshot(session_id, at=at), self._loaded))


class _Relabelled:
    """A snapshot under another header."""

    def __init__(self, inner: LogSnapshot, header: SessionHeader) -> None:
        self._inner = inner
        self.header = header

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
