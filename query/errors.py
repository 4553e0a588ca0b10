"""
The one error of the query layer, and how what lies below is told in its codes.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final, TypeGuard, TypeVar

from eventlog.errors import (
    CorruptLog,
    EventLogError,
    HeaderConflict,
    InvalidArgument,
    InvalidSurface,
    SessionNotFound,
    StoreUnavailable,
    UnsupportedFormat,
    ValueRejected,
)
from eventlog.model import Event
from eventlog.values import check_session_id, shown

__all__ = ["SessionQueryError", "SessionQueryErrorCode"]

T = TypeVar("T")


class SessionQueryErrorCode(StrEnum):
    """Why a query failed. No other code is ever given."""

    ABORTED = "SESSION_QUERY_ABORTED"
    """The call's *cancel* said so."""

    CORRUPT_SESSION = "SESSION_QUERY_CORRUPT_SESSION"
    """What was asked for touches damage in the stored log."""

    EVENT_NOT_FOUND = "SESSION_QUERY_EVENT_NOT_FOUND"
    """The session has no event of this seq."""

    INDEX_FAILED = "SESSION_QUERY_INDEX_FAILED"
    """The search index cannot be read or built."""

    INVALID_CONFIG = "SESSION_QUERY_INVALID_CONFIG"
    """The query object was given something that it cannot work with."""

    INVALID_CURSOR = "SESSION_QUERY_INVALID_CURSOR"
    """The cursor is none of ours, or belongs to another call."""

    INVALID_FILTER = "SESSION_QUERY_INVALID_FILTER"
    """A filter is malformed, or is no filter of this call."""

    INVALID_LIMIT = "SESSION_QUERY_INVALID_LIMIT"
    """The limit is no int ≥ 1."""

    INVALID_LINEAGE = "SESSION_QUERY_INVALID_LINEAGE"
    """Sessions name each other as parents in a circle."""

    INVALID_QUERY = "SESSION_QUERY_INVALID_QUERY"
    """The search query cannot be searched for."""

    INVALID_SURFACE = "SESSION_QUERY_INVALID_SURFACE"
    """The log's fold fails, so that no event of it has a class."""

    INVALID_WINDOW = "SESSION_QUERY_INVALID_WINDOW"
    """A *start*, *before*, *after* or *at* outside what the call accepts."""

    PERSISTENCE_FAILED = "SESSION_QUERY_PERSISTENCE_FAILED"
    """The mounted store cannot be read."""

    SEARCH_DISABLED = "SESSION_QUERY_SEARCH_DISABLED"
    """The query object was made without search."""

    SESSION_NOT_FOUND = "SESSION_QUERY_SESSION_NOT_FOUND"
    """No session, live or stored, has this id."""

    SOURCE_CONFLICT = "SESSION_QUERY_SOURCE_CONFLICT"
    """One id has different headers: live and stored, or listed and loaded."""

    STALE_CURSOR = "SESSION_QUERY_STALE_CURSOR"
    """The cursor's search can no longer be continued; begin it anew."""


class SessionQueryError(EventLogError):
    """
    A query that has no answer. Nothing else leaves the query layer on a bad argument, a
    bad store or a damaged log; the error below, where there is one, is its ``__cause__``.

    Attributes:
        code: The reason, for programs.

        detail: The reason, for a person.

        session_id: The session concerned, None where there is none.
    """

    def __init__(
        self, code: SessionQueryErrorCode, detail: str, session_id: str | None = None
    ) -> None:
        super().__init__(code, detail, session_id)
        self.code = code
        self.detail = detail
        self.session_id = session_id

    def _message(self) -> str:
        return f"{self.code}: {self.detail}"


Code: Final = SessionQueryErrorCode


class reading:  # noqa: N801 - reads as a statement
    """
    Tell whatever a source raises in codes.

    Args:
        session_id: The session that is read; None where the source is read as a whole.

    Only a call of the source belongs inside, so that no fault of our own passes for one
    of the store. A class, since every read enters one: a generator takes three times as long.
    """

    __slots__ = ("_session_id",)

    def __init__(self, session_id: str | None = None) -> None:
        self._session_id = session_id

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, SessionQueryError):
            raise told(error, self._session_id) from error


def told(error: Exception, session_id: str | None = None) -> SessionQueryError:
    """Return the query error that says what *error* of a source means; chain it yourself."""
    code, detail = Code.PERSISTENCE_FAILED, f"the store cannot be read: {_said(error)}"
    if session_id is not None:
        if isinstance(error, StoreUnavailable):
            detail = f"stored session {session_id!r} cannot be read: {_said(error)}"
        elif isinstance(error, SessionNotFound):
            code, detail = Code.SESSION_NOT_FOUND, f"no session {session_id!r}"
        elif isinstance(error, (CorruptLog, UnsupportedFormat)):
            code = Code.CORRUPT_SESSION
            detail = f"stored session {session_id!r} is corrupt: {_said(error)}"
        elif isinstance(error, InvalidSurface):
            code = Code.INVALID_SURFACE
            detail = f"session {session_id!r} has no surface: {_said(error)}"
        elif isinstance(error, HeaderConflict):
            code, detail = Code.SOURCE_CONFLICT, _said(error)
        elif isinstance(error, InvalidArgument) and error.name == "at":
            code, detail = Code.INVALID_WINDOW, _said(error)
    return SessionQueryError(code, detail, session_id)


def is_id(session_id: object) -> TypeGuard[str]:
    """Tell whether a session can have this id."""
    try:
        check_session_id(session_id)
    except ValueRejected:
        return False
    return True


def check_id(session_id: object) -> None:
    """
    Refuse what can be no session's id.

    Raises:
        SessionQueryError: SESSION_NOT_FOUND: no session can have it.
    """
    try:
        check_session_id(session_id)
    except ValueRejected as error:
        raise SessionQueryError(Code.SESSION_NOT_FOUND, f"no session: {error}") from error


def not_found(session_id: str) -> SessionQueryError:
    """Return the error for an id that no source has."""
    return SessionQueryError(Code.SESSION_NOT_FOUND, f"no session {session_id!r}", session_id)


def check_cancel(cancel: Callable[[], bool] | None) -> None:
    """
    Stop a call that is no longer wanted.

    Args:
        cancel: Asked once; None never cancels. What it raises goes to its owner as it is.

    Raises:
        SessionQueryError: ABORTED where it answers true, INVALID_CONFIG where it is no
            callable.
    """
    if cancel is None:
        return
    if not callable(cancel):
        raise SessionQueryError(
            Code.INVALID_CONFIG, f"cancel must be callable, not {type(cancel).__name__}"
        )
    if cancel():
        raise SessionQueryError(Code.ABORTED, "the call was cancelled")


def asked(answer: Callable[[Event], T], event: Event) -> T:
    """
    Return what a method of the vocabulary says of *event*; its functions are a harness's.

    Raises:
        SessionQueryError: INVALID_CONFIG: it fails.
    """
    try:
        return answer(event)
    except Exception as error:
        raise SessionQueryError(
            Code.INVALID_CONFIG, f"the vocabulary fails on {event.type} {event.seq}: {_said(error)}"
        ) from error


def _said(error: Exception) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:
        return type(error).__name__


def check_limit(limit: object) -> None:
    """
    Refuse *limit* unless it is an int ≥ 1.

    Raises:
        SessionQueryError: INVALID_LIMIT.
    """
    if type(limit) is not int or limit < 1:
        raise SessionQueryError(Code.INVALID_LIMIT, f"limit must be an int ≥ 1, not {shown(limit)}")
