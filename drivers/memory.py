"""
The store in memory: for tests, and for sessions that nobody keeps.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from secrets import token_hex

from eventlog.admission import Admission, WritableLog
from eventlog.catalog import Catalog
from eventlog.errors import InvalidArgument, SessionNotFound
from eventlog.locks import forkable_lock, unowned
from eventlog.log import MemoryLog, MemorySnapshot
from eventlog.model import Event, HeadKey, HeadPage, SessionHead
from eventlog.snapshot import LogSnapshot
from eventlog.store import Capabilities, ChangeSet, EventStore, head_page
from eventlog.tables import MemoryTables, ViewTables

__all__ = ["MemoryStore", "open_url"]


def open_url(path: str, options: Mapping[str, str], *, read_only: bool = False) -> MemoryStore:
    """
    Open ``memory:``, a new and empty store.

    Raises:
        InvalidArgument: A path or an option was given.
    """
    if path or options:
        raise InvalidArgument("url", "memory: takes no path and no options")
    return MemoryStore(read_only=read_only)


class MemoryStore(EventStore):
    """Keep sessions in this process, gone with the object."""

    capabilities = Capabilities(
        durable=False,
        atomic_batches=True,
        multi_process_read=False,
        multi_process_write=False,
        bounded_surface=True,
    )

    def __init__(self, *, read_only: bool = False) -> None:
        super().__init__("memory:", read_only=read_only)
        self._lock = forkable_lock()
        self._logs: dict[str, MemoryLog] = {}
        self._deleted: set[str] = set()
        # Being in the dict decides which sessions there are; the catalogue follows it.
        self._catalog = Catalog(lambda: [log.header for log in self._logs.values()])
        # Position of the last change, by session; and the other way round, ascending.
        self._positions: dict[str, int] = {}
        self._feed: dict[int, str] = {}
        # Which store this is, so that no other one's token is taken for its own.
        self._origin = token_hex(8)

    @contextmanager
    def _writing(self, session_id: str) -> Iterator[WritableLog]:
        with unowned(self._lock):
            yield _Writing(self, session_id)

    def _read_events(self, head: SessionHead, start: int, stop: int) -> list[Event]:
        return self._log(head.header.id).snapshot(meter=self.meter).read(start, stop)

    def _snapshot(self, head: SessionHead, length: int) -> LogSnapshot:
        return _StoredSnapshot(self, self._log(head.header.id), length)

    def _log(self, session_id: str) -> MemoryLog:
        log = self._logs.get(session_id)
        if log is None:
            raise SessionNotFound(session_id)
        return log

    def _head(self, session_id: str) -> SessionHead | None:
        log = self._logs.get(session_id)
        if log is None:
            return None
        self.meter.records += 1
        return log.head()

    def _heads(self, after: HeadKey | None, limit: int) -> HeadPage:
        with unowned(self._lock):
            return head_page(self._catalog.heads(after, limit, self._counted_head), limit)

    def _children(self, parent_id: str, after: HeadKey | None, limit: int) -> HeadPage:
        with unowned(self._lock):
            found = self._catalog.heads(after, limit, self._counted_head, parent_id=parent_id)
            return head_page(found, limit)

    def _counted_head(self, session_id: str) -> SessionHead:
        self.meter.records += 1
        return self._logs[session_id].head()

    def _place(self) -> Hashable:
        return self._origin

    def _changes(self, since: str | None) -> ChangeSet:
        with unowned(self._lock):
            last = next(reversed(self._feed), 0)
            start = 0 if since is None else self._position(since, last) + 1
            changed: dict[str, None] = {}
            for position in reversed(self._feed):
                if position < start:
                    break
                changed[self._feed[position]] = None
            return ChangeSet(tuple(reversed(changed)), f"{last}.{self._origin}")

    def _position(self, token: str, last: int) -> int:
        """
        Return the place in the feed that a token names, at most *last*.

        Raises:
            InvalidArgument: It is none, or one of another store.
        """
        position, _, origin = token.partition(".")
        is_number = position.isascii() and position.isdigit() and len(position) <= 20
        if origin != self._origin or not is_number or int(position) > last:
            raise InvalidArgument("since", "is no token of this store")
        return int(position)

    def _delete(self, session_id: str, forget: bool) -> bool:
        with unowned(self._lock):
            log = self._logs.get(session_id)
            remembered = session_id in self._deleted
            # First what keeps the id from being used: whatever strikes from here on, the
            # session does not come back half gone.
            if log is not None:
                self._deleted.add(session_id)
                self._changed(session_id)
                self._catalog.changing()
                del self._logs[session_id]
                self._catalog.remove(log.header)
            if forget:
                self._deleted.discard(session_id)
            return log is not None or (forget and remembered)

    def _create(self, log: MemoryLog) -> None:
        self._catalog.changing()
        self._logs[log.header.id] = log
        self._catalog.add(log.header)

    def _changed(self, session_id: str) -> None:
        position = next(reversed(self._feed), 0) + 1
        self._feed[position] = session_id
        old = self._positions.get(session_id)
        self._positions[session_id] = position
        if old is not None:
            self._feed.pop(old, None)


class _StoredSnapshot(MemorySnapshot):
    """A snapshot that ends with its session, and with its store."""

    __slots__ = ("_store",)

    def __init__(self, store: MemoryStore, log: MemoryLog, length: int) -> None:
        super().__init__(log, length, store.meter)
        self._store = store

    def _check_open(self) -> None:
        self._store._check_open()

    def _read(self, start: int, stop: int) -> list[Event]:
        self._check_kept()
        return super()._read(start, stop)

    @contextmanager
    def _tables(self) -> Iterator[ViewTables]:
        self._check_kept()
        with super()._tables() as tables:
            yield tables

    def _check_kept(self) -> None:
        self._store._check_open()
        session_id = self.header.id
        if self._store._logs.get(session_id) is not self._log:
            raise SessionNotFound(session_id)


class _Writing:
    """One session of a :class:`MemoryStore`, under its lock."""

    def __init__(self, store: MemoryStore, session_id: str) -> None:
        self._store = store
        self._log = store._logs.get(session_id)
        self.deleted = session_id in store._deleted
        self.header = None if self._log is None else self._log.header
        self.length = 0 if self._log is None else self._log.length
        self.tables = MemoryTables() if self._log is None else self._log.tables

    def read(self, start: int, stop: int) -> list[Event]:
        return [] if self._log is None else self._log.read(start, stop)

    def write(self, admission: Admission) -> None:
        # The change is told first: one that is told and does not come does no harm.
        self._store._changed(admission.header.id)
        if self._log is not None:
            self._log.write(admission.events, admission.steps)
        else:
            log = MemoryLog(admission.header)
            log.write(admission.events, admission.steps)
            self._store._create(log)
