"""
What writes: appending to sessions and taking them away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, LiteralString

from psycopg import sql

from eventlog.admission import AbsentLog, ReadableLog, WritableLog, admit
from eventlog.errors import EventLogError, StoreUnavailable
from eventlog.model import Batch

from .connections import Connection
from .database import Database
from .logs import LOOK, Log
from .schema import LOG_TABLES

__all__ = ["append", "held", "remove"]

Outcome = int | EventLogError
Groups = Mapping[str, Sequence[Batch]]
Outcomes = Mapping[str, Sequence[Outcome]]

# Of several sessions one may be held for long; the others do not wait for it.
SHARED_WAIT_S: Final = 1.0

# Who puts in the row of a new id is its first holder; others that want to wait here.
CLAIM: Final = """
    INSERT INTO sessions (id, changed) SELECT ids.id, pg_current_xact_id()
    FROM unnest(%b::bytea[]) AS ids(id) ON CONFLICT DO NOTHING RETURNING id
"""
LOCK: Final = f"{LOOK} ORDER BY id FOR UPDATE"
UNCLAIM: Final = "DELETE FROM sessions WHERE id = %b"

TAKE_AWAY: Final = """
    UPDATE sessions SET ordinal = NULL, deleted = %s, changed = pg_current_xact_id(),
        created_at = 0, parent = NULL, length = 0, last_time = NULL, header = '', crc = 0
    WHERE id = %b
"""
FORGET: Final = "UPDATE sessions SET deleted = false WHERE id = %b"


def append(database: Database, batches: Sequence[Batch]) -> list[Outcome]:
    """
    Store each batch or refuse it, in the order given, in one transaction where that can be.

    Returns:
        For each the next free seq, or why it was not stored. After a
        :class:`~eventlog.errors.StoreUnavailable` it may have been all the same, and is to
        be sent again.
    """
    places: dict[str, list[int]] = {}
    for place, batch in enumerate(batches):
        places.setdefault(batch.header.id, []).append(place)
    # In the order of ids all writers claim and lock rows, so that none wait in a circle.
    groups = {
        session_id: [batches[place] for place in places[session_id]]
        for session_id in sorted(places, key=str.encode)
    }
    outcomes: list[Outcome] = [0] * len(batches)
    for session_id, found in _appended(database, groups).items():
        for place, outcome in zip(places[session_id], found, strict=True):
            outcomes[place] = outcome
    return outcomes


def _appended(database: Database, groups: Groups) -> Outcomes:
    try:
        has_events = any(batch.events for group in groups.values() for batch in group)
        if not has_events or not database.is_there():
            found = _judged(database, groups)
            # A batch that is refused must not leave an empty store behind.
            if not has_events or not _any_to_store(groups, found):
                return found
        wait_s = min(SHARED_WAIT_S, database.lock_wait_s) if len(groups) > 1 else None
        return _stored(database, groups, wait_s)
    except EventLogError as error:
        if len(groups) == 1 or isinstance(error, StoreUnavailable):
            return {key: [error] * len(group) for key, group in groups.items()}
    # One of them was too much for the database, or is held by somebody.
    return _stored_apart(database, groups)


def _stored_apart(database: Database, groups: Groups) -> Outcomes:
    found: dict[str, Sequence[Outcome]] = {}
    gone: StoreUnavailable | None = None
    for key, group in groups.items():
        try:
            if gone is not None:
                raise gone
            found[key] = _stored(database, {key: group}, None)[key]
        except EventLogError as error:
            found[key] = [error] * len(group)
            gone = error if isinstance(error, StoreUnavailable) else None
    return found


def _any_to_store(groups: Groups, found: Outcomes) -> bool:
    return any(
        batch.events and isinstance(outcome, int)
        for key, group in groups.items()
        for batch, outcome in zip(group, found[key], strict=True)
    )


def _judged(database: Database, groups: Groups) -> Outcomes:
    """Judge batches by what is stored now; nothing is stored."""

    def judge(connection: Connection | None) -> Outcomes:
        if connection is None:
            absent = AbsentLog()
            return {key: [_outcome(absent, one) for one in group] for key, group in groups.items()}
        rows = _rows(connection, LOOK, [key.encode() for key in groups])
        return {key: _each(connection, key, rows, group) for key, group in groups.items()}

    return database.read_still(judge)


def _stored(database: Database, groups: Groups, wait_s: float | None) -> Outcomes:
    """Store what is admitted, all of it or nothing."""
    ids = [key.encode() for key in groups]

    def store(connection: Connection) -> Outcomes:
        found: dict[str, Sequence[Outcome]] = {}
        claim = connection.execute(CLAIM, (ids,), binary=True)
        rows = _rows(connection, LOCK, ids)
        claimed = {row[0] for row in claim.fetchall()}
        for key, group in groups.items():
            found[key] = _each(connection, key, rows, group, store=True)
            if key.encode() in claimed and not _any_to_store({key: group}, found):
                connection.execute(UNCLAIM, (key.encode(),))
        return found

    return database.write(store, lock_wait_s=wait_s)


def _rows(connection: Connection, query: LiteralString, ids: Sequence[bytes]) -> dict[bytes, Any]:
    return {row[0]: row for row in connection.ask(query, (list(ids),))}


def _each(
    connection: Connection,
    session_id: str,
    rows: Mapping[bytes, Any],
    group: Sequence[Batch],
    *,
    store: bool = False,
) -> list[Outcome]:
    """Judge batches of one session one after the other, and *store* what is admitted."""
    try:
        log = Log(connection, session_id, rows.get(session_id.encode()))
    except EventLogError as error:
        return [error] * len(group)
    return [_outcome(log, batch, log if store else None) for batch in group]


def _outcome(log: ReadableLog, batch: Batch, target: WritableLog | None = None) -> Outcome:
    # Judged before anything is put, so that a refused batch leaves the others alone.
    try:
        admission = admit(log, batch)
    except EventLogError as error:
        return error
    if admission.events and target is not None:
        target.write(admission)
    return admission.length


@contextmanager
def held(database: Database, session_id: str) -> Iterator[WritableLog]:
    """
    Hold one session against every other writer. What is written is stored at the end.

    Raises:
        StoreBusy: Another writer holds it for too long.
    """
    key = session_id.encode()
    with database.writing() as connection:
        claim = connection.execute(CLAIM, ([key],))
        log = Log(connection, session_id, _rows(connection, LOCK, [key])[key])
        yield log
        if claim.fetchall() and not log.is_there:
            connection.execute(UNCLAIM, (key,))


def remove(database: Database, session_id: str, *, forget: bool) -> bool:
    """
    Take a session away in one transaction, and remember it as deleted unless *forget*.

    The row of its id stays: it says that there was a change.

    Returns:
        Whether there was anything to take away.
    """
    key = session_id.encode()

    def take_away(connection: Connection) -> bool:
        query = "SELECT ordinal, deleted FROM sessions WHERE id = %b FOR UPDATE"
        rows = connection.ask(query, (key,))
        if not rows:
            return False
        ordinal, was_deleted = rows[0]
        if ordinal is None:
            if forget and was_deleted:
                connection.execute(FORGET, (key,))
            return forget and bool(was_deleted)
        connection.execute(TAKE_AWAY, (not forget, key))
        for table in LOG_TABLES:
            deletion = sql.SQL("DELETE FROM {} WHERE ordinal = %s").format(sql.Identifier(table))
            connection.execute(deletion, (ordinal,))
        return True

    return database.is_there() and database.write(take_away)
