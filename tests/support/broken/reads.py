"""
Stores that break one promise of reading, listing or closing each.

Every class says in its docstring what is wrong with it, and in ``promise`` which test of
the contract has to fail for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eventlog import (
    Event,
    EventClass,
    HeadKey,
    HeadPage,
    LogSnapshot,
    ScanMeter,
    SessionHead,
)
from eventlog.drivers.memory import _StoredSnapshot
from eventlog.errors import CorruptLog, SessionNotFound
from eventlog.findings import Finding, Gap
from eventlog.snapshot import MeteredTables
from eventlog.tables import MemoryTables, ViewTables
from eventlog.values import check_index
from support.broken.appends import BrokenMemory, BrokenSqlite


class BentSnapshot(_StoredSnapshot):
    """A snapshot of a memory store, for a fault to be put in."""

    __slots__ = ()


class BentMemory(BrokenMemory):
    """A memory store whose snapshots have a fault."""

    snapshots: type[BentSnapshot]

    def _snapshot(self, head: SessionHead, length: int) -> LogSnapshot:
        return self.snapshots(self, self._log(head.header.id), length)


class WindowOneTooLong(BentMemory):
    """Takes the end of a window for inclusive."""

    promise = "test_windows_are_half_open_and_clipped"

    class snapshots(BentSnapshot):  # noqa: N801
        def read(self, start: int, stop: int) -> list[Event]:
            return super().read(start, stop + 1)


class WindowNotClipped(BentMemory):
    """Refuses a window that reaches beyond the log."""

    promise = "test_d9_windows_beyond_the_log_are_empty"

    class snapshots(BentSnapshot):  # noqa: N801
        def read(self, start: int, stop: int) -> list[Event]:
            if stop > self.length:
                raise CorruptLog(self.header.id, None, None, None, stop, "truncated")
            return super().read(start, stop)


class NegativeFromTheEnd(BentMemory):
    """Counts a negative bound from the end, as lists do."""

    promise = "test_d9_window_bounds_are_ints_from_0"

    class snapshots(BentSnapshot):  # noqa: N801
        def read(self, start: int, stop: int) -> list[Event]:
            if type(start) is int and start < 0:
                start += self.length
            return super().read(start, stop)


class EventDoubled(BentMemory):
    """Gives the first event of a long window twice."""

    promise = "test_windows_of_a_long_log"

    class snapshots(BentSnapshot):  # noqa: N801
        def read(self, start: int, stop: int) -> list[Event]:
            events = super().read(start, stop)
            return [*events[:1], *events] if len(events) > 255 else events


class OldSnapshotGrows(BentMemory):
    """Gives a snapshot the length that the log has now."""

    promise = "test_snapshot_does_not_grow"

    class snapshots(BentSnapshot):  # noqa: N801
        @property
        def length(self) -> int:
            return self._log.length

        def read(self, start: int, stop: int) -> list[Event]:
            return self._log.read(start, stop)


class OldSurfaceMoves(BentMemory):
    """Answers for an old length with the surface of now."""

    promise = "test_old_snapshots_stay_right"

    class snapshots(BentSnapshot):  # noqa: N801
        def nodes(self, *, after: int | None = None, limit: int | None = None) -> list[int]:
            nodes = [node for _, node in self._log.tables.walk(0) if node < self.length]
            start = 0 if after is None else nodes.index(after) + 1
            return nodes[start:][:limit]


class ClassOfTheStandIn(BentMemory):
    """Gives an event that was replaced the class of what replaced it."""

    promise = "test_f6_replacement_stands_where_its_range_began"

    class snapshots(BentSnapshot):  # noqa: N801
        def classify(self, seq: int) -> EventClass:
            stands = self.stand_in(seq)
            return super().classify(seq if stands is None else stands)


class ClassWrongWhenNested(BentMemory):
    """Loses that an event was replaced once its replacement is replaced in turn."""

    promise = "test_nested_replacements"

    class snapshots(BentSnapshot):  # noqa: N801
        def classify(self, seq: int) -> EventClass:
            found = super().classify(seq)
            replacer = self.replaced_by(seq, seq + 1).get(seq)
            if replacer is not None and self.replaced_by(replacer, replacer + 1):
                return EventClass.LOG_ONLY
            return found


class ReplacementAtTheEnd(BentMemory):
    """Puts a replacement behind all other nodes."""

    promise = "test_f6_replacement_stands_where_its_range_began"

    class snapshots(BentSnapshot):  # noqa: N801
        def nodes(self, *, after: int | None = None, limit: int | None = None) -> list[int]:
            return sorted(super().nodes(after=after))[:limit]


class ShadowingNotCited(BentMemory):
    """Leaves out, of who cites an event, the one that replaced it."""

    promise = "test_citing_names_replacements_too"

    class snapshots(BentSnapshot):  # noqa: N801
        def citing(self, seq: int) -> list[int]:
            replacer = self.replaced_by(seq, seq + 1).get(seq)
            return [citer for citer in super().citing(seq) if citer != replacer]


class ValuesShared(BentMemory):
    """Gives every reader the same objects."""

    promise = "test_results_are_detached"

    class snapshots(BentSnapshot):  # noqa: N801
        def read(self, start: int, stop: int) -> list[Event]:
            return [SharedEvent(event) for event in super().read(start, stop)]


class SharedEvent(Event):
    """An event that decodes its data once."""

    decoded: dict[bytes, dict[str, object]] = {}  # noqa: RUF012 - shared by all: the fault

    def __init__(self, event: Event) -> None:
        super().__init__(event.seq, event.time, event.type, event.data)

    @property
    def data(self) -> dict[str, object]:
        return self.decoded.setdefault(self.payload, super().data)


class WholeLogRead(BentMemory):
    """Reads the whole log to answer about a window of it."""

    promise = "test_window_costs_its_events"

    class snapshots(BentSnapshot):  # noqa: N801
        def _read(self, start: int, stop: int) -> list[Event]:
            return super()._read(0, self.length)[start:stop]


class PagesCostMoreAndMore(BentMemory):
    """Reads a log from its start to the window's end."""

    promise = "test_g9_pages_of_a_long_log"

    class snapshots(BentSnapshot):  # noqa: N801
        def _read(self, start: int, stop: int) -> list[Event]:
            return super()._read(0, stop)[start:]


