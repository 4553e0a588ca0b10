"""
The store in LMDB.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, Final

from eventlog.admission import WritableLog, checked_batch, checked_batches
from eventlog.errors import (
    CorruptLog,
    EventLogError,
    InvalidArgument,
    SessionNotFound,
    StoreUnavailable,
)
from eventlog.findings import Finding, Gap
from eventlog.log import pinned_length
from eventlog.model import Batch, Event, Fault, HeadKey, HeadPage, SessionHead, SessionHeader
from eventlog.opening import local_path
from eventlog.snapshot import LogSnapshot, Snapshot
from eventlog.store import Capabilities, ChangeSet, EventStore
from eventlog.tables import ViewTables
from eventlog.values import check_index, check_session_id, shown

from . import sharing
from .appending import Appender
from .handle import MAP_BYTES, Databases, Settings
from .layout import (
    U64,
    Damaged,
    SessionRow,
    children_prefix,
    newest_key,
    number_in,
    place_in,
    text_in,
)
from .logs import check_alive, corrupt, read_events, session_row
from .reading import Reading
from .removal import remove
from .repairing import repaired
from .salvaging import salvaged
from .tables import RowTables
from .verifying import verified

__all__ = ["LmdbStore", "open_url"]

READERS_MAX: Final = 510
# Each reader has 64 bytes in the lock file, whether it is there or not.
READERS_LIMIT: Final = 2**20
WAIT_S: Final = 30.0


def open_url(path: str, options: Mapping[str, str], *, read_only: bool = False) -> LmdbStore:
    """
    Open ``lmdb:PATH``.

    Args:
        path: The folder; ``~`` expands.

        options: ``map_bytes``, ``map_bytes_max``, ``readers_max`` and ``wait_s``, as for
            :class:`LmdbStore`.

    Raises:
        InvalidArgument: There is no path, or an option is unknown or no number.

        StoreUnavailable: Something else is at the path, or it cannot be read.
    """
    known: dict[str, Any] = {}
    for name, text in options.items():
        if name not in ("map_bytes", "map_bytes_max", "readers_max", "wait_s"):
            raise InvalidArgument("url", f"lmdb: knows no option {name!r:.60}")
        try:
            known[name] = float(text) if name == "wait_s" else int(text)
        except ValueError:
            raise InvalidArgument(name, f"must be a number, not {text!r:.60}") from None
    return LmdbStore(path, read_only=read_only, **known)


class LmdbStore(EventStore):
    """
    Keep sessions in one LMDB environment.

    Any number of threads and processes may read while one writes. Appends are durable
    when :meth:`append` returns; those of several threads share a commit. The folder and
    its files are created by the first append, for the owner only. Where they are removed
    or replaced while they are open, the next write is refused, and reads see what is
    there within a second.

    Args:
        path: The folder. ``~`` expands.

        read_only: Refuse writes, and never create or change anything.

        map_bytes: Address space to reserve, or as much of it as the process may have.
            Sparse: the file grows with its data, and the map with the file.

        map_bytes_max: Refuse to grow beyond it, with
            :class:`~eventlog.errors.StoreFull`; None is without bound.

        readers_max: How many reads may run at once, over all processes. Whoever
            creates the store decides; at most 2²⁰.

        wait_s: How long a writer waits for another process before
            :class:`~eventlog.errors.StoreBusy`. Writers of one process share commits.

    Raises:
        InvalidArgument: *path* is empty, or a number is out of range.

        StoreUnavailable: Something else is at *path*, or it cannot be read.

        UnsupportedFormat: A newer release wrote it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        map_bytes: int = MAP_BYTES,
        map_bytes_max: int | None = None,
        readers_max: int = READERS_MAX,
        wait_s: float = WAIT_S,
    ) -> None:
        location = local_path(path)
        for name, number in (
            ("map_bytes", map_bytes),
            ("map_bytes_max", map_bytes_max),
            ("readers_max", readers_max),
        ):
            if number is not None and check_index(number, name) == 0:
                raise InvalidArgument(name, "must be at least 1")
        if readers_max > READERS_LIMIT:
            raise InvalidArgument("readers_max", f"must be at most {READERS_LIMIT}")
        if type(wait_s) not in (int, float) or not wait_s >= 0:
            raise InvalidArgument("wait_s", f"must be a number ≥ 0, not {shown(wait_s)}")
        super().__init__(location, read_only=read_only)
        self._settings = Settings(
            os.path.realpath(location), min(map_bytes, sys.maxsize), map_bytes_max, readers_max
        )
        self._wait_s = wait_s
        self._environment = sharing.acquire(self._settings)
        try:
            with self._environment.reading():
                pass  # whatever is there can be read and is ours
        except BaseException:
            sharing.release(self._environment)
            raise
        self._appender = Appender(self._environment, wait_s=wait_s)
        self.capabilities = Capabilities(
            durable=True,
            atomic_batches=True,
            multi_process_read=self._environment.reads_are_seen,
            multi_process_write=True,
            bounded_surface=True,
        )

    def close(self) -> None:
        if not self._closed:
            super().close()
            sharing.release(self._environment)

    def __reduce__(self) -> tuple[Any, ...]:
        settings = self._settings
        options = {
            "read_only": self.read_only,
            "map_bytes": settings.map_bytes,
            "map_bytes_max": settings.map_bytes_max,
            "readers_max": settings.readers_max,
            "wait_s": self._wait_s,
        }
        return _reopened, (self.location, options)

    # Writing

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        self._check_writable()
        result = self._commit([checked_batch(header, events)])[0]
        if isinstance(result, EventLogError):
            raise result
        return result

    def append_many(self, batches: Sequence[Batch]) -> list[int | EventLogError]:
        self._check_writable()
        refused: dict[int, EventLogError] = {}
        checked: list[Batch] = []
        given = checked_batches(batches)
        for index, batch in enumerate(given):
            try:
                checked.append(checked_batch(batch.header, batch.events))
            except EventLogError as error:
                refused[index] = error
        outcomes = iter(self._commit(checked))
        return [
            refused[index] if index in refused else next(outcomes) for index in range(len(given))
        ]

    def _commit(self, batches: Sequence[Batch]) -> list[int | EventLogError]:
        try:
            return self._appender.append(batches)
        except StoreUnavailable as error:
            self._distrust(error)
            raise

    @contextmanager
    def _writing(self, session_id: str) -> Iterator[WritableLog]:
        with self._appender.held(session_id) as log:
            yield log

    def _delete(self, session_id: str, forget: bool) -> bool:
        return remove(self._environment, session_id, forget=forget, wait_s=self._wait_s)

    # Damage

    def _verify(self) -> Iterator[Finding]:
        return verified(self._environment)

    def _repair(self, dry_run: bool) -> list[Finding]:
        return repaired(self._environment, dry_run, wait_s=self._wait_s)

    def _salvage(self, session_id: str) -> Iterator[Event | Gap]:
        found = salvaged(self._environment, session_id)
        if found is None:
            raise SessionNotFound(session_id)
        return found

    # Reading

    def snapshot(self, session_id: str, *, at: int | None = None) -> LogSnapshot:
        self._check_open()
        check_session_id(session_id, path="session_id")
        with self._environment.reading() as reading:
            row = self._row(reading, session_id)
        if row is None:
            raise SessionNotFound(session_id)
        return LmdbSnapshot(self, reading.store, row, pinned_length(at, row.length))

    def _head(self, session_id: str) -> SessionHead | None:
        with self._environment.reading() as reading:
            row = self._row(reading, session_id)
        return None if row is None else _head_of(row)

    def _row(self, reading: Reading, session_id: str) -> SessionRow | None:
        if reading.databases is None:
            return None
        try:
            row = session_row(reading.transaction, reading.databases, session_id)
        except Damaged as damage:
            raise corrupt(session_id, "header", damage) from damage
        if row is not None:
            self.meter.records += 1
        return row

    def _heads(self, after: HeadKey | None, limit: int) -> HeadPage:
        with self._environment.reading() as reading:
            if reading.databases is None:
                return HeadPage((), None)
            return self._page(reading, reading.databases.newest, b"", after, limit)

    def _children(self, parent_id: str, after: HeadKey | None, limit: int) -> HeadPage:
        with self._environment.reading() as reading:
            if reading.databases is None:
                return HeadPage((), None)
            prefix = children_prefix(parent_id)
            return self._page(reading, reading.databases.children, prefix, after, limit)

    def _page(
        self, reading: Reading, order: Any, prefix: bytes, after: HeadKey | None, limit: int
    ) -> HeadPage:
        """Read the heads that the keys of *order* with *prefix* name, behind *after*."""
        found: list[SessionHead] = []
        faults: list[Fault] = []
        start = prefix
        if after is not None:
            # The least key behind it.
            start = prefix + newest_key(after.created_at, after.session_id) + b"\0"
        with reading.transaction.cursor(order) as cursor:
            if cursor.set_range(start):
                for key in cursor.iternext(True, False):
                    if not key.startswith(prefix):
                        break
                    self.meter.probes += 1
                    if len(found) == limit:
                        return HeadPage(
                            tuple(found), HeadKey.from_header(found[-1].header), tuple(faults)
                        )
                    session_id = None
                    try:
                        _, session_id = place_in(key[len(prefix) :])
                        row = self._row(reading, session_id)
                    except Damaged as damage:
                        faults.append(Fault(None, None, "row", damage.detail))
                    except CorruptLog as error:
                        faults.append(Fault(session_id, None, error.kind, error.detail))
                    else:
                        if row is None:
                            faults.append(Fault(session_id, None, "header", "it has no row"))
                        else:
                            found.append(_head_of(row))
        return HeadPage(tuple(found), None, tuple(faults))

    def _changes(self, since: str | None) -> ChangeSet:
        with self._environment.reading() as reading:
            store = reading.store.hex()
            start = 1 if since is None else _position_in(since, store) + 1
            last = start - 1
            changed: list[str] = []
            if reading.databases is not None:
                with reading.transaction.cursor(reading.databases.feed) as cursor:
                    newest = number_in(cursor.key()) if cursor.last() else 0
                    if last > newest:
                        raise _no_token()
                    if cursor.set_range(U64.pack(start)):
                        changed = [text_in(value) for value in cursor.iternext(False, True)]
                    last = newest
            self.meter.probes += len(changed)
            return ChangeSet(tuple(changed), f"{last}.{store}")

    def _read_events(self, head: SessionHead, start: int, stop: int) -> list[Event]:
        snapshot = self.snapshot(head.header.id)
        if snapshot.header != head.header:
            raise SessionNotFound(head.header.id)
        return snapshot.read(start, stop)


