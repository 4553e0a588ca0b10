"""
Stores that break one promise of appending, deleting or keeping each.

Every class says in its docstring what is wrong with it, and in ``promise`` which test of
the contract has to fail for it; ``fails_with`` is what that test may raise beside what
a failed promise raises.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from eventlog import Batch, Event, SessionHead, SessionHeader
from eventlog.admission import Admission, WritableLog
from eventlog.drivers.memory import MemoryStore, _Writing
from eventlog.errors import (
    CorruptLog,
    EventLogError,
    HeaderConflict,
    SequenceConflict,
    SessionDeleted,
)
from eventlog.log import MemoryLog
from support.sqlite_example import SqliteStore


class BrokenMemory(MemoryStore):
    """A memory store with a fault; gone with its object."""

    promise: ClassVar[str]
    fails_with: ClassVar[str] = "AssertionError"

    def __init__(self, root: Path, *, read_only: bool = False) -> None:
        super().__init__(read_only=read_only)


class BrokenSqlite(SqliteStore):
    """The example driver with a fault; it stays on its medium."""

    promise: ClassVar[str]
    fails_with: ClassVar[str] = "AssertionError"

    def __init__(self, root: Path, *, read_only: bool = False) -> None:
        super().__init__(root / "log.sqlite", read_only=read_only)


class LostEvent(BrokenMemory):
    """Loses the last event of a large batch, and says that it has it."""

    promise = "test_large_batch_is_stored_whole"

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        if isinstance(events, list) and len(events) > 1_000:
            return super().append(header, events[:-1]) + 1
        return super().append(header, events)


class TornBatchKept(BrokenMemory):
    """Stores a batch event by event, and keeps those before a refused one."""

    promise = "test_refused_batch_stores_nothing"

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        if isinstance(events, list) and all(type(event) is Event for event in events):
            for event in events[:-1]:
                super().append(header, [event])
            events = events[-1:]
        return super().append(header, events)


class WrongConflictNumbers(BrokenMemory):
    """Tells the two numbers of a sequence conflict in each other's place."""

    promise = "test_gap_before_the_batch_is_a_conflict"

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        try:
            return super().append(header, events)
        except SequenceConflict as error:
            raise SequenceConflict(error.session_id, error.actual, error.expected) from error


class ConflictIgnored(BrokenMemory):
    """Takes every batch that starts below the log's end for a retry."""

    promise = "test_d1_second_writer_gets_a_conflict"

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        length = self._logs[header.id].length if header.id in self._logs else 0
        return super().append(header, [event for event in events if event.seq >= length])


class HeaderOverwritten(BrokenMemory):
    """Refuses another header, but takes it over."""

    promise = "test_header_conflict_stores_nothing"

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        try:
            return super().append(header, events)
        except HeaderConflict:
            self._logs[header.id].header = header
            raise


class LaterFieldNamed(BrokenMemory):
    """Names the last field in which two headers differ."""

    promise = "test_header_conflict_names_the_first_field"

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        try:
            return super().append(header, events)
        except HeaderConflict as error:
            stored = self._logs[header.id].header
            names = [
                name for name in HEADER_NAMES if getattr(stored, name) != getattr(header, name)
            ]
            # In a field by another name, such as extra, the store is as good as any.
            raise HeaderConflict(
                error.session_id, names[-1] if names else error.field, error.stored, error.given
            ) from error


class RetryDuplicates(BrokenMemory):
    """Appends what is sent again under the next free seqs."""

    promise = "test_d6_retry_adds_nothing"

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        length = self._logs[header.id].length if header.id in self._logs else 0
        if events and events[0].seq < length:
            events = [
                Event.from_payload(
                    length + place, event.time, event.type, event.payload, event.surface_op
                )
                for place, event in enumerate(events)
            ]
        return super().append(header, events)


class EmptyAppendCreates(BrokenMemory):
    """Makes a session of an append without events."""

    promise = "test_empty_append_creates_nothing"

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        length = super().append(header, events)
        if header.id not in self._logs:
            self._create(MemoryLog(header))
        return length


class ClockDecides(BrokenMemory):
    """Takes an event that is not later than the last one for a stale one."""

    promise = "test_d3_clock_decides_nothing"

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        head = self._head(header.id)
        if head is not None and events and events[0].seq == head.length:
            assert head.last_time is not None
            if events[0].time <= head.last_time:
                raise SequenceConflict(header.id, head.length, events[0].seq)
        return super().append(header, events)


class FirstErrorEndsTheCall(BrokenMemory):
    """Raises the first error of several batches."""

    promise = "test_append_many_batches_stand_alone"

    def append_many(self, batches: Sequence[Batch]) -> list[int | EventLogError]:
        return [self.append(batch.header, batch.events) for batch in batches]


class RefusalsOutOfOrder(BrokenMemory):
    """Looks at the sequence before it looks at the header."""

    promise = "test_order_of_refusals"

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        try:
            return super().append(header, events)
        except HeaderConflict as error:
            length = self._logs[header.id].length
            if events and events[0].seq > length:
                raise SequenceConflict(header.id, length, events[0].seq) from error
            raise


