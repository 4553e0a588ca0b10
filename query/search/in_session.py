"""
The search of one session, page by page.

The whole log is searched, inherited events included. Every page of a walk shows the log as
it was when the walk began: what is appended later is on none of them, and what is shadowed
later is current on all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice
from typing import Final

from attrs import frozen

from eventlog.model import Fault
from eventlog.values import SEQ_MAX, JSONValue
from eventlog.vocabulary import Vocabulary

from ..corpus import Corpus
from ..corpus_snapshot import CorpusSnapshot
from ..cursors import Cursors
from ..errors import Code, SessionQueryError, check_cancel
from ..faults import distinct
from ..filters import EventFilter, Text, described
from .answers import SearchHit, SearchPage
from .engines import Engines
from .excerpts import EXCERPT_BYTES
from .hits import SCORE_MAX, HitMaker, exact_relevance, score_of
from .narrowing import document_scope
from .parsing import Query, parse
from .provider import Answer, Match, Place, SearchMode, SearchProvider, SessionRequest, Sort, Tier
from .walks import (
    index_from_json,
    next_cursor,
    packed,
    place_from_json,
    place_to_json,
    score_from_text,
    stale,
    unpacked,
)
from .writing import event_digest

__all__ = ["SessionSearch", "search_events"]

RERANKED: Final = 50
"""So many of the best matches are looked at for the query's case and accents."""


@frozen
class SessionSearch:
    """
    What to search one session for.

    Attributes:
        session_id: The session.

        text: The query as it was typed.

        filters: Event filters.

        sort: The order.

        before_seq: Nothing from this seq on matches; None is no bound. Unlike a filter it
            may differ from page to page.

        excerpt_bytes: How long an excerpt may be.
    """

    session_id: str
    text: object
    filters: Sequence[EventFilter] = ()
    sort: Sort = Sort.RELEVANCE
    before_seq: int | None = None
    excerpt_bytes: int = EXCERPT_BYTES


@frozen
class _Walk:
    """
    Where a walk stands: its log, where to begin, what was given from there on, the last
    score, and how the query's spelling was taken.
    """

    length: int
    tail: str
    place: Place | None
    given: frozenset[int]
    score: float
    spelling: JSONValue


def search_events(
    engines: Engines,
    corpus: Corpus,
    vocabulary: Vocabulary,
    search: SessionSearch,
    *,
    limit: int,
    cursor: str | None,
    cancel: Callable[[], bool] | None,
) -> SearchPage[SearchHit]:
    """Return a page of the matches of one session; see ``SessionQuery.search_events``."""
    query = parse(search.text)
    cursors = Cursors(
        "search_events", search.session_id, query.text, described(search.filters), str(search.sort)
    )
    walk = None if cursor is None else _decoded(cursors, cursor)
    check_cancel(cancel)
    log = corpus.snapshot(search.session_id)
    if walk is None:
        walk = _Walk(log.length, _tail(log, log.length), None, frozenset(), SCORE_MAX, [])
    else:
        _check_same_log(walk, log)
    scope, texts = document_scope(search.filters)
    if query.whole is None and query.text:
        texts = (*texts, Text(query.text))
    request = SessionRequest(
        query,
        scope.below(search.before_seq),
        walk.length,
        search.sort,
        walk.place,
        walk.spelling,
        cancel,
    )
    faults: list[Fault] = []
    maker = HitMaker(
        query,
        lambda _: log,
        vocabulary,
        excerpt_bytes=search.excerpt_bytes,
        faults=faults,
        cancel=cancel,
    )

    def drawn(engine: SearchProvider) -> tuple[Answer, list[tuple[Match, float]], Place | None]:
        answer = engine.search_session(lambda: corpus.snapshot(search.session_id), request)
        wanted = (
            match
            for match in answer.matches
            if match.seq not in walk.given and (not texts or maker.accepts(match, texts))
        )
        return answer, *_best(wanted, limit, query, maker)

    engine = engines.in_session(is_live=log.live, store=corpus.store)
    try:
        answer, chosen, rest = drawn(engine)
    except SessionQueryError as error:
        if error.code is not Code.INDEX_FAILED:
            raise
        # The log is the truth and can be read: a lost index costs time, not answers.
        engine = engines.scan()
        answer, chosen, rest = drawn(engine)
    score = walk.score
    hits = []
    for match, relevance in chosen:
        is_ranked = query.whole is not None and search.sort is Sort.RELEVANCE
        score = min(score, score_of(match.tier, relevance)) if is_ranked else 0.0
        hit = maker.hit(match, score)
        if hit is not None:
            hits.append(hit)
    check_cancel(cancel)
    following = None
    if rest is not None:
        # What was given before the place where the walk goes on cannot come again.
        given = {match.seq for match, _ in chosen if match.place == rest}
        given |= walk.given if walk.place == rest else frozenset()
        place = place_to_json(rest)
        position = walk.length, walk.tail, place, packed(given), str(score), answer.spelling()
        following = next_cursor(cursors, faults, *position)
    return SearchPage(
        tuple(hits),
        following,
        distinct((*answer.faults, *faults)),
        searched=answer.searched,
        indexed_through=answer.through - 1 if answer.through else None,
        mode=_mode(query, engine, answer),
    )


