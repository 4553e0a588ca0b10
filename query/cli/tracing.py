"""
``trace`` and ``lineage``: where an event and a session come from, and what became of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from eventlog.query.records import EventTrace, LineageTrace, SessionRecord
from eventlog.query.session_query import SessionQuery
from eventlog.query.text import cut_characters, one_line

from .failures import DAMAGED, DONE
from .options import (
    examples,
    find_session,
    json_option,
    querying,
    session_argument,
    store_option,
    whole,
)
from .output import Part, Screen, complain_of_faults, counted, print_json, short_path
from .times import shown_time

__all__ = ["register"]


def register(group: click.Group) -> None:
    group.add_command(trace_event)
    group.add_command(trace_session)


@click.command(
    "trace",
    short_help="Tell what an event came from and what became of it.",
    epilog=examples(
        "eventlog trace 3fd7 12",
        "eventlog trace 3fd7 12 --json | jq .current_seq",
        note="--json prints one document: an EventTrace.",
    ),
)
@session_argument
@click.argument("seq", metavar="SEQ", type=whole(0))
@store_option
@json_option
def trace_event(session: str, seq: int, store: str | None, as_json: bool) -> int:
    """
    Tell what an event came from and what became of it: its sources, what it replaced,
    what replaced it, and which event of the surface stands for it now.
    """
    with querying(store) as (query, held):
        trace = query.trace_event(find_session(held, session), seq)
        if as_json:
            print_json(trace)
        else:
            _show_trace(Screen(), query, trace)
    return DONE


def _show_trace(screen: Screen, query: SessionQuery, trace: EventTrace) -> None:
    target = trace.target
    session_id = target.session_id

    def line(label: str, seq: int) -> None:
        event = query.read_event(session_id, seq).target
        text = one_line(cut_characters(query.vocabulary.text(event), 400).text)
        screen.cut_line(
            (f"{label:<12}", "dim"),
            (f"#{seq} ", "bold"),
            (event.type, "cyan"),
            f"  {text if screen.terminal else cut_characters(text, 100).text}".rstrip(),
        )

    def seqs(label: str, found: Sequence[int]) -> None:
        if found:
            shown = ", ".join(f"#{seq}" for seq in found[:SEQS_SHOWN_MAX])
            left = len(found) - SEQS_SHOWN_MAX
            screen.line((f"{label:<12}", "dim"), shown + (f" and {left} more" if left > 0 else ""))

    line("event", target.seq)
    inherited = ", inherited" if target.inherited else ""
    screen.line((f"{'class':<12}", "dim"), f"{target.event_class}{inherited}")
    seqs("cites", trace.source_event_seqs)
    seqs("replaced", trace.replaced_event_seqs)
    for replacer in trace.replacement_chain[:CHAIN_SHOWN_MAX]:
        line("replaced by", replacer)
    left = len(trace.replacement_chain) - CHAIN_SHOWN_MAX
    if left > 0 or not trace.chain_complete:
        more = f"{left} more" if trace.chain_complete else f"more than {max(left, 0)} more"
        screen.line((f"{'':<12}… {more}", "dim"))
    seqs("cited by", trace.derived_event_seqs)
    if trace.current_seq is None:
        screen.line((f"{'now':<12}", "dim"), "never was on the surface")
    elif trace.current_seq != target.seq:
        line("now", trace.current_seq)


SEQS_SHOWN_MAX: Final = 20
CHAIN_SHOWN_MAX: Final = 5


@click.command(
    "lineage",
    short_help="Draw the sessions above and below a session.",
    epilog=examples(
        "eventlog lineage 3fd7",
        note="--json prints one document: a LineageTrace.",
    ),
)
@session_argument
@store_option
@json_option
def trace_session(session: str, store: str | None, as_json: bool) -> int:
    """
    Draw the sessions that a session came from and those that came from it.
    """
    with querying(store) as (query, held):
        lineage = query.trace_session(find_session(held, session))
    if as_json:
        print_json(lineage)
    else:
        _show_lineage(Screen(), lineage)
    damaged = complain_of_faults(lineage.faults) > 0
    return DAMAGED if damaged else DONE


def _show_lineage(screen: Screen, lineage: LineageTrace) -> None:
    depth = 0
    if lineage.unresolved_parent_id is not None:
        screen.line((f"{lineage.unresolved_parent_id} is not in the store", "dim"))
        depth = 1
    for record in reversed(lineage.ancestors):
        _show_session(screen, _branch(depth), record)
        depth += 1
    _show_session(screen, _branch(depth), lineage.target, "bold")
    # Whether a session is the last child of its parent is seen from what follows it.
    depths = [descendant.depth for descendant in lineage.descendants]
    lasts = _last_children(depths)
    open_levels: list[bool] = []
    for descendant, last in zip(lineage.descendants, lasts, strict=True):
        del open_levels[descendant.depth - 1 :]
        stem = "".join("   " if closed else "│  " for closed in open_levels)
        _show_session(
            screen,
            "   " * depth + stem + ("└─ " if last else "├─ "),
            descendant.record,
        )
        open_levels.append(last)


def _branch(depth: int) -> str:
    return "" if depth == 0 else "   " * (depth - 1) + "└─ "


def _last_children(depths: Sequence[int]) -> list[bool]:
    """Tell for each node of a tree, given in pre-order by depth, whether no sibling follows."""
    lasts: list[bool] = []
    seen: set[int] = set()
    for depth in reversed(depths):
        lasts.append(depth not in seen)
        seen = {level for level in seen if level < depth} | {depth}
    return lasts[::-1]


def _show_session(screen: Screen, stem: str, record: SessionRecord, style: str = "") -> None:
    header = record.header
    facts: list[str] = [shown_time(header.created_at), counted(record.length, "event")]
    if header.seed_length:
        facts.append(f"{header.seed_length:,} inherited")
    if header.origin is not None:
        facts.append(header.origin)
    if header.cwd is not None:
        facts.append(short_path(header.cwd))
    parts: list[Part] = [(stem, "dim"), (header.id, style or "cyan")]
    screen.cut_line(*parts, (f"  {' · '.join(facts)}", "dim"))
