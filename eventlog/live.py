"""
The sessions that a running harness holds.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NoReturn
from uuid import UUID

from eventlog.admission import members
from eventlog.catalog import Catalog
from eventlog.errors import (
    InvalidArgument,
    InvalidSurface,
    NotPicklable,
    SessionExists,
    SessionNotFound,
)
from eventlog.locks import forkable_lock, unowned
from eventlog.log import MemoryLog
from eventlog.model import Event, HeadKey, HeadPage, SessionHead, SessionHeader
from eventlog.observers import Observer, Observers
from eventlog.redaction import Redact
from eventlog.session import Session, now_ms
from eventlog.snapshot import LogSnapshot
from eventlog.store import check_page, head_page
from eventlog.values import JSONValue, check_index, check_session_id, shown
from eventlog.vocabulary import DEFAULT_VOCABULARY, Vocabulary

__all__ = ["LiveSessions", "Session"]

END_SEED = "session/end-seed"


class LiveSessions:
    """
    Create, list, fork and dispose live sessions.

    Every method may be called from any thread. Reads mirror those of a store. A session
    is here from its creation on, also while it has no events. A signal handler or a
    finalizer, which runs in the midst of another call of its thread, reads as anyone;
    where that call is changing what it would change, it gets
    :class:`~eventlog.errors.StoreBusy`, and nothing was done.

    Args:
        vocabulary: What event types mean; it gives the messages.

        redact: Called with the type, the path and the text of every str in the data of
            each event that is appended to a session here; what it returns is kept in its
            place. It comes before anything is stored or told, and what it took away is
            nowhere. A path is like ``data.message.content[0].text``. None changes
            nothing.

            What exists already is taken as it is: a seed, what a fork copies, a stored
            log and the events that close it. Headers, keys and numbers are not redacted,
            and a secret that is split over several chunks is not seen whole. It runs
            outside all locks, in the thread that appends. What it is given twice it must
            answer alike, and leave alone what it has returned: otherwise a replaced
            ``tool/result`` differs from its original in more than its content, and is
            refused. Where it raises, the event is not appended.

    Raises:
        InvalidArgument: *vocabulary* is no Vocabulary, or *redact* cannot be called.
    """

    def __init__(
        self, *, vocabulary: Vocabulary = DEFAULT_VOCABULARY, redact: Redact | None = None
    ) -> None:
        if not isinstance(vocabulary, Vocabulary):
            raise InvalidArgument(
                "vocabulary", f"must be a Vocabulary, not {type(vocabulary).__name__}"
            )
        if redact is not None and not callable(redact):
            raise InvalidArgument("redact", f"must be callable, not {type(redact).__name__}")
        self._vocabulary = vocabulary
        self._redact = redact
        self._lock = forkable_lock()
        self._sessions: dict[str, Session] = {}
        # Being in the dict decides who is live; the catalogue follows it.
        self._catalog = Catalog(lambda: [session.header for session in self])
        self._observers = Observers()

    @property
    def vocabulary(self) -> Vocabulary:
        """What event types mean."""
        return self._vocabulary

    def create(
        self,
        session_id: str | None = None,
        *,
        created_at: int | None = None,
        cwd: str | None = None,
        parent_session: str | None = None,
        seed_length: int | None = None,
        origin: str | None = None,
        delegation_depth: int = 0,
        agent_preset: str | None = None,
        extra: Mapping[str, JSONValue] | None = None,
        seed: Sequence[Event] | None = None,
    ) -> Session:
        """
        Start a session.

        Args:
            session_id: Its id; None makes one that sorts by time and cannot be guessed.

            created_at: Unix milliseconds; None is now.

            seed: The events to start with, from seq 0 on. A ``session/end-seed`` is put
                behind them, unless they end with one. None starts empty. Observers are
                told of the session, not of its seed.

        The other arguments are those of :class:`~eventlog.model.SessionHeader`.

        Cost: O(log n), and the seed's fold.

        Raises:
            SessionExists: A live session has this id.

            ValueRejected: A header field is not accepted.

            InvalidArgument: *seed* is no sequence of events.

            InvalidSurface: The seed has a gap, or the fold refuses one of its events.
        """
        header = SessionHeader(
            new_session_id() if session_id is None else session_id,
            now_ms() if created_at is None else created_at,
            cwd=cwd,
            parent_session=parent_session,
            seed_length=seed_length,
            origin=origin,
            delegation_depth=delegation_depth,
            agent_preset=agent_preset,
            extra=extra,
        )
        log = MemoryLog(header)
        if seed is not None:
            log.extend(_checked_seed(seed))
            _end_seed(log)
        return self.adopt(log)

    def adopt(self, log: MemoryLog) -> Session:
        """
        Take *log* as a live session, as it is. The caller gives it away.

        Cost: O(log n).

        Raises:
            SessionExists: A live session has its id.

            InvalidArgument: *log* is no MemoryLog.
        """
        if type(log) is not MemoryLog:
            raise InvalidArgument("log", f"must be a MemoryLog, not {type(log).__name__}")
        session = Session(log, self._vocabulary, self._observers, self._redact)
        with unowned(self._lock):
            if session.id in self._sessions:
                raise SessionExists(session.id)
            session._announce()
            self._catalog.changing()
            self._sessions[session.id] = session
            self._catalog.add(log.header)
        session._tell()
        return session

    def fork(
        self,
        source: Session | str,
        boundary: int | None = None,
        *,
        session_id: str | None = None,
        created_at: int | None = None,
    ) -> Session:
        """
        Start a session with the first events of another live one.

        The child's header has the source's ``cwd``, names it as its parent, and counts
        the copied events as ``seed_length``. Behind them stands the child's own
        ``session/end-seed``, unless they end with one already.

        Args:
            source: A live session, or its id.

            boundary: The seq of the last event to copy, outside an open turn. None is
                the last one; on a log without events it copies none.

            session_id: The child's id; None makes one.

            created_at: Unix milliseconds; None is now.

        Cost: O(events copied), of which none is encoded or judged again.

        Raises:
            SessionExists: A live session has the child's id.

            SessionNotFound: *source* is not live here.

            InvalidArgument: *boundary* is no seq of the log, or leaves a turn open.

            ValueRejected: *session_id* or *created_at* is not accepted, or *source* is
                neither a session nor an id.
        """
        if session_id is None:
            session_id = new_session_id()
        else:
            check_session_id(session_id, path="session_id")
        if self.get(session_id) is not None:
            raise SessionExists(session_id)
        parent = self._live(source)
        with parent._log.locked():
            length = _length_through(parent, boundary)
            events = parent._log.read(0, length)
            tables = parent._log.tables.as_of(length)
        if boundary is not None or length:
            _check_turn_closed(events)
        header = SessionHeader(
            session_id,
            now_ms() if created_at is None else created_at,
            cwd=parent.header.cwd,
            parent_session=parent.id,
            seed_length=length,
        )
        log = MemoryLog.from_parts(header, events, tables)
        _end_seed(log)
        return self.adopt(log)

    def dispose(self, session: Session | str) -> bool:
        """
        Let a session go. It takes no more events and is not listed; observers are told
        behind its last event. A recorder stores what it has not stored yet.

        Returns:
            Whether it was live here; an unknown or a disposed one is False.

        Raises:
            ValueRejected: *session* is neither a session nor an id.
        """
        with unowned(self._lock):
            try:
                gone = self._live(session)
            except SessionNotFound:
                return False
            self._catalog.changing()
            gone._dispose()
            del self._sessions[gone.id]
            self._catalog.remove(gone.header)
        gone._tell()
        return True

    def observe(
        self,
        appended: Callable[[Session, Event], object] | None = None,
        *,
        created: Callable[[Session], object] | None = None,
        disposed: Callable[[Session], object] | None = None,
    ) -> Callable[[], None]:
        """
        Be told what happens to live sessions from now on.

        Of one session everything is told in order: its creation, its events by seq, its
        disposal. Calls come from the thread that appends, or from another one that was
        telling already, and never hold a lock, so an observer may append, fork, dispose
        and read; of what it appends to the session in hand it is told after it returns.
        An exception in an observer is logged by ``eventlog.live``, and the others are
        told all the same. Events of a seed are not told one by one.

        Args:
            appended: Called with the session and its new event.

            created: Called with a session that was created, forked or resumed.

            disposed: Called with a session that was disposed.

        Returns:
            What ends the subscription; ending it twice is harmless.

        Raises:
            InvalidArgument: One of them cannot be called.
        """
        for name, told in (("appended", appended), ("created", created), ("disposed", disposed)):
            if told is not None and not callable(told):
                raise InvalidArgument(name, f"must be callable, not {type(told).__name__}")
        return self._observers.add(Observer(appended, created, disposed))

    def get(self, session_id: str) -> Session | None:
        """
        Return a live session, None where none has this id.

        Raises:
            ValueRejected: *session_id* can be none.
        """
        check_session_id(session_id, path="session_id")
        return self._sessions.get(session_id)

    def head(self, session_id: str) -> SessionHead | None:
        """
        Return header, length and last time of one session; None for an unknown one.

        Raises:
            ValueRejected: *session_id* can be none.
        """
        check_session_id(session_id, path="session_id")
        session = self.get(session_id)
        return None if session is None else session.head()

    def heads(self, *, after: HeadKey | None = None, limit: int = 50) -> HeadPage:
        """
        Return a page of sessions, newest first, then by id in code point order.

        Args:
            after: The last key of the page before; its session need not exist any more.
                None starts with the newest.

            limit: At most so many, at least 1.

        Cost: O(log n + limit).

        Raises:
            InvalidArgument: *limit* is no int ≥ 1, or *after* no key.
        """
        check_page(after, limit)
        return self._page(after, limit, None)

    def children(
        self, parent_id: str, *, after: HeadKey | None = None, limit: int = 50
    ) -> HeadPage:
        """
        Return a page of the sessions whose header names *parent_id*, in listing order.

        The parent need not be live. Arguments, cost and errors are those of :meth:`heads`.
        """
        check_session_id(parent_id, path="parent_id")
        check_page(after, limit)
        return self._page(after, limit, parent_id)

    def snapshot(self, session_id: str, *, at: int | None = None) -> LogSnapshot:
        """
        Return one session's log as of a length.

        Args:
            at: The length, 0 … the log's; None is now.

        Raises:
            SessionNotFound: No live session has this id.

            InvalidArgument: *at* is no int ≥ 0, or beyond the log.
        """
        check_session_id(session_id, path="session_id")
        return self._live(session_id).snapshot(at=at)

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        """Iterate over the sessions that are live now, oldest first to come here."""
        with self._lock:
            return iter(list(self._sessions.values()))

    def __contains__(self, session_id: object) -> bool:
        return isinstance(session_id, str) and session_id in self._sessions

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied: sessions would be live in two places."""
        raise NotPicklable(
            "live",
            "sessions cannot leave the process that holds them; make LiveSessions there, and "
            "resume the sessions from the store that a Recorder wrote",
        )

    def __repr__(self) -> str:
        return f"<LiveSessions, {len(self._sessions)} sessions>"

    def _live(self, session: Session | str) -> Session:
        if isinstance(session, Session):
            session_id = session.id
        else:
            session_id = session
            check_session_id(session_id, path="session")
        found = self._sessions.get(session_id)
        # A disposed session object is not the one that took its id later.
        if found is None or (isinstance(session, Session) and found is not session):
            raise SessionNotFound(session_id)
        return found

    def _page(self, after: HeadKey | None, limit: int, parent_id: str | None) -> HeadPage:
        with self._lock:
            found = self._catalog.heads(
                after,
                limit,
                lambda session_id: self._sessions[session_id].head(),
                parent_id=parent_id,
            )
        return head_page(found, limit)


