"""
Opening the files of an environment.
"""

from __future__ import annotations

import os
import stat
from time import monotonic, sleep
from typing import Final

import lmdb
from attrs import evolve, field, frozen

from eventlog.errors import StoreUnavailable, UnsupportedFormat

from .layout import DATABASES, LAYOUT

__all__ = [
    "MAP_BYTES",
    "Databases",
    "Handle",
    "Settings",
    "has_lock_file",
    "is_there",
    "lay_out",
    "make_folder",
    "open_handle",
]

# Address space, not disk or memory: the file is as long as its data. On Windows it is
# as long as the map.
MAP_BYTES: Final = 2**40 if os.name == "posix" else 2**28
MAP_BYTES_LEAST: Final = 2**16
DATA_FILE: Final = "data.mdb"
LOCK_FILE: Final = "lock.mdb"
# Two meta pages of 4 KiB or more. A file that is being created is shorter for a moment.
DATA_BYTES_LEAST: Final = 8192
CREATION_WAIT_S: Final = 0.2


@frozen
class Settings:
    """
    How an environment is opened.

    Attributes:
        path: Its folder, symbolic links resolved.

        map_bytes: The address space to reserve at first.

        map_bytes_max: The address space to grow to at most; None is without bound.

        readers_max: How many reads may run at once, over all processes. Those who
            create the environment decide.
    """

    path: str
    map_bytes: int
    map_bytes_max: int | None
    readers_max: int


@frozen
class Databases:
    """The named databases; see :mod:`~.layout`."""

    about: lmdb._Database
    sessions: lmdb._Database
    newest: lmdb._Database
    children: lmdb._Database
    events: lmdb._Database
    rows: lmdb._Database
    feed: lmdb._Database
    tombstones: lmdb._Database
    remains: lmdb._Database


@frozen
class Handle:
    """
    An open environment.

    Attributes:
        path: Its folder.

        file: Which file its data is in: device and inode.

        env: LMDB's own.

        databases: Its databases, None where nothing was ever stored.

        writable: Whether it was opened for writing.

        locked: Whether its reads are known to writers of other processes. Without, a
            writer may reuse a page under a read.

        map_bytes: The address space it has.

        store: Which store this is: 16 random bytes, empty where nothing was ever stored.

        is_settled: Whether nothing was missing that may come later: databases and locks.
    """

    path: str
    file: tuple[int, int]
    env: lmdb.Environment
    databases: Databases | None
    writable: bool
    locked: bool
    map_bytes: int
    store: bytes
    is_settled: bool = field(init=False)

    @is_settled.default
    def _settled(self) -> bool:
        return self.databases is not None and self.locked

    @property
    def may_be_outdated(self) -> bool:
        """Whether another process may have made what was missing when this was opened."""
        if self.databases is None:
            return True
        return not self.locked and has_lock_file(self.path)

    @property
    def is_in_place(self) -> bool:
        """
        Whether the file that is open is the one at the path still, and was not removed,
        moved or replaced. Null case: where one may not look, it is.

        Cost: one look at the file system, 1 µs.
        """
        try:
            return _file_at(self.path) == self.file
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True


def _file_at(path: str) -> tuple[int, int]:
    status = os.lstat(os.path.join(path, DATA_FILE))
    return status.st_dev, status.st_ino


def has_lock_file(path: str) -> bool:
    """Tell whether the environment has a lock file that this process can use."""
    return os.access(os.path.join(path, LOCK_FILE), os.R_OK | os.W_OK)


def is_there(path: str) -> bool:
    """
    Tell whether anything was ever stored at *path*. Nothing is opened or created.

    Raises:
        StoreUnavailable: That cannot be found out, or something else is there.
    """
    data = os.path.join(path, DATA_FILE)
    until = monotonic() + CREATION_WAIT_S
    while True:
        try:
            status = os.lstat(data)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StoreUnavailable(path, error.strerror or str(error)) from error
        if not stat.S_ISREG(status.st_mode):
            raise _no_file(path, DATA_FILE)
        if status.st_size == 0:
            return False
        if status.st_size >= DATA_BYTES_LEAST or monotonic() > until:
            return True
        sleep(0.001)


def _check_files(path: str) -> None:
    """
    Refuse what LMDB would follow or wait for: the store's files lie in its folder.

    Raises:
        StoreUnavailable: A link, or something else than a file, is in the place of one.
    """
    for name in (DATA_FILE, LOCK_FILE):
        try:
            mode = os.lstat(os.path.join(path, name)).st_mode
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(mode):
            raise _no_file(path, name)


def _no_file(path: str, name: str) -> StoreUnavailable:
    return StoreUnavailable(path, f"{name} is a link or something else, and no file")


