"""
Verifying a folder of logs: reads only, and waits for nobody.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

from eventlog.errors import EventLogError
from eventlog.findings import Change, Finding

from .archived import ARCHIVE_SUFFIX, open_log
from .catalogue import fault_of, list_folder
from .judging import Judgement, judge
from .locking import owner_of
from .logs import Logs
from .medium import LogFile
from .names import LOG_SUFFIX, id_of
from .refusals import refusal
from .writing import is_at

__all__ = ["UNFINISHED", "is_being_written", "verified"]

UNFINISHED: Final = ".new"


def verified(logs: Logs) -> Iterator[Finding]:
    """
    Yield what is wrong with the folder, and then with each log, by name.

    Raises:
        StoreUnavailable: The folder cannot be read.
    """
    listing = list_folder(logs.root, logs.meter)
    for stray in listing.strays:
        yield Finding(stray.kind, stray.session_id, stray.path, detail=stray.detail)
    yield from _leftovers(logs)
    for stem in sorted(listing.tombstones):
        for suffix in (LOG_SUFFIX, LOG_SUFFIX + ARCHIVE_SUFFIX):
            path = logs.path(stem, suffix)
            if _are_left(logs, path, deleted=stem):
                detail = "the session is deleted, but its log is still there"
                change = Change("delete")
                yield Finding("leftover", id_of(stem), path, detail=detail, change=change)
    for stem in sorted(listing.archives.keys() & listing.logs.keys()):
        archive = listing.archives[stem]
        log = listing.logs[stem]
        if log is not archive and _are_left(logs, log.path, archive.path):
            detail = "the log is there as well, and counts"
            change = Change("set-aside")
            yield Finding("leftover", id_of(stem), archive.path, detail=detail, change=change)
    for stem in sorted(listing.logs):
        yield from _verified_log(logs, stem, listing.logs[stem].path)


def _are_left(logs: Logs, *paths: str, deleted: str | None = None) -> bool:
    """
    Tell whether files are there at once, and nobody is at work on one of them just now.

    Args:
        deleted: The session that has to be deleted while they are there.
    """
    try:
        with ExitStack() as stack:
            files = [stack.enter_context(LogFile(path, None, logs.meter)) for path in paths]
            # Looked at in this order: whoever deletes, or was at work, may come to its end.
            return (
                (deleted is None or logs.is_deleted(deleted))
                and all(owner_of(file.fd) is None for file in files)
                and all(is_at(file.fd, file.path) for file in files)
            )
    except FileNotFoundError:
        return False
    except (EventLogError, OSError):
        return deleted is None or logs.is_deleted(deleted)


def _verified_log(logs: Logs, stem: str, path: str) -> Iterator[Finding]:
    try:
        file = open_log(path, id_of(stem), logs.meter)
    except FileNotFoundError:
        return
    except (EventLogError, OSError) as error:
        fault = fault_of(error, stem, path)
        yield Finding(fault.kind, fault.session_id, fault.path, detail=fault.detail)
        return
    with file:
        try:
            judgement = judge(file, file.status().st_size)
        except EventLogError as error:
            fault = fault_of(error, stem, path)
            yield Finding(fault.kind, fault.session_id, fault.path, detail=fault.detail)
            return
        yield from found_in(file, judgement)


def found_in(file: LogFile, judgement: Judgement) -> list[Finding]:
    """Return the findings of a log, without the end that somebody is writing just now."""
    if not judgement.is_torn or not is_being_written(file, judgement.size):
        return judgement.findings
    return [finding for finding in judgement.findings if finding.kind != "torn"]


def is_being_written(file: LogFile, size: int) -> bool:
    """Tell whether a writer holds the log, or wrote since it had *size* bytes."""
    return owner_of(file.fd) is not None or file.status().st_size != size


def _leftovers(logs: Logs) -> Iterator[Finding]:
    """Yield the files of creations and repairs that a crash cut short."""
    try:
        names = sorted(os.listdir(logs.root))
    except FileNotFoundError:
        return
    except OSError as error:
        raise refusal(error, logs.root) from error
    for name in names:
        if not (name.startswith(".") and name.endswith(UNFINISHED)):
            continue
        path = f"{logs.root}/{name}"
        stem = name[1 : -len(UNFINISHED)]
        try:
            with LogFile(path, id_of(stem), logs.meter) as file:
                if owner_of(file.fd) is not None or not is_at(file.fd, path):
                    continue  # somebody is creating it, or was just now
                size = file.status().st_size
        except (EventLogError, OSError):
            continue
        if not size:
            continue  # nothing is in it, and the next creation takes it away
        yield Finding(
            "leftover",
            id_of(stem),
            path,
            size_bytes=size,
            detail="left by a creation or a repair that did not end",
            change=Change("set-aside"),
        )
