"""
Giving all of one session that can be read.
"""

from __future__ import annotations

from collections.abc import Iterator

import lmdb
from attrs import evolve

from eventlog.errors import SessionNotFound
from eventlog.findings import Gap
from eventlog.model import Event

from .environment import Environment
from .handle import Databases
from .layout import Damaged, SessionRow
from .logs import check_alive, session_row
from .verifying import claimed_ordinal, stored_events

__all__ = ["salvaged"]


def salvaged(environment: Environment, session_id: str) -> Iterator[Event | Gap] | None:
    """
    Return a session's events, with a gap wherever they do not continue; None without it.

    Raises:
        SessionNotFound: Once it is read: the session was deleted meanwhile, and what is
            missing was not lost.
    """
    gap: Gap | None = None
    length: int | None = None
    with environment.reading() as reading:
        databases = reading.databases
        if databases is None:
            return None
        try:
            row = session_row(reading.transaction, databases, session_id)
            if row is None:
                return None
            ordinals, length = [row.ordinal], row.length
        except Damaged as damage:
            value = reading.transaction.get(session_id.encode(), db=databases.sessions)
            ordinals = _unclaimed(reading.transaction, databases, value or b"")
            gap = Gap("header", None, None, detail=damage.detail)
    return _walk(environment, session_id, ordinals, length, gap)


def _unclaimed(
    transaction: lmdb.Transaction[bytes], databases: Databases, value: bytes
) -> list[int]:
    """Return the number that a damaged row says, unless it is that of another session."""
    claimed = claimed_ordinal(value)
    with transaction.cursor(databases.sessions) as cursor:
        for other in cursor.iternext(False, True):
            try:
                if other != value and SessionRow.decode(other).ordinal in claimed:
                    return []
            except Damaged:
                continue
    return claimed


def _walk(
    environment: Environment,
    session_id: str,
    ordinals: list[int],
    length: int | None,
    gap: Gap | None,
) -> Iterator[Event | Gap]:
    expected = 0
    for ordinal in ordinals:
        for stored in stored_events(environment, ordinal):
            if length is not None and stored.seq >= length:
                break
            if stored.seq > expected and gap is None:
                gap = Gap("event", expected, None, detail="events are missing")
            if stored.event is None:
                gap = gap or Gap("event", stored.seq, None, detail=stored.detail)
            else:
                if gap is not None:
                    _check_alive(environment, session_id, ordinals)
                    yield evolve(gap, next_seq=stored.seq)
                    gap = None
                yield stored.event
            expected = stored.seq + 1
    if gap is None and length is not None and expected < length:
        gap = Gap("event", expected, None, detail="events are missing")
    if gap is not None or length is None:
        _check_alive(environment, session_id, ordinals)
    if gap is not None:
        yield gap


def _check_alive(environment: Environment, session_id: str, ordinals: list[int]) -> None:
    with environment.reading() as reading:
        if reading.databases is None:
            raise SessionNotFound(session_id)
        for ordinal in ordinals:
            try:
                check_alive(reading.transaction, reading.databases, session_id, ordinal)
            except Damaged:
                pass  # its row is there
