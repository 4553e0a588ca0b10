"""
The connections of one store: opened when needed, kept, checked before use, never shared
with a forked child.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from threading import Lock
from typing import Any, Final, LiteralString, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from eventlog.errors import StoreClosed, StoreUnavailable

from .failures import translated
from .url import Address

__all__ = ["Connection", "Connections"]

T = TypeVar("T")

SERVER_VERSION_MIN: Final = 130_000

# Readers need not wait behind writers that wait for each other.
READERS_ALONE: Final = 2

# A process that is stopped in the middle of an append keeps others waiting no longer.
IDLE_IN_TRANSACTION_MS: Final = 60_000

SETTINGS: Final = """
    SELECT set_config('search_path', quote_ident(%(schema)s), false),
           set_config('lock_timeout', %(lock_ms)s, false),
           set_config('idle_in_transaction_session_timeout', %(idle_ms)s, false),
           set_config('default_transaction_isolation', 'read committed', false),
           set_config('jit', 'off', false),
           CASE WHEN current_setting('synchronous_commit') <> 'remote_apply'
                THEN set_config('synchronous_commit', 'on', false) END,
           CASE WHEN %(read_only)s
                THEN set_config('default_transaction_read_only', 'on', false) END
"""


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """
    A connection that can have statements travel together.

    Attributes:
        together: The pipeline in which they do, None while each travels alone.
    """

    together: psycopg.Pipeline | None = None

    def ask(self, query: LiteralString, arguments: Sequence[object]) -> list[tuple[Any, ...]]:
        """Return the rows that a statement answers; it travels no further with others."""
        cursor = self.execute(query, arguments, binary=True)
        # Not by waiting for the rows alone: the server counts the time for which a
        # transaction stands idle from here, and not from there.
        if self.together is not None:
            self.together.sync()
        return cursor.fetchall()


class _Slot:
    """A place for one connection, used by who holds its lock."""

    __slots__ = ("__weakref__", "connection", "lock")

    def __init__(self) -> None:
        # With a lock, not a count: an interrupt cannot strike inside ``with`` on a lock.
        self.lock = Lock()
        self.connection: Connection | None = None

    def drop(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()


class Connections:
    """
    At most so many connections to one database.

    Each is opened at its first use. One that broke while it lay idle, as those to a
    server that was started anew, is replaced without a word; one that breaks in use is an
    error, and is replaced at the next use.

    Args:
        address: Where to.

        read_only: Whether the server is to refuse writes.

        lock_wait_s: How long a statement waits for a lock.

        connections_max: How many; threads that need one more wait.
    """

    def __init__(
        self, address: Address, *, read_only: bool, lock_wait_s: float, connections_max: int
    ) -> None:
        self.address = address
        self.lock_wait_s = lock_wait_s
        self._settings = {
            "schema": address.schema,
            "lock_ms": str(max(1, round(lock_wait_s * 1_000))),
            "idle_ms": str(IDLE_IN_TRANSACTION_MS),
            "read_only": read_only,
        }
        self._is_closed = False
        self._turns = count()
        self._slots = [_Slot() for _ in range(connections_max)]
        # One that is dropped without being closed says goodbye all the same.
        self._finalizer = weakref.finalize(self, _drop_all, self._slots, os.getpid())
        _alive.add(self)

    def use(self, body: Callable[[Connection], T], *, writing: bool = False) -> T:
        """
        Run *body* with a connection outside of any transaction; one that it leaves open is
        rolled back. A connection is never lost to an interrupt, wherever that strikes.

        Raises:
            EventLogError: What the server or the way to it refused.
        """
        slot, handled = self._slot(writing), sys.exc_info()[1]
        with slot.lock:
            try:
                result = body(self._connected(slot))
                self._settle(slot)
                return result
            except BaseException as error:
                self._clear_up(slot, error, handled, writing)
                raise

    @contextmanager
    def held(self, *, writing: bool = False) -> Iterator[Connection]:
        """Hold a connection as :meth:`use` does, but for interrupts."""
        slot, handled = self._slot(writing), sys.exc_info()[1]
        with slot.lock:
            try:
                yield self._connected(slot)
                self._settle(slot)
            except BaseException as error:
                self._clear_up(slot, error, handled, writing)
                raise

    def close(self) -> None:
        """Close those that are idle now, and the others when they are given back."""
        self._is_closed = True
        self._finalizer()

    def _slot(self, writing: bool) -> _Slot:
        slots = self._slots
        if writing:
            slots = slots[: max(1, len(slots) - READERS_ALONE)]
        for slot in slots:
            if not slot.lock.locked():
                return slot
        return slots[next(self._turns) % len(slots)]

    def _connected(self, slot: _Slot) -> Connection:
        if self._is_closed:
            raise StoreClosed(self.address.location)
        connection = slot.connection
        if connection is not None and _is_usable(connection):
            return connection
        slot.drop()
        connection = Connection.connect(self.address.conninfo, autocommit=True)
        slot.connection = connection
        version = connection.info.server_version
        if version < SERVER_VERSION_MIN:
            slot.drop()
            raise StoreUnavailable(
                self.address.location,
                f"PostgreSQL {SERVER_VERSION_MIN // 10_000} or later is needed, "
                f"not {version // 10_000}",
            )
        connection.execute(SETTINGS, self._settings)
        return connection

    def _settle(self, slot: _Slot) -> None:
        """Leave a connection as the next one wants to have it."""
        connection = slot.connection
        if connection is None:
            return
        if connection.info.transaction_status != TransactionStatus.IDLE:
            connection.execute("ROLLBACK")
        if self._is_closed:
            slot.drop()

    def _clear_up(
        self, slot: _Slot, error: BaseException, handled: BaseException | None, writing: bool
    ) -> None:
        """
        Make a connection ready again after *error*. Returns where that is to be raised.

        Args:
            handled: What the caller was handling already.

        Raises:
            EventLogError: What *error* means, where the server or libpq raised it.

            BaseException: The interrupt that *error* came of.
        """
        interrupt = _interrupt_behind(error, handled)
        if interrupt is not None:
            slot.drop()  # it may be in the middle of anything
            if interrupt is error:
                return
            raise interrupt from None
        try:
            self._settle(slot)
        except psycopg.Error:
            slot.drop()
        if isinstance(error, psycopg.Error):
            location = self.address.location
            raise translated(error, location, writing=writing, waited_s=self.lock_wait_s) from error


def _is_usable(connection: Connection) -> bool:
    """Tell whether a connection is open, as far as can be seen without asking the server."""
    try:
        # The first reads the server's last words, the second that there are no more.
        connection.pgconn.consume_input()
        connection.pgconn.consume_input()
    except psycopg.Error:
        return False
    return not connection.closed


def _interrupt_behind(error: BaseException, handled: BaseException | None) -> BaseException | None:
    """Return the interrupt that *error* is, or came of where a pipeline was left in the middle."""
    cause: BaseException | None = error
    while cause is not handled and isinstance(cause, Exception):
        cause = cause.__context__
    return None if cause is handled else cause


def _drop_all(slots: list[_Slot], process: int) -> None:
    if os.getpid() != process:
        return
    for slot in slots:
        if slot.lock.acquire(blocking=False):
            try:
                slot.drop()
            finally:
                slot.lock.release()


_alive: weakref.WeakSet[Connections] = weakref.WeakSet()
# What a forked child has of its parent's connections. It must not close them: that would
# tell the server to end the parent's.
_inherited: list[Connection] = []


def _after_fork_in_child() -> None:
    for connections in list(_alive):
        slots = connections._slots
        connections._slots = [_Slot() for _ in slots]
        connections._finalizer.detach()
        connections._finalizer = weakref.finalize(
            connections, _drop_all, connections._slots, os.getpid()
        )
        for slot in slots:
            if slot.connection is not None:
                _inherited.append(slot.connection)
                _let_go(slot.connection)


def _let_go(connection: Connection) -> None:
    """Give up the child's end of a socket, so that the parent's death ends the connection."""
    with suppress(OSError, psycopg.Error):
        nothing = os.open(os.devnull, os.O_RDWR)
        try:
            os.dup2(nothing, connection.fileno(), inheritable=False)
        finally:
            os.close(nothing)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
