"""
What a recorder knows of its sessions, and what it tells of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import define, frozen

from eventlog.errors import EventLogError, StoreBusy, StoreFull, StoreUnavailable
from eventlog.model import Event
from eventlog.session import Session

__all__ = ["RecordingHealth", "SessionRecording", "Track"]

RETRIED: Final = (StoreFull, StoreBusy, StoreUnavailable)
RETRY_S_FIRST: Final = 0.2
RETRY_S_MAX: Final = 5.0


@frozen
class SessionRecording:
    """
    How far one session is recorded.

    Attributes:
        session_id: The session.

        stored: How many of its first events are known to be in the store.

        pending: How many more it has.

        failure: Why its last write failed, None after one that did not.

        stopped: Whether *failure* has ended the recording of this session. Otherwise it
            is tried again.
    """

    session_id: str
    stored: int
    pending: int
    failure: EventLogError | None
    stopped: bool


@frozen
class RecordingHealth:
    """
    The state of a recorder.

    Attributes:
        sessions: The sessions that it records, oldest first, with those that are disposed
            and not stored yet.
    """

    sessions: tuple[SessionRecording, ...]

    def __repr__(self) -> str:
        return f"<RecordingHealth of {self.summary}>"

    @property
    def summary(self) -> str:
        """Counts, for a person: sessions, events pending, sessions that fail."""
        parts = [f"{len(self.sessions)} sessions", f"{self.pending} events pending"]
        for name, group in (("failing", self.failing), ("stopped", self.stopped)):
            if group:
                parts.append(f"{len(group)} {name}")
        return ", ".join(parts)

    @property
    def pending(self) -> int:
        """How many events are not known to be stored."""
        return sum(session.pending for session in self.sessions)

    @property
    def failing(self) -> Mapping[str, EventLogError]:
        """Why sessions are not stored at the moment, by id; they are tried again."""
        return self._failures(stopped=False)

    @property
    def stopped(self) -> Mapping[str, EventLogError]:
        """Why sessions are not recorded any more, by id."""
        return self._failures(stopped=True)

    @property
    def ok(self) -> bool:
        """Whether no session fails."""
        return all(session.failure is None for session in self.sessions)

    def _failures(self, *, stopped: bool) -> dict[str, EventLogError]:
        return {
            session.session_id: session.failure
            for session in self.sessions
            if session.failure is not None and session.stopped is stopped
        }


@define(eq=False)
class Track:
    """
    The recorder's mark in one session.

    Attributes:
        session: The session.

        stored: The mark: how many of its first events are stored.

        failure: Why the last write failed, None after one that did not.

        stopped: Whether *failure* is for good.

        failures: How many writes in a row have failed.

        retry_at_s: When to try again, by the monotonic clock.
    """

    session: Session
    stored: int
    failure: EventLogError | None = None
    stopped: bool = False
    failures: int = 0
    retry_at_s: float = 0.0

    @property
    def pending(self) -> int:
        """How many events are behind the mark."""
        return self.session.length - self.stored

    def unstored(self) -> list[Event]:
        """Return the events behind the mark."""
        return self.session.read(self.stored, self.session.length)

    def next_events(self, target: int, room_bytes: int) -> list[Event]:
        """
        Return the events from the mark on and below *target* that fit in *room_bytes*.

        At least one; and a seed copied from a parent comes whole with its end, since a
        store that has only part of it would call the rest the session's own.
        """
        events = self.session.read(self.stored, target)
        seed_length = self.session.header.seed_length
        least = max(1, 0 if seed_length is None else seed_length + 1 - self.stored)
        for count, event in enumerate(events):
            room_bytes -= len(event.payload)
            if room_bytes < 0 and count >= least:
                return events[:count]
        return events

    def advance(self, count: int) -> None:
        """Move the mark behind *count* events that are stored now."""
        self.stored += count
        self.failure = None
        self.failures = 0
        self.retry_at_s = 0.0

    def fail(self, error: EventLogError, now_s: float) -> None:
        """Keep why a write failed, and when to try again or that it is for good."""
        self.failure = error
        self.stopped = not isinstance(error, RETRIED)
        pause_s = min(RETRY_S_FIRST * 2 ** min(self.failures, 16), RETRY_S_MAX)
        self.failures += 1
        self.retry_at_s = now_s + pause_s

    def report(self) -> SessionRecording:
        """Return what is told of the session."""
        return SessionRecording(
            self.session.id, self.stored, self.pending, self.failure, self.stopped
        )
