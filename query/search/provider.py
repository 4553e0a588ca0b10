"""
The seam of search engines: what one is asked, and what it answers.

An engine ranks; it neither cuts excerpts nor keeps cursors. It answers with matches in
their order, drawn one by one, and draws no further than it is asked. What a page has given
before is skipped above it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import IntEnum, StrEnum
from typing import Final

from attrs import field, frozen

from eventlog.model import EventClass, Fault
from eventlog.store import EventStore
from eventlog.values import JSONValue

from ..corpus import LiveSource
from ..corpus_snapshot import CorpusSnapshot
from .family import Relative
from .narrowing import DocumentScope, SessionScope
from .parsing import Query

__all__ = [
    "TIERS",
    "UNCUT",
    "Answer",
    "CorpusRequest",
    "Match",
    "Place",
    "SearchMode",
    "SearchProvider",
    "SessionRequest",
    "Sort",
    "Tier",
]


class Tier(IntEnum):
    """
    How well a document matches. Each document is in the best one that it qualifies for,
    and every match of a tier comes before those of the lower ones.
    """

    ANY = 1
    """It has one of the words, or one that it may be a misspelling of."""

    CLOSE = 2
    """It has every word, at least one of them under another spelling."""

    ALL = 3
    """It has every word."""

    NEAR = 4
    """It has every word, with at most 10 words between the first and the last."""

    PHRASE = 5
    """It has the words side by side, in their order."""


TIERS: Final = tuple(sorted(Tier, reverse=True))
"""The tiers, best first."""


UNCUT: Final = -1
"""The window of a place where all matches are ranked together."""


class Sort(StrEnum):
    """The order of matches within one session."""

    RELEVANCE = "relevance"
    """By tier, then by BM25, then newest first."""

    TIME = "time"
    """Newest first, of the best that match: all words, else close, else any word."""


class SearchMode(StrEnum):
    """How an answer was found, beyond its order."""

    INDEX = "index"
    """All matches were ranked."""

    WINDOW = "window"
    """A word is so common that only the newest few thousand matches were ranked together;
    the pages that follow go on to older ones."""

    SCAN = "scan"
    """The session was read through; all matches were ranked."""

    LITERAL = "literal"
    """The query has no word: its very characters were looked for, newest first."""

    NEWEST = "newest"
    """The query is empty: the newest entries are listed."""


@frozen(order=True)
class Place:
    """
    Where in a ranking a match stands, coarsely: a walk can begin there again.

    Attributes:
        rank: 0 for the best tier, rising.

        window: 0 for the newest window of it, rising; −1 where it has only one.

        below: The position of the window's end, exclusive; None is the walk's.
    """

    rank: int
    window: int
    below: int | None = field(order=False)


@frozen
class Match:
    """
    One document that matches.

    Attributes:
        session_id: Its session.

        number: The engine's number for the session.

        seq: Its place in the log.

        time: Unix milliseconds.

        type: Its type.

        turn: The number of the newest turn begun at or before it, None where none was.

        event_class: How it stood to the surface when the walk began.

        tier: How well it matches.

        relevance: BM25, rounded; higher is better. Comparable within a tier.

        place: Where the walk was.
    """

    session_id: str
    number: int
    seq: int
    time: int
    type: str
    turn: int | None
    event_class: EventClass
    tier: Tier
    relevance: float
    place: Place


@frozen
class SessionRequest:
    """
    A search of one session.

    Attributes:
        query: What to look for; without a word it asks for every document, newest first.

        documents: Which documents may match.

        length: The log's length when the walk began, None for a new walk: what came later
            has not happened.

        sort: The order.

        place: Where to begin; None is the front.

        spelling: What the engine found out about the query's spelling on the page before.

        cancel: Asked now and then; the call ends with ABORTED once it answers true.
    """

    query: Query
    documents: DocumentScope
    length: int | None = None
    sort: Sort = Sort.RELEVANCE
    place: Place | None = None
    spelling: JSONValue = None
    cancel: Callable[[], bool] | None = None


@frozen
class CorpusRequest:
    """
    A search for the best match of each session.

    Attributes:
        query: What to look for; it has a word.

        documents: Which documents may match.

        sessions: Which sessions are searched.

        excluded: Sessions that are left out besides, by id.

        limits: Gives for some sessions the seqs that may match, ``[start, stop)``; asked
            once matches are drawn.

        mark: The mark of the walk's first answer, None for a new walk: what came later
            does not match.

        given: Sessions that were given before, by the engine's numbers for them.

        accept: Whether a match is wanted; asked in their order until one of a session is.

        scale: What relevance is multiplied by; asked once matches are drawn.

        place: Where to begin; None is the front.

        spelling: As in a :class:`SessionRequest`.

        cancel: As in a :class:`SessionRequest`.
    """

    query: Query
    documents: DocumentScope
    sessions: SessionScope
    excluded: Collection[str] = ()
    limits: Callable[[], Mapping[str, tuple[int, int | None]]] = field(default=dict)
    mark: int | None = None
    given: Collection[int] = ()
    accept: Callable[[Match], bool] | None = None
    scale: Callable[[], float] = field(default=lambda: 1.0)
    place: Place | None = None
    spelling: JSONValue = None
    cancel: Callable[[], bool] | None = None


@frozen
class Answer:
    """
    What an engine has found.

    Attributes:
        matches: Them, in their order, drawn as they are taken. For a corpus, one of each
            session.

        searched: How many documents were in the scope.

        through: What was covered: of one session, the length of its log; of a corpus, the
            mark.

        faults: What could not be read beside them, or is not covered yet.

        windowed: Whether the order is that of a window; known once matches are drawn.

        spelling: Gives what was found out about the query's spelling, as JSON, for the
            pages that follow; known once matches are drawn.

        generation: What a mark is a mark of; another one makes it meaningless.

        frequencies: How many documents there are at all, then how many have each part of
            the query: what makes the relevance of two engines comparable.
    """

    matches: Iterator[Match]
    searched: int
    through: int
    faults: tuple[Fault, ...] = ()
    windowed: Callable[[], bool] = field(default=lambda: False)
    spelling: Callable[[], JSONValue] = field(default=list)
    generation: str = ""
    frequencies: Callable[[], tuple[int, ...]] = field(default=tuple)


class SearchProvider(ABC):
    """
    A search engine.

    Every method may be called from any thread. A failure of the engine itself is
    :class:`~eventlog.query.SessionQueryError` with INDEX_FAILED; one of the store is told
    by the code it has elsewhere.

    Attributes:
        index_backed: Whether it answers without reading the logs. One that does not
            searches single sessions only.

        fuzzy: Whether it forgives typos at the same cost.
    """

    index_backed: bool
    fuzzy: bool

    @abstractmethod
    def search_session(
        self, open_log: Callable[[], CorpusSnapshot], request: SessionRequest
    ) -> Answer:
        """
        Find documents of one session.

        Args:
            open_log: Gives the session's log as of now, at each call.
        """

    @abstractmethod
    def search_corpus(self, source: EventStore | LiveSource, request: CorpusRequest) -> Answer:
        """Find the sessions of *source*, each by its best document."""

    def family(self, scope: SessionScope, session_ids: Collection[str] = ()) -> list[Relative]:
        """
        Return the forks that are indexed, *session_ids*, and what all of these come from,
        as far as it is indexed. Here nothing: an inherited event is then shown under each
        fork.
        """
        return []

    @abstractmethod
    def close(self) -> None:
        """Release what the engine holds. Closing twice is harmless."""
