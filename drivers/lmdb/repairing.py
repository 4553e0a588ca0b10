"""
Mending an environment: derived rows are written anew, lost events are marked as lost.

Everything is backed up first, in a folder inside the store's own, and mended in one
transaction: after a crash all of it is done, or nothing.
"""

from __future__ import annotations

import os
import shutil
import struct
from typing import Final

import lmdb
from attrs import evolve, frozen

from eventlog.codec import encode_line
from eventlog.errors import EventLogError
from eventlog.findings import LOST_TYPE, Change, Finding
from eventlog.locks import unowned
from eventlog.model import APPEND, Event, Replace, SurfaceOp
from eventlog.snapshot import ScanMeter
from eventlog.verifying import FoldCheck

from .environment import Environment
from .failures import translated
from .handle import Databases
from .layout import (
    EVENT_KEY,
    TOMBSTONE,
    U64,
    Damaged,
    SessionRow,
    child_key,
    encode_event,
    newest_key,
)
from .reading import Reading
from .tables import RowTables, rows_of
from .verifying import stored_events, verified

__all__ = ["repaired"]

# More events than this are not made up for what is lost.
LOST_MAX: Final = 100_000


@frozen
class _Mended:
    """
    One session as it will be.

    Attributes:
        row: Its row.

        lost: The events that stand for lost ones.

        fold: A fresh fold of all its events.
    """

    row: SessionRow
    lost: list[Event]
    fold: FoldCheck


def repaired(environment: Environment, dry_run: bool, *, wait_s: float) -> list[Finding]:
    """
    Mend what can be mended; with *dry_run* only tell what that is.

    Raises:
        StoreBusy: Another process has been writing for *wait_s*.

        StoreFull: There is no room for the backup, or for what is mended.

        StoreReadOnly, StoreUnavailable: The medium refuses. Nothing was changed.
    """
    if not environment.is_there():
        return []
    if dry_run:
        return _planned(environment)[0]
    with unowned(environment.writing), environment.writer, environment.held(wait_s=wait_s):
        findings, plans = _planned(environment)
        if not any(finding.change for finding in findings):
            return findings
        backup = _back_up(environment)

        def mend(transaction: lmdb.Transaction[bytes], databases: Databases) -> None:
            for plan in plans:
                _write(transaction, databases, plan)
            _write_indexes(transaction, databases)

        environment.write(mend, wait_s=0)
    return [
        one if one.change is None else evolve(one, change=evolve(one.change, backup=backup))
        for one in findings
    ]


def _planned(environment: Environment) -> tuple[list[Finding], list[_Mended]]:
    """Return what is wrong with what would be done, and the sessions that it concerns."""
    findings = list(verified(environment))
    plans: dict[str, _Mended | None] = {}
    for finding in findings:
        session_id = finding.session_id or ""
        if finding.kind in ("event", "row") and session_id not in plans:
            plans[session_id] = _plan(environment, session_id)
    told = []
    for finding in findings:
        plan = plans.get(finding.session_id or "")
        if finding.kind in ("event", "row"):
            finding = evolve(finding, change=None if plan is None else _change(finding, plan))
        told.append(finding)
    return told, [plan for plan in plans.values() if plan is not None]


def _change(finding: Finding, plan: _Mended) -> Change:
    if finding.kind == "row":
        return Change("rebuild")
    lost = b"".join(encode_line(event) for event in plan.lost)
    return Change("rebuild", inserted=lost)


def _plan(environment: Environment, session_id: str) -> _Mended | None:
    """Return a session as it would be; None where its fold would not work."""
    with environment.reading() as reading:
        assert reading.databases is not None
        value = reading.transaction.get(session_id.encode(), db=reading.databases.sessions)
        try:
            row = SessionRow.decode(value or b"")
        except Damaged:
            return None
    fold = FoldCheck()
    lost: list[Event] = []
    last_time = row.header.created_at
    stored = stored_events(environment, row.ordinal)
    item = next(stored, None)
    for seq in range(row.length):
        if item is not None and item.seq == seq and item.event is not None:
            event = item.event
        else:
            if len(lost) == LOST_MAX:
                return None
            with environment.reading() as reading:
                event = _lost(reading, row, seq, last_time)
            lost.append(event)
        if item is not None and item.seq == seq:
            item = next(stored, None)
        last_time = event.time
        if fold.add(event) is not None:
            return None
    row.last_time = last_time
    return _Mended(row, lost, fold)


