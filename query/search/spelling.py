"""
What a misspelled query may have meant, by the words that are known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import product
from typing import Final, Protocol

from eventlog.values import JSONValue

from ..errors import Code, SessionQueryError
from .limits import RANKED_DOCUMENTS_MAX, WINDOW_DOCUMENTS
from .parsing import Phrase, Query, is_fuzzy, is_fuzzy_word
from .typos import CANDIDATES_MAX, Shape, nearest, shapes

__all__ = ["Lexicon", "Spelling"]

COMBINATIONS_MAX: Final = 16
"""How many spellings of a whole query are tried at most."""

SPELLED_WORDS_MAX: Final = 8
"""Up to so many words, every one is taken to be misspelled perhaps."""

COUNTED_CANDIDATES: Final = 64
"""Of how many candidates the documents are counted, to find the likeliest."""

ABSENT, RARE, COMMON = 0, 1, 2


class Lexicon(Protocol):
    """
    The words of the documents that are searched.

    Attributes:
        searched: How many documents these are, at most.
    """

    searched: int

    def alike(self, shape: Shape) -> Collection[str]:
        """Return the words of a shape."""

    def of_length(self, chars_min: int, chars_max: int) -> Collection[str]:
        """Return the words of a length, both ends inclusive."""

    def documents(self, words: Sequence[str]) -> Sequence[int]:
        """Return how many documents have each of *words*, roughly where there are many."""

    def fewest(self, words: Sequence[str], stop: int) -> int:
        """Return how many documents have the rarest of *words*, counted up to *stop*."""

    def at_most(self, words: Sequence[str], stop: int) -> int:
        """
        Return how many documents have all of *words* at most, the gone and the others
        included, counted up to *stop*.
        """

    def total(self) -> int:
        """Return how many documents there are, in the terms of :meth:`at_most`."""


class Spelling:
    """
    Other spellings of one query.

    What it has found out it keeps, and can be told: words that appear while a walk goes on
    must not change what the walk finds.

    Args:
        lexicon: The words that are known.

        facts: What :attr:`facts` were on an earlier page; None on the first.

    Raises:
        SessionQueryError: INVALID_CURSOR: *facts* are something else.
    """

    def __init__(self, lexicon: Lexicon, facts: JSONValue = None) -> None:
        self._lexicon = lexicon
        self._candidates: dict[str, list[tuple[int, str]]] = {}
        self._levels: dict[str, int] = {}
        if facts:
            try:
                levels, candidates = facts
                self._levels = {str(words): int(level) for words, level in levels}
                self._candidates = {
                    str(word): [(int(apart), str(other)) for apart, other in others]
                    for word, others in candidates
                }
                # Candidates become part of an expression, and a cursor may be made up.
                words = [other for others in self._candidates.values() for _, other in others]
                if not all(map(is_fuzzy_word, words)):
                    raise ValueError("no words")
            except (TypeError, ValueError):
                raise SessionQueryError(
                    Code.INVALID_CURSOR, "the cursor is none of this call"
                ) from None

    @property
    def facts(self) -> JSONValue:
        """What was found out, as JSON; [] where nothing was needed."""
        if not self._levels and not self._candidates:
            return []
        return [
            [[words, level] for words, level in self._levels.items()],
            [
                [word, [[apart, other] for apart, other in others]]
                for word, others in self._candidates.items()
            ],
        ]

    def close(self, query: Query) -> list[tuple[Phrase, ...]]:
        """
        Return other spellings of *query*, the likeliest first: for each of its parts one
        phrase, at least one of them another.
        """
        choices: list[list[tuple[int, Phrase]]] = []
        for part in query.parts:
            others = self.candidates(part.words[0]) if is_fuzzy(part) else []
            # A word that stands nowhere is in no document, whatever the others are.
            itself = [] if self._level(part) == ABSENT else [(0, part)]
            choices.append([*itself, *((apart, Phrase((word,))) for apart, word in others)])
        if not all(choices):
            return []
        if len(choices) <= SPELLED_WORDS_MAX:
            return _combinations(choices)
        # Few words of a long query are misspelled: those that stand nowhere.
        mended = tuple(choice[0][1] for choice in choices)
        return [] if mended == query.parts else [mended]

    def alternatives(self, query: Query) -> list[Phrase]:
        """Return other spellings of those words of *query* that stand nowhere."""
        return [
            Phrase((word,))
            for part in query.parts
            if is_fuzzy(part) and self._level(part) == ABSENT
            for _, word in self.candidates(part.words[0])
        ]

    def candidates(self, word: str) -> list[tuple[int, str]]:
        """
        Return at most 8 words that *word* may be a misspelling of and that stand in the
        documents searched, with their distances: those at distance 1, by how many
        documents have them, then those at distance 2.
        """
        if word not in self._candidates:
            self._candidates[word] = self._find_candidates(word)
        return self._candidates[word]

    def is_common(self, part: Phrase) -> bool:
        """Tell whether *part* stands in so many documents that it says little."""
        return self._level(part) == COMMON

    def are_few_with_all(self, phrases: Sequence[Phrase]) -> bool:
        """
        Tell whether all documents with every one of *phrases* can be ranked at once: there
        cannot be many, or hardly so.
        """
        if self._lexicon.searched < WINDOW_DOCUMENTS:
            return True
        # Long words are mostly rare ones, and one such word is enough.
        words = sorted((word for p in phrases for word in _whole_words(p)), key=len, reverse=True)
        for word in words:
            if self._lexicon.at_most([word], WINDOW_DOCUMENTS + 1) < WINDOW_DOCUMENTS:
                return True
        stop = RANKED_DOCUMENTS_MAX + 1
        if len(phrases) < 2 or self._lexicon.at_most(words, stop) == stop:
            return False
        total = max(self._lexicon.total(), 1)
        expected = float(total)
        for phrase in phrases:
            count = self._at_most(phrase, total)
            expected *= 1.0 if count is None else count / total
        return expected <= WINDOW_DOCUMENTS // 4

    def are_few_with_any(self, phrases: Iterable[Phrase]) -> bool:
        """Tell whether the documents with any of *phrases* can be ranked at once."""
        if self._lexicon.searched < WINDOW_DOCUMENTS:
            return True
        left = WINDOW_DOCUMENTS
        for phrase in phrases:
            count = self._at_most(phrase, left)
            if count is None or count == left:
                return False
            left -= count
        return True

    def _at_most(self, phrase: Phrase, stop: int) -> int | None:
        """
        Return how many documents have *phrase* at most: those with its rarest word, counted
        up to *stop*. None where nobody knows: of the beginning of a word.
        """
        words = _whole_words(phrase)
        return self._lexicon.at_most(words, stop) if words else None

    def _level(self, part: Phrase) -> int:
        if part.open_ended:
            return COMMON
        name = " ".join(part.words)
        if name not in self._levels:
            count = self._lexicon.fewest(part.words, WINDOW_DOCUMENTS + 1)
            self._levels[name] = (
                ABSENT if count == 0 else RARE if count <= WINDOW_DOCUMENTS else COMMON
            )
        return self._levels[name]

    def _find_candidates(self, word: str) -> list[tuple[int, str]]:
        chosen: list[tuple[int, str]] = []
        tried: set[str] = set()
        # A word that stands somewhere is hardly two edits away from what was meant.
        stands = self._level(Phrase((word,))) != ABSENT
        for shape in shapes(word)[: 1 if stands else None]:
            near = nearest(word, self._lexicon.alike(shape), shape.distance)
            near = [(apart, other) for apart, other in near if other not in tried]
            tried.update(other for _, other in near)
            chosen += self._likeliest(near)
            if len(chosen) >= CANDIDATES_MAX:
                break
        if not chosen and not stands:
            widest = shapes(word)[-1]
            known = self._lexicon.of_length(widest.chars_min, widest.chars_max)
            chosen = self._likeliest(nearest(word, known, widest.distance))
        return chosen[:CANDIDATES_MAX]

    def _likeliest(self, near: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
        nearer = near[:COUNTED_CANDIDATES]
        counts = self._lexicon.documents([word for _, word in nearer])
        counted = sorted(
            (apart, -count, word)
            for (apart, word), count in zip(nearer, counts, strict=True)
            if count
        )
        return [(apart, word) for apart, _, word in counted]


def _whole_words(phrase: Phrase) -> Sequence[str]:
    return phrase.words[:-1] if phrase.open_ended else phrase.words


def _combinations(choices: Sequence[Sequence[tuple[int, Phrase]]]) -> list[tuple[Phrase, ...]]:
    """The spellings of a whole query, the fewest edits first, the query itself left out."""
    # The more words, the fewer spellings of each: the product is tried only in part anyway.
    trimmed = [choice[: max(2, CANDIDATES_MAX + 1 - 2 * (len(choices) - 1))] for choice in choices]
    spelled = sorted(
        (
            (sum(apart for apart, _ in combination), index, combination)
            for index, combination in enumerate(product(*trimmed))
        ),
        key=lambda entry: entry[:2],
    )
    return [
        tuple(phrase for _, phrase in combination)
        for edits, _, combination in spelled[: COMBINATIONS_MAX + 1]
        if edits
    ]
