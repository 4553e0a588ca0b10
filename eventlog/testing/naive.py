"""
A store and a fold as plain as they can be: the oracle of the kit.

Lists, dicts and whole passes, nothing else. It shares no code with the fold, the
admission rules or any driver, so that an error in those does not hide itself here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eventlog.errors import (
    HeaderConflict,
    InvalidArgument,
    InvalidSurface,
    SequenceConflict,
    SessionDeleted,
    SessionNotFound,
    UnsupportedFormat,
)
from eventlog.model import (
    Append,
    Event,
    EventClass,
    HeadKey,
    HeadPage,
    Replace,
    SessionHead,
    SessionHeader,
)

__all__ = ["NaiveLog", "NaiveStore", "NaiveSurface"]

NODES = ("user/message", "assistant/message", "tool/result")
NEVER = ("turn/start", "turn/end", "step/start", "step/end", "todo/write", "tool/call")


class NaiveSurface:
    """
    The surface as a list of seqs.

    Attributes:
        events: What was added, in order.

        nodes: The surface, front to back.

        replaced: What each replacement took away, in surface order.

        replaced_by: Which event replaced a node.
    """

    def __init__(self, events: Sequence[Event] = ()) -> None:
        self.events: list[Event] = []
        self.nodes: list[int] = []
        self.replaced: dict[int, list[int]] = {}
        self.replaced_by: dict[int, int] = {}
        for event in events:
            self.add(event)

    @property
    def length(self) -> int:
        """How many events were added."""
        return len(self.events)

    def add(self, event: Event) -> None:
        """
        Take in the next event.

        Raises:
            InvalidSurface: A rule refuses it; nothing has changed.
        """

        def require(holds: bool, rule: str) -> None:
            if not holds:
                raise InvalidSurface(event.seq, rule)

        op, sources = event.surface_op, event.source_event_seqs
        require(event.seq == len(self.events), "the seq is not the next one")
        require(not (event.type in NODES and op is None), "needs a surface op")
        require(not (event.type in NEVER and op is not None), "takes no surface op")
        require(not (event.type in NEVER and sources is not None), "takes no sources")
        gone: list[int] = []
        position = len(self.nodes)
        if isinstance(op, Replace):
            require(op.start in self.nodes, "the start is not on the surface")
            require(op.end in self.nodes, "the end is not on the surface")
            position, last = self.nodes.index(op.start), self.nodes.index(op.end)
            require(position <= last, "the start stands after the end")
            gone = self.nodes[position : last + 1]
            require(sources is not None, "a replacement needs sources")
        if sources is not None:
            require(len(sources) > 0 or event.type == "assistant/message", "sources are empty")
            require(len(sources) == len(set(sources)), "a source is named twice")
            require(all(source < event.seq for source in sources), "a source is not earlier")
            require(all(node in sources for node in gone), "a shadowed node is not cited")
        if gone and event.type == "tool/result":
            require(len(gone) == 1, "a result rewrites one node")
            target = self.events[gone[0]]
            require(target.type == "tool/result", "a result rewrites a result")
            require(_frame(event.data) == _frame(target.data), "a rewrite changes content only")
        self.events.append(event)
        if isinstance(op, Replace):
            self.nodes[position : position + len(gone)] = [event.seq]
            self.replaced[event.seq] = gone
            for node in gone:
                self.replaced_by[node] = event.seq
        elif isinstance(op, Append):
            self.nodes.append(event.seq)

    def classify(self, seq: int) -> EventClass:
        """Return the class of one event."""
        if seq in self.nodes:
            return EventClass.CURRENT
        return EventClass.SHADOWED if seq in self.replaced_by else EventClass.LOG_ONLY

    def stand_in(self, seq: int) -> int | None:
        """Return the node that stands for *seq* now; None for one that never was a node."""
        while seq in self.replaced_by:
            seq = self.replaced_by[seq]
        return seq if seq in self.nodes else None

    def citing(self, seq: int) -> list[int]:
        """Return the events that cite *seq*, ascending."""
        return [event.seq for event in self.events if seq in (event.source_event_seqs or ())]


def _frame(data: Any) -> str:
    """A tool result's data without its content, as text that tells 1, 1.0 and True apart."""

    def sorted_keys(value: Any) -> Any:
        if isinstance(value, dict):
            return [(key, sorted_keys(value[key])) for key in sorted(value)]
        return [sorted_keys(item) for item in value] if isinstance(value, list) else value

    message = data.get("message")
    blocks = message.get("content") if isinstance(message, dict) else None
    block = blocks[0] if isinstance(blocks, list) and blocks else None
    if isinstance(block, dict) and isinstance(block.get("content"), list):
        block["content"] = []
    return repr(sorted_keys(data))


class NaiveLog:
    """One session: its header and its surface."""

    def __init__(self, header: SessionHeader) -> None:
        self.header = header
        self.surface = NaiveSurface()

    @property
    def events(self) -> list[Event]:
        """The events, in order."""
        return self.surface.events

    def head(self) -> SessionHead:
        """Return what a listing says of the session."""
        last = self.events[-1].time if self.events else None
        return SessionHead(self.header, len(self.events), last)

    def surface_at(self, length: int) -> NaiveSurface:
        """Return the surface of the first *length* events, folded from nothing."""
        return NaiveSurface(self.events[:length])


