"""
What the model's search tool says, within a budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from .errors import Code, SessionQueryError
from .search.answers import SearchHit
from .text import cut_bytes

__all__ = [
    "TEXT_BYTES_MAX",
    "UNREAD",
    "ToolText",
    "capped",
    "entry_text",
    "failure",
    "head_text",
    "hits_fitting",
    "hits_text",
]

TEXT_BYTES_MAX: Final = 30_000
"""The most that one call ever answers with, bytes of UTF-8."""

HEAD_BYTES: Final = 1_200
"""What is kept free for the first and last lines."""

MORE_BYTES_MAX: Final = 6_000
FRAME_BYTES: Final = 40
EXCERPT_BYTES_MIN: Final = 120
LABEL_CHARS_MAX: Final = 60

UNREAD: Final = "Part of the log is damaged or cannot be read, and was not searched."

_LABELS: Final = {"user/message": "user", "assistant/message": "assistant", "tool/result": "tool"}

_FAILURES: Final = {
    Code.CORRUPT_SESSION: "Search failed: the session's log is damaged where it was read. "
    "Other words may find what is sound.",
    Code.INDEX_FAILED: "Search failed: the search index cannot be used now. Try again later.",
    Code.PERSISTENCE_FAILED: "Search failed: the session store cannot be read. Try again later.",
    Code.SEARCH_DISABLED: "Search failed: search is switched off here. Go on without it.",
    Code.STALE_CURSOR: "This cursor is no longer valid. Search again without it.",
    Code.INVALID_CURSOR: "This cursor is not one that this tool gave for this search. "
    "Search again without it.",
}
_UNEXPLAINED: Final = "Search failed, and will fail again. Go on without it."


class ToolText(str):
    """
    What a call of the tool answers: the text for the model.

    Attributes:
        is_error: Whether the call failed. Finding nothing is no failure.
    """

    __slots__ = ("is_error",)

    is_error: bool

    def __new__(cls, text: str, *, is_error: bool = False) -> ToolText:
        made = super().__new__(cls, text)
        made.is_error = is_error
        return made

    @property
    def text(self) -> str:
        """The text as a plain str."""
        return str.__str__(self)

    def mcp(self) -> dict[str, Any]:
        """Return the result of a tool call as MCP has it."""
        return {"content": [{"type": "text", "text": self.text}], "isError": self.is_error}


def failure(error: SessionQueryError) -> str:
    """
    Return what the model is told of *error*: nothing of ids, paths or what lies below.
    """
    if error.code is Code.INVALID_QUERY:
        return f"Bad arguments: {error.detail}."
    return _FAILURES.get(error.code, _UNEXPLAINED)


def head_text(found: int, searched: int, *, is_blank: bool) -> str:
    """Return the first line of the answer to a search."""
    entries = "1 entry" if searched == 1 else f"{searched} entries"
    if searched == 0:
        return "Nothing to search: there are no entries yet."
    if not found:
        return f"No match (searched {entries})."
    if is_blank:
        return f"{found} newest of {entries}:"
    return f"{found} {'match' if found == 1 else 'matches'} (searched {entries}):"


def hits_fitting(
    hits: Sequence[SearchHit],
    *,
    more: str | None,
    full: Callable[[SearchHit], str],
    shows_sessions: bool,
) -> int:
    """
    Return how many of *hits*, from the first on, one answer has room for; at least 1.

    Ids and types may be long, and each hit is to have at least the beginning of its
    excerpt. The arguments are those of :func:`hits_text`.
    """
    room = _room_bytes(more)
    for count, hit in enumerate(hits):
        room -= _frame_bytes(hit, full(hit), shows_sessions) + _excerpt_bytes_min(hit)
        if room < 0:
            return max(count, 1)
    return len(hits)


def hits_text(
    head: str,
    hits: Sequence[SearchHit],
    *,
    more: str | None,
    full: Callable[[SearchHit], str],
    shows_sessions: bool,
    shows_scores: bool,
    foot: str | None = None,
) -> str:
    """
    Return the answer to a search.

    Args:
        head: The first line.

        hits: The hits, no more than are :func:`hits_fitting`.

        more: The arguments that go on from here, as JSON; None at the end. Longer than
            6,000 bytes they are not given: whoever got so far is to search for less.

        full: Gives the arguments that read a hit in full.

        shows_sessions: Whether each hit says which session it is of.

        shows_scores: Whether the hits were ranked.

        foot: What else is to be said, None where there is nothing.

    The hits share what room there is; each has at least the beginning of its excerpt.
    """
    fulls = [full(hit) for hit in hits]
    needed = [
        _frame_bytes(hit, told, shows_sessions) + _excerpt_bytes_min(hit)
        for hit, told in zip(hits, fulls, strict=True)
    ]
    share = max(_room_bytes(more) - sum(needed), 0) // max(len(hits), 1)
    parts = [head]
    for hit, told in zip(hits, fulls, strict=True):
        place = f"[{_label(hit, shows_sessions)}]"
        if shows_scores:
            place += f" score {hit.score:.1f}"
        excerpt, was_cut = cut_bytes(hit.excerpt, _excerpt_bytes_min(hit) + share)
        before = "… " if hit.excerpt_start else ""
        behind = was_cut or hit.excerpt_start + len(hit.excerpt) < hit.text_length
        parts += [place, f"{before}{excerpt}{' …' if behind else ''}"]
        if hit.truncated or was_cut:
            parts.append(_tail(hit, told))
    if more is not None and len(more.encode()) > MORE_BYTES_MAX:
        parts.append("There are more than can be walked through: search for something rarer.")
    elif more is not None:
        parts.append(f"There are more: call again with {more}.")
    if foot is not None:
        parts.append(foot)
    return capped("\n".join(parts))


def _room_bytes(more: str | None) -> int:
    """What the hits share."""
    return TEXT_BYTES_MAX - HEAD_BYTES - min(len((more or "").encode()), MORE_BYTES_MAX)


def _frame_bytes(hit: SearchHit, full: str, shows_sessions: bool) -> int:
    """What a hit takes beside its excerpt."""
    texts = (_label(hit, shows_sessions), _tail(hit, full))
    return sum(len(text.encode()) for text in texts) + FRAME_BYTES


def _excerpt_bytes_min(hit: SearchHit) -> int:
    return min(len(hit.excerpt.encode()), EXCERPT_BYTES_MIN)


def _tail(hit: SearchHit, full: str) -> str:
    return f"(cut from {hit.text_length:,} characters; in full: {full})"


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
