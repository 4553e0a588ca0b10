"""
One session inside a transaction: what appending judges, and what it writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import lmdb

from eventlog.admission import Admission
from eventlog.errors import CorruptLog, SessionNotFound
from eventlog.model import Event, SessionHeader
from eventlog.snapshot import ScanMeter
from eventlog.surface import apply
from eventlog.tables import FoldTables, MemoryTables

from .handle import Databases
from .layout import (
    EVENT_KEY,
    U64,
    Damaged,
    SessionRow,
    child_key,
    decode_events,
    encode_event,
    newest_key,
    number_in,
    tombstone_in,
)
from .tables import RowWriter

PUT_AT_ONCE: Final = 1024

__all__ = ["Feed", "Log", "check_alive", "corrupt", "read_events", "session_row"]


def corrupt(session_id: str, kind: str, damage: Damaged) -> CorruptLog:
    """Return the error that the library raises for *damage* of a session."""
    return CorruptLog(session_id, None, None, None, damage.seq, kind, damage.detail)


def session_row(
    transaction: lmdb.Transaction[bytes], databases: Databases, session_id: str
) -> SessionRow | None:
    """
    Read the row of a session, None where there is none.

    Raises:
        Damaged: It cannot be read.
    """
    value = transaction.get(session_id.encode(), db=databases.sessions)
    if value is None:
        return None
    row = SessionRow.decode(value)
    if row.header.id != session_id:
        raise Damaged(None, f"the row is that of {row.header.id!r}")
    return row


def check_alive(
    transaction: lmdb.Transaction[bytes], databases: Databases, session_id: str, ordinal: int
) -> None:
    """
    Refuse a session that was deleted, also where another one has its id now.

    Cost: one row.

    Raises:
        SessionNotFound: It was.

        Damaged: Its row cannot be read.
    """
    value = transaction.get(session_id.encode(), db=databases.sessions)
    if value is not None and SessionRow.has_ordinal(value, ordinal):
        return
    row = session_row(transaction, databases, session_id)
    if row is None or row.ordinal != ordinal:
        raise SessionNotFound(session_id)


def read_events(
    transaction: lmdb.Transaction[bytes],
    databases: Databases,
    ordinal: int,
    start: int,
    stop: int,
) -> tuple[list[Event], int]:
    """
    Read the events of ``[start, stop)``, which is not empty, and how many bytes they took.

    Raises:
        Damaged: One of them is missing or cannot be read.
    """
    cursor = transaction.cursor(databases.events)
    # Only the first key is compared. Behind it come the session's other events, each of
    # which knows its seq, and then another session's, which start at 0.
    if not cursor.set_key(EVENT_KEY.pack(ordinal, start)):
        raise Damaged(start, "the event is missing")
    return decode_events(cursor.iternext(False, True), start, stop - start)


class Feed:
    """The positions that a transaction gives to what it changes."""

    def __init__(self, transaction: lmdb.Transaction[bytes], databases: Databases) -> None:
        self._transaction = transaction
        self._databases = databases
        with transaction.cursor(databases.feed) as cursor:
            self._last = number_in(cursor.key()) if cursor.last() else 0

    def next_position(self) -> int:
        """Return a position greater than every one before. The first is 1."""
        self._last += 1
        return self._last

    def move(self, session_id: str, old: int | None, new: int) -> None:
        """Write that *session_id* changed at *new*, and at *old* before, if ever."""
        feed = self._databases.feed
        if old is not None:
            self._transaction.delete(U64.pack(old), db=feed)
        self._transaction.put(U64.pack(new), session_id.encode(), db=feed)


class Log:
    """
    A session as :func:`eventlog.admission.admit` sees it.

    Raises:
        CorruptLog: Its row, or its tombstone, cannot be read.
    """

    def __init__(
        self, transaction: lmdb.Transaction[bytes], databases: Databases, session_id: str
    ) -> None:
        self._transaction = transaction
        self._databases = databases
        self._id = session_id
        self._forgotten_at: int | None = None
        self.deleted = False
        try:
            self._row = session_row(transaction, databases, session_id)
            if self._row is None:
                tombstone = transaction.get(session_id.encode(), db=databases.tombstones)
                if tombstone is not None:
                    self._forgotten_at, self.deleted = tombstone_in(tombstone)
        except Damaged as damage:
            raise corrupt(session_id, "header", damage) from damage

    @property
    def header(self) -> SessionHeader | None:
        return None if self._row is None else self._row.header

    @property
    def length(self) -> int:
        return 0 if self._row is None else self._row.length

    @property
    def tables(self) -> FoldTables:
        if self._row is None:
            return MemoryTables()
        return self._writer(self._row.ordinal)

    def read(self, start: int, stop: int) -> list[Event]:
        if self._row is None or start >= stop:
            return []
        try:
            events, _ = read_events(
                self._transaction, self._databases, self._row.ordinal, start, stop
            )
        except Damaged as damage:
            raise corrupt(self._id, "event", damage) from damage
        return events

    def write(self, admission: Admission, feed: Feed) -> None:
        """Put what was admitted, which is not empty, into the transaction."""
        transaction, databases = self._transaction, self._databases
        events, header = admission.events, admission.header
        position = feed.next_position()
        row = self._row
        if row is None:
            feed.move(header.id, self._forgotten_at, position)
            row = self._create(header, position)
        else:
            feed.move(header.id, row.position, position)
        ordinal = row.ordinal
        self._put_events(ordinal, events)
        tables = self._writer(ordinal)
        for step in admission.steps:
            apply(tables, step)
        tables.flush()
        row.length = admission.length
        row.last_time = events[-1].time
        row.position = position
        transaction.put(header.id.encode(), row.encode(), db=databases.sessions)
        self._row = row

    def _put_events(self, ordinal: int, events: Sequence[Event]) -> None:
        pack = EVENT_KEY.pack
        with self._transaction.cursor(self._databases.events) as cursor:
            # In pieces, so that a long batch is not held twice.
            for start in range(0, len(events), PUT_AT_ONCE):
                piece = events[start : start + PUT_AT_ONCE]
                items = [(pack(ordinal, event.seq), encode_event(event)) for event in piece]
                # Behind the end of the database, pages can be filled whole instead of
                # split. Elsewhere lmdb refuses that without a word: hence the look and
                # the count.
                is_last = not cursor.last() or cursor.key() < items[0][0]
                _, added = cursor.putmulti(items, overwrite=False, append=is_last)
                if added != len(items):
                    raise CorruptLog(
                        self._id, None, None, None, piece[0].seq, "seq", "events beyond the end"
                    )

    def _writer(self, ordinal: int) -> RowWriter:
        # Appending is not metered: its rows would be counted as those of a read.
        return RowWriter(self._transaction, self._databases.rows, ordinal, ScanMeter())

    def _create(self, header: SessionHeader, position: int) -> SessionRow:
        transaction, databases = self._transaction, self._databases
        transaction.put(newest_key(header.created_at, header.id), b"", db=databases.newest)
        if header.parent_session is not None:
            key = child_key(header.parent_session, header.created_at, header.id)
            transaction.put(key, b"", db=databases.children)
        transaction.delete(header.id.encode(), db=databases.tombstones)
        return SessionRow(position, 0, 0, position, header)