class NaiveStore:
    """
    Sessions in a dict.

    Attributes:
        logs: The sessions that exist.

        deleted: The ids that are remembered as deleted.

        changed: Every id whose session changed, one entry a change, in order.
    """

    def __init__(self) -> None:
        self.logs: dict[str, NaiveLog] = {}
        self.deleted: set[str] = set()
        self.changed: list[str] = []

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        """Do what :meth:`eventlog.EventStore.append` promises, with its order of refusals."""
        if header.version != 0:
            raise UnsupportedFormat(header.version, [0])
        if header.id in self.deleted:
            raise SessionDeleted(header.id)
        log = self.logs.get(header.id)
        if log is not None:
            for name in HEADER_FIELDS:
                stored, given = _field(log.header, name), _field(header, name)
                if stored != given:
                    raise HeaderConflict(header.id, name, stored, given)
        for place, event in enumerate(events):
            if event.seq != events[0].seq + place:
                raise InvalidSurface(event.seq, "a gap inside the batch")
        held = [] if log is None else list(log.events)
        for event in events:
            if event.seq > len(held):
                raise SequenceConflict(header.id, len(held), event.seq)
            break
        fresh = []
        for event in events:
            if event.seq >= len(held):
                fresh.append(event)
            elif repr_of(event) != repr_of(held[event.seq]):
                raise SequenceConflict(header.id, len(held), event.seq)
        trial = NaiveSurface(held)
        for event in fresh:
            trial.add(event)
        if fresh:
            if log is None:
                log = self.logs[header.id] = NaiveLog(header)
            log.surface = trial
            self.changed.append(header.id)
        return trial.length

    def delete(self, session_id: str, *, forget: bool = False) -> bool:
        """Do what :meth:`eventlog.EventStore.delete` promises."""
        existed = self.logs.pop(session_id, None) is not None
        if existed:
            self.changed.append(session_id)
            self.deleted.add(session_id)
        remembered = session_id in self.deleted
        if forget:
            self.deleted.discard(session_id)
            return remembered
        return existed

    def log(self, session_id: str) -> NaiveLog:
        """Return a session, or refuse as :meth:`eventlog.EventStore.snapshot` promises."""
        if session_id not in self.logs:
            raise SessionNotFound(session_id)
        return self.logs[session_id]

    def surface(self, session_id: str, at: int) -> NaiveSurface:
        """Return the surface as of a length, folded from nothing."""
        log = self.log(session_id)
        require_index("at", at, below=len(log.events) + 1)
        return log.surface_at(at)

    def read(self, session_id: str, start: int, stop: int) -> list[Event]:
        """Do what a snapshot's ``read`` promises."""
        events = self.log(session_id).events
        require_index("start", start)
        require_index("stop", stop)
        return events[start:stop]

    def ask(self, session_id: str, question: str, seq: int) -> object:
        """Do what a snapshot's method *question* promises for one event."""
        surface = self.log(session_id).surface
        require_index("seq", seq, below=surface.length)
        if question == "replaced":
            return surface.replaced.get(seq, [])
        answer: object = getattr(surface, question)(seq)
        return answer

    def nodes(self, session_id: str, after: int, limit: int) -> list[int]:
        """Do what a snapshot's ``nodes`` promises."""
        nodes = self.log(session_id).surface.nodes
        if after not in nodes:
            raise InvalidArgument("after", "is no node")
        return nodes[nodes.index(after) + 1 :][:limit]

    def page(self, parent: str | None, after: HeadKey | None, limit: int) -> HeadPage:
        """Do what ``heads`` promises, or with *parent* what ``children`` does."""
        require_index("limit", limit, minimum=1)
        heads = self.heads(parent=parent)
        if after is not None:
            place = (-after.created_at, after.session_id)
            heads = [h for h in heads if (-h.header.created_at, h.header.id) > place]
        if len(heads) <= limit:
            return HeadPage(tuple(heads), None)
        last = heads[limit - 1].header
        return HeadPage(tuple(heads[:limit]), HeadKey(last.created_at, last.id))

    def heads(self, *, parent: str | None = None) -> list[SessionHead]:
        """Return every head in listing order, with *parent* only those of its children."""
        heads = [log.head() for log in self.logs.values()]
        if parent is not None:
            heads = [head for head in heads if head.header.parent_session == parent]
        # Python compares strings by code point; the sort is stable.
        heads.sort(key=lambda head: head.header.id)
        heads.sort(key=lambda head: head.header.created_at, reverse=True)
        return heads


def require_index(name: str, value: int, *, minimum: int = 0, below: int = 2**63) -> None:
    if not minimum <= value < below:
        raise InvalidArgument(name, "is out of range")


HEADER_FIELDS = (
    "version",
    "id",
    "created_at",
    "cwd",
    "parent_session",
    "seed_length",
    "origin",
    "delegation_depth",
    "agent_preset",
    "extra",
)


def _field(header: SessionHeader, name: str) -> object:
    return repr(header.extra) if name == "extra" else getattr(header, name)


def repr_of(event: Event) -> str:
    """All facts of an event as text, in which 1, 1.0 and True differ, and key orders."""
    return repr(
        (
            event.seq,
            event.time,
            event.type,
            event.data,
            event.surface_op,
            event.source_event_seqs,
            event.ignorable,
        )
    )
