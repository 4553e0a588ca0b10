"""
The logs of one folder: opened, looked at, folded and locked; and what this process
remembers of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from weakref import WeakSet

from eventlog.errors import EventLogError, SessionNotFound, StoreReadOnly, StoreUnavailable
from eventlog.fold_cache import FoldCache
from eventlog.model import Event
from eventlog.snapshot import ScanMeter
from eventlog.tables import MemoryTables

from .archived import ARCHIVE_SUFFIX, ArchivedLog, open_log
from .catalogue import Catalogue
from .layout import Layout, survey
from .medium import LogFile
from .names import LOG_SUFFIX, TOMBSTONE_SUFFIX, stem_of
from .reading import Scan, read_window
from .writing import is_at

__all__ = ["Logs"]


class Logs:
    """
    The logs in the folder *root*. Thread-safe.

    Args:
        root: An absolute path.

        meter: Where reads are counted.

        lock_wait_s: How long a writer waits for another.

    Attributes:
        catalogue: The headers; hold :attr:`lock` while using it.

        folds: The surfaces, by :attr:`Layout.identity`.
    """

    def __init__(self, root: str, meter: ScanMeter, lock_wait_s: float) -> None:
        self.root = root
        self.meter = meter
        self.lock_wait_s = lock_wait_s
        self.forget_all()
        _all_logs.add(self)

    def forget_all(self) -> None:
        """Start without memory of the files, and with locks that nobody holds."""
        self.lock = RLock()
        self.folds = FoldCache()
        self.catalogue = Catalogue(self.root, self.meter)
        self._layouts: dict[str, Layout] = {}
        # Where the scan of a log ended, by identity.
        self._scanned: dict[int, tuple[int, int]] = {}

    def path(self, stem: str, suffix: str) -> str:
        """Return the path of one of a session's files."""
        return f"{self.root}/{stem}{suffix}"

    def is_deleted(self, stem: str) -> bool:
        """Tell whether there is a tombstone. It hides a log that is still there."""
        return os.path.lexists(self.path(stem, TOMBSTONE_SUFFIX))

    def open(self, session_id: str) -> LogFile | None:
        """
        Open a log for reading; None where there is none, or its session was deleted.

        Raises:
            CorruptLog: The path is no regular file.

            StoreUnavailable: The system refuses to open it.
        """
        stem = stem_of(session_id)
        path = self.path(stem, LOG_SUFFIX)
        try:
            file = open_log(path, session_id, self.meter)
        except FileNotFoundError:
            return None
        except PermissionError as error:
            raise StoreUnavailable(path, "permission denied") from error
        if self.is_deleted(stem):
            file.close()
            return None
        return file

    @contextmanager
    def opened(
        self, session_id: str, identity: int | None = None
    ) -> Iterator[tuple[LogFile, Layout]]:
        """
        Hold a log open for one read.

        Args:
            identity: The log that is meant; None takes any of this id.

        Raises:
            SessionNotFound: There is none, or another one has the id.
        """
        while True:
            file = self.open(session_id)
            if file is None:
                raise SessionNotFound(session_id)
            with file:
                layout = self.survey(file)
                self.meter.probes += 1
                if identity is None or layout.identity == identity:
                    yield file, layout
                    return
                if _counts(file):
                    raise SessionNotFound(session_id)
                # Archived, taken out or deleted since it was opened: there is another file.

    def survey(self, file: LogFile) -> Layout:
        """
        Look at an open log, and remember what was seen.

        Raises:
            CorruptLog: Its header is damaged.
        """
        with self.lock:
            known = self._layouts.get(file.stem)
            facts = None if known is not None else self.catalogue.facts(file.stem)
            moved = known is not None and _was_moved(file, known)
            layout = survey(file, known=known, facts=facts, moved=moved)
            if moved and known is not None:
                # Opened before it was archived, taken out or deleted: not kept in mind, as
                # the next one finds another file.
                if layout.identity == known.identity:
                    if not is_at(file.fd, file.path):
                        return layout
                elif _is_like(layout, known) and not _counts(file):
                    return layout
            if layout is not known:
                self.remember(file.stem, layout)
        return layout

    def id_in_header(self, stem: str) -> str | None:
        """Return the session id that a log's header tells, None where it cannot be read."""
        with self.lock:
            if self.catalogue.facts(stem) is None:
                self.catalogue.read(stem, self.path(stem, LOG_SUFFIX))
            facts = self.catalogue.facts(stem)
        return None if facts is None else facts.header.id

    def seen(self, stem: str) -> Layout | None:
        """Return what the last look at a log said; None where there was none."""
        return self._layouts.get(stem)

    def remember(self, stem: str, layout: Layout) -> None:
        """Keep what a look at a log said."""
        with self.lock:
            known = self._layouts.get(stem)
            if known is not None and known.identity != layout.identity:
                self._drop_fold(known)
            self._layouts[stem] = layout
            self.catalogue.put(stem, layout.facts, layout.status)

    def forget(self, stem: str) -> None:
        """Drop what is known of a log that is gone. Null case: nothing is."""
        with self.lock:
            layout = self._layouts.pop(stem, None)
            self.catalogue.drop(stem)
        if layout is not None:
            self._drop_fold(layout)

    def _drop_fold(self, layout: Layout) -> None:
        self.folds.forget(layout.identity)
        self._scanned.pop(layout.identity, None)

    @contextmanager
    def folded(self, file: LogFile, layout: Layout, length: int) -> Iterator[MemoryTables]:
        """
        Hold the tables of an open log, folded to *length* or further.

        Raises:
            InvalidSurface: The fold refuses an event below *length*.

            CorruptLog: An event below *length* cannot be read.
        """

        def read(start: int, stop: int) -> list[Event]:
            return read_window(file, layout, start, stop)

        scan = Scan(file, layout, self._scanned.get(layout.identity))
        is_told = False
        # Not by an ExitStack: after an interrupt it can hold the fold until it is collected.
        try:
            with self.folds.tables(layout.identity, length, read, scan=scan) as tables:
                self.scanned(layout, *scan.position)
                is_told = True
                yield tables
        finally:
            if not is_told:
                self.scanned(layout, *scan.position)

    def scanned(self, layout: Layout, seq: int, offset: int) -> None:
        """Remember that all lines before *offset* were scanned, where *seq* has to stand."""
        self._scanned[layout.identity] = seq, offset

    def locked(self, session_id: str) -> LogFile | None:
        """
        Open a log for writing and lock it until it is closed; None where there is none.

        One that is archived is opened as it is: what is written to it goes elsewhere.

        Raises:
            StoreBusy: Another process holds it for too long.

            StoreReadOnly: The system refuses writing to it.
        """
        path = self.path(stem_of(session_id), LOG_SUFFIX)
        while True:
            try:
                file = self._open_for_writing(path, session_id)
            except FileNotFoundError:
                if os.path.lexists(path):
                    continue  # taken out of the archive in between
                return None
            except PermissionError as error:
                if isinstance(error, EventLogError):
                    raise
                raise StoreReadOnly(path) from error
            file.lock(self.lock_wait_s)
            if _counts(file):
                return file
            # It was deleted, or replaced, while this one waited.
            file.close()

    def _open_for_writing(self, path: str, session_id: str) -> LogFile:
        try:
            return LogFile(path, session_id, self.meter, writing=True)
        except FileNotFoundError:
            # An archive is never written to; but its lock is the session's.
            return ArchivedLog(path + ARCHIVE_SUFFIX, session_id, self.meter, writing=True)

    def __repr__(self) -> str:
        return f"<Logs of {self.root}, {len(self._layouts)} seen>"


def _counts(file: LogFile) -> bool:
    """Tell whether an open file is its session's log now: an archive is none beside a log."""
    log = file.path.removesuffix(ARCHIVE_SUFFIX)
    return is_at(file.fd, file.path) and not (file.archived and os.path.lexists(log))


def _was_moved(file: LogFile, known: Layout) -> bool:
    """Tell whether archiving is why *file* is another one than was seen before."""
    if known.facts.inode == file.status().st_ino:
        return False
    return file.archived or known.facts.archived or not is_at(file.fd, file.path)


def _is_like(layout: Layout, known: Layout) -> bool:
    """Tell whether a log may be what *known* was before it grew."""
    return layout.facts.digest == known.facts.digest and layout.length <= known.length


_all_logs: WeakSet[Logs] = WeakSet()


def _start_anew() -> None:
    for logs in _all_logs:
        logs.forget_all()


# Another thread of the parent may have held a lock that the child could never get.
os.register_at_fork(after_in_child=_start_anew)
