"""
What the demo's agent is asked, what it does about it, and the report of it all.
"""

from __future__ import annotations

import json
import re
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from typing import Final

from attrs import frozen

from eventlog.live import LiveSessions
from eventlog.model import Event, EventClass
from eventlog.query.filters import Classes, Ids, Types
from eventlog.query.records import EventTrace, SessionRecord
from eventlog.query.search.answers import SearchHit
from eventlog.query.session_query import SessionQuery
from eventlog.snapshot import ScanMeter
from eventlog.store import EventStore

from .demo_agent import Agent, Compaction, Tools, node_text, tokens
from .failures import NothingFound

__all__ = ["Call", "Compacted", "DemoReport", "Node", "Touched", "play"]

PACKAGE: Final = "json"
TASK: Final = "How is Python's json package built, and what of it runs in C?"
QUESTION: Final = "Quote the regular expression by which it recognises a number."
WORDS: Final = "number re.compile"
"""What the agent searches its log for, to answer that."""


@frozen
class Call:
    """
    One tool call of the agent.

    Attributes:
        seq: The event with its result.

        tool: The tool.

        argument: What it was called with.

        lines: How many lines it answered.
    """

    seq: int
    tool: str
    argument: str
    lines: int


@frozen
class Node:
    """
    One node of a surface.

    Attributes:
        seq: The event.

        speaker: ``"user"``, ``"assistant"``, ``"tool"`` or ``"summary"``.

        text: What it says.

        tokens: What it costs in the context, estimated.
    """

    seq: int
    speaker: str
    text: str
    tokens: int


@frozen
class Compacted:
    """
    One compaction.

    Attributes:
        checkpoint_seq: The event that took the place of what was replaced.

        before: The surface before.

        after: The surface after.
    """

    checkpoint_seq: int
    before: tuple[Node, ...]
    after: tuple[Node, ...]


@frozen
class Touched:
    """
    What one read touched in the store.

    Attributes:
        read: What was read.

        answer: What came back, in words.

        records: Events and headers read.

        probes: Rows of ordered tables and positions of a file looked at.

        bytes: Bytes of all these.
    """

    read: str
    answer: str
    records: int
    probes: int
    bytes: int


@frozen
class DemoReport:
    """
    What the demo did and found.

    Attributes:
        session: The session, as the store lists it.

        root: The folder that the agent's tools read.

        payload_bytes: Bytes of all its events' data.

        calls: The tool calls.

        compactions: The compactions.

        task: What the agent was asked first.

        conclusion: What it answered.

        question: What it was asked then.

        on_surface: Whether its context still held the answer.

        found_seq: The event of the log that held it.

        detail: The answer, out of that event.

        confirmed: Whether the file says the same.

        trace: What became of the event.

        reads: What each read touched.
    """

    session: SessionRecord
    root: str
    payload_bytes: int
    calls: tuple[Call, ...]
    compactions: tuple[Compacted, ...]
    task: str
    conclusion: str
    question: str
    on_surface: bool
    found_seq: int
    detail: str
    confirmed: bool
    trace: EventTrace
    reads: tuple[Touched, ...]


def play(store: EventStore, root: Path | None = None) -> DemoReport:
    """
    Let the agent work in a new session of *store*, and read it back from there.

    Args:
        root: The folder that holds the package to look at; None is the standard library.

    Raises:
        NothingFound: The folder has no source code.
    """
    root = Path(sysconfig.get_path("stdlib")) if root is None else root
    if not (root / PACKAGE / "scanner.py").is_file():
        raise NothingFound(f"the demo reads the source of the package {PACKAGE!r}; none in {root}")
    sessions = LiveSessions()
    session = sessions.create(f"demo-{datetime.now():%Y%m%d-%H%M%S}-{token_hex(2)}", cwd=str(root))
    agent = Agent(session, store, Tools(root))
    conclusion = _survey(agent)
    story = _Recall(store, session.id)
    agent.begin(QUESTION)
    on_surface = any(_statement(node_text(event)) for event in agent.surface())
    found, detail = story.recall()
    agent.answer(f"It is this, from event {found.seq} of my log:\n{detail}")
    sessions.dispose(session)
    trace = story.trace(found.seq)
    story.read_neighbours(found.seq)
    story.read_surface()
    record = story.list_it()
    events = session.read(0, session.length)
    return DemoReport(
        session=record,
        root=str(root),
        payload_bytes=sum(len(event.payload) for event in events),
        calls=tuple(_calls(events)),
        compactions=tuple(_compacted(agent.compactions)),
        task=TASK,
        conclusion=conclusion,
        question=QUESTION,
        on_surface=on_surface,
        found_seq=found.seq,
        detail=detail,
        confirmed=detail in (root / PACKAGE / "scanner.py").read_text(encoding="utf-8"),
        trace=trace,
        reads=tuple(story.touched),
    )


