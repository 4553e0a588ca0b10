"""
``mcp``: the history server.
"""

from __future__ import annotations

import logging
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from threading import Lock

import click

from eventlog.errors import MissingExtra
from eventlog.store import EventStore

from .failures import DONE, UsageError
from .options import examples, opened, store_option

__all__ = ["register"]


def register(group: click.Group) -> None:
    group.add_command(mcp)


@click.command(
    epilog=examples(
        "eventlog mcp --scope all",
        "eventlog mcp --scope cwd:/home/me/project --import claude-code",
        "eventlog mcp --store lmdb:~/agent --scope session:3fd7a1",
        note="Started by the agent's host, which the README shows how to configure. Its log "
        "goes to standard error.",
    )
)
@store_option
@click.option(
    "--scope",
    required=True,
    metavar="SCOPE",
    help="What a client may see: session:ID, cwd:PATH or all.",
)
@click.option(
    "--import",
    "tool",
    metavar="TOOL",
    help="Serve this tool's transcripts, brought into the store before every answer.",
)
@click.option(
    "--path",
    "paths",
    metavar="PATH",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Where --import looks; without it, the tool's usual place.",
)
def mcp(store: str | None, scope: str, tool: str | None, paths: tuple[Path, ...]) -> int:
    """
    Serve the store to agents, over the Model Context Protocol.

    Read-only, and never wider than its scope: other sessions are answered like ones that
    do not exist.
    """
    from eventlog.query.server.scope import Scope

    seen = Scope.from_text(scope)
    if paths and tool is None:
        raise UsageError("--path goes with --import")
    try:
        from eventlog.query.server.serving import serve
    except ImportError as error:
        raise MissingExtra("mcp", 'pip install "agent-eventlog[mcp]"') from error
    from eventlog.query.server.tools import HistoryTools
    from eventlog.query.session_query import SessionQuery
    from eventlog.vocabulary import load_vocabulary

    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(name)s %(message)s")
    importer = None if tool is None else _Importer(tool, paths)
    query = SessionQuery(vocabulary=load_vocabulary())
    with ExitStack() as held:
        lock = Lock()
        stores: list[EventStore] = []

        def refresh() -> None:
            # Opened by the first call that can, so that a store which is away for a while
            # is an answer, and not the end of the server.
            with lock:
                if not stores:
                    stores.append(held.enter_context(opened(store, read_only=importer is None)))
                    query.mount(stores[0])
                if importer is not None:
                    importer.run(stores[0])

        serve(HistoryTools(query, seen, refresh=refresh))
    return DONE


class _Importer:
    """Brings a tool's transcripts into a store; what is refused is logged, once."""

    def __init__(self, tool: str, paths: tuple[Path, ...]) -> None:
        from eventlog.sources import load_sources

        sources = load_sources()
        if tool not in sources:
            raise UsageError(f"no tool {tool!r}; known are {', '.join(sources)}")
        self._source = sources[tool]
        self._paths = [path.expanduser() for path in paths]
        self._told: set[str] = set()

    def run(self, store: EventStore) -> None:
        from eventlog.importing import import_transcripts

        # Looked up anew: a tool may leave its first session while the server runs.
        usual = [place for place in self._source.usual_places(os.environ) if place.exists()]
        account = import_transcripts(store, self._source, self._paths or usual)
        for fault in (*account.refused, *account.faults):
            if str(fault) not in self._told:
                self._told.add(str(fault))
                logging.getLogger("eventlog.server").warning("%s", fault)
