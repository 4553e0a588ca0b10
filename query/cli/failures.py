"""
How a command ends: its exit code, and the one line that says why.
"""

from __future__ import annotations

from typing import Final

from eventlog.errors import (
    CorruptLog,
    EventLogError,
    HeaderConflict,
    InvalidArgument,
    InvalidSurface,
    MissingExtra,
    SequenceConflict,
    SessionDeleted,
    SessionNotFound,
    UnsupportedFormat,
    ValueRejected,
)
from eventlog.query.errors import SessionQueryError
from eventlog.query.errors import SessionQueryErrorCode as Code

from . import INTERRUPTED

__all__ = [
    "DAMAGED",
    "DONE",
    "FAILED",
    "INTERRUPTED",
    "NONE_FOUND",
    "PIPE_CLOSED",
    "USAGE",
    "NothingFound",
    "UsageError",
    "code_of",
    "describe",
]

DONE: Final = 0
NONE_FOUND: Final = 1
"""Nothing answers to what was asked: no session, no event, an empty list."""
USAGE: Final = 2
"""The command was called wrongly; click's own code, too."""
DAMAGED: Final = 3
"""Damage was found; what could be read was answered. A copy that refused something, too."""
FAILED: Final = 4
"""The store, or the place written to, cannot be reached, is busy, full or read-only."""
PIPE_CLOSED: Final = 141


class NothingFound(EventLogError, LookupError):
    """Nothing answers to what a command was asked for. The one fact is the line to say."""


class UsageError(EventLogError, ValueError):
    """A command was called wrongly, as no parser can tell. The one fact is the line to say."""


_DAMAGE: Final = (
    CorruptLog,
    InvalidSurface,
    HeaderConflict,
    SequenceConflict,
    UnsupportedFormat,
)
_NOT_FOUND: Final = (NothingFound, SessionNotFound, SessionDeleted)
_USAGE: Final = (UsageError, InvalidArgument, ValueRejected, MissingExtra)

_QUERY_CODES: Final = {
    Code.SESSION_NOT_FOUND: NONE_FOUND,
    Code.EVENT_NOT_FOUND: NONE_FOUND,
    Code.CORRUPT_SESSION: DAMAGED,
    Code.INVALID_LINEAGE: DAMAGED,
    Code.INVALID_SURFACE: DAMAGED,
    Code.SOURCE_CONFLICT: DAMAGED,
    Code.INDEX_FAILED: FAILED,
    Code.PERSISTENCE_FAILED: FAILED,
    Code.ABORTED: INTERRUPTED,
}


def describe(error: Exception) -> tuple[int, str]:
    """Return the exit code of *error* and the line that tells a person."""
    if isinstance(error, SessionQueryError):
        return _QUERY_CODES.get(error.code, USAGE), error.detail
    if isinstance(error, EventLogError):
        return code_of(type(error)), str(error)
    if isinstance(error, OSError) and error.strerror:
        place = "" if error.filename is None else f"{error.filename}: "
        return FAILED, f"{place}{error.strerror}"
    # A fault of ours: named, so that it can be reported.
    return FAILED, f"{type(error).__name__}: {error}"


def code_of(error: type[EventLogError]) -> int:
    """Return the exit code of a class of errors."""
    if issubclass(error, _NOT_FOUND):
        return NONE_FOUND
    if issubclass(error, _DAMAGE):
        return DAMAGED
    return USAGE if issubclass(error, _USAGE) else FAILED
