"""
The searches of a :class:`~eventlog.query.SessionQuery`.

The engines are imported by the first search: who only lists or reads does not wait for them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Literal

from eventlog.values import shown
from eventlog.vocabulary import Vocabulary

from .. import filters as rules
from ..corpus import Corpus
from ..errors import Code, SessionQueryError, check_id, check_limit
from ..filters import EventFilter, SessionFilter

if TYPE_CHECKING:
    from .answers import SearchHit, SearchPage, SessionHit
    from .engines import Engines
    from .provider import SearchProvider, Sort

__all__ = ["SearchMethods"]

Cancel = Callable[[], bool]


class SearchMethods(ABC):
    """
    What :class:`~eventlog.query.SessionQuery` searches with.

    Args:
        vocabulary: What event types mean.

        search: The engine of stored sessions, None for the default, False for none.
    """

    def __init__(
        self, vocabulary: Vocabulary, search: SearchProvider | Literal[False] | None
    ) -> None:
        self.vocabulary = vocabulary
        self._provider = search if search is None or search is False else _checked(search)
        self._engines: Engines | None = None
        self._engines_lock = Lock()

    @property
    @abstractmethod
    def corpus(self) -> Corpus:
        """The sources as of now, as an immutable value."""

    @property
    def engines(self) -> Engines:
        """
        The search engines.

        Raises:
            SessionQueryError: SEARCH_DISABLED.
        """
        if self._provider is False:
            raise SessionQueryError(Code.SEARCH_DISABLED, "this query object has no search")
        with self._engines_lock:
            if self._engines is None:
                from .engines import Engines

                self._engines = Engines(self.vocabulary, self._provider)
            return self._engines

    def search_events(
        self,
        session_id: str,
        query: str,
        *,
        filters: Sequence[EventFilter] = (),
        limit: int = 20,
        cursor: str | None = None,
        sort: Sort | str = "relevance",
        cancel: Cancel | None = None,
    ) -> SearchPage[SearchHit]:
        """
        Return the events of one session that match, best first.

        The whole log is searched, inherited events included, and what a compaction
        replaced. Case, accents and typos are forgiven. Matches come in tiers: the query as
        a phrase, its words near each other, all of them, all of them under other
        spellings, any of them; within a tier by BM25, then newest first.

        Null case: a blank query lists the newest events; one of signs only is looked for
        to the letter, newest first.

        Args:
            query: At most 2,000 characters. None of it is syntax.

            filters: What all of them must pass.

            limit: At most so many, at least 1.

            cursor: Where the page before ended; all pages show the log of the first one.

            sort: ``"relevance"``, or ``"time"`` for the newest first among those with all
                words; where there are none, among the next best.

        Cost: the matches, once the session is indexed; before that what is new of it.

        Raises:
            SessionQueryError: INVALID_QUERY, INVALID_FILTER, INVALID_LIMIT,
                INVALID_CURSOR, INVALID_CONFIG: *sort* or *cancel*; SEARCH_DISABLED,
                SESSION_NOT_FOUND; STALE_CURSOR: the session's log was replaced since;
                CORRUPT_SESSION, SOURCE_CONFLICT, PERSISTENCE_FAILED, ABORTED.
        """
        from .in_session import SessionSearch, search_events
        from .provider import Sort

        engines = self.engines
        held = rules.event_filters(filters)
        check_limit(limit)
        if not isinstance(sort, str) or sort not in set(Sort):
            raise SessionQueryError(
                Code.INVALID_CONFIG, f"sort is 'relevance' or 'time', not {shown(sort)}"
            )
        check_id(session_id)
        search = SessionSearch(session_id, query, held, Sort(sort))
        return search_events(
            engines,
            self.corpus,
            self.vocabulary,
            search,
            limit=limit,
            cursor=cursor,
            cancel=cancel,
        )

    def search_sessions(
        self,
        query: str,
        *,
        session_filters: Sequence[SessionFilter] = (),
        event_filters: Sequence[EventFilter] = (),
        limit: int = 20,
        cursor: str | None = None,
        cancel: Cancel | None = None,
    ) -> SearchPage[SessionHit]:
        """
        Return the sessions that match, each with its best event, in the order of
        :meth:`search_events`.

        An event that a fork inherited is shown once: under the session that it came from
        where that is searched too, else under the fork.

        Args:
            query: As in :meth:`search_events`, with at least one word.

            session_filters: Which sessions are searched.

            event_filters: Which of their events.

            limit: At most so many, at least 1.

            cursor: Where the page before ended. No session is given twice, and nothing
                that was appended since.

        What cannot be read or is not indexed yet is a fault of the page.

        Cost: the matches, once the store is indexed; before that what changed in it.

        Raises:
            SessionQueryError: INVALID_QUERY, INVALID_FILTER, INVALID_LIMIT,
                INVALID_CURSOR; INVALID_CONFIG: the engine has no index or forgives no
                typos, where its cause names the extra to install; SEARCH_DISABLED;
                STALE_CURSOR: the index was built anew since, or the sources are others;
                INDEX_FAILED; SOURCE_CONFLICT, PERSISTENCE_FAILED, ABORTED.
        """
        from .in_corpus import CorpusSearch, search_sessions

        engines = self.engines
        search = CorpusSearch(
            query,
            rules.session_filters(session_filters),
            rules.event_filters(event_filters),
        )
        check_limit(limit)
        return search_sessions(
            engines,
            self.corpus,
            self.vocabulary,
            search,
            limit=limit,
            cursor=cursor,
            cancel=cancel,
        )


def _checked(search: object) -> SearchProvider:
    from .provider import SearchProvider

    if not isinstance(search, SearchProvider):
        raise SessionQueryError(
            Code.INVALID_CONFIG,
            f"search must be a SearchProvider or False, not {type(search).__name__}",
        )
    return search
