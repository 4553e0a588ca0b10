"""
Taking sessions away.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import lmdb

from eventlog.errors import StoreBusy, StoreFull
from eventlog.locks import unowned

from .environment import Environment
from .handle import Databases
from .layout import TOMBSTONE, U64, Damaged, child_key, newest_key, tombstone_in
from .logs import Feed, corrupt, session_row

__all__ = ["remove"]

# A bound on how long the writer is held: about 20 ms.
REMOVED_AT_ONCE: Final = 10_000


def remove(environment: Environment, session_id: str, *, forget: bool, wait_s: float) -> bool:
    """
    Take a session away, and remember it as deleted unless *forget*.

    It is gone with one commit; its events and rows follow in bounded ones. What a crash
    leaves of them cannot be read, and goes with the next removal.

    Returns:
        Whether there was anything to take away.

    Raises:
        CorruptLog: The session's row cannot be read.

        StoreBusy, StoreFull, StoreReadOnly, StoreUnavailable: Nothing was changed.
    """

    def take_away(transaction: lmdb.Transaction[bytes], databases: Databases) -> bool:
        return _take_away(transaction, databases, session_id, forget)

    if not environment.is_there():
        return False
    with unowned(environment.writing), environment.writer:
        found = environment.write(take_away, wait_s=wait_s)
    # The session is gone; the rest is housekeeping that a later call can do as well.
    with suppress(StoreBusy, StoreFull):
        more = found
        while more:
            with unowned(environment.writing), environment.writer:
                more = environment.write(_remove_remains, wait_s=wait_s)
    return found


def _take_away(
    transaction: lmdb.Transaction[bytes], databases: Databases, session_id: str, forget: bool
) -> bool:
    key = session_id.encode()
    try:
        row = session_row(transaction, databases, session_id)
    except Damaged as damage:
        raise corrupt(session_id, "header", damage) from damage
    if row is None:
        tombstone = transaction.get(key, db=databases.tombstones)
        if tombstone is None or not forget:
            return False
        position, deleted = tombstone_in(tombstone)
        transaction.put(key, TOMBSTONE.pack(position, 0), db=databases.tombstones)
        return deleted
    header = row.header
    feed = Feed(transaction, databases)
    position = feed.next_position()
    feed.move(session_id, row.position, position)
    transaction.delete(key, db=databases.sessions)
    transaction.delete(newest_key(header.created_at, session_id), db=databases.newest)
    if header.parent_session is not None:
        transaction.delete(
            child_key(header.parent_session, header.created_at, session_id), db=databases.children
        )
    transaction.put(key, TOMBSTONE.pack(position, not forget), db=databases.tombstones)
    transaction.put(U64.pack(row.ordinal), b"", db=databases.remains)
    return True


def _remove_remains(transaction: lmdb.Transaction[bytes], databases: Databases) -> bool:
    """Remove some rows of deleted sessions; return whether there are more."""
    left = REMOVED_AT_ONCE
    with transaction.cursor(databases.remains) as remains:
        while left and remains.first():
            ordinal = remains.key()
            for database in (databases.events, databases.rows):
                with transaction.cursor(database) as cursor:
                    found = cursor.set_range(ordinal)
                    while left and found and cursor.key().startswith(ordinal):
                        found = cursor.delete()
                        left -= 1
            if left:
                remains.delete()
        return remains.first()