def _lost(reading: Reading, row: SessionRow, seq: int, time: int) -> Event:
    """
    Build the event that stands for a lost one, in the place on the surface that its rows tell.
    """
    assert reading.databases is not None
    tables = RowTables(reading.transaction, reading.databases.rows, row.ordinal, ScanMeter())
    op: SurfaceOp | None = None
    sources: tuple[int, ...] | None = None
    try:
        shadowed = tuple(tables.replaced(seq))
        if shadowed:
            op, sources = Replace(shadowed[0], shadowed[-1]), shadowed
        elif tables.node(seq) is not None or tables.replaced_by(seq, seq + 1):
            op = APPEND
    except (Damaged, struct.error):
        op = sources = None
    data = {"reason": "event", "detail": "the stored event could not be read"}
    return Event(
        seq, time, LOST_TYPE, data, surface_op=op, source_event_seqs=sources, ignorable=True
    )


def _back_up(environment: Environment) -> str:
    """Copy the environment into a new folder inside its own; returns that."""
    number = 1
    while os.path.lexists(folder := f"{environment.path}/backup-{number}"):
        number += 1
    try:
        os.mkdir(folder, 0o700)
        with environment.reading() as reading:
            handle = environment._handle
            assert reading.databases is not None
            assert handle is not None  # inside the gate, nobody closes it
            handle.env.copy(folder)
        for path in (f"{folder}/data.mdb", folder, environment.path):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, EventLogError) or not isinstance(error, lmdb.Error | OSError):
            raise
        raise translated(error, environment.path, writing=True) from error
    return folder


def _write(transaction: lmdb.Transaction[bytes], databases: Databases, plan: _Mended) -> None:
    row = plan.row
    for event in plan.lost:
        key = EVENT_KEY.pack(row.ordinal, event.seq)
        transaction.put(key, encode_event(event), db=databases.events)
    prefix = U64.pack(row.ordinal)
    with transaction.cursor(databases.rows) as cursor:
        found = cursor.set_range(prefix)
        while found and cursor.key().startswith(prefix):
            found = cursor.delete()
        cursor.putmulti(list(rows_of(plan.fold.tables, row.ordinal)))
    transaction.put(row.header.id.encode(), row.encode(), db=databases.sessions)


def _write_indexes(transaction: lmdb.Transaction[bytes], databases: Databases) -> None:
    """Write what *newest*, *children* and *feed* say anew, where every row can be read."""
    with transaction.cursor(databases.sessions) as cursor:
        values = dict(cursor.iternext(True, True))
    try:
        rows = {key: SessionRow.decode(value) for key, value in values.items()}
    except Damaged:
        return  # what a damaged row says may be in them alone
    positions = {U64.pack(row.position): key for key, row in rows.items()}
    with transaction.cursor(databases.tombstones) as cursor:
        for key, value in cursor.iternext(True, True):
            if len(value) == TOMBSTONE.size:
                positions[U64.pack(TOMBSTONE.unpack(value)[0])] = key
    headers = [row.header for row in rows.values()]
    newest = {newest_key(header.created_at, header.id): b"" for header in headers}
    children = {
        child_key(header.parent_session, header.created_at, header.id): b""
        for header in headers
        if header.parent_session is not None
    }
    for database, wanted in (
        (databases.newest, newest),
        (databases.children, children),
        (databases.feed, positions),
    ):
        with transaction.cursor(database) as cursor:
            found = dict(cursor.iternext(True, True))
        if found != wanted:
            for key in found.keys() - wanted.keys():
                transaction.delete(key, db=database)
            for key, value in wanted.items():
                transaction.put(key, value, db=database)
