"""Sessions to search, and what a search has found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from eventlog import EventStore
from eventlog.query import SearchHit, SearchPage, SessionHit, SessionQuery

from . import make_header, message

__all__ = ["filled", "found", "sessions_found", "texts_found", "walked"]


def filled(store: EventStore, texts: Sequence[str], session_id: str = "s1", **header: Any) -> None:
    """Append one message a text to a session, which is made where it is missing."""
    head = store.head(session_id)
    start = 0 if head is None else head.length
    made = make_header(session_id, **header) if head is None else head.header
    store.append(made, [message(start + n, text) for n, text in enumerate(texts)])


def found(query: SessionQuery, text: str, session_id: str = "s1", **options: Any) -> list[int]:
    """The seqs of the events that match in one session, in their order."""
    return [hit.seq for hit in query.search_events(session_id, text, **options).items]


def sessions_found(query: SessionQuery, text: str, **options: Any) -> list[str]:
    """The ids of the sessions that match, in their order."""
    return [hit.record.header.id for hit in query.search_sessions(text, **options).items]


def texts_found(hits: Iterable[SearchHit | SessionHit]) -> list[str]:
    """The excerpts of hits."""
    return [hit.excerpt if isinstance(hit, SearchHit) else hit.best_match.excerpt for hit in hits]


def walked(ask: Any, *arguments: Any, **options: Any) -> list[Any]:
    """The items of every page of a search."""
    items: list[Any] = []
    cursor = None
    while True:
        page: SearchPage[Any] = ask(*arguments, cursor=cursor, **options)
        items += page.items
        cursor = page.next_cursor
        if cursor is None:
            return items
