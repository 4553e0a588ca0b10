"""
What an import did, in numbers that add up.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from attrs import define, evolve, field, frozen

from eventlog.sources import RecordFault, RecordTally

__all__ = ["ImportAccount", "ImportedSession", "Outcome", "RefusedSession"]

FAULTS_MAX: Final = 10_000


class Outcome(StrEnum):
    """What became of a session that a source has."""

    NEW = "new"
    """The store had nothing of it."""

    GROWN = "grown"
    """The store had a part of it, and has more now."""

    SAME = "same"
    """The store had all of it."""


@frozen
class ImportedSession:
    """
    A session that is in the store now as its source has it.

    Attributes:
        session_id: The session.

        path: Where the source has it; of several copies the longest.

        outcome: Whether anything was new.

        events: How many events were added.

        rewritten: How many of them replace something because the source had changed it,
            or hold what a source put between records that were imported before.
    """

    session_id: str
    path: str
    outcome: Outcome
    events: int = 0
    rewritten: int = 0


@frozen
class RefusedSession:
    """
    A session, or a file that should hold one, that could not be brought in.

    Attributes:
        session_id: The session, None where it is not known.

        path: Where the source has it.

        kind: The class of the error, such as ``"CorruptLog"``; ``"duplicate"`` for a file
            of a session that another file has as well, with other records; and those of
            :class:`~eventlog.sources.Unreadable`.

        reason: What was wrong, for a person.

        events: How many of its events were stored before that was seen.
    """

    session_id: str | None
    path: str
    kind: str
    reason: str
    events: int = 0


@define
class ImportAccount:
    """
    What became of every session and every record that a source has.

    Sessions: ``found == new + grown + same + len(refused)``. Records:
    ``records.found == records.mapped + records.kept + records.refused``. Both hold always
    (:attr:`adds_up`). A session that is *same* because nothing of its file changed is
    counted with the records that the import before had found in it.

    Attributes:
        tool: The source's name.

        sessions: Every session that is in the store now, in the order of reading.

        refused: Every other one.

        records: The counts over all of them. Its faults stop at ten thousand.

        events: Events added.
    """

    tool: str
    sessions: list[ImportedSession] = field(factory=list)
    refused: list[RefusedSession] = field(factory=list)
    records: RecordTally = field(factory=RecordTally)
    events: int = 0

    @property
    def found(self) -> int:
        """How many sessions the source has, those that could not be read included."""
        return len(self.sessions) + len(self.refused)

    @property
    def new(self) -> int:
        """How many sessions the store had nothing of."""
        return self._count(Outcome.NEW)

    @property
    def grown(self) -> int:
        """How many sessions have more now."""
        return self._count(Outcome.GROWN)

    @property
    def same(self) -> int:
        """How many sessions the store had whole."""
        return self._count(Outcome.SAME)

    @property
    def rewritten(self) -> int:
        """How many events were added because a source had changed what was imported."""
        return sum(session.rewritten for session in self.sessions)

    @property
    def faults(self) -> list[RecordFault]:
        """The records that were refused, each with its reason."""
        return self.records.faults

    @property
    def adds_up(self) -> bool:
        """Whether every record and every session found is accounted for, once."""
        named = self.new + self.grown + self.same + len(self.refused)
        return self.records.adds_up and self.found == named

    def enter(self, session: ImportedSession, *, again: bool = False) -> None:
        """
        Count a session.

        Args:
            again: Whether another copy of it may have been counted; it counts once.
        """
        self.events += session.events
        if again:
            for place, before in enumerate(self.sessions):
                if before.session_id == session.session_id:
                    self.sessions[place] = _combined(before, session)
                    return
        self.sessions.append(session)

    def take(self, tally: RecordTally) -> None:
        """Add the counts of one transcript."""
        for name in ("found", "mapped", "kept", "refused", "altered", "bytes_read"):
            setattr(self.records, name, getattr(self.records, name) + getattr(tally, name))
        room = FAULTS_MAX - len(self.records.faults)
        self.records.faults += tally.faults[: max(room, 0)]

    def refuse(
        self, session_id: str | None, path: str, kind: str, reason: str, *, events: int = 0
    ) -> None:
        """Count a session that could not be brought in, or not whole."""
        self.refused.append(RefusedSession(session_id, path, kind, reason, events))

    def _count(self, outcome: Outcome) -> int:
        return sum(session.outcome is outcome for session in self.sessions)


def _combined(before: ImportedSession, after: ImportedSession) -> ImportedSession:
    return evolve(
        after,
        path=before.path if after.outcome is Outcome.SAME else after.path,
        outcome=after.outcome if before.outcome is Outcome.SAME else before.outcome,
        events=before.events + after.events,
        rewritten=before.rewritten + after.rewritten,
    )
