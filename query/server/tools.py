"""
The tools of the history server, as functions from arguments to text.

Three steps lead from an index to the full text: ``session_search`` names sessions,
``session_query`` entries of one, ``session_read`` gives an entry whole, in parts where it
is long. ``session_trace`` tells where a session or an entry came from and what became of
it. Every answer is capped in items and in bytes, says when it was cut, and how to go on.
Sessions outside the scope and sessions that do not exist are answered alike.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from eventlog.errors import EventLogError
from eventlog.model import Fault, SessionHeader

from ..errors import Code, SessionQueryError
from ..session_query import SessionQuery
from ..tool import session_query_tool
from .arguments import Arguments, BadArgument, Field, schema
from .rendering import (
    render_event_trace,
    render_lineage,
    render_sessions,
    render_window,
)
from .scope import Scope

__all__ = ["Answer", "HistoryTools", "ToolSpec"]

log = logging.getLogger("eventlog.server")

LIMIT_MAX: Final = 30
LIMIT: Final = Field("limit", int, "How many matches; 10 without it.", 10, 1, LIMIT_MAX)
QUERY: Final = Field("query", str, "Words to look for; empty lists the newest.", "")
CURSOR: Final = Field("cursor", str, "Goes on where an answer ended; give it back as it was.", None)
SESSION: Final = Field("session_id", str, "The session, as session_search names it.", None)
SEQ: Final = Field("seq", int, "The entry's seq, as an answer names it.", None, 0)


@frozen
class Answer:
    """
    What a tool answers.

    Attributes:
        text: For the model.

        is_error: Whether the call failed; the text says what to do.
    """

    text: str
    is_error: bool = False


@frozen
class ToolSpec:
    """
    One tool.

    Attributes:
        name: Its name.

        description: What it is for, for the model.

        fields: Its arguments.

        run: Answers a call.
    """

    name: str
    description: str
    fields: tuple[Field, ...]
    run: Callable[[Arguments], Answer]

    @property
    def input_schema(self) -> dict[str, Any]:
        """The arguments as a JSON Schema."""
        return schema(self.fields)


class HistoryTools:
    """
    The tools over what *scope* lets a client see. Read-only.

    Args:
        query: Where answers come from.

        scope: Which sessions a client may see.

        refresh: Called before every call, to bring the store up to date; None does nothing.
    """

    def __init__(
        self, query: SessionQuery, scope: Scope, *, refresh: Callable[[], object] | None = None
    ) -> None:
        self._query = query
        self._scope = scope
        self._refresh = refresh
        session = () if scope.session_id is not None else (SESSION,)
        self.specs: tuple[ToolSpec, ...] = (
            ToolSpec(
                "session_search",
                "Search past agent sessions. Names the sessions that match, each with its "
                "best entry; an empty query lists the newest. Forgives typos, case and "
                "accents. Go on with session_query in one of them.",
                (QUERY, LIMIT, CURSOR),
                self._search,
            ),
            ToolSpec(
                "session_query",
                "Search the entries of one session, also those that compaction dropped from "
                "the context. An empty query lists the newest. Go on with session_read.",
                (*session, QUERY, LIMIT, CURSOR),
                self._query_session,
            ),
            ToolSpec(
                "session_read",
                "Read one entry of a session whole, with its neighbours. A long entry comes "
                "in parts: go on with offset.",
                (
                    *session,
                    SEQ,
                    Field("before", int, "Entries before it, at most 20.", 0, 0, 20),
                    Field("after", int, "Entries behind it, at most 20.", 0, 0, 20),
                    Field("offset", int, "Begin at this character of the entry's text.", 0, 0),
                ),
                self._read,
            ),
            ToolSpec(
                "session_trace",
                "Tell where a session came from and what came of it; with seq, what replaced "
                "an entry, what it replaced, and what it cites.",
                (*session, Field("seq", int, "An entry; without it, the session.", None, 0)),
                self._trace,
            ),
        )
        self._by_name = {spec.name: spec for spec in self.specs}

    def call(self, name: str, arguments: Mapping[str, Any] | None) -> Answer:
        """
        Answer one call.

        Unknown arguments are ignored, and numbers beyond their bounds are clamped.

        Returns:
            The answer. A failure is an answer too: what the model can mend is said; what
            it cannot is told in the log ``eventlog.server``, and only its kind here.
        """
        spec = self._by_name.get(name)
        if spec is None:
            return Answer(f"there is no tool {name!r:.60}", is_error=True)
        try:
            given = Arguments.read(spec.fields, arguments)
            if self._refresh is not None:
                self._refresh()
            return spec.run(given)
        except BadArgument as error:
            return Answer(str(error), is_error=True)
        except SessionQueryError as error:
            return Answer(_told(error), is_error=True)
        except (EventLogError, OSError):
            log.exception("the call of %s failed", name)
            return Answer(UNREADABLE, is_error=True)
        except Exception:
            log.exception("the call of %s failed unexpectedly", name)
            return Answer("the call failed; the server's log says why", is_error=True)

    def _search(self, given: Arguments) -> Answer:
        query, limit, cursor = given["query"], given["limit"], given["cursor"]
        if query.strip():
            found = self._query.search_sessions(
                query, session_filters=self._scope.filters(), limit=limit, cursor=cursor
            )
            hits = [(hit.record, hit.best_match) for hit in found.items]
            return Answer(
                render_sessions(
                    hits, found.next_cursor, found.searched, self._told_faults(found.faults)
                )
            )
        listed = self._query.list_sessions(
            filters=self._scope.filters(), limit=limit, cursor=cursor, on_conflict="fault"
        )
        records = [(record, None) for record in listed.items]
        return Answer(
            render_sessions(records, listed.next_cursor, None, self._told_faults(listed.faults))
        )

    def _told_faults(self, faults: Sequence[Fault]) -> int:
        """How many faults a client is told of: whose they are shows in no narrower scope."""
        for fault in faults:
            log.warning("%s: %s", fault.kind, fault.detail)
        return len(faults) if self._scope.kind == "all" else 0

    def _query_session(self, given: Arguments) -> Answer:
        session_id = self._session(given)
        # The client is somebody else than the session's agent: its open step counts too.
        length = self._query.corpus.snapshot(session_id).length
        tool = session_query_tool(self._query, session_id, limit_max=LIMIT_MAX, before_seq=length)
        if tool is None:
            raise _unknown(session_id)
        told = tool.call({name: given[name] for name in ("query", "limit", "cursor")})
        return Answer(told.text, is_error=told.is_error)

    def _read(self, given: Arguments) -> Answer:
        session_id = self._session(given)
        if given["seq"] is None:
            raise BadArgument("seq is missing: give the seq of an entry, as an answer names it")
        window = self._query.read_event(
            session_id, given["seq"], before=given["before"], after=given["after"]
        )
        self._check(window.header)
        return Answer(render_window(self._query, window, offset=given["offset"]))

    def _trace(self, given: Arguments) -> Answer:
        session_id = self._session(given)
        if given["seq"] is None:
            trace = self._query.trace_session(session_id)
            self._check(trace.target.header)
            return Answer(render_lineage(trace, self._scope.allows))
        found = self._query.trace_event(session_id, given["seq"])
        self._check(found.header)
        return Answer(render_event_trace(found))

    def _session(self, given: Arguments) -> str:
        """Return the session that is meant, once it is known to be in scope."""
        session_id: str | None = self._scope.session_id or given.get("session_id")
        if session_id is None:
            raise BadArgument("session_id is missing: session_search names sessions")
        # Looked up before anything else is read, so that nothing tells the two cases apart.
        try:
            header = self._query.corpus.snapshot(session_id).header
        except SessionQueryError as error:
            if error.code in (Code.SESSION_NOT_FOUND, Code.INVALID_CONFIG):
                raise _unknown(session_id) from None
            if self._scope.session_id is None:
                # Whether a damaged session is in scope cannot be told.
                log.warning("session %r cannot be read: %s", session_id, error)
                raise _unknown(session_id) from None
            raise
        if not self._scope.allows(header):
            raise _unknown(session_id)
        return session_id

    def _check(self, header: SessionHeader) -> None:
        """Refuse data whose own header is out of scope, whatever an earlier look said."""
        if not self._scope.allows(header):
            raise _unknown(header.id)


def _unknown(session_id: str) -> BadArgument:
    return BadArgument(f"there is no session {session_id!r:.300} here; session_search names them")


UNREADABLE: Final = "the history cannot be read at the moment; try again later"

_TOLD: Final = {
    Code.EVENT_NOT_FOUND: "the session has no such entry",
    Code.INVALID_QUERY: "the query is not one: give words to look for, at most 2,000 characters",
    Code.INVALID_CURSOR: "the cursor is not one; search again without it",
    Code.STALE_CURSOR: "the cursor is too old; search again without it",
    Code.CORRUPT_SESSION: "this part of the session's log is damaged",
    Code.INVALID_SURFACE: "the session's log cannot be traced; it can be searched and read",
    Code.INVALID_LINEAGE: "the session's lineage is circular",
    Code.SEARCH_DISABLED: "search is not available; session_read and session_trace are",
}


def _told(error: SessionQueryError) -> str:
    """What the model is told of an error: its kind, and nothing from inside."""
    log.warning("a call failed: %s", error, exc_info=error)
    return _TOLD.get(error.code, UNREADABLE)
