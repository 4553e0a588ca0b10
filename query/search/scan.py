"""
Search without an index: one session, read through for each query.

It answers as the index does, in the same tiers. Its cost is the session's length, and its
spellings are those of the session itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from math import log as logarithm
from typing import Final

from attrs import evolve, frozen

from eventlog.model import Event, EventClass, Fault
from eventlog.store import EventStore
from eventlog.vocabulary import Vocabulary

from ..corpus import LiveSource
from ..corpus_snapshot import CorpusSnapshot
from ..errors import Code, SessionQueryError, asked, check_cancel
from .analyzer import analyze
from .matching import Words
from .parsing import Phrase, is_fuzzy_word
from .provider import (
    TIERS,
    UNCUT,
    Answer,
    CorpusRequest,
    Match,
    Place,
    SearchProvider,
    SessionRequest,
    Sort,
    Tier,
)
from .spelling import Spelling
from .typos import Shape
from .writing import READ_EVENTS, readable, turn_number

__all__ = ["ScanProvider"]

# The constants of BM25 that FTS5 uses, so that scores are alike.
K1: Final = 1.2
B: Final = 0.75
IDF_MIN: Final = 1e-6


class ScanProvider(SearchProvider):
    """
    Search by reading.

    Args:
        vocabulary: What the text of an event is.
    """

    index_backed = False
    fuzzy = True

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def search_session(
        self, open_log: Callable[[], CorpusSnapshot], request: SessionRequest
    ) -> Answer:
        log = open_log()
        length = log.length if request.length is None else min(request.length, log.length)
        scan = _Scan(log, length, request, self._vocabulary)
        if request.query.whole is None:
            matches = scan.newest()
        elif request.sort is Sort.TIME:
            matches = scan.by_time()
        else:
            matches = scan.by_relevance()
        return Answer(
            matches,
            scan.searched,
            length,
            tuple(scan.faults),
            spelling=lambda: scan.spelling.facts,
        )

    def search_corpus(self, source: EventStore | LiveSource, request: CorpusRequest) -> Answer:
        raise SessionQueryError(
            Code.INVALID_CONFIG, "this search engine has no index, so it searches one session only"
        )

    def close(self) -> None:
        pass


@frozen
class _Hit:
    """A document with a word of the query: how often it has each part, and its length."""

    match: Match
    tier: Tier | None
    counts: tuple[int, ...]
    words: int


class _Scan:
    """One reading of a session, done when it is made."""

    def __init__(
        self, log: CorpusSnapshot, length: int, request: SessionRequest, vocabulary: Vocabulary
    ) -> None:
        self._log = log
        self._length = length
        self._request = request
        self._vocabulary = vocabulary
        self.faults: list[Fault] = []
        self.searched = 0
        self._replaced_by = self._read_replacers()
        # Of the documents that may match: how many they are, and their words.
        self._admitted = 0
        self._words = 0
        self._lexicon = _SessionLexicon()
        self.spelling = Spelling(self._lexicon, request.spelling)
        self._hits: list[_Hit] = []
        self._matches: list[Match] = []
        query = request.query
        # As for an index, filters by time and class change no word's spelling, nor how much
        # was searched.
        for match, text, is_admitted in self._texts():
            self.searched += request.documents.has_seq(match.seq)
            if query.whole is None:
                self._matches += [match] if is_admitted else []
                continue
            words = Words(analyze(text))
            self._lexicon.add(words)
            if not is_admitted:
                continue
            self._admitted += 1
            self._words += len(words)
            hit = _hit(match, words, query.parts, words.exact_tier(query))
            if hit is not None:
                self._hits.append(hit)

    def newest(self) -> Iterator[Match]:
        """Yield every document, newest first."""
        for match in reversed(self._matches):
            if self._is_ahead(match, 0):
                yield evolve(match, place=Place(0, 0, match.seq + 1))

    def by_relevance(self) -> Iterator[Match]:
        """Yield the matches tier by tier."""
        # As in an index, documents that only have a common word come last of all.
        for rank, tier in enumerate((*TIERS, Tier.ANY)):
            if self._request.place is not None and rank < self._request.place.rank:
                continue
            yield from self._tier(rank, tier)

    def by_time(self) -> Iterator[Match]:
        """Yield the matches of the best group there is, newest first."""
        place = self._request.place
        groups: tuple[Callable[[], list[Match]], ...] = (
            lambda: [hit.match for hit in self._hits if hit.tier is not None],
            lambda: [match for spelled in self._close_hits() for match in spelled],
            lambda: [hit.match for hit in self._any_hits(everything=True)],
        )
        for rank, (tier, group) in enumerate(
            zip((Tier.ALL, Tier.CLOSE, Tier.ANY), groups, strict=True)
        ):
            if place is not None and place.rank != rank:
                continue
            matches = {match.seq: match for match in group()}
            for seq in sorted(matches, reverse=True):
                if self._is_ahead(matches[seq], rank):
                    here = Place(rank, 0, seq + 1)
                    yield evolve(matches[seq], tier=tier, relevance=0.0, place=here)
            if matches or place is not None:
                return

    def _tier(self, rank: int, tier: Tier) -> Iterator[Match]:
        if tier is Tier.CLOSE:
            given: set[int] = set()
            for row in zip_longest(*self._close_hits()):
                for match in row:
                    if match is not None and match.seq not in given:
                        given.add(match.seq)
                        yield evolve(match, tier=tier, place=Place(rank, 0, None))
            return
        if tier is Tier.ANY:
            hits = self._any_hits() if len(self._request.query.parts) > 1 else []
            common = [self.spelling.is_common(part) for part in self._request.query.parts]
            is_last = rank == len(TIERS)
            hits = [hit for hit in hits if _has_only(hit, common) == is_last]
        else:
            hits = [hit for hit in self._hits if hit.tier is tier]
        place = self._request.place
        if place is None or place.rank != rank:
            place = Place(rank, UNCUT, None)
        for match in self._ranked(hits):
            if self._is_ahead(match, rank):
                yield evolve(match, tier=tier, place=place)

    def _is_ahead(self, match: Match, rank: int) -> bool:
        """Whether the walk has not passed the window of a match."""
        place = self._request.place
        return place is None or place.rank != rank or place.below is None or match.seq < place.below

    def _ranked(self, hits: Sequence[_Hit]) -> list[Match]:
        """Order hits by BM25, rounded, then newest first."""
        parts = len(hits[0].counts) if hits else 0
        average = self._words / max(self._admitted, 1)
        frequencies = [sum(1 for hit in hits if hit.counts[part]) for part in range(parts)]
        weights = [
            max(logarithm((self._admitted - n + 0.5) / (n + 0.5)), IDF_MIN) for n in frequencies
        ]
        scored = []
        for hit in hits:
            norm = K1 * (1 - B + B * hit.words / average)
            score = sum(
                weight * count * (K1 + 1) / (count + norm)
                for weight, count in zip(weights, hit.counts, strict=True)
            )
            scored.append(evolve(hit.match, relevance=round(score, 2)))
        return sorted(scored, key=lambda m: (-m.relevance, -m.time, -m.seq))

    def _close_hits(self) -> Iterator[list[Match]]:
        """Yield the matches of each other spelling, the likeliest first."""
        query = self._request.query
        for phrases in self.spelling.close(query):
            hits = []
            for match, text in self._documents():
                words = Words(analyze(text))
                if words.has_all(phrases) and not words.has_all(query.parts):
                    hit = _hit(match, words, phrases, None)
                    assert hit is not None
                    hits.append(hit)
            yield self._ranked(hits)

    def _any_hits(self, *, everything: bool = False) -> list[_Hit]:
        """The documents with one of the words, but not in a better tier unless *everything*."""
        query = self._request.query
        close, alternatives = self.spelling.close(query), self.spelling.alternatives(query)
        hits = []
        for match, text in self._documents():
            words = Words(analyze(text))
            if not everything and any(words.has_all(phrases) for phrases in (query.parts, *close)):
                continue
            hit = _hit(match, words, (*query.parts, *alternatives), None)
            if hit is not None:
                hits.append(hit)
        return hits

    def _documents(self) -> Iterator[tuple[Match, str]]:
        """Yield the documents in scope, in seq order, each with its text."""
        return ((match, text) for match, text, is_admitted in self._texts() if is_admitted)

    def _texts(self) -> Iterator[tuple[Match, str, bool]]:
        """
        Yield the documents of the scope's types, in seq order, each with its text and
        whether the rest of the scope admits it.
        """
        request, turn = self._request, None
        if request.documents.is_empty:
            return
        for event in self._events():
            if event.type == "turn/start":
                turn = turn_number(event, turn)
            if not request.documents.has_type(event.type):
                continue
            text = asked(self._vocabulary.text, event)
            if text:
                kind = self._class(event)
                is_admitted = request.documents.admits(event.seq, event.time, event.type, kind)
                facts = (event.seq, event.time, event.type, turn, kind)
                match = Match(self._log.session_id, 0, *facts, Tier.ANY, 0.0, Place(0, 0, None))
                yield match, text, is_admitted

    def _events(self) -> Iterator[Event]:
        for start in range(0, self._length, READ_EVENTS):
            check_cancel(self._request.cancel)
            events, fault = readable(self._log, start, min(start + READ_EVENTS, self._length))
            if fault is not None and fault not in self.faults:
                self.faults.append(fault)
            yield from events

    def _read_replacers(self) -> dict[int, int]:
        try:
            return self._log.replaced_by(0, self._length)
        except SessionQueryError as error:
            if error.code not in (Code.INVALID_SURFACE, Code.CORRUPT_SESSION):
                raise
            self.faults.append(Fault(self._log.session_id, None, "surface", str(error)))
            return {}

    def _class(self, event: Event) -> EventClass:
        if not event.is_node:
            return EventClass.LOG_ONLY
        replacer = self._replaced_by.get(event.seq)
        return (
            EventClass.CURRENT
            if replacer is None or replacer >= self._length
            else EventClass.SHADOWED
        )


class _SessionLexicon:
    """The words of one session that may be what a misspelled one has meant."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self.searched = 0

    def add(self, words: Words) -> None:
        self._counts.update(words.different())
        self.searched += 1

    def total(self) -> int:
        return self.searched

    def alike(self, shape: Shape) -> list[str]:
        return [
            word
            for word in self.of_length(shape.chars_min, shape.chars_max)
            if word.startswith(shape.head) or word.endswith(shape.tail)
        ]

    def of_length(self, chars_min: int, chars_max: int) -> list[str]:
        return [
            word
            for word in self._counts
            if chars_min <= len(word) <= chars_max and is_fuzzy_word(word)
        ]

    def documents(self, words: Sequence[str]) -> list[int]:
        return [self._counts[word] for word in words]

    def fewest(self, words: Sequence[str], stop: int) -> int:
        return min((self._counts[word] for word in words), default=stop)

    def at_most(self, words: Sequence[str], stop: int) -> int:
        return self.fewest(words, stop)


def _has_only(hit: _Hit, parts: Sequence[bool]) -> bool:
    """Whether of all that it was looked for a hit has these parts of the query only."""
    return not any(hit.counts[len(parts) :]) and not any(
        count and not held for count, held in zip(hit.counts, parts, strict=False)
    )


def _hit(match: Match, words: Words, phrases: Sequence[Phrase], tier: Tier | None) -> _Hit | None:
    counts = tuple(len(words.places(phrase)) for phrase in phrases)
    return _Hit(match, tier, counts, len(words)) if tier is not None or any(counts) else None