class LmdbSnapshot(Snapshot):
    """A session of an :class:`LmdbStore` as of a length. Each call is one transaction."""

    __slots__ = ("_ordinal", "_origin", "_store")

    def __init__(self, store: LmdbStore, origin: bytes, row: SessionRow, length: int) -> None:
        super().__init__(row.header, length)
        self._store = store
        self._origin = origin
        self._ordinal = row.ordinal

    def _check_open(self) -> None:
        self._store._check_open()

    def _read(self, start: int, stop: int) -> list[Event]:
        store = self._store
        with store._environment.reading() as reading:
            databases = self._check_alive(reading)
            if start == stop:
                return []
            try:
                events, size = read_events(
                    reading.transaction, databases, self._ordinal, start, stop
                )
            except Damaged as damage:
                raise corrupt(self._header.id, "event", damage) from damage
        meter = store.meter
        meter.records += len(events)
        meter.bytes += size
        return events

    def _tables(self) -> AbstractContextManager[ViewTables]:
        return _Tables(self)

    def _check_alive(self, reading: Reading) -> Databases:
        """Return the databases, unless the session was deleted, or the store replaced, since."""
        session_id, databases = self._header.id, reading.databases
        if databases is None or reading.store != self._origin:
            raise SessionNotFound(session_id)
        self._store.meter.probes += 1
        try:
            check_alive(reading.transaction, databases, session_id, self._ordinal)
        except Damaged as damage:
            raise corrupt(session_id, "header", damage) from damage
        return databases


