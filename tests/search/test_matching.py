"""Matching without an index, against FTS5 and against a naive reading of the rules."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.query.search.database import Database
from eventlog.query.search.expressions import exact_tiers, faceted
from eventlog.query.search.matching import Words
from eventlog.query.search.parsing import Phrase, parse
from eventlog.query.search.provider import Tier

words = st.lists(st.sampled_from(["a", "b", "c", "上线", "线", "上"]), min_size=1, max_size=30)
queries = st.lists(
    st.sampled_from(["a", "b", "c", "a-b", "上线", "线", "上"]), min_size=1, max_size=3
).map(" ".join)


def places(text: list[str], phrase: Phrase) -> list[int]:
    size = len(phrase.words)
    return [
        place
        for place in range(len(text) - size + 1)
        if all(
            held.startswith(word) if phrase.open_ended and index == size - 1 else held == word
            for index, (held, word) in enumerate(
                zip(text[place : place + size], phrase.words, strict=True)
            )
        )
    ]


def naive_tier(text: list[str], typed: str) -> Tier | None:
    """The tier by the letter of its definition, trying every combination of places."""
    query = parse(typed)
    assert query.whole is not None
    if places(text, query.whole):
        return Tier.PHRASE
    if query.parts == (query.whole,):
        return None
    found = [places(text, part) for part in query.parts]
    if not all(found):
        return None
    sizes = [len(part.words) for part in query.parts]
    for combination in product(*found):
        last = max(combination)
        ends = (place + size for place, size in zip(combination, sizes, strict=True))
        if all(last - end <= 10 for end in ends) and len(found) > 1:
            return Tier.NEAR
    return Tier.ALL


def fts_tier(text: list[str], typed: str) -> Tier | None:
    db = Database(":memory:")
    try:
        db.execute("CREATE VIRTUAL TABLE fts USING fts5(body, meta, content='', tokenize='ascii')")
        db.execute("INSERT INTO fts(rowid, body, meta) VALUES(1, ?, 's1')", (" ".join(text),))
        for tier, body, _ in exact_tiers(parse(typed)):
            if db.execute("SELECT 1 FROM fts WHERE fts MATCH ?", (faceted(body),)):
                return tier
        return None
    finally:
        db.close()


@settings(max_examples=150, deadline=None)
@given(words, queries)
def test_one_meaning_of_each_tier(text: list[str], typed: str) -> None:
    """The matcher, FTS5 and the rule by its letter put every text in the same tier."""
    expected = naive_tier(text, typed)

    assert expected == Words(text).exact_tier(parse(typed))
    assert expected == fts_tier(text, typed)