def make_folder(path: str) -> None:
    """
    Make the folder, for its owner only, and those above it. Null case: it is there.

    LMDB makes the data in its file durable, but not the file's name, nor the folder's.
    """
    made = []
    folder = path
    while not os.path.isdir(folder) and folder != os.path.dirname(folder):
        made.append(folder)
        folder = os.path.dirname(folder)
    os.makedirs(path, mode=0o700, exist_ok=True)
    for folder in made:
        _sync_folder(os.path.dirname(folder))


def _sync_folder(path: str) -> None:
    if os.name == "posix":  # elsewhere folders cannot be opened
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def open_handle(settings: Settings, *, map_bytes: int, writing: bool) -> Handle:
    """
    Open the environment, with less address space where the process may not have so much.

    Args:
        map_bytes: The address space to try first.

        writing: Open for writing, and create what is missing in the folder. Otherwise
            nothing is created or changed, and the environment must be there.

    Raises:
        StoreUnavailable: It cannot be opened, or is not one of ours.

        UnsupportedFormat: It has another layout than this release knows.

        lmdb.Error, OSError: The system refused, as on a read-only medium.
    """
    path = settings.path
    _check_files(path)
    locked = writing or has_lock_file(path)
    while True:
        env = _open_env(settings, map_bytes, writing, locked)
        try:
            # Readers of killed processes would keep old pages from being reused.
            if locked:
                env.reader_check()
            databases, store = _open_databases(env, path)
        except lmdb.MapResizedError:
            # Another process wrote beyond this map between the two steps.
            env.close()
            map_bytes = max(2 * map_bytes, 2 * _data_bytes(path))
            continue
        except BaseException:
            env.close()
            raise
        size = env.info()["map_size"]
        return Handle(path, _file_at(path), env, databases, writing, locked, size, store)


def _open_env(settings: Settings, map_bytes: int, writing: bool, locked: bool) -> lmdb.Environment:
    size, is_limited = max(map_bytes, MAP_BYTES_LEAST), False
    while True:
        least = max(_data_bytes(settings.path), MAP_BYTES_LEAST)
        try:
            env = lmdb.Environment(
                # In bytes, since lmdb knows no path that is not UTF-8.
                os.fsencode(settings.path),
                map_size=size,
                readonly=not writing,
                create=writing,
                mode=0o600,
                max_dbs=len(DATABASES),
                max_readers=settings.readers_max,
                max_spare_txns=0,  # a forked child would free the parent's reader slot
                lock=locked,
                lib_version=0,
            )
        except (lmdb.MemoryError, MemoryError) as error:
            if size <= least:
                raise StoreUnavailable(settings.path, "not enough address space") from error
            size, is_limited = max(size // 2, least), True
            continue
        except (lmdb.InvalidError, lmdb.VersionMismatchError) as error:
            raise StoreUnavailable(settings.path, f"is no LMDB environment: {error}") from error
        if not is_limited or size <= least:
            return env
        # Whoever took all that is left would have its own process die for want of memory.
        env.close()
        size, is_limited = max(size // 2, least), False


def _data_bytes(path: str) -> int:
    try:
        return os.stat(os.path.join(path, DATA_FILE)).st_size
    except OSError:
        return 0


def _open_databases(env: lmdb.Environment, path: str) -> tuple[Databases | None, bytes]:
    """Open the databases in *env*, all or, where nothing was ever stored, none."""
    was_empty = not env.stat()["entries"]
    opened = {}
    for name in DATABASES:
        try:
            # Without a transaction of ours: what one that only reads has opened, lmdb
            # closes with it.
            opened[name] = env.open_db(name.encode(), create=False)
        except lmdb.NotFoundError:
            # One commit makes them all, so either all are there or something else is.
            if opened or not was_empty:
                raise _foreign(path) from None
            return None, b""
        except lmdb.IncompatibleError as error:
            raise _foreign(path) from error
    databases = Databases(**opened)
    with env.begin() as transaction:
        layout = transaction.get(b"layout", db=databases.about)
        store = transaction.get(b"store", db=databases.about)
    if layout is None or store is None:
        raise _foreign(path)
    if layout != LAYOUT:
        raise UnsupportedFormat(layout.decode("latin-1"), [LAYOUT.decode()])
    return databases, store


def _foreign(path: str) -> StoreUnavailable:
    return StoreUnavailable(path, "is an LMDB environment of something else")


def lay_out(handle: Handle) -> Handle:
    """Make the databases in an empty environment, durably and all at once."""
    store = os.urandom(16)
    with handle.env.begin(write=True) as transaction:
        databases = Databases(
            **{
                name: handle.env.open_db(name.encode(), txn=transaction, create=True)
                for name in DATABASES
            }
        )
        transaction.put(b"layout", LAYOUT, db=databases.about)
        transaction.put(b"store", store, db=databases.about)
    _sync_folder(handle.path)
    return evolve(handle, databases=databases, store=store)
