"""
The store in PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote, urlencode

from eventlog.admission import WritableLog, checked_batch, checked_batches
from eventlog.errors import EventLogError, InvalidArgument, SessionNotFound
from eventlog.findings import Finding
from eventlog.log import pinned_length
from eventlog.model import Batch, Event, HeadKey, HeadPage, SessionHead, SessionHeader
from eventlog.snapshot import LogSnapshot, Snapshot
from eventlog.store import Capabilities, ChangeSet, EventStore
from eventlog.tables import ViewTables
from eventlog.values import check_index, check_session_id, shown

from . import writing
from .database import Database
from .reading import changed, is_alive, origin, page, session_row, window
from .records import SessionRow
from .repairing import repaired
from .tables import RowTables
from .url import SCHEMA, Address, check_options
from .verifying import verified

__all__ = ["PostgresStore", "open_url"]

LOCK_WAIT_S: Final = 10.0
LOCK_WAIT_S_MAX: Final = 86_400.0
CONNECTIONS_MAX: Final = 8
CONNECTIONS_LIMIT: Final = 1_000


def open_url(path: str, options: Mapping[str, str], *, read_only: bool = False) -> PostgresStore:
    """
    Open ``postgresql://USER@HOST:PORT/DATABASE``.

    Args:
        path: What stands behind ``postgresql:``.

        options: ``schema``, ``lock_wait_s`` and ``connections_max``, as for
            :class:`PostgresStore`, and those of libpq, such as ``host``, ``sslmode`` or
            ``connect_timeout``.

    Raises:
        InvalidArgument: The URL is none, or an option is unknown or no number.
    """
    own: dict[str, Any] = {}
    rest: dict[str, str] = {}
    for name, text in options.items():
        if name == "schema":
            own[name] = text
        elif name in ("lock_wait_s", "connections_max"):
            try:
                own[name] = float(text) if name == "lock_wait_s" else int(text)
            except ValueError:
                raise InvalidArgument(name, f"must be a number, not {text!r:.60}") from None
        else:
            rest[name] = text
    check_options(rest)
    query = f"?{urlencode(rest, quote_via=quote)}" if rest else ""
    return PostgresStore(f"postgresql:{path}{query}", read_only=read_only, **own)


class PostgresStore(EventStore):
    """
    Keep sessions in one schema of a PostgreSQL database, version 13 or later.

    Any number of processes on any machines may read and write; those that write to one
    session take turns. Appends are durable when :meth:`append` returns, as far as the
    server is: ``synchronous_commit`` is on. The schema and its tables are made by the
    first append. Nothing connects before the first call.

    A server that goes away is :class:`~eventlog.errors.StoreUnavailable`; the next call
    connects anew. Of an append that ended so it is not known whether it was stored; the
    same one again is a retry, and stores nothing twice.

    Args:
        url: ``postgresql://…`` with the options of libpq. What it leaves open is libpq's
            to find, such as a password in ``~/.pgpass``. Connecting takes up to
            ``connect_timeout``, 10 s for each host unless given.

        read_only: Refuse writes, and have the server refuse them.

        schema: The schema; it holds this store and nothing else.

        lock_wait_s: How long to wait for another writer of a session before
            :class:`~eventlog.errors.StoreBusy`, up to a day. Nothing else waits for a lock;
            how long a statement may take is the server's ``statement_timeout``.

        connections_max: How many connections to hold; threads that need one more wait.

    Raises:
        InvalidArgument: *url* is none of PostgreSQL, or a number is out of range.
    """

    capabilities = Capabilities(
        durable=True,
        atomic_batches=True,
        multi_process_read=True,
        multi_process_write=True,
        bounded_surface=True,
    )

    def __init__(
        self,
        url: str,
        *,
        read_only: bool = False,
        schema: str = SCHEMA,
        lock_wait_s: float = LOCK_WAIT_S,
        connections_max: int = CONNECTIONS_MAX,
    ) -> None:
        if type(url) is not str:
            raise InvalidArgument("url", f"must be a str, not {type(url).__name__}")
        if type(lock_wait_s) not in (int, float) or not 0 <= lock_wait_s <= LOCK_WAIT_S_MAX:
            raise InvalidArgument("lock_wait_s", f"must be 0 … 86400, not {shown(lock_wait_s)}")
        if not 1 <= check_index(connections_max, "connections_max") <= CONNECTIONS_LIMIT:
            raise InvalidArgument("connections_max", f"must be 1 … {CONNECTIONS_LIMIT}")
        address = Address.from_url(url, schema)
        super().__init__(address.location, read_only=read_only)
        self._database = Database(
            address,
            read_only=read_only,
            lock_wait_s=lock_wait_s,
            connections_max=connections_max,
        )
        # With what secrets the URL holds: there is no other way to open the store again.
        self._opened_with = (url, read_only, schema, lock_wait_s, connections_max)

    def close(self) -> None:
        super().close()
        self._database.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, self._opened_with

    # Writing

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        self._check_writable()
        result = writing.append(self._database, [checked_batch(header, events)])[0]
        if isinstance(result, EventLogError):
            raise result
        return result

    def append_many(self, batches: Sequence[Batch]) -> list[int | EventLogError]:
        self._check_writable()
        results: list[int | EventLogError] = []
        checked: dict[int, Batch] = {}
        for place, batch in enumerate(checked_batches(batches)):
            results.append(0)
            try:
                checked[place] = checked_batch(batch.header, batch.events)
            except EventLogError as error:
                results[place] = error
        outcomes = writing.append(self._database, list(checked.values()))
        for place, outcome in zip(checked, outcomes, strict=True):
            results[place] = outcome
        return results

    @contextmanager
    def _writing(self, session_id: str) -> Iterator[WritableLog]:
        with writing.held(self._database, session_id) as log:
            yield log

    def _delete(self, session_id: str, forget: bool) -> bool:
        return writing.remove(self._database, session_id, forget=forget)

    # Damage

    def _verify(self) -> Iterator[Finding]:
        return verified(self._database)

    def _repair(self, dry_run: bool) -> list[Finding]:
        return repaired(self._database, dry_run)

    # Reading

    def snapshot(self, session_id: str, *, at: int | None = None) -> LogSnapshot:
        self._check_open()
        check_session_id(session_id, path="session_id")
        row = session_row(self._database, session_id, self.meter)
        if row is None:
            raise SessionNotFound(session_id)
        return PostgresSnapshot(self, row, pinned_length(at, row.length))

    def _head(self, session_id: str) -> SessionHead | None:
        row = session_row(self._database, session_id, self.meter)
        return None if row is None else row.head()

    def _heads(self, after: HeadKey | None, limit: int) -> HeadPage:
        return page(self._database, None, after, limit, self.meter)

    def _children(self, parent_id: str, after: HeadKey | None, limit: int) -> HeadPage:
        return page(self._database, parent_id, after, limit, self.meter)

    def _place(self) -> Hashable:
        # A server has many names.
        return origin(self._database) or self.location

    def _changes(self, since: str | None) -> ChangeSet:
        found = changed(self._database, since)
        self.meter.probes += len(found.session_ids)
        return found

    def _read_events(self, head: SessionHead, start: int, stop: int) -> list[Event]:
        snapshot = self.snapshot(head.header.id)
        if snapshot.header != head.header:
            raise SessionNotFound(head.header.id)
        return snapshot.read(start, stop)


class PostgresSnapshot(Snapshot):
    """A session of a :class:`PostgresStore` as of a length. Each call is one transaction."""

    __slots__ = ("_ordinal", "_store")

    def __init__(self, store: PostgresStore, row: SessionRow, length: int) -> None:
        super().__init__(row.header, length)
        self._store = store
        self._ordinal = row.ordinal

    def _check_open(self) -> None:
        self._store._check_open()

    def _read(self, start: int, stop: int) -> list[Event]:
        store = self._store
        return window(store._database, self._header.id, self._ordinal, start, stop, store.meter)

    @contextmanager
    def _tables(self) -> Iterator[ViewTables]:
        store = self._store
        store._check_open()
        with store._database.standing_still() as connection:
            store.meter.probes += 1
            if connection is None or not is_alive(connection, self._ordinal):
                raise SessionNotFound(self._header.id)
            yield RowTables(connection, self._ordinal, store.meter)


def _reopened(
    url: str, read_only: bool, schema: str, lock_wait_s: float, connections_max: int
) -> PostgresStore:
    return PostgresStore(
        url,
        read_only=read_only,
        schema=schema,
        lock_wait_s=lock_wait_s,
        connections_max=connections_max,
    )
