"""
Transcripts that other programs wrote, and the interface of what reads them.

A :class:`TranscriptSource` knows one tool: where it keeps its sessions, how its records
read, and what they mean here. It never writes. :func:`~eventlog.importing.import_transcripts`
brings what it reads into a store. Sources are found in the entry-point group
``eventlog.transcripts``; an entry is a class, called without arguments.

What a source yields for a transcript comes in two kinds. A tool whose logs are logs of
this library's format gives :class:`~eventlog.model.Event`: they keep their seq and their
data. Every other tool gives :class:`Entry`: an event still without a seq, which says by
its *origin* which record of the transcript it came from, and which earlier entries it
replaces or cites. Entries of several sessions may alternate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib.metadata import entry_points
from pathlib import Path
from typing import ClassVar, Final, NamedTuple, TypeAlias

from attrs import define, evolve, field, frozen

from eventlog.digests import FileDigests, begins_with
from eventlog.errors import InvalidArgument
from eventlog.model import Event, SessionHeader, SurfaceOp
from eventlog.values import JSONValue

__all__ = [
    "Entry",
    "Item",
    "Opened",
    "RecordFault",
    "RecordTally",
    "Transcript",
    "TranscriptSource",
    "Unreadable",
    "load_sources",
]

SOURCES_GROUP: Final = "eventlog.transcripts"
FAULTS_MAX: Final = 1000
VOLATILE: Final = "~"


@frozen
class Transcript:
    """
    Something that holds sessions: a file, a folder, or one session of a database.

    Attributes:
        path: The file or folder.

        part: Which session of it, where it is read session by session; None for all.

        size_bytes: How large it is, for progress; 0 where that is not known.
    """

    path: Path
    part: str | None = None
    size_bytes: int = field(default=0, eq=False)

    def __str__(self) -> str:
        return str(self.path) if self.part is None else f"{self.path} ({self.part})"


@frozen
class Unreadable:
    """
    Something that should hold a session and cannot be read.

    Attributes:
        path: The file or folder.

        kind: The class of damage, as in :class:`~eventlog.errors.CorruptLog`;
            ``"denied"`` where the system refuses to open it, ``"missing"`` where
            nothing is there, ``"special"`` for a pipe or a device, ``"link"`` for a link
            out of the folder that was looked through.

        reason: What was seen, for a person.
    """

    path: Path
    kind: str
    reason: str


@frozen
class RecordFault:
    """
    Records of a transcript that were not imported.

    Attributes:
        path: The file.

        line: The first one's line, counted from 1; None in a file without lines.

        offset_bytes: Where it starts, in the decompressed text of a compressed file;
            None where that is not known.

        kind: The class of damage: ``"malformed"``, ``"torn"``, ``"seq"``,
            ``"oversize"``, ….

        reason: What was seen, for a person.

        records: How many records in a row share it.
    """

    path: str
    line: int | None
    offset_bytes: int | None
    kind: str
    reason: str
    records: int = 1


@define
class RecordTally:
    """
    What became of each record of a transcript; a source counts while it reads.

    Attributes:
        found: Records read.

        mapped: Those that became events of a known meaning.

        kept: Those that became log-only events which keep the original.

        refused: Those that could not be imported; *faults* says why.

        altered: Those of *mapped* and *kept* in which something had to be replaced
            because no log can hold it; their exact text is kept beside it.

        faults: The first thousand faults; *refused* counts all.

        bytes_read: How far reading has come.
    """

    found: int = 0
    mapped: int = 0
    kept: int = 0
    refused: int = 0
    altered: int = 0
    faults: list[RecordFault] = field(factory=list)
    bytes_read: int = 0

    def refuse(self, fault: RecordFault) -> None:
        """
        Count the records of *fault*, which were counted as found, as refused.

        Lines in a row that share a reason, and lines behind one that is missing, make one
        fault.
        """
        self.refused += fault.records
        last = self.faults[-1] if self.faults else None
        if last is not None and _continues(last, fault):
            self.faults[-1] = evolve(last, records=last.records + fault.records)
        elif len(self.faults) < FAULTS_MAX:
            self.faults.append(fault)

    def refuse_unread(self, fault: RecordFault | None) -> None:
        """
        Count what *fault* names, which no record could be made of, as found and refused.
        None counts nothing.
        """
        if fault is not None:
            self.found += fault.records
            self.refuse(fault)

    def count(self, mapped: bool) -> None:
        """Count a record, which was counted as found, as *mapped* or else as kept."""
        if mapped:
            self.mapped += 1
        else:
            self.kept += 1

    @property
    def adds_up(self) -> bool:
        """Whether every record found was mapped, kept or refused."""
        return self.found == self.mapped + self.kept + self.refused


def _continues(last: RecordFault, fault: RecordFault) -> bool:
    return (
        last.path == fault.path
        and last.kind == fault.kind
        and last.line is not None
        and last.line + last.records == fault.line
        and (last.kind == "seq" or last.reason == fault.reason)
    )


@frozen
class Opened:
    """
    The start of a session; everything of it comes later.

    Attributes:
        header: Its header. Where the session is stored already, the stored one stays.
    """

    header: SessionHeader


class Entry(NamedTuple):
    """
    An event of a session that has no seq yet.

    The entries of a session are numbered from 0 in the order in which they come. A tuple,
    which is made in a third of the time that a frozen record takes.

    Attributes:
        session_id: The session; it was opened before.

        type: The event's type.

        time: Unix milliseconds.

        data: The event's data. ``data["origin"]`` says which record it came from: its
            ``key`` names the record and the part of it, its ``digest`` changes with the
            record, and the two are equal for an entry that came from the same record,
            unchanged. A key that starts with ``~`` is that of a fact which every import
            finds changed, such as a time of last use: one that is gone was not taken
            back.

        surface_op: As an event's, but that a :class:`~eventlog.model.Replace` names
            entries by their numbers.

        cites: Earlier entries that it cites, by their numbers; every entry that it
            replaces is among them.

        content: For a ``tool/result`` that rewrites an earlier one: the new content.
            Everything else is that of the result that it replaces, *data* has only an
            origin, and that is not stored.
    """

    session_id: str
    type: str
    time: int
    data: dict[str, JSONValue]
    surface_op: SurfaceOp | None = None
    cites: Sequence[int] = ()
    content: list[JSONValue] | None = None


Item: TypeAlias = Opened | Entry | Event


class TranscriptSource(ABC):
    """
    One tool's transcripts.

    Attributes:
        name: What the command line calls it, such as ``"claude-code"``.

        title: What people call it.

        revision: Raise it when records begin to be mapped differently, so that what was
            imported before is looked at again.

        keeps_events: Whether its logs have this library's format: :meth:`read` yields
            events and not entries.

        reads_plain: Whether every value in its entries' data was read from JSON by the rules
            of :mod:`eventlog.values`, or is a text or a number made of such: then entries
            are encoded without being walked once more.

        snapshots: Whether the tool rewrites its files, so that a record which is gone
            was taken back; otherwise it only appends, and a shorter file is an older
            copy.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    revision: ClassVar[int] = 1
    keeps_events: ClassVar[bool] = False
    reads_plain: ClassVar[bool] = False
    snapshots: ClassVar[bool] = False

    @abstractmethod
    def usual_places(self, environ: Mapping[str, str]) -> list[Path]:
        """
        Return where the tool keeps its sessions, existing or not.

        Args:
            environ: The environment, with the tool's own variables and ``HOME``.
        """

    @abstractmethod
    def find(self, path: Path) -> Iterator[Transcript | Unreadable]:
        """
        Yield the transcripts at *path*, a file or a folder, in an order that does not
        depend on the file system's. Nothing there gives nothing.
        """

    @abstractmethod
    def read(self, transcript: Transcript, tally: RecordTally) -> Iterator[Item]:
        """
        Yield the sessions of *transcript* and what they hold, counting each record.

        The same bytes give the same items, and more bytes behind them give the same
        items first, but for records that a later one completes.

        Raises:
            CorruptLog: It holds no session, or none can be read.

            UnsupportedFormat: It has a version that is not known.

            InvalidSurface: It is a log, and its surface is not valid.

            OSError: The system refuses to read it.
        """

    def fingerprint(self, transcript: Transcript) -> str | None:
        """
        Return what is equal for equal contents of *transcript*, here a digest of the
        file; None where there is no such thing.

        Cost: O(bytes of the file); O(1) where this source was asked about it before, and
        it has not changed since.

        Raises:
            OSError: The system refuses to read it.
        """
        return self._digests.of(transcript.path)

    def continues(self, transcript: Transcript, earlier: Transcript) -> bool:
        """
        Tell whether *transcript* has all of *earlier*, unchanged, and nothing before or
        between; here whether the bytes of its file begin with those of the other. Asked
        where both hold one session and the tool only appends.

        Cost: O(bytes of the shorter one).

        Raises:
            OSError: The system refuses to read one of them.
        """
        return begins_with(transcript.path, earlier.path)

    @cached_property
    def _digests(self) -> FileDigests:
        return FileDigests()


def load_sources() -> dict[str, TranscriptSource]:
    """
    Return the known sources by name, sorted.

    Raises:
        InvalidArgument: An entry point of the group gives something else.
    """
    sources = {}
    for point in sorted(entry_points(group=SOURCES_GROUP), key=lambda point: point.name):
        source = point.load()()
        if not isinstance(source, TranscriptSource):
            raise InvalidArgument(
                SOURCES_GROUP, f"{point.name!r} gave a {type(source).__name__}, not a source"
            )
        sources[point.name] = source
    return sources
