"""
What reads: heads, pages of them, windows of events, and what changed.
"""

from __future__ import annotations

import re
from typing import Any, Final

import psycopg

from eventlog.errors import InvalidArgument, SessionNotFound, StoreUnavailable
from eventlog.model import Event, Fault, HeadKey, HeadPage, SessionHead
from eventlog.snapshot import ScanMeter
from eventlog.store import ChangeSet

from .connections import Connection
from .database import Database
from .failures import Damaged, corrupt
from .logs import read_events
from .records import SESSION_COLUMNS, SessionRow

__all__ = ["changed", "is_alive", "origin", "page", "session_row", "window"]

HEAD: Final = f"SELECT {SESSION_COLUMNS} FROM sessions WHERE id = %b AND ordinal IS NOT NULL"

HEADS: Final = f"""
    SELECT {SESSION_COLUMNS}, created_at FROM sessions
    WHERE ordinal IS NOT NULL AND (-created_at, id) > (%s::bigint, %b::bytea)
    ORDER BY -created_at, id LIMIT %s
"""
CHILDREN: Final = f"""
    SELECT {SESSION_COLUMNS}, created_at FROM sessions
    WHERE parent = %b AND ordinal IS NOT NULL AND (-created_at, id) > (%s::bigint, %b::bytea)
    ORDER BY -created_at, id LIMIT %s
"""
# A limit of any size is asked for in parts: the server counts no further than 2⁶³.
ROWS_MAX: Final = 10_000
# Before every session.
FIRST_KEY: Final = (-(2**53), b"")

# A token is a snapshot of the server: which transactions had ended. One that changed a
# session and is not among them is news, whenever it began. A standby does not tell which
# of the transactions between the first and the last one that is under way have ended.
# A token that is ahead of the server is from before its data was restored elsewhere.
CHANGES: Final = """
    SELECT a.store::text,
           CASE WHEN pg_is_in_recovery()
                THEN format('%%1$s:%%1$s:', pg_snapshot_xmin(pg_current_snapshot()))
                ELSE pg_current_snapshot()::text END,
           ARRAY(
               SELECT id FROM sessions
               WHERE changed >= pg_snapshot_xmin(since)
                 AND NOT pg_visible_in_snapshot(changed, since)
               ORDER BY changed)
    FROM about a,
         (SELECT CASE WHEN pg_snapshot_xmax(%(since)s::pg_snapshot)
                           > pg_snapshot_xmax(pg_current_snapshot())
                      THEN %(ever)s ELSE %(since)s END::pg_snapshot AS since) t
"""
EVER: Final = "1:1:"
TOKEN: Final = re.compile(r"([0-9]{1,19}:[0-9]{1,19}:[0-9,]*)\.([0-9a-f-]{36}|)", re.ASCII)


def session_row(database: Database, session_id: str, meter: ScanMeter) -> SessionRow | None:
    """
    Read the row of a session, None where it has no log.

    Raises:
        CorruptLog: It cannot be read.
    """

    def ask(connection: Connection | None) -> Any:
        if connection is None:
            return None
        return connection.execute(HEAD, (session_id.encode(),), binary=True).fetchone()

    found = database.read(ask)
    if found is None:
        return None
    try:
        row = SessionRow.decode(found)
    except Damaged as damage:
        raise corrupt(session_id, "header", damage) from damage
    meter.records += 1
    return row


def page(
    database: Database,
    parent_id: str | None,
    after: HeadKey | None,
    limit: int,
    meter: ScanMeter,
) -> HeadPage:
    """Read a page of all heads, or of the children of a session. Cost: its rows and one."""
    key = FIRST_KEY if after is None else (-after.created_at, after.session_id.encode())

    def ask(connection: Connection | None) -> list[Any]:
        if connection is None:
            return []
        if parent_id is None:
            return connection.ask(HEADS, (*key, wanted + 1))
        return connection.ask(CHILDREN, (parent_id.encode(), *key, wanted + 1))

    found: list[SessionHead] = []
    faults: list[Fault] = []
    is_more = True
    while is_more and len(found) < limit:
        wanted = min(limit - len(found), ROWS_MAX)
        rows = database.read(ask)
        meter.probes += len(rows)
        is_more = len(rows) > wanted
        for *columns, created_at in rows[:wanted]:
            key = (-created_at, columns[0])
            try:
                found.append(SessionRow.decode(columns).head())
                meter.records += 1
            except Damaged as damage:
                faults.append(Fault(_text(key[1]), None, "header", damage.detail))
    next_key = HeadKey(-key[0], _text(key[1])) if is_more else None
    return HeadPage(tuple(found), next_key, tuple(faults))


def _text(session_id: bytes) -> str:
    return session_id.decode(errors="replace")


def changed(database: Database, since: str | None) -> ChangeSet:
    """
    Name the sessions that changed after *since*, each once, in the order of the
    transactions.

    Raises:
        InvalidArgument: *since* is no token of this store.
    """
    parts = TOKEN.fullmatch(f"{EVER}." if since is None else since)
    if parts is None:
        raise _no_token()
    snapshot, origin = parts.groups()
    if not origin and snapshot != EVER:
        raise _no_token()

    def ask(connection: Connection | None) -> Any:
        if connection is None:
            return None
        return connection.execute(
            CHANGES, {"since": snapshot, "ever": EVER}, binary=True
        ).fetchone()

    try:
        row = database.read(ask)
    except StoreUnavailable as error:
        if isinstance(error.__cause__, psycopg.DataError):
            raise _no_token() from None
        raise
    store, now, ids = ("", EVER, []) if row is None else row
    if origin not in (store, ""):
        raise _no_token()
    return ChangeSet(tuple(map(_text, ids)), f"{now}.{store}")


def _no_token() -> InvalidArgument:
    return InvalidArgument("since", "is no token of this store")


def origin(database: Database) -> str | None:
    """Return the id of the store, None where there is none yet."""

    def ask(connection: Connection | None) -> Any:
        return connection and connection.execute("SELECT store::text FROM about").fetchone()

    found = database.read(ask)
    return None if found is None else str(found[0])


def is_alive(connection: Connection, ordinal: int) -> bool:
    """Tell whether a log is still there. Cost: a row."""
    query = "SELECT 1 FROM sessions WHERE ordinal = %s"
    return bool(connection.ask(query, (ordinal,)))


def window(
    database: Database,
    session_id: str,
    ordinal: int,
    start: int,
    stop: int,
    meter: ScanMeter,
) -> list[Event]:
    """
    Read exactly the events of ``[start, stop)``, which may be empty. Cost: one question.

    Raises:
        SessionNotFound: The log is gone.

        CorruptLog: One of them is missing or cannot be read.
    """

    def ask(connection: Connection | None) -> tuple[list[Event], int]:
        if connection is None:
            raise SessionNotFound(session_id)
        events, size = read_events(connection, ordinal, start, stop)
        is_short = len(events) < stop - start
        # A log that is taken away takes all its events along, at once.
        if (is_short or start == stop) and not is_alive(connection, ordinal):
            raise SessionNotFound(session_id)
        if is_short:
            raise Damaged(start + len(events), "the event is missing")
        return events, size

    try:
        events, size = database.read(ask)
    except Damaged as damage:
        raise corrupt(session_id, "event", damage) from damage
    meter.probes += 1
    meter.records += len(events)
    meter.bytes += size
    return events
