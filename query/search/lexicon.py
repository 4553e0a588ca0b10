"""
The words that an index knows, for misspelled ones.
"""

from __future__ import annotations

from typing import Final

from .ranking import Narrowing, Read
from .typos import Shape

__all__ = ["IndexLexicon"]

COUNTED_DOCUMENTS: Final = 10_000
"""Counting stops there: more is simply many."""


class IndexLexicon:
    """
    The words of an index.

    Args:
        read: Reads from the index.

        limits: What is searched.

        hidden: Whether the index holds documents that are gone, so that its own counts are
            too high.
    """

    def __init__(self, read: Read, limits: Narrowing, *, hidden: bool) -> None:
        self._read = read
        self._limits = limits
        self._hidden = hidden

    def alike(self, shape: Shape) -> set[str]:
        """Return the words of a shape. Cost: those with its beginning, or its end."""
        head, tail = shape.head, shape.tail[::-1]
        lengths = (shape.chars_min, shape.chars_max)
        words = self._read(
            "SELECT word FROM term WHERE word >= ? AND word < ? AND length(word) BETWEEN ? AND ?",
            (head, _after(head), *lengths),
        )
        reversed_words = self._read(
            "SELECT drow FROM mret WHERE drow >= ? AND drow < ? AND length(drow) BETWEEN ? AND ?",
            (tail, _after(tail), *lengths),
        )
        return {word for (word,) in words} | {word[::-1] for (word,) in reversed_words}

    def of_length(self, chars_min: int, chars_max: int) -> list[str]:
        """Return the words of a length. Cost: all words."""
        rows = self._read(
            "SELECT word FROM term WHERE length(word) BETWEEN ? AND ?", (chars_min, chars_max)
        )
        return [word for (word,) in rows]

    def documents(self, word: str) -> int:
        """Return how many documents have *word*."""
        if self._limits.sids is None and not self._hidden:
            rows = self._read("SELECT doc FROM vocabulary WHERE term = ? AND col = 'body'", (word,))
            return rows[0][0] if rows else 0
        rows = self._read(
            "SELECT count(*) FROM (SELECT 1 FROM fts f CROSS JOIN doc d ON d.id = f.rowid"
            f" WHERE f.fts MATCH ? LIMIT {COUNTED_DOCUMENTS})",
            (self._limits.match(f'"{word}"'),),
        )
        return int(rows[0][0])


def _after(prefix: str) -> str:
    """The first text behind every one that begins with *prefix*."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)
