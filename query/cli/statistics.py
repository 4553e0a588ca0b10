"""
``stats``: what a session consists of.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import click
from attrs import define, field, frozen

from eventlog.model import Event, Replace
from eventlog.query.filters import Ids
from eventlog.query.records import SessionRecord

from .failures import DONE
from .options import (
    examples,
    find_session,
    json_option,
    querying,
    session_argument,
    store_option,
)
from .output import Part, Screen, counted, print_json, shown_size
from .times import shown_time

__all__ = ["register"]


def register(group: click.Group) -> None:
    group.add_command(stats)


@frozen
class TypeCount:
    """
    The events of one type.

    Attributes:
        type: The type.

        events: How many there are.

        payload_bytes: Bytes of their data.
    """

    type: str
    events: int
    payload_bytes: int


@frozen
class TokenUsage:
    """
    Tokens that the providers reported, over the whole log.

    Attributes:
        input: Tokens of prompts, as far as they were not read from a cache.

        output: Tokens of answers, reasoning included.

        cache_read: Tokens of prompts that were read from a cache.

        cache_write: Tokens of prompts that were written to one.
    """

    input: int
    output: int
    cache_read: int
    cache_write: int


@frozen
class SessionStats:
    """
    What a session consists of.

    Attributes:
        session: Its record.

        payload_bytes: Bytes of all its events' data.

        types: Counts by type, the most bytes first.

        nodes: Events on the surface.

        shadowed: Events that were on it.

        replacements: Events that replaced others.

        turns: Turns begun.

        steps: Steps begun.

        tool_calls: Tools called.

        tokens: What providers reported; None where none did.
    """

    session: SessionRecord
    payload_bytes: int
    types: tuple[TypeCount, ...]
    nodes: int
    shadowed: int
    replacements: int
    turns: int
    steps: int
    tool_calls: int
    tokens: TokenUsage | None


@click.command(
    short_help="Count a session's events, bytes, calls and tokens.",
    epilog=examples(
        "eventlog stats 3fd7",
        "eventlog stats 3fd7 --json | jq .tokens",
        note="--json prints one document: counts by type, turns, calls and tokens.",
    ),
)
@session_argument
@store_option
@json_option
def stats(session: str, store: str | None, as_json: bool) -> int:
    """
    Count a session's events and bytes by type, its turns, its calls, its tokens.

    Reads the whole log.
    """
    with querying(store) as (query, held):
        session_id = find_session(held, session)
        (record,) = query.list_sessions(filters=[Ids([session_id])], limit=1).items
        log = query.corpus.snapshot(session_id, at=record.length)
        nodes = len(log.nodes())
        found = _counted(record, query.read_log(session_id), nodes)
    if as_json:
        print_json(found)
    else:
        _show(Screen(), found)
    return DONE


_USAGE_KEYS: Final = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")


@define
class _Usage:
    """
    Adds up what providers reported: in a chunk of the answer, and with the whole answer.

    A later report for the same turn and step takes the place of the earlier one.
    """

    reports: dict[object, tuple[int, ...]] = field(factory=dict)

    def take(self, event: Event) -> None:
        if event.type == "assistant/message":
            report = event.data.get("usage")
        elif event.type == "assistant/chunk" and b'"usage"' in event.payload:
            chunk = event.data.get("chunk")
            report = chunk.get("usage") if type(chunk) is dict else None
        else:
            return
        if type(report) is not dict:
            return
        counts = tuple(_count(report.get(key)) for key in _USAGE_KEYS)
        data = event.data
        turn, step = data.get("turn"), data.get("step")
        step_known = type(turn) is int and type(step) is int
        self.reports[(turn, step) if step_known else event.seq] = counts

    def total(self) -> TokenUsage | None:
        if not self.reports:
            return None
        return TokenUsage(*(sum(column) for column in zip(*self.reports.values(), strict=True)))


def _count(value: Any) -> int:
    return value if type(value) is int and value >= 0 else 0


def _counted(record: SessionRecord, events: Iterable[Event], nodes: int) -> SessionStats:
    counts: dict[str, list[int]] = {}
    usage = _Usage()
    entered = replacements = 0
    for event in events:
        count = counts.setdefault(event.type, [0, 0])
        count[0] += 1
        count[1] += len(event.payload)
        if event.surface_op is not None:
            entered += 1
            replacements += isinstance(event.surface_op, Replace)
        usage.take(event)
    types = [TypeCount(name, *count) for name, count in counts.items()]
    types.sort(key=lambda count: (-count.payload_bytes, count.type))

    def number(name: str) -> int:
        return counts.get(name, [0])[0]

    return SessionStats(
        session=record,
        payload_bytes=sum(count.payload_bytes for count in types),
        types=tuple(types),
        nodes=nodes,
        shadowed=entered - nodes,
        replacements=replacements,
        turns=number("turn/start"),
        steps=number("step/start"),
        tool_calls=number("tool/call"),
        tokens=usage.total(),
    )


def _show(screen: Screen, found: SessionStats) -> None:
    header = found.session.header
    screen.line((header.id, "bold"))
    begun = f"{shown_time(header.created_at)} – {shown_time(found.session.last_time)}"
    screen.line((begun, "dim"))
    screen.line()
    screen.line(
        f"{counted(found.session.length, 'event')}, {shown_size(found.payload_bytes)}; "
        f"{counted(found.turns, 'turn')}, {counted(found.steps, 'step')}, "
        f"{counted(found.tool_calls, 'tool call')}"
    )
    screen.line(
        f"surface: {counted(found.nodes, 'node')}; {found.shadowed:,} shadowed by "
        f"{counted(found.replacements, 'replacement')}"
    )
    if found.tokens is not None:
        tokens = found.tokens
        screen.line(
            f"tokens: {tokens.input:,} in, {tokens.output:,} out, "
            f"{tokens.cache_read:,} from cache, {tokens.cache_write:,} into it"
        )
    screen.line()
    rows: list[tuple[Part, ...]] = []
    for count in found.types:
        share = 100 * count.payload_bytes / max(found.payload_bytes, 1)
        rows.append(
            (
                (count.type, "cyan"),
                f"{count.events:,}",
                shown_size(count.payload_bytes),
                f"{share:.1f} %",
            )
        )
    screen.table(
        ["TYPE", "EVENTS", "BYTES", "SHARE"],
        rows,
        right="EVENTS BYTES SHARE",
        narrow=[("TYPE", 12), ("EVENTS", 0)],
    )
