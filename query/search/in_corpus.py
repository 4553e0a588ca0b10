"""
The search of many sessions, page by page: each session once, by its best event.

Stored and live sessions have an index each; a session that is live is searched as such.
An event that a fork inherited is shown once, under the session that it came from where
that is searched too.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from math import log
from typing import Final

from attrs import define, field, frozen

from eventlog.model import Fault, HeadKey
from eventlog.store import EventStore
from eventlog.values import JSONValue
from eventlog.vocabulary import Vocabulary

from ..corpus import Corpus, LiveSource
from ..corpus_snapshot import CorpusSnapshot
from ..cursors import Cursors
from ..errors import Code, SessionQueryError, check_cancel, not_found, reading
from ..faults import distinct
from ..filters import EventFilter, SessionFilter, described
from ..records import SessionRecord
from .answers import SearchPage, SessionHit
from .engines import Engines, check_for_corpus
from .excerpts import EXCERPT_BYTES
from .hits import SCORE_MAX, HitMaker, score_of
from .kinship import Kinship
from .narrowing import SessionScope, document_scope, session_scope
from .parsing import parse
from .provider import Answer, CorpusRequest, Match, Place, SearchMode, SearchProvider
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

__all__ = ["CorpusSearch", "search_sessions"]

HEADS_PAGE: Final = 500
IDF_MIN: Final = 1e-6


@frozen
class CorpusSearch:
    """
    What to search many sessions for.

    Attributes:
        text: The query as it was typed.

        session_filters: Which sessions.

        event_filters: Which of their events.

        before_seqs: Of some sessions, nothing from this seq on matches.

        excerpt_bytes: How long an excerpt may be.
    """

    text: object
    session_filters: Sequence[SessionFilter] = ()
    event_filters: Sequence[EventFilter] = ()
    before_seqs: Mapping[str, int] = field(factory=dict)
    excerpt_bytes: int = EXCERPT_BYTES


@define
class _Stream:
    """
    The part of a walk that one index gives.

    Attributes:
        engine: The index.

        source: What it is an index of.

        excluded: Sessions of it that are not searched.

        generation: What the mark is a mark of.

        mark: What the walk began with; None for a new walk.

        place: Where to begin.

        given: Sessions that were given: numbers of the index, or of live sessions the
            hashes of their ids, which hold when they are only stored.

        spelling: How the query's spelling was taken.
    """

    engine: SearchProvider
    source: EventStore | LiveSource
    excluded: frozenset[str] = frozenset()
    generation: str = ""
    mark: int | None = None
    place: Place | None = None
    given: set[int] = field(factory=set)
    spelling: JSONValue = None

    def to_json(self) -> list[JSONValue]:
        place, given = place_to_json(self.place), packed(self.given)
        return [self.generation, self.mark, place, given, self.spelling]

    def resume(self, values: Sequence[JSONValue]) -> None:
        if [type(value) for value in values] != [str, int, list, str, list]:
            raise stale("it was begun with other sources")
        self.generation, mark, place, given, self.spelling = values
        self.mark = index_from_json(mark)
        self.place = place_from_json(place)
        self.given = unpacked(given)


def search_sessions(
    engines: Engines,
    corpus: Corpus,
    vocabulary: Vocabulary,
    search: CorpusSearch,
    *,
    limit: int,
    cursor: str | None,
    cancel: Callable[[], bool] | None,
) -> SearchPage[SessionHit]:
    """Return a page of sessions that match; see ``SessionQuery.search_sessions``."""
    for is_last in (False, True):
        try:
            return _search(engines, corpus, vocabulary, search, limit, cursor, cancel)
        except SessionQueryError as error:
            # An index that breaks while matches are drawn is made anew by the next search.
            if error.code is not Code.INDEX_FAILED or is_last:
                raise
    raise AssertionError("the last round returns or raises")


def _search(
    engines: Engines,
    corpus: Corpus,
    vocabulary: Vocabulary,
    search: CorpusSearch,
    limit: int,
    cursor: str | None,
    cancel: Callable[[], bool] | None,
) -> SearchPage[SessionHit]:
    query = parse(search.text)
    if query.whole is None:
        kind = "has no word" if query.text else "is blank"
        raise SessionQueryError(
            Code.INVALID_QUERY, f"the query {kind}; many sessions are searched by their words"
        )
    filters = described(search.session_filters), described(search.event_filters)
    cursors = Cursors("search_sessions", query.text, *filters)
    resumed = None if cursor is None else cursors.decode(cursor, str, list, list)
    check_cancel(cancel)
    scope = session_scope(search.session_filters)
    live, stored = _streams(engines, corpus, scope, resumed)
    streams = [stream for stream in (live, stored) if stream is not None]
    documents, texts = document_scope(search.event_filters)
    faults: list[Fault] = []
    sessions = _Sessions(corpus, faults)
    maker = HitMaker(
        query,
        sessions.log,
        vocabulary,
        excerpt_bytes=search.excerpt_bytes,
        faults=faults,
        cancel=cancel,
    )
    given_live = set() if live is None else live.given

    def accept(match: Match) -> bool:
        return _hash(match.session_id) not in given_live and maker.accepts(match, texts)

    kinship = Kinship(
        corpus,
        None if live is None else live.engine,
        None if stored is None else stored.engine,
        scope,
    )
    answers: list[Answer] = []
    for stream in streams:
        request = CorpusRequest(
            query,
            documents,
            scope,
            excluded=stream.excluded,
            limits=lambda: kinship.limits(search.before_seqs),
            mark=stream.mark,
            given=frozenset(stream.given) if stream is stored else (),
            accept=accept if texts or given_live else None,
            scale=_Scale(answers, len(answers)),
            place=stream.place,
            spelling=stream.spelling,
            cancel=cancel,
        )
        answer = stream.engine.search_corpus(stream.source, request)
        if stream.mark is not None and stream.generation != answer.generation:
            raise stale("the index was built anew")
        stream.generation, stream.mark = answer.generation, answer.through
        answers.append(answer)
    hits: list[SessionHit] = []
    score = SCORE_MAX if resumed is None else score_from_text(resumed[0])
    has_more = False
    for index, match in _merged(answers):
        if len(hits) == limit:
            has_more = True
            break
        stream = streams[index]
        stream.place = match.place
        stream.given.add(match.number if stream is stored else _hash(match.session_id))
        score = min(score, score_of(match.tier, match.relevance))
        record = sessions.record(match.session_id)
        best = None if record is None else maker.hit(match, score)
        if record is not None and best is not None:
            hits.append(SessionHit(record, best))
    check_cancel(cancel)
    for stream, answer in zip(streams, answers, strict=True):
        stream.spelling = answer.spelling()
    ends = [[] if stream is None else stream.to_json() for stream in (live, stored)]
    following = next_cursor(cursors, faults, str(score), *ends) if has_more else None
    return SearchPage(
        tuple(hits),
        following,
        distinct((*(fault for answer in answers for fault in answer.faults), *faults)),
        searched=sum(answer.searched for answer in answers),
        indexed_through=sum(answer.through for answer in answers),
        mode=SearchMode.WINDOW
        if any(answer.windowed() for answer in answers)
        else SearchMode.INDEX,
    )


def _streams(
    engines: Engines, corpus: Corpus, scope: SessionScope, resumed: Sequence[JSONValue] | None
) -> tuple[_Stream | None, _Stream | None]:
    """The indexes to search: of live sessions, and of stored ones that are not live."""
    live: _Stream | None = None
    stored: _Stream | None = None
    live_ids: frozenset[str] = frozenset()
    _, live_end, stored_end = resumed or ("", None, None)
    # What became live behind the first page is, on the pages that follow, what it was.
    if corpus.live is not None and live_end != []:
        live_ids = frozenset(_ids(corpus.live))
        if live_ids or live_end:
            live = _Stream(engines.live(), corpus.live)
            check_for_corpus(live.engine)
            if live_end is not None:
                live.resume(live_end)
                live_ids &= engines.live().sessions_before(live.mark or 0)
            if scope.availability:
                live.excluded = frozenset(
                    session_id
                    for session_id in live_ids
                    if not scope.admits_source(live=True, persisted=_is_stored(corpus, session_id))
                )
    elif live_end:
        raise stale("it was begun with live sessions")
    if corpus.store is not None and stored_end != []:
        stored = _Stream(engines.stored(corpus.store), corpus.store, live_ids)
        check_for_corpus(stored.engine)
        if stored_end is not None:
            stored.resume(stored_end)
        if not scope.admits_source(live=False, persisted=True):
            stored = None
    elif stored_end:
        raise stale("it was begun with a store")
    return live, stored


def _ids(live: LiveSource) -> Iterator[str]:
    key: HeadKey | None = None
    while True:
        with reading():
            page = live.heads(after=key, limit=HEADS_PAGE)
        yield from (head.header.id for head in page.items)
        key = page.next_key
        if key is None:
            return


def _is_stored(corpus: Corpus, session_id: str) -> bool:
    if corpus.store is None:
        return False
    with reading(session_id):
        return corpus.store.head(session_id) is not None


@frozen
class _Scale:
    """
    What makes the relevance of one index comparable with that of the others.

    BM25 weighs a word by how rare it is in its own index. A word in every one of three
    live sessions would weigh nothing there, however rare it is among all sessions.
    """

    answers: Sequence[Answer]
    index: int

    def __call__(self) -> float:
        if len(self.answers) < 2:
            return 1.0
        counts = [answer.frequencies() for answer in self.answers]
        together = [sum(column) for column in zip(*counts, strict=True)]
        return _weight(together) / _weight(counts[self.index])


def _weight(counts: Sequence[int]) -> float:
    """The sum of the weights that BM25 gives the parts of a query."""
    documents, *frequencies = counts
    return sum(
        max(log((documents - n + 0.5) / (n + 0.5)) if n <= documents else 0.0, IDF_MIN)
        for n in frequencies
    )


def _merged(answers: Sequence[Answer]) -> Iterator[tuple[int, Match]]:
    """Yield the matches of all answers in one order, each with the index of its answer."""

    def ordered(index: int, answer: Answer) -> Iterator[tuple[tuple[float, ...], int, Match]]:
        for match in answer.matches:
            window = max(match.place.window, 0)
            key = (match.place.rank, window, -match.relevance, -match.time)
            yield key, index, match

    streams = [ordered(index, answer) for index, answer in enumerate(answers)]
    for _, index, match in heapq.merge(*streams, key=lambda entry: entry[:2]):
        yield index, match


class _Sessions:
    """The sessions of one page, each looked up once."""

    def __init__(self, corpus: Corpus, faults: list[Fault]) -> None:
        self._corpus = corpus
        self._faults = faults
        self._records: dict[str, SessionRecord | None] = {}
        self._logs: dict[str, CorpusSnapshot] = {}

    def record(self, session_id: str) -> SessionRecord | None:
        """Return the record of a session; None where it is gone, or cannot be read now."""
        if session_id not in self._records:
            self._records[session_id] = self._corpus.find(session_id, self._faults, tolerant=True)
        return self._records[session_id]

    def log(self, session_id: str) -> CorpusSnapshot:
        """Return the log of a session."""
        if session_id not in self._logs:
            record = self._records.get(session_id)
            listed = None if record is None else record.header
            try:
                self._logs[session_id] = self._corpus.snapshot(session_id, listed=listed)
            except SessionQueryError as error:
                # One that is denied is a fault, and its matches are left out.
                if error.code is Code.PERSISTENCE_FAILED and self.record(session_id) is None:
                    raise not_found(session_id) from error
                raise
        return self._logs[session_id]


def _hash(session_id: str) -> int:
    return int.from_bytes(blake2b(session_id.encode(), digest_size=6).digest())
