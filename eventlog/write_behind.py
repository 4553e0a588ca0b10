"""
Bringing what sessions have appended into a store, by a thread of its own.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from queue import Empty, SimpleQueue
from threading import RLock, Thread
from time import monotonic
from typing import Final
from weakref import WeakSet

from eventlog.errors import EventLogError, SessionNotFound, StoreBusy, StoreUnavailable
from eventlog.locks import unowned
from eventlog.model import Batch
from eventlog.recording import RecordingHealth, Track
from eventlog.session import Session
from eventlog.store import EventStore
from eventlog.values import check_session_id, shown

__all__ = ["WriteBehind"]

logger = logging.getLogger("eventlog.recorder")

# Bounds what one write holds in memory and for how long it holds the store. A single
# event, and the seed of a fork, may be larger.
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024


class WriteBehind:
    """
    The marks of a recorder, and what moves them.

    The live logs are the buffer: of each session there is a mark, how many of its events
    are stored, and nothing else. A notification only says that there is news, so none
    can be lost, doubled or come too late. What a store refuses for a while stays where
    it is, and is tried again in order.

    Args:
        store: Where to.

        window_s: How long to collect after the first news.
    """

    def __init__(self, store: EventStore, window_s: float) -> None:
        self._store = store
        self._window_s = window_s
        # Guards the fields below for moments; nobody holds it while using the store. A
        # signal handler may append in one of these moments, so what is done under it is
        # right also where its thread does the same in the middle of it.
        self._lock = RLock()
        self._tracks: dict[Session, Track] = {}
        self._news: dict[Session, Track] = {}
        self._window_end_s: float | None = None
        self._ending = False
        # Wakes the thread to look anew at what is due. One call in C, which Ctrl-C
        # cannot cut in two as it could a Condition's.
        self._signals: SimpleQueue[None] = SimpleQueue()
        # Held while writing, so that one hand at a time moves the marks.
        self._writing = RLock()
        _writers.add(self)
        self._thread = Thread(target=self._run, name=f"recorder of {store.location}", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """
        Stop the thread; what it is writing is written.

        Raises:
            StoreBusy: This call interrupts a write of its own thread.
        """
        with self._interrupting_nothing():
            self._ending = True
        self._signals.put(None)
        self._thread.join()

    def health(self) -> RecordingHealth:
        """Return how far each session is recorded."""
        with self._lock:
            tracks = list(self._tracks.values())
        return RecordingHealth(tuple(track.report() for track in tracks))

    def found(self, session: Session | str | None) -> list[Track]:
        """
        Return the marks of a session, an id, or all.

        Null case: none for a disposed session, which has nothing left to store.

        Raises:
            SessionNotFound: There is no such session.

            ValueRejected: *session* is neither a session nor an id.
        """
        if session is not None and not isinstance(session, Session):
            check_session_id(session, path="session")
        with self._lock:
            if session is None:
                return list(self._tracks.values())
            if isinstance(session, Session):
                found = [self._tracks[session]] if session in self._tracks else []
                session_id, is_done = session.id, session.disposed
            else:
                tracks = list(self._tracks.values())
                found = [track for track in tracks if track.session.id == session]
                session_id, is_done = session, False
        if not found and not is_done:
            raise SessionNotFound(session_id)
        return found

    # What happens to sessions

    def begin(self, session: Session, stored: int = 0) -> None:
        """Track a session of which *stored* events are stored. Null case: it is tracked."""
        with self._lock:
            if session not in self._tracks:
                track = self._tracks[session] = Track(session, stored)
                if track.pending:
                    self._add_news(track)

    def notice(self, session: Session) -> None:
        """Take note that a session has news. Cost: O(1), without I/O."""
        with self._lock:
            if session not in self._news:
                track = self._tracks.get(session)
                # A flush may have come between the append and this.
                if track is not None and track.pending and not track.stopped:
                    self._add_news(track)

    def drain(self, session: Session) -> None:
        """Try once to store what a disposed session has left; forget it when all is stored."""
        with self._lock:
            track = self._tracks.get(session)
            if track is not None and not track.pending:
                self._tracks.pop(session, None)
        if track is not None and not track.stopped:
            try:
                self._store_until({track: session.length})
            except StoreBusy:
                self._later(track)

    def _add_news(self, track: Track) -> None:
        """Note that a session has events behind its mark, and open a window. Under the lock."""
        # An exception from outside, or a signal handler, strikes at a call: before the
        # stores, and the next notification finds everything as if there had been none.
        end_s = monotonic() + self._window_s
        if self._window_end_s is None:
            self._signals.put(None)
        if self._window_end_s is None:
            self._window_end_s = end_s
        self._news[track.session] = track

    def _later(self, track: Track) -> None:
        """Leave a session to the thread. Null case: it has nothing to store."""
        with self._lock:
            if track.pending and not track.stopped:
                self._add_news(track)

    # The thread

    def _run(self) -> None:
        while self._wait_until_due():
            with self._lock:
                now_s = monotonic()
                self._window_end_s = None
                targets = self._targets(now_s)
            try:
                self._store_until(targets)
            except Exception:
                logger.exception("writing was cut short, and goes on")
                for track in targets:
                    self._later(track)

    def _wait_until_due(self) -> bool:
        """Sleep until something is to be written; False when the writing ends."""
        while not self._ending:
            with self._lock:
                due_s = self._due_s()
            wait_s = None if due_s is None else due_s - monotonic()
            if wait_s is not None and wait_s <= 0:
                return True
            try:
                self._signals.get(timeout=wait_s)
            except Empty:
                pass  # it is time
        return False

    def _due_s(self) -> float | None:
        """When the next write is due: at the end of the window, or of a pause after a failure."""
        times = [track.retry_at_s for track in list(self._news.values()) if track.failures]
        if self._window_end_s is not None:
            times.append(self._window_end_s)
        return min(times, default=None)

    def _targets(self, now_s: float) -> dict[Track, int]:
        """The sessions with news that are not pausing, and how far to store each."""
        return {
            track: track.session.length
            for track in list(self._news.values())
            if track.retry_at_s <= now_s
        }

    # Writing

    def _interrupting_nothing(self) -> RLock:
        """
        Return what is held while writing.

        Raises:
            StoreBusy: This call came up in the midst of another one of its own thread.
        """
        # The thread that writes may be waiting for the first of them.
        unowned(self._lock)
        return unowned(self._writing)

    def store_all(self, tracks: Sequence[Track], *, with_news: bool = False) -> None:
        """
        Store what *tracks* have now, trying once.

        Args:
            with_news: Let other sessions with news share the commit.

        Raises:
            EventLogError: Why not all of it could be stored: the first session's error,
                with those of the others as notes.
        """
        targets = {track: track.session.length for track in tracks}
        self._store_until(targets, with_news=with_news)
        _raise_failures(track for track, target in targets.items() if track.stored < target)

    def _store_until(self, targets: Mapping[Track, int], *, with_news: bool = False) -> None:
        """
        Try once to store the events below *targets*, in writes of bounded size.

        Args:
            with_news: Let other sessions with news share the commit.
        """
        with self._interrupting_nothing():
            waiting = _behind(targets, targets)
            if waiting and with_news:
                with self._lock:
                    targets = {**self._targets(monotonic()), **targets}
                waiting = _behind(targets, targets)
            while waiting:
                batches: dict[Track, Batch] = {}
                room_bytes = BATCH_BYTES_MAX
                for track in waiting:
                    events = track.next_events(targets[track], room_bytes)
                    batches[track] = Batch(track.session.header, events)
                    room_bytes -= sum(len(event.payload) for event in events)
                    if room_bytes <= 0:
                        break
                results = self._write(list(batches.values()))
                for (track, batch), result in zip(batches.items(), results, strict=True):
                    if isinstance(result, EventLogError):
                        self._failed(track, result)
                        waiting.remove(track)
                    else:
                        self._succeeded(track, len(batch.events))
                waiting = _behind(waiting, targets)

    def _write(self, batches: Sequence[Batch]) -> Sequence[int | EventLogError]:
        try:
            results = self._store.append_many(batches)
            if len(results) == len(batches):
                return results
            raise TypeError(f"{len(results)} answers to {len(batches)} batches")
        except EventLogError as error:
            return [error] * len(batches)
        except Exception as error:
            # A driver that fails in its own way must not end the recording of the others.
            failure = StoreUnavailable(self._store.location, shown(error, 500))
            failure.__cause__ = error
            return [failure] * len(batches)

    def _succeeded(self, track: Track, count: int) -> None:
        session = track.session
        with self._lock:
            if track.failures:
                logger.info("session %r is stored again", session.id)
            track.advance(count)
            # First the news is taken away and then looked for: what a signal handler
            # appends in between makes news of its own.
            self._news.pop(session, None)
            if not self._news:
                self._window_end_s = None
            if track.pending:
                self._add_news(track)
            elif session.disposed:
                self._tracks.pop(session, None)

    def _failed(self, track: Track, error: EventLogError) -> None:
        session = track.session
        with self._lock:
            first = not track.failures
            track.fail(error, monotonic())
            if track.stopped:
                self._news.pop(session, None)
            else:
                self._news[session] = track
                self._signals.put(None)
        if track.stopped:
            logger.error("session %r is not recorded any more: %s", session.id, error)
        elif first:
            logger.warning("session %r cannot be stored, trying again: %s", session.id, error)


_writers: Final[WeakSet[WriteBehind]] = WeakSet()


def _free_locks() -> None:
    """Free what a thread held that did not come along into a forked child."""
    for writer in _writers:
        writer._lock, writer._writing = RLock(), RLock()


os.register_at_fork(after_in_child=_free_locks)


def _behind(tracks: Iterable[Track], targets: Mapping[Track, int]) -> list[Track]:
    return [track for track in tracks if not track.stopped and track.stored < targets[track]]


def _raise_failures(tracks: Iterable[Track]) -> None:
    failures = {track.session.id: track.failure for track in tracks if track.failure is not None}
    if not failures:
        return
    (first, failure), *others = failures.items()
    # A copy: the one in hand is raised again by the next call, and would grow.
    error = copy(failure)
    error.add_note(f"session {first!r}")
    for session_id, other in others:
        error.add_note(f"session {session_id!r} too: {other}")
    raise error from failure.__cause__
