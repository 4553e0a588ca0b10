"""
One session under its writer's lock: what appending reads of it, and writes to it.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, suppress
from itertools import chain

from attrs import evolve

from eventlog.admission import Admission
from eventlog.codec import encode_line
from eventlog.errors import SessionNotFound, StoreUnavailable, ValueRejected
from eventlog.model import Event, SessionHeader
from eventlog.tables import FoldTables, MemoryTables

from .archived import ARCHIVE_SUFFIX, open_log
from .compressing import blocks_of, compress_log
from .layout import Layout, stamp_of
from .logs import Logs
from .medium import LINE_BYTES_MAX, LogFile, sync_folder
from .names import LOG_SUFFIX, TORN_SUFFIX, stem_of, unfinished_name
from .reading import read_window
from .tail import MARK_BYTES
from .writing import append_lines, created_log, is_at

__all__ = ["LockedLog"]


class LockedLog:
    """
    A :class:`~eventlog.admission.WritableLog` in a file.

    Args:
        logs: Where it lies.

        session_id: Whose log it is.

    Raises:
        CorruptLog: Its header is damaged.

        StoreBusy: Another process holds it for too long.

        StoreReadOnly: The system refuses writing to it.
    """

    def __init__(self, logs: Logs, session_id: str) -> None:
        self._logs = logs
        self._session_id = session_id
        self._stem = stem_of(session_id)
        self._folding: AbstractContextManager[MemoryTables] | None = None
        self._layout: Layout | None = None
        self._file = logs.locked(session_id)
        try:
            self.deleted = logs.is_deleted(self._stem)
            if self._file is not None and not self.deleted:
                self._layout = logs.survey(self._file)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> LockedLog:
        return self

    def __exit__(self, *unused: object) -> None:
        try:
            self._end_folding()
        finally:
            if self._file is not None:
                self._file.close()

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
        self._end_folding()
        folding = self._logs.folded(self._file, self._layout, self._layout.length)
        tables = folding.__enter__()
        # Not before: one that an interrupt kept from being entered cannot be left.
        self._folding = folding
        return tables

    def _end_folding(self) -> None:
        """Let other threads use the surface."""
        folding, self._folding = self._folding, None
        if folding is not None:
            folding.__exit__(None, None, None)

    def read(self, start: int, stop: int) -> list[Event]:
        if self._file is None or self._layout is None:
            return []
        return read_window(self._file, self._layout, start, stop)

    def write(self, admission: Admission) -> None:
        self._end_folding()  # they need not wait for the disk
        lines = [encode_line(event) for event in admission.events]
        if max(map(len, lines)) > LINE_BYTES_MAX:
            raise ValueRejected("events", f"one takes more than {LINE_BYTES_MAX} bytes as a line")
        if self._file is None or self._layout is None:
            self._create(admission, lines)
        elif self._file.archived:
            self._restore(self._file, self._layout, admission, lines)
        else:
            self._append(self._file, self._layout, admission, lines)

    def _create(self, admission: Admission, lines: list[bytes]) -> None:
        logs, stem = self._logs, self._stem
        header = encode_line(admission.header)
        if len(header) > LINE_BYTES_MAX:
            raise ValueRejected("header", f"takes more than {LINE_BYTES_MAX} bytes as a line")
        path = logs.path(stem, LOG_SUFFIX)
        created = created_log(
            path,
            f"{logs.root}/{unfinished_name(self._session_id)}",
            [header, *lines],
            logs.lock_wait_s,
            lambda: logs.is_deleted(stem) or os.path.lexists(path + ARCHIVE_SUFFIX),
        )
        with created, LogFile(path, self._session_id, logs.meter) as file:
            layout = logs.survey(file)
        with logs.folds.tables(layout.identity, 0, lambda start, stop: []):
            logs.folds.extend(layout.identity, 0, admission.steps)
        if layout.length == admission.length:
            logs.scanned(layout, admission.length, layout.end)

    def _restore(
        self, file: LogFile, layout: Layout, admission: Admission, lines: list[bytes]
    ) -> None:
        """Take the log out of the archive, with *lines* behind it."""
        logs, stem = self._logs, self._stem
        created = created_log(
            logs.path(stem, LOG_SUFFIX),
            f"{logs.root}/{unfinished_name(self._session_id)}",
            chain(blocks_of(file, layout.end), lines),
            logs.lock_wait_s,
            lambda: logs.is_deleted(stem),
        )
        # From here on the log counts. Where this fails, the archive is left over.
        with created, suppress(OSError):
            os.unlink(file.path)
            sync_folder(logs.root)
        logs.folds.extend(layout.identity, admission.start, admission.steps)

    def archive(self) -> None:
        """
        Compress the log where it lies. Null case: it is archived.

        Raises:
            SessionNotFound: There is no such session.

            StoreFull, StoreReadOnly, StoreUnavailable: It is as it was.
        """
        file, layout = self._file, self._layout
        if file is None or layout is None:
            raise SessionNotFound(self._session_id)
        if not file.archived:
            new_path = f"{self._logs.root}/{unfinished_name(self._session_id)}"
            torn_path = self._logs.path(self._stem, TORN_SUFFIX)
            compress_log(file, layout, new_path, torn_path, self._logs.lock_wait_s)
            # It may be deleted again by now.
            with (
                suppress(FileNotFoundError),
                open_log(file.path, self._session_id, self._logs.meter) as archive,
            ):
                self._logs.survey(archive)

    def _append(
        self, file: LogFile, layout: Layout, admission: Admission, lines: list[bytes]
    ) -> None:
        torn_path = self._logs.path(self._stem, TORN_SUFFIX)
        end = append_lines(file, layout, lines, torn_path)
        if not is_at(file.fd, file.path):
            # By a tool that knows of no lock. What was written is in no log any more.
            raise StoreUnavailable(file.path, "was replaced while it was written to")
        status, last = file.status(), lines[-1]
        if status.st_size != end:
            return  # somebody wrote without the lock: the next one looks for itself
        seen = last[-MARK_BYTES:]
        grown = evolve(
            layout,
            status=stamp_of(status),
            settled=False,
            start=0,
            last_offset=end - len(last),
            last_seq=admission.length - 1,
            end=end,
            length=admission.length,
            last_time=admission.events[-1].time,
            mark=(end - len(seen), len(seen), hash(seen)),
        )
        self._logs.remember(self._stem, grown)
        self._logs.folds.extend(layout.identity, admission.start, admission.steps)
        self._logs.scanned(layout, admission.length, end)
