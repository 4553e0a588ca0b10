"""
A read transaction of an environment.
"""

from __future__ import annotations

from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self
from weakref import ref

import lmdb

from eventlog.errors import StoreBusy, StoreUnavailable

from .failures import translated
from .handle import Databases, Handle
from .layout import Damaged

if TYPE_CHECKING:
    from .environment import Environment

__all__ = ["Reading"]

# Reads look so often whether their files are in place. A look takes as long as an event.
LOOK_S: Final = 1.0


class Reading:
    """
    A read transaction, as a context manager for one method call.

    Attributes:
        databases: The databases, None where nothing was ever stored.

        transaction: Sees the latest commit; there unless *databases* is None.

        store: Which store this is; empty where nothing was ever stored.

    Raises:
        StoreUnavailable: The files cannot be read.

        StoreBusy: Too many reads run, over all processes.
    """

    __slots__ = (
        "__weakref__",
        "_environment",
        "_gate",
        "_token",
        "_unseen",
        "databases",
        "store",
        "transaction",
    )

    databases: Databases | None
    transaction: lmdb.Transaction[bytes]
    store: bytes

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._gate = environment._gate
        self._token: object = None
        self._unseen: Handle | None = None
        self.databases = None
        self.store = b""

    def __enter__(self) -> Self:
        gate = self._gate
        # An interrupt may tear away the end of a read. Then the object's end is it.
        token = ref(self, gate.inside.discard)
        try:
            gate.enter(token)
            self._token = token
            environment = self._environment
            handle = environment._handle
            if handle is None or not handle.is_settled or monotonic() > environment.look_at:
                handle = self._looked_at(handle)
            while handle is not None:
                try:
                    self.transaction = _begun(handle)
                except lmdb.MapResizedError:
                    gate.leave(token)
                    environment.follow_growth(handle)
                    gate.enter(token)
                    handle = environment._handle or self._look_again(None)
                else:
                    self.store = handle.store
                    self.databases = handle.databases
                    if not handle.locked:
                        self._unseen = handle
                    return self
            gate.leave(token)
        except BaseException as error:
            self._token = token
            self._leave()
            if isinstance(error, lmdb.Error):
                raise translated(error, self._environment.path, writing=False) from error
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._unseen is not None:
                self._check_unseen(self._unseen)
        finally:
            self._leave()
        if error is not None and isinstance(error, (lmdb.Error, Damaged)):
            raise translated(error, self._environment.path, writing=False) from error

    def _check_unseen(self, handle: Handle) -> None:
        """
        Refuse what was read while no writer knew of it, if pages may have been reused.

        The pages of a commit are free for use from the third commit after it on, whose
        writer starts to write them after the second.
        """
        if handle.env.info()["last_txnid"] > self.transaction.id() + 1:
            raise StoreUnavailable(
                self._environment.path, "it changed while it was read without its lock file"
            )

    def _leave(self) -> None:
        try:
            if self.databases is not None:
                self.databases = None
                self.transaction.abort()
                # A reader's slot is given back with the object, and the frames of a
                # traceback may keep this one.
                del self.transaction
        finally:
            self._gate.leave(self._token)

    def _looked_at(self, handle: Handle | None) -> Handle | None:
        """Return *handle* where it is what there is to read, else another one."""
        if handle is not None and (handle.is_settled or not handle.may_be_outdated):
            self._environment.look_at = monotonic() + LOOK_S
            if handle.is_in_place:
                return handle
        return self._look_again(handle)

    def _look_again(self, seen: Handle | None) -> Handle | None:
        """Return the handle to read with, inside the gate; None where nothing was stored."""
        environment = self._environment
        while True:
            # Files are opened with the gate closed.
            self._gate.leave(self._token)
            is_there = environment.look_again(seen)
            self._gate.enter(self._token)
            handle = environment._handle
            if not is_there:
                return None
            # A failed write may have closed it again meanwhile.
            if handle is not None:
                return handle if handle.databases is not None else None
            seen = handle


def _begun(handle: Handle) -> lmdb.Transaction[bytes]:
    try:
        return handle.env.begin()
    except lmdb.ReadersFullError:
        # Killed processes leave their slots behind.
        handle.env.reader_check()
    try:
        return handle.env.begin()
    except lmdb.ReadersFullError as error:
        raise StoreBusy(None, 0.0) from error
