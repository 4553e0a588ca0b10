"""
What is wrong with one log, and what would mend it.

A repaired log has, for each seq from 0 on, the first whole record of it that the file
holds; one that was recovered from damaged bytes where no whole one is there and it
continues the log; and an event of the type ``log/lost`` where there is neither. So no
event changes its seq, and none takes the place of another. All else is taken out.

A lost event is put on the surface where a later replacement starts or ends with it: it
must have been there. Otherwise nothing is known of it.
"""

from __future__ import annotations

from typing import Final

from attrs import define, evolve, field, frozen

from eventlog.codec import decode_line, encode_line
from eventlog.errors import CorruptLog, InvalidSurface, ValueRejected
from eventlog.findings import LOST_TYPE, Change, Finding
from eventlog.model import APPEND, Event, Replace, SessionHeader
from eventlog.verifying import FoldCheck, finding_of

from .examining import Piece, pieces_of
from .layout import HeaderFacts, read_header
from .lines import Lines
from .medium import LogFile
from .names import log_name
from .recovery import readable

__all__ = ["Edit", "Judgement", "judge", "right_name"]

# More events than this are not made up for what is lost, nor very many more than are left:
# then it is likelier that a seq is damaged.
LOST_MAX: Final = 100_000
LOST_MAX_ALWAYS: Final = 1_000
LOST_MAX_FOR_EACH_LEFT: Final = 10


@frozen
class Edit:
    """
    Bytes to take out of a file and to put in.

    Attributes:
        offset: Where.

        removed: How many bytes are taken out.

        inserted: What is put there.
    """

    offset: int
    removed: int
    inserted: bytes


@frozen
class Judgement:
    """
    One log as of one reading.

    Attributes:
        findings: What is wrong, in file order; what concerns the file comes first.

        edits: What mends it, ascending; empty where nothing can, or needs to be.

        end: The offset behind the last line that counts, where a torn tail begins.

        size: How many bytes were looked at.
    """

    findings: list[Finding]
    edits: list[Edit]
    end: int
    size: int

    @property
    def is_torn(self) -> bool:
        """Whether there is something behind the last line that counts."""
        return self.end < self.size


@define
class _Draft:
    """A finding in the making."""

    kind: str
    piece: Piece
    seq: int
    detail: str
    removed: int
    kept: list[Event] = field(factory=list)
    missing: range = range(0)
    fills: dict[int, Event] = field(factory=dict)
    nodes: set[int] = field(factory=set)
    time: int = 0

    def lost(self) -> int:
        """How many events nothing is left of."""
        return len(self.missing) - len(self.fills)

    def inserted(self) -> bytes:
        found = [self.fills.get(seq) or self._lost(seq) for seq in self.missing]
        return b"".join(encode_line(event) for event in found + self.kept)

    def _lost(self, seq: int) -> Event:
        op = APPEND if seq in self.nodes else None
        data = {"reason": self.kind, "detail": self.detail}
        return Event(seq, self.time, LOST_TYPE, data, surface_op=op, ignorable=True)


def judge(file: LogFile, size: int) -> Judgement:
    """
    Read a log from the first to the last of *size* bytes.

    Cost: one pass with a fold, streaming; memory grows with the damage alone.
    """
    findings: list[Finding] = []
    lines = Lines(file, size)
    facts: HeaderFacts | None = None
    misnamed = False
    try:
        facts = read_header(file, file.status())
        next(lines)
    except CorruptLog as error:
        findings.append(_header_finding(file, error, size))
        misnamed = error.kind == "misnamed"
        first = lines.peek(0)
        # Where the header is missing altogether, an event comes first.
        if first is not None and (misnamed or not isinstance(readable(first.data), list)):
            next(lines)
    judging = _Judging(file.session_id, file.path, facts)
    for piece in pieces_of(lines):
        judging.add(piece)
    judging.finish()
    drafts = judging.drafts
    can_write = (facts is not None or misnamed) and not file.archived
    mends = can_write and sum(d.lost() for d in drafts) <= judging.lost_max
    end = size
    edits: list[Edit] = []
    found: list[Finding] = []
    for draft in drafts:
        finding = _finding(file, draft)
        if draft.kind == "torn":
            end = draft.piece.offset
            change = Change("cut", draft.removed) if can_write else None
        else:
            change = None
            if mends:
                edit = Edit(draft.piece.offset, draft.removed, draft.inserted())
                change = Change("edit", edit.removed, edit.inserted)
                edits.append(edit)
        found.append(evolve(finding, change=change))
    found += judging.refusals
    found.sort(key=lambda finding: finding.offset_bytes or 0)
    return Judgement(findings + found, edits, end, size)


def _finding(file: LogFile, draft: _Draft) -> Finding:
    piece = draft.piece
    return Finding(
        draft.kind,
        file.session_id,
        file.path,
        piece.line,
        piece.offset,
        draft.removed or piece.size,
        draft.seq,
        draft.detail,
    )


