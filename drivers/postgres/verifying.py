"""
Verifying a store: each session's events against a fresh fold, and its other rows against
what the events and the header say. Reads only, in short transactions, beside writers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from attrs import frozen
from psycopg import sql

from eventlog.codec import decode_line, encode_line
from eventlog.errors import EventLogError
from eventlog.findings import Change, Finding
from eventlog.model import Event
from eventlog.tables import MemoryTables
from eventlog.verifying import FoldCheck, finding_of

from .connections import Connection
from .database import Database
from .failures import Damaged
from .records import EVENT_COLUMNS, SESSION_COLUMNS, SessionRow, decode_events
from .schema import LOG_TABLES

__all__ = ["Stored", "folded_rows", "stored_events", "verified"]

# What one transaction reads.
EVENTS_AT_ONCE: Final = 1024
SESSIONS_AT_ONCE: Final = 1024
REBUILD: Final = Change("rebuild")

# The last one: a transaction that is yet to come, as after a restoration elsewhere. Its
# session would be named as changed for ever.
SESSIONS: Final = f"""
    SELECT {SESSION_COLUMNS}, created_at, parent,
           changed >= pg_snapshot_xmax(pg_current_snapshot())
    FROM sessions WHERE id > %b ORDER BY id LIMIT %s
"""
EVENTS: Final = (
    f"SELECT {EVENT_COLUMNS} FROM events WHERE ordinal = %s AND seq >= %s ORDER BY seq LIMIT %s"
)
ROW: Final = f"SELECT {SESSION_COLUMNS} FROM sessions WHERE ordinal = %s"


@frozen
class Stored:
    """
    What stands at the key of an event.

    Attributes:
        seq: The seq that its key says.

        event: The event, None where the row is not one.

        detail: Why it is not.
    """

    seq: int
    event: Event | None
    detail: str = ""


def verified(database: Database) -> Iterator[Finding]:
    """
    Yield what is wrong with the rows of sessions, and then with each log, by id.

    Raises:
        StoreUnavailable: The database cannot be read.
    """
    rows: list[SessionRow] = []
    for found in _sessions(database):
        if isinstance(found, Finding):
            yield found
        else:
            rows.append(found)
    yield from _orphans(database)
    for row in rows:
        yield from _verified_log(database, row)


def _sessions(database: Database) -> Iterator[SessionRow | Finding]:
    last, more = b"", True
    while more:
        rows = database.read(partial(_session_rows, last))
        for *columns, created_at, parent, is_to_come in rows:
            last = columns[0]
            session_id = last.decode(errors="replace")
            if is_to_come:
                detail = "its last change is of a transaction that is yet to come"
                yield Finding("index", session_id, detail=detail, change=REBUILD)
            if columns[1] is None:
                continue
            try:
                row = SessionRow.decode(columns)
            except Damaged as damage:
                yield Finding("header", session_id, detail=damage.detail)
                continue
            header = row.header
            named = None if header.parent_session is None else header.parent_session.encode()
            if (created_at, parent) != (header.created_at, named):
                detail = "it is listed by a time or a parent that its header does not have"
                yield Finding("index", session_id, detail=detail, change=REBUILD)
            yield row
        more = len(rows) == SESSIONS_AT_ONCE


def _session_rows(last: bytes, connection: Connection | None) -> list[Any]:
    if connection is None:
        return []
    return connection.ask(SESSIONS, (last, SESSIONS_AT_ONCE))


def _orphans(database: Database) -> Iterator[Finding]:
    def ask(connection: Connection | None) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        for table in LOG_TABLES if connection is not None else ():
            query = sql.SQL(
                "SELECT DISTINCT ordinal FROM {} t WHERE NOT EXISTS"
                " (SELECT 1 FROM sessions s WHERE s.ordinal = t.ordinal)"
            ).format(sql.Identifier(table))
            assert connection is not None
            found += [(table, row[0]) for row in connection.execute(query)]
        return found

    found = database.read_still(ask)
    for table, ordinal in found:
        detail = f"{table!r} of number {ordinal}, which no session has"
        yield Finding("orphan", detail=detail)


def stored_events(connection: Connection | None, ordinal: int, start: int) -> list[Stored]:
    """Return what stands at the keys of up to 1,024 events from *start* on, by seq."""
    if connection is None:
        return []
    arguments = (ordinal, start, EVENTS_AT_ONCE)
    rows = connection.ask(EVENTS, arguments)
    found = []
    for row in rows:
        seq = row[0]
        try:
            events, _ = decode_events([row], seq)
            if decode_line(encode_line(events[0])) != events[0]:
                raise Damaged(seq, "the payload is not canonical")
        except Damaged as damage:
            found.append(Stored(seq, None, damage.detail))
        except EventLogError as error:
            found.append(Stored(seq, None, f"the event is malformed: {error}"))
        else:
            found.append(Stored(seq, events[0]))
    return found


def _verified_log(database: Database, row: SessionRow) -> Iterator[Finding]:
    session_id, fold, expected = row.header.id, FoldCheck(), 0
    while expected < row.length:
        found = database.read(partial(stored_events, ordinal=row.ordinal, start=expected))
        for stored in found:
            if stored.seq >= row.length:
                break
            if stored.seq > expected:
                yield _missing(session_id, expected, stored.seq)
            expected = stored.seq + 1
            if stored.event is None:
                yield Finding("event", session_id, seq=stored.seq, detail=stored.detail)
            elif (refused := fold.add(stored.event)) is not None:
                yield finding_of(refused, session_id)
        if len(found) < EVENTS_AT_ONCE:
            break

    def compare(connection: Connection | None) -> list[Finding] | None:
        columns = None
        if connection is not None:
            columns = connection.execute(ROW, (row.ordinal,), binary=True).fetchone()
        if connection is None or columns is None:
            return None  # deleted meanwhile
        now = SessionRow.decode(columns)
        problems = list(_ends(connection, now))
        if fold.length == row.length:
            _catch_up(connection, now, fold)
            if fold.length == now.length:
                problems += _compared(connection, now, fold.tables)
        return problems

    problems = database.read_still(compare)
    if problems is None:
        return
    if expected < row.length:
        yield _missing(session_id, expected, row.length)
    yield from problems


def _missing(session_id: str, start: int, stop: int) -> Finding:
    many = f"{stop - start} events are missing" if stop - start > 1 else "the event is missing"
    return Finding("event", session_id, seq=start, detail=many)


def _catch_up(connection: Connection, row: SessionRow, fold: FoldCheck) -> None:
    """Fold what was appended meanwhile, as far as it goes."""
    start = fold.length
    while start < row.length:
        for stored in stored_events(connection, row.ordinal, start):
            if stored.event is not None and stored.seq < row.length:
                fold.add(stored.event)
        if fold.length == start:
            return
        start = fold.length


def _ends(connection: Connection, row: SessionRow) -> Iterator[Finding]:
    session_id = row.header.id
    found = stored_events(connection, row.ordinal, max(row.length - 1, 0))
    beyond = [stored.seq for stored in found if stored.seq >= row.length]
    if beyond:
        detail = f"an event stands beyond the end, which is {row.length}"
        yield Finding("seq", session_id, seq=beyond[0], detail=detail)
    last = found[0] if found and found[0].seq == row.length - 1 else None
    if last is not None and last.event is not None and last.event.time != row.last_time:
        detail = f"the last time is {last.event.time}, the session's row says {row.last_time}"
        yield Finding("row", session_id, seq=last.seq, detail=detail, change=REBUILD)


def folded_rows(tables: MemoryTables) -> dict[str, dict[tuple[int, ...], object]]:
    """Return the rows that a fold makes, by table and key, each with what stands at its key."""
    return {
        "nodes": {(label,): node for label, node in tables.walk(0)},
        "replacements": {
            (seq,): (label, list(nodes)) for seq, label, nodes in tables.replacement_rows()
        },
        "shadowed": {(node,): replacer for node, replacer in tables.shadowed_rows()},
        "citations": dict.fromkeys(tables.citation_rows()),
    }


STORED: Final[Mapping[str, str]] = {
    "nodes": "SELECT label, node FROM nodes WHERE ordinal = %s",
    "replacements": "SELECT seq, label, replaced FROM replacements WHERE ordinal = %s",
    "shadowed": "SELECT node, replacer FROM shadowed WHERE ordinal = %s",
    "citations": "SELECT source, citing FROM citations WHERE ordinal = %s",
}


def _stored_rows(connection: Connection, table: str, ordinal: int) -> dict[tuple[int, ...], object]:
    rows: list[Any] = connection.ask(STORED[table], (ordinal,))
    if table == "citations":
        return dict.fromkeys(rows)
    if table == "replacements":
        return {(seq,): (label, replaced) for seq, label, replaced in rows}
    return {(key,): value for key, value in rows}


def _compared(connection: Connection, row: SessionRow, tables: MemoryTables) -> list[Finding]:
    """Compare the stored rows with those of a fresh fold. Cost: both, in memory."""
    counts = {"missing": 0, "different": 0, "too many": 0}
    first: int | None = None
    for table, expected in folded_rows(tables).items():
        found = _stored_rows(connection, table, row.ordinal)
        wrong = {
            "missing": expected.keys() - found.keys(),
            "different": {
                key for key in expected.keys() & found.keys() if expected[key] != found[key]
            },
            "too many": found.keys() - expected.keys(),
        }
        for kind, keys in wrong.items():
            counts[kind] += len(keys)
            if keys and first is None:
                first = min(keys)[0]
    if first is None:
        return []
    many = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    detail = f"rows that disagree with a fresh fold: {many}"
    return [Finding("row", row.header.id, seq=first, detail=detail, change=REBUILD)]
