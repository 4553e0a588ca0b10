"""
SWE-agent: one trajectory file a run, ``INSTANCE.traj``.

``history`` holds the messages, as Chat Completions has them with a role of each in the
run. There are no times and no session: the file's name is the session's id, and the time
of its last change stands for every time. Ids of calls repeat, so a result answers the
newest call of its id. Where there are no calls, an action is one, and the next observation
its result. Steps, environment and outcome are kept as records.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
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
from eventlog.values import JSONValue

from .conversation import HUMAN, Conversation, Object, call_block, plugin, text_block
from .documents import read_document, record_of
from .finding import expanded, find_files, id_from_name
from .headers import imported_header
from .records import Record
from .response_items import content_of

__all__ = ["SweAgent"]

TOOL: Final = "swe-agent"


class SweAgent(TranscriptSource):
    """Reads the trajectories of SWE-agent."""

    name = TOOL
    title = "SWE-agent"
    reads_plain = True
    snapshots = True

    def usual_places(self, environ: Mapping[str, str]) -> list[Path]:
        named = environ.get("SWE_AGENT_TRAJECTORY_DIR")
        return [expanded(named)] if named else []

    def find(self, path: Path) -> Iterator[Transcript | Unreadable]:
        yield from find_files(path, lambda _folder, _names, name: name.endswith(".traj"))

    def read(self, transcript: Transcript, tally: RecordTally) -> Iterator[Item]:
        path = transcript.path
        document = read_document(path)
        value = document.value
        if type(value) is not dict or type(value.get("history")) is not list:
            raise CorruptLog(None, str(path), None, None, None, "header", "it has no history")
        session = _Session(SessionDraft(_header(value, path)))
        yield Opened(session.draft.header)
        for name, add in (("history", session.add), ("trajectory", session.add_step)):
            found = value.pop(name, [])
            for position, item in enumerate(found if type(found) is list else [found]):
                record = record_of(item, f"{name}/{position}", path, tally)
                if record is not None:
                    tally.count(add(record))
                    yield from session.draft.take()
        facts = record_of(value, "/", path, tally) if value else None
        if facts is not None:
            session.add_facts(facts)
            tally.kept += 1
        yield from session.draft.take()
        tally.refuse_unread(document.fault)
        tally.bytes_read = os.stat(path).st_size


def _header(value: Object, path: Path) -> SessionHeader:
    changed_ms = os.stat(path).st_mtime_ns // 1_000_000
    steps = value.get("trajectory")
    last = steps[-1] if type(steps) is list and steps else None
    state = last.get("state") if type(last) is dict else None
    cwd = state.get("working_dir") if type(state) is dict else None
    session_id = id_from_name(path.name.removesuffix(".traj"))
    return imported_header(TOOL, path, session_id, changed_ms, cwd=cwd)


class _Session:
    """One run, message by message."""

    def __init__(self, draft: SessionDraft) -> None:
        self.draft = draft
        self._talk = Conversation(draft, TOOL)
        self._seen: dict[str, int] = {}
        # An action without a call of its own, which the next observation answers.
        self._action: str | None = None

    def add(self, record: Record) -> bool:
        """Take the next message; returns whether it has a meaning here, else it was kept."""
        key = self._key(record)
        value = record.value
        role = value.get("role")
        content = [] if value.get("content") is None else content_of(value["content"])
        if content is None or role not in ("system", "user", "assistant", "tool"):
            self._talk.keep(record, "message", None, key)
            return False
        rest = {name: part for name, part in value.items() if name != "content"}
        if role == "assistant":
            self._add_answer(record, key, content, rest)
            return True
        answered = self._answered(value, role)
        origin = record.origin(TOOL, key, rest)
        time = self._talk.at(None, origin)
        if answered is not None:
            self._talk.result(time, key, answered, content, origin)
            return True
        is_demo = value.get("is_demo") is True or value.get("message_type") == "demonstration"
        if role == "user" and not is_demo:
            self._talk.user(time, key, content, HUMAN, origin, is_prompt=True)
        else:
            source = plugin(TOOL, "demonstration" if is_demo else str(role))
            self._talk.user(time, key, content, source, origin)
        return True

    def add_step(self, record: Record) -> bool:
        """Keep what the run noted of a step; its text is that of the history."""
        self._talk.keep(record, "step", None, self._key(record))
        return False

    def add_facts(self, record: Record) -> None:
        """Keep what the file says of the run."""
        self._talk.keep(record, "run", None, f"{VOLATILE}run")

    def _key(self, record: Record) -> str:
        # The same message may stand in a history many times.
        count = self._seen[record.digest] = self._seen.get(record.digest, 0) + 1
        return f"{record.digest}#{count}"

    def _answered(self, value: Object, role: JSONValue) -> str | None:
        """Return the id of the call that a message answers, None for another message."""
        ids = value.get("tool_call_ids")
        if role == "tool":
            first = ids[0] if type(ids) is list and ids else value.get("tool_call_id")
            return str(first or "")
        action, self._action = self._action, None
        if action is not None and value.get("message_type") == "observation":
            return action
        return None

    def _add_answer(self, record: Record, key: str, content: list[JSONValue], rest: Object) -> None:
        value = record.value
        calls: list[tuple[str, str, JSONValue]] = []
        given = value.get("tool_calls")
        for position, call in enumerate(given if type(given) is list else []):
            function = call.get("function") if type(call) is dict else None
            if type(function) is dict:
                call_id = str(call.get("id") or f"{key}/{position}")
                calls.append((call_id, str(function.get("name")), function.get("arguments")))
        self._action = None
        action = value.get("action")
        if not calls and type(action) is str and action.strip():
            self._action = f"action:{key}"
            name = action.split(maxsplit=1)[0]
            calls.append((self._action, name, action))
        blocks = [
            *content,
            *(call_block(*call) for call in calls),
        ]
        thought = value.get("thought")
        if rest.get("thought") is not None and content == [text_block(str(thought))]:
            del rest["thought"]  # it is the content once more
        origin = record.origin(TOOL, key, rest)
        time = self._talk.at(None, origin)
        self._talk.assistant(time, key, blocks, origin, provider="unknown", model=None)
        for position, (call_id, name, arguments) in enumerate(calls):
            part = record.origin(TOOL, f"{key}#call{position}")
            self._talk.call(self._talk.at(None, part), call_id, name, arguments, part)
