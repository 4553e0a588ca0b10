"""
Stores that break one promise of what another store, or one opened later, knows.

Every class says in its docstring what is wrong with it, and in ``promise`` which test of
the contract has to fail for it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import evolve

from eventlog import ChangeSet, Event, HeadKey, HeadPage, LogSnapshot, SessionHead, SessionHeader
from eventlog.findings import Gap
from eventlog.stored_snapshot import StoredSnapshot
from support.broken.appends import BrokenMemory, BrokenSqlite

HEADS_MAX = 1_000


class Found(BrokenSqlite):
    """An example driver that treats what it finds otherwise than what it appends itself."""

    def __init__(self, root: Path, *, read_only: bool = False) -> None:
        self.found: dict[str, SessionHead] = {}
        super().__init__(root, read_only=read_only)
        self.found = {head.header.id: head for head in self._heads(None, HEADS_MAX).items}

    def _found_event(self, event: Event) -> Event:
        return event

    def _events(
        self, db: sqlite3.Connection, key: int, session_id: str, start: int, stop: int
    ) -> list[Event]:
        length = self.found[session_id].length if session_id in self.found else 0
        return [
            self._found_event(event) if event.seq < length else event
            for event in super()._events(db, key, session_id, start, stop)
        ]


class FlagsLostOnReopening(Found):
    """Keeps in memory only that an event may be ignored."""

    promise = "test_envelopes_are_the_same_after_reopening"

    def _found_event(self, event: Event) -> Event:
        facts = event.seq, event.time, event.type, event.payload
        return Event.from_payload(*facts, event.surface_op, event.source_event_seqs)


class EmptySourcesLostOnReopening(Found):
    """Stores no sources and an empty list of them alike."""

    promise = "test_envelopes_are_the_same_after_reopening"

    def _found_event(self, event: Event) -> Event:
        facts = event.seq, event.time, event.type, event.payload, event.surface_op
        return Event.from_payload(*facts, event.source_event_seqs or None, event.ignorable)


class NewestTimeOnReopening(Found):
    """Takes the newest time of a log that it finds for that of the last event."""

    promise = "test_envelopes_are_the_same_after_reopening"

    def _head(self, session_id: str) -> SessionHead | None:
        head = super()._head(session_id)
        if head is None or session_id not in self.found:
            return head
        return evolve(
            head, last_time=max(event.time for event in self._read_events(head, 0, head.length))
        )


class PastLostOnReopening(Found):
    """Has of each length of a log that it finds what is left of it on the surface of now."""

    promise = "test_past_is_the_same_after_reopening"

    def _snapshot(self, head: SessionHead, length: int) -> LogSnapshot:
        kind = _Leftover if head.header.id in self.found else StoredSnapshot
        return kind(self, head, length)


class _Leftover(StoredSnapshot):
    def nodes(self, *, after: int | None = None, limit: int | None = None) -> list[int]:
        now = self._store.snapshot(self.header.id)
        if now.length == self.length:
            return super().nodes(after=after, limit=limit)
        return [seq for seq in now.nodes() if seq < self.length]


class RetryOnReopeningDoubles(Found):
    """Does not know what was sent before it was opened."""

    promise = "test_d6_retry_after_reopening_adds_nothing"

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        length = self.found[header.id].length if header.id in self.found else 0
        if events and events[-1].seq < length:
            events = [
                Event.from_payload(length + place, event.time, event.type, event.payload)
                for place, event in enumerate(events)
            ]
        return super().append(header, events)


class ChildrenLeftByDeletion(BrokenSqlite):
    """Keeps children in a table of their own, and clears it in memory only."""

    promise = "test_deleted_child_is_of_no_parent_after_reopening"

    def __init__(self, root: Path, *, read_only: bool = False) -> None:
        super().__init__(root, read_only=read_only)
        self._gone: set[str] = set()

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        length = super().append(header, events)
        with self._transaction("BEGIN IMMEDIATE") as db:
            db.execute("CREATE TABLE IF NOT EXISTS child(id TEXT PRIMARY KEY, parent TEXT)")
            db.execute(
                "INSERT OR IGNORE INTO child VALUES (?, ?)", (header.id, header.parent_session)
            )
        return length

    def _delete(self, session_id: str, forget: bool) -> bool:
        self._gone.add(session_id)
        return super()._delete(session_id, forget)

    def _children(self, parent_id: str, after: HeadKey | None, limit: int) -> HeadPage:
        with self._transaction() as db:
            rows = db.execute("SELECT id FROM child WHERE parent = ? ORDER BY id", (parent_id,))
            ids = [session_id for (session_id,) in rows if session_id not in self._gone]
        heads = [SessionHead(SessionHeader(session_id, 1_000), 0, None) for session_id in ids]
        return HeadPage(tuple(heads), None)


class DeletionsUnnamedOnReopening(BrokenSqlite):
    """Names only the deletions that it did itself."""

    promise = "test_changes_before_reopening_are_named"

    def __init__(self, root: Path, *, read_only: bool = False) -> None:
        super().__init__(root, read_only=read_only)
        self._gone: set[str] = set()

    def _delete(self, session_id: str, forget: bool) -> bool:
        self._gone.add(session_id)
        return super()._delete(session_id, forget)

    def _changes(self, since: str | None) -> ChangeSet:
        changes = super()._changes(since)
        known = self._gone | {head.header.id for head in self._heads(None, HEADS_MAX).items}
        return evolve(changes, session_ids=tuple(s for s in changes.session_ids if s in known))


class ReaderFrozen(Found):
    """Shows, when opened for reading, what was there then."""

    promise = "test_d10_other_store_sees_appends"

    def _head(self, session_id: str) -> SessionHead | None:
        return self.found.get(session_id) if self.read_only else super()._head(session_id)


class TokenOfAnyStore(BrokenMemory):
    """Takes the position in another store's token for one in its own feed."""

    promise = "test_tokens_of_another_store_hide_nothing"

    def _changes(self, since: str | None) -> ChangeSet:
        if since is not None and since.partition(".")[2]:
            since = f"{since.partition('.')[0]}.{self._origin}"
        return super()._changes(since)


