"""
The surface fold: which events the model sees now, which it saw, which it never did.

An event is a *node* of the surface exactly when it carries a surface op, so no two
processes fold a log differently. An append puts its event at the end; a replacement puts
its event in the place of a range of nodes.

The surface is a sorted map from *labels* to nodes. The label of an appended node is its
own seq, that of a replacement is the label of its range's first node: the first seq of
all that it covers. Surface order is therefore label order, always, and a step costs
O(log n) plus the nodes that it removes, each of which is removed once. Besides that map
everything is written once: a replacement's label and the nodes it shadowed, a shadowed
node's replacer, and the citations. The surface as of any earlier length can be read from
later tables for this reason (:mod:`eventlog.surface_view`).

A fold is :func:`plan`, which judges an event and changes nothing, and :func:`apply`,
which cannot fail. Both work on tables (:mod:`eventlog.tables`): in memory, as
rows of a database, or over either for a batch that is not accepted yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from attrs import define, frozen

from eventlog.errors import InvalidArgument, InvalidSurface
from eventlog.model import APPEND, Event, EventClass, Replace
from eventlog.surface_view import SurfaceView
from eventlog.tables import FoldTables, MemoryTables, OverlayTables, ViewTables, label_of
from eventlog.values import JSONValue, check_index

__all__ = [
    "MUST_BE_NODES",
    "NEVER_NODES",
    "Replacement",
    "Step",
    "Surface",
    "apply",
    "fold_surface",
    "is_inert",
    "plan",
    "plan_batch",
]

MUST_BE_NODES: Final = frozenset({"user/message", "assistant/message", "tool/result"})
"""Types whose every event enters the surface."""

NEVER_NODES: Final = frozenset(
    """
    turn/start turn/end step/start step/end assistant/chunk tool/call todo/write
    request/header request/context session/end-seed

    agent-preset/selected agent/inbox/spliced approval/asked approval/decided
    approval/policy command/run command/done compaction/start compaction/summary
    compaction/end compaction/prune feedback/record goal/change hook/invoked hook/result
    llm/retry llm/retry-started permission/preset plan/mode sandbox/mode schedule/change
    session/title session/title-llm-request subagent/descriptor team/member
    team/message/queued team/message/delivered team/task tool-workflow/run-start
    tool-workflow/run-end tool-workflow/agent-start tool-workflow/agent-end
    tool/code-dispatch-start tool/code-dispatch web/deepseek-search-llm-request
    """.split()
)
"""Types that carry neither a surface op nor sources. Any type in neither set may."""

MAY_CITE_NOTHING: Final = "assistant/message"
TOOL_RESULT: Final = "tool/result"


# One is made for each event stored, and a frozen one takes three times as long to make.
@define
class Step:
    """
    What one event does to the tables.

    Attributes:
        seq: The event.

        label: Its place on the surface, None for an event that is no node.

        removed: The nodes that it replaces, as (label, seq), in surface order.

        is_replacement: Whether it replaces anything.

        cites: Its sources that it does not shadow.
    """

    seq: int
    label: int | None
    removed: tuple[tuple[int, int], ...]
    is_replacement: bool
    cites: tuple[int, ...]


ReadEvent = Callable[[int], Event]


def plan(tables: FoldTables, event: Event, read_event: ReadEvent) -> Step:
    """
    Judge *event* as the next one of the log behind *tables*; nothing is changed.

    Args:
        read_event: Gives an earlier event of the log; asked only by the replacement of
            a tool result.

    Cost: O(log n + nodes replaced + sources).

    Raises:
        InvalidSurface: The event breaks a rule of the fold.
    """
    op, sources = event.surface_op, event.source_event_seqs
    if op is APPEND and sources is None and event.type not in NEVER_NODES:
        return Step(event.seq, event.seq, (), False, ())  # as most are: no more to be judged
    if is_inert(event):
        return Step(event.seq, None, (), False, ())
    if event.type in MUST_BE_NODES:
        if op is None:
            raise InvalidSurface(
                event.seq, f"a {event.type} event requires a surface op, such as APPEND"
            )
    elif event.type in NEVER_NODES:
        if op is not None:
            raise InvalidSurface(event.seq, f"a {event.type} event cannot carry a surface op")
        if sources is not None:
            raise InvalidSurface(event.seq, f"a {event.type} event cannot carry sources")
    removed: tuple[tuple[int, int], ...] = ()
    label: int | None = None
    is_replacement = type(op) is Replace
    if is_replacement:
        assert type(op) is Replace
        label, removed = _replaced_range(tables, event.seq, op)
    elif op is not None:
        label = event.seq
    _check_sources(event, removed)
    if is_replacement and event.type == TOOL_RESULT:
        _check_rewrite(event, removed, read_event)
    if not sources:
        cites: tuple[int, ...] = ()
    elif removed:
        shadowed = {seq for _, seq in removed}
        cites = tuple(seq for seq in sources if seq not in shadowed)
    else:
        cites = sources
    return Step(event.seq, label, removed, is_replacement, cites)


def is_inert(event: Event) -> bool:
    """Tell whether a fold may pass *event* by: no rule looks at it, and it changes nothing."""
    return (
        event.surface_op is None
        and event.source_event_seqs is None
        and event.type not in MUST_BE_NODES
    )


def apply(tables: FoldTables, step: Step) -> None:
    """Write a planned step into *tables*. Cost: O(nodes replaced · log n + sources)."""
    for source in step.cites:
        tables.put_citation(source, step.seq)
    if step.label is None:
        return
    if step.is_replacement:
        for label, node in step.removed:
            tables.drop_node(label)
            tables.put_replaced_by(node, step.seq)
        tables.put_replacement(step.seq, step.label, tuple(node for _, node in step.removed))
    tables.put_node(step.label, step.seq)


def plan_batch(tables: FoldTables, events: Sequence[Event], read_event: ReadEvent) -> list[Step]:
    """
    Judge consecutive events, each after the ones before it; *tables* are not changed.

    Raises:
        InvalidSurface: One of them breaks a rule.
    """
    if len(events) == 1:
        return [plan(tables, events[0], read_event)]
    overlay = OverlayTables(tables)
    first = events[0].seq if events else 0

    def read(seq: int) -> Event:
        return events[seq - first] if seq >= first else read_event(seq)

    steps: list[Step] = []
    applied = 0
    for event in events:
        if type(event.surface_op) is Replace:  # nothing else looks at the tables
            for step in steps[applied:]:
                apply(overlay, step)
            applied = len(steps)
        steps.append(plan(overlay, event, read))
    return steps


def _replaced_range(
    tables: FoldTables, seq: int, op: Replace
) -> tuple[int, tuple[tuple[int, int], ...]]:
    first, last = label_of(tables, op.start), label_of(tables, op.end)
    for name, bound, label in (("start", op.start, first), ("end", op.end, last)):
        if tables.node(label) != bound:
            raise InvalidSurface(seq, f"replace: {name} seq {bound} not found in surface")
    if first > last:
        raise InvalidSurface(
            seq, f"replace: start seq {op.start} stands after end seq {op.end} in surface"
        )
    return first, tuple(tables.span(first, last))


def _check_sources(event: Event, removed: tuple[tuple[int, int], ...]) -> None:
    sources = event.source_event_seqs
    if sources is None and not removed:
        return
    if sources is not None and not sources and event.type != MAY_CITE_NOTHING:
        raise InvalidSurface(event.seq, "sources must not be empty")
    sources = sources or ()
    cited = set(sources)
    if len(cited) != len(sources):
        raise InvalidSurface(event.seq, "sources must not contain duplicates")
    if sources and max(sources) >= event.seq:
        raise InvalidSurface(
            event.seq, f"sources must reference earlier events, not {max(sources)}"
        )
    for _, node in removed:
        if node not in cited:
            raise InvalidSurface(
                event.seq, f"replace: sources must include every shadowed node; missing {node}"
            )


def _check_rewrite(
    event: Event, removed: tuple[tuple[int, int], ...], read_event: ReadEvent
) -> None:
    """A rewritten tool result may differ from its target in the result's content only."""
    if len(removed) != 1:
        raise InvalidSurface(
            event.seq, f"a {TOOL_RESULT} must rewrite exactly one current node, not {len(removed)}"
        )
    target = read_event(removed[0][1])
    if target.type != TOOL_RESULT:
        raise InvalidSurface(
            event.seq, f"a {TOOL_RESULT} must target a current {TOOL_RESULT}, not a {target.type}"
        )
    if _without_content(event.data) != _without_content(target.data):
        raise InvalidSurface(event.seq, f"a {TOOL_RESULT} rewrite may change only content")