class NothingCounted(BrokenMemory):
    """Keeps every bound of cost by not counting."""

    promise = "test_meter_counts_what_is_read"

    def _snapshot(self, head: SessionHead, length: int) -> LogSnapshot:
        return self._log(head.header.id).snapshot(at=length, meter=ScanMeter())


class FoldedEachTime(BrokenSqlite):
    """Folds the log anew for each question."""

    promise = "test_tail_is_folded_once"

    @contextmanager
    def _folded(self, head: SessionHead, length: int) -> Iterator[ViewTables]:
        self._folds.forget(self._identity(head))
        with super()._folded(head, length) as tables:
            yield tables


class SurfaceLostOnReopening(BrokenSqlite):
    """Folds what it appends itself, and takes what it finds for plain messages."""

    promise = "test_f4_surface_is_the_same_after_reopening"

    def __init__(self, root: Path, *, read_only: bool = False) -> None:
        super().__init__(root, read_only=read_only)
        self._found = {head.header.id for head in self._heads(None, 1_000).items}

    @contextmanager
    def _folded(self, head: SessionHead, length: int) -> Iterator[ViewTables]:
        if head.header.id not in self._found:
            with super()._folded(head, length) as tables:
                yield tables
            return
        plain = MemoryTables()
        for event in self._read_events(head, 0, length):
            if event.is_node:
                plain.put_node(event.seq, event.seq)
        yield MeteredTables(plain, self.meter)


class SnapshotOutlivesSession(BrokenMemory):
    """Goes on answering about a session that was deleted."""

    promise = "test_snapshot_of_a_deleted_session"

    def _snapshot(self, head: SessionHead, length: int) -> LogSnapshot:
        return self._log(head.header.id).snapshot(at=length, meter=self.meter)


class ClosedStoreAnswers(BrokenMemory):
    """Answers after it was closed."""

    promise = "test_closed_store_refuses"

    def _check_open(self) -> None:
        pass


class EmptyWindowOfNothing(BentMemory):
    """Answers an empty window without looking whether there still is a log."""

    promise = "test_snapshot_of_a_closed_store_refuses"

    class snapshots(BentSnapshot):  # noqa: N801
        def read(self, start: int, stop: int) -> list[Event]:
            return super().read(start, stop) if start < min(stop, self.length) else []


