"""
OpenHands: a folder a conversation, or a list of events in one file.

Version 1 keeps ``CONVERSATION/base_state.json`` and ``CONVERSATION/events/event-*.json``,
one event a file, in the order of their numbers. Version 0 wrote a trajectory as one JSON
list, or one file an event below ``SESSION/events``. Times have no zone and are read as UTC.

- A system prompt that changes takes the place of the one before.
- Calls that share an ``llm_response_id`` were one answer, and become one message.
- A condensation forgets a set of events: each run of them on the surface is replaced, the
  one at ``summary_offset`` by the summary, the others by nothing.
- An event whose ``parent_id`` is not the event before goes on from there: what came since
  is cut off.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from eventlog.drafts import SessionDraft
from eventlog.errors import CorruptLog, ValueRejected
from eventlog.model import SessionHeader
from eventlog.sources import (
    VOLATILE,
    Item,
    Opened,
    RecordFault,
    RecordTally,
    Transcript,
    TranscriptSource,
    Unreadable,
)
from eventlog.values import JSONValue

from .conversation import Object
from .documents import DOCUMENT_BYTES_MAX, read_document, record_of
from .finding import (
    denied,
    digest_of_files,
    find_files,
    id_from_name,
    listed,
    read_regular,
    usual_place,
)
from .headers import imported_header
from .json_text import read_object
from .openhands_events import OpenHandsSession
from .records import Record, digest_of

__all__ = ["OpenHands"]

TOOL: Final = "openhands"
EVENT_FILE: Final = re.compile(r"(?:event-)?(\d+)(?:-.*)?\.json")


class OpenHands(TranscriptSource):
    """Reads the conversations of OpenHands."""

    name = TOOL
    title = "OpenHands"
    revision = 3  # system prompts that change, and what is put to messages and to these
    reads_plain = True

    def usual_places(self, environ: Mapping[str, str]) -> list[Path]:
        return [
            usual_place(environ, "OPENHANDS_CONVERSATIONS_DIR", ".openhands", "conversations"),
            usual_place(environ, "", ".openhands", "sessions"),
        ]

    def find(self, path: Path) -> Iterator[Transcript | Unreadable]:
        folders: dict[Path, None] = {}
        for found in find_files(path, _is_wanted):
            # A record that is no file, or cannot be read, is found out when it is read.
            if isinstance(found, Unreadable) and found.path.name == "events":
                folders[found.path.parent] = None
            elif found.path.parent.name == "events" and EVENT_FILE.fullmatch(found.path.name):
                folders[found.path.parent.parent] = None
            elif found.path.name == "base_state.json":
                folders[found.path.parent] = None
            else:
                yield found
        for folder in folders:
            try:
                files = _event_files(folder)
            except OSError as error:
                yield denied(folder, error)
            else:
                yield Transcript(folder, size_bytes=sum(map(_size_of, files)))

    def fingerprint(self, transcript: Transcript) -> str | None:
        path = transcript.path
        if not path.is_dir():
            return super().fingerprint(transcript)
        return digest_of_files((*_event_files(path), path / "base_state.json"), path)

    def continues(self, transcript: Transcript, earlier: Transcript) -> bool:
        path, front = transcript.path, earlier.path
        if not (path.is_dir() and front.is_dir()):
            return super().continues(transcript, earlier)
        names = {file.name for file in _event_files(path)}
        return all(
            file.name in names
            and read_regular(path / "events" / file.name, path) == read_regular(file, front)
            for file in _event_files(front)
        )

    def read(self, transcript: Transcript, tally: RecordTally) -> Iterator[Item]:
        path = transcript.path
        if path.is_dir():
            yield from _read_folder(path, tally)
        else:
            yield from _read_list(path, tally)


def _is_wanted(folder: Path, names: list[str], name: str) -> bool:
    if folder.name == "events":
        return EVENT_FILE.fullmatch(name) is not None
    if name == "base_state.json":
        return True
    # A list of events in a file of its own; what lies beside a conversation is none.
    return name.endswith(".json") and "base_state.json" not in names and name != "metadata.json"


def _size_of(file: Path) -> int:
    try:
        return os.stat(file).st_size
    except OSError:
        return 0


def _event_files(folder: Path) -> list[Path]:
    found = []
    for file in listed(folder / "events", ".json"):
        match = EVENT_FILE.fullmatch(file.name)
        if match:
            found.append((int(match.group(1)), file))
    return [file for _, file in sorted(found)]


def _read_folder(folder: Path, tally: RecordTally) -> Iterator[Item]:
    state_path = folder / "base_state.json"
    files = _event_files(folder)
    state: Record | None = None
    if os.path.lexists(state_path):
        state = _read_file(state_path, folder, tally)
    first = next(
        (r for file in files[:8] if (r := _read_file(file, folder, RecordTally())) is not None),
        None,
    )
    if state is None and first is None:
        raise CorruptLog(
            None, str(folder), None, None, None, "empty", "none of its events can be read"
        )
    session = OpenHandsSession(SessionDraft(_header(state, first, folder)), _model_of(state))
    yield Opened(session.draft.header)
    for file in files:
        record = _read_file(file, folder, tally)
        if record is not None:
            tally.count(session.add(record))
            yield from session.draft.take()
    session.settle()
    if state is not None:
        session.keep(state, "base_state", f"{VOLATILE}base_state")
        tally.kept += 1
    yield from session.draft.take()


def _read_list(path: Path, tally: RecordTally) -> Iterator[Item]:
    document = read_document(path)
    value = document.value
    facts: Object = {}
    if type(value) is dict:
        found = next((v for v in value.values() if type(v) is list), None)
        facts = {name: part for name, part in value.items() if part is not found}
        value = found
    if type(value) is not list:
        raise CorruptLog(None, str(path), None, None, None, "header", "it is no list of events")
    records = [record_of(item, str(place), path, tally) for place, item in enumerate(value)]
    first = next((record for record in records if record is not None), None)
    session = OpenHandsSession(SessionDraft(_header(None, first, path)), None)
    yield Opened(session.draft.header)
    for record in records:
        if record is not None:
            tally.count(session.add(record))
            yield from session.draft.take()
    session.settle()
    if facts:
        kept = record_of(facts, "/", path, tally)
        if kept is not None:
            session.keep(kept, "trajectory", f"{VOLATILE}trajectory")
            tally.kept += 1
    yield from session.draft.take()
    tally.refuse_unread(document.fault)
    tally.bytes_read = os.stat(path).st_size


def _read_file(file: Path, folder: Path, tally: RecordTally) -> Record | None:
    """Read a file that is one record; None where it is none, and the fault is named."""
    try:
        size = os.stat(file).st_size
        if size > DOCUMENT_BYTES_MAX:
            reason = f"{size} bytes; at most {DOCUMENT_BYTES_MAX} are read"
            tally.refuse_unread(RecordFault(str(file), None, None, "oversize", reason))
            return None
        text = read_regular(file, folder)
        parsed = read_object(text.removeprefix(b"\xef\xbb\xbf"))
    except ValueRejected as error:
        kind = "malformed" if text.strip(b" \t\r\n\0") else "empty"
        tally.refuse_unread(RecordFault(str(file), None, None, kind, error.reason))
        return None
    except OSError as error:
        refused = denied(file, error)
        fault = RecordFault(str(file), None, None, refused.kind, refused.reason)
        tally.refuse_unread(fault)
        return None
    tally.found += 1
    tally.bytes_read += len(text)
    tally.altered += parsed.raw is not None
    place: dict[str, JSONValue] = {"at": file.relative_to(folder).as_posix()}
    return Record(parsed.value, digest_of(text), place, parsed.raw, parsed.reason)


def _header(state: Record | None, first: Record | None, path: Path) -> SessionHeader:
    facts: Object = {} if state is None else state.value
    session_id = facts.get("id")
    if type(session_id) is not str:
        session_id = id_from_name(path.name.removesuffix(".json"))
    workspace = facts.get("workspace")
    cwd = workspace.get("working_dir") if type(workspace) is dict else None
    created_at = OpenHandsSession.time_of(first.value) if first is not None else None
    return imported_header(TOOL, path, session_id, created_at, cwd=cwd)


def _model_of(state: Record | None) -> JSONValue:
    found: JSONValue = {} if state is None else state.value
    for name in ("agent", "llm", "model"):
        found = found.get(name) if type(found) is dict else None
    return found
