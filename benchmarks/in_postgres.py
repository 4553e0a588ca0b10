"""
A store in PostgreSQL for a benchmark, and a bare table beside it; only where a server is given.

The server is that of ``--postgres URL`` or of ``EVENTLOG_POSTGRES``. Everything is made in
schemas of its own, and dropped at the end.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

from eventlog import Event, EventStore
from eventlog.codec import encode_line

if TYPE_CHECKING:
    import psycopg

__all__ = ["add_postgres_option", "bare_insert", "bare_window", "in_postgres"]


def add_postgres_option(parser: argparse.ArgumentParser) -> None:
    """Let the user name a server."""
    parser.add_argument(
        "--postgres",
        metavar="URL",
        default=os.environ.get("EVENTLOG_POSTGRES"),
        help="compare with this server, too",
    )


@contextmanager
def in_postgres(
    url: str | None,
) -> Iterator[tuple[EventStore, psycopg.Connection[tuple[object, ...]]] | None]:
    """Hold a new store, and a connection to a bare table; None without a server."""
    if url is None:
        yield None
        return
    import psycopg

    from eventlog.drivers.postgres import PostgresStore

    name = f"bench_{uuid4().hex}"
    with psycopg.connect(url) as connection:
        connection.execute(f"CREATE SCHEMA {name}_bare".encode())
        connection.execute(f"SET search_path = {name}_bare".encode())
        connection.execute(
            "CREATE TABLE event (session int, seq bigint, line bytea, PRIMARY KEY (session, seq))"
        )
        connection.commit()
        try:
            with PostgresStore(url, schema=name) as store:
                yield store, connection
        finally:
            connection.rollback()
            connection.execute(f"DROP SCHEMA IF EXISTS {name}_bare, {name} CASCADE".encode())


def bare_insert(
    connection: psycopg.Connection[tuple[object, ...]],
) -> Callable[[Sequence[Event]], object]:
    """What inserts lines into the bare table and commits them."""

    def insert(batch: Sequence[Event]) -> None:
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO event VALUES (1, %s, %b)",
                [(event.seq, encode_line(event)) for event in batch],
            )
        connection.commit()

    return insert


def bare_window(
    connection: psycopg.Connection[tuple[object, ...]], start: int, count: int
) -> object:
    """Read lines of the bare table in one statement."""
    connection.autocommit = True
    query = "SELECT line FROM event WHERE session = 1 AND seq >= %s AND seq < %s ORDER BY seq"
    return connection.execute(query, (start, start + count), binary=True).fetchall()
