"""
One session inside a transaction: what appending judges, and what it writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from eventlog.admission import Admission
from eventlog.model import Event, SessionHeader
from eventlog.snapshot import ScanMeter
from eventlog.surface import apply
from eventlog.tables import FoldTables, MemoryTables

from .connections import Connection
from .failures import Damaged, corrupt
from .records import (
    EVENT_COLUMNS,
    SESSION_COLUMNS,
    SessionRow,
    decode_events,
    encode_header,
    event_row,
    header_crc,
)
from .tables import RowWriter

__all__ = ["LOOK", "Log", "read_events"]

# What travels at once; a value of PostgreSQL may have 1 GB.
PIECE_EVENTS: Final = 4096
PIECE_BYTES: Final = 16 * 1024 * 1024

LOOK: Final = f"SELECT {SESSION_COLUMNS}, deleted FROM sessions WHERE id = ANY (%b::bytea[])"

READ: Final = (
    f"SELECT {EVENT_COLUMNS} FROM events WHERE ordinal = %s AND seq >= %s AND seq < %s ORDER BY seq"
)

BEGIN_LOG: Final = """
    UPDATE sessions SET ordinal = nextval('ordinals'), deleted = false,
        changed = pg_current_xact_id(), created_at = %s, parent = %b, header = %b, crc = %s
    WHERE id = %b RETURNING ordinal
"""

PUT_EVENTS: Final = f"""
    INSERT INTO events (ordinal, {EVENT_COLUMNS})
    SELECT %s, seq, time, type, is_node, replace_start, replace_end, sources::bigint[],
           ignorable, crc, payload
    FROM unnest(%b::bigint[], %b::bigint[], %b::bytea[], %b::boolean[], %b::bigint[],
                %b::bigint[], %b::text[], %b::boolean[], %b::integer[], %b::bytea[])
        AS e({EVENT_COLUMNS})
"""

MOVE_END: Final = """
    UPDATE sessions SET length = %s, last_time = %s, changed = pg_current_xact_id()
    WHERE ordinal = %s
"""


def read_events(
    connection: Connection, ordinal: int, start: int, stop: int
) -> tuple[list[Event], int]:
    """
    Read those of the events of ``[start, stop)`` that are there, and their bytes.

    Raises:
        Damaged: One before the last of them is missing, or one cannot be read.
    """
    return decode_events(connection.ask(READ, (ordinal, start, stop)), start)


class Log:
    """
    A session as :func:`eventlog.admission.admit` sees it.

    Args:
        connection: In a transaction that holds the session's row, to write; in any, to
            read.

        session_id: Whose it is.

        row: What :data:`LOOK` says of it, None where it says nothing.

    Raises:
        CorruptLog: The row cannot be read.
    """

    def __init__(self, connection: Connection, session_id: str, row: Sequence[Any] | None) -> None:
        self._connection = connection
        self._id = session_id
        self._ordinal: int | None = None
        self.header: SessionHeader | None = None
        self.length = 0
        self.deleted = False
        if row is None:
            return
        *columns, self.deleted = row
        if columns[1] is not None:
            try:
                found = SessionRow.decode(columns)
            except Damaged as damage:
                raise corrupt(session_id, "header", damage) from damage
            self._ordinal, self.header, self.length = found.ordinal, found.header, found.length

    @property
    def is_there(self) -> bool:
        return self._ordinal is not None

    @property
    def tables(self) -> FoldTables:
        return MemoryTables() if self._ordinal is None else self._writer(self._ordinal)

    def read(self, start: int, stop: int) -> list[Event]:
        if self._ordinal is None or start >= stop:
            return []
        try:
            events, _ = read_events(self._connection, self._ordinal, start, stop)
            if len(events) < stop - start:
                raise Damaged(start + len(events), "the event is missing")
        except Damaged as damage:
            raise corrupt(self._id, "event", damage) from damage
        return events

    def write(self, admission: Admission) -> None:
        """Put what was admitted, which is not empty, into the transaction."""
        connection, events = self._connection, admission.events
        if self._ordinal is None:
            self._ordinal = self._begin(admission.header)
            self.header, self.deleted = admission.header, False
        for piece in _pieces(events):
            columns = [list(column) for column in zip(*map(event_row, piece), strict=True)]
            connection.execute(PUT_EVENTS, (self._ordinal, *columns))
        tables = self._writer(self._ordinal)
        for step in admission.steps:
            apply(tables, step)
        tables.flush()
        self.length = admission.length
        connection.execute(MOVE_END, (self.length, events[-1].time, self._ordinal))

    def _begin(self, header: SessionHeader) -> int:
        line = encode_header(header)
        parent = None if header.parent_session is None else header.parent_session.encode()
        values = (header.created_at, parent, line, header_crc(line), self._id.encode())
        ((ordinal,),) = self._connection.ask(BEGIN_LOG, values)
        assert type(ordinal) is int
        return ordinal

    def _writer(self, ordinal: int) -> RowWriter:
        # Appending is not metered: its rows would be counted as those of a read.
        return RowWriter(self._connection, ordinal, ScanMeter())


def _pieces(events: Sequence[Event]) -> Iterator[list[Event]]:
    piece: list[Event] = []
    size = 0
    for event in events:
        if piece and (len(piece) == PIECE_EVENTS or size + len(event.payload) > PIECE_BYTES):
            yield piece
            piece, size = [], 0
        piece.append(event)
        size += len(event.payload)
    yield piece
