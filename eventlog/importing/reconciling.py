"""
Completing a stored session whose source changed what was imported before.

Nothing stored is rewritten. What the source put between, changed or took back becomes
events behind the log, among them replacements, until the surface is that which the source
has now:

- a message that changed takes the place of what it was;
- of a tool result only the content may change, so the changed one is kept whole in an
  ``import/revised`` event, and a result with its content takes the old one's place;
- where the source has other messages than the log, they take the place of a stretch; a
  stretch in whose place there is nothing is replaced by an ``import/dropped`` node;
- what the source has put in, and has itself replaced since, is kept in an
  ``import/superseded`` event.

The source is read twice: once to see what it has, and once for the entries that are
missing. Entries are told by the identity in their origin, so an interrupted completion
is completed by the next.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from sys import intern
from typing import Final

import orjson
from attrs import define, field

from eventlog.drafts import DROPPED, TOOL_RESULT, NodeOrder
from eventlog.errors import SequenceConflict
from eventlog.model import APPEND, Event, Replace, SurfaceOp
from eventlog.sources import VOLATILE, Entry
from eventlog.values import JSONValue
from eventlog.vocabulary import DEFAULT_VOCABULARY

from .logs import (
    Identity,
    MappedLog,
    identity,
    imported_events,
    is_foreign,
    result_content,
    rewritten,
)
from .planning import HeldNode, SurfaceStep, ToldNode, plan_surface

__all__ = ["REVISED", "SUPERSEDED", "SourceBehind", "SourceDiffers", "reconcile"]

REVISED: Final = "import/revised"
"""The type of a log-only event that keeps a tool result which its source changed."""

SUPERSEDED: Final = "import/superseded"
"""The type of a log-only event that keeps what its source put in and replaced since."""

RESUMED: Final = "session/end-seed"

MISSING: Final = -1
GAP_KEY: Final = "#dropped@"
REWRITTEN: Final = "#rewritten"


class SourceBehind(Exception):
    """The store has records that the source as it is read lacks, and lacks none of its."""


class SourceDiffers(Exception):
    """The store has records that the source as it is read lacks."""


def reconcile(
    log: MappedLog,
    read: Callable[[], Iterable[Entry]],
    *,
    may_shrink: bool,
    may_be_older: bool,
    must_extend: bool,
) -> int:
    """
    Complete *log*, which diverged, until its surface is that of its source.

    Args:
        log: The session; nothing was appended to it yet.

        read: Gives every entry of the session, from the first, each time it is called.

        may_shrink: Whether a record that is stored and is not read was taken back;
            otherwise it is left where it is.

        may_be_older: Whether a source that lacks some and has nothing new is an older
            copy.

        must_extend: Whether the source must have everything that is stored, and more than
            that where it has it in another form.

    Cost: two readings of the source, one of the log; memory for an index of both, and for
    the entries that are put in the place of others.

    Returns:
        How many events were added on behalf of what changed.

    Raises:
        SourceBehind: The source is an older copy. Nothing was stored.

        SourceDiffers: The source lacks what it must have. Nothing was stored.

        SequenceConflict: Somebody else has gone on with the session: there are events of
            theirs on its surface, or a mark that it was resumed. Nothing was stored.
    """
    stored = _Stored.read(log)
    told = _Told.read(read(), stored)
    if not stored.keys <= told.keys:
        if may_be_older and told.keys <= stored.keys:
            raise SourceBehind
        if must_extend:
            raise SourceDiffers
        if not may_shrink:
            stored.nodes = [node for node in stored.nodes if node.key in told.keys]
    elif must_extend and told.keys == stored.keys:
        # Neither has more: which of them is newer is not known.
        raise SourceDiffers if told.changed else SourceBehind
    steps = plan_surface(told.nodes, stored.nodes)
    return _Completion(log, stored, told, steps).run(read())


@define
class _Stored:
    """
    What is stored of a session, by where it came from.

    Attributes:
        seqs: The newest event of each identity, one on the surface before all others.

        keys: Every key.

        nodes: The surface, but for what marks a gap and what is to stay.

            A rewritten result has the key of the first one.

        surface: The surface.
    """

    seqs: dict[Identity, int] = field(factory=dict)
    keys: set[str] = field(factory=set)
    nodes: list[HeldNode] = field(factory=list)
    surface: list[int] = field(factory=list)

    @classmethod
    def read(cls, log: MappedLog) -> _Stored:
        assert log.snapshot is not None
        stored = cls(surface=log.snapshot.nodes())
        current = dict[int, HeldNode | None].fromkeys(stored.surface)
        for event, data in imported_events(log.snapshot):
            if is_foreign(data):
                if event.seq in current or event.type == RESUMED:
                    raise SequenceConflict(log.header.id, log.snapshot.length, event.seq)
                continue
            found = identity(data)
            base_key = found[0].removesuffix(REWRITTEN)
            seq = event.seq
            if type(event.surface_op) is Replace and event.type == TOOL_RESULT:
                found = _rewrite_identity(base_key, result_content(data))
            elif event.type == REVISED:
                seq += 1  # the result that has its content
            if base_key.startswith(GAP_KEY):
                continue
            if not found[0].startswith(VOLATILE):
                stored.keys.add(found[0])
            if seq in current or stored.seqs.get(found, MISSING) not in current:
                stored.seqs[found] = seq
            if event.seq in current:
                current[event.seq] = HeldNode(event.seq, base_key, intern(event.type))
        stored.nodes = [node for node in current.values() if node is not None]
        return stored


@define
class _Told:
    """
    What a source tells of a session, entry by entry, without its data.

    Attributes:
        seqs: For each entry the stored event that is the same, else -1.

        keys: Every key.

        known: How many of the first entries the log knows something of: those behind them
            are all new.

        changed: Whether any of these is stored in another form only.

        nodes: The surface after these.
    """

    seqs: array[int]
    keys: set[str]
    known: int
    changed: bool
    nodes: list[ToldNode]

    @classmethod
    def read(cls, entries: Iterable[Entry], stored: _Stored) -> _Told:
        seqs = array("q")
        keys: set[str] = set()
        known = 0
        changed = False
        base_keys: list[str] = []
        types: list[str] = []
        ops: list[SurfaceOp | None] = []
        for number, entry in enumerate(entries):
            found = identity(entry.data)
            base_key = found[0]
            if entry.content is not None:
                base_key = base_keys[_target(entry)]
                found = _rewrite_identity(base_key, entry.content)
            seqs.append(stored.seqs.get(found, MISSING))
            if not found[0].startswith(VOLATILE):
                keys.add(found[0])
            if found[0] in stored.keys:
                known = number + 1
                changed = changed or seqs[number] == MISSING
            base_keys.append(base_key)
            types.append(intern(entry.type))
            ops.append(entry.surface_op)
        order = NodeOrder()
        for number in range(known):
            op = ops[number]
            if type(op) is Replace:
                order.replace(op.start, op.end, number)
            elif op is not None:
                order.append(number)
        nodes = [ToldNode(n, base_keys[n], types[n], seqs[n]) for n in order]
        return cls(seqs, keys, known, changed, nodes)


class _Completion:
    """Writes what a log lacks."""

    def __init__(
        self, log: MappedLog, stored: _Stored, told: _Told, steps: Sequence[SurfaceStep]
    ) -> None:
        self._log = log
        self._told = told
        self._steps = steps
        self._seqs = told.seqs
        self._surface = NodeOrder(stored.surface)
        self._put = {step.entry for step in steps if step.entry is not None}
        self._waiting: dict[int, Entry] = {}

    def run(self, entries: Iterable[Entry]) -> int:
        """Read the source again and store what is missing; returns how much had changed."""
        known = self._told.known
        rewritten_events = 0
        for number, entry in enumerate(entries):
            if number >= len(self._seqs):
                break  # it has grown meanwhile; the next import takes that
            if number == known:
                rewritten_events = self._finish_known()
            if number >= known:
                self._append_new(number, entry)
            elif number in self._put:
                self._waiting[number] = entry
            elif self._seqs[number] == MISSING:
                self._append_missed(number, entry)
            if self._log.batch.is_full:
                self._log.batch.flush()
        if known >= len(self._seqs):
            rewritten_events = self._finish_known()
        return rewritten_events

    def _finish_known(self) -> int:
        for step in self._steps:
            self._take(step)
            if self._log.batch.is_full:
                self._log.batch.flush()
        self._waiting.clear()
        return self._log.batch.added

    def _append_missed(self, number: int, entry: Entry) -> None:
        """Keep an entry between known ones that the surface no longer has, or never had."""
        if entry.surface_op is None:
            self._add(number, entry.type, entry.time, entry.data)
            return
        whole = self._whole(entry)
        data = {"type": entry.type, "data": whole, "origin": whole["origin"]}
        self._add(number, SUPERSEDED, entry.time, data)

    def _whole(self, entry: Entry) -> dict[str, JSONValue]:
        """Return the data of an entry, also of a result that rewrites another."""
        if entry.content is None:
            return entry.data
        base = self._log.batch.read(self._seqs[_target(entry)])
        data = base.data["data"] if base.type == SUPERSEDED else base.data
        key, digest = _rewrite_identity(
            data["origin"]["key"].removesuffix(REWRITTEN), entry.content
        )
        data["origin"] = {**data["origin"], "key": key, "digest": digest}
        return rewritten(data, entry.content)

    def _append_new(self, number: int, entry: Entry) -> None:
        """Append an entry behind everything known, with its own place on the surface."""
        op = entry.surface_op
        if op is None:
            self._add(number, entry.type, entry.time, entry.data, cites=self._cited(entry))
            return
        data = entry.data
        first = last = None
        if type(op) is Replace:
            first, last = self._seqs[op.start], self._seqs[op.end]
            if entry.content is not None:
                data = rewritten(self._log.batch.read(first).data, entry.content)
        self._place(number, entry, data, first, last)

    def _take(self, step: SurfaceStep) -> None:
        if step.entry is None:
            assert step.first is not None
            assert step.last is not None
            origin = {"tool": self._log.tool, "key": f"{GAP_KEY}{step.first}", "digest": ""}
            time = self._log.batch.read(step.last).time
            event = self._event(DROPPED, time, {"origin": origin}, step.first, step.last, ())
            self._log.batch.add(event)
            return
        entry = self._waiting[step.entry]
        cites: list[int] = self._cited(entry)
        if step.rewrites:
            assert step.first is not None
            content = entry.content
            if content is None:
                content = result_content(entry.data)
                kept = {"data": entry.data, "origin": entry.data["origin"]}
                cites.append(self._log.batch.next_seq)
                self._add(None, REVISED, entry.time, kept)
            data = rewritten(self._log.batch.read(step.first).data, content)
        else:
            data = self._whole(entry)
        self._place(step.entry, entry, data, step.first, step.last, cites)

    def _place(
        self,
        number: int,
        entry: Entry,
        data: dict[str, JSONValue],
        first: int | None,
        last: int | None,
        cites: Sequence[int] | None = None,
    ) -> None:
        if cites is None:
            cites = self._cited(entry)
        event = self._event(entry.type, entry.time, data, first, last, cites)
        self._seqs[number] = event.seq
        self._log.batch.add(event)

    def _event(
        self,
        type: str,  # noqa: A002
        time: int,
        data: dict[str, JSONValue],
        first: int | None,
        last: int | None,
        cites: Iterable[int],
    ) -> Event:
        """Return the next event of the surface, and put it there."""
        seq = self._log.batch.next_seq
        if first is None or last is None:
            self._surface.append(seq)
            op: Replace | None = None
            shadowed: list[int] = []
        else:
            op = Replace(first, last)
            shadowed = self._surface.replace(first, last, seq)
        sources = list(dict.fromkeys((*shadowed, *cites)))
        return Event(
            seq,
            time,
            type,
            data,
            surface_op=APPEND if op is None else op,
            source_event_seqs=sources or None,
            ignorable=not DEFAULT_VOCABULARY.knows(type),
        )

    def _cited(self, entry: Entry) -> list[int]:
        """Return the events that *entry* cites, of those that are in the log."""
        return [seq for number in entry.cites if (seq := self._seqs[number]) != MISSING]

    def _add(
        self,
        number: int | None,
        type: str,  # noqa: A002
        time: int,
        data: dict[str, JSONValue],
        *,
        cites: Sequence[int] = (),
    ) -> None:
        """Append an event that is never on the surface."""
        seq = self._log.batch.next_seq
        event = Event(
            seq,
            time,
            type,
            data,
            source_event_seqs=list(cites) or None,
            ignorable=not DEFAULT_VOCABULARY.knows(type),
        )
        if number is not None:
            self._seqs[number] = seq
        self._log.batch.add(event)


def _target(entry: Entry) -> int:
    """Return the number of the result that an entry gives another content."""
    assert type(entry.surface_op) is Replace
    return entry.surface_op.start


def _rewrite_identity(base_key: str, content: JSONValue) -> Identity:
    digest = blake2b(orjson.dumps(content), digest_size=16).hexdigest()
    return f"{base_key}{REWRITTEN}", digest