class BoundsBeforeClosing(BentMemory):
    """Looks at a window's bounds first, and then whether the store is open."""

    promise = "test_snapshot_of_a_closed_store_refuses_bad_calls"

    class snapshots(BentSnapshot):  # noqa: N801
        def read(self, start: int, stop: int) -> list[Event]:
            check_index(start, "start")
            return super().read(start, stop)


class PrefixFinds(BrokenMemory):
    """Finds a session by the beginning of its id."""

    promise = "test_h12_ids_match_exactly"

    def _head(self, session_id: str) -> SessionHead | None:
        found = super()._head(session_id)
        if found is None:
            for known in sorted(self._logs):
                if known.startswith(session_id):
                    return super()._head(known)
        return found


class BuiltinErrors(BrokenMemory):
    """Lets a bare KeyError out."""

    promise = "test_snapshot_of_an_unknown_session"
    fails_with = "KeyError"

    def snapshot(self, session_id: str, *, at: int | None = None) -> LogSnapshot:
        try:
            return super().snapshot(session_id, at=at)
        except SessionNotFound:
            raise KeyError(session_id) from None


class HeadRemembered(BrokenSqlite):
    """Keeps the head that it has seen last, and does not look again."""

    promise = "test_d10_other_store_sees_appends"

    def __init__(self, root: Path, *, read_only: bool = False) -> None:
        super().__init__(root, read_only=read_only)
        self._seen: dict[str, SessionHead | None] = {}

    def _head(self, session_id: str) -> SessionHead | None:
        if session_id not in self._seen:
            self._seen[session_id] = super()._head(session_id)
        return self._seen[session_id]


class ReadNoted(BrokenSqlite):
    """Writes down when a session was last looked at."""

    promise = "test_reads_never_write"

    def _head(self, session_id: str) -> SessionHead | None:
        found = super()._head(session_id)
        if found is not None:
            with self._transaction("BEGIN IMMEDIATE") as db:
                db.execute("CREATE TABLE IF NOT EXISTS looked_at(id TEXT)")
                db.execute("INSERT INTO looked_at VALUES (?)", (session_id,))
        return found


class ReadRewrites(BrokenSqlite):
    """Writes its file anew, with the same bytes, when sessions are listed."""

    promise = "test_reads_never_write"

    def _heads(self, after: HeadKey | None, limit: int) -> HeadPage:
        page = super()._heads(after, limit)
        if self._path.exists():
            draft = self._path.with_name("draft")
            draft.write_bytes(self._path.read_bytes())
            draft.replace(self._path)
        return page


class ReadPrunes(BrokenMemory):
    """Drops the oldest session when sessions are listed."""

    promise = "test_reads_never_write"

    def _heads(self, after: HeadKey | None, limit: int) -> HeadPage:
        page = super()._heads(after, limit)
        if page.next_key is not None:
            self._delete(next(iter(self._logs)), True)
        return page


class DamageUnnoticed(BrokenSqlite):
    """Finds nothing wrong."""

    promise = "test_damage_is_found_and_salvaged_around"

    def _verify(self) -> Iterator[Finding]:
        return iter(())


class GapInSilence(BrokenSqlite):
    """Salvages what follows damage as if it continued what came before."""

    promise = "test_damage_is_found_and_salvaged_around"

    def _salvage(self, session_id: str) -> Iterator[Event | Gap]:
        return (piece for piece in super()._salvage(session_id) if isinstance(piece, Event))


class SalvageStopsAtDamage(BrokenSqlite):
    """Gives up at the first damage."""

    promise = "test_damage_is_found_and_salvaged_around"

    def _salvage(self, session_id: str) -> Iterator[Event | Gap]:
        for piece in super()._salvage(session_id):
            yield piece
            if isinstance(piece, Gap):
                return


class DryRunRepairs(BrokenSqlite):
    """Throws damaged sessions away, asked or not."""

    promise = "test_j10_repair_is_asked_for_tried_and_done_once"

    def _repair(self, dry_run: bool) -> list[Finding]:
        findings = super()._repair(dry_run)
        for finding in findings:
            assert finding.session_id is not None
            self._delete(finding.session_id, True)
        return findings
