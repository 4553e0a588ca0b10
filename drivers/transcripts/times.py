"""
Times of foreign records, as Unix milliseconds.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from eventlog.values import TIME_MAX, JSONValue

__all__ = ["iso_ms", "number_ms"]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
DAY_MS: Final = 86_400_000


def iso_ms(value: JSONValue) -> int | None:
    """
    Return the time that an ISO 8601 text gives; None where it gives none.

    A text without a zone is read as UTC.
    """
    if type(value) is not str:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    passed = moment - EPOCH
    return passed.days * DAY_MS + passed.seconds * 1000 + passed.microseconds // 1000


def number_ms(value: JSONValue) -> int | None:
    """Return a number of milliseconds as a time; None where it is no such number."""
    if type(value) is int and -TIME_MAX <= value <= TIME_MAX:
        return value
    if type(value) is float and -TIME_MAX <= value <= TIME_MAX:
        return int(value)
    return None
