"""
Options and arguments that commands share, and the stores they lead to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import CompletionItem

from eventlog.model import HeadKey
from eventlog.opening import open_store
from eventlog.query.session_query import SessionQuery
from eventlog.store import EventStore
from eventlog.vocabulary import load_vocabulary

from .failures import NothingFound, UsageError
from .output import complain

if TYPE_CHECKING:
    _IntType = click.ParamType[int]
else:  # older releases of click have no such thing
    _IntType = click.ParamType

__all__ = [
    "complete_session",
    "default_store",
    "examples",
    "find_session",
    "folders",
    "json_option",
    "opened",
    "querying",
    "session_argument",
    "store_option",
    "whole",
]


def default_store() -> str:
    """Return the URL of the store in the user's data folder. Nothing is created."""
    import platformdirs

    folder = platformdirs.user_data_path("eventlog", appauthor=False)
    return f"lmdb:{folder / 'store'}"


def complete_session(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """
    Offer the newest sessions that begin with what was typed; nothing where it fails.

    An id in which a shell would see more than a word is not offered: bash puts it into the
    command as it is, and would run what stands in it.
    """
    try:
        with opened(ctx.params.get("store")) as store:
            page = store.heads(limit=_COMPLETED_MAX)
    except Exception:
        return []  # a shell that is completing has no place for an error
    ids = [head.header.id for head in page.items]
    return [CompletionItem(one) for one in ids if one.startswith(incomplete) and _WORD.match(one)]


_COMPLETED_MAX: Final = 1_000
_WORD: Final = re.compile(r"\w[\w.:@%+,/=-]*\Z")

store_option = click.option(
    "--store",
    envvar="EVENTLOG_STORE",
    show_envvar=True,
    metavar="URL",
    help="The store: lmdb:PATH, jsonl:PATH or postgresql://… Without it, the one in your "
    "data folder.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON with the fields of the Python records."
)
session_argument = click.argument("session", metavar="SESSION", shell_complete=complete_session)


class _Whole(_IntType):
    """A whole number within bounds, inclusive."""

    name = "whole number"

    def __init__(self, least: int, most: int | None) -> None:
        self.least = least
        self.most = most

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        if isinstance(value, int):
            return value
        bounds = f"{self.least} or more" if self.most is None else f"{self.least} to {self.most}"
        # int() takes signs, spaces, underscores and thousands of digits.
        given = str(value)
        if not (given.isdecimal() and given.isascii() and len(given) < 20):
            self.fail(f"must be a whole number, {bounds}, not {given!r:.60}", param, ctx)
        number = int(given)
        if number < self.least or (self.most is not None and number > self.most):
            self.fail(f"must be a whole number, {bounds}, not {number}", param, ctx)
        return number


def whole(least: int, most: int | None = None) -> click.ParamType[int]:
    """Return the type of an argument that is a whole number, both bounds inclusive."""
    return _Whole(least, most)


def examples(*lines: str, note: str = "") -> str:
    """Return the end of a help text: *lines* as they are to be typed, then *note*."""
    # \b keeps the paragraph from being filled.
    text = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
    return f"{text}\n\n{note}" if note else text


def folders(given: str) -> list[str]:
    """Return what sessions may have recorded of a folder: its path, and as it was given."""
    return [str(Path(given).expanduser().absolute().resolve()), given]


@contextmanager
def querying(url: str | None) -> Iterator[tuple[SessionQuery, EventStore]]:
    """Hold the store at *url* open for queries, with the vocabularies that are installed."""
    with opened(url) as store:
        yield SessionQuery(store=store, vocabulary=load_vocabulary()), store


@contextmanager
def opened(url: str | None, *, read_only: bool = True) -> Iterator[EventStore]:
    """Hold the store at *url* open; None is the default store."""
    store = open_store(url or default_store(), read_only=read_only)
    with store:
        yield store


def find_session(store: EventStore, given: str) -> str:
    """
    Return the id that *given* is, or is the front of where no other session begins with it.

    A front is said on standard error, so that nobody takes it for an exact match.

    Cost: 1 record for an id; all heads for the front of one.

    Raises:
        NothingFound: No session is called so.

        UsageError: Several ids begin with *given*, and none is it.
    """
    if not given:
        raise UsageError("SESSION is empty")
    # What no id can be can still be the front of none; ask for neither.
    if _could_be_id(given) and store.head(given) is not None:
        return given
    # A narrow terminal shows the front of an id so.
    given = given.removesuffix("…") or given
    found: list[str] = []
    key: HeadKey | None = None
    while len(found) <= SHOWN_MAX:
        page = store.heads(after=key, limit=1_000)
        found += [h.header.id for h in page.items if h.header.id.startswith(given)]
        key = page.next_key
        if key is None:
            break
    if not found:
        raise NothingFound(f"no session {given!r} in {store.location}")
    if len(found) > 1:
        shown = ", ".join(found[:SHOWN_MAX]) + (", …" if len(found) > SHOWN_MAX else "")
        raise UsageError(f"several sessions begin with {given!r}: {shown}")
    complain(f"{given!r} is the front of session {found[0]}")
    return found[0]


SHOWN_MAX: Final = 5


def _could_be_id(given: str) -> bool:
    from eventlog.errors import ValueRejected
    from eventlog.values import check_session_id

    try:
        check_session_id(given)
    except ValueRejected:
        return False
    return True
