"""
Taking old sessions out of a store, on request and by a stated rule.

Nothing else in the library removes a session unasked. There is no default age, and a
session that is live is never touched.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Final

from attrs import Attribute, field, frozen

from eventlog.errors import (
    EventLogError,
    InvalidArgument,
    SequenceConflict,
    StoreClosed,
    StoreReadOnly,
)
from eventlog.model import Event, Fault, HeadKey, SessionHead
from eventlog.values import TIME_MAX, check_flag, check_index, shown

if TYPE_CHECKING:
    from eventlog.live import LiveSessions
    from eventlog.store import EventStore

__all__ = [
    "PruneAccount",
    "PrunePolicy",
    "Pruned",
    "Spared",
    "can_archive",
    "is_same",
    "place_of",
    "prune",
]

WINDOW_EVENTS: Final = 512


def _is_count(policy: PrunePolicy, attribute: Attribute[int], value: int) -> None:
    if check_index(value, attribute.name) > TIME_MAX:
        raise InvalidArgument(attribute.name, f"must be at most {TIME_MAX}, not {shown(value)}")


def _is_folder(policy: PrunePolicy, attribute: Attribute[str | None], value: str | None) -> None:
    if value is not None and type(value) is not str:
        raise InvalidArgument(attribute.name, f"must be a str, not {type(value).__name__}")


@frozen
class PrunePolicy:
    """
    Which sessions are old. All that is given must hold.

    Attributes:
        older_than_ms: The last event, or the creation where that is later, is longer ago
            than this. There is no default.

        keep_newest: So many sessions are spared, those with the latest events first.

        cwd: Only sessions of this working directory; None is any.

    Raises:
        InvalidArgument: A number is no int in 0 … 2⁵³−1, or *cwd* is no str.
    """

    older_than_ms: int = field(validator=_is_count)
    keep_newest: int = field(default=0, validator=_is_count, kw_only=True)
    cwd: str | None = field(default=None, validator=_is_folder, kw_only=True)


@frozen
class Pruned:
    """
    A session that was taken out, or would be.

    Attributes:
        session_id: The session.

        events: How many events it has.

        last_ms: When it was last used, Unix milliseconds.

        archived: Whether it is kept in an archive.
    """

    session_id: str
    events: int
    last_ms: int
    archived: bool


@frozen
class Spared:
    """
    A session that the policy names, and that was left.

    Attributes:
        session_id: The session.

        kind: ``"live"``, ``"grew"`` while it was its turn, ``"no archive"`` where the store
            is to archive and cannot, or the class of the error, such as ``"StoreBusy"``.

        reason: The same for a person.
    """

    session_id: str
    kind: str
    reason: str


@frozen
class PruneAccount:
    """
    What pruning did: *found* is the number of sessions that were looked at.

    Attributes:
        found: Sessions of the store.

        pruned: Those that were taken out, or would be; the longest unused first.

        spared: Those that the policy names and that were left, with the reason.

        dry_run: Whether nothing was changed.

        faults: What could not be looked at, and so was left.
    """

    found: int
    pruned: tuple[Pruned, ...]
    spared: tuple[Spared, ...]
    dry_run: bool
    faults: tuple[Fault, ...] = ()

    def __repr__(self) -> str:
        parts = [f"{len(self.pruned)} of {self.found} sessions", f"{len(self.spared)} spared"]
        if self.faults:
            parts.append(f"{len(self.faults)} faults")
        if self.dry_run:
            parts.append("dry run")
        return f"<PruneAccount of {', '.join(parts)}>"


def prune(
    store: EventStore,
    policy: PrunePolicy,
    *,
    dry_run: bool = True,
    live: LiveSessions | None = None,
    archive: EventStore | None = None,
    now_ms: int | None = None,
) -> PruneAccount:
    """
    Take the sessions that *policy* calls old out of *store*.

    A session that another process has live and that gets an event at this very moment may
    be taken: its writer is told with :class:`~eventlog.errors.SessionDeleted`.

    Args:
        dry_run: Change nothing, and tell what would be done.

        live: The sessions of this process; none of them is touched.

        archive: Where each session is copied to, compared event by event and compressed
            before it is deleted. *store* itself, however it was opened: it is compressed
            where it lies, and not deleted. None deletes without a copy.

        now_ms: The present, Unix milliseconds; None is the clock's.

    Returns:
        What was done. Null case: an empty store gives zeros.

    Cost: every head; with *archive* the sessions that are taken out.

    Raises:
        InvalidArgument: *policy* is none, *dry_run* no bool, or *live* or *archive*
            something else. Nothing was taken out.

        StoreReadOnly: A store is read-only, and this is no dry run.

        StoreUnavailable: *store* cannot be listed.
    """
    if type(policy) is not PrunePolicy:
        raise InvalidArgument("policy", f"must be a PrunePolicy, not {type(policy).__name__}")
    check_flag(dry_run, "dry_run")
    _check_others(live, archive)
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    faults: list[Fault] = []
    heads = sorted(_heads(store, faults), key=lambda head: (_last(head), head.header.id))
    candidates = heads[: max(0, len(heads) - policy.keep_newest)]
    pruned: list[Pruned] = []
    spared: list[Spared] = []
    for head in candidates:
        header, last = head.header, _last(head)
        if now - last <= policy.older_than_ms:
            continue
        if policy.cwd is not None and header.cwd != policy.cwd:
            continue
        why = _take(store, head, archive, live, dry_run)
        if why is None:
            pruned.append(Pruned(header.id, head.length, last, archive is not None))
        else:
            spared.append(Spared(header.id, *why))
    return PruneAccount(len(heads), tuple(pruned), tuple(spared), dry_run, tuple(faults))


def _check_others(live: object, archive: object) -> None:
    from eventlog.live import LiveSessions  # both import this module
    from eventlog.store import EventStore

    for name, given, kind in (("live", live, LiveSessions), ("archive", archive, EventStore)):
        if given is not None and not isinstance(given, kind):
            reason = f"must be of the type {kind.__name__}, not {type(given).__name__}"
            raise InvalidArgument(name, reason)


def is_same(one: EventStore, other: EventStore) -> bool:
    """Tell whether both are one store: what is deleted in one is gone in the other, too."""
    return one is other or one._place() == other._place()


def place_of(location: str) -> Hashable:
    """What tells a folder or file from every other one, whatever the ways to it are called."""
    try:
        status = os.stat(location)
    except (OSError, ValueError):
        return location
    return status.st_dev, status.st_ino


def can_archive(store: EventStore) -> bool:
    """Tell whether *store* has a form for sessions at rest; a wrapper may say so in vain."""
    from eventlog.store import EventStore

    return type(store)._archive is not EventStore._archive


def _heads(store: EventStore, faults: list[Fault]) -> Iterator[SessionHead]:
    key: HeadKey | None = None
    while True:
        page = store.heads(after=key, limit=1_000)
        faults += page.faults
        yield from page.items
        key = page.next_key
        if key is None:
            return


def _last(head: SessionHead) -> int:
    """When a session was last used, as far as its clock told."""
    created = head.header.created_at
    return created if head.last_time is None else max(created, head.last_time)


def _take(
    store: EventStore,
    head: SessionHead,
    archive: EventStore | None,
    live: LiveSessions | None,
    dry_run: bool,
) -> tuple[str, str] | None:
    """Take one session out; returns the kind and the reason where it was not."""
    session_id = head.header.id

    def is_live() -> bool:
        return live is not None and live.get(session_id) is not None

    if is_live():
        return "live", "it is live"
    if dry_run:
        return None
    try:
        if archive is not None and is_same(archive, store):
            kept = store.archive(session_id)
            return None if kept else ("no archive", "its store has no archive")
        if archive is not None:
            archive_session(store, session_id, archive)
        now = store.head(session_id)
        if now is None or now != head:
            return "grew", "it was used meanwhile"
        if is_live():
            return "live", "it is live"
        store.delete(session_id)
    except (StoreReadOnly, StoreClosed):
        raise  # and so it would be for every other session
    except EventLogError as error:
        return type(error).__name__, str(error)
    return None


def archive_session(
    source: EventStore,
    session_id: str,
    archive: EventStore,
    *,
    progress: Callable[[int], None] | None = None,
) -> bool:
    """
    Copy a session into *archive*, compare it there event by event, and compress it.

    What *archive* holds of it already must be equal; a copy that was stopped is finished.

    Args:
        progress: Called with the number of events copied so far.

    Returns:
        Whether it is compressed; False where *archive* has no such form.

    Raises:
        SessionNotFound: *source* has no such session.

        CorruptLog: It cannot be read whole. What was copied before stays.

        HeaderConflict, SequenceConflict: *archive* holds another one under its id.
    """
    log = source.snapshot(session_id)
    for start in range(0, log.length, WINDOW_EVENTS):
        events = log.read(start, min(start + WINDOW_EVENTS, log.length))
        archive.append(log.header, events)
        if progress is not None:
            progress(start + len(events))
    kept = archive.snapshot(session_id)
    if kept.length > log.length:
        raise SequenceConflict(session_id, kept.length, log.length)
    for start in range(0, log.length, WINDOW_EVENTS):
        stop = min(start + WINDOW_EVENTS, log.length)
        written: list[Event] = kept.read(start, stop)
        if written != log.read(start, stop):
            raise SequenceConflict(session_id, kept.length, start)
    return archive.archive(session_id)
