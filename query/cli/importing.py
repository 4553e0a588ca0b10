"""
Bringing the transcripts of other tools into a store.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import click
from click.shell_completion import CompletionItem

from eventlog.importing import ImportAccount, ImportProgress, import_transcripts
from eventlog.sources import TranscriptSource, load_sources
from eventlog.store import EventStore

from .failures import DAMAGED, DONE, NONE_FOUND, UsageError
from .options import default_store, examples, json_option, opened, store_option
from .output import (
    FAULTS_SHOWN_MAX,
    Screen,
    complain,
    complain_of_more,
    counted,
    print_json,
    short_path,
    shown_size,
)

__all__ = ["register"]

ALL: Final = "all"
NOTHING_HERE: Final = "no known tool has left anything here; name one, and give a PATH"


def register(group: click.Group) -> None:
    """Add the command of this module."""
    group.add_command(import_)


def _complete_tool(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    names = (*load_sources(), ALL)
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@click.command(
    "import",
    epilog=examples(
        "eventlog import claude-code",
        "eventlog import codex ~/.codex/sessions/2026/01",
        "eventlog import dsh ~/.dsh/sessions --store lmdb:~/agent",
        "eventlog import all --json",
        note="Exit codes: 0 all of it, 1 nothing found, 2 usage, 3 something was refused.",
    ),
)
@click.argument("tool", metavar="TOOL", required=False, shell_complete=_complete_tool)
@click.argument("paths", metavar="[PATH]…", nargs=-1, type=click.Path(path_type=Path))
@store_option
@json_option
def import_(tool: str | None, paths: tuple[Path, ...], store: str | None, as_json: bool) -> int:
    """
    Bring the sessions of another tool into the store.

    TOOL is the tool that wrote them, or all for each that has left any: claude-code,
    codex, gemini-cli, qwen-code, opencode, pi, openhands, swe-agent, dsh,
    chat-completions, responses, and what other packages add. PATHs are files or folders;
    without one, the place where the tool usually keeps them.

    Only what the store lacks is added, so importing again is cheap, and an import that
    was stopped goes on where it was. The tool's own files are only read. The account says
    what became of every session and every record; whatever was refused is named with its
    line and the reason.
    """
    sources = load_sources()
    chosen = _chosen(sources, tool, paths)
    accounts = []
    with opened(store, read_only=False) as target:
        for source, places in chosen:
            accounts.append(_import(target, source, places, quiet=as_json))
            # Of all tools those that have left nothing but a folder are not worth a word.
            if not as_json and (tool != ALL or accounts[-1].found):
                _print_account(source, accounts[-1], places)
    if not as_json and sys.stderr.isatty() and any(account.new for account in accounts):
        complain(f"they are in {short_path(store or default_store())}; eventlog list shows them")
    if as_json:
        print_json(accounts if tool == ALL else accounts[0])
    if any(account.refused or account.records.refused for account in accounts):
        return DAMAGED
    if not any(account.found for account in accounts):
        if chosen and tool == ALL:
            complain(NOTHING_HERE)
        return NONE_FOUND
    return DONE


def _chosen(
    sources: dict[str, TranscriptSource], tool: str | None, paths: Sequence[Path]
) -> list[tuple[TranscriptSource, list[Path]]]:
    """Return the sources to read, each with the places to look at."""
    if tool is None:
        here = [name for name, source in sources.items() if _existing(source)]
        hint = f"here {', '.join(here)} left something" if here else NOTHING_HERE
        raise UsageError(f"which TOOL, or {ALL}? {hint}")
    if tool == ALL:
        if paths:
            raise UsageError(f"{ALL} looks at the usual places and takes no PATH")
        found = [(source, _existing(source)) for source in sources.values()]
        if not any(places for _, places in found):
            complain(NOTHING_HERE)
        return [(source, places) for source, places in found if places]
    if tool not in sources:
        near = get_close_matches(tool, sources, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sources)} and {ALL}"
        raise UsageError(f"no tool {tool!r}; {hint}")
    source = sources[tool]
    if paths:
        return [(source, [_there(path.expanduser()) for path in paths])]
    places = _existing(source)
    if not places:
        looked = ", ".join(map(str, source.usual_places(os.environ))) or "no usual place"
        complain(f"{source.title} has left nothing here ({looked}); give a PATH")
    return [(source, places)]


def _there(path: Path) -> Path:
    """Return *path*, where there is something."""
    if _is_absent(path):
        raise UsageError(f"PATH: there is no {path}")
    return path


def _existing(source: TranscriptSource) -> list[Path]:
    return [place for place in source.usual_places(os.environ) if not _is_absent(place)]


def _is_absent(path: Path) -> bool:
    """Tell whether nothing is there; of what may not be looked at the source says so."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


def _import(
    store: EventStore, source: TranscriptSource, places: list[Path], *, quiet: bool
) -> ImportAccount:
    with _progress(source.title, quiet=quiet) as progress:
        return import_transcripts(store, source, places, progress=progress)


@contextmanager
def _progress(title: str, *, quiet: bool) -> Iterator[Callable[[ImportProgress], None] | None]:
    """Show a bar on a terminal, on standard error; elsewhere nothing."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TextColumn("{task.fields[files]}", markup=False),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None, files="")

        def report(progress: ImportProgress) -> None:
            bar.update(
                task,
                total=progress.bytes_total,
                completed=min(progress.bytes, progress.bytes_total),
                files=f"{progress.files} of {progress.files_total} files",
            )

        yield report


def _print_account(source: TranscriptSource, account: ImportAccount, places: list[Path]) -> None:
    screen = Screen()
    where = ", ".join(short_path(str(place)) for place in places)
    screen.line((source.title, "bold"), f" from {where}" if where else "")
    screen.line(
        f"  sessions  {account.found:,} found = {account.new:,} new + {account.grown:,} grown "
        f"+ {account.same:,} same + {len(account.refused):,} refused"
    )
    records = account.records
    screen.line(
        f"  records   {records.found:,} found = {records.mapped:,} mapped "
        f"+ {records.kept:,} kept as they are + {records.refused:,} refused"
    )
    screen.line(f"  events    {account.events:,} added, from {shown_size(records.bytes_read)} read")
    if account.rewritten:
        screen.line(
            f"  rewritten {counted(account.rewritten, 'event')} added where the source had changed"
        )
    if records.altered:
        screen.line(
            f"  altered   {counted(records.altered, 'record')} held something that no log can; "
            "the exact text is kept beside it"
        )
    for refused in account.refused[:FAULTS_SHOWN_MAX]:
        complain(f"refused {refused.path}: {refused.kind}: {refused.reason}")
    for fault in records.faults[:FAULTS_SHOWN_MAX]:
        place = "" if fault.line is None else f", line {fault.line}"
        place += "" if fault.offset_bytes is None else f", byte {fault.offset_bytes}"
        several = "" if fault.records == 1 else f" ({fault.records:,} records)"
        complain(f"refused {fault.path}{place}: {fault.kind}: {fault.reason}{several}")
    more = max(len(account.refused) - FAULTS_SHOWN_MAX, 0)
    complain_of_more(more + max(len(records.faults) - FAULTS_SHOWN_MAX, 0))
    if places and not account.found:
        complain(f"nothing of {source.title} was found there")
