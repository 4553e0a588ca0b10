"""The contract, held by the PostgreSQL store."""

from __future__ import annotations

from pathlib import Path

from psycopg import sql

from eventlog import Event, SessionHeader
from eventlog.codec import decode_line, encode_line
from eventlog.drivers.postgres import PostgresStore
from eventlog.drivers.postgres.logs import PUT_EVENTS
from eventlog.drivers.postgres.records import (
    EVENT_COLUMNS,
    SESSION_COLUMNS,
    SessionRow,
    decode_events,
    encode_header,
    event_row,
    header_crc,
)
from eventlog.drivers.postgres.schema import LOG_TABLES, create
from eventlog.drivers.postgres.url import Address
from eventlog.testing import StoreContract
from support.postgres import need_server, schema_of, store_at


class TestPostgresStore(StoreContract):
    def open_store(self, root: Path, *, read_only: bool = False) -> PostgresStore:
        return store_at(root, read_only=read_only)

    def raw_read(self, root: Path, session_id: str) -> bytes | None:
        with need_server().connect() as connection:
            connection.execute("SELECT set_config('search_path', %s, false)", (schema_of(root),))
            if connection.execute("SELECT to_regclass('sessions')").fetchone() == (None,):
                return None
            row = connection.execute(
                f"SELECT {SESSION_COLUMNS} FROM sessions WHERE id = %b".encode(),
                (session_id.encode(),),
                binary=True,
            ).fetchone()
            if row is None or row[1] is None:
                known = "SELECT ordinal FROM sessions WHERE ordinal IS NOT NULL"
                orphans = connection.execute(
                    f"SELECT payload FROM events WHERE ordinal NOT IN ({known})".encode()
                ).fetchall()
                return b"".join(bytes(payload) for (payload,) in orphans) or None
            found = SessionRow.decode(row)
            rows = connection.execute(
                f"SELECT {EVENT_COLUMNS} FROM events WHERE ordinal = %s ORDER BY seq".encode(),
                (found.ordinal,),
                binary=True,
            ).fetchall()
        events, _ = decode_events(rows, 0)
        return encode_line(found.header) + b"".join(map(encode_line, events))

    def raw_write(self, root: Path, session_id: str, lines: bytes) -> None:
        header, *events = (decode_line(line) for line in lines.splitlines(keepends=True))
        assert isinstance(header, SessionHeader)
        schema, line = schema_of(root), encode_header(header)
        rows = [event_row(event) for event in events if isinstance(event, Event)]
        with need_server().connect() as connection:
            connection.execute("SELECT set_config('search_path', %s, false)", (schema,))
            create(connection, Address.from_url(need_server().url, schema))
            connection.execute("DELETE FROM sessions WHERE id = %b", (session_id.encode(),))
            (ordinal,) = connection.execute(
                "INSERT INTO sessions (id, ordinal, changed, created_at, length, last_time,"
                " header, crc) VALUES (%b, nextval('ordinals'), pg_current_xact_id(),"
                " %s, %s, %s, %b, %s) RETURNING ordinal",
                (
                    session_id.encode(),
                    header.created_at,
                    len(rows),
                    rows[-1][1] if rows else None,
                    line,
                    header_crc(line),
                ),
            ).fetchone()  # type: ignore[misc]
            if rows:
                columns = [list(column) for column in zip(*rows, strict=True)]
                connection.execute(PUT_EVENTS.encode(), (ordinal, *columns))

    def medium(self, root: Path) -> dict[str, tuple[int, bytes]]:
        """Every row of every table, as it stands."""
        found: dict[str, tuple[int, bytes]] = {}
        with need_server().connect() as connection:
            for table in ("about", "sessions", *LOG_TABLES):
                name = sql.Identifier(schema_of(root), table)
                if connection.execute("SELECT to_regclass(%s)", (name.as_string(),)).fetchone() == (
                    None,
                ):
                    continue
                query = sql.SQL("SELECT t.xmin::text, t.* FROM {} t ORDER BY 2, 3").format(name)
                rows = connection.execute(query).fetchall()
                found[table] = (len(rows), repr(rows).encode())
        return found
