"""
Ranking in an index: tier by tier, window by window, drawn only as far as it is taken.

Within a tier the order is BM25, rounded to two decimals so that equals are really equal,
then newest first. Scoring costs time for every match, so of more than 2,000 only the
newest 2,000 are ranked together: that is a window, and the next one follows behind it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from typing import Any, Final, TypeAlias

from attrs import define, evolve, field, frozen

from eventlog.model import EventClass

from .expressions import all_words, any_word, exact_tiers, faceted
from .narrowing import DocumentScope
from .parsing import Phrase, Query
from .provider import Match, Place, Tier
from .spelling import Spelling

__all__ = [
    "WINDOW_DOCUMENTS",
    "Narrowing",
    "Read",
    "narrowing",
    "newest",
    "ranked",
    "ranked_by_time",
]

WINDOW_DOCUMENTS: Final = 2_000
DETAIL_ROWS: Final = 32

Row: TypeAlias = tuple[Any, ...]
Read: TypeAlias = Callable[[str, Sequence[object]], list[Row]]


@define
class Narrowing:
    """
    What limits a ranking, in SQL.

    Attributes:
        sid: The one session that is searched, None for many.

        sids: The sessions that are searched, where they are few; None for all.

        kinds: The numbers of the types that may match, None for all.

        condition: What must hold of a row of ``doc``, called ``d``.

        values: Its values.

        as_of: The length of the one session, or the mark of the corpus: what happened at
            it or later has not happened.

        unwanted: Tells of many sessions, by sid, which are no longer looked for; asked
            before each window.

        limits: For some sids the seqs that may match, ``[start, stop)``.

        common: A word in more documents than that says little.

        scale: What relevance is multiplied by.

        windowed: Set once a ranking is only that of a window.
    """

    sid: int | None
    sids: frozenset[int] | None
    kinds: frozenset[int] | None
    condition: str
    values: list[object]
    as_of: int
    unwanted: Callable[[], Sequence[int]] = tuple
    limits: dict[int, tuple[int, int | None]] = field(factory=dict)
    common: int = WINDOW_DOCUMENTS
    scale: float = 1.0
    windowed: bool = False

    def match(self, body: str) -> str:
        return faceted(body, sids=self.sids, kinds=self.kinds)

    @property
    def age(self) -> str:
        """
        The column that windows are cut by. Within a session it is the seq, which an index
        built anew shares; the order is the same.
        """
        return "f.rowid" if self.sid is None else "d.seq"

    @property
    def replacer(self) -> str:
        """The column that says when a document was shadowed, in the terms of *as_of*."""
        return "d.by_pos" if self.sid is None else "d.by_seq"


def narrowing(
    documents: DocumentScope,
    *,
    as_of: int,
    sid: int | None = None,
    sids: frozenset[int] | None = None,
    kinds: frozenset[int] | None = None,
) -> Narrowing:
    """
    Return the narrowing of a scope.

    Args:
        sid: The one session that is searched; else *sids*, few sessions, or all.

        kinds: Those of the scope's types that are indexed; None for all.
    """
    conditions = ["d.id < ?" if sid is None else "d.sid = ? AND d.seq < ?"]
    values: list[object] = [as_of] if sid is None else [sid, as_of]
    for condition, bound in (
        ("d.seq >= ?", documents.start or None),
        ("d.seq < ?", documents.stop),
        ("d.time >= ?", documents.time_start),
        ("d.time <= ?", documents.time_end),
    ):
        if bound is not None:
            conditions.append(condition)
            values.append(bound)
    facet = sids if sid is None else frozenset((sid,))
    found = Narrowing(sid, facet, kinds, "", values, as_of)
    if documents.classes is not None:
        replacer = found.replacer
        holds = {
            EventClass.CURRENT: f"d.node AND ({replacer} IS NULL OR {replacer} >= {as_of})",
            EventClass.SHADOWED: f"d.node AND {replacer} < {as_of}",
            EventClass.LOG_ONLY: "NOT d.node",
        }
        either = " OR ".join(f"({holds[kind]})" for kind in sorted(documents.classes))
        conditions.append(f"({either or '0'})")
    found.condition = " AND ".join(conditions)
    return found


@frozen
class _Hit:
    id: int
    tier: Tier
    relevance: float
    place: Place


def ranked(
    read: Read, query: Query, limits: Narrowing, spelling: Spelling, place: Place | None
) -> Iterator[Match]:
    """Yield the matches of *query* by relevance, from *place* on."""
    for hits in _windows(read, query, limits, spelling, place):
        yield from _detailed(read, hits, limits)


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
            hits = _newest_hits(read, limits, expression, tier, rank, below)
            yield from _detailed(read, hits, limits)
            found = found or bool(hits)
            if len(hits) < WINDOW_DOCUMENTS:
                break
            below = hits[-1].place.below
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
            f"SELECT d.id, d.seq FROM doc d WHERE {limits.condition} AND d.seq < ?{kinds}"
            f" ORDER BY d.seq DESC LIMIT {DETAIL_ROWS}",
            values,
        )
        yield from _detailed(
            read, [_Hit(row[0], Tier.ANY, 0.0, Place(0, 0, row[1])) for row in rows], limits
        )
        if len(rows) < DETAIL_ROWS:
            return
        below = rows[-1][1]


def _windows(
    read: Read, query: Query, limits: Narrowing, spelling: Spelling, place: Place | None
) -> Iterator[list[_Hit]]:
    """Yield the hits of each window, in their order."""
    for rank, rung in enumerate(_ladder(query, limits, spelling)):
        if place is None or rank >= place.rank:
            begin = place if place is not None and place.rank == rank else None
            for tier, body, better in rung():
                if tier is Tier.CLOSE:
                    yield _close_hits(read, query, limits, spelling, rank)
                else:
                    yield from _tier_windows(read, limits, body, better, tier, rank, begin)


# A tier, the expression of its documents, and that of those in better ones.
Rung: TypeAlias = Callable[[], Iterable[tuple[Tier, str, str | None]]]


def _ladder(query: Query, limits: Narrowing, spelling: Spelling) -> list[Rung]:
    """What is looked for, one after the other, each worked out when it is its turn."""
    exact = {tier: (tier, body, better) for tier, body, better in exact_tiers(query)}
    rungs: list[Rung] = [
        lambda tier=tier: [exact[tier]] if tier in exact else []  # type: ignore[misc]
        for tier in (Tier.PHRASE, Tier.NEAR, Tier.ALL)
    ]
    rungs.append(lambda: [(Tier.CLOSE, "", None)])
    if len(query.parts) == 1:
        return rungs

    def rarer() -> tuple[Phrase, ...]:
        """The words that say something: those that do not stand nearly everywhere."""
        counts = spelling.documents(query.parts)
        return tuple(
            part for part, n in zip(query.parts, counts, strict=True) if n <= limits.common
        )

    def better() -> list[tuple[Phrase, ...]]:
        return [query.parts, *spelling.close(query)]

    def with_rare_word() -> Iterable[tuple[Tier, str, str | None]]:
        words = (*rarer(), *spelling.alternatives(query))
        if words:
            yield Tier.ANY, any_word(words), _either(better())

    def with_common_word() -> Iterable[tuple[Tier, str, str | None]]:
        rare = rarer()
        if len(rare) < len(query.parts):
            others = [(part,) for part in (*rare, *spelling.alternatives(query))]
            common = [part for part in query.parts if part not in rare]
            yield Tier.ANY, any_word(common), _either([*better(), *others])

    return [*rungs, with_rare_word, with_common_word]


def _either(spellings: Iterable[Sequence[Phrase]]) -> str:
    return " OR ".join(f"({all_words(phrases)})" for phrases in spellings)


def _close_hits(
    read: Read, query: Query, limits: Narrowing, spelling: Spelling, rank: int
) -> list[_Hit]:
    """
    The hits of other spellings: the best of each in turn, then the second best of each.
    Ranked together, those of the rarest spelling would come first, and it is the least
    likely to be meant.
    """
    exact = all_words(query.parts)
    ranked: list[list[_Hit]] = []
    for phrases in spelling.close(query):
        body = all_words(phrases)
        windows = _tier_windows(read, limits, body, exact, Tier.CLOSE, rank, None)
        ranked += islice(windows, 1)
    hits: dict[int, _Hit] = {}
    for row in zip_longest(*ranked):
        for hit in row:
            if hit is not None:
                hits.setdefault(hit.id, evolve(hit, place=Place(rank, 0, None)))
    return list(hits.values())


def _tier_windows(
    read: Read,
    limits: Narrowing,
    body: str,
    better: str | None,
    tier: Tier,
    rank: int,
    begin: Place | None,
) -> Iterator[list[_Hit]]:
    """Yield the hits of *body* that are none of *better*, window by window."""
    window, below = (0, None) if begin is None else (begin.window, begin.below)
    match = limits.match(body)
    while True:
        condition, values = limits.condition, list(limits.values)
        unwanted = limits.unwanted()
        if unwanted:
            condition += " AND d.sid NOT IN (SELECT value FROM json_each(?))"
            values.append(json.dumps(list(unwanted)))
        if below is not None:
            condition += f" AND {limits.age} < ?"
            values.append(below)
        if better is not None:
            # Not by FTS5's NOT: its score would count each of these words in all documents.
            condition += " AND f.rowid NOT IN (SELECT rowid FROM fts WHERE fts MATCH ?)"
            values.append(limits.match(better))
        source = (
            f"FROM fts f CROSS JOIN doc d ON d.id = f.rowid WHERE f.fts MATCH ? AND {condition}"
        )
        floor = read(
            f"SELECT {limits.age} {source} ORDER BY f.rowid DESC"
            f" LIMIT 1 OFFSET {WINDOW_DOCUMENTS - 1}",
            [match, *values],
        )
        if floor:
            limits.windowed = True
            source += f" AND {limits.age} >= ?"
            values.append(floor[0][0])
        rows = read(
            f"SELECT f.rowid, d.sid, d.seq, round(f.rank * ?, 2) {source}"
            " ORDER BY 4, d.time DESC, f.rowid DESC",
            [limits.scale, match, *values],
        )
        place = Place(rank, window, below)
        yield [
            _Hit(row[0], tier, -row[3], place)
            for row in rows
            if row[1] not in limits.limits or _within(row[2], limits.limits[row[1]])
        ]
        if not floor:
            return
        window, below = window + 1, floor[0][0]


def _newest_hits(
    read: Read, limits: Narrowing, body: str, tier: Tier, rank: int, below: int | None
) -> list[_Hit]:
    """The newest hits of one session, each with its seq as the end of what is behind it."""
    condition, values = limits.condition, [limits.match(body), *limits.values]
    if below is not None:
        condition += " AND d.seq < ?"
        values.append(below)
    rows = read(
        "SELECT f.rowid, d.seq FROM fts f CROSS JOIN doc d ON d.id = f.rowid"
        f" WHERE f.fts MATCH ? AND {condition} ORDER BY f.rowid DESC LIMIT {WINDOW_DOCUMENTS}",
        values,
    )
    return [_Hit(row[0], tier, 0.0, Place(rank, 0, row[1])) for row in rows]


def _detailed(read: Read, hits: Sequence[_Hit], limits: Narrowing) -> Iterator[Match]:
    """Yield the matches of *hits*, looked up a few at a time."""
    for start in range(0, len(hits), DETAIL_ROWS):
        some = hits[start : start + DETAIL_ROWS]
        rows = read(
            f"SELECT d.id, s.id, d.sid, d.seq, d.time, k.type, d.turn, d.node, {limits.replacer}"
            " FROM json_each(?) i JOIN doc d ON d.id = i.value"
            " JOIN session s ON s.sid = d.sid JOIN kind k ON k.kid = d.kid",
            [json.dumps([hit.id for hit in some])],
        )
        found = {row[0]: row for row in rows}
        for hit in some:
            # One that is missing was removed since.
            if hit.id in found:
                _, session_id, sid, seq, time, type_, turn, node, by = found[hit.id]
                yield Match(
                    session_id,
                    sid,
                    seq,
                    time,
                    type_,
                    turn,
                    _class(node, by, limits.as_of),
                    hit.tier,
                    hit.relevance,
                    hit.place,
                )


def _class(node: int, by: int | None, as_of: int) -> EventClass:
    if not node:
        return EventClass.LOG_ONLY
    return EventClass.CURRENT if by is None or by >= as_of else EventClass.SHADOWED


def _within(seq: int, limits: tuple[int, int | None]) -> bool:
    return seq >= limits[0] and (limits[1] is None or seq < limits[1])