def _without_content(data: dict[str, JSONValue]) -> JSONValue:
    """A form of a tool result that is equal for equal results but for the content."""
    try:
        block = data["message"]["content"][0]
        if type(block["content"]) is list:
            block["content"] = []
    except (KeyError, IndexError, TypeError):
        pass  # no such place: then nothing at all may differ
    return _comparable(data)


def _comparable(value: JSONValue) -> JSONValue:
    """A form in which key order does not count, and 1, 1.0 and True differ."""
    if type(value) is dict:
        return {key: _comparable(item) for key, item in value.items()}
    if type(value) is list:
        return [_comparable(item) for item in value]
    return (type(value).__name__, repr(value))


@frozen
class Replacement:
    """
    One replacement of a folded log.

    Attributes:
        seq: The event that replaces.

        start: The first node of its range.

        end: The last one, inclusive.

        shadowed: All nodes of the range, in surface order.
    """

    seq: int
    start: int
    end: int
    shadowed: tuple[int, ...]

    def __repr__(self) -> str:
        nodes = f"{len(self.shadowed)} nodes from {self.start} to {self.end}"
        return f"<Replacement {self.seq} of {nodes}>"


class Surface:
    """
    The surface of a whole folded log.

    Attributes:
        length: How many events were folded.

        replacements: Every replacement of the log, by seq.
    """

    __slots__ = ("_view", "length", "replacements")

    def __init__(
        self, tables: ViewTables, length: int, replacements: Iterable[Replacement]
    ) -> None:
        self._view = SurfaceView(tables, length)
        self.length = length
        self.replacements = tuple(replacements)

    @property
    def nodes(self) -> list[int]:
        """The current nodes in surface order, as a fresh list. Cost: O(nodes)."""
        return self._view.nodes()

    def classify(self, seq: int) -> EventClass:
        """
        Return the class of one event. Cost: O(log n).

        Raises:
            InvalidArgument: The log has no event *seq*.
        """
        return self._view.classify(seq)

    def replaced_by(self, seq: int) -> int | None:
        """
        Return the event that replaced *seq*, None where none did. Cost: O(1).

        Raises:
            InvalidArgument: *seq* is no int, or negative.
        """
        check_index(seq, "seq")
        return self._view.replaced_by(seq, seq + 1).get(seq)

    def __repr__(self) -> str:
        return f"<Surface of {self.length} events, {len(self.replacements)} replacements>"


