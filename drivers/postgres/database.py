"""
One database, with a store in it or none yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg import errors

from eventlog.errors import StoreUnavailable

from .connections import Connection, Connections
from .schema import create, is_there
from .url import Address

__all__ = ["Database"]


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

    @contextmanager
    def reading(self) -> Iterator[Connection | None]:
        """Hold a connection for single statements; None where there are no tables."""
        with self._held(writing=False) as connection:
            yield connection if self._look(connection) else None

    @contextmanager
    def standing_still(self) -> Iterator[Connection | None]:
        """Hold a transaction whose statements all see one state; None without tables."""
        with self.reading() as connection:
            if connection is None:
                yield None
                return
            with connection.pipeline():
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                yield connection
                connection.execute("COMMIT")

    @contextmanager
    def writing(self, *, lock_wait_s: float | None = None) -> Iterator[Connection]:
        """
        Hold a transaction that is durable when the context ends. Tables are made first,
        where there are none.

        Args:
            lock_wait_s: How long to wait for each lock, if not as long as usual.
        """
        with self._held(writing=True) as connection:
            if not self._look(connection):
                create(connection, self.address)
                self._is_there = True
            # Statements whose answers nobody waits for travel together, the commit with
            # the last of them; behind one that fails the server does none.
            with connection.pipeline():
                connection.execute("BEGIN")
                if lock_wait_s is not None:
                    wait_ms = str(max(1, round(lock_wait_s * 1_000)))
                    connection.execute("SELECT set_config('lock_timeout', %s, true)", (wait_ms,))
                yield connection
                connection.execute("COMMIT")

    def is_there(self) -> bool:
        """Tell whether the tables are there."""
        with self.reading() as connection:
            return connection is not None

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    @contextmanager
    def _held(self, *, writing: bool) -> Iterator[Connection]:
        try:
            with self._connections.held(writing=writing) as connection:
                yield connection
        except StoreUnavailable as error:
            if isinstance(error.__cause__, errors.UndefinedTable | errors.InvalidSchemaName):
                self._is_there = False
            raise

    def _look(self, connection: Connection) -> bool:
        if not self._is_there:
            self._is_there = is_there(connection, self.address)
        return self._is_there
