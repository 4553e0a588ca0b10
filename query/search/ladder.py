"""
What is looked for, one after the other: the rungs below a query, best first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from attrs import frozen

from .expressions import all_words, any_word, exact_tiers
from .parsing import Phrase, Query
from .provider import Tier
from .spelling import Spelling

__all__ = ["Rung", "Search", "close_searches", "ladder"]


@frozen
class Search:
    """
    One expression to search for.

    Attributes:
        body: The expression of its documents.

        better: That of documents in better tiers, which are left out; None where there
            are none.

        is_small: Whether all of them are ranked at once. Counting them first takes half as
            long as ranking does, and is not worth it where there can hardly be many.
    """

    body: str
    better: str | None
    is_small: bool


@frozen
class Rung:
    """
    One step of a search.

    Attributes:
        tier: The tier of what it finds.

        search: Gives what to look for, worked out when it is its turn; None where there is
            nothing. Other spellings are many searches: see :func:`close_searches`.
    """

    tier: Tier
    search: Callable[[], Search | None]


def ladder(query: Query, spelling: Spelling) -> list[Rung]:
    """
    Return the rungs of *query*: the tiers, the last one twice. Of the documents with any
    of the words, those with one that says something come before those that only have words
    that stand nearly everywhere.
    """
    exact = {tier: (body, better) for tier, body, better in exact_tiers(query)}

    def exactly(tier: Tier) -> Callable[[], Search | None]:
        def search() -> Search | None:
            if tier not in exact:
                return None
            return Search(*exact[tier], spelling.are_few_with_all(query.parts))

        return search

    def rare() -> tuple[Phrase, ...]:
        return tuple(part for part in query.parts if not spelling.is_common(part))

    def any_rare() -> Search | None:
        words = (*rare(), *spelling.alternatives(query))
        return _any(words, [], spelling, query) if words else None

    def any_common() -> Search | None:
        others = rare()
        common = [part for part in query.parts if part not in others]
        return _any(common, [*others, *spelling.alternatives(query)], spelling, query)

    rungs = [Rung(tier, exactly(tier)) for tier in (Tier.PHRASE, Tier.NEAR, Tier.ALL)]
    rungs.append(Rung(Tier.CLOSE, lambda: None))
    if len(query.parts) > 1:
        rungs += [Rung(Tier.ANY, any_rare), Rung(Tier.ANY, any_common)]
    return rungs


def close_searches(query: Query, spelling: Spelling) -> Iterator[Search]:
    """
    Yield the searches for other spellings of *query*, the likeliest first; documents with
    every word as it is are in none of them.
    """
    exact = all_words(query.parts)
    for phrases in spelling.close(query):
        yield Search(all_words(phrases), exact, spelling.are_few_with_all(phrases))


def _any(
    words: Sequence[Phrase], others: Sequence[Phrase], spelling: Spelling, query: Query
) -> Search | None:
    """The search for any of *words* but none of *others*, beyond the better tiers."""
    if not words:
        return None
    spelled = [query.parts, *spelling.close(query), *((other,) for other in others)]
    better = " OR ".join(f"({all_words(phrases)})" for phrases in spelled)
    return Search(any_word(words), better, spelling.are_few_with_any(words))
