"""
The folder of the logs: what its names say, and the headers in listing order.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from attrs import field, frozen
from sortedcontainers import SortedDict

from eventlog.errors import CorruptLog, EventLogError, StoreUnavailable
from eventlog.model import Fault, HeadKey, SessionHeader
from eventlog.snapshot import ScanMeter

from .archived import ARCHIVE_SUFFIX, open_log
from .layout import SETTLED_NS, HeaderFacts, read_header, stamp_of
from .names import BACKUP_SUFFIX, LOG_SUFFIX, TOMBSTONE_SUFFIX, TORN_SUFFIX, id_of
from .refusals import refusal

__all__ = ["Catalogue", "Listing", "fault_of", "list_folder"]


@frozen
class Listing:
    """
    The names in the folder.

    Attributes:
        logs: Stem → entry of every log that no tombstone hides, links and folders left out.

        archives: Those of them that are archived. Where a log is there as well, that counts.

        tombstones: Stems of deleted sessions.

        strays: What is no part of the store, as faults, by path. Names that begin with a
            dot are none, as file managers leave them.
    """

    logs: dict[str, os.DirEntry[str]] = field(factory=dict)
    archives: dict[str, os.DirEntry[str]] = field(factory=dict)
    tombstones: set[str] = field(factory=set)
    strays: list[Fault] = field(factory=list)


def list_folder(root: str, meter: ScanMeter) -> Listing:
    """
    Read the names in *root*. Null case: a folder that is not there is empty.

    Cost: its names.

    Raises:
        StoreUnavailable: It cannot be read, or is no folder.
    """
    listing = Listing()
    try:
        with os.scandir(root) as entries:
            for entry in entries:
                meter.names += 1
                if not entry.name.startswith("."):
                    _place(listing, entry)
    except FileNotFoundError:
        return listing
    except OSError as error:
        raise refusal(error, root) from error
    for stem, entry in listing.archives.items():
        listing.logs.setdefault(stem, entry)
    for stem in listing.tombstones:
        listing.logs.pop(stem, None)
    listing.strays.sort(key=lambda fault: fault.path or "")
    return listing


def _place(listing: Listing, entry: os.DirEntry[str]) -> None:
    name = entry.name
    if name.endswith(TOMBSTONE_SUFFIX):
        listing.tombstones.add(name[: -len(TOMBSTONE_SUFFIX)])
    if entry.is_symlink():
        listing.strays.append(_stray(entry, "symlink", "links are not followed"))
    elif entry.is_dir(follow_symlinks=False):
        if os.access(entry.path, os.R_OK | os.X_OK):
            listing.strays.append(_stray(entry, "directory", "a log is a file in the folder"))
        else:
            listing.strays.append(_stray(entry, "denied", f"permission denied: {entry.path}"))
    elif not entry.is_file(follow_symlinks=False):
        listing.strays.append(_stray(entry, "special", "is no regular file"))
    elif name.endswith(LOG_SUFFIX):
        listing.logs[name[: -len(LOG_SUFFIX)]] = entry
    elif name.endswith(LOG_SUFFIX + ARCHIVE_SUFFIX):
        listing.archives[name[: -len(LOG_SUFFIX + ARCHIVE_SUFFIX)]] = entry
    elif not name.endswith((TOMBSTONE_SUFFIX, TORN_SUFFIX, BACKUP_SUFFIX)):
        listing.strays.append(_stray(entry, "stray", "is no part of the store"))


def _stray(entry: os.DirEntry[str], kind: str, detail: str) -> Fault:
    is_log = entry.name.endswith(LOG_SUFFIX)
    session_id = id_of(entry.name[: -len(LOG_SUFFIX)]) if is_log else None
    return Fault(session_id, entry.path, kind, detail)


def fault_of(error: EventLogError | OSError, stem: str, path: str) -> Fault:
    """Return the fault that *error* is, raised for the log *stem* at *path*."""
    session_id = id_of(stem)
    if isinstance(error, CorruptLog):
        return Fault(session_id, path, error.kind, error.detail or str(error))
    if isinstance(error, PermissionError):
        return Fault(session_id, path, "denied", f"permission denied: {path}")
    if isinstance(error, StoreUnavailable):
        return Fault(session_id, path, "unavailable", error.detail)
    return Fault(session_id, path, "unavailable", str(error))


class Catalogue:
    """
    The headers of a folder in the order of listings, remembered by name and inode.

    An inode is used again soon after its file is gone, and then a name and its inode may be
    those of another log. So where names came or went since the last look, the status of
    each log is compared too, and the header of one that changed is read again.

    Not thread-safe: the owner locks.
    """

    def __init__(self, root: str, meter: ScanMeter) -> None:
        self._root = root
        self._meter = meter
        self._facts: dict[str, HeaderFacts] = {}
        self._newest: SortedDict[tuple[int, str], str] = SortedDict()
        self._children: dict[str, SortedDict[tuple[int, str], str]] = {}
        # Size and times of each log when its header was last seen to be the one known.
        self._seen: dict[str, tuple[int, int, int]] = {}
        # Inode and modification time of the folder, once its names cannot change unseen.
        self._folder: tuple[int, int] | None = None
        # Logs whose header could not be read, with their paths, and what is no log.
        self._unread: dict[str, str] = {}
        self._strays: list[Fault] = []

    def facts(self, stem: str) -> HeaderFacts | None:
        """Return the remembered first line of a log, None where there is none."""
        return self._facts.get(stem)

    def refresh(self) -> list[Fault]:
        """
        Bring the headers up to date with the folder.

        Returns:
            What could not be read, by path.

        Cost: while the folder has not changed for some seconds, one probe, and a record
        for each log that could not be read. Else the folder's names, a status for each log,
        and a record for each that is new or changed.

        Raises:
            StoreUnavailable: The folder cannot be read.
        """
        folder = self._folder_now()
        self._meter.probes += 1
        if folder is None or folder != self._folder:
            self._list()
        self._folder = folder
        faults = [
            fault
            for stem, path in list(self._unread.items())
            if (fault := self.read(stem, path)) is not None
        ]
        return sorted((*faults, *self._strays), key=lambda fault: fault.path or "")

    def _list(self) -> None:
        """Look at the names; what is new or changed is left to be read."""
        listing = list_folder(self._root, self._meter)
        for stem in self._facts.keys() - listing.logs.keys():
            self.drop(stem)
        self._strays = listing.strays
        self._unread = {
            stem: entry.path
            for stem, entry in listing.logs.items()
            if not self._was_seen(stem, entry)
        }

    def _was_seen(self, stem: str, entry: os.DirEntry[str]) -> bool:
        known = self._facts.get(stem)
        if known is None or known.inode != entry.inode():
            return False
        seen, now = self._seen.get(stem), _stamp_at(entry)
        if seen is not None and now is not None and entry.name.endswith(ARCHIVE_SUFFIX):
            return seen[1:] == now[1:]  # the size is that of the log, not of the archive
        return seen == now

    def _folder_now(self) -> tuple[int, int] | None:
        """Return what tells whether names came or went; None where that is not sure yet."""
        try:
            status = os.stat(self._root)
        except OSError:
            return None
        if time.time_ns() - status.st_mtime_ns <= SETTLED_NS:
            return None
        return status.st_ino, status.st_mtime_ns

    def read(self, stem: str, path: str) -> Fault | None:
        """Read one header anew. Returns what is wrong with it; None also where it is gone."""
        try:
            with open_log(path, id_of(stem), self._meter) as file:
                status = file.status()
                self.put(stem, read_header(file, status), stamp_of(status))
                self._meter.records += 1
        except FileNotFoundError:
            self.drop(stem)
        except (EventLogError, OSError) as error:
            return self.lose(stem, path, error)
        return None

    def lose(self, stem: str, path: str, error: EventLogError | OSError) -> Fault:
        """Forget a log that cannot be read; the next look tries again. Returns the fault."""
        self.drop(stem)
        self._unread[stem] = path
        return fault_of(error, stem, path)

    def put(self, stem: str, facts: HeaderFacts, stamp: tuple[int, int, int]) -> None:
        """Remember the first line of a log, and its status when that was seen."""
        known = self._facts.get(stem)
        if known != facts:
            self.drop(stem)
            self._facts[stem] = facts
            for order in self._orders(facts.header):
                order[HeadKey.from_header(facts.header).sort_key] = stem
        self._seen[stem] = stamp
        self._unread.pop(stem, None)

    def drop(self, stem: str) -> None:
        """Forget a log. Null case: it is not known."""
        self._seen.pop(stem, None)
        self._unread.pop(stem, None)
        facts = self._facts.pop(stem, None)
        if facts is not None:
            for order in self._orders(facts.header):
                order.pop(HeadKey.from_header(facts.header).sort_key, None)

    def walk(self, after: HeadKey | None, parent_id: str | None) -> Iterator[str]:
        """Yield the stems behind *after* in listing order; only the children of a parent given."""
        order = self._newest if parent_id is None else self._children.get(parent_id)
        if order is None:
            return
        # Looked up anew at each step, since the one who walks may put and drop.
        key = None if after is None else after.sort_key
        while (key := next(order.irange(key, None, (False, True)), None)) is not None:
            yield order[key]

    def _orders(self, header: SessionHeader) -> list[SortedDict[tuple[int, str], str]]:
        orders = [self._newest]
        if header.parent_session is not None:
            orders.append(self._children.setdefault(header.parent_session, SortedDict()))
        return orders


def _stamp_at(entry: os.DirEntry[str]) -> tuple[int, int, int] | None:
    try:
        return stamp_of(entry.stat(follow_symlinks=False))
    except OSError:
        return None  # gone since it was listed: reading it says so
