"""
Where opencode keeps its sessions: reading a database, a tree of files, or an export.

Whatever the storage, a session comes as its facts and its messages, one record each. A
message of the older form is put together from its row or file and those of its parts.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import mkdtemp
from threading import Lock
from typing import Final

import orjson
from attrs import frozen

from eventlog.errors import CorruptLog, ValueRejected
from eventlog.sources import RecordFault, RecordTally
from eventlog.values import JSONValue

from .conversation import Object
from .documents import read_document, record_of
from .finding import denied, listed, read_regular
from .json_text import Parsed, clean, read_object
from .records import Record, digest_of

__all__ = [
    "SQLITE_MAGIC",
    "Stored",
    "database_sessions",
    "read_database",
    "read_export",
    "read_tree",
    "root_of",
    "tree_files",
]

SQLITE_MAGIC: Final = b"SQLite format 3\0"
# The tables of sessions, newest form first: what a session's messages are in.
SESSION_TABLES: Final = {"session_v2": "session_message", "session": "message"}


@frozen
class Stored:
    """
    One session.

    Attributes:
        facts: What is said of it as a whole.

        messages: Its messages in order.

        fault: What ended its file early, None where nothing did.
    """

    facts: Record
    messages: Iterator[Record]
    fault: RecordFault | None = None


# A database.


class _Copy:
    """The newest copy of a database, kept while its files stay as they are."""

    def __init__(self) -> None:
        self._stamps: tuple[object, ...] = ()
        self._folder: Path | None = None
        self._lock = Lock()

    def of(self, path: Path, log: Path) -> Path:
        """Return a copy of *path* and its log, made where there is none of this state."""
        stamps = (path, *(stamp for file in (path, log) for stamp in _stamps(file)))
        with self._lock:
            if self._folder is None or stamps != self._stamps:
                self.remove()
                self._folder = Path(mkdtemp(prefix="eventlog-"))
                shutil.copyfile(path, self._folder / "copy.db")
                shutil.copyfile(log, self._folder / "copy.db-wal")
                self._stamps = stamps
            return self._folder / "copy.db"

    def remove(self) -> None:
        """Take the copy away. Null case: there is none."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


_copy: Final = _Copy()
atexit.register(_copy.remove)


def _stamps(file: Path) -> tuple[int, int]:
    status = os.stat(file)
    return status.st_size, status.st_mtime_ns


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    """
    Hold a database open for reading, touching nothing beside it.

    Raises:
        sqlite3.Error: It cannot be read.
    """
    log = path.with_name(f"{path.name}-wal")
    shared = path.with_name(f"{path.name}-shm")
    how = "mode=ro"
    # Where nobody has it open, SQLite would make files beside it.
    if not shared.exists():
        if log.exists() and os.stat(log).st_size:
            path, how = _copy.of(path, log), "mode=rw"
        else:
            how = "mode=ro&immutable=1"
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?{how}", uri=True)
    # Texts are read as bytes: what is no UTF-8 is a matter of the record.
    connection.text_factory = bytes
    with closing(connection):
        yield connection


def database_sessions(path: Path) -> list[tuple[str, int]]:
    """
    Return the sessions of a database, in the order of their ids, and about how large each is.

    Raises:
        sqlite3.Error: It cannot be read.
    """
    found: dict[str, int] = {}
    with _connected(path) as connection:
        for table, messages in _session_tables(connection):
            sizes = dict(
                connection.execute(
                    f"SELECT session_id, sum(length(data)) FROM {messages} GROUP BY session_id"
                )
            )
            for (session_id,) in connection.execute(f"SELECT id FROM {table}"):
                found.setdefault(_text(session_id), sizes.get(session_id) or 0)
    return sorted(found.items())


