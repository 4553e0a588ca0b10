"""
Bringing transcripts of other tools into a store: once, again, or after being killed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from attrs import define, field, frozen

from eventlog.sources import RecordTally, Transcript, TranscriptSource
from eventlog.store import EventStore

from .account import ImportAccount
from .transcript import TranscriptImport

__all__ = ["ImportProgress", "import_transcripts"]


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

    What a source changed since the import before becomes events behind those stored, among
    them replacements; the account counts them. Of two files of one session, one that goes
    on with the other is stored, whichever is found first, and counts once. Where each has
    what the other lacks the second, in the order of *paths* and, within a folder, of their
    paths, is refused, and the reason names both.

    Each session imported ends with an event of the type ``import/mark``, by which the next
    import recognises a file that did not change.

    A transcript that needs a package which is not installed is refused, and the reason
    says how to install it.

    Args:
        paths: Files and folders.

        progress: Called after each batch, and once for each file at least.

    Cost: O(bytes of the transcripts), and what *store* holds of them; memory for a batch
    of 4 MiB and for the longest record.

    Returns:
        The account. Null case: nothing found gives zeros.

    Raises:
        StoreUnavailable: *store* fails as a whole.

        StoreFull: *store* has no room. What was brought in stays.

        StoreReadOnly: *store* refuses writes.

        StoreClosed: *store* was closed.
    """
    return Run(store, source, progress).run(paths)


@define
class Run:
    """One run of :func:`import_transcripts`."""

    store: EventStore
    source: TranscriptSource
    progress: Callable[[ImportProgress], None] | None
    account: ImportAccount = field(init=False)
    seen: dict[str, Transcript] = field(factory=dict)
    files: int = 0
    files_total: int = 0
    bytes_total: int = 0

    def run(self, paths: Iterable[Path]) -> ImportAccount:
        self.account = ImportAccount(self.source.name)
        transcripts = self._find(paths)
        self.files_total = len(transcripts)
        self.bytes_total = sum(transcript.size_bytes for transcript in transcripts)
        for transcript in transcripts:
            TranscriptImport(self, transcript).run()
            self.files += 1
            self.report(transcript, RecordTally())
        return self.account

    def _find(self, paths: Iterable[Path]) -> list[Transcript]:
        """Return what is at *paths*, each once, however often it was named."""
        transcripts: dict[Transcript, None] = {}
        named: set[Path] = set()
        for path in map(Path, paths):
            nothing = True
            for found in self.source.find(path):
                nothing = False
                if isinstance(found, Transcript):
                    transcripts[found] = None
                elif found.path not in named:
                    named.add(found.path)
                    self.account.refuse(None, str(found.path), found.kind, found.reason)
            if nothing and not os.path.exists(path):
                self.account.refuse(None, str(path), "missing", "nothing is there")
        return list(transcripts)

    def report(self, transcript: Transcript, tally: RecordTally) -> None:
        """Say how far the import has come."""
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
