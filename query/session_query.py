"""
Queries over live and stored sessions as one corpus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, NoReturn

from eventlog.errors import NotPicklable
from eventlog.model import Event, HeadKey
from eventlog.store import EventStore
from eventlog.values import shown
from eventlog.vocabulary import DEFAULT_VOCABULARY, Vocabulary

from . import reads
from .corpus import Corpus, LiveSource
from .corpus_snapshot import CorpusSnapshot
from .cursors import Cursors
from .errors import Code, SessionQueryError, check_cancel, check_id, check_limit
from .faults import distinct
from .filters import EventFilter, SessionFilter, described, event_filters, session_filters
from .listing import session_page
from .records import (
    EventDocument,
    EventRecord,
    EventTrace,
    EventWindow,
    LineageTrace,
    OnConflict,
    Page,
    SessionRecord,
    SurfaceSnapshot,
)
from .search.methods import SearchMethods
from .tracing import event_trace, lineage_trace

if TYPE_CHECKING:
    from .search.provider import SearchProvider

__all__ = ["SessionQuery"]

Cancel = Callable[[], bool]


class SessionQuery(SearchMethods):
    """
    Read live and stored sessions as one corpus.

    Where both hold a session, its live events win. A read of a live session never touches
    the store. Every method may be called from any thread. It is trusted and authorises
    nobody.

    Every method raises :class:`~eventlog.query.SessionQueryError` and nothing else on a
    bad argument, a bad source or a damaged log. Those with a *cancel* ask it now and then
    and raise ABORTED once it answers true; what it raises itself passes through.

    Args:
        live: The live sessions, such as :class:`~eventlog.live.LiveSessions`. None: there
            are none.

        store: The store to begin with, see :meth:`mount`. It is never closed here.

        vocabulary: What event types mean.

        read_window_max: The most that *before* and *after* of a window may be.

        search: The engine that searches stored sessions; None is the default index, made
            when it is first used, in the user's cache folder. False switches search off.

    Raises:
        SessionQueryError: INVALID_CONFIG: one of these is something else.
    """

    def __init__(
        self,
        live: LiveSource | None = None,
        store: EventStore | None = None,
        *,
        vocabulary: Vocabulary = DEFAULT_VOCABULARY,
        read_window_max: int = 50,
        search: SearchProvider | Literal[False] | None = None,
    ) -> None:
        if live is not None and not isinstance(live, LiveSource):
            raise _config(f"live cannot be read from: {type(live).__name__}")
        if not isinstance(vocabulary, Vocabulary):
            raise _config(f"vocabulary must be a Vocabulary, not {type(vocabulary).__name__}")
        if type(read_window_max) is not int or read_window_max < 0:
            raise _config(f"read_window_max must be an int ≥ 0, not {shown(read_window_max)}")
        super().__init__(vocabulary, search)
        self.read_window_max = read_window_max
        # Replaced as a whole and never changed, so that a running read keeps its own.
        self._corpus = Corpus(live, None if store is None else _checked_store(store))

    @property
    def corpus(self) -> Corpus:
        """The sources as of now, as an immutable value."""
        return self._corpus

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied, as do live sessions and indexes."""
        raise NotPicklable(
            "query", "a SessionQuery cannot leave its process; make one there, over a store"
        )

    def __repr__(self) -> str:
        sources = [
            repr(source) for source in (self._corpus.live, self._corpus.store) if source is not None
        ]
        return f"<SessionQuery of {' and '.join(sources) or 'nothing'}>"

    def mount(self, store: EventStore) -> None:
        """
        Read from *store* from now on, in the place of the one before.

        Calls that are running keep what they began with. Neither store is closed.

        Raises:
            SessionQueryError: INVALID_CONFIG: it is no store.
        """
        self._corpus = Corpus(self._corpus.live, _checked_store(store))

    def unmount(self) -> None:
        """
        Read from no store from now on. Running calls keep theirs; it is not closed.

        Null case: none is mounted, and nothing happens.
        """
        self._corpus = Corpus(self._corpus.live, None)

    def list_sessions(
        self,
        *,
        filters: Sequence[SessionFilter] = (),
        limit: int = 50,
        cursor: str | None = None,
        on_conflict: OnConflict | str = OnConflict.RAISE,
        cancel: Cancel | None = None,
    ) -> Page[SessionRecord]:
        """
        Return sessions, newest first, then by id in code point order.

        Each session is on exactly one page, whatever is added or deleted in between. One
        that cannot be read is a fault.

        Args:
            filters: What all of them must pass; the page is scanned on until it is full.

            limit: At most so many, at least 1.

            cursor: Where the page before ended; it never goes stale. None starts with
                the newest.

            on_conflict: ``"raise"``, or ``"fault"`` to leave out a session whose live and
                stored headers differ, with a fault of the kind ``"conflict"``.

        Cost: *limit* heads of each source; with filters, the heads scanned. ``Ids`` and
        ``Parent`` are looked up, ``CreatedAt`` and ``Availability`` bound the scan.

        Raises:
            SessionQueryError: INVALID_FILTER, INVALID_LIMIT, INVALID_CURSOR (also with
                other filters than the page before), INVALID_CONFIG: *on_conflict* or
                *cancel*; SOURCE_CONFLICT; PERSISTENCE_FAILED: the store as a whole cannot
                be read; ABORTED.
        """
        held = session_filters(filters)
        check_limit(limit)
        policy = _policy(on_conflict)
        cursors = Cursors("list_sessions", described(held))
        after = None
        if cursor is not None:
            created_at, session_id = cursors.decode(cursor, int, str)
            after = HeadKey(created_at, session_id)
        page = session_page(self._corpus, held, after, limit, policy, cancel)
        check_cancel(cancel)
        key = page.next_key
        return Page(
            tuple(page.records),
            None if key is None else cursors.encode(key.created_at, key.session_id),
            distinct(page.faults),
        )

    def list_events(
        self,
        session_id: str,
        *,
        start: int = 0,
        limit: int = 1000,
        filters: Sequence[EventFilter] = (),
        at: int | None = None,
        cursor: str | None = None,
        cancel: Cancel | None = None,
    ) -> Page[EventRecord]:
        """
        Return events without their data, in seq order.

        Args:
            start: The first seq; beyond the log there is nothing, and no error.

            limit: At most so many, at least 1.

            filters: What all of them must pass; the page is scanned on until it is full.

            at: Take the log as it was when it had so many events, 0 … its length. None
                is now; the pages that follow by cursor keep it.

            cursor: Where the page before ended, in the place of *start*.

        Cost: the events returned and one lookup of their classes; with filters, the
        events scanned.

        Raises:
            SessionQueryError: SESSION_NOT_FOUND, INVALID_WINDOW, INVALID_LIMIT,
                INVALID_FILTER, INVALID_CURSOR; INVALID_SURFACE: the log's fold fails;
                CORRUPT_SESSION, SOURCE_CONFLICT, PERSISTENCE_FAILED, ABORTED.
        """
        held = event_filters(filters)
        check_limit(limit)
        reads.check_count(start, "start")
        if at is not None:
            reads.check_count(at, "at")
        check_cancel(cancel)
        check_id(session_id)
        cursors = Cursors("list_events", session_id, described(held), at)
        log, start = self._resumed(session_id, at, start, cursors, cursor)
        records, following = reads.event_records(log, start, limit, held, self.vocabulary, cancel)
        check_cancel(cancel)
        return Page(tuple(records), _next(cursors, following, log))

    def read_event(
        self,
        session_id: str,
        seq: int,
        *,
        before: int = 0,
        after: int = 0,
        cancel: Cancel | None = None,
    ) -> EventWindow:
        """
        Return one event with its neighbours; at the ends of the log there are fewer.

        The log's surface is not needed: one whose fold fails is read like any other.

        Args:
            before: How many events before it, 0 … *read_window_max*.

            after: How many behind it, the same.

        Cost: *before* + 1 + *after* records, 2 heads.

        Raises:
            SessionQueryError: SESSION_NOT_FOUND; EVENT_NOT_FOUND; INVALID_WINDOW:
                *before* or *after* is out of range; CORRUPT_SESSION, SOURCE_CONFLICT,
                PERSISTENCE_FAILED, ABORTED.
        """
        for name, count in (("before", before), ("after", after)):
            if reads.check_count(count, name) > self.read_window_max:
                raise SessionQueryError(
                    Code.INVALID_WINDOW, f"{name} is at most {self.read_window_max}, not {count}"
                )
        with self._log(session_id, cancel) as log:
            return reads.window(log, seq, before, after)

    def read_surface(
        self, session_id: str, *, at: int | None = None, cancel: Cancel | None = None
    ) -> SurfaceSnapshot:
        """
        Return what the model sees, or saw.

        Args:
            at: The length at which it is taken, 0 … the log's; None is now.

        Null case: an empty surface for an empty log.

        Cost: its nodes.

        Raises:
            SessionQueryError: SESSION_NOT_FOUND, INVALID_WINDOW; INVALID_SURFACE: the
                log's fold fails; CORRUPT_SESSION, SOURCE_CONFLICT, PERSISTENCE_FAILED,
                ABORTED.
        """
        with self._log(session_id, cancel, at=at) as log:
            return reads.surface(log, cancel)

    def read_log(self, session_id: str, *, cancel: Cancel | None = None) -> Iterator[Event]:
        """
        Return an iterator over the whole log as of now, read in pages as it is taken.

        Cost: the events taken, one page of them in memory.

        Raises:
            SessionQueryError: At the call SESSION_NOT_FOUND, SOURCE_CONFLICT; on the way
                CORRUPT_SESSION at the first damaged page, SESSION_NOT_FOUND once it is
                deleted; PERSISTENCE_FAILED, ABORTED.
        """
        check_cancel(cancel)
        return reads.whole_log(self._corpus.snapshot(session_id), cancel)

    def trace_event(self, session_id: str, seq: int, *, cancel: Cancel | None = None) -> EventTrace:
        """
        Return where an event comes from and what became of it.

        Cost: 1 record, 2 heads, the rows of the answer; the chain is cut at 100.

        Raises:
            SessionQueryError: SESSION_NOT_FOUND; EVENT_NOT_FOUND; INVALID_SURFACE: the
                log's fold fails; CORRUPT_SESSION, SOURCE_CONFLICT, PERSISTENCE_FAILED,
                ABORTED.
        """
        with self._log(session_id, cancel) as log:
            return event_trace(log, seq)

    def trace_session(self, session_id: str, *, cancel: Cancel | None = None) -> LineageTrace:
        """
        Return where a session comes from and what came from it.

        A parent that is in neither source, or cannot be read, leaves the trace incomplete.

        Cost: the heads of its ancestors and descendants, in each source.

        Raises:
            SessionQueryError: SESSION_NOT_FOUND; INVALID_LINEAGE: a session is its own
                ancestor; CORRUPT_SESSION: its own header cannot be read;
                SOURCE_CONFLICT, PERSISTENCE_FAILED, ABORTED.
        """
        check_cancel(cancel)
        trace = lineage_trace(self._corpus, session_id, cancel)
        check_cancel(cancel)
        return trace

    def filter_events(
        self,
        session_id: str,
        filters: Sequence[EventFilter] = (),
        *,
        limit: int = 50,
        cursor: str | None = None,
        cancel: Cancel | None = None,
    ) -> Page[EventDocument]:
        """
        Return events with their text, in seq order. Events without text are left out.

        Args:
            filters: What all of them must pass; the page is scanned on until it is full.

            limit: At most so many, at least 1.

            cursor: Where the page before ended; all pages show the log of the first one.

        Cost: the events scanned.

        Raises:
            SessionQueryError: SESSION_NOT_FOUND, INVALID_LIMIT, INVALID_FILTER,
                INVALID_CURSOR; INVALID_SURFACE: the log's fold fails; CORRUPT_SESSION,
                SOURCE_CONFLICT, PERSISTENCE_FAILED, ABORTED.
        """
        held = event_filters(filters)
        check_limit(limit)
        check_cancel(cancel)
        check_id(session_id)
        cursors = Cursors("filter_events", session_id, described(held))
        log, start = self._resumed(session_id, None, 0, cursors, cursor)
        found, following = reads.documents(log, start, limit, held, self.vocabulary, cancel)
        check_cancel(cancel)
        return Page(tuple(found), _next(cursors, following, log))

    @contextmanager
    def _log(
        self, session_id: str, cancel: Cancel | None, *, at: int | None = None
    ) -> Iterator[CorpusSnapshot]:
        """Hold a session's log for one answer; *cancel* is asked before and behind it."""
        if at is not None:
            reads.check_count(at, "at")
        check_cancel(cancel)
        yield self._corpus.snapshot(session_id, at=at)
        check_cancel(cancel)

    def _resumed(
        self, session_id: str, at: int | None, start: int, cursors: Cursors, cursor: str | None
    ) -> tuple[CorpusSnapshot, int]:
        """Return the log of a listing and where its page starts."""
        if cursor is None:
            return self._corpus.snapshot(session_id, at=at), start
        start, length = cursors.decode(cursor, int, int)
        try:
            return self._corpus.snapshot(session_id, at=length), start
        except SessionQueryError as error:
            if error.code is not Code.INVALID_WINDOW:
                raise
            # The log is shorter than it was, as when a live session is gone that was not
            # flushed: what is left of it is served.
            return self._corpus.snapshot(session_id), start


def _next(cursors: Cursors, following: int | None, log: CorpusSnapshot) -> str | None:
    return None if following is None else cursors.encode(following, log.length)


def _config(reason: str) -> SessionQueryError:
    return SessionQueryError(Code.INVALID_CONFIG, reason)


def _checked_store(store: object) -> EventStore:
    if not isinstance(store, EventStore):
        raise _config(f"store must be an EventStore, not {type(store).__name__}")
    return store


def _policy(on_conflict: object) -> OnConflict:
    if isinstance(on_conflict, str) and on_conflict in set(OnConflict):
        return OnConflict(on_conflict)
    raise _config(f"on_conflict is 'raise' or 'fault', not {shown(on_conflict)}")