def new_session_id() -> str:
    """
    Return a fresh id: a UUID of version 7 (RFC 9562), 48 bits of Unix milliseconds and
    74 random bits. Ids made later sort later, by milliseconds.
    """
    stamp = now_ms() & ((1 << 48) - 1)
    number = (
        stamp << 80 | 0x7 << 76 | secrets.randbits(12) << 64 | 0b10 << 62 | secrets.randbits(62)
    )
    return str(UUID(int=number))


def _checked_seed(seed: Sequence[Event]) -> list[Event]:
    events = list(members(seed, Event, "seed"))
    if events and events[0].seq != 0:
        raise InvalidSurface(events[0].seq, "is not contiguous; expected seq 0")
    return events


def _end_seed(log: MemoryLog) -> None:
    """Mark where a seed ends and the session's own life begins, unless it is marked."""
    length = log.length
    if not length or log.read(length - 1, length)[0].type != END_SEED:
        log.append(Event(length, now_ms(), END_SEED, {}))


def _length_through(session: Session, boundary: int | None) -> int:
    """How many events a fork at *boundary* copies."""
    length = session.length
    if boundary is None:
        return length
    if check_index(boundary, "boundary") >= length:
        raise InvalidArgument("boundary", f"no event {shown(boundary)}; the log has {length}")
    return boundary + 1


def _check_turn_closed(events: Sequence[Event]) -> None:
    for event in reversed(events):
        if event.type == "turn/end":
            return
        if event.type == "turn/start":
            raise InvalidArgument(
                "boundary", f"event {len(events) - 1} lies in the turn opened by event {event.seq}"
            )