class HeaderBySubset(BrokenMemory):
    """Compares only what the stored header says."""

    promise = "test_header_conflict_names_what_is_new"

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        log = self._logs.get(header.id)
        if log is not None and all(
            getattr(log.header, name) in (None, 0, getattr(header, name))
            for name in (*OPTIONAL, "extra")
        ):
            header = log.header
        return super().append(header, events)


class ExtraBySubset(BrokenMemory):
    """Lets through a header with more keys of its own than the stored one has."""

    promise = "test_header_conflict_names_the_field"

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        log = self._logs.get(header.id)
        if log is not None:
            same = all(getattr(log.header, name) == getattr(header, name) for name in OPTIONAL)
            if same and (log.header.extra or {}).items() <= (header.extra or {}).items():
                header = log.header
        return super().append(header, events)


class ChildrenInUtf16Order(BrokenMemory):
    """Lists the children of one millisecond as other languages compare texts."""

    promise = "test_ties_are_in_code_point_order"

    def _children(self, parent_id: str, after: HeadKey | None, limit: int) -> HeadPage:
        page = super()._children(parent_id, after, limit)
        items = sorted(page.items, key=lambda head: head.header.id.encode("utf-16-be"))
        items.sort(key=lambda head: -head.header.created_at)
        return evolve(page, items=tuple(items))


class SalvageEndsWithItsPage(BrokenSqlite):
    """Salvages a thousand events of a log, and stops."""

    promise = "test_sound_log_is_salvaged_whole"

    def salvage(self, session_id: str) -> Iterator[Event | Gap]:
        for count, piece in enumerate(super().salvage(session_id)):
            if count == 1_000:
                return
            yield piece


OPTIONAL = (
    *("created_at", "cwd", "parent_session", "seed_length", "origin"),
    *("delegation_depth", "agent_preset"),
)