def _mode(query: Query, engine: SearchProvider, answer: Answer) -> SearchMode:
    if query.whole is None:
        return SearchMode.LITERAL if query.text else SearchMode.NEWEST
    if not engine.index_backed:
        return SearchMode.SCAN
    return SearchMode.WINDOW if answer.windowed() else SearchMode.INDEX


def _best(
    matches: Iterator[Match], limit: int, query: Query, maker: HitMaker
) -> tuple[list[tuple[Match, float]], Place | None]:
    """
    Return the best *limit* matches with their relevance, and the place where the walk goes
    on; None at the end.
    """
    limit = min(limit, SEQ_MAX)  # no log has more events, and no iterator counts much further
    # A query with capitals, accents or signs means them, but the index has none of these:
    # the best matches of a place are looked at again.
    looked_at = limit if query.is_plain or query.whole is None else max(limit, RERANKED)
    chosen: list[tuple[Match, float]] = []
    for place, group in groupby(matches, key=lambda match: match.place):
        if len(chosen) == limit:
            return chosen, place
        drawn = list(islice(group, looked_at + 1))
        room = limit - len(chosen)
        chosen += _reranked(drawn, looked_at, query, maker)[:room]
        if len(drawn) > room:
            return chosen, place
    return chosen, None


def _reranked(
    drawn: list[Match], looked_at: int, query: Query, maker: HitMaker
) -> list[tuple[Match, float]]:
    if query.is_plain or query.whole is None:
        return [(match, match.relevance) for match in drawn]
    scored = [
        (
            match,
            exact_relevance(match.relevance)
            if index < looked_at and match.tier >= Tier.ALL and maker.is_exact(match)
            else match.relevance,
        )
        for index, match in enumerate(drawn)
    ]
    # Stable: equals stay newest first, and other spellings in the order of likelihood.
    return sorted(scored, key=lambda entry: -entry[1] if entry[0].tier is not Tier.CLOSE else 0.0)


def _decoded(cursors: Cursors, cursor: str) -> _Walk:
    length, tail, place, given, score, spelling = cursors.decode(
        cursor, int, str, list, str, str, list
    )
    return _Walk(
        index_from_json(length),
        tail,
        place_from_json(place),
        frozenset(unpacked(given)),
        score_from_text(score),
        spelling,
    )


def _check_same_log(walk: _Walk, log: CorpusSnapshot) -> None:
    if walk.length > log.length or walk.tail != _tail(log, walk.length):
        raise stale("the session's log is another one now")


def _tail(log: CorpusSnapshot, length: int) -> str:
    """What tells a log of this length from another one."""
    if length == 0:
        return ""
    try:
        (last,) = log.read(length - 1, length)
    except SessionQueryError as error:
        if error.code is not Code.CORRUPT_SESSION:
            raise
        return "damaged"
    return event_digest(last).hex()
