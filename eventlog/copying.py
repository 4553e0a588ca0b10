"""
Copying sessions from any store to any other, with an account that adds up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from attrs import define, field, frozen

from eventlog.admission import first_difference
from eventlog.errors import (
    CorruptLog,
    EventLogError,
    HeaderConflict,
    InvalidArgument,
    SequenceConflict,
    StoreClosed,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from eventlog.model import Event, Fault, HeadKey
from eventlog.snapshot import LogSnapshot
from eventlog.store import EventStore

__all__ = ["CopyAccount", "CopyProgress", "Refusal", "copy_sessions"]

# One append, and so what is held in memory: at most so many events, of about so many
# bytes. Sizes are not known before reading, so the count follows what was read last.
_BATCH_EVENTS_MAX: Final = 512
_BATCH_BYTES_AIM: Final = 4 << 20


@frozen
class Refusal:
    """
    A session that could not be copied, or not to its end.

    Attributes:
        session_id: The session, None where the source does not know whose damage it is.

        path: The file concerned, None where there is none.

        kind: The class of the error, such as ``"HeaderConflict"``; for a fault of the
            source's listing the fault's kind.

        reason: What was wrong, for a person.

        stored: How many of its events the destination holds now.
    """

    session_id: str | None
    path: str | None
    kind: str
    reason: str
    stored: int


@frozen
class CopyAccount:
    """
    What became of every session that the source named.

    ``found == copied + same + len(refused)``, always.

    Attributes:
        found: Sessions and faults that the source listed.

        copied: Sessions of which something was added to the destination, and which it
            now holds whole.

        same: Sessions of which the destination held every event before.

        refused: The others, in listing order, each with its reason.

        events: Events added.

        bytes: Payload bytes added.
    """

    found: int
    copied: int
    same: int
    refused: tuple[Refusal, ...]
    events: int
    bytes: int


@frozen
class CopyProgress:
    """
    How far a copy has come.

    Attributes:
        session_id: The session in work.

        sessions: Sessions done before it.

        events: Events read so far, those that the destination held already included.

        bytes: Their payload bytes.
    """

    session_id: str
    sessions: int
    events: int
    bytes: int


def copy_sessions(
    source: EventStore,
    destination: EventStore,
    *,
    progress: Callable[[CopyProgress], None] | None = None,
) -> CopyAccount:
    """
    Bring every session of *source* into *destination*, newest first.

    Nothing that *destination* holds is changed: a session that it holds in part is
    completed, one that it holds is compared event by event and left, one that differs or
    was deleted there is refused. So a copy that was stopped at any point is finished by
    running it again, and a second run adds nothing. Sessions that grow meanwhile are
    copied up to the length that they had when their turn came.

    A damaged session is refused and the others go on. Of a long one the destination may
    then hold the events before the damage; its :class:`Refusal` says how many.

    Args:
        progress: Called after each batch, and once for each session at least.

    Cost: O(bytes of *source*), and those that *destination* holds of it; memory for about
    4 MiB of payload, or one event where that is larger.

    Returns:
        The account. Null case: an empty source gives zeros.

    Raises:
        InvalidArgument: One of them is no store.

        StoreUnavailable: *source* cannot be listed, or *destination* fails as a whole.

        StoreFull: *destination* has no room. What was copied stays.

        StoreReadOnly: *destination* refuses writes and lacks something.

        StoreClosed: One of them was closed.
    """
    for name, store in (("source", source), ("destination", destination)):
        if not isinstance(store, EventStore):
            raise InvalidArgument(name, f"must be an EventStore, not {type(store).__name__}")
    return _Copy(source, destination, progress).run()


# What fails for one session would fail for all.
_FATAL: Final = (StoreClosed, StoreFull, StoreReadOnly, StoreUnavailable)


class _SourceFailed(Exception):
    """Tells an error of the source, one session's matter, from one of the destination."""

    def __init__(self, error: EventLogError) -> None:
        super().__init__(error)
        self.error = error


