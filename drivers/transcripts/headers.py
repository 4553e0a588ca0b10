"""
The header of an imported session.
"""

from __future__ import annotations

from pathlib import Path

from eventlog.errors import CorruptLog, ValueRejected
from eventlog.model import SessionHeader
from eventlog.values import JSONValue, check_session_id

from .conversation import Object

__all__ = ["imported_header", "is_session_id"]


def imported_header(
    tool: str,
    path: Path,
    session_id: JSONValue,
    created_at: int | None,
    *,
    cwd: JSONValue = None,
    parent: JSONValue = None,
    seed_length: int | None = None,
    depth: int = 0,
    facts: Object | None = None,
) -> SessionHeader:
    """
    Build the header of a session from what its transcript says of it, whatever that is.

    Args:
        path: What an error calls the transcript.

        created_at: Unix milliseconds; None where no time is known.

        cwd: Its working directory; what is no path is left out.

        parent: The session that it comes from; what is no id, or its own, is left out.

        seed_length: How many of its entries are inherited from *parent*.

        depth: How deep it was delegated, 0 for a session that is no sub-agent's.

        facts: What else is kept, beside the tool's name.

    Raises:
        CorruptLog: *session_id* is none.
    """
    try:
        check_session_id(session_id)
    except ValueRejected as error:
        detail = f"it names no session: {error}"
        raise CorruptLog(None, str(path), None, None, None, "header", detail) from error
    has_parent = parent != session_id and is_session_id(parent)
    return SessionHeader(
        session_id,
        max(created_at or 0, 0),
        cwd=cwd if type(cwd) is str and cwd else None,
        parent_session=parent if has_parent else None,
        seed_length=seed_length if has_parent else None,
        origin="subagent" if has_parent and depth else None,
        delegation_depth=depth if has_parent else 0,
        extra={"import": {"tool": tool, **(facts or {})}},
    )


def is_session_id(value: JSONValue) -> bool:
    """Tell whether a value that a transcript has is the id of a session."""
    try:
        check_session_id(value)
    except ValueRejected:
        return False
    return True