def _header_finding(file: LogFile, error: CorruptLog, size: int) -> Finding:
    finding = evolve(finding_of(error, file.session_id), size_bytes=size)
    if file.archived:
        return finding
    if error.kind == "empty":
        return evolve(finding, change=Change("set-aside"))
    if error.kind == "misnamed":
        name = right_name(file)
        return finding if name is None else evolve(finding, change=Change("rename", target=name))
    return finding


def right_name(file: LogFile) -> str | None:
    """Return the name that the header of a log asks for; None where there is no header."""
    line = next(Lines(file, file.status().st_size), None)
    try:
        header = None if line is None or line.data is None else decode_line(line.data)
    except (ValueRejected, InvalidSurface):
        return None
    return log_name(header.id) if isinstance(header, SessionHeader) else None


class _Judging:
    """
    The pieces of a log against the seqs that it should have.

    Attributes:
        drafts: What is wrong with lines, in file order.

        refusals: What the fold refuses.
    """

    def __init__(self, session_id: str | None, path: str, facts: HeaderFacts | None) -> None:
        self.drafts: list[_Draft] = []
        self.refusals: list[Finding] = []
        self._session_id = session_id
        self._path = path
        self._fold = FoldCheck()
        self._expected = 0
        self._left = 0
        self._time = 0 if facts is None else facts.header.created_at
        # Lines since the last event in place of which nothing can be read.
        self._unread: list[_Draft] = []
        self._gaps: list[_Draft] = []

    def add(self, piece: Piece) -> None:
        """Judge the next piece."""
        if not piece.events:
            unread = self._draft(piece, piece.fault or "malformed", self._expected, piece.detail)
            self.drafts.append(unread)
            if piece.fault == "malformed":
                self._unread.append(unread)
            return
        draft: _Draft | None = None
        if piece.fault is not None:
            draft = self._draft(piece, piece.fault, self._expected, piece.detail)
            self.drafts.append(draft)
        kept: list[Event] = []
        for event in piece.events:
            if event.seq < self._expected:
                draft = self._step_back(piece, event, draft)
                continue
            if event.seq > self._expected:
                self._leave_gap(piece, event, draft if not kept else None)
            self._take(event)
            kept.append(event)
            self._check(piece, event)
        if draft is not None:
            draft.kept += kept
        if kept:
            self._unread = []

    @property
    def lost_max(self) -> int:
        """How many lost events a repair stands in for."""
        return min(LOST_MAX, LOST_MAX_ALWAYS + LOST_MAX_FOR_EACH_LEFT * self._left)

    def finish(self) -> None:
        """Count each unreadable line at the end as one event that is lost."""
        for draft in self._unread:
            draft.missing = range(self._expected, self._expected + 1)
            self._expected += 1

    def _draft(self, piece: Piece, kind: str, seq: int, detail: str) -> _Draft:
        return _Draft(kind, piece, seq, detail, piece.size, time=self._time)

    def _take(self, event: Event) -> None:
        self._expected = event.seq + 1
        self._left += 1
        self._time = event.time
        op = event.surface_op
        if type(op) is Replace:
            for gap in self._gaps:
                gap.nodes.update(seq for seq in (op.start, op.end) if seq in gap.missing)

    def _leave_gap(self, piece: Piece, event: Event, draft: _Draft | None) -> None:
        """Note that events before *event* are missing; they were in what could not be read."""
        missing = range(self._expected, event.seq)
        if self._unread:
            draft = self._unread[-1]
        elif draft is None:
            first = "first " if self._expected == 0 else ""
            detail = f"{first}seq expected {self._expected}, found {event.seq}"
            draft = self._draft(piece, "seq", event.seq, detail)
            draft.removed = 0
            self.drafts.append(draft)
        draft.missing = missing
        self._gaps.append(draft)

    def _step_back(self, piece: Piece, event: Event, draft: _Draft | None) -> _Draft:
        """Note that *event* comes again, or late."""
        for gap in self._gaps:
            if event.seq in gap.missing and event.seq not in gap.fills:
                gap.fills[event.seq] = event
        if draft is not None:
            return draft
        last = self.drafts[-1] if self.drafts else None
        if last is not None and last.kind == "seq" and not last.kept and last.removed:
            behind = last.piece.offset + last.removed
            if behind == piece.offset:
                last.removed += piece.size
                return last
        detail = f"seq expected {self._expected}, found {event.seq}"
        draft = self._draft(piece, "seq", event.seq, detail)
        self.drafts.append(draft)
        return draft

    def _check(self, piece: Piece, event: Event) -> None:
        refused = self._fold.add(event)
        if refused is not None:
            finding = finding_of(refused, self._session_id)
            place = evolve(
                finding,
                path=self._path,
                line=piece.line,
                offset_bytes=piece.offset,
                size_bytes=piece.size,
            )
            self.refusals.append(place)