class WritersUnlocked(BrokenMemory):
    """Judges a batch and writes it without keeping other threads out."""

    promise = "test_d12_threads_append_to_one_session"
    fails_with = "IndexError"

    @contextmanager
    def _writing(self, session_id: str) -> Iterator[WritableLog]:
        yield _Hesitant(self, session_id)


class _Hesitant(_Writing):
    def write(self, admission: Admission) -> None:
        time.sleep(0.0005)
        super().write(admission)


class TombstoneForgotten(BrokenMemory):
    """Does not remember deletions."""

    promise = "test_h9_append_to_a_deleted_session_is_refused"

    def _delete(self, session_id: str, forget: bool) -> bool:
        deleted = super()._delete(session_id, forget)
        self._deleted.clear()
        return deleted


class TombstoneInMemory(BrokenSqlite):
    """Remembers deletions until it is closed."""

    promise = "test_deletion_outlives_the_store"

    def __init__(self, root: Path, *, read_only: bool = False) -> None:
        super().__init__(root, read_only=read_only)
        self._gone: set[str] = set()

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        if header.id in self._gone:
            raise SessionDeleted(header.id)
        return super().append(header, events)

    def _delete(self, session_id: str, forget: bool) -> bool:
        remembered = session_id in self._gone
        deleted = super()._delete(session_id, True)
        self._gone.discard(session_id)
        if deleted and not forget:
            self._gone.add(session_id)
        return deleted or (forget and remembered)


class UnknownDeletionRemembered(BrokenMemory):
    """Remembers the deletion of a session that never was."""

    promise = "test_deleting_an_unknown_session"

    def _delete(self, session_id: str, forget: bool) -> bool:
        self._deleted.add(session_id)
        return super()._delete(session_id, forget)


class SurfaceInherited(BrokenSqlite):
    """Keeps the fold of a deleted session for the next one of its id."""

    promise = "test_new_session_inherits_nothing"

    def _identity(self, head: SessionHead) -> Hashable:
        return head.header.id


class NanAccepted(BrokenSqlite):
    """Reads NaN, which is no JSON, as null."""

    promise = "test_malformed_records_are_damage"

    def _decoded(self, line: bytes, session_id: str, seq: int | None) -> object:
        try:
            return super()._decoded(line, session_id, seq)
        except CorruptLog:
            if b"NaN" not in line or seq is None:
                raise
            return Event(seq, 0, "x/note", {"text": None})


class DamageSkipped(BrokenSqlite):
    """Leaves out what it cannot read."""

    promise = "test_damage_is_where_it_is"

    def _read_events(self, head: SessionHead, start: int, stop: int) -> list[Event]:
        found: list[Event] = []
        for seq in range(start, stop):
            try:
                found += super()._read_events(head, seq, seq + 1)
            except EventLogError:
                continue
        return found


class TextNormalised(BrokenMemory):
    """Composes the accents of every text."""

    promise = "test_values_come_back_exactly"

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        return super().append(header, [composed(event) for event in events])


class IdsFoldedByCase(BrokenMemory):
    """Takes ids that differ in case for one."""

    promise = "test_i3_ids_that_are_kept"

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        known = {session_id.casefold(): session_id for session_id in self._logs}
        session_id = known.get(header.id.casefold(), header.id)
        return super().append(SessionHeader(session_id, header.created_at), events)


class StateStoredEachTime(BrokenSqlite):
    """Stores the whole log again at each append."""

    promise = "test_g8_stored_bytes_are_those_of_the_events"

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        length = super().append(header, events)
        with self._transaction("BEGIN IMMEDIATE") as db:
            db.execute("CREATE TABLE IF NOT EXISTS state(id TEXT, all_lines BLOB)")
            lines = db.execute("SELECT line FROM event").fetchall()
            db.execute(
                "INSERT INTO state VALUES (?, ?)", (header.id, b"".join(x for (x,) in lines))
            )
        return length


class ReadOnlyIgnored(BrokenMemory):
    """Writes although it was opened for reading."""

    promise = "test_read_only_store_refuses_writes"

    def __init__(self, root: Path, *, read_only: bool = False) -> None:
        super().__init__(root)


class OpeningCreates(BrokenSqlite):
    """Makes its folder when it is opened."""

    promise = "test_opening_creates_nothing"

    def __init__(self, root: Path, *, read_only: bool = False) -> None:
        root.mkdir(parents=True, exist_ok=True)
        super().__init__(root, read_only=read_only)


HEADER_NAMES = ("created_at", "cwd", "parent_session", "seed_length", "origin", "delegation_depth")


def composed(event: Event) -> Event:
    payload = unicodedata.normalize("NFC", event.payload.decode()).encode()
    return Event.from_payload(
        event.seq,
        event.time,
        event.type,
        payload,
        event.surface_op,
        event.source_event_seqs,
        event.ignorable,
    )
