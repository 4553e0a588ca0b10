"""
The store in plain files: ``ROOT/<encoded id>.jsonl``, one log a session.

A log is its header and its events, one a line (:mod:`eventlog.codec`); a line is committed
by its LF. Beside the logs lie only tombstones of deleted sessions, and bytes that a writer
cut off (:mod:`~eventlog.drivers.jsonl.names`); there is no index, no catalogue and no
checkpoint. Any tool may read a log while it grows. What a crash leaves is told in
:mod:`~eventlog.drivers.jsonl.writing`. The platforms are those with ``flock``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from threading import RLock
from weakref import WeakSet

from attrs import evolve

from eventlog.admission import Admission, WritableLog
from eventlog.codec import encode_line
from eventlog.errors import (
    EventLogError,
    InvalidArgument,
    SessionNotFound,
    StoreReadOnly,
    StoreUnavailable,
)
from eventlog.fold_cache import FoldCache
from eventlog.model import Event, Fault, HeadKey, HeadPage, SessionHead, SessionHeader
from eventlog.snapshot import LogSnapshot, MeteredTables, Snapshot
from eventlog.store import Capabilities, ChangeSet, EventStore
from eventlog.tables import FoldTables, MemoryTables, ViewTables

from .feed import changes_since
from .folder import Catalogue, fault_of, list_folder
from .layout import BLOCK_BYTES, Layout, survey
from .locking import locked_file, locked_path
from .medium import LogFile, sync_folder
from .names import LOG_SUFFIX, TOMBSTONE_SUFFIX, TORN_SUFFIX, id_of, stem_of, unfinished_name
from .reading import Scan, read_window
from .writing import (
    LogAppeared,
    append_lines,
    create_log,
    is_at,
    read_tombstone,
    write_tombstone,
)

__all__ = ["JsonlStore", "open_url"]

LOCK_WAIT_S = 10.0


def open_url(path: str, options: Mapping[str, str], *, read_only: bool = False) -> JsonlStore:
    """
    Open ``jsonl:PATH``.

    Args:
        options: ``lock_wait_s``, seconds.

    Raises:
        InvalidArgument: There is no path, or an option that is not known.
    """
    if not path:
        raise InvalidArgument("url", "jsonl: needs the path of a folder")
    unknown = options.keys() - {"lock_wait_s"}
    if unknown:
        raise InvalidArgument("url", f"jsonl: has no option {min(unknown)!r}")
    try:
        lock_wait_s = float(options.get("lock_wait_s", LOCK_WAIT_S))
    except ValueError:
        raise InvalidArgument("url", "lock_wait_s must be a number of seconds") from None
    return JsonlStore(path, read_only=read_only, lock_wait_s=lock_wait_s)


class JsonlStore(EventStore):
    """
    Keep each session in a JSONL file of its own, in one folder.

    Any number of processes may read and write; writers of one session take turns. Appends
    are durable when :meth:`append` returns. Reads need no lock and write nothing, so they
    work on read-only media.

    Args:
        root: The folder; ``~`` expands. Created with mode 0700 by the first append.

        read_only: Refuse every write.

        lock_wait_s: How long a writer waits for another before it is
            :class:`~eventlog.errors.StoreBusy`.

    Raises:
        InvalidArgument: *lock_wait_s* is negative or no finite number.
    """

    capabilities = Capabilities(
        durable=True,
        atomic_batches=False,
        multi_process_read=True,
        multi_process_write=True,
        bounded_surface=False,
    )

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        read_only: bool = False,
        lock_wait_s: float = LOCK_WAIT_S,
    ) -> None:
        if not (math.isfinite(lock_wait_s) and lock_wait_s >= 0):
            raise InvalidArgument("lock_wait_s", f"must be seconds ≥ 0, not {lock_wait_s}")
        self.root = os.path.abspath(os.path.expanduser(os.fspath(root)))
        super().__init__(self.root, read_only=read_only)
        self._lock_wait_s = lock_wait_s
        self._forget_all()
        _stores.add(self)

    def _forget_all(self) -> None:
        """Start without memory of the files, and with locks that nobody holds."""
        self._lock = RLock()
        self._folds = FoldCache()
        self._layouts: dict[str, Layout] = {}
        self._catalogue = Catalogue(self.root, self.meter)

    # Reading

    def _head(self, session_id: str) -> SessionHead | None:
        file = self._open(session_id)
        if file is None:
            return None
        with file:
            head = self._survey(file).head
        self.meter.records += 1
        return head

    def _snapshot(self, head: SessionHead, length: int) -> LogSnapshot:
        layout = self._layouts.get(stem_of(head.header.id))
        if layout is None or layout.header != head.header:
            raise SessionNotFound(head.header.id)
        return JsonlSnapshot(self, layout, length)

    def _read_events(self, head: SessionHead, start: int, stop: int) -> list[Event]:
        with self._opened(head.header.id) as (file, layout):
            if layout.header != head.header:
                raise SessionNotFound(head.header.id)
            return read_window(file, layout, start, stop)

    def _heads(self, after: HeadKey | None, limit: int) -> HeadPage:
        return self._page(after, limit, None)

    def _children(self, parent_id: str, after: HeadKey | None, limit: int) -> HeadPage:
        return self._page(after, limit, parent_id)

    def _page(self, after: HeadKey | None, limit: int, parent_id: str | None) -> HeadPage:
        """
        Build a page of the listing, or of one parent's children.

        What has no place in the order is told on the first page.
        """
        with self._lock:
            _, unplaced = self._catalogue.refresh()
            faults = unplaced if after is None else []
            items: list[SessionHead] = []
            more = False
            for stem in self._catalogue.walk(after, parent_id):
                if len(items) == limit:
                    more = True
                    break
                item = self._item(stem)
                if isinstance(item, Fault):
                    faults.append(item)
                elif item is not None:
                    items.append(item)
        next_key = HeadKey.from_header(items[-1].header) if more else None
        return HeadPage(tuple(items), next_key, tuple(faults))

    def _item(self, stem: str) -> SessionHead | Fault | None:
        """Return what a listing says of one log; None where it is gone or stands elsewhere."""
        path = self._path(stem, LOG_SUFFIX)
        listed = self._catalogue.facts(stem)
        try:
            with LogFile(path, id_of(stem), self.meter) as file:
                layout = self._survey(file)
        except FileNotFoundError:
            return None
        except (EventLogError, OSError) as error:
            self._catalogue.drop(stem)
            return fault_of(error, stem, path)
        self.meter.records += 1
        # Rewritten in place with another header: it is found at its own place from now on.
        if listed is not None and HeadKey.from_header(listed.header) != HeadKey.from_header(
            layout.header
        ):
            return None
        return layout.head

    def _changes(self, since: str | None) -> ChangeSet:
        listing = list_folder(self.root, self.meter)
        return changes_since(since, listing, self.meter, self._id_of_log, self._id_of_tombstone)

    def _id_of_log(self, stem: str) -> str | None:
        session_id = id_of(stem)
        if session_id is not None:
            return session_id
        with self._lock:
            if self._catalogue.facts(stem) is None:
                self._catalogue.read(stem, self._path(stem, LOG_SUFFIX))
            facts = self._catalogue.facts(stem)
        return None if facts is None else facts.header.id

    def _id_of_tombstone(self, stem: str) -> str | None:
        session_id = id_of(stem)
        return session_id or read_tombstone(self._path(stem, TOMBSTONE_SUFFIX))

    def _path(self, stem: str, suffix: str) -> str:
        return f"{self.root}/{stem}{suffix}"

    def _open(self, session_id: str) -> LogFile | None:
        """Open a log for reading; None where there is none, or its session was deleted."""
        stem = stem_of(session_id)
        path = self._path(stem, LOG_SUFFIX)
        try:
            file = LogFile(path, session_id, self.meter)
        except FileNotFoundError:
            return None
        except PermissionError as error:
            if isinstance(error, EventLogError):
                raise
            raise StoreUnavailable(path, "permission denied") from error
        if os.path.lexists(self._path(stem, TOMBSTONE_SUFFIX)):
            file.close()
            return None
        return file

    @contextmanager
    def _opened(
        self, session_id: str, identity: int | None = None
    ) -> Iterator[tuple[LogFile, Layout]]:
        """
        Hold a log open for one read.

        Args:
            identity: The log that is meant; None takes any of this id.

        Raises:
            SessionNotFound: There is none, or another one has the id.
        """
        self._check_open()
        file = self._open(session_id)
        if file is None:
            raise SessionNotFound(session_id)
        with file:
            layout = self._survey(file)
            self.meter.probes += 1
            if identity is not None and layout.identity != identity:
                raise SessionNotFound(session_id)
            yield file, layout

    def _survey(self, file: LogFile) -> Layout:
        """Look at an open log, and remember what was seen."""
        stem = os.path.basename(file.path)[: -len(LOG_SUFFIX)]
        with self._lock:
            known = self._layouts.get(stem)
            layout = survey(file, known=known, facts=self._catalogue.facts(stem))
            if layout is not known:
                self._remember(stem, layout)
        return layout

    def _remember(self, stem: str, layout: Layout) -> None:
        with self._lock:
            known = self._layouts.get(stem)
            if known is not None and known.identity != layout.identity:
                self._folds.forget(known.identity)
            self._layouts[stem] = layout
            self._catalogue.put(stem, layout.facts)

    def _forget(self, stem: str) -> None:
        with self._lock:
            layout = self._layouts.pop(stem, None)
            self._catalogue.drop(stem)
        if layout is not None:
            self._folds.forget(layout.identity)

    @contextmanager
    def _folded_log(self, file: LogFile, layout: Layout, length: int) -> Iterator[MemoryTables]:
        def read(start: int, stop: int) -> list[Event]:
            return read_window(file, layout, start, stop)

        scan = Scan(file, layout)
        with self._folds.tables(layout.identity, length, read, scan=scan) as tables:
            yield tables

    # Writing

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        while True:
            try:
                return super().append(header, events)
            except LogAppeared:
                continue  # judged again, against what is there now

    @contextmanager
    def _writing(self, session_id: str) -> Iterator[WritableLog]:
        stem = stem_of(session_id)
        path = self._path(stem, LOG_SUFFIX)
        with ExitStack() as held:
            held.enter_context(locked_path(path, self._lock_wait_s))
            file = self._locked(held, path, session_id)
            log = _Writing(self, session_id, stem, file)
            held.callback(log.close)
            yield log

    def _locked(self, held: ExitStack, path: str, session_id: str) -> LogFile | None:
        """Open and lock a log for writing; None where there is none."""
        while True:
            try:
                file = LogFile(path, session_id, self.meter, writing=True)
            except FileNotFoundError:
                return None
            except PermissionError as error:
                if isinstance(error, EventLogError):
                    raise
                raise StoreReadOnly(path) from error
            with ExitStack() as attempt:
                attempt.enter_context(locked_file(file.fd, path, self._lock_wait_s))
                if is_at(file.fd, path):
                    held.push(attempt.pop_all())
                    return file
            # Deleted, or replaced, while this one waited.

    def _delete(self, session_id: str, forget: bool) -> bool:
        stem = stem_of(session_id)
        path = self._path(stem, LOG_SUFFIX)
        tombstone = self._path(stem, TOMBSTONE_SUFFIX)
        with ExitStack() as held:
            held.enter_context(locked_path(path, self._lock_wait_s))
            file = self._locked(held, path, session_id)
            was_deleted = os.path.lexists(tombstone)
            if file is not None:
                # First the tombstone: whatever fails from here on, the session is gone.
                write_tombstone(tombstone, session_id)
                self._forget(stem)
                self._remove(path, "the session is deleted, but its log is still there")
                for rest in (
                    self._path(stem, TORN_SUFFIX),
                    f"{self.root}/{unfinished_name(session_id)}",
                ):
                    self._remove(rest, "the session is deleted, but a part of it is still there")
            if forget:
                self._remove(tombstone, "the session is deleted, but not forgotten")
            if file is not None or (forget and was_deleted):
                sync_folder(self.root)
        return file is not None or (forget and was_deleted)

    def _remove(self, path: str, otherwise: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise StoreUnavailable(path, f"{otherwise}: {error.strerror}") from error


_stores: WeakSet[JsonlStore] = WeakSet()


def _start_anew() -> None:
    for store in _stores:
        store._forget_all()


# Another thread of the parent may have held a lock that the child could never get.
os.register_at_fork(after_in_child=_start_anew)


class JsonlSnapshot(Snapshot):
    """A log of a :class:`JsonlStore` as of a length."""

    __slots__ = ("_identity", "_store")

    def __init__(self, store: JsonlStore, layout: Layout, length: int) -> None:
        super().__init__(layout.header, length)
        self._store = store
        self._identity = layout.identity

    def _read(self, start: int, stop: int) -> list[Event]:
        with self._store._opened(self._header.id, self._identity) as (file, layout):
            return read_window(file, layout, start, stop)

    @contextmanager
    def _tables(self) -> Iterator[ViewTables]:
        store = self._store
        with (
            store._opened(self._header.id, self._identity) as (file, layout),
            store._folded_log(file, layout, self._length) as tables,
        ):
            yield MeteredTables(tables, store.meter)


class _Writing:
    """One session of a :class:`JsonlStore`, locked for writing."""

    def __init__(self, store: JsonlStore, session_id: str, stem: str, file: LogFile | None) -> None:
        self._store = store
        self._stem = stem
        self._session_id = session_id
        self._folding = ExitStack()
        self.deleted = self._is_deleted()
        self._file = None if self.deleted else file
        self._layout = None if self._file is None else store._survey(self._file)

    def _is_deleted(self) -> bool:
        return os.path.lexists(self._store._path(self._stem, TOMBSTONE_SUFFIX))

    @property
    def header(self) -> SessionHeader | None:
        return None if self._layout is None else self._layout.header

    @property
    def length(self) -> int:
        return 0 if self._layout is None else self._layout.length

    @property
    def tables(self) -> FoldTables:
        if self._file is None or self._layout is None:
            return MemoryTables()
        folded = self._store._folded_log(self._file, self._layout, self._layout.length)
        return self._folding.enter_context(folded)

    def read(self, start: int, stop: int) -> list[Event]:
        if self._file is None or self._layout is None:
            return []
        return read_window(self._file, self._layout, start, stop)

    def close(self) -> None:
        """Let readers of the surface go on."""
        self._folding.close()

    def write(self, admission: Admission) -> None:
        self.close()  # they need not wait for the disk
        lines = [encode_line(event) for event in admission.events]
        if self._file is None or self._layout is None:
            self._create(admission, lines)
        else:
            self._append(self._file, self._layout, admission, lines)

    def _create(self, admission: Admission, lines: list[bytes]) -> None:
        store, stem = self._store, self._stem
        path = store._path(stem, LOG_SUFFIX)
        create_log(
            path,
            f"{store.root}/{unfinished_name(self._session_id)}",
            [encode_line(admission.header), *lines],
            store._lock_wait_s,
            self._is_deleted,
        )
        with LogFile(path, self._session_id, store.meter) as file:
            identity = store._survey(file).identity
        with store._folds.tables(identity, 0, lambda start, stop: []):
            store._folds.extend(identity, 0, admission.steps)

    def _append(
        self, file: LogFile, layout: Layout, admission: Admission, lines: list[bytes]
    ) -> None:
        torn_path = self._store._path(self._stem, TORN_SUFFIX)
        end = append_lines(file, layout, lines, torn_path)
        status, last = file.status(), lines[-1]
        seen = last[-BLOCK_BYTES:]
        grown = evolve(
            layout,
            status=(status.st_size, status.st_mtime_ns, status.st_ctime_ns),
            settled=False,
            start=0,
            last_offset=end - len(last),
            last_seq=admission.length - 1,
            end=end,
            length=admission.length,
            last_time=admission.events[-1].time,
            mark=(end - len(seen), len(seen), hash(seen)),
        )
        self._store._remember(self._stem, grown)
        self._store._folds.extend(layout.identity, admission.start, admission.steps)
