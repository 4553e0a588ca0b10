"""
Writing live sessions behind, into a store.
"""

from __future__ import annotations

import atexit
import logging
import os
from types import TracebackType
from typing import Final, NoReturn, Self

from eventlog.errors import (
    EventLogError,
    InvalidArgument,
    NotPicklable,
    SequenceConflict,
    SessionExists,
    SessionNotFound,
    StoreClosed,
    StoreReadOnly,
)
from eventlog.live import LiveSessions
from eventlog.log import MemoryLog
from eventlog.model import Event
from eventlog.recording import RecordingHealth
from eventlog.resume import Inspection, check_resumable, inspect_live, inspect_stored
from eventlog.session import Session
from eventlog.store import EventStore
from eventlog.values import check_session_id, shown
from eventlog.write_behind import WriteBehind

__all__ = ["Recorder"]

logger = logging.getLogger("eventlog.recorder")

WINDOW_MS: Final = 200
WINDOW_MS_MAX: Final = 2**31 - 1


class Recorder:
    """
    Store every event of every live session, a little later.

    The first event after a quiet time opens a window; at its end everything new is
    written, all sessions together. :meth:`flush` writes at once. A session without
    events leaves nothing in the store.

    A session that the store has already is adopted where its header and events agree
    with the live ones. :class:`~eventlog.errors.StoreFull`,
    :class:`~eventlog.errors.StoreBusy` and :class:`~eventlog.errors.StoreUnavailable`
    are tried again with growing pauses of up to 5 s; meanwhile the events wait in the
    live log. Any other error, such as a conflict or a deleted session, ends the recording
    of its session; see :meth:`unstored`. Failures of both kinds show in :meth:`health`,
    are logged by ``eventlog.recorder``, and are raised by :meth:`flush` and :meth:`close`.

    Every method may be called from any thread. Close the recorder before its store; one
    that is open when Python exits is closed then. A child made by ``fork`` does not
    record. A signal handler should leave flushing and closing to the code that it
    interrupts: in the midst of a write of its own thread both are
    :class:`~eventlog.errors.StoreBusy`.

    Args:
        live: The sessions to record, with those that it has already.

        store: Where to. The recorder does not close it.

        window_ms: How long to collect, 1 … 2³¹−1 milliseconds.

    Raises:
        InvalidArgument: *window_ms* is out of range.

        StoreReadOnly: The store takes no writes.
    """

    def __init__(
        self, live: LiveSessions, store: EventStore, *, window_ms: int = WINDOW_MS
    ) -> None:
        if type(window_ms) is not int or not 1 <= window_ms <= WINDOW_MS_MAX:
            raise InvalidArgument(
                "window_ms", f"must be 1 … {WINDOW_MS_MAX}, not {shown(window_ms)}"
            )
        if not isinstance(live, LiveSessions):
            raise InvalidArgument("live", f"must be LiveSessions, not {type(live).__name__}")
        if not isinstance(store, EventStore):
            raise InvalidArgument("store", f"must be an EventStore, not {type(store).__name__}")
        if store.read_only:
            raise StoreReadOnly(store.location)
        self._live = live
        self._store = store
        self._process = os.getpid()
        self._closed = False
        # How many events of logs that are being resumed are stored.
        self._resumed: dict[MemoryLog, int] = {}
        self._writer = WriteBehind(store, window_ms / 1000)
        self._unsubscribe = live.observe(
            self._appended, created=self._created, disposed=self._disposed
        )
        for session in live:
            self._created(session)
        atexit.register(self._close_at_exit)

    @property
    def live(self) -> LiveSessions:
        """The sessions that are recorded."""
        return self._live

    @property
    def store(self) -> EventStore:
        """Where to; for another store make another recorder."""
        return self._store

    def flush(self, session: Session | str | None = None) -> None:
        """
        Return when everything appended before the call is stored.

        Events that wait to be tried again are tried at once. A disposed session with
        nothing left to store is left alone.

        Args:
            session: A session, or its id; None is all of them.

        Cost: one commit, which sessions with news share; none without news.

        Raises:
            SessionNotFound: *session* is not recorded here.

            StoreClosed: This process is a fork of the one that records.

            EventLogError: Why not everything could be stored; the events stay pending. Of
                several sessions that fail the first one's error is raised, the others
                are its notes.
        """
        self._check_process()
        self._writer.store_all(self._writer.found(session), with_news=True)

    def health(self) -> RecordingHealth:
        """Return how far each session is recorded, and what fails. Cost: O(sessions)."""
        return self._writer.health()

    def unstored(self, session: Session | str) -> list[Event]:
        """
        Return the events that are not known to be stored, in order; [] where all are.

        After a conflict these are the events that the store's log has not taken.

        Raises:
            SessionNotFound: *session* is not recorded here.
        """
        found = self._writer.found(session)
        return found[-1].unstored() if found else []

    def resume(self, session_id: str) -> Session:
        """
        Bring a stored session back to life, and record it from there on.

        A turn that was interrupted is closed first: its calls without a result get one
        that says so, then its step and the turn end. These synthetic events are stored
        when this returns. A log that is closed gets none, so resuming again adds
        nothing, and two processes that resume at once add the same ones once. Other
        open things, such as a compaction, are left to the harness.

        Args:
            session_id: A session of the store.

        Cost: one read of the log.

        Raises:
            SessionExists: The session is live already.

            SessionNotFound: The store has no such session. Nothing is created.

            UnsupportedFormat: The log has another version, or an event whose type the
                vocabulary does not know and that is not ignorable.

            SequenceConflict: Another process has appended meanwhile.

            CorruptLog: An event cannot be read.

            InvalidSurface: The log's fold fails.

            StoreClosed: The recorder was closed, or this process is a fork of its own.
        """
        self._check_process()
        if self._closed:
            raise StoreClosed(f"the recorder to {self.store.location}")
        check_session_id(session_id, path="session_id")
        if session_id in self.live:
            raise SessionExists(session_id)
        self._store_rest_of(session_id)
        inspection = inspect_stored(self.store.snapshot(session_id), self.live.vocabulary)
        check_resumable(inspection, self.live.vocabulary)
        log = inspection.log
        assert log is not None
        if inspection.closers:
            length = self.store.append(log.header, inspection.closers)
            if length != log.length:
                raise SequenceConflict(session_id, length, log.length)
        self._resumed[log] = log.length
        try:
            return self.live.adopt(log)
        finally:
            del self._resumed[log]

    def inspect(self, session_id: str) -> Inspection:
        """
        Show a session as :meth:`resume` would bring it back. Nothing is written.

        A live session is shown as it is now, with nothing to close.

        Cost: one read of the log.

        Raises:
            SessionNotFound: It is neither live nor stored.

            CorruptLog: An event cannot be read.

            InvalidSurface: The log's fold fails.
        """
        check_session_id(session_id, path="session_id")
        session = self.live.get(session_id)
        if session is not None:
            return inspect_live(session.snapshot(), self.live.vocabulary)
        return inspect_stored(self.store.snapshot(session_id), self.live.vocabulary)

    def close(self) -> None:
        """
        Stop recording, and store what is left, trying once.

        Closing again is harmless, and tries again where something was left. The store
        stays open.

        Raises:
            EventLogError: As :meth:`flush`, for all sessions.
        """
        if os.getpid() != self._process:
            return
        self._writer.end()
        self._closed = True
        self._unsubscribe()
        atexit.unregister(self._close_at_exit)
        self._writer.store_all(self._writer.found(None))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied: a thread of this process does the recording."""
        raise NotPicklable(
            "recorder",
            f"the recorder to {self.store.location} cannot leave its process; make one there, "
            "with LiveSessions and a store of its own",
        )

    def __repr__(self) -> str:
        return f"<Recorder to {self.store.location}: {self.health().summary}>"

    def _created(self, session: Session) -> None:
        self._writer.begin(session, self._resumed.get(session._log, 0))

    def _appended(self, session: Session, event: Event) -> None:
        self._writer.notice(session)

    def _disposed(self, session: Session) -> None:
        if os.getpid() == self._process:
            self._writer.drain(session)

    def _store_rest_of(self, session_id: str) -> None:
        """Store what a disposed session of this id has left, before it is read back."""
        try:
            rest = self._writer.found(session_id)
        except SessionNotFound:
            return
        self._writer.store_all(rest)

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            place = f"in this fork of process {self._process}, the recorder to"
            raise StoreClosed(f"{place} {self.store.location}")

    def _close_at_exit(self) -> None:
        try:
            self.close()
        except EventLogError as error:
            logger.error("events were not stored: %s", error)
