"""
One database, with a store in it or none yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from psycopg import errors

from eventlog.errors import EventLogError, StoreUnavailable

from .connections import Connection, Connections
from .schema import create, is_there
from .url import Address

__all__ = ["Database"]

T = TypeVar("T")


class Database:
    """
    Connections, and what is known of the tables behind them.

    Args:
        address: Where.

        read_only, lock_wait_s, connections_max: As for
            :class:`~.connections.Connections`.
    """

    def __init__(
        self, address: Address, *, read_only: bool, lock_wait_s: float, connections_max: int
    ) -> None:
        self.address = address
        self.lock_wait_s = lock_wait_s
        self._connections = Connections(
            address,
            read_only=read_only,
            lock_wait_s=lock_wait_s,
            connections_max=connections_max,
        )
        # Only that they are there is remembered: others may make them at any moment.
        self._is_there = False

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    def is_there(self) -> bool:
        """Tell whether the tables are there."""
        return self.read(lambda connection: connection is not None)

    def read(self, body: Callable[[Connection | None], T]) -> T:
        """Run *body*, which makes single statements; with None where there are no tables."""

        def look_and_read(connection: Connection) -> T:
            return body(connection if self._look(connection) else None)

        try:
            return self._connections.use(look_and_read)
        except StoreUnavailable as error:
            self._forget_tables(error)
            raise

    def read_still(self, body: Callable[[Connection | None], T]) -> T:
        """Run *body* in a transaction whose statements all see one state."""

        def stand_still(connection: Connection | None) -> T:
            if connection is None:
                return body(None)
            with _standing_still(connection):
                return body(connection)

        return self.read(stand_still)

    def write(self, body: Callable[[Connection], T], *, lock_wait_s: float | None = None) -> T:
        """
        Run *body* in a transaction, which is durable when this returns. Tables are made
        first, where there are none.

        Args:
            lock_wait_s: How long to wait for each lock, if not as long as usual.
        """

        def look_and_write(connection: Connection) -> T:
            with self._transaction(connection, lock_wait_s):
                return body(connection)

        try:
            return self._connections.use(look_and_write, writing=True)
        except StoreUnavailable as error:
            self._forget_tables(error)
            raise

    # The same as contexts. A signal that strikes where one is entered or left can keep the
    # connection from others for as long as its exception is kept.

    @contextmanager
    def standing_still(self) -> Iterator[Connection | None]:
        """Hold what :meth:`read_still` runs its body with."""
        try:
            with self._connections.held() as connection:
                if self._look(connection):
                    with _standing_still(connection):
                        yield connection
                else:
                    yield None
        except StoreUnavailable as error:
            self._forget_tables(error)
            raise

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Hold what :meth:`write` runs its body with."""
        with (
            self._connections.held(writing=True) as connection,
            self._transaction(connection, None),
        ):
            yield connection

    @contextmanager
    def _transaction(self, connection: Connection, lock_wait_s: float | None) -> Iterator[None]:
        if not self._look(connection):
            create(connection, self.address)
            self._is_there = True
        with _together(connection):
            connection.execute("BEGIN")
            if lock_wait_s is not None:
                wait_ms = str(max(1, round(lock_wait_s * 1_000)))
                connection.execute("SELECT set_config('lock_timeout', %s, true)", (wait_ms,))
            yield
            end = connection.execute("COMMIT")
        if end.statusmessage != "COMMIT":
            raise StoreUnavailable(self.address.location, "the transaction was rolled back")

    def _look(self, connection: Connection) -> bool:
        if not self._is_there:
            self._is_there = is_there(connection, self.address)
        return self._is_there

    def _forget_tables(self, error: EventLogError) -> None:
        if isinstance(error.__cause__, errors.UndefinedTable | errors.InvalidSchemaName):
            self._is_there = False


@contextmanager
def _standing_still(connection: Connection) -> Iterator[None]:
    with _together(connection):
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield
        connection.execute("COMMIT")


@contextmanager
def _together(connection: Connection) -> Iterator[None]:
    """
    Have statements whose answers nobody waits for travel together, the commit with the last
    of them. Behind one that fails the server does none.
    """
    with connection.pipeline() as connection.together:
        try:
            yield
        except Exception:
            raise
        except BaseException:
            # Struck between two steps, the pipeline would wait at its end for answers to
            # what it never sent.
            connection.close()
            raise
        finally:
            connection.together = None
