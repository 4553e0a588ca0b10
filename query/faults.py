"""
Faults: what a listing reports of sessions that it could not read.
"""

from __future__ import annotations

from collections.abc import Iterable

from eventlog.errors import CorruptLog, StoreUnavailable
from eventlog.model import Fault

from .errors import Code, SessionQueryError

__all__ = ["distinct", "fault_of", "fault_of_denied"]


def fault_of(error: SessionQueryError) -> Fault:
    """Return the fault that a listing reports for a session that it could not read."""
    cause = error.__cause__
    if isinstance(cause, CorruptLog):
        return Fault(error.session_id, cause.path, cause.kind, cause.detail or str(cause))
    if isinstance(cause, StoreUnavailable):
        return fault_of_denied(error.session_id, cause)
    kind = "conflict" if error.code is Code.SOURCE_CONFLICT else "unreadable"
    return Fault(error.session_id, None, kind, error.detail)


def fault_of_denied(session_id: str | None, error: StoreUnavailable) -> Fault:
    """Return the fault of a session whose file cannot be opened, though its store can."""
    kind = "denied" if isinstance(error.__cause__, PermissionError) else "unavailable"
    return Fault(session_id, error.path, kind, error.detail or str(error))


def distinct(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Return *faults* in order, each place and kind once."""
    found: dict[tuple[str | None, str | None, str], Fault] = {}
    for fault in faults:
        found.setdefault((fault.session_id, fault.path, fault.kind), fault)
    return tuple(found.values())
