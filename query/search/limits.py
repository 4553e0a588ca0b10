"""
What limits a ranking, in the terms of an index: sessions, types, times, classes.
"""

from __future__ import annotations

from typing import Final

from attrs import define, field

from eventlog.model import EventClass

from .expressions import faceted
from .narrowing import DocumentScope

__all__ = ["RANKED_DOCUMENTS_MAX", "WINDOW_DOCUMENTS", "Narrowing", "narrowing"]

WINDOW_DOCUMENTS: Final = 2_000
"""Of more matches than that only the newest are ranked together."""

RANKED_DOCUMENTS_MAX: Final = 5 * WINDOW_DOCUMENTS
"""Where so many documents may match, but by chance much fewer do, all are ranked together."""


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

        done: Of many sessions those that are no longer looked for, by sid; grows while
            matches are drawn.

        limits: For some sids the seqs that may match, ``[start, stop)``.

        scale: What relevance is multiplied by.

        windowed: Set once a ranking is only that of a window.
    """

    sid: int | None
    sids: frozenset[int] | None
    kinds: frozenset[int] | None
    condition: str
    values: list[object]
    as_of: int
    done: set[int] = field(factory=set)
    limits: dict[int, tuple[int, int | None]] = field(factory=dict)
    scale: float = 1.0
    windowed: bool = False

    def match(self, body: str) -> str:
        return faceted(body, sids=self.sids, kinds=self.kinds)

    def wants(self, sid: int, seq: int) -> bool:
        """Tell whether a hit is looked for."""
        if sid in self.done:
            return False
        start, stop = self.limits.get(sid, (0, None))
        return seq >= start and (stop is None or seq < stop)

    @property
    def is_open(self) -> bool:
        """Whether all that matches is wanted, but for what is too new and what is done."""
        return self.condition == "d.id < ?"

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
