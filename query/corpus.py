"""
The merge view: live and stored sessions as one corpus.

Matching ids are one session. Its live events win, and both sources say whether they hold
it. A read of a live session never touches the store; a listing reads both, at most a page
of each at a time. Headers that differ in any field are a conflict: between the two
sources, and between what a store lists and what it then loads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol, TypeAlias, runtime_checkable

from attrs import field, frozen

from eventlog.admission import first_difference
from eventlog.errors import HeaderConflict, SessionNotFound
from eventlog.model import Fault, HeadKey, HeadPage, SessionHead, SessionHeader
from eventlog.snapshot import LogSnapshot
from eventlog.store import EventStore

from .corpus_snapshot import CorpusSnapshot
from .errors import Code, SessionQueryError, check_id, is_id, not_found, reading, told
from .faults import distinct, fault_of
from .records import OnConflict, SessionRecord

__all__ = ["Corpus", "CorpusPage", "CorpusSnapshot", "LiveSource", "Scan"]

CHILDREN_PAGE: Final = 256
"""Heads read at a time while the children of a session are collected."""


@runtime_checkable
class LiveSource(Protocol):
    """What the merge view reads of live sessions; :class:`~eventlog.live.LiveSessions` is one."""

    def head(self, session_id: str) -> SessionHead | None:
        """Return the head of a live session, None where it is not live."""

    def heads(self, *, after: HeadKey | None = None, limit: int = 50) -> HeadPage:
        """Return a page of live sessions, in the order of stores."""

    def children(
        self, parent_id: str, *, after: HeadKey | None = None, limit: int = 50
    ) -> HeadPage:
        """Return a page of the live sessions whose header names *parent_id*."""

    def snapshot(self, session_id: str, *, at: int | None = None) -> LogSnapshot:
        """Return a live session's log as of a length, or raise SessionNotFound."""


@frozen
class Scan:
    """
    Which part of the corpus a listing walks.

    Attributes:
        parents: Only children of these; None is every session.

        live: Whether sessions that are only live belong to it.

        stored: Whether sessions that are only stored belong to it.
    """

    parents: tuple[str, ...] | None = None
    live: bool = True
    stored: bool = True


EVERYTHING: Final = Scan()

SortKey: TypeAlias = tuple[int, str]


@frozen
class CorpusPage:
    """
    A stretch of a walk.

    Attributes:
        records: The sessions of the stretch, in listing order.

        next_key: Where the next stretch begins, None at the end.

        faults: What could not be read there.
    """

    records: tuple[SessionRecord, ...]
    next_key: HeadKey | None
    faults: tuple[Fault, ...] = field(default=())


