"""
Writing an index: the documents of logs, in batches that commit together with what they
cover.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Final

from attrs import define, field, frozen

from eventlog.codec import encode_line
from eventlog.errors import CorruptLog, InvalidSurface, UnsupportedFormat
from eventlog.model import Event, Fault, Replace, SessionHeader
from eventlog.snapshot import LogSnapshot
from eventlog.vocabulary import Vocabulary

from ..errors import Code, SessionQueryError, asked
from .analyzer import analyze
from .database import CORRUPT, Database, DatabaseFailure
from .expressions import session_facet, type_facet
from .layout import state_number
from .parsing import is_fuzzy_word

__all__ = [
    "IndexWriter",
    "IndexedSession",
    "event_digest",
    "header_digest",
    "readable",
    "turn_number",
]

READ_EVENTS: Final = 256
BATCH_DOCUMENTS: Final = 2_000
BATCH_CHARS: Final = 4_000_000
DAMAGED_EVENTS_MAX: Final = 64
"""So many unreadable events in one stretch of a log end its indexing there."""
KNOWN_WORDS_MAX: Final = 300_000


@frozen
class IndexedSession:
    """
    What an index knows of a session.

    Attributes:
        sid: Its number in the index.

        header: The digest of its header.

        length: How many of its events are covered.

        tail: The digest of the last of them, None while there is none.

        turn: The number of the turn that the last of them is in.
    """

    sid: int
    header: bytes
    length: int
    tail: bytes | None
    turn: int | None


@define
class _Batch:
    """What the next commit writes."""

    documents: list[tuple[object, ...]] = field(factory=list)
    bodies: list[tuple[int, str, str]] = field(factory=list)
    shadows: list[tuple[int, int, int, int]] = field(factory=list)
    tallies: dict[tuple[int, int], int] = field(factory=dict)
    words: set[str] = field(factory=set)
    chars: int = 0


class IndexWriter:
    """
    Writes into one index. The owner locks: one writer at a time, in all processes.

    Args:
        db: The index.

        vocabulary: What the text of an event is.
    """

    def __init__(self, db: Database, vocabulary: Vocabulary) -> None:
        self._db = db
        self._vocabulary = vocabulary
        self._batch = _Batch()
        self._open = False
        self._kinds: dict[str, int] = {}
        self._known_words: set[str] = set()

    def begin(self) -> None:
        """Open the transaction that the next :meth:`commit` ends, if none is open."""
        if not self._open:
            self._db.execute("BEGIN IMMEDIATE")
            self._open = True
            self._position: int = state_number(self._db, "position")

    def commit(self) -> None:
        """Write out the batch and commit it. Null case: nothing is open."""
        if self._open:
            self.write_out()
            self._db.execute("COMMIT")
            self._open = False

    def abort(self) -> None:
        """Forget what was not committed."""
        self._batch = _Batch()
        self.forget()
        if self._open:
            self._open = False
            self._db.execute("ROLLBACK")

    def forget(self) -> None:
        """Forget what is known of the file, which another process has written to."""
        self._kinds.clear()
        self._known_words.clear()

    def find(self, session_id: str) -> IndexedSession | None:
        """Return what is known of a session; None where it is not indexed."""
        rows = self._db.execute(
            "SELECT sid, header, length, tail, turn FROM session WHERE id = ?", (session_id,)
        )
        if not rows:
            return None
        known = IndexedSession(*rows[0])
        if type(known.length) is not int or type(known.header) is not bytes:
            raise DatabaseFailure(CORRUPT, f"the index has a broken row of {session_id!r}")
        return known

    def remove(self, session_id: str) -> None:
        """Take a session out. Null case: it is not there."""
        self.begin()
        known = self.find(session_id)
        self._db.execute("DELETE FROM fault WHERE id = ?", (session_id,))
        if known is None:
            return
        # What the batch holds of it must not come back.
        self.write_out()
        docs = self._db.value("SELECT docs FROM session WHERE sid = ?", (known.sid,))
        for table in ("doc", "tally", "session"):
            self._db.execute(f"DELETE FROM {table} WHERE sid = ?", (known.sid,))
        self._db.execute("UPDATE state SET value = value - ? WHERE name = 'docs'", (docs,))
        self._db.execute("UPDATE state SET value = value + ? WHERE name = 'gone'", (docs,))

    def index(self, log: LogSnapshot, *, tick: Callable[[], None] = lambda: None) -> None:
        """
        Cover a log up to its length, from where it is covered already; anew where it is
        another log than the one that was indexed.

        What cannot be read is left out and kept as a fault of the session. The batch may
        be committed on the way, and is not at the end.

        Args:
            tick: Called after each stretch; what it raises passes through.

        Cost: the events that are new, and one that is known.
        """
        self.begin()
        header = log.header
        known = self.find(header.id)
        if known is not None and not self.continues(known, log):
            self.remove(header.id)
            known = None
        if known is None:
            known = self._create(header)
        start = known.length
        while start < log.length:
            stop = min(start + READ_EVENTS, log.length)
            events, fault = readable(log, start, stop)
            if fault is not None:
                self.set_fault(fault)
                if len(events) + DAMAGED_EVENTS_MAX < stop - start:
                    # Too much is gone to try every event: what stands before it counts.
                    numbered = enumerate(events, start)
                    whole = [event for seq, event in numbered if event.seq == seq]
                    self._add(log, known, whole, start + len(whole))
                    break
            known = self._add(log, known, events, stop)
            start = stop
            tick()
            if len(self._batch.documents) >= BATCH_DOCUMENTS or self._batch.chars >= BATCH_CHARS:
                self.commit()
                self.begin()

    def continues(self, known: IndexedSession, log: LogSnapshot) -> bool:
        """Tell whether *log* is the log that was indexed, perhaps longer. Cost: 1 event."""
        if known.header != header_digest(log.header) or known.length > log.length:
            return False
        if known.length == 0:
            return True
        try:
            (last,) = log.read(known.length - 1, known.length)
        except (CorruptLog, SessionQueryError) as error:
            if not _is_damage(error):
                raise
            return known.tail is None
        return event_digest(last) == known.tail

    def set_fault(self, fault: Fault) -> None:
        """Keep the fault of a session, in the place of the one before."""
        self.begin()
        self._db.execute(
            "DELETE FROM fault WHERE id IS ? AND path IS ?", (fault.session_id, fault.path)
        )
        self._db.execute(
            "INSERT INTO fault VALUES(?, ?, ?, ?)",
            (fault.session_id, fault.path, fault.kind, fault.detail),
        )

    def _create(self, header: SessionHeader) -> IndexedSession:
        sid = state_number(self._db, "sid")
        self._db.execute("UPDATE state SET value = ? WHERE name = 'sid'", (sid + 1,))
        digest = header_digest(header)
        self._db.execute(
            "INSERT INTO session VALUES(?, ?, ?, ?, ?, ?, ?, 0, NULL, NULL, 0, NULL, NULL)",
            (
                sid,
                header.id,
                header.created_at,
                header.cwd,
                header.parent_session,
                header.seed_length or 0,
                digest,
            ),
        )
        return IndexedSession(sid, digest, 0, None, None)

    def _add(
        self, log: LogSnapshot, known: IndexedSession, events: list[Event], stop: int
    ) -> IndexedSession:
        """Put *events* into the batch and cover the session up to *stop*."""
        batch, sid, turn = self._batch, known.sid, known.turn
        for event in events:
            if event.type == "turn/start":
                turn = turn_number(event, turn)
            text = asked(self._vocabulary.text, event)
            position = self._position
            if text:
                kind = self._kind(event.type)
                words = analyze(text)
                batch.documents.append(
                    (position, sid, event.seq, event.time, kind, turn, event.is_node)
                )
                facets = f"{session_facet(sid)} {type_facet(kind)}"
                batch.bodies.append((position, " ".join(words), facets))
                batch.words.update(words)
                batch.chars += len(text)
                batch.tallies[sid, kind] = batch.tallies.get((sid, kind), 0) + 1
            if type(event.surface_op) is Replace:
                batch.shadows += [
                    (event.seq, position, sid, seq) for seq in self._replaced(log, event.seq)
                ]
            if text or type(event.surface_op) is Replace:
                self._position += 1
        tail = event_digest(events[-1]) if events and events[-1].seq == stop - 1 else None
        self._db.execute(
            "UPDATE session SET length = ?, tail = ?, turn = ? WHERE sid = ?",
            (stop, tail, turn, sid),
        )
        return IndexedSession(sid, known.header, stop, tail, turn)

    def _replaced(self, log: LogSnapshot, seq: int) -> list[int]:
        try:
            return log.replaced(seq)
        except (InvalidSurface, CorruptLog, SessionQueryError) as error:
            if isinstance(error, SessionQueryError) and error.code not in (
                Code.INVALID_SURFACE,
                Code.CORRUPT_SESSION,
            ):
                raise
            self.set_fault(Fault(log.header.id, None, "surface", str(error)))
            return []

    def _kind(self, type: str) -> int:  # noqa: A002 - the event's field
        kind = self._kinds.get(type)
        if kind is None:
            self._db.execute("INSERT OR IGNORE INTO kind(type) VALUES(?)", (type,))
            kind = self._kinds[type] = self._db.value(
                "SELECT kid FROM kind WHERE type = ?", (type,)
            )
        return kind

    def write_out(self) -> None:
        """Write the batch, inside the transaction."""
        batch, self._batch = self._batch, _Batch()
        db = self._db
        db.execute_many(
            "INSERT INTO doc(id, sid, seq, time, kid, turn, node) VALUES(?, ?, ?, ?, ?, ?, ?)",
            batch.documents,
        )
        db.execute_many("INSERT INTO fts(rowid, body, meta) VALUES(?, ?, ?)", batch.bodies)
        db.execute_many(
            "UPDATE doc SET by_seq = ?, by_pos = ? WHERE sid = ? AND seq = ?", batch.shadows
        )
        for (sid, kind), docs in batch.tallies.items():
            db.execute(
                "INSERT INTO tally VALUES(?, ?, ?)"
                " ON CONFLICT(sid, kid) DO UPDATE SET docs = docs + excluded.docs",
                (sid, kind, docs),
            )
            db.execute("UPDATE session SET docs = docs + ? WHERE sid = ?", (docs, sid))
        self._write_words(batch.words)
        if batch.documents:
            db.execute(
                "UPDATE state SET value = value + ? WHERE name = 'docs'", (len(batch.documents),)
            )
        db.execute("UPDATE state SET value = ? WHERE name = 'position'", (self._position,))

    def _write_words(self, words: Iterable[str]) -> None:
        new = sorted(word for word in set(words) - self._known_words if is_fuzzy_word(word))
        if len(self._known_words) > KNOWN_WORDS_MAX:
            self._known_words.clear()
        self._known_words.update(words)
        self._db.execute_many("INSERT OR IGNORE INTO term VALUES(?)", [(word,) for word in new])
        self._db.execute_many(
            "INSERT OR IGNORE INTO mret VALUES(?)", sorted((word[::-1],) for word in new)
        )


def event_digest(event: Event) -> bytes:
    """Return what tells *event* from another one in its place."""
    return blake2b(encode_line(event), digest_size=12).digest()


def header_digest(header: SessionHeader) -> bytes:
    """Return what tells *header* from another one of its id."""
    return blake2b(encode_line(header), digest_size=12).digest()


def turn_number(event: Event, before: int | None) -> int | None:
    """Return the number of the turn that a ``turn/start`` begins; *before* if it has none."""
    turn = event.data.get("turn")
    return turn if type(turn) is int and 0 <= turn < 2**63 else before


def readable(log: LogSnapshot, start: int, stop: int) -> tuple[list[Event], Fault | None]:
    """Return what can be read of a stretch, and the fault of what cannot."""
    events: list[Event] = []
    first: Fault | None = None
    damaged = 0
    pending = [(start, stop)]
    while pending and damaged <= DAMAGED_EVENTS_MAX:
        start, stop = pending.pop()
        try:
            events += log.read(start, stop)
        except (CorruptLog, UnsupportedFormat, SessionQueryError) as error:
            if not _is_damage(error):
                raise
            if first is None:
                first = _fault(log.header.id, error)
            if stop - start == 1:
                damaged += 1
            else:
                middle = (start + stop) // 2
                pending += [(middle, stop), (start, middle)]
    return events, first


def _is_damage(error: Exception) -> bool:
    return not isinstance(error, SessionQueryError) or error.code is Code.CORRUPT_SESSION


def _fault(session_id: str, error: Exception) -> Fault:
    cause = error.__cause__ if isinstance(error, SessionQueryError) else error
    if isinstance(cause, CorruptLog):
        return Fault(session_id, cause.path, cause.kind, str(cause))
    return Fault(session_id, None, "malformed", str(cause))
