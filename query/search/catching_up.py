"""
Bringing an index up to its store: what changed since it last looked, and nothing else.

The store says which sessions may have changed; of each the index compares header, length
and the digest of the last event that it knows, and goes on from there, or begins anew
where it is another log. The store's token is kept with the rows, once all of them are in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from typing import Final

from eventlog.errors import (
    CorruptLog,
    InvalidArgument,
    SessionNotFound,
    StoreUnavailable,
    UnsupportedFormat,
    ValueRejected,
)
from eventlog.model import Fault, HeadKey, HeadPage, SessionHead
from eventlog.snapshot import LogSnapshot
from eventlog.store import ChangeSet, EventStore

from ..corpus import LiveSource
from ..faults import fault_of_denied
from .database import CORRUPT, Database, DatabaseFailure
from .index_tables import FAULTS_MAX
from .layout import state_number
from .writing import READ_EVENTS, IndexWriter

__all__ = ["CatchUp", "shared_prefix"]

HEADS_PAGE: Final = 1_000
SINGLE_HEADS_MAX: Final = 64
RECENT_SESSIONS: Final = 16

Tick = Callable[[], None]


class CatchUp:
    """
    One update of an index, committed on the way and at the end.

    Args:
        db: The index.

        writer: What writes it.

        tick: Called now and then; what it raises passes through, and what was committed
            until then stays.
    """

    def __init__(self, db: Database, writer: IndexWriter, tick: Tick) -> None:
        self._db = db
        self._writer = writer
        self._tick = tick

    def store(self, store: EventStore, *, verify: bool) -> None:
        """
        Index what changed in *store*.

        Args:
            verify: Make sure that the store is the one that was indexed and no older
                state of it, which its token cannot tell; and read damaged sessions anew.

        Cost: the sessions that changed: what is new of them, and a commit.
        """
        db, writer = self._db, self._writer
        token, changes = self._news(store, verify=verify)
        changed = set(changes.session_ids)
        if token is None:
            changed.update(row[0] for row in db.execute("SELECT id FROM session"))
        changed.update(row[0] for row in db.execute("SELECT id FROM ahead"))
        damaged = self._damaged()
        if verify:
            changed |= damaged
        if not changed and token == changes.token:
            return
        known = state_number(db, "docs")
        heads, unreadable = self._heads(store, changed)
        for session_id in sorted(changed - heads.keys() - unreadable):
            writer.remove(session_id)
        # The oldest first, so that positions rise with age as far as can be.
        for head in sorted(heads.values(), key=_age):
            self._tick()
            if head.header.id in damaged:
                writer.remove(head.header.id)
            try:
                writer.index(store.snapshot(head.header.id), tick=self._tick)
            except SessionNotFound:
                writer.remove(head.header.id)  # deleted while it was read
            except UNREADABLE as error:
                writer.set_fault(_fault(store, head.header.id, error))
        self._compare_forks(store)
        writer.begin()
        writer.write_out()
        recent = changes.session_ids[-RECENT_SESSIONS:]
        lengths = [
            (session_id, db.value("SELECT length FROM session WHERE id = ?", (session_id,)))
            for session_id in recent
        ]
        if recent or token is None:
            db.execute("UPDATE state SET value = ? WHERE name = 'recent'", (json.dumps(lengths),))
        db.execute("UPDATE state SET value = ? WHERE name = 'token'", (changes.token,))
        db.execute("DELETE FROM ahead")
        writer.commit()
        if len(heads) > SINGLE_HEADS_MAX:
            if state_number(db, "docs") > 2 * known:
                # Most of it is new, in a dozen parts: every search looks into each of them.
                db.execute("INSERT INTO fts(fts) VALUES('optimize')")
                with db.transaction():
                    # One by one: the standard library steps through no more at a time.
                    for _ in range(db.value("PRAGMA freelist_count")):
                        db.execute("PRAGMA incremental_vacuum(1)")
            # What was much is behind us: give back the room of the write-ahead log.
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def live(self, live: LiveSource) -> None:
        """
        Index what is new in live sessions, and take out those that are live no more.

        Cost: the live sessions, and what is new of them.
        """
        writer = self._writer
        live_ids = {head.header.id for page in _pages(live) for head in page.items}
        gone = {row[0] for row in self._db.execute("SELECT id FROM session")} - live_ids
        for session_id in sorted(gone):
            writer.remove(session_id)
        for session_id in sorted(live_ids):
            self._tick()
            try:
                log = live.snapshot(session_id)
                if self._is_news(log):
                    self._index(log)
            except SessionNotFound:
                writer.remove(session_id)
        writer.commit()

    def session(self, log: LogSnapshot) -> None:
        """
        Index what is new in one session, and commit.

        Cost: what is new of it; for nothing new, a look at its last event.
        """
        if self._is_news(log):
            self._writer.begin()
            self._db.execute("INSERT OR IGNORE INTO ahead VALUES(?)", (log.header.id,))
            self._index(log)

    def missing(self, store: EventStore, *, verify: bool) -> tuple[Fault, ...]:
        """
        Return a fault for each session that is not indexed as it is. Writes nothing.

        Args:
            verify: As for :meth:`store`.
        """
        _, changes = self._news(store, verify=verify)
        faults = []
        for session_id in changes.session_ids[:FAULTS_MAX]:
            self._tick()
            try:
                log = store.snapshot(session_id)
                if self._is_news(log):
                    known = self._writer.find(session_id)
                    covered = 0 if known is None else min(known.length, log.length)
                    detail = f"indexed {covered} of {log.length} events"
                    if covered == log.length:
                        detail = "another log of this session is indexed"
                    faults.append(Fault(session_id, None, "behind", detail))
            except (SessionNotFound, ValueRejected):
                continue  # deleted, or an id that the feed has and no session can have
            except UNREADABLE as error:
                faults.append(_fault(store, session_id, error))
        if len(changes.session_ids) > FAULTS_MAX:
            detail = f"{len(changes.session_ids)} sessions may not be indexed yet"
            faults.append(Fault(None, None, "behind", detail))
        return tuple(faults)

    def _news(self, store: EventStore, *, verify: bool) -> tuple[str | None, ChangeSet]:
        """
        Return the token that the index is at, None where it holds for nothing that is in
        *store*, and what changed since.
        """
        token = self._db.value("SELECT value FROM state WHERE name = 'token'")
        if token is not None and not (verify and not self._resembles(store)):
            try:
                return token, store.changes(token)
            except InvalidArgument:
                pass  # the store was made anew: the token is none of its own
        return None, store.changes()

    def _is_news(self, log: LogSnapshot) -> bool:
        known = self._writer.find(log.header.id)
        return known is None or known.length < log.length or not self._writer.continues(known, log)

    def _index(self, log: LogSnapshot) -> None:
        self._writer.index(log, tick=self._tick)
        self._writer.commit()

    def _resembles(self, store: EventStore) -> bool:
        """
        Whether the sessions that changed last are as they were indexed, or longer. A
        store that was put back to an earlier state has lost just these changes.
        """
        for session_id, length in self._recent():
            try:
                head = store.head(session_id)
                known = self._writer.find(session_id)
                if head is None or known is None:
                    same = head is None and length is None
                else:
                    log = store.snapshot(session_id)
                    same = known.length == length and self._writer.continues(known, log)
            except SessionNotFound:
                same = False
            except UNREADABLE:
                same = length is None  # and could not be read then
            if not same:
                return False
        return True

    def _recent(self) -> list[tuple[str, int | None]]:
        """What changed last: sessions, each with how much of it was covered then."""
        recent = self._db.value("SELECT value FROM state WHERE name = 'recent'")
        try:
            return [(str(session_id), length) for session_id, length in json.loads(recent)]
        except (TypeError, ValueError):
            raise DatabaseFailure(CORRUPT, "the index does not know what changed last") from None

    def _heads(
        self, store: EventStore, wanted: Collection[str]
    ) -> tuple[dict[str, SessionHead], set[str]]:
        """
        Return the heads of *wanted*, and those that cannot be read, whose faults are kept.
        """
        heads: dict[str, SessionHead] = {}
        unreadable: set[str] = set()
        if len(wanted) <= SINGLE_HEADS_MAX:
            for session_id in wanted:
                try:
                    head = store.head(session_id)
                except ValueRejected:
                    continue  # an id that the feed has and no session can have
                except UNREADABLE as error:
                    unreadable.add(session_id)
                    self._writer.remove(session_id)
                    self._writer.set_fault(_fault(store, session_id, error))
                else:
                    if head is not None:
                        heads[session_id] = head
            return heads, unreadable
        faults: list[Fault] = []
        for page in _pages(store):
            faults += page.faults
            heads.update((head.header.id, head) for head in page.items)
        self._writer.begin()
        self._db.execute("DELETE FROM fault WHERE id IS NULL")
        for fault in faults:
            if fault.session_id is not None:
                unreadable.add(fault.session_id)
                self._writer.remove(fault.session_id)
            self._writer.set_fault(fault)
        found = {session_id: heads[session_id] for session_id in heads.keys() & set(wanted)}
        return found, unreadable

    def _damaged(self) -> set[str]:
        rows = self._db.execute("SELECT DISTINCT id FROM fault WHERE id IS NOT NULL")
        return {session_id for (session_id,) in rows}

    def _compare_forks(self, store: EventStore) -> None:
        """Find out how much of each fork's inherited events its parent really has."""
        pairs = self._db.execute(
            "SELECT c.sid, c.id, p.sid, p.id,"
            " CASE c.shared_sid WHEN p.sid THEN c.shared ELSE 0 END,"
            " min(c.seed, c.length, p.length) FROM session c JOIN session p ON p.id = c.parent"
            " WHERE c.seed > 0 AND (c.shared_sid IS NOT p.sid"
            " OR c.shared < min(c.seed, c.length, p.length))"
        )
        for sid, child_id, parent_sid, parent_id, known, stop in pairs:
            self._tick()
            try:
                child, parent = store.snapshot(child_id), store.snapshot(parent_id)
                shared = shared_prefix(child, parent, known, stop)
            except (*UNREADABLE, SessionNotFound):
                shared = known
            self._writer.begin()
            self._db.execute(
                "UPDATE session SET shared = ?, shared_sid = ? WHERE sid = ?",
                (shared, parent_sid, sid),
            )


