"""
``eventlog demo``: a small agent at work, and what its log is good for afterwards.
"""

from __future__ import annotations

import shlex

import click

from .demo_agent import CONTEXT_BUDGET_TOKENS
from .demo_story import WORDS, Compacted, DemoReport, Node, play
from .failures import DONE
from .options import examples, json_option, opened, store_option
from .output import Screen, print_json, short_path, shown_size

__all__ = ["register"]


def register(group: click.Group) -> None:
    group.add_command(demo)


@click.command(
    epilog=examples(
        "eventlog demo",
        "eventlog demo --store jsonl:logs",
        note="--json prints one document: what the demo did and found.",
    )
)
@store_option
@json_option
def demo(store: str | None, as_json: bool) -> int:
    """
    Watch a small agent work, forget, and find it again.

    A harness without a model, its tools real and its task on this machine's own files,
    logs all it does. Twice its context is full and is compacted. Then it is asked for a
    detail that compaction dropped, finds it in the log and answers. Offline; all it
    writes is one new session in the store, and its index in your cache folder.
    """
    with opened(store, read_only=False) as held:
        report = play(held)
    if as_json:
        print_json(report)
    else:
        _tell(Screen(), report, store)
    return DONE


def _tell(screen: Screen, report: DemoReport, store: str | None) -> None:
    _tell_work(screen, report)
    for number, compaction in enumerate(report.compactions, 1):
        _tell_compaction(screen, compaction, number)
    _tell_recall(screen, report)
    _tell_reads(screen, report)
    option = "" if store is None else f" --store {shlex.quote(store)}"
    session_id = report.session.header.id
    screen.line()
    screen.line(("Look for yourself:", "bold"))
    for command in ("list", f"show {session_id}", f"trace {session_id} {report.found_seq}"):
        screen.line(f"eventlog {command}{option}", indent=2)


def _tell_work(screen: Screen, report: DemoReport) -> None:
    screen.line(("A small agent, no model, at work on ", ""), (short_path(report.root), "cyan"))
    screen.line()
    screen.line(("user   ", "bold green"), report.task)
    for call in report.calls:
        screen.cut_line(
            ("agent  ", "bold blue"),
            f"{call.tool}({call.argument})",
            (f" → {call.lines} lines, event {call.seq}", "dim"),
        )
    screen.line(("agent  ", "bold blue"), report.conclusion)
    screen.line()


def _tell_compaction(screen: Screen, compaction: Compacted, number: int) -> None:
    """Show a surface before and after as one list: what went, what came, what stayed."""
    before = sum(node.tokens for node in compaction.before)
    after = sum(node.tokens for node in compaction.after)
    screen.rule(
        f"compaction {number}: {before:,} of {CONTEXT_BUDGET_TOKENS:,} tokens → {after:,}", "yellow"
    )
    kept = {node.seq for node in compaction.after}
    came = {node.seq for node in compaction.before}
    for node in compaction.before:
        if node.seq not in kept:
            _tell_node(screen, "−", node, "red")
    for node in compaction.after:
        if node.seq in came:
            _tell_node(screen, " ", node, "")
        else:
            _tell_node(screen, "+", node, "green")
    screen.line()


def _tell_node(screen: Screen, mark: str, node: Node, style: str) -> None:
    label = f"{mark} {node.seq:>4}  {node.speaker:<9}  {node.tokens:>5}  "
    first = node.text.replace("A summary of the conversation so far.", "").replace(
        "<compacted-summary>", ""
    )
    text = " ".join(first.split())
    room = min(screen.width, 100) - len(label)
    screen.cut_line((label, style), (text if len(text) <= room else text[: room - 1] + "…", style))


def _tell_recall(screen: Screen, report: DemoReport) -> None:
    chain = " → ".join(map(str, report.trace.replacement_chain))
    screen.line(("user   ", "bold green"), report.question)
    where = "has it still" if report.on_surface else "no longer has it: compaction dropped it"
    screen.line(("agent  ", "bold blue"), f"My context {where}.")
    screen.line(f'       I search my log for "{WORDS}", and event {report.found_seq} has it:')
    screen.line()
    screen.body((report.detail, "bold"), indent=9)
    screen.line()
    says = "says the same" if report.confirmed else "says something else"
    screen.line(f"       json/scanner.py on disk {says}.")
    screen.line(
        f"       Trace: event {report.found_seq} is {report.trace.target.event_class}, "
        f"replaced by {chain}; {report.trace.current_seq} stands for it now."
    )
    screen.line()


def _tell_reads(screen: Screen, report: DemoReport) -> None:
    session = report.session
    screen.rule("what each read touched", "yellow")
    screen.table(
        ["READ", "ANSWER", "RECORDS", "ROWS", "BYTES"],
        [
            (
                read.read,
                read.answer,
                f"{read.records:,}",
                f"{read.probes:,}",
                shown_size(read.bytes),
            )
            for read in report.reads
        ],
        right="RECORDS ROWS BYTES",
        narrow=[("READ", 16), ("ROWS", 0), ("RECORDS", 0)],
    )
    screen.line()
    screen.line(
        f"The log of {session.header.id} has {session.length:,} events, "
        f"{shown_size(report.payload_bytes)}. The index has rows of its own, not counted here."
    )
