"""
Mending logs, one at a time, under its writer's lock.

What a crash leaves, by the moment at which it falls: while the mended log is written,
``.STEM.new`` beside the log as it was, which the next repair sets aside; from then on the
backup, which is the old file under another name; and then the mended log in its place, all
at once. A torn tail is kept in ``STEM.torn`` before it is cut off.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Final

from attrs import evolve

from eventlog.errors import CorruptLog, EventLogError, StoreReadOnly
from eventlog.findings import Change, Finding

from .archived import ARCHIVE_SUFFIX
from .judging import Edit, Judgement, judge
from .locking import PathLock
from .logs import Logs
from .medium import LogFile, sync_file, sync_folder
from .names import LOG_SUFFIX, TORN_SUFFIX, backup_name, id_of
from .refusals import refusal
from .verifying import UNFINISHED, verified
from .writing import claimed, is_at, write_all

__all__ = ["repaired"]

COPY_BYTES: Final = 1 << 20
_NO_LINKS: Final = frozenset(
    {errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK}
)


def repaired(logs: Logs, dry_run: bool) -> list[Finding]:
    """
    Mend every log of the folder that can be mended; with *dry_run* only tell how.

    Raises:
        StoreBusy: A writer holds one of them. Those before it are mended.

        StoreFull, StoreReadOnly, StoreUnavailable: The medium refuses. The log at which
            it did is as it was.
    """
    found = list(verified(logs))
    if dry_run:
        return [_with_target(logs, finding) for finding in found]
    results: list[Finding] = []
    # A log that is mended tells its findings anew, those for a person included.
    to_mend = {finding.path for finding in found if finding.change is not None}
    mended: set[str] = set()
    for finding in found:
        path = finding.path
        if path is None or path not in to_mend:
            results.append(finding)
        elif not path.endswith(LOG_SUFFIX) or finding.kind == "leftover":
            results += _tidied(logs, finding, path)
        elif path not in mended:
            mended.add(path)
            results += _mended(logs, path)
    return results


def _with_target(logs: Logs, finding: Finding) -> Finding:
    """Take back the renaming of a log whose right name is taken."""
    change = finding.change
    if change is None or change.target is None:
        return finding
    target = f"{logs.root}/{change.target}"
    if os.path.lexists(target):
        return evolve(finding, change=None, detail=f"{finding.detail}; that log is there, too")
    return evolve(finding, change=evolve(change, target=target))


def _mended(logs: Logs, path: str) -> list[Finding]:
    """Judge a log under its lock and mend it; returns its findings with what was done."""
    stem = os.path.basename(path)[: -len(LOG_SUFFIX)]
    with ExitStack() as held, _refusals(path):
        held.enter_context(PathLock(path, logs.lock_wait_s))
        try:
            file = LogFile(path, id_of(stem), logs.meter, writing=True)
        except FileNotFoundError:
            return []
        except PermissionError as error:
            raise StoreReadOnly(path) from error
        file.lock(logs.lock_wait_s)  # closes it where that fails
        held.callback(file.close)
        if not is_at(file.fd, path):
            return []  # deleted meanwhile
        judgement = judge(file, file.status().st_size)
        findings = [_with_target(logs, finding) for finding in judgement.findings]
        logs.forget(stem)
        backup: str | None = None
        if any(finding.kind == "empty" for finding in findings):
            backup = _set_aside(logs, path, stem)
        elif judgement.edits:
            backup = _rewrite(logs, file, stem, judgement)
        elif judgement.is_torn and any(f.kind == "torn" and f.change for f in findings):
            backup = _cut(logs, file, stem, judgement)
        done = [_done(finding, backup) for finding in findings]
        for finding in done:
            if finding.change is not None and finding.change.target is not None:
                _rename(path, finding.change.target)
        return done


def _done(finding: Finding, backup: str | None) -> Finding:
    if finding.change is None or finding.change.action == "rename":
        return finding
    return evolve(finding, change=evolve(finding.change, backup=backup))


def _rewrite(logs: Logs, file: LogFile, stem: str, judgement: Judgement) -> str:
    """Write the mended log, keep the old one as the backup, and put the new in its place."""
    with claimed(f"{logs.root}/.{stem}{UNFINISHED}", logs.lock_wait_s) as fd:
        new_path = f"{logs.root}/.{stem}{UNFINISHED}"
        try:
            for block in _edited(file, judgement.edits, judgement.end):
                write_all(fd, block)
            sync_file(fd)
            backup = _back_up(logs, file.path, stem)
            sync_folder(logs.root)
            os.rename(new_path, file.path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(new_path)
            raise
        sync_folder(logs.root)
    return backup


def _edited(file: LogFile, edits: Sequence[Edit], end: int) -> Iterator[bytes]:
    """Yield the first *end* bytes of *file* with *edits* made to them."""
    position = 0
    for edit in (*edits, Edit(end, 0, b"")):
        while position < edit.offset:
            block = file.pread(min(COPY_BYTES, edit.offset - position), position)
            if not block:
                raise file.corrupt("truncated", offset=position, detail="shrank while it was read")
            yield block
            position += len(block)
        yield edit.inserted
        position += edit.removed


def _back_up(logs: Logs, path: str, stem: str) -> str:
    """Give the log a second name, or copy it where the file system has no links."""
    number = 1
    while True:
        backup = f"{logs.root}/{backup_name(stem, number)}"
        number += 1
        try:
            os.link(path, backup)
            return backup
        except FileExistsError:
            continue
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
        if os.path.lexists(backup):
            continue
        shutil.copyfile(path, backup, follow_symlinks=False)
        with open(backup, "rb") as copy:
            sync_file(copy.fileno())
        return backup


def _cut(logs: Logs, file: LogFile, stem: str, judgement: Judgement) -> str:
    """Keep what stands behind the last whole line, and cut it off."""
    kept = logs.path(stem, TORN_SUFFIX)
    flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(kept, flags, 0o600)
    try:
        before = os.fstat(fd).st_size
        try:
            for offset in range(judgement.end, judgement.size, COPY_BYTES):
                write_all(fd, file.pread(min(COPY_BYTES, judgement.size - offset), offset))
            write_all(fd, b"\n")
            sync_file(fd)
            sync_folder(logs.root)
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(fd, before)
            raise
    finally:
        os.close(fd)
    os.ftruncate(file.fd, judgement.end)
    sync_file(file.fd)
    return kept


def _set_aside(logs: Logs, path: str, stem: str) -> str:
    """Move a file to the place of a backup."""
    number = 1
    while os.path.lexists(backup := f"{logs.root}/{backup_name(stem, number)}"):
        number += 1
    os.rename(path, backup)
    sync_folder(logs.root)
    return backup


def _rename(path: str, target: str) -> None:
    try:
        os.link(path, target)
        os.unlink(path)
    except OSError as error:
        if error.errno not in _NO_LINKS or os.path.lexists(target):
            raise
        os.rename(path, target)
    sync_folder(os.path.dirname(path))


def _tidied(logs: Logs, finding: Finding, path: str) -> list[Finding]:
    """
    Finish what a crash left, a deletion or a creation that did not come to its end, where
    that is so still: a log may have begun anew in its place, or be under way.
    """
    assert finding.change is not None
    name = os.path.basename(path)
    if name.endswith(UNFINISHED):
        stem = name[1 : -len(UNFINISHED)]
    else:
        stem = name.removesuffix(ARCHIVE_SUFFIX)[: -len(LOG_SUFFIX)]
    log = logs.path(stem, LOG_SUFFIX)
    with _refusals(path), contextlib.suppress(FileNotFoundError), ExitStack() as held:
        held.enter_context(PathLock(log, logs.lock_wait_s))
        try:
            if name.endswith(ARCHIVE_SUFFIX) and finding.change.action != "delete":
                # Whoever archives holds the lock of the log beside which this was left.
                counting = LogFile(log, id_of(stem), logs.meter, writing=True)
                counting.lock(logs.lock_wait_s)
                held.callback(counting.close)
                if not is_at(counting.fd, log):
                    return []
            file = LogFile(path, id_of(stem), logs.meter, writing=True)
        except CorruptLog:
            return [evolve(finding, change=None)]  # no file at all: for a person
        file.lock(logs.lock_wait_s)  # closes it where that fails
        held.callback(file.close)
        if not is_at(file.fd, path):
            return []
        if finding.change.action == "delete":
            if not logs.is_deleted(stem):
                return []
        elif name.endswith(UNFINISHED) and is_at(file.fd, log):
            # The log under a second name: appends to it would change a backup.
            finding = evolve(finding, change=Change("delete"))
        assert finding.change is not None
        if finding.change.action == "delete":
            os.unlink(path)
            sync_folder(logs.root)
            return [finding]
        backup = _set_aside(logs, path, stem)
        return [evolve(finding, change=evolve(finding.change, backup=backup))]
    return []


@contextlib.contextmanager
def _refusals(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, (EventLogError, FileNotFoundError)):
            raise
        raise refusal(error, path, writing=True) from error
