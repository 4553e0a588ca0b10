"""
Forks and what they come from, across both sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..corpus import Corpus
from ..errors import Code, SessionQueryError
from .catching_up import shared_prefix
from .family import Relative, hidden_below
from .narrowing import SessionScope
from .provider import SearchProvider

__all__ = ["Kinship"]

UNREADABLE_CODES: Final = (
    Code.SESSION_NOT_FOUND,
    Code.CORRUPT_SESSION,
    Code.PERSISTENCE_FAILED,
)


class Kinship:
    """
    Which events of which sessions a search over many sessions leaves to another one.

    Args:
        corpus: The sources.

        live: The index of live sessions, None where none is searched.

        stored: The index of stored ones, None where none is searched.

        scope: Which sessions are searched.
    """

    def __init__(
        self,
        corpus: Corpus,
        live: SearchProvider | None,
        stored: SearchProvider | None,
        scope: SessionScope,
    ) -> None:
        self._corpus = corpus
        self._live = live
        self._stored = stored
        self._scope = scope
        self._limits: dict[str, tuple[int, int | None]] | None = None

    def limits(self, before_seqs: Mapping[str, int]) -> Mapping[str, tuple[int, int | None]]:
        """
        Return for some sessions the seqs that may match, ``[start, stop)``.

        Args:
            before_seqs: Of some sessions, nothing from this seq on matches.
        """
        if self._limits is None:
            hidden = hidden_below(self._family(), self._alike)
            self._limits = {
                session_id: (hidden.get(session_id, 0), before_seqs.get(session_id))
                for session_id in hidden.keys() | before_seqs.keys()
            }
        return self._limits

    def _family(self) -> list[Relative]:
        # A live session is what its live log says, so the live index comes last.
        engines = [engine for engine in (self._stored, self._live) if engine is not None]
        members: dict[str, Relative] = {}
        wanted: set[str] = set()
        asked: set[str] = set()
        while True:
            for engine in engines:
                for member in engine.family(self._scope, wanted):
                    members[member.session_id] = member
            asked |= wanted
            parents = {m.parent_id for m in members.values() if m.seed_length}
            wanted = {parent for parent in parents if parent} - members.keys() - asked
            if not wanted or len(engines) < 2:
                return list(members.values())

    def _alike(self, first: Relative, second: Relative, stop: int) -> int:
        if first.shared is not None and first.parent_id == second.session_id:
            return min(first.shared, stop)
        try:
            logs = [self._corpus.snapshot(one.session_id) for one in (first, second)]
            return shared_prefix(logs[0], logs[1], 0, stop)
        except SessionQueryError as error:
            if error.code not in UNREADABLE_CODES:
                raise
            # Nothing is hidden for the sake of what cannot be read.
            return 0
