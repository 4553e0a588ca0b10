"""
Claude Code: one file of JSON lines a session, below ``~/.claude/projects``.

Lines form a tree by ``uuid`` and ``parentUuid``, and are read in the order of the file:
walking from a leaf to the root would lose the results of parallel calls. An answer of the
model is written as several lines with one ``message.id``; they become one message, at the
place of the first.

- A prompt whose parent lies before another prompt is a rewind: it takes the place of what
  was abandoned, which stays in the log.
- A compaction's summary takes the place of the surface, up to the segment that it
  preserves; preserved lines that are written again behind it are kept as records.
- A micro-compaction empties the results that it names.
- What a sub-agent said is a session of its own, whose parent is the session: from its own
  file, from lines marked as a sidechain, or from progress lines where no such file is.
- The lines that a forked or resumed session copied from another are its inherited part.

What every line of a file repeats stands once, in the header, as ``import.common``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from attrs import define

from eventlog.drafts import SessionDraft
from eventlog.errors import CorruptLog
from eventlog.model import SessionHeader
from eventlog.sources import (
    Item,
    Opened,
    RecordTally,
    Transcript,
    TranscriptSource,
    Unreadable,
)
from eventlog.values import JSONValue

from .claude_lines import ClaudeSession
from .conversation import Object
from .finding import expanded, find_files, usual_place
from .headers import imported_header, is_session_id
from .records import Record, read_records
from .times import iso_ms

__all__ = ["ClaudeCode"]

UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
AGENT_FILE: Final = re.compile(r"agent-(.+)\.jsonl")
COMMON_KEYS: Final = ("sessionId", "cwd", "version", "gitBranch", "userType", "slug", "isSidechain")


class ClaudeCode(TranscriptSource):
    """Reads the sessions of Claude Code."""

    name = "claude-code"
    title = "Claude Code"
    revision = 2  # prompts whose parent was cut off, lists of preserved messages
    reads_plain = True

    def usual_places(self, environ: Mapping[str, str]) -> list[Path]:
        named = [name.strip() for name in environ.get("CLAUDE_CONFIG_DIR", "").split(",")]
        folders = [expanded(name) for name in named if name]
        return [folder / "projects" for folder in folders or [usual_place(environ, "", ".claude")]]

    def find(self, path: Path) -> Iterator[Transcript | Unreadable]:
        yield from find_files(path, lambda _folder, _names, name: name.endswith(".jsonl"))

    def read(self, transcript: Transcript, tally: RecordTally) -> Iterator[Item]:
        path = transcript.path
        stop_bytes = os.stat(path).st_size
        facts = _survey(path, stop_bytes)
        if facts.parent is not None and facts.agent is None:
            # How much of a fork is inherited is known when its own lines begin.
            facts.seed_length = _File(facts, path, RecordTally()).count_inherited(stop_bytes)
        yield from _File(facts, path, tally).read(stop_bytes)


@define
class _Facts:
    """
    What the first lines of a file tell of its session.

    Attributes:
        path: The file.

        session_id: Its id; that of the sub-agent for a sub-agent's file.

        main_id: The id by which the file's lines name their session.

        agent: The sub-agent whose file this is, or None.

        parent: The session that it comes from, or None.

        created_at: The first time.

        cwd: The first working directory, as it is told.

        common: What lines repeat, by key.

        is_whole: Whether the file begins with the conversation's first line.

        seed_length: How many entries are inherited, None without a parent.
    """

    path: Path
    session_id: str
    main_id: str
    agent: str | None
    parent: JSONValue
    created_at: int
    cwd: JSONValue
    common: Object
    is_whole: bool
    seed_length: int | None = None

    def header(self) -> SessionHeader:
        return imported_header(
            ClaudeCode.name,
            self.path,
            self.session_id,
            self.created_at,
            cwd=self.cwd,
            parent=self.parent,
            seed_length=self.seed_length,
            depth=0 if self.agent is None else 1,
            facts={"common": self.common},
        )


def _survey(path: Path, stop_bytes: int) -> _Facts:
    """Read as much of a file as it takes to know whose it is."""
    first: Object = {}
    created_at: int | None = None
    for record in read_records(path, RecordTally(), stop_bytes=stop_bytes):
        if created_at is None:
            created_at = iso_ms(record.value.get("timestamp"))
        if type(record.value.get("uuid")) is str and type(record.value.get("sessionId")) is str:
            first = record.value
            break
    given = first.get("sessionId")
    named = AGENT_FILE.fullmatch(path.name)
    agent = first.get("agentId") if first.get("isSidechain") is True else None
    if type(agent) is not str or not agent:
        agent = named.group(1) if named and first.get("isSidechain") is True else None
    parent = None
    if agent is not None:
        session_id, main_id, parent = agent, str(given), given
    elif UUID.fullmatch(path.stem):
        # The file is named after its session; lines that name another were copied.
        session_id = main_id = path.stem
        parent = given if given is not None and given != session_id else None
    elif type(given) is str:
        session_id = main_id = given
    else:
        detail = "none of its lines names a session"
        raise CorruptLog(None, str(path), None, None, None, "header", detail)
    forked = first.get("forkedFrom")
    if agent is None and type(forked) is dict and type(forked.get("sessionId")) is str:
        parent = forked["sessionId"]
    if created_at is None:
        # Titles alone have no time.
        created_at = os.stat(path).st_mtime_ns // 1_000_000
    return _Facts(
        path,
        session_id,
        main_id,
        agent,
        parent if parent != session_id else None,
        created_at,
        first.get("cwd"),
        {name: first[name] for name in COMMON_KEYS if name in first},
        first.get("parentUuid") is None,
    )


class _File:
    """Reads one file: its own session, and those of sub-agents that speak in it."""

    def __init__(self, facts: _Facts, path: Path, tally: RecordTally) -> None:
        self._facts = facts
        self._path = path
        self._tally = tally
        draft = SessionDraft(facts.header())
        self._own = ClaudeSession(
            draft, facts.common, is_whole=facts.is_whole, is_agent=facts.agent is not None
        )
        self._agents: dict[str, ClaudeSession] = {}
        # The chains of lines that are marked as a sidechain and name no agent.
        self._chains: dict[str, str] = {}
        self._last_chain: str | None = None
        # The sub-agent that the newest result of a call names.
        self._named_agent: str | None = None

    def read(self, stop_bytes: int) -> Iterator[Item]:
        """Yield everything."""
        yield Opened(self._own.draft.header)
        for record in read_records(self._path, self._tally, stop_bytes=stop_bytes):
            session, value = self._route(record)
            if session is not self._own and session.draft.count == 0:
                yield Opened(session.draft.header)
            self._tally.count(session.add(record, value))
            yield from session.draft.take()
        for session in (*self._agents.values(), self._own):
            session.settle()
            yield from session.draft.take()

    def count_inherited(self, stop_bytes: int) -> int:
        """Return how many entries the session's inherited lines give."""
        for record in read_records(self._path, self._tally, stop_bytes=stop_bytes):
            session, value = self._route(record)
            if session is self._own and self._is_own_line(value):
                break
            session.add(record, value)
            session.draft.take()
        self._own.settle()
        return self._own.draft.count

    def _is_own_line(self, value: Object) -> bool:
        return (
            type(value.get("uuid")) is str
            and value.get("sessionId") == self._facts.main_id
            and type(value.get("forkedFrom")) is not dict
        )

    def _route(self, record: Record) -> tuple[ClaudeSession, Object]:
        """Return whose line a record is, and the line as that session has it."""
        value = record.value
        if self._facts.agent is not None:
            return self._own, value
        if value.get("isSidechain") is True:
            return self._sidechain(value), value
        named = value.get("agentId")
        if named is not None and is_session_id(named):
            self._named_agent = named
        if value.get("type") == "progress":
            inner = _spoken(value)
            if inner is not None:
                agent = value["data"]["agentId"]
                session = self._agents.get(agent)
                if session is None and not self._has_own_file(agent):
                    session = self._open_agent(agent, inner, prompt=value["data"].get("prompt"))
                if session is not None:
                    return session, inner
        return self._own, value

    def _sidechain(self, value: Object) -> ClaudeSession:
        agent = value.get("agentId")
        if type(agent) is not str or not is_session_id(agent):
            agent = self._chain(value)
        session = self._agents.get(agent)
        return self._open_agent(agent, value) if session is None else session

    def _chain(self, value: Object) -> str:
        """
        Return the name of the chain that a line without an agent belongs to: its parent's;
        that of the line before, where the parent is not in the file; for a line without a
        parent a new one, by the name of the sub-agent whose result was the last, if that
        has not spoken yet.
        """
        uuid, parent = value.get("uuid"), value.get("parentUuid")
        chain = self._chains.get(parent) if type(parent) is str else None
        if chain is None and parent is not None:
            chain = self._last_chain
        if chain is None and self._named_agent not in self._agents:
            chain = self._named_agent
        if chain is None:
            chain = f"{self._facts.session_id}.sidechain.{len(self._agents) + 1}"
        if type(uuid) is str:
            self._chains[uuid] = chain
        self._last_chain = chain
        return chain

    def _open_agent(self, agent: str, value: Object, *, prompt: JSONValue = None) -> ClaudeSession:
        common = dict(self._facts.common)
        if value.get("isSidechain") is True:
            common["isSidechain"] = True
        if type(prompt) is str:
            common["prompt"] = prompt
        facts = _Facts(
            self._path,
            agent,
            self._facts.main_id,
            agent,
            self._facts.session_id,
            iso_ms(value.get("timestamp")) or self._facts.created_at,
            self._facts.cwd,
            common,
            is_whole=True,
        )
        session = ClaudeSession(SessionDraft(facts.header()), common, is_whole=True, is_agent=True)
        self._agents[agent] = session
        return session

    def _has_own_file(self, agent: str) -> bool:
        folder = self._path.with_suffix("") / "subagents"
        return (folder / f"agent-{agent}.jsonl").exists()


def _spoken(value: Object) -> Object | None:
    """Return the line of a sub-agent that a progress line carries; None without one."""
    data = value.get("data")
    if type(data) is not dict or data.get("type") != "agent_progress":
        return None
    inner = data.get("message")
    if type(inner) is not dict or not is_session_id(data.get("agentId")):
        return None
    return {"parentUuid": None, "timestamp": value.get("timestamp"), **inner}
