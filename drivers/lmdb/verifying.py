"""
Verifying an environment: each session's events against a fresh fold, and each index
against the sessions. Reads only, in short transactions, beside readers and writers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import lmdb
from attrs import frozen

from eventlog.errors import EventLogError
from eventlog.findings import Change, Finding
from eventlog.model import Event
from eventlog.verifying import FoldCheck, finding_of

from .environment import Environment
from .handle import Databases
from .layout import (
    EVENT_KEY,
    TOMBSTONE,
    U64,
    Damaged,
    SessionRow,
    child_key,
    decode_events,
    newest_key,
)
from .reading import Reading
from .tables import rows_of, seq_of_row

__all__ = ["Stored", "claimed_ordinal", "decoded", "stored_events", "verified"]

# What one transaction reads, about 10 ms.
EVENTS_AT_ONCE: Final = 1024
REBUILD: Final = Change("rebuild")


@frozen
class Stored:
    """
    What stands at the key of an event.

    Attributes:
        seq: The seq that its key says.

        event: The event, None where the value is not one.

        detail: Why it is not.
    """

    seq: int
    event: Event | None
    detail: str = ""


def verified(environment: Environment) -> Iterator[Finding]:
    """
    Yield what is wrong with the indexes, and then with each session, by id.

    Raises:
        StoreUnavailable: The environment cannot be read.
    """
    with environment.reading() as reading:
        if reading.databases is None:
            return
        ids = _ids(reading.transaction, reading.databases)
        found = list(_Indexes(reading.transaction, reading.databases).findings())
    yield from found
    for session_id in ids:
        yield from _verified_session(environment, session_id)


def _ids(transaction: lmdb.Transaction[bytes], databases: Databases) -> list[str]:
    with transaction.cursor(databases.sessions) as cursor:
        return [key.decode(errors="replace") for key in cursor.iternext(True, False)]


class _Indexes:
    """The databases beside *sessions*, as of one transaction."""

    def __init__(self, transaction: lmdb.Transaction[bytes], databases: Databases) -> None:
        self._transaction = transaction
        self._databases = databases
        self._rows: dict[bytes, SessionRow] = {}
        self._damaged: set[bytes] = set()
        self._ordinals: set[int] = set()

    def findings(self) -> Iterator[Finding]:
        yield from self._sessions()
        newest: dict[bytes, bytes] = {}
        children: dict[bytes, bytes] = {}
        feed: dict[bytes, bytes] = {}
        for key, row in self._rows.items():
            header = row.header
            newest[newest_key(header.created_at, header.id)] = key
            if header.parent_session is not None:
                children[child_key(header.parent_session, header.created_at, header.id)] = key
            feed[U64.pack(row.position)] = key
        for key, value in self._items(self._databases.tombstones):
            if len(value) == TOMBSTONE.size:
                feed[U64.pack(TOMBSTONE.unpack(value)[0])] = key
            if key in self._rows:
                detail = "the session is stored, and remembered as deleted"
                yield Finding("index", _text(key), detail=detail)
        yield from self._compared("newest", newest, is_value=False)
        yield from self._compared("children", children, is_value=False)
        yield from self._compared("feed", feed, is_value=True)
        yield from self._orphans()

    def _sessions(self) -> Iterator[Finding]:
        for key, value in self._items(self._databases.sessions):
            try:
                row = SessionRow.decode(value)
                if row.header.id.encode() != key:
                    raise Damaged(None, f"the row is that of {row.header.id!r}")
            except Damaged as damage:
                self._damaged.add(key)
                self._ordinals.update(claimed_ordinal(value))
                yield Finding("header", _text(key), detail=damage.detail)
                continue
            if row.ordinal in self._ordinals:
                yield Finding("index", _text(key), detail="another session has its events")
            self._ordinals.add(row.ordinal)
            self._rows[key] = row

    def _compared(
        self, name: str, expected: dict[bytes, bytes], *, is_value: bool
    ) -> Iterator[Finding]:
        """Compare an index with what the sessions say; *expected* has their ids by key."""
        found = dict(self._items(getattr(self._databases, name)))
        for key, id_key in expected.items():
            if key not in found or (is_value and found[key] != id_key):
                detail = f"the session is missing in {name!r}"
                yield Finding("index", _text(id_key), detail=detail, change=REBUILD)
        for key in sorted(found.keys() - expected.keys()):
            # A session whose row cannot be read may well have this entry.
            if not any(key.endswith(one) or found[key] == one for one in self._damaged):
                detail = f"{name!r} names what is not there: {key!r:.120}"
                yield Finding("index", detail=detail, change=REBUILD)

    def _orphans(self) -> Iterator[Finding]:
        known = set(self._ordinals)
        known.update(U64.unpack(key)[0] for key, _ in self._items(self._databases.remains))
        for name in ("events", "rows"):
            with self._transaction.cursor(getattr(self._databases, name)) as cursor:
                found = cursor.first()
                while found:
                    if len(cursor.key()) < U64.size:
                        yield Finding("orphan", detail=f"a key in {name!r}: {cursor.key()!r}")
                        found = cursor.next()
                        continue
                    ordinal = U64.unpack_from(cursor.key())[0]
                    if ordinal not in known:
                        detail = f"{name!r} of number {ordinal}, which no session has"
                        yield Finding("orphan", detail=detail)
                    if ordinal == 2**64 - 1:
                        break
                    found = cursor.set_range(U64.pack(ordinal + 1))

    def _items(self, database: lmdb._Database) -> Iterator[tuple[bytes, bytes]]:
        with self._transaction.cursor(database) as cursor:
            yield from cursor.iternext(True, True)


def claimed_ordinal(value: bytes) -> list[int]:
    """Return the number that a damaged session's row says; none where it is too short."""
    return [int.from_bytes(value[:8], "little")] if len(value) >= U64.size else []


