"""
Where an index is kept: a file in the user's cache folder, named after its store.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Final

from eventlog.store import EventStore

__all__ = ["FileLock", "cache_folder", "index_path"]

LOCK_POLL_S: Final = 0.02


def cache_folder() -> Path:
    """
    Return the folder of search indexes; it need not exist.

    ``EVENTLOG_CACHE`` where it is set; else below the system's place for caches:
    ``XDG_CACHE_HOME`` or ``~/.cache``, ``~/Library/Caches`` on macOS, ``LOCALAPPDATA`` on
    Windows.

    Raises:
        RuntimeError: There is no home folder to be found.
    """
    given = os.environ.get("EVENTLOG_CACHE")
    if given:
        return Path(given)
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        base = Path(local) if local else Path.home() / "AppData" / "Local"
        return base / "eventlog" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "eventlog"
    given = os.environ.get("XDG_CACHE_HOME", "")
    # The specification has relative paths ignored.
    base = Path(given) if os.path.isabs(given) else Path.home() / ".cache"
    return base / "eventlog"


def index_path(store: EventStore, identity: str) -> Path | None:
    """
    Return the file of *store*'s index, None where it is to be kept in memory: the store
    itself is not durable, or there is no folder for it.

    Args:
        identity: What the index depends on besides; another one is another file.
    """
    if not store.capabilities.durable:
        return None
    place = store.location
    if "://" not in place:
        place = os.path.realpath(place)
    try:
        folder = cache_folder()
    except RuntimeError:
        return None
    return folder / f"search-{_digest(place)}-{_digest(identity)}.sqlite3"


def make_private(path: Path) -> bool:
    """
    Make an empty file at *path*, and its folder, for the user alone; leave alone what is
    there. Tell whether it can be written.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError:
        return False
    return True


class FileLock:
    """
    A lock that processes hold on a file, gone with the process. Also between the threads
    of one process, as each :meth:`held` opens the file anew.

    Args:
        path: The file; an empty one, made when first locked and never removed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def held(self, *, wait_s: float) -> Iterator[bool]:
        """
        Hold the lock, or go on without it.

        Args:
            wait_s: How long to wait for another holder, seconds.

        Yields:
            Whether it is held.

        Raises:
            OSError: The file cannot be opened.
        """
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            deadline = time.monotonic() + wait_s
            while not (held := _try_lock(descriptor)) and time.monotonic() < deadline:
                time.sleep(LOCK_POLL_S)
            try:
                yield held
            finally:
                if held:
                    # A forked child has the descriptor too, and would keep the lock.
                    _unlock(descriptor)
        finally:
            os.close(descriptor)


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _digest(text: str) -> str:
    return blake2b(text.encode(errors="surrogateescape"), digest_size=9).hexdigest()