@define
class _Copy:
    """One run of :func:`copy_sessions` and its counts."""

    source: EventStore
    destination: EventStore
    progress: Callable[[CopyProgress], None] | None
    found: int = 0
    copied: int = 0
    same: int = 0
    refused: list[Refusal] = field(factory=list)
    events_added: int = 0
    bytes_added: int = 0
    events_read: int = 0
    bytes_read: int = 0
    faults_seen: set[Fault] = field(factory=set)

    def run(self) -> CopyAccount:
        key: HeadKey | None = None
        while True:
            page = self.source.heads(after=key)
            for fault in page.faults:
                self._refuse_fault(fault)
            for head in page.items:
                self._session(head.header.id)
            key = page.next_key
            if key is None:
                break
        return CopyAccount(
            self.found,
            self.copied,
            self.same,
            tuple(self.refused),
            self.events_added,
            self.bytes_added,
        )

    def _refuse_fault(self, fault: Fault) -> None:
        # A source may name the same fault on every page of its listing.
        if fault in self.faults_seen:
            return
        self.faults_seen.add(fault)
        self.found += 1
        self.refused.append(Refusal(fault.session_id, fault.path, fault.kind, fault.detail, 0))

    def _session(self, session_id: str) -> None:
        self.found += 1
        self._report(session_id)
        try:
            added = self._transfer(session_id)
        except _SourceFailed as failed:
            self._refuse(session_id, failed.error)
        except _FATAL:
            raise
        except EventLogError as error:
            self._refuse(session_id, error)
        else:
            if added:
                self.copied += 1
            else:
                self.same += 1

    def _refuse(self, session_id: str, error: EventLogError) -> None:
        path = getattr(error, "path", None)
        self.refused.append(
            Refusal(
                session_id,
                path if isinstance(error, CorruptLog | StoreUnavailable) else None,
                type(error).__name__,
                str(error),
                self._held(session_id),
            )
        )

    def _held(self, session_id: str) -> int:
        try:
            head = self.destination.head(session_id)
        except CorruptLog:
            return 0  # nothing of it can be relied on
        return 0 if head is None else head.length

    def _transfer(self, session_id: str) -> int:
        """Complete one session in the destination; returns how many events were added."""
        with _reading_source():
            log = self.source.snapshot(session_id)
        held = self.destination.head(session_id)
        if held is None and log.length == 0:
            raise InvalidArgument("events", "a store keeps no session that has none")
        stored = None
        if held is not None:
            if (name := first_difference(held.header, log.header)) is not None:
                raise HeaderConflict(
                    session_id, name, getattr(held.header, name), getattr(log.header, name)
                )
            stored = self.destination.snapshot(session_id, at=min(held.length, log.length))
        added = 0
        for batch in self._batches(log):
            fresh = batch
            if stored is not None and batch[0].seq < stored.length:
                known = stored.read(batch[0].seq, batch[-1].seq + 1)
                for mine, theirs in zip(known, batch, strict=False):
                    if mine != theirs:
                        raise SequenceConflict(session_id, stored.length, mine.seq)
                fresh = batch[len(known) :]
            if fresh:
                self.destination.append(log.header, fresh)
                added += len(fresh)
                self.events_added += len(fresh)
                self.bytes_added += _size(fresh)
            self._report(session_id)
        return added

    def _batches(self, log: LogSnapshot) -> Iterator[list[Event]]:
        count, start = 16, 0
        while start < log.length:
            with _reading_source():
                batch = log.read(start, start + count)
            size = _size(batch)
            start += len(batch)
            self.events_read += len(batch)
            self.bytes_read += size
            yield batch
            # At most twice the last count: payloads that grow are noticed in time.
            fitting = _BATCH_BYTES_AIM * len(batch) // max(size, 1)
            count = max(1, min(2 * count, fitting, _BATCH_EVENTS_MAX))

    def _report(self, session_id: str) -> None:
        if self.progress is not None:
            done = self.copied + self.same + len(self.refused)
            self.progress(CopyProgress(session_id, done, self.events_read, self.bytes_read))


@contextmanager
def _reading_source() -> Iterator[None]:
    try:
        yield
    except StoreClosed:
        raise
    except EventLogError as error:
        raise _SourceFailed(error) from error


def _size(events: list[Event]) -> int:
    return sum(len(event.payload) for event in events)
