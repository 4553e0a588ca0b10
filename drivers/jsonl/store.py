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
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

from attrs import evolve

from eventlog.admission import WritableLog
from eventlog.errors import EventLogError, InvalidArgument, SessionNotFound, StoreUnavailable
from eventlog.findings import Finding, Gap
from eventlog.model import Event, Fault, HeadKey, HeadPage, SessionHead, SessionHeader
from eventlog.opening import local_path
from eventlog.snapshot import LogSnapshot, MeteredTables, Snapshot
from eventlog.store import Capabilities, ChangeSet, EventStore
from eventlog.tables import ViewTables

from .appending import LockedLog
from .archived import ARCHIVE_SUFFIX, open_log
from .catalogue import list_folder
from .feed import changes_since
from .layout import HeaderFacts, Layout
from .locking import PathLock
from .logs import Logs
from .medium import LogFile, sync_folder
from .names import (
    LOG_SUFFIX,
    TOMBSTONE_SUFFIX,
    TORN_SUFFIX,
    backups_of,
    id_of,
    stem_of,
    unfinished_name,
)
from .reading import read_window
from .refusals import refusal
from .repairing import repaired
from .salvaging import salvaged
from .verifying import verified
from .writing import LogAppeared, claimed, read_tombstone, write_tombstone

__all__ = ["JsonlSnapshot", "JsonlStore", "open_url"]

LOCK_WAIT_S = 10.0

# A page is built anew where a header in it was replaced since the folder was looked at.
PAGE_ATTEMPTS = 5


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
        self.root = local_path(root)
        super().__init__(self.root, read_only=read_only)
        self._logs = Logs(self.root, self.meter, lock_wait_s)

    def __reduce__(self) -> tuple[object, ...]:
        return _reopened, (self.root, self.read_only, self._logs.lock_wait_s)

    # Reading

    def _head(self, session_id: str) -> SessionHead | None:
        file = self._logs.open(session_id)
        if file is None:
            return None
        with file:
            head = self._logs.survey(file).head
        self.meter.records += 1
        return head

    def _snapshot(self, head: SessionHead, length: int) -> LogSnapshot:
        layout = self._logs.seen(stem_of(head.header.id))
        if layout is None or layout.header != head.header:
            raise SessionNotFound(head.header.id)
        return JsonlSnapshot(self, layout, length)

    def _read_events(self, head: SessionHead, start: int, stop: int) -> list[Event]:
        with self._logs.opened(head.header.id) as (file, layout):
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
        with self._logs.lock:
            unplaced = self._logs.catalogue.refresh()
            for _ in range(PAGE_ATTEMPTS):
                page = self._page_now(after, limit, parent_id)
                if page is not None:
                    break
            else:
                raise StoreUnavailable(self.root, "headers change while they are listed")
        faults = page.faults if after is not None else (*unplaced, *page.faults)
        return evolve(page, faults=faults)

    def _page_now(
        self, after: HeadKey | None, limit: int, parent_id: str | None
    ) -> HeadPage | None:
        """Build a page; None where a log was found to stand elsewhere in the order."""
        catalogue = self._logs.catalogue
        items: list[SessionHead] = []
        faults: list[Fault] = []
        more = False
        for stem in catalogue.walk(after, parent_id):
            if len(items) == limit:
                more = True
                break
            listed = catalogue.facts(stem)
            path = self._logs.path(stem, LOG_SUFFIX)
            try:
                with open_log(path, id_of(stem), self.meter) as file:
                    layout = self._logs.survey(file)
            except FileNotFoundError:
                continue
            except (EventLogError, OSError) as error:
                faults.append(catalogue.lose(stem, path, error))
                continue
            if listed is None or _place_of(listed) != _place_of(layout.facts):
                return None
            self.meter.records += 1
            items.append(layout.head)
        next_key = HeadKey.from_header(items[-1].header) if more else None
        return HeadPage(tuple(items), next_key, tuple(faults))

    def _changes(self, since: str | None) -> ChangeSet:
        listing = list_folder(self.root, self.meter)

        def look_up(stem: str) -> str | None:
            if stem in listing.tombstones:
                return read_tombstone(self._logs.path(stem, TOMBSTONE_SUFFIX))
            return self._logs.id_in_header(stem)

        return changes_since(since, listing, self.meter, look_up)

    # Damage

    def _verify(self) -> Iterator[Finding]:
        return verified(self._logs)

    def _repair(self, dry_run: bool) -> list[Finding]:
        return repaired(self._logs, dry_run)

    def _salvage(self, session_id: str) -> Iterator[Event | Gap]:
        file = self._logs.open(session_id)
        if file is None:
            raise SessionNotFound(session_id)
        file.close()
        return salvaged(self._logs, session_id)

    # Writing

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        while True:
            try:
                return super().append(header, events)
            except LogAppeared:
                continue  # judged again, against what is there now
            except StoreUnavailable as error:
                self._distrust(error)
                raise

    @contextmanager
    def _writing(self, session_id: str) -> Iterator[WritableLog]:
        with self._held(session_id), LockedLog(self._logs, session_id) as log:
            yield log

    def _held(self, session_id: str) -> PathLock:
        """Hold a log against the other threads of this process."""
        path = self._logs.path(stem_of(session_id), LOG_SUFFIX)
        return PathLock(path, self._logs.lock_wait_s)

    def _delete(self, session_id: str, forget: bool) -> bool:
        logs, stem = self._logs, stem_of(session_id)
        tombstone = logs.path(stem, TOMBSTONE_SUFFIX)
        with self._held(session_id), logs.locked(session_id) or nullcontext() as file:
            was_deleted = logs.is_deleted(stem)
            last: list[str] = []
            if file is not None:
                # First the tombstone: whatever fails from here on, the session is gone.
                write_tombstone(tombstone, session_id)
                logs.forget(stem)
                # Last the file whose lock we hold. Behind that others may forget the session
                # and begin it anew, and what is there is theirs.
                log = logs.path(stem, LOG_SUFFIX)
                last = sorted((log, log + ARCHIVE_SUFFIX), key=lambda path: path == file.path)
            if file is not None or was_deleted:
                self._remove_unfinished(session_id)
                for path in (logs.path(stem, TORN_SUFFIX), *self._backups(stem), *last):
                    _remove(path)
            if forget:
                _remove(tombstone, otherwise="the session is deleted, but not forgotten")
            if file is not None or was_deleted:
                _sync(self.root)
        return file is not None or (forget and was_deleted)

    def _remove_unfinished(self, session_id: str) -> None:
        """Take away what a crash left of a creation; one that is under way is waited for."""
        path = f"{self.root}/{unfinished_name(session_id)}"
        if os.path.lexists(path):
            try:
                with claimed(path, self._logs.lock_wait_s):
                    _remove(path)
            except OSError as error:
                if isinstance(error, EventLogError):
                    raise
                raise StoreUnavailable(path, f"{_NOT_ALL}: {error.strerror}") from error

    def _archive(self, session_id: str) -> bool:
        with self._held(session_id), LockedLog(self._logs, session_id) as log:
            log.archive()
        return True

    def _backups(self, stem: str) -> list[str]:
        try:
            return [f"{self.root}/{name}" for name in backups_of(stem, os.listdir(self.root))]
        except OSError as error:
            raise refusal(error, self.root) from error