def _session_tables(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    names = {_text(name) for (name,) in rows}
    return [
        (table, messages)
        for table, messages in SESSION_TABLES.items()
        if table in names and messages in names
    ]


@contextmanager
def read_database(path: Path, session_id: str, tally: RecordTally) -> Iterator[Stored]:
    """
    Hold one session of a database open.

    Raises:
        sqlite3.Error: It cannot be read.

        CorruptLog: There is no such session.
    """
    with _connected(path) as connection:
        for table, messages in _session_tables(connection):
            row = connection.execute(f"SELECT * FROM {table} WHERE id = ?", (session_id,))
            names = [column[0] for column in row.description]
            values = row.fetchone()
            if values is None:
                continue
            tally.found += 1
            facts = _row(dict(zip(names, values, strict=True)))
            record = Record(facts.value, _digest(facts), {"at": f"{table}/{session_id}"}, facts.raw)
            if messages == "session_message":
                yield Stored(record, _new_rows(connection, session_id, path, tally))
            else:
                yield Stored(record, _old_rows(connection, session_id, path, tally))
            return
    raise CorruptLog(session_id, str(path), None, None, None, "missing", "it is gone")


def _new_rows(
    connection: sqlite3.Connection, session_id: str, path: Path, tally: RecordTally
) -> Iterator[Record]:
    rows = connection.execute(
        "SELECT * FROM session_message WHERE session_id = ? ORDER BY seq, id", (session_id,)
    )
    names = [column[0] for column in rows.description]
    for values in rows:
        row = dict(zip(names, values, strict=True))
        yield from _message(row, f"session_message/{_text(row.get('id'))}", path, tally)


def _old_rows(
    connection: sqlite3.Connection, session_id: str, path: Path, tally: RecordTally
) -> Iterator[Record]:
    rows = connection.execute(
        "SELECT id, data FROM message WHERE session_id = ? ORDER BY id", (session_id,)
    )
    for message_id, data in rows:
        at = f"message/{_text(message_id)}"
        tally.found += 1
        try:
            info = _object_in(data)
        except ValueRejected as error:
            tally.refuse(RecordFault(str(path), None, None, "malformed", f"{at}: {error}"))
            continue
        parts = []
        found = connection.execute(
            "SELECT id, data FROM part WHERE message_id = ? ORDER BY id", (_text(message_id),)
        )
        for part_id, part_data in found:
            part = _part_row(part_data, f"part/{_text(part_id)}", path, tally)
            if part is not None:
                parts.append(({"id": _text(part_id)}, part))
        yield _composed({"id": _text(message_id)}, info, parts, at, tally)


def _part_row(data: object, at: str, path: Path, tally: RecordTally) -> Parsed | None:
    try:
        return _object_in(data)
    except ValueRejected as error:
        tally.refuse_unread(RecordFault(str(path), None, None, "malformed", f"{at}: {error}"))
        return None


def _message(row: dict[str, object], at: str, path: Path, tally: RecordTally) -> Iterator[Record]:
    tally.found += 1
    data = row.pop("data", None)
    try:
        parsed = _object_in(data)
    except ValueRejected as error:
        tally.refuse(RecordFault(str(path), None, None, "malformed", f"{at}: {error}"))
        return
    facts = _row(row)
    tally.altered += parsed.raw is not None or facts.raw is not None
    value = {**facts.value, "data": parsed.value}
    digest = digest_of(orjson.dumps(value))
    raw = parsed.raw if parsed.raw is not None else facts.raw
    yield Record(value, digest, {"at": at}, raw, parsed.reason or facts.reason)


def _row(row: dict[str, object]) -> Parsed:
    """Return a row as an object; its texts of JSON are left as texts."""
    value: Object = {}
    raw: str | None = None
    for name, cell in row.items():
        if isinstance(cell, bytes):
            text = cell.decode("utf-8", "replace")
            if "\ufffd" in text and text.encode() != cell:
                raw = (raw or "") + f"{name}: {cell.decode('utf-8', 'backslashreplace')}\n"
            cell = text
        value[name] = cell
    # A cell may hold a number that JSON has not.
    return Parsed(clean(value), raw, None if raw is None else "is not UTF-8")


def _object_in(cell: object) -> Parsed:
    """Read the object that a cell holds as JSON."""
    if not isinstance(cell, bytes):
        raise ValueRejected("data", f"must be a text, not {type(cell).__name__}")
    return read_object(cell)


def _text(cell: object) -> str:
    return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)


def _digest(parsed: Parsed) -> str:
    return digest_of(orjson.dumps(parsed.value))


