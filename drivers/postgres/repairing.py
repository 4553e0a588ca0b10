"""
Mending a store: what the events and headers say is written anew into the other rows.

Nothing of a log is touched. An event that is lost or changed is left to a person: a
database has backups of its own.
"""

from __future__ import annotations

from functools import partial

from attrs import evolve
from psycopg import sql

from eventlog.findings import Finding
from eventlog.snapshot import ScanMeter
from eventlog.verifying import FoldCheck

from .connections import Connection
from .database import Database
from .failures import Damaged
from .records import SESSION_COLUMNS, SessionRow
from .tables import RowWriter
from .verifying import stored_events, verified

__all__ = ["repaired"]

LOCK = f"SELECT {SESSION_COLUMNS} FROM sessions WHERE id = %b FOR UPDATE"
RENEW = """
    UPDATE sessions SET created_at = %s, parent = %b, last_time = %s,
        changed = pg_current_xact_id()
    WHERE ordinal = %s
"""
# Of a session without a log, too.
RENEW_CHANGE = "UPDATE sessions SET changed = pg_current_xact_id() WHERE id = %b"
SURFACE_TABLES = ("nodes", "replacements", "shadowed", "citations")


def repaired(database: Database, dry_run: bool) -> list[Finding]:
    """
    Mend what can be mended, each session in one transaction; with *dry_run* only tell it.

    Raises:
        StoreBusy: A writer holds a session that is to be mended.

        StoreFull, StoreReadOnly, StoreUnavailable: That session is as it was.
    """
    findings = list(verified(database))
    told: list[Finding] = []
    ids = {one.session_id for one in findings if one.change and one.session_id is not None}
    refused = {one.session_id for one in findings if not one.change}
    for one in findings:
        # What a session's events do not say as a whole cannot be derived from them.
        told.append(evolve(one, change=None) if one.session_id in refused else one)
    if not dry_run:
        for session_id in sorted(ids - refused):
            database.write(partial(_mend, session_id=session_id))
    return told


def _mend(connection: Connection, session_id: str) -> None:
    key = session_id.encode()
    columns = connection.execute(LOCK, (key,), binary=True).fetchone()
    if columns is None:
        return
    if columns[1] is None:
        connection.execute(RENEW_CHANGE, (key,))
        return
    try:
        row = SessionRow.decode(columns)
    except Damaged:
        return  # changed meanwhile; the next repair tells
    fold, last_time = FoldCheck(), row.last_time
    while fold.length < row.length:
        start = fold.length
        for stored in stored_events(connection, row.ordinal, start):
            if stored.event is not None and stored.seq < row.length:
                fold.add(stored.event)
                last_time = stored.event.time
        if fold.length == start:
            return
    for table in SURFACE_TABLES:
        query = sql.SQL("DELETE FROM {} WHERE ordinal = %s").format(sql.Identifier(table))
        connection.execute(query, (row.ordinal,))
    writer = RowWriter(connection, row.ordinal, ScanMeter())
    for label, node in fold.tables.walk(0):
        writer.put_node(label, node)
    for seq, label, nodes in fold.tables.replacement_rows():
        writer.put_replacement(seq, label, nodes)
    for node, replacer in fold.tables.shadowed_rows():
        writer.put_replaced_by(node, replacer)
    for source, citing in fold.tables.citation_rows():
        writer.put_citation(source, citing)
    writer.flush()
    header = row.header
    parent = None if header.parent_session is None else header.parent_session.encode()
    connection.execute(RENEW, (header.created_at, parent, last_time, row.ordinal))