def shared_prefix(first: LogSnapshot, second: LogSnapshot, start: int, stop: int) -> int:
    """
    Return the seq of the first event in ``[start, stop)`` that two logs do not have
    alike, *stop* where there is none.
    """
    stop = min(stop, first.length, second.length)
    while start < stop:
        end = min(start + READ_EVENTS, stop)
        for one, other in zip(first.read(start, end), second.read(start, end), strict=True):
            if one != other:
                return one.seq
        start = end
    return start


def _pages(source: EventStore | LiveSource) -> Iterator[HeadPage]:
    key: HeadKey | None = None
    while True:
        page = source.heads(after=key, limit=HEADS_PAGE)
        yield page
        key = page.next_key
        if key is None:
            return


def _age(head: SessionHead) -> tuple[int, str]:
    time = head.header.created_at if head.last_time is None else head.last_time
    return time, head.header.id


# What one session may fail with while the others are read.
UNREADABLE: Final = (CorruptLog, UnsupportedFormat, StoreUnavailable)


def _fault(
    store: EventStore, session_id: str, error: CorruptLog | UnsupportedFormat | StoreUnavailable
) -> Fault:
    if isinstance(error, StoreUnavailable):
        store.heads(limit=1)  # fails too where it is the store that is away
        return fault_of_denied(session_id, error)
    if isinstance(error, CorruptLog):
        return Fault(session_id, error.path, error.kind, str(error))
    return Fault(session_id, None, "version", str(error))
