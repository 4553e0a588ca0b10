"""
What the model's search tool says, within a budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from .errors import Code, SessionQueryError
from .search.answers import SearchHit
from .text import cut_bytes

__all__ = ["TEXT_BYTES_MAX", "entry_text", "failure", "hits_text"]

TEXT_BYTES_MAX: Final = 30_000
"""The most that one call ever answers with, bytes of UTF-8."""

HEAD_BYTES: Final = 1_200
"""What is kept free for the first and last lines."""

LABEL_CHARS_MAX: Final = 60

_LABELS: Final = {"user/message": "user", "assistant/message": "assistant", "tool/result": "tool"}

_FAILURES: Final = {
    Code.CORRUPT_SESSION: "Search failed: the session's log is damaged where it was read.",
    Code.INDEX_FAILED: "Search failed: the search index cannot be used now. Try again later.",
    Code.PERSISTENCE_FAILED: "Search failed: the session store cannot be read.",
    Code.SEARCH_DISABLED: "Search failed: search is switched off here.",
    Code.SOURCE_CONFLICT: "Search failed: the session has two different headers.",
    Code.STALE_CURSOR: "This cursor is no longer valid. Search again without it.",
    Code.INVALID_CURSOR: "This cursor is not one that this tool gave for this search. "
    "Search again without it.",
}


def failure(error: SessionQueryError) -> str:
    """
    Return what the model is told of *error*: nothing of ids, paths or what lies below.
    """
    if error.code is Code.INVALID_QUERY:
        return f"Bad arguments: {error.detail}."
    return _FAILURES.get(error.code, "Search failed.")


def hits_text(
    head: str,
    hits: Sequence[SearchHit],
    *,
    more: str | None,
    full: Callable[[SearchHit], str],
    shows_sessions: bool,
    shows_scores: bool,
) -> str:
    """
    Return the answer to a search.

    Args:
        head: The first line.

        more: The arguments that go on from here, as JSON; None at the end.

        full: Gives the arguments that read a hit in full.

        shows_sessions: Whether each hit says which session it is of.

        shows_scores: Whether the hits were ranked.

    The hits share what room there is; each has at least the beginning of its excerpt.
    """
    room = TEXT_BYTES_MAX - HEAD_BYTES - len((more or "").encode())
    share = room // max(len(hits), 1)
    parts = [head]
    for hit in hits:
        place = f"[{_label(hit, shows_sessions)}]"
        if shows_scores:
            place += f" score {hit.score:.1f}"
        tail = ""
        left = share - len(place.encode()) - 2
        if hit.truncated or len(hit.excerpt.encode()) > left:
            tail = f"(cut from {hit.text_length:,} characters; in full: {full(hit)})"
            left -= len(tail.encode()) + 12
        excerpt, was_cut = cut_bytes(hit.excerpt, max(left, 0))
        before = "… " if hit.excerpt_start else ""
        behind = was_cut or hit.excerpt_start + len(hit.excerpt) < hit.text_length
        parts += [place, f"{before}{excerpt}{' …' if behind else ''}"]
        if tail:
            parts.append(tail)
    if more is not None:
        parts.append(f"There are more: call again with {more}.")
    return capped("\n".join(parts))


def entry_text(label: str, text: str, start: int, more: Callable[[int], str]) -> str:
    """
    Return an entry in full, or as much of it as one call may say.

    Args:
        label: What the entry is.

        text: Its whole text.

        start: Where to begin, in characters.

        more: Gives the arguments that go on from a character.
    """
    head = f"[{label}] {len(text):,} characters"
    head += f", from character {start:,} on:" if start else ":"
    part, is_cut = cut_bytes(text[start : start + TEXT_BYTES_MAX], TEXT_BYTES_MAX - HEAD_BYTES)
    is_cut = is_cut or start + len(part) < len(text)
    lines = [head, part]
    if is_cut:
        lines.append(f"There is more: call again with {more(start + len(part))}.")
    return capped("\n".join(lines))


def capped(text: str) -> str:
    """Return *text*, cut where it has more bytes than one call may answer with."""
    return cut_bytes(text, TEXT_BYTES_MAX).text


def _label(hit: SearchHit, shows_sessions: bool) -> str:
    facts = [f"session {hit.session_id}"] if shows_sessions else []
    facts.append(f"seq {hit.seq}")
    if hit.turn is not None:
        facts.append(f"turn {hit.turn}")
    facts.append(_LABELS.get(hit.type, hit.type)[:LABEL_CHARS_MAX])
    return ", ".join(facts)
