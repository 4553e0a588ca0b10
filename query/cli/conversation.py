"""
``show``: a session as a conversation that one can read.
"""

from __future__ import annotations

from collections.abc import Iterable

import click
from attrs import frozen

from eventlog.model import EventClass
from eventlog.query.filters import Classes, EventFilter, Ids, Seq, Text, Time, Types
from eventlog.query.records import EventDocument, SessionRecord
from eventlog.query.session_query import SessionQuery

from .entries import Entry, anything, chosen, newest
from .failures import DONE, NONE_FOUND
from .options import (
    examples,
    find_session,
    json_option,
    querying,
    session_argument,
    store_option,
    whole,
)
from .output import Screen, complain, counted, print_json, short_path
from .times import instant, shown_time
from .transcript import Transcript, is_conversation

__all__ = ["register"]


def register(group: click.Group) -> None:
    group.add_command(show)


@click.command(
    short_help="Show a session as a conversation.",
    epilog=examples(
        "eventlog show 3fd7",
        "eventlog show 3fd7 --all --full",
        "eventlog show 3fd7 --text 'permission denied' --class shadowed",
        "eventlog show 3fd7 --from 200 --to 260 --log",
        note="--json prints one document: the session's record and its EventDocuments.",
    ),
)
@session_argument
@store_option
@click.option(
    "-n",
    "--last",
    metavar="N",
    type=whole(1),
    default=100,
    help="The newest so many; 100 without it.",
)
@click.option("--all", "everything", is_flag=True, help="All of it, from the start.")
@click.option("--full", is_flag=True, help="Whole texts, and what tools answered.")
@click.option("--log", "log_only", is_flag=True, help="Also what the model never sees.")
@click.option("--from", "first", metavar="SEQ", type=whole(0), help="From here on.")
@click.option("--to", "final", metavar="SEQ", type=whole(0), help="Up to here.")
@click.option("--type", "types", metavar="TYPE", multiple=True, help="Only this type; repeatable.")
@click.option(
    "--class",
    "classes",
    type=click.Choice([str(kind) for kind in EventClass]),
    multiple=True,
    help="Only what stands so to the surface; repeatable.",
)
@click.option("--text", metavar="TEXT", help="Only what holds this text, in any case.")
@click.option("--since", metavar="WHEN", help="Only what is not older: a time, 3h, 7d.")
@click.option("--until", metavar="WHEN", help="Only what is not newer.")
@json_option
def show(
    session: str,
    store: str | None,
    last: int,
    everything: bool,
    full: bool,
    log_only: bool,
    first: int | None,
    final: int | None,
    types: tuple[str, ...],
    classes: tuple[str, ...],
    text: str | None,
    since: str | None,
    until: str | None,
    as_json: bool,
) -> int:
    """
    Show a session as a conversation: what was said, which tools were called, where
    context was compacted.

    Long texts and what tools answered are folded; --full unfolds them. What compaction
    took from the model's eyes is still shown, dimmed and marked. The newest 100 are
    shown, and only those are read, unless --all or --last say otherwise.
    """
    with querying(store) as (query, held):
        session_id = find_session(held, session)
        filters: list[EventFilter] = []
        if first is not None or final is not None:
            filters.append(Seq(first, final))
        if types:
            filters.append(Types(types))
        if classes:
            filters.append(Classes(classes))
        if since is not None or until is not None:
            filters.append(Time(instant(since, "--since"), instant(until, "--until")))
        if text is not None:
            filters.append(Text(text))
        log = query.corpus.snapshot(session_id)
        # Whoever asks for a type has it shown, whatever it is.
        wanted = anything if log_only or types else is_conversation
        earlier = False
        entries: Iterable[Entry]
        if everything:
            entries = chosen(log, query.vocabulary, filters, wanted)
        else:
            entries, earlier = newest(log, query.vocabulary, filters, wanted, last)
        record = _record(query, session_id)
        if as_json:
            documents = [entry.document(query.vocabulary) for entry in entries if entry.text]
            print_json(Shown(record, tuple(documents)))
            return DONE if documents else NONE_FOUND
        screen = Screen()
        _show_header(screen, record)
        if earlier:
            screen.line(("… earlier events: --all shows them, --last more of them", "dim"))
            screen.line()
        count = Transcript(screen, query.vocabulary, full).write(log, entries)
    if not count and filters:
        complain("nothing to show: no event passes the filters")
    elif not count:
        hint = "; --log shows its events" if record.length and not log_only else ""
        complain(f"nothing to show: there is no conversation{hint}")
    return DONE if count else NONE_FOUND


@frozen
class Shown:
    """
    A session and what is shown of it.

    Attributes:
        session: Its record.

        documents: The events that have text, in seq order.
    """

    session: SessionRecord
    documents: tuple[EventDocument, ...]


def _record(query: SessionQuery, session_id: str) -> SessionRecord:
    return query.list_sessions(filters=[Ids([session_id])], limit=1).items[0]


def _show_header(screen: Screen, record: SessionRecord) -> None:
    header = record.header
    screen.line((header.id, "bold"))
    facts = [shown_time(header.created_at), counted(record.length, "event")]
    if header.cwd is not None:
        facts.append(short_path(header.cwd))
    if header.parent_session is not None:
        inherited = (
            f", {counted(header.seed_length, 'event')} from it" if header.seed_length else ""
        )
        facts.append(f"child of {header.parent_session}{inherited}")
    if header.origin is not None:
        facts.append(header.origin)
    screen.line((" · ".join(facts), "dim"))
    screen.line()
