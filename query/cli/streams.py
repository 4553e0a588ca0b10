"""
``export`` and ``follow``: a session's events as a stream.
"""

from __future__ import annotations

import sys
import time
from typing import Final

import click

from eventlog.query.corpus_snapshot import CorpusSnapshot
from eventlog.query.filters import Seq
from eventlog.query.session_query import SessionQuery
from eventlog.query.text import escape_json
from eventlog.store import EventStore

from .entries import anything, chosen, newest, title_of
from .failures import DONE, NothingFound, UsageError
from .markdown import Markdown
from .options import (
    examples,
    find_session,
    json_option,
    querying,
    session_argument,
    store_option,
    whole,
)
from .output import Screen, print_json_line
from .transcript import Transcript, is_conversation
from .viewing import export_page

__all__ = ["register"]


def register(group: click.Group) -> None:
    group.add_command(export)
    group.add_command(follow)


@click.command(
    short_help="Print a session as JSON lines, Markdown or a page.",
    epilog=examples(
        "eventlog export 3fd7 > session.jsonl",
        "eventlog export 3fd7 --format md > session.md",
        "eventlog export 3fd7 --format html --lineage > session.html",
        note="jsonl is a header and an event a line, in the format of logs, and can be "
        "imported again; md is the conversation; html is a page, see eventlog view.",
    ),
)
@session_argument
@store_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "md", "html"]),
    default="jsonl",
    help="jsonl, md or html.",
)
@click.option("--lineage", is_flag=True, help="html: also the sessions it came from and led to.")
def export(session: str, store: str | None, form: str, lineage: bool) -> int:
    """
    Print a whole session, as JSON lines, as Markdown or as an HTML page.
    """
    if lineage and form != "html":
        raise UsageError("--lineage goes with --format html")
    with querying(store) as (query, held):
        session_id = find_session(held, session)
        if form == "html":
            return export_page(query, session_id, lineage=lineage)
        log = query.corpus.snapshot(session_id)
        if form == "md":
            _export_markdown(query, log)
        else:
            _export_lines(query, log)
    return DONE


def _export_lines(query: SessionQuery, log: CorpusSnapshot) -> None:
    from eventlog.codec import encode_line

    sys.stdout.flush()
    out = sys.stdout.buffer
    terminal = sys.stdout.isatty()
    out.write(_line(encode_line(log.header), terminal))
    for event in query.read_log(log.session_id):
        out.write(_line(encode_line(event), terminal))
    out.flush()


def _line(line: bytes, terminal: bool) -> bytes:
    # A file gets the bytes of the log. The same JSON with escapes is safe on a terminal.
    return escape_json(line.decode()).encode() if terminal else line


def _export_markdown(query: SessionQuery, log: CorpusSnapshot) -> None:
    document = Markdown(query.vocabulary, sys.stdout.write)
    document.begin(log.header, log.length, title_of(log, query.vocabulary))
    for entry in chosen(log, query.vocabulary, wanted=is_conversation):
        document.add(entry)


POLL_INTERVAL_S: Final = 0.5


@click.command(
    epilog=examples(
        "eventlog follow 3fd7",
        "eventlog follow 3fd7 --json | jq .type",
        note="--json prints JSON lines: an Event each, without an end.",
    )
)
@session_argument
@store_option
@click.option(
    "-n",
    "--last",
    metavar="N",
    type=whole(0),
    default=10,
    help="Begin with the newest so many; 10 without it.",
)
@click.option("--log", "log_only", is_flag=True, help="Also what the model never sees.")
@json_option
def follow(session: str, store: str | None, last: int, log_only: bool, as_json: bool) -> int:
    """
    Print a session's events as they arrive, until interrupted.

    Looks for news twice a second; a look that finds none reads one record.
    """
    with querying(store) as (query, held):
        session_id = find_session(held, session)
        screen = Screen()
        transcript = Transcript(screen, query.vocabulary, full=False)
        log = query.corpus.snapshot(session_id)
        wanted = anything if log_only or as_json else is_conversation
        entries = newest(log, query.vocabulary, (), wanted, last)[0] if last else []
        while True:
            if as_json:
                for entry in entries:
                    print_json_line(entry.event)
            else:
                transcript.write(log, entries)
            sys.stdout.flush()
            seen = log.length
            log = _awaited(query, held, log)
            entries = list(chosen(log, query.vocabulary, [Seq(seen)], wanted))


def _awaited(query: SessionQuery, store: EventStore, log: CorpusSnapshot) -> CorpusSnapshot:
    """Wait until a log has grown, and return it as it is then."""
    while True:
        head = store.head(log.session_id)
        if head is None or head.length < log.length or head.header != log.header:
            raise NothingFound(f"session {log.session_id!r} was deleted")
        if head.length > log.length:
            return query.corpus.snapshot(log.session_id)
        time.sleep(POLL_INTERVAL_S)
