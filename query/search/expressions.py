"""
Queries as FTS5 expressions. Only analysed words reach one, always quoted, so nothing that
a user types is syntax.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from .parsing import Phrase, Query
from .provider import Tier

__all__ = [
    "NEAR_WORDS",
    "all_words",
    "any_word",
    "exact_tiers",
    "faceted",
    "phrase",
    "session_facet",
    "type_facet",
]

NEAR_WORDS: Final = 10

FACET_MARK: Final = "\ue000"
"""Begins every facet. It is part of a token to FTS5 and of no word to the analyzer, so a
word is looked for in all columns, which takes less time than in one of them."""


def phrase(words: Phrase) -> str:
    """Return the expression of a phrase."""
    text = " ".join(words.words)
    return f'"{text}" *' if words.open_ended else f'"{text}"'


def all_words(phrases: Iterable[Phrase]) -> str:
    """Return the expression of documents with every one of *phrases*."""
    return _joined(" AND ", phrases)


def any_word(phrases: Iterable[Phrase]) -> str:
    """Return the expression of documents with one of *phrases*."""
    return _joined(" OR ", phrases)


def exact_tiers(query: Query) -> Iterator[tuple[Tier, str, str | None]]:
    """
    Yield the tiers of documents with every word of *query* as it is, best first: the
    expression of each, and that of the better ones, whose documents are not in it.
    """
    assert query.whole is not None
    whole = phrase(query.whole)
    yield Tier.PHRASE, whole, None
    if query.parts == (query.whole,):
        return
    better = whole
    if len(query.parts) > 1:
        near = f"NEAR({' '.join(map(phrase, query.parts))}, {NEAR_WORDS})"
        yield Tier.NEAR, near, better
        better = f"{better} OR {near}"
    yield Tier.ALL, all_words(query.parts), better


def faceted(
    body: str, *, sids: Collection[int] | None = None, kinds: Collection[int] | None = None
) -> str:
    """
    Return the MATCH of an expression over words, within facets.

    Args:
        sids: Sessions; None is all of them.

        kinds: Event types; None is all of them.
    """
    match = f"({body})"
    # An expression cannot be empty; no session and no type has the number 0.
    if sids is not None:
        match += f" AND ({_either(map(session_facet, sorted(sids) or [0]))})"
    if kinds is not None:
        match += f" AND ({_either(map(type_facet, sorted(kinds) or [0]))})"
    return match


def session_facet(sid: int) -> str:
    """Return the token of a session's documents."""
    return f"{FACET_MARK}s{sid}"


def type_facet(kid: int) -> str:
    """Return the token of an event type's documents."""
    return f"{FACET_MARK}t{kid}"


def _either(facets: Iterable[str]) -> str:
    return " OR ".join(f'"{facet}"' for facet in facets)


def _joined(operator: str, phrases: Iterable[Phrase]) -> str:
    return operator.join(map(phrase, phrases))