def _text(key: bytes) -> str:
    return key.decode(errors="replace")


def stored_events(environment: Environment, ordinal: int, start: int = 0) -> Iterator[Stored]:
    """
    Yield what stands at the keys of a session's events, by seq.

    Cost: a transaction for every 1,024.
    """
    while True:
        with environment.reading() as reading:
            if reading.databases is None:
                return
            items = list(_at_keys(reading, ordinal, start))
        yield from items
        if len(items) < EVENTS_AT_ONCE:
            return
        start = items[-1].seq + 1


def _at_keys(reading: Reading, ordinal: int, start: int) -> Iterator[Stored]:
    assert reading.databases is not None
    prefix = U64.pack(ordinal)
    with reading.transaction.cursor(reading.databases.events) as cursor:
        if not cursor.set_range(EVENT_KEY.pack(ordinal, start)):
            return
        for key, value in islice(cursor.iternext(True, True), EVENTS_AT_ONCE):
            if not key.startswith(prefix) or len(key) != EVENT_KEY.size:
                return
            seq = EVENT_KEY.unpack(key)[1]
            try:
                yield Stored(seq, decoded(value, seq))
            except Damaged as damage:
                yield Stored(seq, None, damage.detail)


def decoded(value: bytes, seq: int) -> Event:
    """
    Read the value of an event and hold it to every rule of the log.

    Raises:
        Damaged: It is not the event *seq* as the library writes one.
    """
    event = decode_events([value], seq, 1)[0][0]
    try:
        again = Event(
            event.seq,
            event.time,
            event.type,
            event.data,
            surface_op=event.surface_op,
            source_event_seqs=event.source_event_seqs,
            ignorable=event.ignorable,
        )
    except (EventLogError, ValueError) as error:
        raise Damaged(seq, f"the event is malformed: {error}") from error
    if again != event:
        raise Damaged(seq, "the payload is not canonical")
    return event


def _row_now(reading: Reading, session_id: str) -> SessionRow | None:
    if reading.databases is None:
        return None
    value = reading.transaction.get(session_id.encode(), db=reading.databases.sessions)
    try:
        return None if value is None else SessionRow.decode(value)
    except Damaged:
        return None  # told before


