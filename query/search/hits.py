"""
Matches as hits: with their text, an excerpt and a score.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from eventlog.model import Event, Fault
from eventlog.vocabulary import Vocabulary

from ..corpus_snapshot import CorpusSnapshot
from ..errors import Code, SessionQueryError, asked, check_cancel
from ..faults import fault_of
from ..filters import Text
from ..records import EventRecord
from .answers import SearchHit
from .excerpts import excerpt
from .parsing import Query
from .provider import Match, Tier

__all__ = ["SCORE_MAX", "HitMaker", "exact_relevance", "score_of"]

SCORE_MAX: Final = 6.0
"""Above every score: where a walk begins to fall from."""

EXACT_SHARE: Final = 0.1
EXACT_LEAST: Final = 0.01
"""What a hit's relevance gains where the text has the query to the letter: a share of it,
and a little where it has none, as with a word that stands everywhere."""


class HitMaker:
    """
    Reads the texts of matches.

    Args:
        query: What was looked for.

        snapshot: Gives the log of a session.

        vocabulary: What the text of an event is.

        excerpt_bytes: How long an excerpt may be.

        faults: Takes what cannot be read.

        cancel: Asked before each text that is read to be filtered by.
    """

    def __init__(
        self,
        query: Query,
        snapshot: Callable[[str], CorpusSnapshot],
        vocabulary: Vocabulary,
        *,
        excerpt_bytes: int,
        faults: list[Fault],
        cancel: Callable[[], bool] | None,
    ) -> None:
        self._query = query
        self._snapshot = snapshot
        self._vocabulary = vocabulary
        self._excerpt_bytes = excerpt_bytes
        self._faults = faults
        self._cancel = cancel
        self._read: dict[tuple[str, int], tuple[CorpusSnapshot, Event, str] | None] = {}

    def accepts(self, match: Match, texts: Sequence[Text]) -> bool:
        """Tell whether the text of *match* can be read and passes *texts*."""
        check_cancel(self._cancel)
        found = self._found(match)
        if found is None:
            return False
        log, event, text = found
        record = EventRecord(
            match.session_id,
            event.seq,
            event.type,
            event.time,
            match.event_class,
            event.seq < (log.header.seed_length or 0),
        )
        return all(f.matches(record, lambda: text) for f in texts)

    def is_exact(self, match: Match) -> bool:
        """Tell whether the text has the query to the letter."""
        found = self._found(match)
        return found is not None and self._query.text in found[2]

    def hit(self, match: Match, score: float) -> SearchHit | None:
        """Return the hit of *match*; None where its event cannot be read, which is a fault."""
        found = self._found(match)
        if found is None:
            return None
        log, event, text = found
        part = excerpt(text, self._query, bytes_max=self._excerpt_bytes)
        return SearchHit(
            match.session_id,
            match.seq,
            match.type,
            asked(self._vocabulary.role, event),
            match.turn,
            match.time,
            match.event_class,
            match.seq < (log.header.seed_length or 0),
            part.text,
            part.truncated,
            score,
            part.highlights,
            part.start,
            len(text),
        )

    def _found(self, match: Match) -> tuple[CorpusSnapshot, Event, str] | None:
        key = (match.session_id, match.seq)
        if key not in self._read:
            self._read[key] = self._look_up(match)
        return self._read[key]

    def _look_up(self, match: Match) -> tuple[CorpusSnapshot, Event, str] | None:
        try:
            log = self._snapshot(match.session_id)
            events = log.read(match.seq, match.seq + 1)
        except SessionQueryError as error:
            if error.code is Code.CORRUPT_SESSION:
                self._faults.append(fault_of(error))
            elif error.code is not Code.SESSION_NOT_FOUND:
                raise
            return None
        if not events:
            return None
        return log, events[0], asked(self._vocabulary.text, events[0])


def exact_relevance(relevance: float) -> float:
    """Return the relevance of a match whose text has the query to the letter."""
    return relevance * (1 + EXACT_SHARE) + EXACT_LEAST


def score_of(tier: Tier, relevance: float) -> float:
    """Return the score of a match: its tier, and within it its relevance below 1."""
    return round(tier + 0.999 * relevance / (1 + relevance), 4)
