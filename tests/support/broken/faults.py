"""
Stores that break one promise under faults each: killed writers, several processes, a full
disk, a medium that refuses writes.

Every class says in its docstring what is wrong with it, and in ``promise`` which test of
:class:`~eventlog.testing.FaultContract` has to fail for it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

from eventlog import Event, SessionHead, SessionHeader
from eventlog.codec import encode_line
from eventlog.errors import EventLogError, StoreFull, StoreReadOnly
from support.broken.appends import BrokenSqlite

__all__ = ["BROKEN_UNDER_FAULTS", "BareSqlite"]


class BareSqlite(BrokenSqlite):
    """The example driver where files may have only so many bytes; without a fault."""

    def _mapped(self, error: sqlite3.OperationalError) -> EventLogError:
        if getattr(error, "sqlite_errorname", "") == "SQLITE_IOERR_WRITE":
            return StoreFull(self.location)
        return super()._mapped(error)


class AcknowledgedEarly(BareSqlite):
    """Answers an append before it is stored; it is, with the next one."""

    promise = "test_d5_killed_writers_lose_nothing"

    def __init__(self, root: Path, *, read_only: bool = False) -> None:
        super().__init__(root, read_only=read_only)
        self._waiting: list[tuple[SessionHeader, list[Event]]] = []

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        self._store_waiting()
        self._waiting.append((header, list(events)))
        return events[-1].seq + 1

    def close(self) -> None:
        self._store_waiting()
        super().close()

    def _store_waiting(self) -> None:
        while self._waiting:
            super().append(*self._waiting.pop(0))


class BatchInPieces(BareSqlite):
    """Claims whole batches, and commits each event by itself."""

    promise = "test_d5_killed_writers_lose_nothing"

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        length = 0
        for event in events:
            length = super().append(header, [event])
            if event is not events[-1]:
                time.sleep(0.005)  # so that a kill falls in between
        return length


class DeletionInTwoSteps(BareSqlite):
    """Takes a session's events away before the session."""

    promise = "test_h9_killed_deletions_are_whole"

    def _delete(self, session_id: str, forget: bool) -> bool:
        with self._transaction("BEGIN IMMEDIATE") as db:
            key = "(SELECT key FROM session WHERE id = ?)"
            db.execute(f"DELETE FROM event WHERE key = {key}", (session_id,))
        time.sleep(0.05)
        return super()._delete(session_id, forget)


class TombstoneLater(BareSqlite):
    """Takes a session away before it remembers that it did."""

    promise = "test_h9_killed_deletions_are_whole"

    def _delete(self, session_id: str, forget: bool) -> bool:
        if not forget and super()._delete(session_id, True):
            time.sleep(0.05)
            with self._transaction("BEGIN IMMEDIATE") as db:
                db.execute("INSERT OR IGNORE INTO tombstone VALUES (?)", (session_id,))
            return True
        return super()._delete(session_id, forget)


class OtherProcessOverwritten(BareSqlite):
    """Writes where it believes the log to end, over what another process wrote."""

    promise = "test_d5_writers_of_several_processes_take_turns"

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        if self._head(header.id) is None:
            return super().append(header, events)
        with self._transaction() as db:
            (key,) = db.execute("SELECT key FROM session WHERE id = ?", (header.id,)).fetchone()
        time.sleep(0.001)
        with self._transaction("BEGIN IMMEDIATE") as db:
            rows = [(key, event.seq, encode_line(event)) for event in events]
            db.executemany("INSERT OR REPLACE INTO event VALUES (?, ?, ?)", rows)
        return events[-1].seq + 1


class HeadBeforeEvents(BareSqlite):
    """Shows an event that is being written as one that is there."""

    promise = "test_readers_beside_a_writer_of_another_process"

    def _head(self, session_id: str) -> SessionHead | None:
        head = super()._head(session_id)
        if head is None or not self.read_only or head.length == 1:
            return head
        return SessionHead(head.header, head.length + 1, head.last_time)


class FullDiskUnsaid(BareSqlite):
    """Answers an append that found no room as if it had been stored."""

    promise = "test_j1_full_disk_refuses_and_recovers"

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        try:
            return super().append(header, events)
        except EventLogError:
            return events[-1].seq + 1


class RefusedMediumUnsaid(BareSqlite):
    """Says of a medium that refuses writes that it is full."""

    promise = "test_j3_read_only_medium"

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        try:
            return super().append(header, events)
        except StoreReadOnly as error:
            raise StoreFull(self.location) from error


BROKEN_UNDER_FAULTS: dict[str, type[BareSqlite]] = {
    name: found
    for name, found in list(vars().items())
    if isinstance(found, type) and issubclass(found, BareSqlite) and found is not BareSqlite
}
"""Every store that breaks a promise under faults, by name."""
