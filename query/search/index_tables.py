"""
What an index says about itself: its counts, its numbers for sessions and types, its faults.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Final

from eventlog.model import Fault

from .database import Database
from .layout import state_number
from .narrowing import DocumentScope, SessionScope
from .parsing import Query

__all__ = ["FAULTS_MAX", "IndexTables"]

FAULTS_MAX: Final = 50
"""So many faults are told of at most; the last one then says how many there are."""


class IndexTables:
    """Reads of the tables around the full-text index."""

    def __init__(self, db: Database) -> None:
        self._db = db

    @property
    def hidden(self) -> int:
        """How many documents the file holds that are gone."""
        return self.state("gone")

    def state(self, name: str) -> int:
        """Return a number that the index keeps of itself."""
        return state_number(self._db, name)

    def kinds(self, types: Collection[str] | None) -> frozenset[int] | None:
        """Return the numbers of event types; those never indexed have none. None is all."""
        if types is None:
            return None
        return frozenset(self._numbers("SELECT kid FROM kind WHERE type", types))

    def sids(self, scope: SessionScope) -> frozenset[int] | None:
        """Return the numbers of the sessions of a scope; None where it is every session."""
        conditions: list[str] = []
        values: list[object] = []
        for column, names in (("id", scope.ids), ("cwd", scope.cwds), ("parent", scope.parents)):
            if names is not None:
                condition = f"{column} IN (SELECT value FROM json_each(?))"
                if None in names:
                    condition = f"({condition} OR {column} IS NULL)"
                conditions.append(condition)
                values.append(json.dumps(sorted(name for name in names if name is not None)))
        for condition, bound in (
            ("created_at >= ?", scope.created_start),
            ("created_at <= ?", scope.created_end),
        ):
            if bound is not None:
                conditions.append(condition)
                values.append(bound)
        if not conditions:
            return None
        rows = self._db.execute(f"SELECT sid FROM session WHERE {' AND '.join(conditions)}", values)
        return frozenset(sid for (sid,) in rows)

    def numbers(self, session_ids: Iterable[str]) -> dict[str, int]:
        """Return the numbers of sessions; those not indexed are left out."""
        ids = list(session_ids)
        if not ids:
            return {}
        return dict(
            self._db.execute(
                "SELECT id, sid FROM session WHERE id IN (SELECT value FROM json_each(?))",
                (json.dumps(ids),),
            )
        )

    def session_documents(
        self, sid: int, kinds: frozenset[int] | None, documents: DocumentScope
    ) -> int:
        """
        Return how many documents of a session a scope lets through by type and seq.

        Cost: the types of the session, and the documents behind the scope's end.
        """
        of_kinds, values = "", [sid]
        if kinds is not None:
            of_kinds = f" AND kid IN ({', '.join(map(str, sorted(kinds))) or 'NULL'})"
        total = self._db.value(f"SELECT sum(docs) FROM tally WHERE sid = ?{of_kinds}", values) or 0
        for condition, bound in (
            ("seq < ?", documents.start or None),
            ("seq >= ?", documents.stop),
        ):
            if bound is not None:
                total -= self._db.value(
                    f"SELECT count(*) FROM doc WHERE sid = ? AND {condition}{of_kinds}",
                    (sid, bound),
                )
        return max(int(total), 0)

    def documents(
        self,
        sids: frozenset[int] | None,
        kinds: frozenset[int] | None,
        excluded: frozenset[int],
    ) -> int:
        """Return how many documents of some sessions have some types; None is all."""
        if sids is None and kinds is None:
            left_out = self.documents(excluded, None, frozenset()) if excluded else 0
            return self.state("docs") - left_out
        conditions, values = ["1"], []
        for condition, numbers in (
            ("sid IN (SELECT value FROM json_each(?))", sids),
            ("kid IN (SELECT value FROM json_each(?))", kinds),
            ("sid NOT IN (SELECT value FROM json_each(?))", excluded or None),
        ):
            if numbers is not None:
                conditions.append(condition)
                values.append(json.dumps(sorted(numbers)))
        table = "session" if kinds is None else "tally"
        return int(
            self._db.value(
                f"SELECT sum(docs) FROM {table} WHERE {' AND '.join(conditions)}", values
            )
            or 0
        )

    def frequencies(self, query: Query) -> tuple[int, ...]:
        """Return how many documents there are, then how many have each part of a query."""
        counts = [self.state("docs")]
        for part in query.parts:
            found = [
                self._db.value(
                    "SELECT doc FROM vocabulary WHERE term = ? AND col = 'body'", (word,)
                )
                for word in part.words
            ]
            counts.append(min(count or 0 for count in found))
        return tuple(counts)

    def faults(self, session_id: str | None = None) -> tuple[Fault, ...]:
        """Return what could not be read: of one session, or of all."""
        condition, values = ("", ()) if session_id is None else (" WHERE id = ?", (session_id,))
        rows = self._db.execute(
            f"SELECT id, path, kind, detail FROM fault{condition} LIMIT {FAULTS_MAX + 1}", values
        )
        faults = [Fault(*row) for row in rows]
        if len(faults) > FAULTS_MAX:
            count = self._db.value(f"SELECT count(*) FROM fault{condition}", values)
            faults[-1] = Fault(None, None, "more", f"{count} faults in all")
        return tuple(faults)

    def _numbers(self, statement: str, names: Collection[str]) -> list[int]:
        rows = self._db.execute(
            f"{statement} IN (SELECT value FROM json_each(?))", (json.dumps(sorted(names)),)
        )
        return [number for (number,) in rows]