def _verified_session(environment: Environment, session_id: str) -> Iterator[Finding]:
    with environment.reading() as reading:
        row = _row_now(reading, session_id)
    if row is None:
        return
    fold, expected = FoldCheck(), 0
    for stored in stored_events(environment, row.ordinal):
        if stored.seq >= row.length:
            break
        if stored.seq > expected:
            yield _missing(session_id, expected, stored.seq)
        expected = stored.seq + 1
        if stored.event is None:
            yield Finding("event", session_id, seq=stored.seq, detail=stored.detail, change=REBUILD)
        elif (refused := fold.add(stored.event)) is not None:
            yield finding_of(refused, session_id)
    with environment.reading() as reading:
        now = _row_now(reading, session_id)
        if now is None or now.ordinal != row.ordinal:
            return  # deleted meanwhile
        if expected < row.length:
            yield _missing(session_id, expected, row.length)
        yield from _ends(reading, session_id, now)
        if fold.length < row.length:
            return
        for stored in _since(reading, now, row.length):
            if stored.event is not None:
                fold.add(stored.event)
        if fold.length == now.length:
            yield from _compared_rows(reading, session_id, now.ordinal, fold)


def _since(reading: Reading, row: SessionRow, start: int) -> Iterator[Stored]:
    """Yield what was appended meanwhile."""
    while start < row.length:
        items = list(_at_keys(reading, row.ordinal, start))
        if not items:
            return
        yield from items
        start = items[-1].seq + 1


def _missing(session_id: str, start: int, stop: int) -> Finding:
    many = f"{stop - start} events are missing" if stop - start > 1 else "the event is missing"
    return Finding("event", session_id, seq=start, detail=many, change=REBUILD)


def _ends(reading: Reading, session_id: str, row: SessionRow) -> Iterator[Finding]:
    assert reading.databases is not None
    beyond = next(_at_keys(reading, row.ordinal, row.length), None)
    if beyond is not None:
        detail = f"an event stands beyond the end, which is {row.length}"
        yield Finding("seq", session_id, seq=beyond.seq, detail=detail)
    last = None
    if row.length:
        last = next(_at_keys(reading, row.ordinal, row.length - 1), None)
    if last is not None and last.event is not None and last.event.time != row.last_time:
        detail = f"the last time is {last.event.time}, the session's row says {row.last_time}"
        yield Finding("row", session_id, seq=row.length - 1, detail=detail, change=REBUILD)


def _compared_rows(
    reading: Reading, session_id: str, ordinal: int, fold: FoldCheck
) -> Iterator[Finding]:
    """Compare the stored rows with those of a fresh fold, both in the order of their keys."""
    assert reading.databases is not None
    prefix = U64.pack(ordinal)
    counts = {"missing": 0, "different": 0, "too many": 0}
    first: int | None = None
    with reading.transaction.cursor(reading.databases.rows) as cursor:
        rows = cursor.iternext(True, True) if cursor.set_range(prefix) else iter(())
        for kind, key in _differences(rows_of(fold.tables, ordinal), _within(rows, prefix)):
            counts[kind] += 1
            first = seq_of_row(key) if first is None else first
    if any(counts.values()):
        many = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        detail = f"rows that disagree with a fresh fold: {many}"
        yield Finding("row", session_id, seq=first, detail=detail, change=REBUILD)


def _within(rows: Iterable[tuple[bytes, bytes]], prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    for key, value in rows:
        if not key.startswith(prefix):
            return
        yield key, value


def _differences(
    expected: Iterator[tuple[bytes, bytes]], found: Iterator[tuple[bytes, bytes]]
) -> Iterator[tuple[str, bytes]]:
    """Yield what is wrong with each key of two ascending walks that differ."""
    want, have = next(expected, None), next(found, None)
    while want is not None or have is not None:
        if have is None or (want is not None and want[0] < have[0]):
            assert want is not None
            yield "missing", want[0]
            want = next(expected, None)
        elif want is None or have[0] < want[0]:
            yield "too many", have[0]
            have = next(found, None)
        else:
            if want[1] != have[1]:
                yield "different", want[0]
            want, have = next(expected, None), next(found, None)
