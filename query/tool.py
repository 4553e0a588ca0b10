"""
The model's own search: a tool through which an agent finds in its session what it no
longer sees.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from attrs import frozen

from eventlog.values import is_seq, shown

from .corpus_snapshot import CorpusSnapshot
from .cursors import Cursors
from .errors import Code, SessionQueryError, asked, check_id
from .filters import Cwd, Ids, SessionFilter, Types
from .reads import window
from .search.answers import SearchHit, SearchPage
from .search.engines import Engines
from .search.in_corpus import CorpusSearch, search_sessions
from .search.in_session import SessionSearch, search_events
from .search.provider import SearchProvider
from .session_query import SessionQuery
from .tool_arguments import BadArguments, ToolArguments, read_arguments
from .tool_bound import BeforeSeq, CallBound
from .tool_definition import NAME, Scope, ToolDefinition
from .tool_kinds import event_types, message_types
from .tool_text import (
    UNREAD,
    ToolText,
    capped,
    entry_text,
    failure,
    head_text,
    hits_fitting,
    hits_text,
)

__all__ = ["Scope", "SessionQueryTool", "ToolText", "session_query_tool"]

QUERY_IN_CURSOR_CHARS_MAX: Final = 200


def session_query_tool(
    query: SessionQuery,
    session_id: str,
    *,
    provider: SearchProvider | None = None,
    limit_max: int = 50,
    excerpt_bytes: int = 600,
    kinds: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    scope: Scope = "own",
    before_seq: BeforeSeq = None,
) -> SessionQueryTool | None:
    """
    Return the search tool of one session.

    Free text in, ranked matches out, what a compaction dropped included; an empty query
    lists the newest entries. The session and the scope are the host's and no argument of
    the model changes them.

    Args:
        query: What reads the sessions.

        session_id: The session that the tool belongs to.

        provider: The search engine; None is that of *query*.

        limit_max: The most matches that one call gives; more is taken for so many.

        excerpt_bytes: How long each excerpt may be.

        kinds: Kinds of entries that the model may choose from: ``"message"``,
            ``"user"``, ``"assistant"``, ``"tool"`` (results), ``"bookkeeping"`` (all else
            that has text, such as calls), event types, or a mapping from names to event
            types. None: it has no choice, and messages are searched.

        scope: ``"own"`` session, sessions of the same ``"cwd"``, or ``"all"``. In the
            wider ones each session is given by its best entry.

        before_seq: Nothing of the own session from this seq on is found. None: nothing
            from the step on that is open when the tool is called, so that it never finds
            its own call. A callable is asked at each call.

    Returns:
        The tool; None where the session is neither live nor stored and no *provider* is
        given.

    Raises:
        SessionQueryError: INVALID_CONFIG: an argument is something else.
    """
    if not isinstance(query, SessionQuery):
        raise _config(f"query must be a SessionQuery, not {type(query).__name__}")
    check_id(session_id)
    if provider is not None and not isinstance(provider, SearchProvider):
        raise _config(f"provider must be a SearchProvider, not {type(provider).__name__}")
    if not (before_seq is None or is_seq(before_seq) or callable(before_seq)):
        raise _config(f"before_seq is a seq, a callable or None, not {shown(before_seq)}")
    if scope not in get_args(Scope):
        raise _config(f"scope is 'own', 'cwd' or 'all', not {shown(scope)}")
    for name, value in (("limit_max", limit_max), ("excerpt_bytes", excerpt_bytes)):
        if type(value) is not int or value < 1:
            raise _config(f"{name} must be an int ≥ 1, not {shown(value)}")
    if provider is None:
        try:
            query.corpus.snapshot(session_id)
        except SessionQueryError as error:
            if error.code is Code.SESSION_NOT_FOUND:
                return None
            # It is there, but cannot be read now: each call will say so.
    return SessionQueryTool(
        query,
        session_id,
        engines=None if provider is None else Engines(query.vocabulary, provider),
        limit_max=limit_max,
        excerpt_bytes=excerpt_bytes,
        kinds=None if kinds is None else event_types(kinds, query.vocabulary) or None,
        scope=scope,
        before_seq=before_seq,
    )


@frozen
class _Found:
    """
    What a search found: hits, the first line, the cursor behind them, and whether anything
    could not be read.
    """

    hits: list[SearchHit]
    head: str
    following: str | None
    unread: bool


class SessionQueryTool(ToolDefinition):
    """A search tool, made by :func:`session_query_tool`."""

    def __init__(
        self,
        query: SessionQuery,
        session_id: str,
        *,
        engines: Engines | None,
        limit_max: int,
        excerpt_bytes: int,
        kinds: Mapping[str, tuple[str, ...]] | None,
        scope: Scope,
        before_seq: BeforeSeq,
    ) -> None:
        super().__init__(scope, limit_max, kinds)
        self._query = query
        self._session_id = session_id
        self._engines = engines
        self._excerpt_bytes = excerpt_bytes
        self._scope = scope
        self._bound = CallBound(session_id, before_seq)
        self._cursors = Cursors(NAME, session_id, scope)
        self._full_cursors = Cursors(f"{NAME} in full", session_id, scope)

    def call(self, arguments: str | Mapping[str, Any] | None = None) -> ToolText:
        """
        Run the tool.

        Args:
            arguments: The model's arguments, as it wrote them or as an object. None and
                blank text are none. Unknown ones are ignored, *limit* is held to its range.

        Returns:
            What the model is told, at most about 30 KB. Bad arguments and failures are
            told too, with *is_error* set; nothing is raised for them.
        """
        try:
            return self._answer(
                read_arguments(
                    arguments,
                    limit_default=self._default_limit,
                    limit_max=self._limit_max,
                    kinds=self._kinds,
                )
            )
        except BadArguments as error:
            return ToolText(capped(f"Bad arguments: {error}."), is_error=True)
        except SessionQueryError as error:
            if error.code is Code.SESSION_NOT_FOUND:
                return ToolText("Nothing to search: the session has no log.")
            return ToolText(failure(error), is_error=True)

    def _answer(self, arguments: ToolArguments) -> ToolText:
        text, kinds, cursor = arguments.query, arguments.kinds, None
        if arguments.cursor is not None:
            form, _, body = arguments.cursor.partition(":")
            if form == "full":
                return self._entry(body)
            if form != "more":
                raise SessionQueryError(Code.INVALID_CURSOR, "it has another form")
            held, names, cursor = self._cursors.decode(body, str, list, str)
            if not all(type(name) is str for name in names):
                raise SessionQueryError(Code.INVALID_CURSOR, "its kinds are no names")
            if held and text not in ("", held):
                raise BadArguments("this cursor belongs to another query")
            text, kinds = held or text, tuple(names)
        types, limit = self._types(kinds), arguments.limit
        shows_sessions = self._scope != "own"

        def full(hit: SearchHit) -> str:
            return self._full(hit.session_id, hit.seq, 0)

        while True:
            found = self._search(text, types, cursor, limit)
            more = None if found.following is None else self._more(text, kinds, found.following)
            limit = hits_fitting(found.hits, more=more, full=full, shows_sessions=shows_sessions)
            if limit >= len(found.hits):
                break
            # Too little room for all of them: the next page is to begin with the rest.
        return ToolText(
            hits_text(
                found.head,
                found.hits,
                more=more,
                full=full,
                shows_sessions=shows_sessions,
                shows_scores=bool(text.strip()),
                foot=UNREAD if found.unread else None,
            )
        )

    def _more(self, text: str, kinds: tuple[str, ...] | None, following: str) -> str:
        """The arguments that go on with a search."""
        # A cursor alone is enough, unless it were long: models drop the other arguments.
        is_short = len(text) <= QUERY_IN_CURSOR_CHARS_MAX
        body = self._cursors.encode(text if is_short else "", [*(kinds or ())], following)
        return _json({} if is_short else {"query": "the same as now"}, cursor=f"more:{body}")

    def _full(self, session_id: str, seq: int, start: int) -> str:
        """The arguments that read an entry from a character on."""
        return _json({}, cursor=f"full:{self._full_cursors.encode(session_id, seq, start)}")

    def _entry(self, cursor: str) -> ToolText:
        """Answer with one entry of an earlier answer, in full."""
        session_id, seq, start = self._full_cursors.decode(cursor, str, int, int)
        before = self._bound.seq(self._query.corpus) if session_id == self._session_id else None
        if start < 0 or (before is not None and seq >= before):
            raise SessionQueryError(Code.INVALID_CURSOR, "it is none of this scope")
        try:
            event = window(self._log(session_id), seq, 0, 0).target
        except SessionQueryError as error:
            if error.code not in (Code.SESSION_NOT_FOUND, Code.EVENT_NOT_FOUND):
                raise
            raise SessionQueryError(Code.STALE_CURSOR, "its entry is gone") from error
        text = asked(self._query.vocabulary.text, event)
        label = f"seq {seq}" if self._scope == "own" else f"session {session_id}, seq {seq}"
        return ToolText(
            entry_text(
                label, text, min(start, len(text)), lambda at: self._full(session_id, seq, at)
            )
        )

    def _log(self, session_id: str) -> CorpusSnapshot:
        """
        Return the log of a session in the scope. One that is missing, or cannot be read, is
        as little in it as a foreign one: cursors can be made up to find out which ids exist.
        """
        is_free = self._scope == "all" or session_id == self._session_id
        own_cwd = self._own_cwd() if self._scope == "cwd" and not is_free else None
        if is_free or own_cwd is not None:
            try:
                log = self._query.corpus.snapshot(session_id)
                if is_free or log.header.cwd == own_cwd:
                    return log
            except SessionQueryError:
                if is_free:
                    raise
        raise SessionQueryError(Code.INVALID_CURSOR, "it is none of this scope")

    def _own_cwd(self) -> str | None:
        return self._query.corpus.snapshot(self._session_id).header.cwd

    def _types(self, kinds: tuple[str, ...] | None) -> tuple[str, ...]:
        """The event types that are searched."""
        if kinds is None or kinds == () or self._kinds is None:
            return message_types(self._query.vocabulary)
        return tuple(name for kind in kinds for name in self._kinds.get(kind, ()))

    def _session_filters(self) -> tuple[SessionFilter, ...]:
        if self._scope == "all":
            return ()
        cwd = self._own_cwd()
        # Sessions without a folder have nothing in common.
        return (Ids((self._session_id,)),) if cwd is None else (Cwd((cwd,)),)

    def _search(self, text: str, types: tuple[str, ...], cursor: str | None, limit: int) -> _Found:
        query, before = self._query, self._bound.seq(self._query.corpus)
        engines = query.engines if self._engines is None else self._engines
        is_blank = not text.strip()
        page: SearchPage[Any]
        page_is_own = self._scope == "own" or is_blank
        if page_is_own:
            search = SessionSearch(
                self._session_id,
                text,
                (Types(types),),
                before_seq=before,
                excerpt_bytes=self._excerpt_bytes,
            )
            page = search_events(
                engines,
                query.corpus,
                query.vocabulary,
                search,
                limit=limit,
                cursor=cursor,
                cancel=None,
            )
            hits = [*page.items]
        else:
            across = CorpusSearch(
                text,
                self._session_filters(),
                (Types(types),),
                {} if before is None else {self._session_id: before},
                self._excerpt_bytes,
            )
            page = search_sessions(
                engines,
                query.corpus,
                query.vocabulary,
                across,
                limit=limit,
                cursor=cursor,
                cancel=None,
            )
            hits = [hit.best_match for hit in page.items]
        return _Found(
            hits,
            head_text(len(hits), page.searched, is_blank=is_blank),
            page.next_cursor,
            # What else cannot be read may be none of a narrower scope.
            bool(page.faults) and (self._scope == "all" or page_is_own),
        )


def _json(arguments: dict[str, str], **more: str) -> str:
    return json.dumps({**arguments, **more}, ensure_ascii=False)


def _config(reason: str) -> SessionQueryError:
    return SessionQueryError(Code.INVALID_CONFIG, reason)
