"""Search on the base install: without rapidfuzz, and with the standard library's SQLite."""

from __future__ import annotations

from textwrap import dedent

from support.processes import output, script

# Whatever is installed here, these two cannot be imported.
BASE_INSTALL = """
import sys
sys.modules["rapidfuzz"] = None
sys.modules["apsw"] = None
"""


def test_the_base_install_searches_one_session() -> None:
    """One session and the model's tool are searched, typos included."""
    program = """
    from eventlog import APPEND, Event, SessionHeader, open_store
    from eventlog.query import SessionQuery
    from eventlog.query.tool import session_query_tool

    def said(seq, text):
        data = {"id": f"m{seq}", "role": "user", "content": [{"type": "text", "text": text}]}
        return Event(seq, seq, "user/message", data, surface_op=APPEND)

    store = open_store("memory:")
    store.append(SessionHeader("s1", 1), [said(0, "the database"), said(1, "other")])
    query = SessionQuery(store=store)
    print([hit.seq for hit in query.search_events("s1", "databsae").items])
    print(query.search_events("s1", "other").mode)
    print(session_query_tool(query, "s1").call({"query": "databsae"}).splitlines()[0])
    """

    assert "[0]\nindex\n1 match (searched 2 entries):\n" == output(
        script(BASE_INSTALL + dedent(program))
    )


def test_many_sessions_need_the_extra_and_say_so() -> None:
    """Without the extra a search over sessions is refused with what to install."""
    program = """
    from eventlog import open_store
    from eventlog.query import SessionQuery, SessionQueryError

    query = SessionQuery(store=open_store("memory:"))
    try:
        query.search_sessions("x")
    except SessionQueryError as error:
        cause = error.__cause__
        print(error.code, type(cause).__name__, cause.extra, cause.install)
    """

    assert (
        'SESSION_QUERY_INVALID_CONFIG MissingExtra search pip install "agent-eventlog[search]"\n'
    ) == output(script(BASE_INSTALL + dedent(program)))
