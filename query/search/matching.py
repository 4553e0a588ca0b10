"""
Matching without an index: which tier a text is in, by its words alone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from .expressions import NEAR_WORDS
from .parsing import Phrase, Query
from .provider import Tier

__all__ = ["Words"]


class Words:
    """
    The words of one text, by where they stand.

    Args:
        words: The words in order, as the analyzer gives them.
    """

    __slots__ = ("_beginnings", "_places", "_words")

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._places: dict[str, list[int]] | None = None
        self._beginnings: dict[str, list[int]] | None = None

    def __len__(self) -> int:
        return len(self._words)

    def different(self) -> set[str]:
        """Return the words, each once."""
        return set(self._words)

    def places(self, phrase: Phrase) -> list[int]:
        """Return where *phrase* begins, ascending; [] where it does not stand."""
        *front, last = phrase.words
        words = self._words
        found = []
        if not front:
            return self._last_places(last, phrase.open_ended)
        for place in self._index().get(front[0], ()):
            end = place + len(front)
            if (
                end < len(words)
                and list(words[place:end]) == front
                and (words[end].startswith(last) if phrase.open_ended else words[end] == last)
            ):
                found.append(place)
        return found

    def exact_tier(self, query: Query) -> Tier | None:
        """Return the tier of a text with every word of *query* as it is, else None."""
        assert query.whole is not None
        if self.places(query.whole):
            return Tier.PHRASE
        if query.parts == (query.whole,):
            return None
        places = [self.places(part) for part in query.parts]
        if not all(places):
            return None
        if len(places) > 1 and _are_near(query.parts, places):
            return Tier.NEAR
        return Tier.ALL

    def has_all(self, phrases: Iterable[Phrase]) -> bool:
        """Tell whether each of *phrases* stands in the text."""
        return all(self.places(phrase) for phrase in phrases)

    def _last_places(self, word: str, open_ended: bool) -> list[int]:
        if not open_ended:
            return self._index().get(word, [])
        if self._beginnings is None:
            self._beginnings = {}
            for place, held in enumerate(self._words):
                self._beginnings.setdefault(held[0], []).append(place)
        return [
            place
            for place in self._beginnings.get(word[0], ())
            if self._words[place].startswith(word)
        ]

    def _index(self) -> dict[str, list[int]]:
        if self._places is None:
            self._places = {}
            for place, word in enumerate(self._words):
                self._places.setdefault(word, []).append(place)
        return self._places


def _are_near(phrases: Sequence[Phrase], places: Sequence[Sequence[int]]) -> bool:
    """
    Whether the phrases stand together somewhere: between the end of each and the start of
    the last of them are at most 10 words.
    """
    for last in sorted({place for some in places for place in some}):
        for phrase, some in zip(phrases, places, strict=True):
            earliest = last - len(phrase.words) - NEAR_WORDS
            if bisect_left(some, earliest) == bisect_right(some, last):
                break
        else:
            return True
    return False