def _place_of(facts: HeaderFacts) -> tuple[object, ...]:
    """Return what decides where a log stands in the listings."""
    return HeadKey.from_header(facts.header).sort_key, facts.header.parent_session


def _reopened(root: str, read_only: bool, lock_wait_s: float) -> JsonlStore:
    return JsonlStore(root, read_only=read_only, lock_wait_s=lock_wait_s)


def _sync(folder: str) -> None:
    try:
        sync_folder(folder)
    except OSError as error:
        raise refusal(error, folder, writing=True) from error


_NOT_ALL: Final = "the session is deleted, but not all of its files are"


def _remove(path: str, *, otherwise: str = _NOT_ALL) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise StoreUnavailable(path, f"{otherwise}: {error.strerror}") from error


class JsonlSnapshot(Snapshot):
    """A log of a :class:`JsonlStore` as of a length."""

    __slots__ = ("_identity", "_store")

    def __init__(self, store: JsonlStore, layout: Layout, length: int) -> None:
        super().__init__(layout.header, length)
        self._store = store
        self._identity = layout.identity

    def _check_open(self) -> None:
        self._store._check_open()

    def _read(self, start: int, stop: int) -> list[Event]:
        with self._opened() as (file, layout):
            return read_window(file, layout, start, stop)

    @contextmanager
    def _tables(self) -> Iterator[ViewTables]:
        logs = self._store._logs
        with (
            self._opened() as (file, layout),
            logs.folded(file, layout, self._length) as tables,
        ):
            yield MeteredTables(tables, logs.meter)

    def _opened(self) -> AbstractContextManager[tuple[LogFile, Layout]]:
        self._store._check_open()
        return self._store._logs.opened(self._header.id, self._identity)
