"""
The words that an index knows, for misspelled ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .expressions import any_word, phrase
from .limits import WINDOW_DOCUMENTS, Narrowing
from .parsing import Phrase
from .ranking import Read
from .typos import Shape

__all__ = ["IndexLexicon"]

COUNTED_DOCUMENTS: Final = 10_000
"""Counting candidates stops there: more is simply many."""

FOUND: Final = "SELECT 1 FROM fts f CROSS JOIN doc d ON d.id = f.rowid WHERE f.fts MATCH ?"


class IndexLexicon:
    """
    The words of an index.

    Args:
        read: Reads from the index.

        limits: What is searched.

        searched: How many documents that is, at most.

        hidden: Whether the index holds documents that are gone, so that its own counts are
            too high.
    """

    def __init__(self, read: Read, limits: Narrowing, *, searched: int, hidden: bool) -> None:
        self.searched = searched
        self._read = read
        self._limits = limits
        self._hidden = hidden
        # Of each word a count, and where counting stopped: below that it is exact.
        self._counted: dict[str, tuple[int, int]] = {}
        self._total: int | None = None

    def alike(self, shape: Shape) -> set[str]:
        """Return the words of a shape. Cost: those with its beginning, or its end."""
        head, tail = shape.head, shape.tail[::-1]
        lengths = (shape.chars_min, shape.chars_max)
        # One long text is split much faster than as many rows are made.
        words = self._joined(
            "SELECT group_concat(word, ' ') FROM term"
            " WHERE word >= ? AND word < ? AND length(word) BETWEEN ? AND ?",
            (head, _after(head), *lengths),
        )
        reversed_words = self._joined(
            "SELECT group_concat(drow, ' ') FROM mret"
            " WHERE drow >= ? AND drow < ? AND length(drow) BETWEEN ? AND ?",
            (tail, _after(tail), *lengths),
        )
        return {*words.split(), *reversed_words[::-1].split()}

    def of_length(self, chars_min: int, chars_max: int) -> list[str]:
        """Return the words of a length. Cost: all words."""
        return self._joined(
            "SELECT group_concat(word, ' ') FROM term WHERE length(word) BETWEEN ? AND ?",
            (chars_min, chars_max),
        ).split()

    def documents(self, words: Sequence[str]) -> list[int]:
        """
        Return how many documents have each of *words*.

        Cost: a look-up for each; in few sessions that have none of them, one search.
        """
        limits = self._limits
        if limits.sids is None and not self._hidden:
            return [self._count(word) for word in words]
        if len(words) > 1 and not self._read(
            f"{FOUND} LIMIT 1", (limits.match(any_word(Phrase((word,)) for word in words)),)
        ):
            return [0] * len(words)
        counted = f"SELECT count(*) FROM ({FOUND} LIMIT {COUNTED_DOCUMENTS})"
        return [
            int(self._read(counted, (limits.match(phrase(Phrase((word,)))),))[0][0])
            for word in words
        ]

    def fewest(self, words: Sequence[str], stop: int) -> int:
        """
        Return how many documents have the rarest of *words*, counted up to *stop*.

        Cost: a search for each word, up to the rarest one's count.
        """
        if self._limits.sids is None and not self._hidden:
            return self.at_most(words, stop)
        for word in sorted(words, key=len, reverse=True):
            match = self._limits.match(phrase(Phrase((word,))))
            stop = self._read(f"SELECT count(*) FROM ({FOUND} LIMIT ?)", (match, stop))[0][0]
        return stop

    def at_most(self, words: Sequence[str], stop: int) -> int:
        """
        Return how many documents have all of *words* at most, counted up to *stop*: those
        with the rarest of them, in all sessions, gone ones too.
        """
        for bound in (min(WINDOW_DOCUMENTS + 1, stop), stop):
            least = min((self._counted_to(word, bound) for word in words), default=bound)
            if least < bound:
                return least
        return stop

    def _counted_to(self, word: str, stop: int) -> int:
        count, counted_to = self._counted.get(word, (0, 0))
        # Counting that ended before it had to has counted all.
        if counted_to < stop and count == counted_to:
            statement = "SELECT count(*) FROM (SELECT 1 FROM fts WHERE fts MATCH ? LIMIT ?)"
            count = self._read(statement, (phrase(Phrase((word,))), stop))[0][0]
            self._counted[word] = count, stop
        return min(count, stop)

    def total(self) -> int:
        """Return how many documents the file holds, gone ones too."""
        if self._total is None:
            rows = self._read("SELECT sum(value) FROM state WHERE name IN ('docs', 'gone')", ())
            self._total = int(rows[0][0])
        return self._total

    def _count(self, word: str) -> int:
        rows = self._read("SELECT doc FROM vocabulary WHERE term = ? AND col = 'body'", (word,))
        return rows[0][0] if rows else 0

    def _joined(self, statement: str, values: Sequence[object]) -> str:
        return self._read(statement, values)[0][0] or ""


def _after(prefix: str) -> str:
    """The first text behind every one that begins with *prefix*."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)
