"""
The tables of a store: one schema of a database holds one store and nothing else.

Ids, types, headers and payloads are bytes of UTF-8, so that no encoding or collation of
the database has a say in them: byte order is code point order, and NUL is a character.

- *about*: the version of this layout, and an id of the store.
- *sessions*: one row for each id that was ever used; to lock it is to hold the session.
  *ordinal* is the log's identity, NULL while there is no log; no two logs share one, not
  even under the same id. *changed* is the transaction that last changed the session.
- *events*: the envelope in columns, and the payload's canonical bytes. *crc* is that of
  :mod:`~.records`.
- *nodes*, *replacements*, *shadowed*, *citations*: the surface of a log, as
  :mod:`eventlog.tables` has it; citing rows of shadowed sources are left out.

The checks that stand beside the surface's columns are what keeps a reader that follows
them from going round in circles.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final
from uuid import uuid4

import psycopg
from psycopg import sql

from eventlog.errors import StoreUnavailable, UnsupportedFormat

from .connections import Connection
from .url import Address

__all__ = ["LAYOUT", "LOG_TABLES", "create", "is_there"]

LAYOUT: Final = 1

# What a log has rows in, by its ordinal.
LOG_TABLES: Final = ("events", "nodes", "replacements", "shadowed", "citations")

CREATE: Final = """
    CREATE TABLE about (eventlog_layout integer NOT NULL, store uuid NOT NULL);
    CREATE SEQUENCE ordinals;
    CREATE TABLE sessions (
        id         bytea PRIMARY KEY,
        ordinal    bigint UNIQUE,
        deleted    boolean NOT NULL DEFAULT false,
        changed    xid8 NOT NULL,
        created_at bigint NOT NULL DEFAULT 0,
        parent     bytea,
        length     bigint NOT NULL DEFAULT 0 CHECK (length >= 0),
        last_time  bigint,
        header     bytea NOT NULL DEFAULT '',
        crc        integer NOT NULL DEFAULT 0
    );
    CREATE INDEX sessions_newest ON sessions ((-created_at), id) WHERE ordinal IS NOT NULL;
    CREATE INDEX sessions_children ON sessions (parent, (-created_at), id)
        WHERE parent IS NOT NULL;
    CREATE INDEX sessions_feed ON sessions (changed);
    CREATE TABLE events (
        ordinal       bigint,
        seq           bigint,
        time          bigint NOT NULL,
        type          bytea NOT NULL,
        is_node       boolean NOT NULL,
        replace_start bigint,
        replace_end   bigint,
        sources       bigint[],
        ignorable     boolean NOT NULL,
        crc           integer NOT NULL,
        payload       bytea NOT NULL,
        PRIMARY KEY (ordinal, seq)
    );
    CREATE TABLE nodes (
        ordinal bigint,
        label   bigint,
        node    bigint NOT NULL CHECK (node >= label),
        PRIMARY KEY (ordinal, label)
    );
    CREATE TABLE replacements (
        ordinal  bigint,
        seq      bigint,
        label    bigint NOT NULL CHECK (label < seq),
        replaced bigint[] NOT NULL CHECK (seq > ALL (replaced)),
        PRIMARY KEY (ordinal, seq)
    );
    CREATE TABLE shadowed (
        ordinal  bigint,
        node     bigint,
        replacer bigint NOT NULL CHECK (replacer > node),
        PRIMARY KEY (ordinal, node)
    );
    CREATE TABLE citations (
        ordinal bigint,
        source  bigint,
        citing  bigint,
        PRIMARY KEY (ordinal, source, citing)
    );
"""

# Not by looking a name up: that finds nothing where one is not allowed to look.
LOOK: Final = """
    SELECT has_schema_privilege(n.oid, 'USAGE'),
           count(c.oid),
           coalesce(bool_or(c.relname = 'about'), false)
    FROM pg_namespace n
    LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
    WHERE n.nspname = %s
    GROUP BY n.oid
"""


def is_there(connection: Connection, address: Address) -> bool:
    """
    Tell whether the store's tables are there. A missing or empty schema is an empty store.

    Raises:
        StoreUnavailable: The schema holds something else, or may not be looked into.

        UnsupportedFormat: A newer release made the tables.
    """
    found = connection.execute(LOOK, (address.schema,)).fetchone()
    if found is None:
        return False
    is_allowed, count, has_about = found
    if not is_allowed:
        raise StoreUnavailable(address.location, "permission denied for the schema")
    if not count:
        return False
    layout = None
    if has_about:
        try:
            layout = connection.execute("SELECT eventlog_layout FROM about").fetchone()
        except psycopg.errors.UndefinedColumn:
            layout = None
    if layout is None:
        raise StoreUnavailable(address.location, "the schema holds tables of something else")
    if layout[0] != LAYOUT:
        raise UnsupportedFormat(layout[0], [LAYOUT])
    return True


def create(connection: Connection, address: Address) -> None:
    """
    Make the store's tables, in a transaction. Null case: somebody else has made them.

    Raises:
        StoreUnavailable, UnsupportedFormat: As :func:`is_there`.

        psycopg.Error: The server refuses.
    """
    with connection.transaction():
        # IF NOT EXISTS is an error all the same where two do it at once.
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_lock_key(address.schema),))
        if is_there(connection, address):
            return
        if not connection.execute(
            "SELECT 1 FROM pg_namespace WHERE nspname = %s", (address.schema,)
        ).fetchone():
            name = sql.Identifier(address.schema)
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(name))
        connection.execute(CREATE)
        connection.execute("INSERT INTO about VALUES (%s, %s)", (LAYOUT, uuid4()))


def _lock_key(schema: str) -> int:
    digest = blake2b(f"eventlog schema {schema}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
