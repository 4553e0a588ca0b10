"""
``list``, ``read`` and ``surface``: the plain looks into a store.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from os.path import commonprefix
from typing import Final

import click
import orjson

from eventlog.model import EventClass
from eventlog.query.errors import SessionQueryError
from eventlog.query.filters import CreatedAt, Cwd, Parent, SessionFilter
from eventlog.query.records import OnConflict, Page, SessionRecord
from eventlog.query.session_query import SessionQuery
from eventlog.query.text import cut_characters, one_line

from .entries import title_of
from .failures import DAMAGED, DONE, NONE_FOUND, describe
from .options import (
    complete_session,
    examples,
    find_session,
    folders,
    json_option,
    querying,
    session_argument,
    store_option,
    whole,
)
from .output import (
    Part,
    Screen,
    complain,
    complain_of_faults,
    print_json,
    short_path,
    shown_size,
)
from .times import clock, instant, shown_time

__all__ = ["register"]

_TEXT_CHARACTERS_MAX: Final = 100
"""Of a title or a text in a table; a terminal may cut it shorter."""
_FOLDER_CHARACTERS_MAX: Final = 28


def register(group: click.Group) -> None:
    group.add_command(list_sessions)
    group.add_command(read_event)
    group.add_command(read_surface)


@click.command(
    "list",
    epilog=examples(
        "eventlog list",
        "eventlog list --cwd . --since 7d",
        "eventlog list --json | jq -r '.items[].header.id'",
        note="--json prints one document: a Page of SessionRecords.",
    ),
)
@store_option
@click.option("--cwd", metavar="PATH", help="Only sessions of this working directory.")
@click.option("--since", metavar="WHEN", help="Only sessions begun since: a date, a time, 3h, 7d.")
@click.option("--until", metavar="WHEN", help="Only sessions begun until then.")
@click.option(
    "--parent",
    metavar="SESSION",
    shell_complete=complete_session,
    help="Only children of this session.",
)
@click.option("--roots", is_flag=True, help="Only sessions without a parent.")
@click.option(
    "-n",
    "--limit",
    metavar="N",
    type=whole(1),
    default=50,
    help="At most so many; 50 without it.",
)
@click.option("--cursor", metavar="CURSOR", help="Go on where the page before ended.")
@json_option
def list_sessions(
    store: str | None,
    cwd: str | None,
    since: str | None,
    until: str | None,
    parent: str | None,
    roots: bool,
    limit: int,
    cursor: str | None,
    as_json: bool,
) -> int:
    """
    List sessions, newest first.

    A session is shown with the title or the first words it begins with. What cannot be
    read is named on standard error, and the rest is listed.
    """
    with querying(store) as (query, held):
        filters: list[SessionFilter] = []
        if cwd is not None:
            filters.append(Cwd(folders(cwd)))
        if since is not None or until is not None:
            filters.append(CreatedAt(instant(since, "--since"), instant(until, "--until")))
        if parent is not None:
            filters.append(Parent([find_session(held, parent)]))
        if roots:
            filters.append(Parent([None]))
        page = query.list_sessions(
            filters=filters, limit=limit, cursor=cursor, on_conflict=OnConflict.FAULT
        )
        if as_json:
            print_json(page)
            damaged = complain_of_faults(page.faults) > 0
        else:
            damaged = _show_page(query, page)
    if not page.items and not page.faults:
        _say_none(held.location, filtered=bool(filters))
    return DAMAGED if damaged else DONE if page.items else NONE_FOUND


def _say_none(location: str, *, filtered: bool) -> None:
    if filtered:
        complain(f"no session in {location} passes the filters")
    else:
        complain(f"no sessions in {location}; eventlog import and eventlog demo bring some")


def _show_page(query: SessionQuery, page: Page[SessionRecord]) -> bool:
    """Show a page of sessions as a table; returns whether damage was met."""
    screen = Screen()
    damaged = False
    rows: list[tuple[Part, ...]] = []
    for record in page.items:
        header = record.header
        title, style = "", ""
        try:
            log = query.corpus.snapshot(header.id, listed=header)
            title = cut_characters(title_of(log, query.vocabulary), _TEXT_CHARACTERS_MAX).text
        except SessionQueryError as error:
            # Its header is sound, so it is listed; its log is not.
            damaged = True
            complain(f"{header.id}: {describe(error)[1]}")
            title, style = "damaged", "red"
        if header.parent_session is not None:
            title = f"↳ {title}"
        rows.append(
            (
                (header.id, "cyan"),
                shown_time(header.created_at),
                f"{record.length:,}",
                short_path(header.cwd or "-", _FOLDER_CHARACTERS_MAX),
                (title, style),
            )
        )
    front = _front_characters([record.header.id for record in page.items])
    screen.table(
        ["SESSION", "BEGUN", "EVENTS", "FOLDER", "TITLE"],
        rows,
        right="EVENTS",
        narrow=[
            ("FOLDER", 12),
            ("SESSION", max(front + 1, 13)),
            ("FOLDER", 0),
            ("SESSION", max(front + 1, 9)),
            ("EVENTS", 0),
            ("BEGUN", 0),
        ],
        tails="FOLDER",
    )
    if page.next_cursor is not None:
        complain(f"there are more: --cursor {page.next_cursor}")
    return complain_of_faults(page.faults) > 0 or damaged


def _front_characters(ids: Sequence[str]) -> int:
    """Return how many characters tell *ids* apart by their fronts."""
    ordered = sorted(ids)
    shared = (len(commonprefix(pair)) for pair in pairwise(ordered))  # noqa: RUF071 - so it is
    return max(shared, default=0) + 1


@click.command(
    "read",
    epilog=examples(
        "eventlog read 3fd7 12",
        "eventlog read 3fd7 12 --before 2 --after 2",
        "eventlog read 3fd7 12 --json | jq .target.data",
        note="--json prints one document: an EventWindow.",
    ),
)
@session_argument
@click.argument("seq", metavar="SEQ", type=whole(0))
@store_option
@click.option("--before", metavar="N", type=whole(0, 50), default=0, help="So many before it.")
@click.option("--after", metavar="N", type=whole(0, 50), default=0, help="So many behind it.")
@json_option
def read_event(
    session: str, seq: int, store: str | None, before: int, after: int, as_json: bool
) -> int:
    """
    Print one event, whole, with its neighbours.

    Costs what it prints: the rest of the log is not read.
    """
    with querying(store) as (query, held):
        session_id = find_session(held, session)
        window = query.read_event(session_id, seq, before=before, after=after)
        if as_json:
            print_json(window)
            return DONE
        classes: dict[int, EventClass] = {}
        try:
            page = query.list_events(session_id, start=window.start_seq, limit=len(window.events))
            classes = {record.seq: record.event_class for record in page.items}
        except SessionQueryError as error:
            # The events are sound and the answer is whole; only their classes are left out.
            complain(describe(error)[1])
    screen = Screen()
    for event in window.events:
        style = "bold" if event.seq == seq else ""
        parts: list[Part] = [(f"#{event.seq} {event.type}", style)]
        parts.append((f"  {shown_time(event.time)}  {classes.get(event.seq, '')}", "dim"))
        if event.source_event_seqs is not None:
            parts.append((f"  cites {len(event.source_event_seqs)}", "dim"))
        screen.line(*parts)
        screen.line(orjson.dumps(event.data, option=orjson.OPT_INDENT_2).decode(), indent=2)
    return DONE


@click.command(
    "surface",
    epilog=examples(
        "eventlog surface 3fd7",
        "eventlog surface 3fd7 --at 100",
        note="--json prints one document: a SurfaceSnapshot.",
    ),
)
@session_argument
@store_option
@click.option(
    "--at",
    metavar="LENGTH",
    type=whole(0),
    help="As it was when the log had so many events.",
)
@json_option
def read_surface(session: str, store: str | None, at: int | None, as_json: bool) -> int:
    """
    Print what the model sees: the surface, node by node.
    """
    with querying(store) as (query, held):
        session_id = find_session(held, session)
        surface = query.read_surface(session_id, at=at)
    if as_json:
        print_json(surface)
        return DONE if surface.events else NONE_FOUND
    screen = Screen()
    rows: list[tuple[Part, ...]] = []
    for event in surface.events:
        text = one_line(cut_characters(query.vocabulary.text(event), 400).text)
        rows.append(
            (
                (str(event.seq), "cyan"),
                clock(event.time),
                event.type,
                shown_size(len(event.payload)),
                text if screen.terminal else cut_characters(text, _TEXT_CHARACTERS_MAX).text,
            )
        )
    screen.table(
        ["SEQ", "TIME", "TYPE", "SIZE", "TEXT"],
        rows,
        right="SEQ SIZE",
        narrow=[("TYPE", 12), ("SIZE", 0), ("TIME", 0)],
    )
    if not rows:
        complain(f"the surface of {session_id} is empty")
    return DONE if rows else NONE_FOUND
