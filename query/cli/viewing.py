"""
``view``, and the HTML form of ``export``: a session as a page.
"""

from __future__ import annotations

import os
import sys
import tempfile
from hashlib import blake2b
from pathlib import Path
from typing import Final

import click

from eventlog.model import Fault
from eventlog.query.session_query import SessionQuery

from .failures import DAMAGED, DONE, UsageError
from .options import examples, find_session, json_option, querying, session_argument, store_option
from .output import complain, complain_of_faults, print_json, short_path

__all__ = ["export_page", "register"]

PAGES_MAX: Final = 50
"""Pages kept in the cache folder; the oldest go first."""


def register(group: click.Group) -> None:
    group.add_command(view)


@click.command(
    epilog=examples(
        "eventlog view 3fd7",
        "eventlog view 3fd7 --lineage --output session.html --no-open",
        note="The page is one file that loads nothing; anyone can open it anywhere. Without "
        "--output it is written to your cache folder.",
    )
)
@session_argument
@store_option
@click.option("--lineage", is_flag=True, help="Also the sessions it came from and led to.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write the page.",
)
@click.option("--open/--no-open", "opens", default=True, help="Open it in the browser, or not.")
@json_option
def view(
    session: str,
    store: str | None,
    lineage: bool,
    output: Path | None,
    opens: bool,
    as_json: bool,
) -> int:
    """
    Write a session as a page, and open it.

    The page shows what the model saw at any moment, opens what compactions replaced, and
    searches.
    """
    if output is not None and output.exists() and not output.is_file():
        # It would be replaced, be it /dev/null.
        raise UsageError(f"--output: {output} is no file; export --format html prints a page")
    with querying(store) as (query, held):
        session_id = find_session(held, session)
        path = _page_path(held.location, session_id) if output is None else output.absolute()
        faults = _write(query, session_id, path, lineage=lineage)
    if as_json:
        print_json({"session_id": session_id, "path": str(path), "faults": list(faults)})
    else:
        # A shell expands no ~ in what it is given by another command.
        print(short_path(str(path)) if sys.stdout.isatty() else path)
    if opens:
        import webbrowser

        if not webbrowser.open(path.as_uri()):
            complain(f"no browser was found; the page is {path}")
    return DAMAGED if faults else DONE


def export_page(query: SessionQuery, session_id: str, *, lineage: bool) -> int:
    """Write a session's page to standard output; returns the exit code."""
    from eventlog.query.page import write_page

    if sys.stdout.isatty():
        raise UsageError("an HTML page is for a file: export … --format html > session.html")
    sys.stdout.flush()
    faults = write_page(query, session_id, sys.stdout.buffer, lineage=lineage)
    sys.stdout.buffer.flush()
    return DAMAGED if complain_of_faults(faults) else DONE


def _write(query: SessionQuery, session_id: str, path: Path, *, lineage: bool) -> tuple[Fault, ...]:
    """Write the page whole or not at all; a page that stood there is replaced."""
    from eventlog.query.page import write_page

    try:
        descriptor, name = tempfile.mkstemp(prefix=".page-", suffix=".html", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as out:
                faults = write_page(query, session_id, out, lineage=lineage)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        # The place that was asked for says more than the name of what was to become it.
        raise OSError(error.errno, error.strerror, str(path)) from error
    complain_of_faults(faults)
    return faults


def _page_path(location: str, session_id: str) -> Path:
    """Where the page of a session stands in the cache folder, which is made private."""
    from eventlog.query.search.location import cache_folder

    folder = cache_folder() / "pages"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    pages = sorted(folder.glob("*.html"), key=lambda page: page.stat().st_mtime, reverse=True)
    for old in pages[PAGES_MAX - 1 :]:
        old.unlink(missing_ok=True)
    key = blake2b(f"{location}\0{session_id}".encode(), digest_size=12).hexdigest()
    return folder / f"{key}.html"