@frozen
class Corpus:
    """
    One view of both sources. Immutable: a read that has begun keeps what it began with.

    Attributes:
        live: The live sessions, None where there are none.

        store: The mounted store, None where none is.
    """

    live: LiveSource | None
    store: EventStore | None

    def snapshot(
        self, session_id: str, *, at: int | None = None, listed: SessionHeader | None = None
    ) -> CorpusSnapshot:
        """
        Return one session's log: the live one where it is live, without a look at the
        store; else the stored one.

        Args:
            at: The length, 0 … the log's; None is now.

            listed: The header by which a listing gave the session. None asks the store
                for it.

        Cost: nothing of the store for a live session, 2 heads for a stored one.

        Raises:
            SessionQueryError: SESSION_NOT_FOUND; INVALID_WINDOW: *at* is beyond the log;
                SOURCE_CONFLICT: another header is loaded than was listed;
                CORRUPT_SESSION; PERSISTENCE_FAILED.
        """
        check_id(session_id)
        found = self._live_snapshot(session_id, at)
        failure: SessionQueryError | None = None
        if found is None:
            try:
                found = self._stored_snapshot(session_id, at, listed)
            except SessionQueryError as error:
                failure = error
            # A session that became live while the store was read answers live.
            became_live = self._live_snapshot(session_id, at)
            if became_live is not None:
                found, failure = became_live, None
        if failure is not None:
            raise failure
        if found is None:
            raise not_found(session_id)
        if listed is not None:
            _compare(session_id, listed, found.header)
        return found

    def find(
        self, session_id: str, faults: list[Fault], *, tolerant: bool = False
    ) -> SessionRecord | None:
        """
        Return the record of one session, None where neither source has it.

        Args:
            faults: Takes what could not be read of a session that is live.

            tolerant: Whether a session that cannot be read is one of *faults*, and None,
                too.

        Cost: 1 head of each source.

        Raises:
            SessionQueryError: SOURCE_CONFLICT; CORRUPT_SESSION: its stored header cannot be
                read and it is not live; PERSISTENCE_FAILED.
        """
        check_id(session_id)
        try:
            return self._merged(session_id, self._live_head(session_id), None, faults)
        except _Unreadable as unreadable:
            if not tolerant:
                raise unreadable.error from unreadable.error.__cause__
            faults.append(fault_of(unreadable.error))
            return None

    def first_faults(self, scan: Scan) -> tuple[Fault, ...]:
        """
        Return what the store tells on the first page of *scan*: logs that have no place in
        the order are told there only. Cost: 1 head.

        Raises:
            SessionQueryError: PERSISTENCE_FAILED.
        """
        faults: list[Fault] = []
        _heads(self.store if scan.stored else None, scan, None, 1, faults)
        return distinct(faults)

    def walk(
        self,
        after: HeadKey | None,
        limit: int,
        *,
        scan: Scan = EVERYTHING,
        on_conflict: OnConflict = OnConflict.RAISE,
    ) -> CorpusPage:
        """
        Return the next stretch of sessions, newest first, then by id in code point order.

        A stretch holds *limit* sessions or more where there are as many, but for those
        that could not be read.

        Cost: *limit* heads of each source, for each parent of *scan*; and one more for
        each session that only one of them gave.

        Raises:
            SessionQueryError: SOURCE_CONFLICT, by *on_conflict*; PERSISTENCE_FAILED.
        """
        faults: list[Fault] = []
        # The live source first: a session is flushed before it is disposed, so that one
        # that has left the live source by now is found in the store.
        live, live_end = _heads(self.live if scan.live else None, scan, after, limit, faults)
        store = self.store if scan.stored else None
        stored, stored_end = _heads(store, scan, after, limit, faults)
        # Beyond the end of either page the other source may have more in between.
        end = min((end for end in (live_end, stored_end) if end is not None), default=None)
        keys = {key_of(head) for head in (*live.values(), *stored.values())}
        ids = [key[1] for key in sorted(keys) if end is None or key <= end]
        records = self._collected(ids, live, stored, on_conflict, faults)
        next_key = None if end is None else HeadKey(-end[0], end[1])
        return CorpusPage(tuple(records), next_key, distinct(faults))

    def lookup(
        self,
        session_ids: Iterable[str],
        after: HeadKey | None = None,
        *,
        on_conflict: OnConflict = OnConflict.RAISE,
    ) -> CorpusPage:
        """
        Return those of *session_ids* that exist, behind *after*, in listing order.

        Null case: an id that no source has, or that no session can have, is left out.

        Cost: 1 head of each source for each id.

        Raises:
            SessionQueryError: SOURCE_CONFLICT, by *on_conflict*; PERSISTENCE_FAILED.
        """
        faults: list[Fault] = []
        ids = [session_id for session_id in dict.fromkeys(session_ids) if is_id(session_id)]
        records = self._collected(ids, {}, {}, on_conflict, faults)
        found = {HeadKey.from_header(r.header).sort_key: r for r in records}
        start = (float("-inf"), "") if after is None else after.sort_key
        ordered = tuple(found[key] for key in sorted(found) if key > start)
        return CorpusPage(ordered, None, distinct(faults))

    def children(self, parent_id: str, faults: list[Fault]) -> list[SessionRecord]:
        """
        Return the sessions whose header names *parent_id*, oldest first, then by id.

        Args:
            faults: Takes what could not be read.

        Cost: as :meth:`walk` over the children.

        Raises:
            SessionQueryError: SOURCE_CONFLICT; PERSISTENCE_FAILED.
        """
        found: list[SessionRecord] = []
        key: HeadKey | None = None
        scan = Scan(parents=(parent_id,))
        while True:
            page = self.walk(key, CHILDREN_PAGE, scan=scan)
            found += page.records
            faults += page.faults
            key = page.next_key
            if key is None:
                return sorted(found, key=lambda r: (r.header.created_at, r.header.id))

    def _live_snapshot(self, session_id: str, at: int | None) -> CorpusSnapshot | None:
        if self.live is None:
            return None
        with reading(session_id):
            try:
                return CorpusSnapshot(self.live.snapshot(session_id, at=at), live=True)
            except SessionNotFound:
                return None

    def _stored_snapshot(
        self, session_id: str, at: int | None, listed: SessionHeader | None
    ) -> CorpusSnapshot | None:
        if self.store is None:
            return None
        with reading(session_id):
            if listed is None:
                head = self.store.head(session_id)
                if head is None:
                    return None
                listed = head.header
            loaded = CorpusSnapshot(self.store.snapshot(session_id, at=at), live=False)
            _compare(session_id, listed, loaded.header)
        return loaded

    def _collected(
        self,
        session_ids: Iterable[str],
        live: Mapping[str, SessionHead],
        stored: Mapping[str, SessionHead],
        on_conflict: OnConflict,
        faults: list[Fault],
    ) -> list[SessionRecord]:
        """Merge each of *session_ids*; one that cannot be merged is a fault."""
        records = []
        for session_id in session_ids:
            try:
                record = self._merged(
                    session_id, live.get(session_id), stored.get(session_id), faults
                )
            except _Unreadable as unreadable:
                faults.append(fault_of(unreadable.error))
            except SessionQueryError as error:
                if error.code is not Code.SOURCE_CONFLICT or on_conflict is OnConflict.RAISE:
                    raise
                faults.append(fault_of(error))
            else:
                if record is not None:
                    records.append(record)
        return records

    def _live_head(self, session_id: str) -> SessionHead | None:
        if self.live is None:
            return None
        with reading(session_id):
            return self.live.head(session_id)

    def _merged(
        self,
        session_id: str,
        live: SessionHead | None,
        stored: SessionHead | None,
        faults: list[Fault],
    ) -> SessionRecord | None:
        """Merge what both sources have; one that gave nothing so far is asked by id."""
        unreadable: _Unreadable | None = None
        if stored is None:
            try:
                stored = self._stored_head(session_id)
            except _Unreadable as error:
                unreadable = error
        live = live or self._live_head(session_id)
        if live is not None:
            if stored is not None:
                _compare(session_id, stored.header, live.header)
            if unreadable is not None:
                faults.append(fault_of(unreadable.error))
            persisted = stored is not None or unreadable is not None
            return SessionRecord(live.header, True, persisted, live.length, live.last_time)
        if unreadable is not None:
            raise unreadable
        if stored is None:
            return None
        return SessionRecord(stored.header, False, True, stored.length, stored.last_time)

    def _stored_head(self, session_id: str) -> SessionHead | None:
        """
        Return the head of a stored session, None where it is not stored.

        Raises:
            _Unreadable: This session cannot be read, but the store can.

            SessionQueryError: SOURCE_CONFLICT; PERSISTENCE_FAILED.
        """
        if self.store is None:
            return None
        try:
            with reading(session_id):
                head = self.store.head(session_id)
                if head is not None and head.header.id != session_id:
                    raise HeaderConflict(session_id, "id", head.header.id, session_id)
                return head
        except SessionQueryError as error:
            if error.code is Code.PERSISTENCE_FAILED:
                # A file that is denied is one session's matter; a disk that is gone is not.
                with reading():
                    self.store.heads(limit=1)
            elif error.code is not Code.CORRUPT_SESSION:
                raise
            raise _Unreadable(error) from error


