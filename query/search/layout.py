"""
What the file of an index holds.

Text arrives analysed. ``fts`` has the words of each document and, in a second column,
its facets, one for its session and one for its type, so that the search of one session is
one MATCH. No word looks like a facet. The table is contentless, so a row of it is never
changed: a document that is gone has no row in ``doc`` any more and so is never found, and
the file is built anew once much of it is hidden.

A *position* numbers what is indexed, in order: every document, and every replacement
that has no text. It is the id of the document. What happened after a position can be told
apart, so an answer can be continued as of the position that it began at.
"""

from __future__ import annotations

from typing import Final
from uuid import uuid4

from .database import CORRUPT, Database, DatabaseFailure
from .expressions import session_facet

__all__ = [
    "LAYOUT",
    "ForeignDatabase",
    "check_whole",
    "clear",
    "ensure",
    "generation",
    "state_number",
]

# Part of an index's identity: raise it with every change of the tables or their meaning.
LAYOUT: Final = 3

APPLICATION_ID: Final = 0x65766C69
"""Marks the file as an index of ours; what has another mark is never touched."""

_TABLES: Final = (
    """CREATE TABLE state(name TEXT PRIMARY KEY, value) WITHOUT ROWID""",
    # Each indexed session; length is how many of its events are covered, tail the digest
    # of the last of them. A session that is indexed anew gets a new sid.
    """CREATE TABLE session(
        sid INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, created_at INT NOT NULL, cwd TEXT,
        parent TEXT, seed INT NOT NULL, header BLOB NOT NULL, length INT NOT NULL, tail BLOB,
        turn INT, docs INT NOT NULL, shared INT, shared_sid INT)""",
    """CREATE INDEX session_seed ON session(sid) WHERE seed > 0""",
    """CREATE TABLE kind(kid INTEGER PRIMARY KEY, type TEXT UNIQUE NOT NULL)""",
    """CREATE TABLE tally(
        sid INT, kid INT, docs INT NOT NULL, PRIMARY KEY(sid, kid)) WITHOUT ROWID""",
    # node: whether it ever was on the surface; by_seq, by_pos: its replacer.
    """CREATE TABLE doc(
        id INTEGER PRIMARY KEY, sid INT NOT NULL, seq INT NOT NULL, time INT NOT NULL,
        kid INT NOT NULL, turn INT, node INT NOT NULL, by_seq INT, by_pos INT)""",
    """CREATE UNIQUE INDEX doc_place ON doc(sid, seq)""",
    """CREATE VIRTUAL TABLE fts USING fts5(body, meta, content='', tokenize='ascii')""",
    """INSERT INTO fts(fts, rank) VALUES('rank', 'bm25(1.0, 0.0)')""",
    """INSERT INTO fts(fts, rank) VALUES('automerge', 8)""",
    """CREATE VIRTUAL TABLE vocabulary USING fts5vocab(fts, col)""",
    # Words that a misspelled one may have meant, by their beginning and by their end.
    """CREATE TABLE term(word TEXT PRIMARY KEY) WITHOUT ROWID""",
    """CREATE TABLE mret(drow TEXT PRIMARY KEY) WITHOUT ROWID""",
    # What could not be read, by session; without one where it is not known whose it is.
    """CREATE TABLE fault(id TEXT, path TEXT, kind TEXT NOT NULL, detail TEXT NOT NULL)""",
    """CREATE INDEX fault_id ON fault(id)""",
    # Sessions that a search of their own has covered further than the store's token goes: of
    # one that came and went behind the token, the store says nothing.
    """CREATE TABLE ahead(id TEXT PRIMARY KEY) WITHOUT ROWID""",
)


class ForeignDatabase(Exception):
    """The file is a database of something else."""


def ensure(db: Database, identity: str) -> None:
    """
    Make the tables where there are none, and check them where there are.

    Raises:
        ForeignDatabase: It is none of ours. Nothing was changed.

        DatabaseFailure: It is ours, and broken or of another identity.
    """
    _check_owner(db)
    # WAL lets others read while one writes. Losing the last commits with the power is
    # harmless: the mark is lost with them, and they are indexed again.
    db.execute("PRAGMA page_size=8192")
    if db.value("PRAGMA page_count") == 0:
        # On a file that has pages this is a write, and whoever only looks in makes none.
        db.execute("PRAGMA auto_vacuum=INCREMENTAL")
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    db.execute("PRAGMA cache_size=-32000")
    db.execute("PRAGMA temp_store=MEMORY")
    if db.value("SELECT count(*) FROM sqlite_schema") == 0:
        with db.transaction():
            # Another process may have come first.
            if db.value("SELECT count(*) FROM sqlite_schema") == 0:
                db.execute(f"PRAGMA application_id={APPLICATION_ID}")
                for statement in _TABLES:
                    db.execute(statement)
                _write_state(db, identity)
        _check_owner(db)
    if db.value("SELECT value FROM state WHERE name = 'identity'") != identity:
        raise DatabaseFailure(CORRUPT, "the index is of another identity")
    check_whole(db)


def state_number(db: Database, name: str) -> int:
    """
    Return a number that the index keeps of itself.

    Raises:
        DatabaseFailure: It is none: the file is broken.
    """
    value = db.value("SELECT value FROM state WHERE name = ?", (name,))
    if type(value) is not int:
        raise DatabaseFailure(CORRUPT, f"the index has no number {name}")
    return value


def generation(db: Database) -> str:
    """Return what tells this build of the index from every other one."""
    return str(db.value("SELECT value FROM state WHERE name = 'generation'"))


def check_whole(db: Database) -> None:
    """
    Refuse what is broken though every statement works: numbers that would be given twice,
    and words that are gone while their documents are there. Nothing would be found then.

    Raises:
        DatabaseFailure: It is so. Cost: a look at the newest document.
    """
    with db.reading():
        for name, table in (("position", "doc"), ("sid", "session")):
            column = "id" if table == "doc" else "sid"
            newest = db.value(f"SELECT max({column}) FROM {table}")
            if newest is not None and newest >= state_number(db, name):
                raise DatabaseFailure(CORRUPT, f"the index would number a {table} twice")
        for position, sid in db.execute("SELECT id, sid FROM doc ORDER BY id DESC LIMIT 1"):
            held = "SELECT 1 FROM fts WHERE fts MATCH ? AND rowid = ?"
            if not db.execute(held, (f'"{session_facet(sid)}"', position)):
                raise DatabaseFailure(CORRUPT, "the index has lost its words")


def clear(db: Database, identity: str) -> None:
    """Take out everything, inside a transaction; what others hold on to goes stale."""
    for table in ("state", "session", "kind", "tally", "doc", "term", "mret", "fault", "ahead"):
        db.execute(f"DELETE FROM {table}")
    db.execute("INSERT INTO fts(fts) VALUES('delete-all')")
    _write_state(db, identity)


def _write_state(db: Database, identity: str) -> None:
    db.execute_many(
        "INSERT INTO state VALUES(?, ?)",
        [
            ("identity", identity),
            ("generation", uuid4().hex[:16]),
            ("position", 1),
            ("sid", 1),
            ("docs", 0),
            ("gone", 0),
            ("token", None),
            ("recent", "[]"),
        ],
    )


def _check_owner(db: Database) -> None:
    application = db.value("PRAGMA application_id")
    if application == APPLICATION_ID:
        return
    if application != 0 or db.value("SELECT count(*) FROM sqlite_schema") != 0:
        raise ForeignDatabase
