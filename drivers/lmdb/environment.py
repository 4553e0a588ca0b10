"""
An LMDB environment with its reads, its writer, and its growth.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock, RLock, get_ident
from typing import TypeVar

import lmdb

from eventlog.errors import (
    EventLogError,
    StoreClosed,
    StoreFull,
    StoreUnavailable,
)

from .failures import translated
from .gate import ReadGate
from .handle import Databases, Handle, Settings, is_there, lay_out, make_folder, open_handle
from .layout import Damaged
from .reading import Reading
from .writer_lock import LOCK_UN, WriterLock, flock

__all__ = ["Environment"]

T = TypeVar("T")
FORK_WAIT_S = 5.0


class Environment:
    """
    The files at one path.

    LMDB forbids to open them twice in a process; :mod:`~.sharing` gives every store the
    same object. They are opened when something is there to read, or at the first write.

    Locks are taken in this order: :attr:`writing`, :attr:`writer`, the writer lock over
    processes, the map's lock, the gate. A transaction lives under the map's lock or inside
    the gate, so whoever holds the one and has closed the other may abort, unmap and fork.

    Attributes:
        path: The folder.

        look_at: When the next read looks whether the files are in place, in monotonic
            seconds.

        writer: Held by the thread that writes.

        writing: Held with it, before it: tells a thread that it is the one that writes.
            What a signal handler does in the midst of that must not wait for it.
    """

    def __init__(self, settings: Settings) -> None:
        self.path = settings.path
        self._settings = settings
        self._map_bytes = settings.map_bytes
        self.look_at = 0.0
        self._is_closed = False
        self._handle: Handle | None = None
        self._begin_process()

    def _begin_process(self) -> None:
        self.writer = Lock()
        self.writing = RLock()
        self._pid = os.getpid()
        self._writer_lock = WriterLock(self.path)
        self._map_lock = Lock()
        self._map_owner: int | None = None
        self._gate = ReadGate()

    # Reads

    def reading(self) -> Reading:
        """Return a context manager: a read transaction that sees the latest commit."""
        return Reading(self)

    def is_there(self) -> bool:
        """Tell whether anything was ever stored, without opening it."""
        return self._handle is not None or is_there(self.path)

    @property
    def reads_are_seen(self) -> bool:
        """Whether writers of other processes know of the reads of this one."""
        return self._handle is None or self._handle.locked

    # Writes

    def write(self, body: Callable[[lmdb.Transaction[bytes], Databases], T], *, wait_s: float) -> T:
        """
        Run *body* in a write transaction and commit it durably. Hold :attr:`writer`.

        Where the map is full, what *body* did is undone, the map grows, and *body* runs
        again.

        Args:
            wait_s: How long to wait for another process.

        Raises:
            StoreBusy: Another process has been writing for *wait_s*.

            StoreFull: The medium, or the address space allowed, has no room.

            StoreReadOnly: The medium refuses to be written to.

            StoreUnavailable: It fails, or its files were removed or replaced. Nothing was
                stored.
        """
        self._check_process()
        lock = self._writer_lock
        try:
            self._acquire(lock, wait_s)
            return self._transact(body)
        finally:
            if (descriptor := lock.descriptor) is not None:
                flock(descriptor, LOCK_UN)

    @contextmanager
    def held(self, *, wait_s: float) -> Iterator[None]:
        """
        Keep every other process from writing. Hold :attr:`writer`.

        Raises:
            StoreBusy: Another process has been writing for *wait_s*.
        """
        self._check_process()
        lock = self._writer_lock
        try:
            self._acquire(lock, wait_s)
            yield
        finally:
            if (descriptor := lock.descriptor) is not None:
                flock(descriptor, LOCK_UN)

    def _acquire(self, lock: WriterLock, wait_s: float) -> None:
        try:
            if self._handle is None:
                make_folder(self.path)
            lock.acquire(wait_s=wait_s)
        except EventLogError:
            raise
        except OSError as error:
            raise translated(error, self.path, writing=True) from error

    def _transact(self, body: Callable[[lmdb.Transaction[bytes], Databases], T]) -> T:
        while True:
            with self._map_lock:
                self._map_owner = get_ident()
                try:
                    transaction, databases = self._begin_writing()
                    try:
                        result = body(transaction, databases)
                        # Also where nothing was put: a commit waits for no read, an
                        # abort does.
                        transaction.commit()
                    except BaseException:
                        self._abort(transaction)
                        raise
                    self._check_place()
                    return result
                except lmdb.MapFullError:
                    self._grow()
                except lmdb.MapResizedError:
                    self._reopen(2 * self._map_bytes)
                except EventLogError:
                    raise
                except Damaged as damage:
                    raise translated(damage, self.path, writing=True) from damage
                except (lmdb.Error, OSError) as error:
                    # After a failed write or sync, what is in memory is not to be trusted.
                    self._alone(self._discard_handle)
                    raise translated(error, self.path, writing=True) from error
                finally:
                    self._map_owner = None

    def _check_place(self) -> None:
        """
        Refuse what was committed to files that nobody finds at the path any more. The next
        use opens what is there.
        """
        handle = self._handle
        if handle is not None and not handle.is_in_place:
            self._alone(self._discard_handle)
            self._writer_lock.forget()  # the folder may be another one, too
            raise StoreUnavailable(self.path, "was removed or replaced while it was open")

    def _begin_writing(self) -> tuple[lmdb.Transaction[bytes], Databases]:
        handle = self._handle
        if handle is None or not handle.writable or handle.databases is None:
            self._check_open()
            handle = self._alone(self._open_for_writing)
        assert handle.databases is not None
        return handle.env.begin(write=True), handle.databases

    def _open_for_writing(self) -> Handle:
        self._discard_handle()
        self._handle = self._opened(writing=True)
        if self._handle.databases is None:
            self._handle = lay_out(self._handle)
        return self._handle

    def _abort(self, transaction: lmdb.Transaction[bytes]) -> None:
        # A forked child that gets here has no business with its parent's transaction.
        if os.getpid() == self._pid:
            with suppress(lmdb.Error):
                self._alone(transaction.abort)

    # Size

    def _grow(self) -> None:
        """
        Make the map larger.

        Raises:
            StoreFull: It may not grow, or the process has no address space left.
        """
        size = self._map_bytes
        limit = self._settings.map_bytes_max
        for wanted in (2 * size, size + size // 2, size + size // 4):
            self._reopen(wanted if limit is None else min(wanted, limit))
            if self._map_bytes > size:
                return
        raise StoreFull(self.path)

    def follow_growth(self, seen: Handle) -> None:
        """Make room for what another process wrote, unless a thread has since *seen*."""
        with self._map_lock:
            if self._handle is seen:
                self._reopen(2 * self._map_bytes)

    def _reopen(self, map_bytes: int) -> None:
        def reopen() -> None:
            writing = self._handle is not None and self._handle.writable
            self._discard_handle()
            self._map_bytes = map_bytes
            self._handle = self._opened(writing=writing)

        self._alone(reopen)

    # Opening and closing

    def look_again(self, seen: Handle | None) -> bool:
        """
        Open what is stored, unless another thread has since *seen*.

        Returns:
            Whether there is anything.

        Raises:
            StoreUnavailable: It cannot be opened.
        """
        self._check_open()

        def look() -> bool:
            if self._handle is seen:
                self._discard_handle()
                if is_there(self.path):
                    self._handle = self._opened(writing=False)
            return self._handle is not None

        with self._map_lock:
            return self._alone(look)

    def close(self) -> None:
        """Close the files, after the transactions that run."""
        with self._map_lock:
            self._is_closed = True
            self._alone(self._discard_handle)
        self._writer_lock.forget()

    def _alone(self, act: Callable[[], T]) -> T:
        """Do what no read may see, under the map's lock."""
        token = object()
        try:
            self._gate.close(token)
            return act()
        finally:
            self._gate.closers.discard(token)
            self._gate.wake()

    def _opened(self, *, writing: bool) -> Handle:
        try:
            handle = open_handle(self._settings, map_bytes=self._map_bytes, writing=writing)
        except (EventLogError, lmdb.MapFullError):
            raise
        except (lmdb.Error, OSError) as error:
            raise translated(error, self.path, writing=writing) from error
        self._map_bytes = handle.map_bytes
        return handle

    def _discard_handle(self) -> None:
        if self._handle is not None:
            self._handle.env.close()
            self._handle = None

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreClosed(self.path)

    # Forks

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise StoreUnavailable(self.path, "the process was forked without Python's knowledge")

    def before_fork(self) -> None:
        """Wait for the transactions that run, so that the child has none half done."""
        # A fork inside a transaction, by the thread that runs it, would wait for itself.
        wait_s = 0.0 if self._map_owner == get_ident() else FORK_WAIT_S
        self._is_held = self._map_lock.acquire(timeout=wait_s)
        self._is_quiet = self._gate.close(self, wait_s=wait_s) and self._is_held

    def after_fork_in_parent(self) -> None:
        """Go on as before."""
        self._gate.closers.discard(self)
        self._gate.wake()
        if self._is_held:
            self._map_lock.release()

    def after_fork_in_child(self) -> None:
        """
        Let go of what is the parent's; the next use opens the files anew.

        Closing touches nothing that is shared with the parent, as long as no transaction
        is open. Otherwise the parent's handle stays, and each use of the store in the
        child is :class:`~eventlog.errors.StoreUnavailable`, since LMDB has it open.
        """
        handle, self._handle = self._handle, None
        self._writer_lock.forget()
        if handle is not None and self._is_quiet:
            handle.env.close()
        elif handle is not None:
            _keep_for_ever(handle)
        self._begin_process()


def _keep_for_ever(handle: Handle) -> None:
    """Keep a handle from being closed, at the end of the process too."""
    import ctypes  # only a fork in the middle of a transaction comes here

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle.env))