class _Unreadable(Exception):
    """One stored session cannot be read, for the reason *error*."""

    def __init__(self, error: SessionQueryError) -> None:
        self.error = error


def key_of(head: SessionHead) -> SortKey:
    """Return the place of a session, ascending in listing order."""
    return HeadKey.from_header(head.header).sort_key


def _heads(
    source: LiveSource | EventStore | None,
    scan: Scan,
    after: HeadKey | None,
    limit: int,
    faults: list[Fault],
) -> tuple[dict[str, SessionHead], SortKey | None]:
    """
    Return a page of one source by id, and the key up to which it is complete; None where
    the source has nothing behind it.
    """
    if source is None:
        return {}, None
    heads: dict[str, SessionHead] = {}
    ends: list[SortKey] = []
    with reading():
        if scan.parents is None:
            pages = [source.heads(after=after, limit=limit)]
        else:
            pages = [source.children(name, after=after, limit=limit) for name in scan.parents]
        for page in pages:
            heads.update((head.header.id, head) for head in page.items)
            faults += page.faults
            if page.next_key is not None:
                ends.append(page.next_key.sort_key)
                if after is not None and ends[-1] <= after.sort_key:
                    raise ValueError(f"the page after {after!r} does not advance")
    return heads, min(ends, default=None)


def _compare(session_id: str, one: SessionHeader, other: SessionHeader) -> None:
    name = first_difference(one, other)
    if name is not None:
        conflict = HeaderConflict(session_id, name, getattr(one, name), getattr(other, name))
        raise told(conflict, session_id) from conflict