class _Tables:
    """A snapshot's tables, held still by one transaction."""

    __slots__ = ("_reading", "_snapshot")

    def __init__(self, snapshot: LmdbSnapshot) -> None:
        snapshot._store._check_open()
        self._snapshot = snapshot
        self._reading = snapshot._store._environment.reading()

    def __enter__(self) -> ViewTables:
        snapshot, reading = self._snapshot, self._reading
        reading.__enter__()
        try:
            databases = snapshot._check_alive(reading)
        except BaseException:
            reading.__exit__(None, None, None)
            raise
        return RowTables(
            reading.transaction, databases.rows, snapshot._ordinal, snapshot._store.meter
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, Damaged):
            self._reading.__exit__(None, None, None)
            raise corrupt(self._snapshot.header.id, "row", error) from error
        self._reading.__exit__(kind, error, traceback)


def _head_of(row: SessionRow) -> SessionHead:
    return SessionHead(row.header, row.length, row.last_time)


def _position_in(token: str, store: str) -> int:
    """
    Return the feed position that a token of *store* names.

    Raises:
        InvalidArgument: It is none, or one of another store.
    """
    position, _, origin = token.partition(".")
    # Position 0 was given out before the store existed, and knows of nothing.
    # Positions have 64 bits, and Python reads no number of thousands of digits.
    is_number = position.isascii() and position.isdigit() and len(position) <= 20
    if not is_number or origin not in (store, ""):
        raise _no_token()
    if not origin and int(position):
        raise _no_token()
    return int(position)


def _no_token() -> InvalidArgument:
    return InvalidArgument("since", "is no token of this store")


def _reopened(location: str, options: dict[str, Any]) -> LmdbStore:
    return LmdbStore(location, **options)
