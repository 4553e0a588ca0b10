"""
The storage contract: what a driver implements and what every store promises.

A driver writes the abstract methods of :class:`EventStore`. The rules of appending are
written once, in :mod:`eventlog.admission`, and run above the driver; folding, snapshots,
``children`` and ``changes`` have defaults that are correct for any medium, and a driver
overrides one only to be faster.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from errno import EIO
from typing import TYPE_CHECKING, Any, Self

import orjson

from eventlog.admission import WritableLog, admit, checked_batch, checked_batches
from eventlog.capabilities import Capabilities, ChangeSet
from eventlog.errors import (
    EventLogError,
    InvalidArgument,
    NotPicklable,
    SessionNotFound,
    StoreClosed,
    StoreReadOnly,
    StoreUnavailable,
)
from eventlog.findings import Finding, Gap
from eventlog.fold_cache import FoldCache
from eventlog.log import pinned_length
from eventlog.model import Batch, Event, Fault, HeadKey, HeadPage, SessionHead, SessionHeader
from eventlog.paging import check_page, head_page, ids_of_token
from eventlog.pruning import PruneAccount, PrunePolicy, place_of, prune
from eventlog.snapshot import LogSnapshot, MeteredTables, ScanMeter
from eventlog.stored_snapshot import StoredSnapshot
from eventlog.tables import ViewTables
from eventlog.values import check_flag, check_session_id, shown
from eventlog.verifying import salvaged, verified, while_open

if TYPE_CHECKING:
    from eventlog.live import LiveSessions

__all__ = ["Capabilities", "ChangeSet", "EventStore", "check_page", "head_page"]


class EventStore(ABC):
    """
    Sessions on a medium.

    Every method may be called from any thread. After :meth:`close` all of them raise
    :class:`~eventlog.errors.StoreClosed`. A session id that breaks the rules of
    :mod:`eventlog.values` is :class:`~eventlog.errors.ValueRejected`. Reads never write.

    Args:
        location: What errors and ``repr`` call the store, such as its path.

        read_only: Refuse every write with :class:`~eventlog.errors.StoreReadOnly`.
    """

    capabilities: Capabilities

    def __init__(self, location: str, *, read_only: bool = False) -> None:
        self.location = location
        self.read_only = read_only
        self.meter = ScanMeter()
        self._closed = False
        self._distrusted: StoreUnavailable | None = None
        self._folds = FoldCache()

    # What a driver implements. Arguments are checked and the store is open when these run.

    @abstractmethod
    def _writing(self, session_id: str) -> AbstractContextManager[WritableLog]:
        """
        Hold one session's log for writing, against every other writer.

        Raises:
            StoreBusy: Another writer holds it for too long.
        """

    @abstractmethod
    def _read_events(self, head: SessionHead, start: int, stop: int) -> list[Event]:
        """
        Return exactly the events of ``[start, stop)``, which was within *head*'s log and
        may be empty.

        Raises:
            SessionNotFound: That log is gone, or another one has its id.

            CorruptLog: One of them cannot be read.
        """

    @abstractmethod
    def _head(self, session_id: str) -> SessionHead | None:
        """Implement :meth:`head`."""

    @abstractmethod
    def _heads(self, after: HeadKey | None, limit: int) -> HeadPage:
        """Implement :meth:`heads`."""

    @abstractmethod
    def _delete(self, session_id: str, forget: bool) -> bool:
        """Implement :meth:`delete`."""

    # What a driver may do faster.

    def _children(self, parent_id: str, after: HeadKey | None, limit: int) -> HeadPage:
        """Implement :meth:`children`, here by reading every head."""
        found: list[SessionHead] = []
        faults: list[Fault] = []
        key = after
        while True:
            page = self._heads(key, max(limit, 50))
            faults += page.faults
            found += [head for head in page.items if head.header.parent_session == parent_id]
            key = page.next_key
            if key is None or len(found) > limit:
                return head_page(found, limit, faults)

    def _changes(self, since: str | None) -> ChangeSet:
        """Implement :meth:`changes`, here by naming every session each time."""
        ids = set()
        key: HeadKey | None = None
        while True:
            page = self._heads(key, 1000)
            ids |= {head.header.id for head in page.items}
            ids |= {fault.session_id for fault in page.faults if fault.session_id is not None}
            key = page.next_key
            if key is None:
                break
        # Sessions that the last token knew and that are gone were deleted since.
        named = tuple(sorted(ids.union(ids_of_token(since))))
        return ChangeSet(named, orjson.dumps(sorted(ids)).decode())

    def _snapshot(self, head: SessionHead, length: int) -> LogSnapshot:
        """Build the snapshot of a log, here one that is folded in memory."""
        return StoredSnapshot(self, head, length)

    def _verify(self) -> Iterator[Finding]:
        """Implement :meth:`verify`, here by reading and folding every log."""
        return verified(self)

    def _repair(self, dry_run: bool) -> list[Finding]:
        """Implement :meth:`repair`, here for a medium on which nothing can be mended."""
        return list(self._verify())

    def _archive(self, session_id: str) -> bool:
        """Implement :meth:`archive`, here for a medium that has no smaller form."""
        if self._head(session_id) is None:
            raise SessionNotFound(session_id)
        return False

    def _salvage(self, session_id: str) -> Iterator[Event | Gap]:
        """Implement :meth:`salvage`, here by halving each window that cannot be read."""
        head = self._head(session_id)
        if head is None:
            raise SessionNotFound(session_id)
        return salvaged(self.snapshot(session_id))

    def _identity(self, head: SessionHead) -> Hashable:
        """What tells *head*'s log from a later one with the same id and header."""
        return head.header

    def _place(self) -> Hashable:
        """What tells this store from every other one, however either was opened."""
        return type(self), place_of(self.location)

    # What every store does alike.

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        """
        Store *events* after the last one held; all become durable, or the call raises
        and has stored nothing.

        The first append creates the session; an empty one stores nothing, creates
        nothing and checks the header. *events* may start below the stored length, as a
        retry does: what is stored already must be equal and is skipped.

        Cost: O(len(events) + nodes replaced · log n).

        Returns:
            The next free seq.

        Raises:
            StoreReadOnly: The store is read-only.

            InvalidArgument: *header* or *events* is something else.

            UnsupportedFormat: The header's version is not 0.

            SessionDeleted: The session was deleted.

            HeaderConflict: The session exists with another header.

            SequenceConflict: *events* leave a gap, or differ from what is stored.

            InvalidSurface: The events have a gap inside, or the fold refuses one.

            StoreBusy: Another writer holds the session.

            StoreFull: The medium has no room.

            StoreUnavailable: The medium fails; after an input or output error for all
                further writes, until the store is opened anew.
        """
        self._check_writable()
        batch = checked_batch(header, events)
        with self._writing(header.id) as log:
            admission = admit(log, batch)
            if admission.events:
                log.write(admission)
        return admission.length

    def append_many(self, batches: Sequence[Batch]) -> list[int | EventLogError]:
        """
        Append to several sessions, in one commit where the store can.

        Each batch stands or falls alone, in the order given.

        Returns:
            For each batch the next free seq, or the error that :meth:`append` would
            have raised. Null case: no batches, no results.

        Raises:
            StoreReadOnly: The store is read-only.

            InvalidArgument: *batches* is no sequence of batches. Nothing was stored.
        """
        self._check_writable()
        results: list[int | EventLogError] = []
        for batch in checked_batches(batches):
            try:
                results.append(self.append(batch.header, batch.events))
            except EventLogError as error:
                results.append(error)
        return results

    def snapshot(self, session_id: str, *, at: int | None = None) -> LogSnapshot:
        """
        Return one session's log as of a length.

        Args:
            at: The length, 0 … the log's; None is now.

        Raises:
            SessionNotFound: The store has no such session.

            InvalidArgument: *at* is no int ≥ 0, or beyond the log.

            CorruptLog: The header cannot be read.
        """
        head = self.head(session_id)
        if head is None:
            raise SessionNotFound(session_id)
        return self._snapshot(head, pinned_length(at, head.length))

    def head(self, session_id: str) -> SessionHead | None:
        """
        Return what a listing says of one session; None for an unknown or a deleted one.

        Cost: 1 record.

        Raises:
            CorruptLog: Its header cannot be read.
        """
        self._check_open()
        check_session_id(session_id, path="session_id")
        return self._head(session_id)

    def heads(self, *, after: HeadKey | None = None, limit: int = 50) -> HeadPage:
        """
        Return a page of sessions, newest first, then by id in code point order.

        Args:
            after: The last key of the page before; its session need not exist any more.
                None starts with the newest.

            limit: At most so many, at least 1.

        One session that cannot be read is a fault of the page, and never its failure.

        Cost: *limit* records.

        Raises:
            InvalidArgument: *limit* is no int ≥ 1, or *after* no key.

            StoreUnavailable: The store as a whole cannot be read.
        """
        self._check_open()
        check_page(after, limit)
        return self._heads(after, limit)

    def children(
        self, parent_id: str, *, after: HeadKey | None = None, limit: int = 50
    ) -> HeadPage:
        """
        Return a page of the sessions whose header names *parent_id*, in listing order.

        The parent need not exist. Arguments, faults and errors are those of :meth:`heads`.

        Cost: the children returned; every head on a store without an index of them.
        """
        self._check_open()
        check_session_id(parent_id, path="parent_id")
        check_page(after, limit)
        return self._children(parent_id, after, limit)

    def changes(self, since: str | None = None) -> ChangeSet:
        """
        Name every session that may have changed.

        Args:
            since: The token of an earlier call; None names all sessions.

        Cost: the answer; every head on a store without a feed.

        Raises:
            InvalidArgument: *since* is no token of this store.
        """
        self._check_open()
        if since is not None and type(since) is not str:
            raise InvalidArgument("since", f"must be a token, not {shown(since)}")
        return self._changes(since)

    def delete(self, session_id: str, *, forget: bool = False) -> bool:
        """
        Take a session away for good. Until it is forgotten, appending to it is
        :class:`~eventlog.errors.SessionDeleted`.

        Args:
            forget: Drop the memory of the deletion too, so that the id may be used anew.

        Returns:
            Whether there was anything to take away: the session, or with *forget* the
            memory of it. An unknown id is False, and is not remembered.

        Raises:
            StoreReadOnly: The store is read-only.
        """
        self._check_writable()
        check_session_id(session_id, path="session_id")
        check_flag(forget, "forget")
        return self._delete(session_id, forget)

    def prune(
        self,
        policy: PrunePolicy,
        *,
        dry_run: bool = True,
        live: LiveSessions | None = None,
        archive: EventStore | None = None,
    ) -> PruneAccount:
        """
        Take the sessions that *policy* calls old out; see :func:`eventlog.pruning.prune`.

        With *dry_run*, the default, nothing is changed.
        """
        self._check_open()
        if not dry_run:
            self._check_writable()
        return prune(self, policy, dry_run=dry_run, live=live, archive=archive)

    def archive(self, session_id: str) -> bool:
        """
        Keep a session at rest in less room. It is listed, read, verified and deleted as
        before, and the next append to it takes it out again.

        Returns:
            Whether it is archived now; False on a medium without such a form.

        Raises:
            SessionNotFound: The store has no such session.

            StoreReadOnly, StoreFull: It is as it was.

            MissingExtra: The form needs packages that are not installed.
        """
        self._check_writable()
        check_session_id(session_id, path="session_id")
        return self._archive(session_id)

    def verify(self) -> Iterator[Finding]:
        """
        Name every problem of the store, while it is in use or not; nothing is changed.

        A log that another process is writing is judged as far as it is written.

        Returns:
            The problems, store-wide ones first, then session by session. Null case: a
            store without any, or with nothing in it, gives none.

        Cost: one pass over every log, streaming, with a fold of each.

        Raises:
            StoreUnavailable: The store as a whole cannot be read.
        """
        self._check_open()
        return while_open(self, self._verify())

    def repair(self, *, dry_run: bool = True) -> list[Finding]:
        """
        Mend what :meth:`verify` finds, so that strict reads work again.

        Nothing is made up and nothing is thrown away: what is taken out is kept in a
        backup that is made first, and an event that cannot be read is replaced by one of
        the type :data:`~eventlog.findings.LOST_TYPE` in its place, so that no other event
        changes its seq. A second repair changes nothing.

        Args:
            dry_run: Change nothing, and tell what would be done.

        Returns:
            The findings, each with its change; without one where a person has to decide.

        Cost: that of :meth:`verify`, and a copy of each log that is mended.

        Raises:
            StoreReadOnly: The store is read-only, and this is no dry run.

            StoreBusy: A writer holds a log that is to be mended.

            StoreFull: There is no room for a backup.
        """
        self._check_open()
        check_flag(dry_run, "dry_run")
        if not dry_run:
            self._check_writable()
        return self._repair(dry_run)

    def salvage(self, session_id: str) -> Iterator[Event | Gap]:
        """
        Give everything of one session that can be read, in the order of the log.

        Events between two gaps continue each other. A :class:`~eventlog.findings.Gap`
        stands wherever they do not, and before the first event where the header or the
        beginning is damaged. A whole log gives its events and no gap.

        Cost: one pass over the log, streaming.

        Raises:
            SessionNotFound: The store has no such session, or none any more.
        """
        self._check_open()
        check_session_id(session_id, path="session_id")
        return while_open(self, self._salvage(session_id))

    def close(self) -> None:
        """Release what the store holds. Closing twice is harmless."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Refuse to be pickled or copied; a driver whose medium has an address opens it again."""
        raise NotPicklable(
            "store",
            f"{self.location} cannot leave the process that opened it; "
            "copy its sessions into a store that has a path, and open that",
        )

    def __repr__(self) -> str:
        state = ", closed" if self._closed else ", read-only" if self.read_only else ""
        return f"<{type(self).__name__} {self.location}{state}>"

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed(self.location)

    def _check_writable(self) -> None:
        self._check_open()
        if self.read_only:
            raise StoreReadOnly(self.location)
        if self._distrusted is not None:
            raise StoreUnavailable(self.location, f"open it anew: {self._distrusted.detail}")

    def _distrust(self, error: StoreUnavailable) -> None:
        """Refuse to write from now on where the medium itself failed."""
        # The system may tell a failed sync once only, and then drop what was to be kept.
        if EIO in (getattr(error.__cause__, name, None) for name in ("errno", "code")):
            self._distrusted = error

    @contextmanager
    def _folded(self, head: SessionHead, length: int) -> Iterator[ViewTables]:
        """Hold *head*'s tables in memory, folded to *length* at least."""
        self._check_open()

        def read(start: int, stop: int) -> list[Event]:
            return self._read_events(head, start, stop)

        with self._folds.tables(self._identity(head), length, read) as tables:
            yield MeteredTables(tables, self.meter)
