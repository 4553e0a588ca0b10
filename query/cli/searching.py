"""
``search``, and ``index``: finding what was said, and the index that finds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from eventlog.model import EventClass
from eventlog.query.filters import Classes, Cwd, EventFilter, Time, Types
from eventlog.query.search.answers import SearchHit, SearchPage
from eventlog.query.search.engines import store_index
from eventlog.query.search.index import IndexStatus, index_identity
from eventlog.query.search.location import index_path
from eventlog.query.search.provider import SearchMode, Sort
from eventlog.query.session_query import SessionQuery
from eventlog.query.text import cut_characters
from eventlog.store import EventStore
from eventlog.vocabulary import load_vocabulary

from .failures import DAMAGED, DONE, FAILED, NONE_FOUND, UsageError
from .options import (
    complete_session,
    examples,
    find_session,
    folders,
    json_option,
    opened,
    querying,
    store_option,
    whole,
)
from .output import (
    Part,
    Screen,
    complain,
    complain_of_faults,
    counted,
    print_json,
    short_path,
    shown_size,
)
from .times import instant, shown_time

__all__ = ["register"]

_LINE_CHARACTERS_MAX: Final = 400
_MARK: Final = "bold yellow"


def register(group: click.Group) -> None:
    group.add_command(search)
    group.add_command(index)


@click.command(
    "search",
    short_help="Search sessions, the best first.",
    epilog=examples(
        "eventlog search 'connection refused'",
        "eventlog search databse --since 7d --cwd .",
        "eventlog search retry --session 3fd7 --sort time --context 3",
        "eventlog search TODO --class shadowed --json | jq -r '.items[].best_match.excerpt'",
        note="--json prints a SearchPage: of SessionHits, with --session of SearchHits.",
    ),
)
@click.argument("query", metavar="QUERY")
@store_option
@click.option(
    "--session",
    metavar="SESSION",
    shell_complete=complete_session,
    help="Search one session, event by event.",
)
@click.option("--cwd", metavar="PATH", help="Only sessions of this working directory.")
@click.option("--since", metavar="WHEN", help="Only events since: a date, a time, 3h, 7d.")
@click.option("--until", metavar="WHEN", help="Only events until then.")
@click.option("--type", "types", metavar="TYPE", multiple=True, help="Only events of this type.")
@click.option(
    "--class",
    "classes",
    multiple=True,
    type=click.Choice([str(kind) for kind in EventClass]),
    help="Only events that stand so to the surface.",
)
@click.option(
    "--sort",
    type=click.Choice([str(sort) for sort in Sort]),
    default=str(Sort.RELEVANCE),
    help="With --session: best first, or the newest first.",
)
@click.option(
    "-C",
    "--context",
    metavar="N",
    type=whole(0, 50),
    default=0,
    help="So many lines before and behind the line that matches.",
)
@click.option(
    "-n",
    "--limit",
    metavar="N",
    type=whole(1),
    default=20,
    help="At most so many; 20 without it.",
)
@click.option("--cursor", metavar="CURSOR", help="Go on where the page before ended.")
@json_option
def search(
    query: str,
    store: str | None,
    session: str | None,
    cwd: str | None,
    since: str | None,
    until: str | None,
    types: Sequence[str],
    classes: Sequence[str],
    sort: str,
    context: int,
    limit: int,
    cursor: str | None,
    as_json: bool,
) -> int:
    """
    Search sessions for QUERY, the best first; each is shown by its best event.

    Case, accents and typos are forgiven, and nothing in QUERY is syntax. What compaction
    removed from an agent's view is found, too. The first search builds an index in your
    cache folder.
    """
    filters: list[EventFilter] = []
    if since is not None or until is not None:
        filters.append(Time(instant(since, "--since"), instant(until, "--until")))
    if types:
        filters.append(Types(types))
    if classes:
        filters.append(Classes(classes))
    if session is None and sort != Sort.RELEVANCE:
        raise UsageError("--sort time orders the events of one --session")
    page: SearchPage[Any]
    with querying(store) as (held, opened_store):
        if session is None:
            page = held.search_sessions(
                query,
                session_filters=[] if cwd is None else [Cwd(folders(cwd))],
                event_filters=filters,
                limit=limit,
                cursor=cursor,
            )
        else:
            if cwd is not None:
                raise UsageError("--cwd chooses sessions; --session names one")
            session_id = find_session(opened_store, session)
            page = held.search_events(
                session_id, query, filters=filters, limit=limit, cursor=cursor, sort=sort
            )
        if as_json:
            print_json(page)
        else:
            _show_page(held, page, context)
        held.engines.close()
    if not as_json and page.next_cursor is not None:
        complain(f"there are more: --cursor {page.next_cursor}")
    if page.mode is SearchMode.WINDOW:
        complain("a word is common: only its newest matches were ranked together")
    if not page.items:
        complain(_no_match(page, opened_store.location, narrowed=bool(cwd or types)))
    damaged = complain_of_faults(page.faults) > 0
    return DAMAGED if damaged else DONE if page.items else NONE_FOUND


def _no_match(page: SearchPage[Any], location: str, *, narrowed: bool) -> str:
    if page.searched:
        return f"no match; searched {counted(page.searched, 'entry', 'entries')}"
    if narrowed:
        return f"no match; nothing in {location} passes the filters"
    return f"no match; there is nothing to search in {location}"


def _show_page(query: SessionQuery, page: SearchPage[Any], context: int) -> None:
    screen = Screen()
    for item in page.items:
        hit: SearchHit = item if isinstance(item, SearchHit) else item.best_match
        if item is not hit:
            header = item.record.header
            facts = [shown_time(header.created_at)]
            if header.cwd is not None:
                facts.append(short_path(header.cwd))
            screen.cut_line((header.id, "cyan"), (f"  {' · '.join(facts)}", "dim"))
        _show_hit(screen, query, hit, context)


def _show_hit(screen: Screen, query: SessionQuery, hit: SearchHit, context: int) -> None:
    facts = [hit.type, shown_time(hit.time)]
    if hit.turn is not None:
        facts.append(f"turn {hit.turn}")
    if hit.event_class is EventClass.SHADOWED:
        facts.append("shadowed")
    if hit.inherited:
        facts.append("inherited")
    screen.line((f"  #{hit.seq}", "bold"), (f"  {'  '.join(facts)}", "dim"))
    event = query.read_event(hit.session_id, hit.seq).target
    text = query.vocabulary.text(event)
    marks = [(hit.excerpt_start + a, hit.excerpt_start + b) for a, b in hit.highlights]
    for start, line in _lines_around(text, marks[0][0] if marks else 0, context):
        screen.body(*_marked(line, start, marks))
    screen.line()


def _lines_around(text: str, place: int, context: int) -> list[tuple[int, str]]:
    """Return the line of *place* and those around it, each with where it begins."""
    first = text.rfind("\n", 0, place) + 1
    last = text.find("\n", place)
    last = len(text) if last < 0 else last
    for _ in range(context):
        first = text.rfind("\n", 0, max(first - 1, 0)) + 1
        behind = text.find("\n", last + 1)
        last = len(text) if behind < 0 else behind
    lines = []
    for line in text[first:last].split("\n"):
        start = first
        if len(line) > _LINE_CHARACTERS_MAX and first <= place < first + len(line):
            # A long line is shown from a little before the match on.
            start = max(first, place - _LINE_CHARACTERS_MAX // 4)
        lines.append((start, cut_characters(line[start - first :], _LINE_CHARACTERS_MAX).text))
        first += len(line) + 1
    return lines


def _marked(line: str, start: int, marks: Sequence[tuple[int, int]]) -> list[Part]:
    """Return *line*, which begins at *start* of its text, with its matched words marked."""
    parts: list[Part] = []
    place = 0
    for first, last in marks:
        begin, end = max(first - start, place), min(last - start, len(line))
        if begin < end:
            parts += [line[place:begin], (line[begin:end], _MARK)]
            place = end
    return [*parts, line[place:]]


@click.group(
    "index", short_help="Look at the search index, or build it anew.", no_args_is_help=False
)
def index() -> None:
    """
    Look at the search index of a store, or build it anew.

    The index is a file in your cache folder. It is derived from the store and may be
    deleted: the next search builds it.
    """


@index.command(
    "status",
    epilog=examples("eventlog index status", note="--json prints one document: an IndexStatus."),
)
@store_option
@json_option
def index_status(store: str | None, as_json: bool) -> int:
    """
    Tell where the index is and what it holds.

    It is not brought up to the store first; the next search does that.
    """
    with opened(store) as held:
        path = index_path(held, index_identity(load_vocabulary()))
        if path is None or not path.exists():
            complain(f"no index of {held.location} yet; the first search builds it")
            return NONE_FOUND
        return _report(held, as_json=as_json, anew=False)


@index.command(
    "rebuild",
    epilog=examples("eventlog index rebuild", note="--json prints one document: an IndexStatus."),
)
@store_option
@json_option
def index_rebuild(store: str | None, as_json: bool) -> int:
    """
    Build the index anew from the store.
    """
    with opened(store) as held:
        code = _report(held, as_json=as_json, anew=True)
        if code == DONE and not held.heads(limit=1).items:
            complain(f"no sessions in {held.location}")
            return NONE_FOUND
        return code


def _report(store: EventStore, *, as_json: bool, anew: bool) -> int:
    held = store_index(store, load_vocabulary())
    try:
        if anew and not held.rebuild(store):
            complain("another process is writing the index; try again later")
            return FAILED
        status = held.status()
    finally:
        held.close()
    if as_json:
        print_json(status)
    else:
        _show_status(status)
    return DAMAGED if complain_of_faults(status.faults) else DONE


def _show_status(status: IndexStatus) -> None:
    screen = Screen()
    for label, value in (
        ("index", "in memory" if status.path is None else short_path(status.path)),
        ("size", shown_size(status.size_bytes)),
        ("sessions", f"{status.sessions:,}"),
        ("entries", f"{status.documents:,}"),
        ("hidden", f"{status.hidden:,}"),
    ):
        screen.line((f"{label:<10}", "dim"), value)
