"""
The smallest driver worth having: lines in one SQLite file.

It writes the five methods that a driver must write. Everything else, the surface and the
rules of appending among it, comes from :class:`~eventlog.EventStore`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Hashable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from threading import RLock
from uuid import uuid4

from eventlog import (
    Batch,
    Capabilities,
    Event,
    EventStore,
    Fault,
    HeadKey,
    HeadPage,
    SessionHead,
    SessionHeader,
)
from eventlog.admission import Admission, WritableLog, admit
from eventlog.codec import decode_line, encode_line
from eventlog.errors import (
    CorruptLog,
    EventLogError,
    SessionNotFound,
    StoreBusy,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from eventlog.store import head_page
from eventlog.tables import FoldTables, MemoryTables, ViewTables

__all__ = ["SqliteStore"]

SCHEMA = """
CREATE TABLE session(key INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE, created_at INT,
                     header BLOB);
CREATE INDEX newest ON session(created_at DESC, id);
CREATE TABLE event(key INT, seq INT, line BLOB, PRIMARY KEY(key, seq));
CREATE TABLE tombstone(id TEXT PRIMARY KEY) WITHOUT ROWID;
"""
BUSY_TIMEOUT_S = 20.0


class SqliteStore(EventStore):
    """
    Keep sessions in one SQLite file.

    Args:
        path: The file, made by the first append.
    """

    capabilities = Capabilities(
        durable=True,
        atomic_batches=True,
        multi_process_read=True,
        multi_process_write=True,
        bounded_surface=False,
    )

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        super().__init__(str(path), read_only=read_only)
        self._path = path
        self._lock = RLock()
        self._connection: sqlite3.Connection | None = None

    def close(self) -> None:
        with self._lock:
            super().close()
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _writing(self, session_id: str) -> Iterator[WritableLog]:
        if not self._path.exists():
            # An append that turns out to have nothing to add must not make the file.
            yield _NoFile(self)
            return
        with self._transaction("BEGIN IMMEDIATE") as db, ExitStack() as folding:
            log = _Log(self, db, session_id, folding)
            yield log
        if log.written is not None:
            self._folds.extend(log.key, log.written.start, log.written.steps)

    @contextmanager
    def _folded(self, head: SessionHead, length: int) -> Iterator[ViewTables]:
        # A writer takes this lock first and a fold's second; readers must do so too.
        with self._lock, super()._folded(head, length) as tables:
            yield tables

    def _read_events(self, head: SessionHead, start: int, stop: int) -> list[Event]:
        with self._transaction() as db:
            return self._events(db, self._key(db, head), head.header.id, start, stop)

    def _head(self, session_id: str) -> SessionHead | None:
        if not self._path.exists():
            return None
        with self._transaction() as db:
            return self._head_in(db, session_id)

    def _heads(self, after: HeadKey | None, limit: int) -> HeadPage:
        if not self._path.exists():
            return HeadPage((), None)
        where = "TRUE"
        key: tuple[int | str, ...] = ()
        if after is not None:
            where = "(created_at < ? OR created_at = ? AND id > ?)"
            key = (after.created_at, after.created_at, after.session_id)
        found: list[SessionHead] = []
        faults: list[Fault] = []
        with self._transaction() as db:
            query = f"SELECT id FROM session WHERE {where} ORDER BY created_at DESC, id"
            for (session_id,) in db.execute(query, key):
                try:
                    head = self._head_in(db, session_id)
                except CorruptLog as error:
                    faults.append(Fault(session_id, self.location, error.kind, error.detail))
                else:
                    assert head is not None
                    found.append(head)
                if len(found) > limit:
                    break
        return head_page(found, limit, faults)

    def _delete(self, session_id: str, forget: bool) -> bool:
        if not self._path.exists():
            return False
        with self._transaction("BEGIN IMMEDIATE") as db:
            query = "SELECT key FROM session WHERE id = ?"
            keys = [key for (key,) in db.execute(query, (session_id,))]
            for key in keys:
                self._folds.forget(key)
                db.execute("DELETE FROM event WHERE key = ?", (key,))
                db.execute("DELETE FROM session WHERE key = ?", (key,))
            if forget:
                done = db.execute("DELETE FROM tombstone WHERE id = ?", (session_id,)).rowcount
                return bool(keys) or done > 0
            if keys:
                db.execute("INSERT OR IGNORE INTO tombstone VALUES (?)", (session_id,))
            return bool(keys)

    def _identity(self, head: SessionHead) -> Hashable:
        with self._transaction() as db:
            return self._key(db, head)

    def _key(self, db: sqlite3.Connection, head: SessionHead) -> int:
        """The key of *head*'s log, which no later log of the same id has."""
        query = "SELECT key FROM session WHERE id = ? AND header = ?"
        row = db.execute(query, (head.header.id, encode_line(head.header))).fetchone()
        if row is None:
            raise SessionNotFound(head.header.id)
        return int(row[0])

    def _head_in(self, db: sqlite3.Connection, session_id: str) -> SessionHead | None:
        row = db.execute("SELECT key, header FROM session WHERE id = ?", (session_id,)).fetchone()
        if row is None:
            return None
        key, line = row
        header = self._decoded(line, session_id, None)
        if type(header) is not SessionHeader or header.id != session_id:
            raise CorruptLog(session_id, self.location, None, None, None, "header")
        (last,) = db.execute("SELECT max(seq) FROM event WHERE key = ?", (key,)).fetchone()
        if last is None:
            return SessionHead(header, 0, None)
        (event,) = self._events(db, key, session_id, last, last + 1)
        return SessionHead(header, last + 1, event.time)

    def _events(
        self, db: sqlite3.Connection, key: int, session_id: str, start: int, stop: int
    ) -> list[Event]:
        query = "SELECT seq, line FROM event WHERE key = ? AND seq >= ? AND seq < ? ORDER BY seq"
        events: list[Event] = []
        for seq, line in db.execute(query, (key, start, min(stop, 2**62))):
            event = self._decoded(line, session_id, seq)
            expected = start + len(events)
            if type(event) is not Event or event.seq != expected or seq != expected:
                raise CorruptLog(session_id, self.location, None, None, expected, "seq")
            events.append(event)
        if len(events) != stop - start:
            missing = start + len(events)
            raise CorruptLog(session_id, self.location, None, None, missing, "truncated")
        return events

    def _decoded(self, line: bytes, session_id: str, seq: int | None) -> object:
        self.meter.records += 1
        self.meter.bytes += len(line)
        try:
            return decode_line(line)
        except EventLogError as error:
            raise CorruptLog(
                session_id, self.location, None, None, seq, "malformed", str(error)
            ) from error

    @contextmanager
    def _transaction(self, begin: str = "BEGIN") -> Iterator[sqlite3.Connection]:
        """Hold the connection for one transaction, committed unless the block raises."""
        with self._lock:
            self._check_open()
            try:
                if self._connection is None:
                    self._connection = self._connect()
                self._connection.execute(begin)
                try:
                    yield self._connection
                except BaseException:
                    self._connection.rollback()
                    raise
                self._connection.commit()
            except sqlite3.OperationalError as error:
                raise self._mapped(error) from error

    def _connect(self) -> sqlite3.Connection:
        mode = "ro" if self.read_only else "rw"
        return sqlite3.connect(
            f"{self._path.resolve().as_uri()}?mode={mode}",
            uri=True,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
        )

    def _create(self) -> None:
        """Make the file with its tables, at once for whoever looks; one made meanwhile stays."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_name(f".{uuid4().hex}")
        with closing(sqlite3.connect(draft)) as db:
            db.executescript(SCHEMA)
        try:
            os.link(draft, self._path)
        except FileExistsError:
            pass  # another writer was first
        finally:
            draft.unlink()

    def _mapped(self, error: sqlite3.OperationalError) -> EventLogError:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith("SQLITE_BUSY"):
            return StoreBusy(None, BUSY_TIMEOUT_S)
        if name.startswith("SQLITE_FULL"):
            return StoreFull(self.location)
        if name.startswith("SQLITE_READONLY"):
            return StoreReadOnly(self.location)
        return StoreUnavailable(self.location, str(error))


class _Log:
    """One session's log, within a writing transaction."""

    def __init__(
        self, store: SqliteStore, db: sqlite3.Connection, session_id: str, folding: ExitStack
    ) -> None:
        self._store = store
        self._db = db
        self._session_id = session_id
        self._folding = folding
        self._head = store._head_in(db, session_id)
        self.header = None if self._head is None else self._head.header
        self.length = 0 if self._head is None else self._head.length
        self.key = -1 if self._head is None else store._key(db, self._head)
        query = "SELECT 1 FROM tombstone WHERE id = ?"
        self.deleted = db.execute(query, (session_id,)).fetchone() is not None
        self.written: Admission | None = None

    @property
    def tables(self) -> FoldTables:
        if self._head is None:
            return MemoryTables()
        return self._folding.enter_context(
            self._store._folds.tables(self.key, self.length, self.read)
        )

    def read(self, start: int, stop: int) -> list[Event]:
        return self._store._events(self._db, self.key, self._session_id, start, stop)

    def write(self, admission: Admission) -> None:
        header = admission.header
        if self._head is None:
            cursor = self._db.execute(
                "INSERT INTO session(id, created_at, header) VALUES (?, ?, ?)",
                (header.id, header.created_at, encode_line(header)),
            )
            assert cursor.lastrowid is not None
            self.key = cursor.lastrowid
        self._db.executemany(
            "INSERT INTO event VALUES (?, ?, ?)",
            [(self.key, event.seq, encode_line(event)) for event in admission.events],
        )
        self.written = admission


class _NoFile:
    """A session's log while there is no file; the first write makes it and starts over."""

    header = None
    length = 0
    deleted = False

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.tables = MemoryTables()

    def read(self, start: int, stop: int) -> list[Event]:
        return []

    def write(self, admission: Admission) -> None:
        self._store._create()
        with self._store._writing(admission.header.id) as log:
            again = admit(log, Batch(admission.header, admission.events))
            if again.events:
                log.write(again)