def _survey(agent: Agent) -> str:
    """The first turn: look at the package, file by file. Returns the conclusion."""
    agent.begin(TASK)
    listed = agent.call("I list the package's files first.", "list_files", folder=PACKAGE)
    files = [line.split()[0] for line in listed.splitlines()]
    defined = agent.call(
        f"{len(files)} files. Which classes and functions do they define?",
        "search",
        pattern="^(class|def) ",
        folder=PACKAGE,
    )
    names = len(defined.splitlines())
    agent.call(
        f"{names} definitions. The scanner is the smallest part: it tells values apart.",
        "read_file",
        path=f"{PACKAGE}/scanner.py",
    )
    agent.call("Now the front door.", "read_file", path=f"{PACKAGE}/__init__.py")
    agent.call("Then the way from text to objects.", "read_file", path=f"{PACKAGE}/decoder.py")
    agent.call("And the way back to text.", "read_file", path=f"{PACKAGE}/encoder.py")
    twins = agent.call(
        "Last: what of it has a faster twin in C?",
        "search",
        pattern="from _json import",
        folder=PACKAGE,
    )
    in_c = re.findall(r"from _json import (\w+)", twins)
    conclusion = (
        f"{len(files)} files with {names} definitions: a scanner tells values apart, a decoder "
        f"and an encoder sit on it. {len(in_c)} functions have a twin in C: {', '.join(in_c)}."
    )
    agent.answer(conclusion)
    return conclusion


_STATEMENT: Final = re.compile(r"^\w*number\w*\s*=\s*re\.compile\(", re.IGNORECASE | re.MULTILINE)


def _statement(text: str) -> str | None:
    """Return the statement of *text* that compiles an expression for numbers, if it has one."""
    match = _STATEMENT.search(text)
    if match is None:
        return None
    depth, end = 1, match.end()
    while depth and end < len(text):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    return text[match.start() : end]


class _Recall:
    """Reads of the stored session, each with what it touched."""

    def __init__(self, store: EventStore, session_id: str) -> None:
        self.touched: list[Touched] = []
        self._query = SessionQuery(store=store)
        self._meter = store.meter
        self._id = session_id

    def recall(self) -> tuple[Event, str]:
        """Find the event that holds the answer, and the answer in it."""
        hits = self._search("search the log, indexing it first")
        for hit in hits:
            with self._metered(f"read event {hit.seq}") as said:
                event = self._query.read_event(self._id, hit.seq).target
                said.append("1 event")
            detail = _statement(node_text(event))
            if detail is not None:
                self._search("search it again")
                return event, detail
            self.touched.pop()
        raise NothingFound(f"no expression for numbers in the log of {self._id}")

    def _search(self, read: str) -> tuple[SearchHit, ...]:
        # What the model sees it need not search for, and only tools answer with facts.
        filters = (Classes([EventClass.SHADOWED]), Types(["tool/result"]))
        with self._metered(read) as said:
            page = self._query.search_events(self._id, WORDS, filters=filters, limit=5)
            said.append(f"{len(page.items)} matches")
        return page.items

    def trace(self, seq: int) -> EventTrace:
        """Ask what became of an event."""
        with self._metered(f"trace event {seq}") as said:
            trace = self._query.trace_event(self._id, seq)
            said.append(f"chain of {len(trace.replacement_chain)}")
        return trace

    def read_neighbours(self, seq: int) -> None:
        """Read an event with its neighbours."""
        with self._metered(f"read event {seq} and 5 on each side") as said:
            window = self._query.read_event(self._id, seq, before=5, after=5)
            said.append(f"{len(window.events)} events")

    def read_surface(self) -> None:
        """Read what the model sees."""
        with self._metered("read the surface") as said:
            said.append(f"{len(self._query.read_surface(self._id).events)} events")

    def list_it(self) -> SessionRecord:
        """Find the session in its store's list."""
        with self._metered("list the session") as said:
            page = self._query.list_sessions(filters=[Ids([self._id])], limit=1)
            said.append(f"{len(page.items)} session")
        return page.items[0]

    @contextmanager
    def _metered(self, read: str) -> Iterator[list[str]]:
        """Note what a read touched; its answer in words goes into the list that is held."""
        said: list[str] = []
        self._meter.reset()
        yield said
        meter: ScanMeter = self._meter
        self.touched.append(Touched(read, "".join(said), meter.records, meter.probes, meter.bytes))


def _calls(events: list[Event]) -> Iterator[Call]:
    called: dict[str, Event] = {}
    for event in events:
        if event.type == "tool/call":
            called[event.data["callId"]] = event
        elif event.type == "tool/result":
            data = called[event.data["message"]["source"]["callId"]].data
            argument = ", ".join(map(repr, json.loads(data["arguments"]).values()))
            lines = node_text(event).count("\n") + 1
            yield Call(event.seq, data["name"], argument, lines)


def _compacted(compactions: list[Compaction]) -> Iterator[Compacted]:
    for compaction in compactions:
        checkpoints = {done.checkpoint.seq for done in compactions}
        before = tuple(_node(event, checkpoints) for event in compaction.before)
        after = tuple(_node(event, checkpoints) for event in compaction.after)
        yield Compacted(compaction.checkpoint.seq, before, after)


def _node(event: Event, checkpoints: set[int]) -> Node:
    if event.seq in checkpoints:
        speaker = "summary"
    else:
        speaker = {"user/message": "user", "tool/result": "tool"}.get(event.type, "assistant")
    return Node(event.seq, speaker, node_text(event), tokens(event))
