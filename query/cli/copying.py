"""
``copy``: from any store to any other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from eventlog.copying import CopyAccount, CopyProgress, copy_sessions
from eventlog.model import HeadKey
from eventlog.store import EventStore

from .failures import DAMAGED, DONE, NONE_FOUND
from .options import examples, json_option, opened
from .output import (
    FAULTS_SHOWN_MAX,
    Screen,
    complain,
    complain_of_more,
    counted,
    print_json,
    shown_size,
)

__all__ = ["register"]


def register(group: click.Group) -> None:
    group.add_command(copy)


@click.command(
    short_help="Copy every session of one store into another.",
    epilog=examples(
        "eventlog copy lmdb:~/agent jsonl:~/agent-logs",
        "eventlog copy jsonl:/mnt/old lmdb:~/agent --json",
        note="--json prints one document: a CopyAccount.",
    ),
)
@click.argument("source", metavar="SRC")
@click.argument("destination", metavar="DST")
@json_option
def copy(source: str, destination: str, as_json: bool) -> int:
    """
    Copy every session of one store into another; SRC and DST are URLs.

    What the destination holds is never changed: a session that it holds in part is
    completed, one that differs is refused. So a copy that was stopped is finished by
    running it again. The account adds up: found = copied + same + refused; each refused
    session is named on standard error with its reason.
    """
    with (
        opened(source) as read,
        opened(destination, read_only=False) as written,
        _progress(read) as progress,
    ):
        account = copy_sessions(read, written, progress=progress)
    if as_json:
        print_json(account)
    else:
        _show(account)
    if not account.found:
        complain(f"no sessions in {read.location}")
    for refusal in account.refused[:FAULTS_SHOWN_MAX]:
        part = f"; {refusal.stored:,} of its events are there" if refusal.stored else ""
        name = refusal.session_id or refusal.path or "a session"
        complain(f"refused {name}: {refusal.reason or refusal.kind}{part}")
    complain_of_more(len(account.refused) - FAULTS_SHOWN_MAX)
    return DAMAGED if account.refused else DONE if account.found else NONE_FOUND


def _show(account: CopyAccount) -> None:
    Screen().line(
        f"{account.found:,} found = {account.copied:,} copied + {account.same:,} same + "
        f"{len(account.refused):,} refused; {counted(account.events, 'event')}, "
        f"{shown_size(account.bytes)} added"
    )


@contextmanager
def _progress(source: EventStore) -> Iterator[Callable[[CopyProgress], None] | None]:
    """Show a bar on a terminal; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from eventlog.query.text import cut_characters, one_line

    bar = Progress(
        TextColumn("{task.percentage:>3.0f}%", markup=False),
        BarColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
        console=Console(stderr=True, markup=False, emoji=False, highlight=False),
        transient=True,
    )
    with bar:
        task = bar.add_task("counting", total=None)
        bar.update(task, total=_events(source))

        def progress(done: CopyProgress) -> None:
            name = cut_characters(one_line(done.session_id), 40).text
            bar.update(task, completed=done.events, description=name)

        yield progress


def _events(store: EventStore) -> int:
    """How many events a store has, by its heads."""
    count = 0
    key: HeadKey | None = None
    while True:
        page = store.heads(after=key, limit=1_000)
        count += sum(head.length for head in page.items)
        key = page.next_key
        if key is None:
            return count
