"""
What PostgreSQL and libpq say, in the terms of :mod:`eventlog.errors`.
"""

from __future__ import annotations

import psycopg
from psycopg import errors

from eventlog.errors import (
    CorruptLog,
    EventLogError,
    StoreBusy,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)

__all__ = ["Damaged", "corrupt", "translated"]


class Damaged(Exception):
    """
    A row that is not what was written. The caller knows whose it is.

    Attributes:
        seq: The event concerned, None where it is none.

        detail: What was seen.
    """

    def __init__(self, seq: int | None, detail: str) -> None:
        super().__init__(seq, detail)
        self.seq = seq
        self.detail = detail


def corrupt(session_id: str, kind: str, damage: Damaged) -> CorruptLog:
    """Return the error that the library raises for *damage* of a session."""
    return CorruptLog(session_id, None, None, None, damage.seq, kind, damage.detail)


def translated(
    error: psycopg.Error, location: str, *, writing: bool, waited_s: float
) -> EventLogError:
    """Return the error that the library raises for *error*, met while *writing* or reading."""
    detail = error.diag.message_primary or " ".join(str(error).split())
    match error:
        case errors.LockNotAvailable() | errors.DeadlockDetected() | errors.SerializationFailure():
            return StoreBusy(None, waited_s)
        case errors.DiskFull():
            return StoreFull(location)
        case errors.ReadOnlySqlTransaction():
            return StoreReadOnly(location)
        case errors.InsufficientPrivilege() if writing:
            return StoreReadOnly(location)
        case errors.DataCorrupted() | errors.IndexCorrupted():
            return CorruptLog(None, location, None, None, None, "page", detail)
        case errors.UndefinedTable() | errors.InvalidSchemaName():
            return StoreUnavailable(location, "its tables were dropped")
    return StoreUnavailable(location, detail)
