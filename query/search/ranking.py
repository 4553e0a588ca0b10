"""
Ranking in an index: tier by tier, window by window, drawn only as far as it is taken.

Within a tier the order is BM25, rounded to two decimals so that equals are really equal,
then newest first. Scoring costs time for every match, so of more than 2,000 only the
newest 2,000 are ranked together: that is a window, and the next one follows behind it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from typing import Any, Final, TypeAlias

from attrs import define, evolve, field, frozen

from eventlog.model import EventClass

from .expressions import all_words, any_word
from .ladder import Search, close_searches, ladder
from .limits import WINDOW_DOCUMENTS, Narrowing
from .parsing import Query
from .provider import UNCUT, Match, Place, Tier
from .spelling import Spelling

__all__ = ["Read", "newest", "ranked", "ranked_by_time"]

DETAIL_ROWS: Final = 32
"""Matches looked up at a time."""

FIRST_ROWS: Final = 2 * DETAIL_ROWS
"""Ranked matches taken at first; most answers need no more, and sorting few takes less."""

SCORE: Final = "round(bm25(fts, 1.0, 0.0) * ?, 2)"
"""Negative relevance; the words count, and facets do not. The column ``rank`` takes longer."""

ORDER: Final = "ORDER BY 4, d.time DESC, f.rowid DESC"

Row: TypeAlias = tuple[Any, ...]
Read: TypeAlias = Callable[[str, Sequence[object]], list[Row]]


@frozen
class _Window:
    """Hits in their order, as rows of id, sid, seq and negative relevance, drawn once."""

    tier: Tier
    place: Place
    rows: Iterator[Row]


@define
class _Given:
    """
    The hits that the tiers of a walk have given so far.

    Attributes:
        ids: Them.

        is_whole: Whether they are all that these tiers have.
    """

    ids: set[int] = field(factory=set)
    is_whole: bool = True


def ranked(
    read: Read, query: Query, limits: Narrowing, spelling: Spelling, place: Place | None
) -> Iterator[Match]:
    """Yield the matches of *query* by relevance, from *place* on."""
    for window in _windows(read, query, limits, spelling, place):
        yield from _detailed(read, window, limits)


def ranked_by_time(
    read: Read, query: Query, limits: Narrowing, spelling: Spelling, place: Place | None
) -> Iterator[Match]:
    """
    Yield the matches of one session, newest first: those with all words; where there are
    none the close ones; where there are none of them those with any word.
    """
    groups: tuple[tuple[Tier, Callable[[], str]], ...] = (
        (Tier.ALL, lambda: all_words(query.parts)),
        (Tier.CLOSE, lambda: " OR ".join(f"({all_words(p)})" for p in spelling.close(query))),
        (Tier.ANY, lambda: any_word((*query.parts, *spelling.alternatives(query)))),
    )
    for rank, (tier, body) in enumerate(groups):
        if place is not None and place.rank != rank:
            continue
        found = False
        below = None if place is None else place.below
        while expression := body():
            rows = _newest_rows(read, limits, expression, below)
            yield from _one_by_one(read, tier, rank, rows, limits)
            found = found or bool(rows)
            if len(rows) < WINDOW_DOCUMENTS:
                break
            below = rows[-1][2]
        if found or place is not None:
            return


def newest(read: Read, limits: Narrowing, place: Place | None) -> Iterator[Match]:
    """Yield every document of one session, newest first."""
    kinds = "" if limits.kinds is None else " AND d.kid IN (SELECT value FROM json_each(?))"
    below = limits.as_of if place is None or place.below is None else place.below
    while True:
        values = [*limits.values, below]
        if limits.kinds is not None:
            values.append(json.dumps(sorted(limits.kinds)))
        rows = read(
            "SELECT d.id, d.sid, d.seq, 0.0 FROM doc d"
            f" WHERE {limits.condition} AND d.seq < ?{kinds}"
            f" ORDER BY d.seq DESC LIMIT {DETAIL_ROWS}",
            values,
        )
        yield from _one_by_one(read, Tier.ANY, 0, rows, limits)
        if len(rows) < DETAIL_ROWS:
            return
        below = rows[-1][2]


def _windows(
    read: Read, query: Query, limits: Narrowing, spelling: Spelling, place: Place | None
) -> Iterator[_Window]:
    """Yield each window; the one before it has been drawn to its end by then."""
    given = _Given(is_whole=place is None)
    has_more = True
    for rank, rung in enumerate(ladder(query, spelling)):
        if place is not None and rank < place.rank:
            continue
        if rung.tier is Tier.NEAR and given.is_whole and len(query.parts) > 1:
            # Mostly one document has the words of a phrase: one look spares two tiers.
            source, values = _source(limits, Search(all_words(query.parts), None, True), given)
            has_more = bool(read(f"SELECT 1 {source} LIMIT 1", values))
        if rung.tier in (Tier.NEAR, Tier.ALL) and not has_more:
            continue
        begin = place if place is not None and place.rank == rank else None
        if rung.tier is Tier.CLOSE:
            yield _close_window(read, query, limits, spelling, rank, given)
        else:
            search = rung.search()
            if search is not None:
                yield from _tier_windows(read, limits, search, rung.tier, rank, begin, given)


def _close_window(
    read: Read, query: Query, limits: Narrowing, spelling: Spelling, rank: int, given: _Given
) -> _Window:
    """
    The hits of other spellings: the best of each in turn, then the second best of each.
    Ranked together, those of the rarest spelling would come first, and it is the least
    likely to be meant.
    """
    spelled: list[Iterator[Row]] = []
    for search in close_searches(query, spelling):
        windows = _tier_windows(read, limits, search, Tier.CLOSE, rank, None, given)
        spelled += [window.rows for window in islice(windows, 1)]

    def in_turn() -> Iterator[Row]:
        ids: set[int] = set()
        for row in chain.from_iterable(zip_longest(*spelled)):
            if row is not None and row[0] not in ids:
                ids.add(row[0])
                yield row

    return _Window(Tier.CLOSE, Place(rank, 0, None), in_turn())


def _tier_windows(
    read: Read,
    limits: Narrowing,
    search: Search,
    tier: Tier,
    rank: int,
    begin: Place | None,
    given: _Given,
) -> Iterator[_Window]:
    """Yield the hits of *search*, window by window."""
    window, below = (0, None) if begin is None else (begin.window, begin.below)
    if begin is None and search.is_small:
        window = UNCUT
    while True:
        source, values = _source(limits, search, given)
        if below is not None:
            source += f" AND {limits.age} < ?"
            values.append(below)
        floor: list[Row] = []
        if window != UNCUT:
            floor = read(
                f"SELECT {limits.age} {source} ORDER BY f.rowid DESC"
                f" LIMIT 1 OFFSET {WINDOW_DOCUMENTS - 1}",
                values,
            )
        if floor:
            limits.windowed = True
            given.is_whole = False
            source += f" AND {limits.age} >= ?"
            values.append(floor[0][0])
        span = floor[0][0] if floor else 0, limits.as_of if below is None else below
        rows = _drawn(read, limits, source, values, span, given)
        yield _Window(tier, Place(rank, window, below), rows)
        if not floor:
            return
        window, below = window + 1, floor[0][0]


def _source(limits: Narrowing, search: Search, given: _Given) -> tuple[str, list[object]]:
    """Where the hits of *search* are that no better tier has, in SQL with its values."""
    source = (
        f"FROM fts f CROSS JOIN doc d ON d.id = f.rowid WHERE f.fts MATCH ? AND {limits.condition}"
    )
    values: list[object] = [limits.match(search.body), *limits.values]
    if limits.done:
        source += " AND d.sid NOT IN (SELECT value FROM json_each(?))"
        values.append(json.dumps(sorted(limits.done)))
    if given.is_whole:
        if given.ids:
            source += " AND f.rowid NOT IN (SELECT value FROM json_each(?))"
            values.append(json.dumps([*given.ids]))
    elif search.better is not None:
        # Not by FTS5's NOT: its score would count each of these words in all documents.
        source += " AND f.rowid NOT IN (SELECT rowid FROM fts WHERE fts MATCH ?)"
        values.append(limits.match(search.better))
    return source, values


def _drawn(
    read: Read,
    limits: Narrowing,
    source: str,
    values: Sequence[object],
    span: tuple[int, int],
    given: _Given,
) -> Iterator[Row]:
    """Yield rows of *source*: the first few, which mostly do, then all others."""
    statement = f"SELECT f.rowid, d.sid, d.seq, {SCORE} {source} {ORDER}"
    if limits.is_open and len(limits.done) < FIRST_ROWS:
        first, is_all = _best_rows(read, limits, source, values, span)
    else:
        first = read(f"{statement} LIMIT {FIRST_ROWS}", [limits.scale, *values])
        is_all = len(first) < FIRST_ROWS
    for row in first:
        given.ids.add(row[0])
        yield row
    if not is_all:
        known = {row[0] for row in first}
        for row in read(statement, [limits.scale, *values]):
            if row[0] not in known:
                given.ids.add(row[0])
                yield row


def _best_rows(
    read: Read, limits: Narrowing, source: str, values: Sequence[object], span: tuple[int, int]
) -> tuple[list[Row], bool]:
    """
    Return the first rows of a source that leaves out few matches, and whether they are all.

    Of all matches only the best are looked up in ``doc``, which takes half as long as the
    ranking itself. More may have the score of the last of them, so that one is left for later.
    """
    few = FIRST_ROWS + 2 * len(limits.done)
    best = (
        f"SELECT rowid, {SCORE} AS score FROM fts"
        f" WHERE fts MATCH ? AND rowid >= ? AND rowid < ? ORDER BY score LIMIT {few}"
    )
    match, *others = values
    conditions = source.partition(" MATCH ? AND ")[2]
    rows = read(
        f"SELECT f.rowid, d.sid, d.seq, f.score FROM ({best}) f"
        f" LEFT JOIN doc d ON d.id = f.rowid AND {conditions} {ORDER}",
        [limits.scale, match, *span, *others],
    )
    is_all = len(rows) < few
    return [r for r in rows if r[1] is not None and (is_all or r[3] < rows[-1][3])], is_all


def _newest_rows(read: Read, limits: Narrowing, body: str, below: int | None) -> list[Row]:
    """The newest hits of one session."""
    condition, values = limits.condition, [limits.match(body), *limits.values]
    if below is not None:
        condition += " AND d.seq < ?"
        values.append(below)
    return read(
        "SELECT f.rowid, d.sid, d.seq, 0.0 FROM fts f CROSS JOIN doc d ON d.id = f.rowid"
        f" WHERE f.fts MATCH ? AND {condition} ORDER BY f.rowid DESC LIMIT {WINDOW_DOCUMENTS}",
        values,
    )


def _one_by_one(
    read: Read, tier: Tier, rank: int, rows: Sequence[Row], limits: Narrowing
) -> Iterator[Match]:
    """Yield matches that are each a place of their own: a walk begins there with this one."""
    for match in _detailed(read, _Window(tier, Place(rank, 0, None), iter(rows)), limits):
        yield evolve(match, place=Place(rank, 0, match.seq + 1))


def _detailed(read: Read, window: _Window, limits: Narrowing) -> Iterator[Match]:
    """Yield the matches of a window, looked up a few at a time."""
    rows = (row for row in window.rows if limits.wants(row[1], row[2]))
    while some := list(islice(rows, DETAIL_ROWS)):
        found = {
            facts[0]: facts
            for facts in read(
                f"SELECT d.id, s.id, d.time, k.type, d.turn, d.node, {limits.replacer}"
                " FROM json_each(?) i JOIN doc d ON d.id = i.value"
                " JOIN session s ON s.sid = d.sid JOIN kind k ON k.kid = d.kid",
                [json.dumps([row[0] for row in some])],
            )
        }
        for id_, sid, seq, negative in some:
            # One that is missing was removed since.
            if id_ in found:
                _, session_id, time, type_, turn, node, by = found[id_]
                yield Match(
                    session_id,
                    sid,
                    seq,
                    time,
                    type_,
                    turn,
                    _class(node, by, limits.as_of),
                    window.tier,
                    -negative,
                    window.place,
                )


def _class(node: int, by: int | None, as_of: int) -> EventClass:
    if not node:
        return EventClass.LOG_ONLY
    return EventClass.CURRENT if by is None or by >= as_of else EventClass.SHADOWED
