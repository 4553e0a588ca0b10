"""Misspelled words: distances, and what a query may have meant."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from eventlog.query.search.parsing import Phrase, is_fuzzy, parse
from eventlog.query.search.spelling import Spelling
from eventlog.query.search.typos import Shape, distance, nearest

words = st.text("abcd", max_size=7)


@settings(max_examples=200, deadline=None)
@given(words, words, st.integers(1, 3))
def test_distance_is_that_of_optimal_string_alignment(first: str, second: str, most: int) -> None:
    """The own distance, for installations without rapidfuzz, equals that of rapidfuzz."""
    assert OSA.distance(first, second, score_cutoff=most) == distance(first, second, most)


def test_nearest_leaves_out_the_word_itself() -> None:
    """Words are given nearest first, then by code points, and never the word itself."""
    known = ["color", "colour", "colors", "dolor", "zebra"]

    assert [(1, "colors"), (1, "colour"), (1, "dolor")] == nearest("color", known, 1)


@pytest.mark.parametrize("text", ["acct_9931", "9931", "abc", "x9yz", "上线", "a" * 25])
def test_ids_and_numbers_are_never_misspelled(text: str) -> None:
    """Only single words of 4–24 letters are looked for under other spellings."""
    assert not any(map(is_fuzzy, parse(text).parts))


class Known:
    """A lexicon that is a plain count of documents."""

    def __init__(self, **counts: int) -> None:
        self.counts = counts
        self.searched = sum(counts.values())

    def alike(self, shape: Shape) -> list[str]:
        return [
            word
            for word in self.of_length(shape.chars_min, shape.chars_max)
            if word.startswith(shape.head) or word.endswith(shape.tail)
        ]

    def of_length(self, chars_min: int, chars_max: int) -> list[str]:
        return [word for word in self.counts if chars_min <= len(word) <= chars_max]

    def documents(self, words: Sequence[str]) -> list[int]:
        return [self.counts.get(word, 0) for word in words]

    def fewest(self, words: Sequence[str], stop: int) -> int:
        return min(self.documents(words), default=stop)

    def at_most(self, words: Sequence[str], stop: int) -> int:
        return self.fewest(words, stop)


def test_the_nearest_then_the_most_frequent_spelling_comes_first() -> None:
    """Candidates are taken by distance, then by how many documents have them."""
    spelling = Spelling(Known(forms=3, form=90, from_=0, frame=50, force=7))  # type: ignore[arg-type]

    assert [(1, "form"), (1, "force"), (1, "forms"), (2, "frame")] == spelling.candidates("forme")


def test_a_word_that_stands_is_at_most_one_edit_away() -> None:
    """A typo that is a rare word itself means its neighbours, not all that looks alike."""
    spelling = Spelling(Known(form=2, from_=0, forms=40, frame=50))  # type: ignore[arg-type]

    assert [(1, "forms")] == spelling.candidates("form")


def test_candidates_without_a_shared_end_are_found_by_a_full_look() -> None:
    """A word with both ends misspelled is looked for among all words of its length."""
    spelling = Spelling(Known(database=5))  # type: ignore[arg-type]

    assert [(2, "database")] == spelling.candidates("xatabasy")


def test_the_fewest_edits_of_a_whole_query_come_first() -> None:
    """Of two words one alone may be misspelled; both are tried last."""
    spelling = Spelling(Known(alpha=5, betas=5, beta=9))  # type: ignore[arg-type]
    tried = spelling.close(parse("alpah beta"))

    assert (Phrase(("alpha",)), Phrase(("beta",))) == tried[0]
    assert (Phrase(("alpha",)), Phrase(("betas",))) in tried