def _composed(
    ids: Object,
    info: Parsed,
    parts: list[tuple[Object, Parsed]],
    at: str,
    tally: RecordTally,
) -> Record:
    """Put a message together from itself and its parts."""
    value: Object = {
        "info": {**ids, **info.value},
        "parts": [{**part_ids, **part.value} for part_ids, part in parts],
    }
    raws = [found.raw for found in (info, *(part for _, part in parts)) if found.raw is not None]
    reasons = [found.reason for found in (info, *(part for _, part in parts)) if found.reason]
    tally.altered += bool(raws)
    digest = digest_of(orjson.dumps(value))
    return Record(
        value,
        digest,
        {"at": at},
        "\n".join(raws) if raws else None,
        reasons[0] if reasons else None,
    )


# A tree of files.


def root_of(session: Path) -> Path:
    """Return the folder of the tree that a session's own file stands in."""
    return session.parent.parent.parent


def tree_files(session: Path) -> list[Path]:
    """
    Return the files of a session's messages and their parts, in order; of parts that
    cannot be listed their folder.

    Raises:
        OSError: The system refuses to list the messages.
    """
    found = []
    for message in _message_files(session):
        found.append(message)
        try:
            found += _part_files(message)
        except OSError:
            found.append(_part_folder(message))
    return found


def _message_files(session: Path) -> list[Path]:
    return listed(root_of(session) / "message" / session.stem, ".json")


def _part_folder(message: Path) -> Path:
    return message.parent.parent.parent / "part" / message.stem


def _part_files(message: Path) -> list[Path]:
    return listed(_part_folder(message), ".json")


def read_tree(session: Path, tally: RecordTally) -> Stored:
    """
    Read a session from its tree of files.

    Raises:
        CorruptLog: Its own file is no object.

        OSError: The system refuses to read it.
    """
    try:
        facts = read_object(read_regular(session, root_of(session)))
    except ValueRejected as error:
        raise CorruptLog(None, str(session), None, None, None, "header", str(error)) from error
    tally.found += 1
    root = root_of(session)
    place: Object = {"at": session.relative_to(root).as_posix()}
    record = Record(facts.value, _digest(facts), place, facts.raw, facts.reason)
    return Stored(record, _tree_messages(session, root, tally))


def _tree_messages(session: Path, root: Path, tally: RecordTally) -> Iterator[Record]:
    for file in _message_files(session):
        info = _read_file(file, root, tally)
        if info is None:
            continue
        tally.found += 1
        parts = []
        try:
            part_files = _part_files(file)
        except OSError as error:
            part_files = []
            tally.refuse_unread(_refusal(_part_folder(file), error))
        for part_file in part_files:
            part = _read_file(part_file, root, tally)
            if part is not None:
                parts.append(({"id": part_file.stem}, part))
        at = file.relative_to(root).as_posix()
        yield _composed({"id": file.stem}, info, parts, at, tally)


def _refusal(path: Path, error: OSError) -> RecordFault:
    refused = denied(path, error)
    return RecordFault(str(path), None, None, refused.kind, refused.reason)


def _read_file(file: Path, root: Path, tally: RecordTally) -> Parsed | None:
    """Read a file that is one object; where it is none it counts as a record refused."""
    try:
        return read_object(read_regular(file, root))
    except ValueRejected as error:
        fault = RecordFault(str(file), None, None, "malformed", error.reason)
    except OSError as error:
        fault = _refusal(file, error)
    tally.refuse_unread(fault)
    return None


# An export.


def read_export(path: Path, tally: RecordTally) -> Stored:
    """
    Read what ``opencode export`` wrote.

    Raises:
        CorruptLog: It is no export.

        OSError: The system refuses to read it.
    """
    document = read_document(path)
    value = document.value
    if type(value) is not dict or type(value.get("info")) is not dict:
        raise CorruptLog(None, str(path), None, None, None, "header", "it is no export")
    messages = value.get("messages")
    facts = record_of(value["info"], "info", path, tally)
    if facts is None:
        raise CorruptLog(None, str(path), None, None, None, "header", tally.faults[-1].reason)
    found = messages if type(messages) is list else []
    return Stored(facts, _export_messages(found, path, tally), document.fault)


def _export_messages(messages: list[JSONValue], path: Path, tally: RecordTally) -> Iterator[Record]:
    for position, message in enumerate(messages):
        record = record_of(message, f"messages/{position}", path, tally)
        if record is not None:
            yield record
