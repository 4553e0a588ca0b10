"""
The import of one transcript: its sessions side by side, and what became of each record.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from attrs import evolve

from eventlog.errors import (
    CorruptLog,
    EventLogError,
    HeaderConflict,
    SequenceConflict,
    StoreClosed,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from eventlog.model import Event, SessionHeader
from eventlog.sources import (
    Entry,
    Item,
    Opened,
    RecordFault,
    RecordTally,
    Transcript,
    TranscriptSource,
)
from eventlog.store import EventStore
from eventlog.values import JSONValue

from .account import ImportAccount, ImportedSession, Outcome
from .logs import MARK, MappedLog, NativeLog, is_foreign, last_mark
from .reconciling import SourceBehind, SourceDiffers, reconcile

__all__ = ["TranscriptImport"]


class Run(Protocol):
    """The import that a transcript is a part of."""

    store: EventStore
    source: TranscriptSource
    account: ImportAccount
    seen: dict[str, Transcript]

    def report(self, transcript: Transcript, tally: RecordTally) -> None:
        """Say how far the import has come."""


# What fails for one session would fail for all.
_FATAL: Final = (StoreClosed, StoreFull, StoreReadOnly, StoreUnavailable)


class _Unchanged(Exception):
    """The transcript is as it was when it was imported."""

    def __init__(self, mark: dict[str, JSONValue]) -> None:
        super().__init__(mark)
        self.mark = mark


class TranscriptImport:
    """One transcript and its sessions, the first of which is its own."""

    def __init__(self, run: Run, transcript: Transcript) -> None:
        self._run = run
        self._store = run.store
        self._source = run.source
        self._transcript = transcript
        self._tally = RecordTally()
        self._logs: dict[str, MappedLog | NativeLog] = {}
        self._refused: dict[str, tuple[str, str]] = {}
        # Of sessions that were refused the place of each record, and whether it was mapped.
        self._lost: dict[str, dict[JSONValue, bool]] = {}
        self._must_extend: set[str] = set()
        # Of sessions that another transcript has as well, that transcript.
        self._others: dict[str, Transcript] = {}
        # Whether one of that and this transcript goes on with the other, and whether the store
        # has all of that, the longer one.
        self._is_copy = False
        self._is_behind = False
        # The session that the transcript is first of all: it keeps the mark of the import.
        self._own_id: str | None = None
        self._fingerprint: str | None = None

    def run(self) -> None:
        """Import the transcript and enter it into the account."""
        account = self._run.account
        try:
            self._read()
            self._finish()
        except _Unchanged as unchanged:
            self._take_over(unchanged.mark)
        except _FATAL:
            raise
        except (EventLogError, OSError) as error:
            self._refuse_all(error)
        for session_id, (kind, reason) in self._refused.items():
            log = self._logs.get(session_id)
            added = 0 if log is None else log.added
            account.refuse(session_id, str(self._transcript), kind, reason, events=added)
            account.events += added
            if self._run.seen.get(session_id) == self._transcript:
                del self._run.seen[session_id]  # another copy may be sound
        account.take(self._tally)

    def _read(self) -> None:
        logs, refused = self._logs, self._refused
        if not self._source.keeps_events:
            # Before it is read: what is added meanwhile then makes it another one.
            self._fingerprint = self._source.fingerprint(self._transcript)
        for item in self._items(self._tally):
            if isinstance(item, Entry):
                session_id = item.session_id
            elif isinstance(item, Opened):
                self._open(item.header)
                continue
            else:
                session_id = self._own_id or ""
            if session_id in refused:
                self._lose(item)
                continue
            log = logs.get(session_id)
            if log is None:
                continue
            try:
                stored = log.add(item)  # type: ignore[arg-type]
            except _FATAL:
                raise
            except EventLogError as error:
                refused[session_id] = self._refusal(session_id, error)
                self._lose(item)
            else:
                if stored:
                    self._run.report(self._transcript, self._tally)

    def _items(self, tally: RecordTally) -> Iterator[Item]:
        """
        Read the transcript. A source that fails at what it did not expect fails for this
        transcript, and the others are read.
        """
        try:
            yield from self._source.read(self._transcript, tally)
        except (EventLogError, OSError):
            raise
        except Exception as error:
            detail = f"{self._source.title} is not read further: {type(error).__name__}: {error}"
            path = str(self._transcript)
            raise CorruptLog(None, path, None, None, None, "source", detail) from error

    def _open(self, header: SessionHeader) -> None:
        """
        Take up a session.

        Raises:
            _Unchanged: It is the transcript's own, and there is nothing new in that.
        """
        session_id = header.id
        is_own = self._own_id is None
        if is_own:
            self._own_id = session_id
        other = self._run.seen.setdefault(session_id, self._transcript)
        is_seen = other != self._transcript
        if is_seen:
            self._others[session_id] = other
        elif self._own_id in self._refused and self._own_id in self._others:
            self._others[session_id] = self._others[self._own_id]
        try:
            if self._source.keeps_events:
                self._logs[session_id] = NativeLog(self._store, header)
                return
            log = MappedLog(
                self._store, header, self._source.name, reads_plain=self._source.reads_plain
            )
        except _FATAL:
            raise
        except EventLogError as error:
            self._refused[session_id] = type(error).__name__, str(error)
            return
        mark = self._changed_mark(log) if is_own else {}
        if not is_seen and _is_elsewhere(mark.get("path"), self._transcript):
            self._others[session_id] = Transcript(Path(mark["path"]))
        if session_id not in self._others or self._may_add(session_id, mark, is_seen=is_seen):
            self._logs[session_id] = log
        else:
            self._refused[session_id] = "duplicate", self._differing(session_id)

    def _changed_mark(self, log: MappedLog) -> dict[str, JSONValue]:
        """
        Return what the last import said of the transcript's own session; empty for nothing.

        Raises:
            _Unchanged: Nothing has changed since.
        """
        mark = None if log.snapshot is None else last_mark(log.snapshot)
        if mark is None:
            return {}
        unchanged = (
            mark.get("fingerprint") == self._fingerprint is not None
            and mark.get("revision") == self._source.revision
            and all(self._store.head(other) is not None for other in mark.get("sessions", ()))
        )
        if unchanged:
            raise _Unchanged({**mark, "session": log.header.id})
        return mark

    def _may_add(self, session_id: str, mark: dict[str, JSONValue], *, is_seen: bool) -> bool:
        """
        Tell whether the transcript may add to a session that another one has as well: of a
        tool that only appends one of them must go on with the other.
        """
        source, other = self._source, self._others[session_id]
        is_own = session_id == self._own_id
        if source.snapshots or not (is_own or is_seen):
            self._must_extend.add(session_id)
            return True
        if is_own:
            if source.continues(self._transcript, other):
                self._is_copy = True
                self._run.seen[session_id] = self._transcript
            elif source.continues(other, self._transcript):
                self._is_copy = True
                self._is_behind = is_seen or source.fingerprint(other) == mark.get("fingerprint")
        return self._is_copy

    def _take_over(self, mark: dict[str, JSONValue]) -> None:
        """Enter a transcript that did not change, with the counts of its last import."""
        account = self._run.account
        for session_id in (mark["session"], *mark.get("sessions", ())):
            first = self._run.seen.setdefault(session_id, self._transcript)
            account.enter(
                ImportedSession(session_id, str(self._transcript), Outcome.SAME),
                again=first != self._transcript,
            )
        counts = mark.get("records", {})
        self._tally = RecordTally(
            **{name: counts.get(name, 0) for name in _COUNTS},
            bytes_read=self._transcript.size_bytes,
        )
        if self._tally.refused:
            reason = "refused when the file was imported; it has not changed since"
            fault = RecordFault(
                str(self._transcript), None, None, "known", reason, self._tally.refused
            )
            self._tally.faults.append(fault)

    def _finish(self) -> None:
        """Store what is left, the transcript's own session last."""
        logs = list(self._logs.items())
        for session_id, log in reversed(logs):
            if session_id in self._refused:
                if isinstance(log, NativeLog):
                    self._refuse_records(*self._refused[session_id])
                continue
            is_own = session_id == self._own_id
            try:
                rewritten = 0
                if isinstance(log, MappedLog):
                    rewritten = self._finish_mapped(log, is_own=is_own)
                else:
                    log.flush()
                if log.held is None and log.added == 0 and self._tally.refused:
                    detail = "none of its records can be read"
                    raise CorruptLog(session_id, None, None, None, None, "empty", detail)
            except _FATAL:
                raise
            except SourceDiffers:
                reason = self._differing(session_id)
                self._refuse_read(session_id, "duplicate", reason, whole=is_own)
            except EventLogError as error:
                kind, reason = self._refusal(session_id, error)
                self._refuse_read(session_id, kind, reason, whole=is_own)
            else:
                self._run.account.enter(
                    ImportedSession(
                        session_id, str(self._transcript), log.outcome, log.added, rewritten
                    ),
                    again=session_id in self._others,
                )
        self._count_lost()

    def _finish_mapped(self, log: MappedLog, *, is_own: bool) -> int:
        rewritten = 0
        if log.diverged or log.ends_early(shrinks=self._source.snapshots):
            if self._is_behind:
                return 0
            try:
                rewritten = reconcile(
                    log,
                    lambda: self._entries(log.header.id),
                    # A record that cannot be read any more was not taken back.
                    may_shrink=self._tally.refused == 0,
                    may_be_older=not self._source.snapshots or log.header.id in self._must_extend,
                    must_extend=log.header.id in self._must_extend,
                )
            except SourceBehind:
                return 0
        if is_own and (log.batch.added or self._lacks_mark(log)):
            log.batch.add(self._mark(log))
        log.batch.flush()
        return rewritten

    def _lacks_mark(self, log: MappedLog) -> bool:
        if log.snapshot is None or log.snapshot.length == 0:
            return False
        length = log.snapshot.length
        last = log.snapshot.read(length - 1, length)[0]
        if last.type == MARK:
            outdated: bool = last.data.get("revision") != self._source.revision
            return outdated
        # Nothing is put behind what somebody else went on with.
        return not is_foreign(last.data)

    def _mark(self, log: MappedLog) -> Event:
        """Return the event that says that the transcript was imported, whole."""
        seq = log.batch.next_seq
        data = {
            "tool": self._source.name,
            "revision": self._source.revision,
            "path": _absolute(self._transcript).encode("utf-8", "replace").decode(),
            "fingerprint": self._fingerprint,
            "sessions": [other for other in self._logs if other != log.header.id],
            "records": {name: getattr(self._tally, name) for name in _COUNTS},
        }
        # Two imports of the same file give the same log: the time is the source's.
        time = log.batch.read(seq - 1).time if seq else log.header.created_at
        return Event(seq, time, MARK, data, ignorable=True)

    def _entries(self, session_id: str) -> Iterator[Entry]:
        for item in self._items(RecordTally()):
            if isinstance(item, Entry) and item.session_id == session_id:
                yield item

    def _refusal(self, session_id: str, error: EventLogError) -> tuple[str, str]:
        """Return why a session is refused: a kind and a reason."""
        conflicts = isinstance(error, HeaderConflict | SequenceConflict)
        if conflicts and self._source.keeps_events and session_id in self._others:
            return "duplicate", self._differing(session_id)
        return type(error).__name__, str(error)

    def _differing(self, session_id: str) -> str:
        other = self._others[session_id]
        return f"session {session_id!r} is in {other} as well, with other records"

    def _lose(self, entry: Entry | Event) -> None:
        if isinstance(entry, Event):
            return
        lost = self._lost.setdefault(entry.session_id, {})
        is_mapped = not entry.type.startswith(f"{self._source.name}/")
        origin = entry.data["origin"]
        for place in map(_place, (origin, *origin.get("more", ()))):
            lost[place] = is_mapped or lost.get(place, False)

    def _refuse_read(self, session_id: str, kind: str, reason: str, *, whole: bool) -> None:
        """Refuse a session after it was read."""
        self._refused[session_id] = kind, reason
        if whole and len(self._logs) == 1:
            self._refuse_records(kind, reason)
        else:
            for entry in self._entries(session_id):
                self._lose(entry)

    def _refuse_all(self, error: EventLogError | OSError) -> None:
        """Count a transcript that cannot be had, and all of its records with it."""
        kind = "denied" if isinstance(error, PermissionError) else type(error).__name__
        reason = str(error)
        if isinstance(error, OSError) and error.strerror:
            reason = error.strerror
            if error.filename not in (None, str(self._transcript.path)):
                reason = f"{reason}: {error.filename}"
        for session_id in self._logs or filter(None, [self._own_id]):
            self._refused.setdefault(session_id, (kind, reason))
        if not self._refused:
            self._run.account.refuse(None, str(self._transcript), kind, reason)
        self._refuse_records(kind, reason)

    def _refuse_records(self, kind: str, reason: str) -> None:
        tally = self._tally
        tally.mapped = tally.kept = tally.altered = 0
        self._lost.clear()
        undecided = tally.found - tally.refused
        if undecided:
            path = str(self._transcript)
            tally.refuse(RecordFault(path, None, None, kind, reason, undecided))

    def _count_lost(self) -> None:
        """Count the records of refused sessions as refused."""
        tally = self._tally
        for session_id, places in self._lost.items():
            kind, reason = self._refused[session_id]
            kept = min(len(places) - sum(places.values()), tally.kept)
            mapped = min(len(places) - kept, tally.mapped)
            tally.mapped -= mapped
            tally.kept -= kept
            if mapped + kept:
                path = str(self._transcript)
                tally.refuse(RecordFault(path, None, None, kind, reason, mapped + kept))


def _absolute(transcript: Transcript) -> str:
    return str(evolve(transcript, path=Path(os.path.abspath(transcript.path))))


def _is_elsewhere(path: JSONValue, transcript: Transcript) -> bool:
    """
    Tell whether the file or folder that a mark names is there, and is another one than
    *transcript*.
    """
    if type(path) is not str or path == _absolute(transcript):
        return False
    try:
        is_other = not os.path.samefile(path, transcript.path)
    except (OSError, ValueError):
        return False
    # Not what would be waited for, such as a pipe.
    return is_other and (os.path.isfile(path) or os.path.isdir(path))


_COUNTS: Final = ("found", "mapped", "kept", "refused", "altered")


def _place(origin: dict[str, JSONValue]) -> JSONValue:
    return origin.get("offset", origin.get("at", origin["key"]))