def fold_surface(events: Iterable[Event]) -> Surface:
    """
    Fold a whole log.

    Args:
        events: All events of one session from seq 0, in order.

    Cost: O(n log n) time; the tables and the tool results stay in memory.

    Raises:
        InvalidSurface: A seq is missing or out of order, or an event breaks a rule.

        InvalidArgument: *events* holds something else.
    """
    tables = MemoryTables()
    replacements = []
    # Only the rewrite of a tool result looks back, and only at a tool result's data.
    seen: dict[int, Event] = {}
    length = 0
    if not isinstance(events, Iterable):
        raise InvalidArgument("events", f"must be Events, not {type(events).__name__}")
    for event in events:
        if type(event) is not Event:
            raise InvalidArgument("events", f"must hold Events, not {type(event).__name__}")
        if event.seq != length:
            raise InvalidSurface(event.seq, f"is not contiguous; expected seq {length}")
        step = plan(tables, event, seen.__getitem__)
        apply(tables, step)
        if step.is_replacement:
            assert type(event.surface_op) is Replace
            op = event.surface_op
            shadowed = tuple(node for _, node in step.removed)
            replacements.append(Replacement(event.seq, op.start, op.end, shadowed))
            for node in shadowed:
                seen.pop(node, None)
        if event.is_node:
            seen[event.seq] = event
        length += 1
    return Surface(tables, length, replacements)
