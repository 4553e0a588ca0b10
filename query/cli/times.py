"""
Times as people write and read them, in their own zone.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

from .failures import UsageError

__all__ = ["clock", "instant", "shown_time"]

_AGO: Final = re.compile(r"(\d{1,6})([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def instant(given: str | None, option: str) -> datetime | None:
    """
    Read a point in time: an ISO date or time, local where it names no zone, or an age
    such as ``90m``, ``3h``, ``7d``, ``2w``. None is None.

    Raises:
        UsageError: It is none of these; *option* is named.
    """
    if given is None:
        return None
    try:
        ago = _AGO.fullmatch(given)
        if ago is not None:
            return datetime.now().astimezone() - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        return datetime.fromisoformat(given).astimezone()
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"{option} takes a date or time such as 2025-12-01 or 2025-12-01T14:30, or an age "
            f"such as 90m, 3h, 7d, not {given!r}"
        ) from None


def shown_time(time_ms: int | None) -> str:
    """Return a time as date and time; "-" for none, the number where no calendar has it."""
    return _formatted(time_ms, "%Y-%m-%d %H:%M")


def clock(time_ms: int) -> str:
    """Return the time of day, with seconds."""
    return _formatted(time_ms, "%H:%M:%S")


def _formatted(time_ms: int | None, form: str) -> str:
    if time_ms is None:
        return "-"
    try:
        return datetime.fromtimestamp(time_ms / 1000).strftime(form)
    except (OverflowError, OSError, ValueError):
        return str(time_ms)
