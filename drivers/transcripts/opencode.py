"""
opencode: a database, before that a tree of files, and what ``opencode export`` writes.

- ``opencode.db`` has sessions in the tables ``session_v2`` and ``session_message``, or in
  ``session``, ``message`` and ``part``; each session is read by itself. The database is
  opened for reading only; one with a log that no program holds open is read from a copy,
  so that nothing beside it is made or taken away.
- ``storage/session/PROJECT/ID.json`` with ``storage/message/ID`` and ``storage/part/…``.
- ``{"info": …, "messages": [{"info": …, "parts": […]}]}``.

Messages change while they are written; a session that was imported before is compared
message by message.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Final

from eventlog.drafts import SessionDraft
from eventlog.errors import CorruptLog
from eventlog.model import SessionHeader
from eventlog.sources import (
    VOLATILE,
    Item,
    Opened,
    RecordTally,
    Transcript,
    TranscriptSource,
    Unreadable,
)

from .conversation import Object
from .finding import denied, digest_of_files, find_files, usual_place
from .headers import imported_header
from .opencode_messages import OpenCodeSession
from .opencode_storage import (
    SQLITE_MAGIC,
    Stored,
    database_sessions,
    read_database,
    read_export,
    read_tree,
    root_of,
    tree_files,
)
from .times import number_ms

__all__ = ["OpenCode"]

TOOL: Final = "opencode"


class OpenCode(TranscriptSource):
    """Reads the sessions of opencode."""

    name = TOOL
    title = "opencode"
    reads_plain = True
    snapshots = True

    def usual_places(self, environ: Mapping[str, str]) -> list[Path]:
        return [usual_place(environ, "XDG_DATA_HOME", ".local", "share") / "opencode"]

    def find(self, path: Path) -> Iterator[Transcript | Unreadable]:
        for found in find_files(path, _is_wanted):
            if isinstance(found, Transcript) and _is_database(found.path):
                yield from _sessions_of(found)
            else:
                yield found

    def fingerprint(self, transcript: Transcript) -> str | None:
        path = transcript.path
        if transcript.part is not None:
            digest = blake2b(digest_size=16)
            with _session_of(transcript, RecordTally()) as stored:
                digest.update(stored.facts.digest.encode())
                for record in stored.messages:
                    digest.update(record.digest.encode())
            return digest.hexdigest()
        if not _is_in_tree(path):
            return super().fingerprint(transcript)
        return digest_of_files((path, *tree_files(path)), root_of(path))

    def read(self, transcript: Transcript, tally: RecordTally) -> Iterator[Item]:
        path = transcript.path
        if transcript.part is not None:
            with _session_of(transcript, tally) as stored:
                yield from _read(stored, path, tally)
        elif _is_in_tree(path):
            yield from _read(read_tree(path, tally), path, tally)
        else:
            stored = read_export(path, tally)
            yield from _read(stored, path, tally)
            tally.refuse_unread(stored.fault)
        tally.bytes_read = transcript.size_bytes


@contextmanager
def _session_of(transcript: Transcript, tally: RecordTally) -> Iterator[Stored]:
    """
    Hold a session of a database open.

    Raises:
        CorruptLog: It is gone, or the database cannot be read.
    """
    assert transcript.part is not None
    try:
        with read_database(transcript.path, transcript.part, tally) as stored:
            yield stored
    except sqlite3.Error as error:
        raise CorruptLog(
            transcript.part, str(transcript.path), None, None, None, "database", str(error)
        ) from error


def _is_wanted(folder: Path, _names: list[str], name: str) -> bool:
    # The folder of the tool's data also holds credentials; nothing else is opened.
    if name.endswith(".json"):
        return name.startswith("ses_") or "export" in name
    return name.endswith((".db", ".sqlite")) and folder.name != "storage"


def _is_database(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    except OSError:
        return False


def _is_in_tree(path: Path) -> bool:
    return path.parent.parent.name == "session" and (path.parent.parent.parent / "message").is_dir()


def _sessions_of(found: Transcript) -> Iterator[Transcript | Unreadable]:
    try:
        sessions = database_sessions(found.path)
    except sqlite3.Error as error:
        yield Unreadable(found.path, "database", str(error))
        return
    except OSError as error:
        yield denied(found.path, error)
        return
    for session_id, size_bytes in sessions:
        yield Transcript(found.path, session_id, size_bytes)


def _read(stored: Stored, path: Path, tally: RecordTally) -> Iterator[Item]:
    session = OpenCodeSession(SessionDraft(_header(stored.facts.value, path)))
    yield Opened(session.draft.header)
    for record in stored.messages:
        tally.count(session.add(record))
        yield from session.draft.take()
    session.add_facts(stored.facts, f"{VOLATILE}session")
    tally.kept += 1
    yield from session.draft.take()


def _header(facts: Object, path: Path) -> SessionHeader:
    """Build the header from a session's row, or from its object in a file."""
    parent = facts.get("parent_id", facts.get("parentID"))
    forked = facts.get("fork_session_id")
    times = facts.get("time")
    created = facts.get("time_created", times.get("created") if type(times) is dict else None)
    is_child = type(parent) is str and bool(parent)
    if not is_child:
        parent = forked
    return imported_header(
        TOOL,
        path,
        facts.get("id"),
        number_ms(created),
        cwd=facts.get("directory"),
        parent=parent,
        depth=1 if is_child else 0,
    )
