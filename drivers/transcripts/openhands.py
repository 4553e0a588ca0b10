"""
OpenHands: a folder a conversation, or a list of events in one file.

Version 1 keeps ``CONVERSATION/base_state.json`` and ``CONVERSATION/events/event-*.json``,
one event a file, in the order of their numbers. Version 0 wrote a trajectory as one JSON
list, or one file an event below ``SESSION/events``. Times have no zone and are read as UTC.

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
from hashlib import blake2b
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
from eventlog.values import JSONValue, check_session_id

from .conversation import Object
from .documents import DOCUMENT_BYTES_MAX, read_document, record_of
from .finding import denied, find_files, id_from_name
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
    reads_plain = True

    def usual_places(self, environ: Mapping[str, str]) -> list[Path]:
        configured = environ.get("OPENHANDS_CONVERSATIONS_DIR")
        home = Path(environ.get("HOME", "~"), ".openhands")
        places = [Path(configured)] if configured else [home / "conversations"]
        return [*places, home / "sessions"]

    def find(self, path: Path) -> Iterator[Transcript | Unreadable]:
        folders: dict[Path, None] = {}
        for found in find_files(path, _is_wanted):
            if isinstance(found, Unreadable):
                yield found
            elif found.path.parent.name == "events" and EVENT_FILE.fullmatch(found.path.name):
                folders[found.path.parent.parent] = None
            elif found.path.name == "base_state.json":
                folders[found.path.parent] = None
            else:
                yield found
        for folder in folders:
            size = 0
            try:
                for name in os.listdir(folder / "events"):
                    size += os.stat(folder / "events" / name).st_size
            except OSError as error:
                if not (folder / "base_state.json").exists():
                    yield denied(folder, error)
                    continue
            yield Transcript(folder, size_bytes=size)

    def fingerprint(self, transcript: Transcript) -> str | None:
        path = transcript.path
        if not path.is_dir():
            return super().fingerprint(transcript)
        digest = blake2b(digest_size=16)
        for file in (*_event_files(path), path / "base_state.json"):
            if file.exists():
                digest.update(file.name.encode("utf-8", "replace"))
                digest.update(digest_of(file.read_bytes()).encode())
        return digest.hexdigest()

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


def _event_files(folder: Path) -> list[Path]:
    found = []
    events = folder / "events"
    if events.is_dir():
        for name in os.listdir(events):
            match = EVENT_FILE.fullmatch(name)
            if match:
                found.append((int(match.group(1)), name))
    return [events / name for _, name in sorted(found)]


def _read_folder(folder: Path, tally: RecordTally) -> Iterator[Item]:
    state_path = folder / "base_state.json"
    files = _event_files(folder)
    state: Record | None = None
    if state_path.exists():
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
            _count(tally, session.add(record))
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
            _count(tally, session.add(record))
            yield from session.draft.take()
    session.settle()
    if facts:
        kept = record_of(facts, "/", path, tally)
        if kept is not None:
            session.keep(kept, "trajectory", f"{VOLATILE}trajectory")
            tally.kept += 1
    yield from session.draft.take()
    if document.fault is not None:
        tally.found += 1
        tally.refuse(document.fault)
    tally.bytes_read = os.stat(path).st_size


def _count(tally: RecordTally, mapped: bool) -> None:
    if mapped:
        tally.mapped += 1
    else:
        tally.kept += 1


def _read_file(file: Path, folder: Path, tally: RecordTally) -> Record | None:
    """Read a file that is one record; None where it is none, and the fault is named."""
    tally.found += 1
    try:
        size = os.stat(file).st_size
        if size > DOCUMENT_BYTES_MAX:
            reason = f"{size} bytes; at most {DOCUMENT_BYTES_MAX} are read"
            tally.refuse(RecordFault(str(file), None, None, "oversize", reason))
            return None
        text = file.read_bytes()
        parsed = read_object(text.removeprefix(b"\xef\xbb\xbf"))
    except ValueRejected as error:
        kind = "malformed" if text.strip(b" \t\r\n\0") else "empty"
        tally.refuse(RecordFault(str(file), None, None, kind, error.reason))
        return None
    except OSError as error:
        kind = "denied" if isinstance(error, PermissionError) else "unavailable"
        tally.refuse(RecordFault(str(file), None, None, kind, error.strerror or str(error)))
        return None
    tally.bytes_read += len(text)
    tally.altered += parsed.raw is not None
    place: dict[str, JSONValue] = {"at": file.relative_to(folder).as_posix()}
    return Record(parsed.value, digest_of(text), place, parsed.raw, parsed.reason)


def _header(state: Record | None, first: Record | None, path: Path) -> SessionHeader:
    facts: Object = {} if state is None else state.value
    session_id = facts.get("id")
    if type(session_id) is not str:
        session_id = id_from_name(path.name.removesuffix(".json"))
    try:
        check_session_id(session_id)
    except ValueRejected as error:
        raise CorruptLog(None, str(path), None, None, None, "header", str(error)) from error
    workspace = facts.get("workspace")
    cwd = workspace.get("working_dir") if type(workspace) is dict else None
    created_at = OpenHandsSession.time_of(first.value) if first is not None else None
    return SessionHeader(
        session_id,
        max(created_at or 0, 0),
        cwd=cwd if type(cwd) is str and cwd else None,
        extra={"import": {"tool": TOOL}},
    )


def _model_of(state: Record | None) -> JSONValue:
    found: JSONValue = {} if state is None else state.value
    for name in ("agent", "llm", "model"):
        found = found.get(name) if type(found) is dict else None
    return found
