"""
Bringing transcripts of other tools into a store: once, again, or after being killed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from attrs import define, field, frozen

from eventlog.errors import (
    CorruptLog,
    EventLogError,
    MissingExtra,
    StoreClosed,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from eventlog.import_account import ImportAccount, ImportedSession, Outcome
from eventlog.model import Event, SessionHeader
from eventlog.sources import Opened, RecordFault, RecordTally, Transcript, TranscriptSource
from eventlog.store import EventStore

__all__ = ["ImportProgress", "import_transcripts"]

BATCH_EVENTS_MAX: Final = 1000
BATCH_BYTES_MAX: Final = 4 << 20

# What fails for one session would fail for all.
_FATAL: Final = (StoreClosed, StoreFull, StoreReadOnly, StoreUnavailable, MissingExtra)


@frozen
class ImportProgress:
    """
    How far an import has come.

    Attributes:
        path: The file in work.

        files: Files done before it.

        files_total: Files found.

        bytes: Bytes read so far.

        bytes_total: Bytes of all files found.
    """

    path: str
    files: int
    files_total: int
    bytes: int
    bytes_total: int


def import_transcripts(
    store: EventStore,
    source: TranscriptSource,
    paths: Iterable[Path],
    *,
    progress: Callable[[ImportProgress], None] | None = None,
) -> ImportAccount:
    """
    Bring every session at *paths* into *store*.

    The source is only read. What *store* holds is never rewritten: a session is
    completed, or left as it is, so an import that was stopped at any point is finished by
    running it again, and a second run adds nothing.

    Two files of one session are a fault of the second, in the order of *paths* and, within
    a folder, of their paths; the reason names both.

    Args:
        paths: Files and folders.

        progress: Called after each batch, and once for each file at least.

    Cost: O(bytes of the transcripts), and what *store* holds of them; memory for a batch
    of 4 MiB and for the longest record.

    Returns:
        The account. Null case: nothing found gives zeros.

    Raises:
        MissingExtra: A transcript needs a package that is not installed.

        StoreUnavailable: *store* fails as a whole.

        StoreFull: *store* has no room. What was brought in stays.

        StoreReadOnly: *store* refuses writes.

        StoreClosed: *store* was closed.
    """
    return _Import(store, source, progress).run(paths)


@define
class _Import:
    """One run of :func:`import_transcripts`."""

    store: EventStore
    source: TranscriptSource
    progress: Callable[[ImportProgress], None] | None
    account: ImportAccount = field(init=False)
    seen: dict[str, Path] = field(factory=dict)
    files: int = 0
    files_total: int = 0
    bytes_total: int = 0

    def run(self, paths: Iterable[Path]) -> ImportAccount:
        self.account = ImportAccount(self.source.name)
        transcripts = self._find(paths)
        self.files_total = len(transcripts)
        self.bytes_total = sum(transcript.size_bytes for transcript in transcripts)
        for transcript in transcripts:
            self._transcript(transcript)
            self.files += 1
        return self.account

    def _find(self, paths: Iterable[Path]) -> list[Transcript]:
        """Return what is at *paths*, each once, however often it was named."""
        transcripts: dict[Transcript, None] = {}
        named: set[Path] = set()
        for path in paths:
            nothing = True
            for found in self.source.find(path):
                nothing = False
                if isinstance(found, Transcript):
                    transcripts[found] = None
                elif found.path not in named:
                    named.add(found.path)
                    self.account.refuse(None, found.path, found.kind, found.reason)
            if nothing and not path.exists():
                self.account.refuse(None, path, "missing", "nothing is there")
        return list(transcripts)

    def _transcript(self, transcript: Transcript) -> None:
        tally = RecordTally()
        log: _NativeLog | None = None
        try:
            for item in self.source.read(transcript, tally):
                if isinstance(item, Opened):
                    first = self.seen.setdefault(item.header.id, transcript.path)
                    if first != transcript.path:
                        self.account.refuse(
                            item.header.id,
                            transcript.path,
                            "duplicate",
                            f"session {item.header.id!r} is in {first} as well",
                        )
                        return
                    log = _NativeLog(self.store, item.header)
                elif isinstance(item, Event):
                    assert log is not None
                    if log.add(item):
                        self._report(transcript, tally)
            if log is not None:
                log.flush()
                log.check(tally)
        except _FATAL:
            raise
        except (EventLogError, OSError) as error:
            self._refuse(transcript, log, error, tally)
        else:
            if log is not None:
                self.account.sessions.append(
                    ImportedSession(log.header.id, str(transcript), log.outcome, log.added)
                )
                self.account.events += log.added
        self.account.take(tally)
        self._report(transcript, RecordTally())

    def _refuse(
        self,
        transcript: Transcript,
        log: _NativeLog | None,
        error: EventLogError | OSError,
        tally: RecordTally,
    ) -> None:
        """Count a session that cannot be had, and all of its records with it."""
        kind = "denied" if isinstance(error, PermissionError) else type(error).__name__
        reason = str(error)
        session_id = None if log is None else log.header.id
        self.account.refuse(session_id, transcript.path, kind, reason)
        tally.mapped = tally.kept = tally.altered = 0
        undecided = tally.found - tally.refused
        if undecided:
            tally.refuse(RecordFault(str(transcript.path), None, None, kind, reason, undecided))

    def _report(self, transcript: Transcript, tally: RecordTally) -> None:
        if self.progress is not None:
            self.progress(
                ImportProgress(
                    str(transcript),
                    self.files,
                    self.files_total,
                    self.account.records.bytes_read + tally.bytes_read,
                    self.bytes_total,
                )
            )


class _NativeLog:
    """A log that keeps its events as they are: what is stored must be a part of it."""

    def __init__(self, store: EventStore, header: SessionHeader) -> None:
        head = store.head(header.id)
        self.header = header
        self.added = 0
        self.held = None if head is None else head.length
        self._store = store
        self._batch: list[Event] = []
        self._batch_bytes = 0

    def add(self, event: Event) -> bool:
        """Take the next event; returns whether a batch was stored."""
        self._batch.append(event)
        self._batch_bytes += len(event.payload)
        if len(self._batch) < BATCH_EVENTS_MAX and self._batch_bytes < BATCH_BYTES_MAX:
            return False
        self.flush()
        return True

    def flush(self) -> None:
        """Store what was taken; what the store holds already is compared with it."""
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        if not batch:
            return
        self._store.append(self.header, batch)
        self.added += max(0, batch[-1].seq + 1 - max(batch[0].seq, self.held or 0))

    def check(self, tally: RecordTally) -> None:
        """
        Refuse a session of which nothing could be read. One that has no events yet is no
        such case: no store keeps it, and there is nothing to bring.

        Raises:
            CorruptLog: It has records, and none is sound.
        """
        if self.held is None and self.added == 0 and tally.refused:
            raise CorruptLog(
                self.header.id, None, None, None, None, "empty", "no event of it can be read"
            )

    @property
    def outcome(self) -> Outcome:
        """What became of the session."""
        if self.added == 0:
            return Outcome.SAME
        return Outcome.NEW if self.held is None else Outcome.GROWN
