"""
Verifying and salvaging through the contract alone: correct for every medium.

A driver that knows its medium names damage closer than this can.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from eventlog.errors import CorruptLog, EventLogError, InvalidSurface, SessionNotFound
from eventlog.findings import Finding, Gap
from eventlog.model import Event, Fault, HeadKey, SessionHead
from eventlog.snapshot import LogSnapshot
from eventlog.surface import Step, apply, plan
from eventlog.tables import MemoryTables

if TYPE_CHECKING:
    from eventlog.store import EventStore

__all__ = ["FoldCheck", "finding_of", "salvaged", "verified", "while_open"]

T = TypeVar("T")

WINDOW_EVENTS: Final = 512


def while_open(store: EventStore, found: Iterator[T]) -> Iterator[T]:
    """
    Yield *found* as long as *store* is open.

    Raises:
        StoreClosed: It was closed on the way.
    """
    while True:
        store._check_open()
        try:
            one = next(found)
        except StopIteration:
            return
        yield one


class FoldCheck:
    """
    A fold that goes along with a reading, as far as the log is whole.

    Attributes:
        tables: What the events so far make.

        length: How many events were folded.

        refused: What the fold refused first; nothing is folded from there on.
    """

    def __init__(self) -> None:
        self.tables = MemoryTables()
        self.length = 0
        self.refused: InvalidSurface | None = None
        # Only the rewrite of a tool result looks back, and only at a node.
        self._results: dict[int, Event] = {}

    def add(self, event: Event) -> InvalidSurface | None:
        """Fold the next event; returns why it is refused. Null case: one not next is left out."""
        if event.seq != self.length or self.refused is not None:
            return None
        try:
            step = plan(self.tables, event, self._earlier)
        except InvalidSurface as error:
            self.refused = error
            return error
        self._keep(event, step)
        apply(self.tables, step)
        self.length += 1
        return None

    def _keep(self, event: Event, step: Step) -> None:
        for _, node in step.removed:
            self._results.pop(node, None)
        if event.type == "tool/result" and step.label is not None:
            self._results[event.seq] = event

    def _earlier(self, seq: int) -> Event:
        found = self._results.get(seq)
        # Any other type is refused as a target, whatever its data is.
        return Event(seq, 0, "x/other", {}) if found is None else found


def finding_of(error: EventLogError, session_id: str | None) -> Finding:
    """Return the finding that *error*, raised for a session, tells of."""
    if isinstance(error, CorruptLog):
        return Finding(
            error.kind,
            error.session_id or session_id,
            error.path,
            error.line,
            error.offset_bytes,
            seq=error.seq,
            detail=error.detail or str(error),
        )
    if isinstance(error, InvalidSurface):
        return Finding("surface", session_id, seq=error.seq, detail=error.reason)
    return Finding("unavailable", session_id, detail=str(error))


def verified(store: EventStore) -> Iterator[Finding]:
    """Read and fold every log of *store*; yields what is wrong."""
    heads: list[SessionHead] = []
    faults: list[Fault] = []
    key: HeadKey | None = None
    while True:
        page = store.heads(after=key, limit=1_000)
        heads += page.items
        faults += page.faults
        key = page.next_key
        if key is None:
            break
    for fault in faults:
        yield Finding(fault.kind, fault.session_id, fault.path, detail=fault.detail)
    for head in heads:
        try:
            snapshot = store.snapshot(head.header.id)
        except SessionNotFound:
            continue  # deleted meanwhile
        except EventLogError as error:
            yield finding_of(error, head.header.id)
            continue
        with suppress(SessionNotFound):  # deleted meanwhile
            yield from _verified_log(snapshot)


def _verified_log(snapshot: LogSnapshot) -> Iterator[Finding]:
    session_id, fold = snapshot.header.id, FoldCheck()
    for item in _pieces(snapshot, 0, snapshot.length):
        if isinstance(item, CorruptLog):
            yield finding_of(item, session_id)
            continue
        for event in item:
            refused = fold.add(event)
            if refused is not None:
                yield finding_of(refused, session_id)
    if fold.length < snapshot.length:
        return
    try:
        stored = snapshot.nodes()
    except SessionNotFound:
        raise
    except EventLogError as error:
        yield finding_of(error, session_id)
        return
    folded = [node for _, node in fold.tables.walk(0)]
    if stored != folded:
        detail = f"{len(stored)} nodes are stored, a fresh fold has {len(folded)}"
        yield Finding("row", session_id, detail=detail)


def salvaged(snapshot: LogSnapshot) -> Iterator[Event | Gap]:
    """
    Give the events of *snapshot*, with a gap for each stretch that cannot be read.

    Raises:
        SessionNotFound: It was deleted meanwhile.
    """
    gap: tuple[int, CorruptLog] | None = None
    seq = 0
    for item in _pieces(snapshot, 0, snapshot.length):
        if isinstance(item, CorruptLog):
            gap = gap or (seq, item)
            seq += 1
            continue
        if gap is not None:
            yield _gap(gap[1], gap[0], seq)
            gap = None
        yield from item
        seq += len(item)
    if gap is not None:
        yield _gap(gap[1], gap[0], None)


def _gap(error: CorruptLog, start: int, next_seq: int | None) -> Gap:
    return Gap(
        error.kind,
        start,
        next_seq,
        error.path,
        error.line,
        error.offset_bytes,
        detail=error.detail or str(error),
    )


def _pieces(snapshot: LogSnapshot, start: int, stop: int) -> Iterator[Sequence[Event] | CorruptLog]:
    """
    Yield runs of events of ``[start, stop)``, and an error for each seq that has none.

    Cost: O(log n) reads for each event that cannot be read.
    """
    pending = [
        (first, min(first + WINDOW_EVENTS, stop)) for first in range(start, stop, WINDOW_EVENTS)
    ]
    pending.reverse()
    while pending:
        first, last = pending.pop()
        try:
            yield snapshot.read(first, last)
        except CorruptLog as error:
            if last - first == 1:
                yield error
            else:
                middle = (first + last) // 2
                pending += [(middle, last), (first, middle)]
