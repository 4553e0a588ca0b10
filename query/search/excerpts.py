"""
Excerpts: the part of a document's text that shows why it matched.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from attrs import frozen

from ..text import cut_bytes, cut_characters
from .analyzer import Span, analyze, find_spans
from .parsing import Query, is_fuzzy
from .typos import DISTANCE_MAX, nearest

__all__ = ["EXCERPT_BYTES", "Excerpt", "excerpt"]

EXCERPT_BYTES: Final = 600

SLICE_CHARS: Final = 4_096
"""Text is searched for its best part in slices of so many characters."""

OCCURRENCES_MAX: Final = 8


@frozen
class Excerpt:
    """
    A part of a text.

    Attributes:
        text: The part, exactly as it stands in the whole.

        start: Where it begins in the whole, in characters.

        truncated: Whether anything of the whole is missing.

        highlights: Where in *text* the matched words stand, as ``(start, stop)`` in
            characters, ascending.
    """

    text: str
    start: int
    truncated: bool
    highlights: tuple[tuple[int, int], ...]


def excerpt(text: str, query: Query, *, bytes_max: int = EXCERPT_BYTES) -> Excerpt:
    """
    Return the part of *text* with the most words of *query*, the match about a third in.

    Args:
        bytes_max: The most bytes of UTF-8 that it has. No character is cut in two, nor
            letters from their accents.

    Null case: a query without a word that stands in *text* gives its beginning.

    Cost: O(bytes_max) and a search through *text*.
    """
    wanted = _wanted(query)
    if len(text) <= bytes_max and len(text.encode()) <= bytes_max:
        return Excerpt(text, 0, False, _merged(wanted.spans(text), 0, len(text)))
    region_start, region = 0, text
    if len(text) > 2 * SLICE_CHARS:
        region_start, region = _best_slice(text, wanted)
    spans = wanted.spans(region)
    focus = region_start + _focus(spans, bytes_max)
    # About a third before the match, counted in bytes, as characters may be wide.
    before = _tail_bytes(text[max(0, focus - bytes_max) : focus], bytes_max // 3)
    start = focus - len(before)
    start = len(cut_characters(text[: start + 1], start).text)
    cut, truncated = cut_bytes(text[start : start + bytes_max + 1], bytes_max)
    if not truncated and start:
        # There is room left at the end: show more of what stands before.
        start -= len(
            _tail_bytes(text[max(0, start - bytes_max) : start], bytes_max - len(cut.encode()))
        )
        start = len(cut_characters(text[: start + 1], start).text)
        cut = cut_bytes(text[start : start + bytes_max + 1], bytes_max).text
    highlights = _merged(spans, start - region_start, start - region_start + len(cut))
    return Excerpt(cut, start, len(cut) < len(text), highlights)


class _Wanted:
    """The words of a query, as a text may have them."""

    def __init__(self, query: Query) -> None:
        phrases = query.parts if query.whole is None else (*query.parts, query.whole)
        self.words = {word for phrase in phrases for word in phrase.words}
        self.beginnings = tuple(phrase.words[-1] for phrase in phrases if phrase.open_ended)
        self._fuzzy = {phrase.words[0] for phrase in query.parts if is_fuzzy(phrase)}

    def spans(self, text: str) -> list[Span]:
        """Return the wanted words of a text; for those it does not have, ones alike."""
        found = find_spans(text, self.words, self.beginnings)
        missing = self._fuzzy - {span.word for span in found}
        if not missing:
            return found
        alike = _alike(set(analyze(text)) - self.words, missing)
        found += find_spans(text, alike)
        return sorted(found, key=lambda span: (span.start, span.stop))

    def count(self, words: Iterable[str]) -> int:
        """How many of the wanted words are among *words*."""
        found = set(words)
        exact = len(found & self.words)
        if exact:
            return exact
        return sum(map(self._has, found)) + len(_alike(found, self._fuzzy))

    def _has(self, word: str) -> bool:
        return word in self.words or word.startswith(self.beginnings)


# One query cuts the excerpts of a whole page.
_wanted = lru_cache(maxsize=8)(_Wanted)


def _alike(words: Iterable[str], meant: Iterable[str]) -> set[str]:
    """Those of *words* that one of the misspelled words *meant* may stand for."""
    held = list(words)
    found: set[str] = set()
    for other in meant:
        first, last = other[0], other[-1]
        chars_min, chars_max = len(other) - DISTANCE_MAX, len(other) + DISTANCE_MAX
        likely = [
            word
            for word in held
            if (word[0] == first or word[-1] == last) and chars_min <= len(word) <= chars_max
        ]
        found.update(word for _, word in nearest(other, likely, DISTANCE_MAX))
    return found


def _best_slice(text: str, wanted: _Wanted) -> tuple[int, str]:
    """Return the part of a long text with the most wanted words, and where it begins."""
    # The quick way: where a word stands literally, which is nearly always.
    folded = text.lower() if text.isascii() else text
    best: tuple[int, int] = (0, 0)
    for word in sorted(wanted.words, key=len, reverse=True):
        place = -1
        for _ in range(OCCURRENCES_MAX):
            place = folded.find(word, place + 1)
            if place < 0:
                break
            start = max(0, place - SLICE_CHARS // 2)
            count = wanted.count(analyze(text[start : start + SLICE_CHARS]))
            best = max(best, (count, -start))
        if best[0] >= len(wanted.words):
            break
    if not best[0]:
        for start in range(0, len(text), SLICE_CHARS):
            count = wanted.count(analyze(text[start : start + SLICE_CHARS]))
            best = max(best, (count, -start))
            if best[0] >= len(wanted.words):
                break
    start = -best[1]
    # Never begin inside a word: it would be another one.
    while 0 < start < len(text) and text[start - 1].isalnum():
        start -= 1
    return start, text[start : start + SLICE_CHARS]


def _focus(spans: list[Span], bytes_max: int) -> int:
    """Where the window with the most different wanted words begins; 0 where there is none."""
    best, focus = 0, 0
    words: list[str] = []
    first = 0
    for index, span in enumerate(spans):
        words.append(span.word)
        while span.stop - spans[first].start > bytes_max * 2 // 3 and first < index:
            words.pop(0)
            first += 1
        different = len(set(words))
        if different > best:
            best, focus = different, spans[first].start
    return focus


def _tail_bytes(text: str, bytes_max: int) -> str:
    """The longest end of *text* of at most *bytes_max* bytes."""
    encoded = text.encode()
    if len(encoded) <= bytes_max:
        return text
    return encoded[len(encoded) - bytes_max :].decode(errors="ignore")


def _merged(spans: Iterable[Span], start: int, stop: int) -> tuple[tuple[int, int], ...]:
    """The places of *spans* inside ``[start, stop)``, relative to it, overlaps joined."""
    places: list[tuple[int, int]] = []
    for span in spans:
        first, last = max(span.start, start) - start, min(span.stop, stop) - start
        if first >= last:
            continue
        if places and first <= places[-1][1] and first < places[-1][1]:
            places[-1] = (places[-1][0], max(places[-1][1], last))
        else:
            places.append((first, last))
    return tuple(places)
