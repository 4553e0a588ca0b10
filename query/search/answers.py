"""
What searches answer with. Frozen and detached, as every answer of a query.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from attrs import field, frozen

from eventlog.model import EventClass

from ..records import Page, SessionRecord
from .provider import SearchMode

__all__ = ["SearchHit", "SearchPage", "SessionHit"]

T = TypeVar("T")


@frozen
class SearchHit:
    """
    One event that matches.

    Attributes:
        session_id: Its session.

        seq: Its place in the log.

        type: Its type.

        role: The role of its message, such as ``"user"``; None where it has none.

        turn: The number of the newest ``turn/start`` at or before it, None where there is
            none.

        time: Unix milliseconds.

        event_class: How it stood to the surface when the walk began.

        inherited: Whether a fork copied it from the parent.

        excerpt: The part of its text around the match, exactly as it stands there.

        truncated: Whether anything of the text is missing in *excerpt*.

        score: How well it matches; falls along the order shown. The part before the point
            is the tier: 5 the phrase, 4 its words near each other, 3 all of them, 2 all of
            them under other spellings, 1 any of them. 0 where nothing was ranked.

        highlights: Where in *excerpt* the matched words stand, ``(start, stop)`` in
            characters, ascending.

        excerpt_start: Where in the text *excerpt* begins, in characters.

        text_length: How many characters the whole text has.
    """

    session_id: str
    seq: int
    type: str
    role: str | None
    turn: int | None
    time: int
    event_class: EventClass
    inherited: bool
    excerpt: str
    truncated: bool
    score: float
    highlights: tuple[tuple[int, int], ...] = field(default=())
    excerpt_start: int = 0
    text_length: int = 0


@frozen
class SessionHit:
    """
    One session that matches.

    Attributes:
        record: The session.

        best_match: The event of it that matches best.
    """

    record: SessionRecord
    best_match: SearchHit


@frozen
class SearchPage(Page[T], Generic[T]):
    """
    One page of a search.

    Attributes:
        searched: How many entries were searched: events with text, in the sessions and of
            the types that the filters let through.

        indexed_through: How far the answer covers. In one session the seq of the last
            event taken into account, None where there is none; over sessions the position
            of the index, which rises with everything indexed.

        mode: How the answer was found.
    """

    searched: int = field(kw_only=True)
    indexed_through: int | None = field(kw_only=True)
    mode: SearchMode = field(kw_only=True)
