"""
The history server's tools: three steps to the full text, caps, and the scope.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog import EventStore, LiveSessions, open_store
from eventlog.errors import InvalidArgument, StoreUnavailable
from eventlog.model import HeadKey, HeadPage, SessionHead
from eventlog.query import SessionQuery
from eventlog.query.server import Answer, HistoryTools, Scope
from support import log_only, make_header, message, messages, replacement

CAP_BYTES = 30_000
SECRET = "xylophone"


def history() -> EventStore:
    """Two sessions in /work, of which one came from the other, and a foreign one."""
    store = open_store("memory:")
    store.append(
        make_header("ours", cwd="/work", created_at=1_000),
        [
            message(0, "the server listens on port 8443"),
            message(1, "its logs are in /var/log"),
            replacement(2, 0, 1, [0, 1]),
            log_only(3),
            message(4, "long " * 20_000),
        ],
    )
    store.append(
        make_header("child", cwd="/work", created_at=2_000, parent_session="ours"),
        [message(0, "a child speaks of port 22")],
    )
    store.append(
        make_header("foreign", cwd="/secret", created_at=3_000, parent_session="ours"),
        [message(0, f"the port of the {SECRET}")],
    )
    store.append(
        make_header("grandchild", cwd="/work", created_at=4_000, parent_session="foreign"),
        messages(1),
    )
    return store


@pytest.fixture
def tools() -> Callable[[str], HistoryTools]:
    query = SessionQuery(store=history())
    return lambda scope: HistoryTools(query, Scope.from_text(scope))


Tools = Callable[[str], HistoryTools]


def text(answer: Answer) -> str:
    assert not answer.is_error, answer.text
    return answer.text


@pytest.mark.parametrize("bad", ["", "session:", "cwd:", "all:x", "everything", "session:a\nb"])
def test_a_scope_is_one_of_three(bad: str) -> None:
    """
    Anything else is refused at the start.
    """
    with pytest.raises(InvalidArgument):
        Scope.from_text(bad)


def test_a_scope_may_begin_with_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    No shell expands ``~`` in the settings of a host; the scope matched no session.
    """
    monkeypatch.setenv("HOME", "/home/me")

    assert Scope("cwd", "/home/me/w") == Scope.from_text("cwd:~/w")
    assert Scope("session", "~") == Scope.from_text("session:~")


def test_three_steps_lead_to_the_full_text(tools: Tools) -> None:
    """
    A model finds the session, the entry, and reads what compaction dropped.
    """
    server = tools("cwd:/work")
    found = text(server.call("session_search", {"query": "port 8443"}))
    entries = text(server.call("session_query", {"session_id": "ours", "query": "port 8443"}))
    read = text(server.call("session_read", {"session_id": "ours", "seq": 0, "after": 1}))
    trace = text(server.call("session_trace", {"session_id": "ours", "seq": 0}))

    assert "ours" in found
    assert "[seq 0, user]" in found
    assert "seq 0" in entries
    assert "the server listens on port 8443" in read
    assert "its logs are in /var/log" in read
    assert "replaced by: 2" in trace
    assert "shadowed" in trace


def test_an_empty_search_lists_the_newest(tools: Tools) -> None:
    """
    Without words a model browses, page after page, each session once.
    """
    server = tools("all")
    seen: list[str] = []
    arguments: dict[str, Any] = {"limit": 1}
    for _ in range(9):
        told = text(server.call("session_search", arguments))
        seen += [name for name in ("ours", "child", "foreign", "grand") if f"\n{name}" in told]
        if "more: cursor=" not in told:
            break
        arguments["cursor"] = told.rpartition("more: cursor=")[2]

    assert ["grand", "foreign", "child", "ours"] == seen


def test_a_long_entry_is_read_in_parts(tools: Tools) -> None:
    """
    Each part is within the cap, says that it is one, and the parts make the whole.
    """
    server = tools("session:ours")
    parts: list[str] = []
    offset = 0
    while True:
        told = text(server.call("session_read", {"seq": 4, "offset": offset}))
        assert len(told.encode()) <= CAP_BYTES
        body = told.split("\n")[2]
        parts.append(body)
        offset += len(body)
        assert "truncated: characters" in told
        if f"offset={offset}" not in told:
            break

    assert ("long " * 20_000).strip() == "".join(parts)
    assert len(parts) > 3


def test_foreign_and_missing_sessions_answer_alike(tools: Tools) -> None:
    """
    Nothing tells a session out of scope from one that does not exist.
    """
    server = tools("cwd:/work")
    for name, more in (
        ("session_query", {"query": "port"}),
        ("session_read", {"seq": 0}),
        ("session_read", {"seq": 10**9}),
        ("session_trace", {}),
        ("session_trace", {"seq": 0}),
    ):
        foreign = server.call(name, {"session_id": "foreign", **more})
        missing = server.call(name, {"session_id": "missing", **more})

        assert foreign.is_error
        assert missing.text == foreign.text.replace("foreign", "missing")


def test_a_session_scope_takes_no_session(tools: Tools) -> None:
    """
    With one session in scope there is nothing to choose, and what is given is ignored.
    """
    server = tools("session:child")
    schemas = [spec.input_schema for spec in server.specs]

    assert not any("session_id" in schema["properties"] for schema in schemas)
    assert "a child speaks" in text(server.call("session_read", {"session_id": "ours", "seq": 0}))
    assert "ours" not in text(server.call("session_trace", {}))


def test_a_lineage_stops_at_the_scope(tools: Tools) -> None:
    """
    What lies behind a foreign session is hidden with it, and no id of it is told.
    """
    whole = text(tools("all").call("session_trace", {"session_id": "ours"}))
    scoped = text(tools("cwd:/work").call("session_trace", {"session_id": "ours"}))
    below = text(tools("cwd:/work").call("session_trace", {"session_id": "grandchild"}))

    assert "foreign" in whole
    assert "grandchild" in whole
    assert "foreign" not in scoped
    assert "grandchild" not in scoped
    assert "not available here" in scoped
    assert "foreign" not in below
    assert "ours" not in below
    assert "further ancestors are not available here" in below


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("session_read", {"session_id": "ours"}),
        ("session_read", {"session_id": "ours", "seq": "first"}),
        ("session_read", {"session_id": "ours", "seq": True}),
        ("session_read", {"session_id": "ours", "seq": 99}),
        ("session_read", {"seq": 0}),
        ("session_read", {"session_id": 7, "seq": 0}),
        ("session_search", {"query": ["port"]}),
        ("session_search", {"query": "port", "cursor": "x"}),
        ("session_search", {"query": "a" * 5_000}),
        ("session_query", {"session_id": "ours", "query": 3}),
        ("session_trace", {"session_id": "ours", "seq": 99}),
        ("other", {}),
    ],
)
def test_bad_arguments_are_told(tools: Tools, name: str, arguments: dict[str, Any]) -> None:
    """
    What the model can mend is said in words, as an error.
    """
    answer = tools("all").call(name, arguments)

    assert answer.is_error
    assert answer.text
    assert "Traceback" not in answer.text


def test_numbers_beyond_bounds_are_clamped(tools: Tools) -> None:
    """
    A model that asks for a million gets what is given at most; text and floats are numbers.
    """
    server = tools("all")
    for limit in (10**6, -1, "50", 3.0, None):
        assert "sessions match" in text(
            server.call("session_search", {"query": "port", "limit": limit})
        )
    told = text(
        server.call("session_read", {"session_id": "ours", "seq": 0, "before": 10**6, "after": 99})
    )

    assert "[seq 3," in told


class BrokenStore(EventStore):
    """A store whose medium is gone: everything fails, with a path in the error."""

    capabilities = open_store("memory:").capabilities

    def __init__(self) -> None:
        super().__init__("/private/place")

    def _fail(self) -> Any:
        raise StoreUnavailable("/private/place/data.mdb", "Input/output error")

    def _head(self, session_id: str) -> SessionHead | None:
        return self._fail()  # type: ignore[no-any-return]

    def _heads(self, after: HeadKey | None, limit: int) -> HeadPage:
        return self._fail()  # type: ignore[no-any-return]

    def _read_events(self, head: SessionHead, start: int, stop: int) -> Any:
        self._fail()

    def _writing(self, session_id: str) -> Any:
        self._fail()

    def _delete(self, session_id: str, forget: bool) -> Any:
        self._fail()


@pytest.mark.parametrize("scope", ["all", "cwd:/work", "session:ours"])
def test_a_broken_store_is_no_news_to_the_model(
    scope: str, caplog: pytest.LogCaptureFixture
) -> None:
    """
    The model is told that it failed, the log is told why, and no path reaches the model.
    """
    server = HistoryTools(SessionQuery(store=BrokenStore()), Scope.from_text(scope))
    for name, arguments in (
        ("session_search", {"query": "port"}),
        ("session_search", {}),
        ("session_query", {"session_id": "ours", "query": "port"}),
        ("session_read", {"session_id": "ours", "seq": 0}),
        ("session_trace", {"session_id": "ours"}),
    ):
        answer = server.call(name, arguments)

        assert answer.is_error
        assert "/private" not in answer.text

    assert "/private/place" in caplog.text


def test_what_the_host_pins_is_refreshed_before_each_call() -> None:
    """
    The store is brought up to date before an answer, and a failure to is an answer.
    """
    live = LiveSessions()
    session = live.create("growing")
    server = HistoryTools(
        SessionQuery(live),
        Scope.from_text("all"),
        refresh=lambda: session.append("x/note", {"n": session.length}),
    )

    assert "1 entries" in text(server.call("session_trace", {"session_id": "growing"}))
    assert "2 entries" in text(server.call("session_trace", {"session_id": "growing"}))


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
likely = st.sampled_from(
    ["ours", "child", "foreign", "missing", "port", SECRET, "", "grandchild", 0, 4, 99, -1, 10**9]
)
NAMES = ["session_search", "session_query", "session_read", "session_trace"]


@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(NAMES),
    arguments=st.dictionaries(
        st.sampled_from(
            ["session_id", "query", "seq", "limit", "cursor", "before", "after", "offset", "scope"]
        ),
        likely | anything,
    ),
    scope=st.sampled_from(["cwd:/work", "session:ours", "session:child", "cwd:/none"]),
)
def test_no_arguments_reach_beyond_scope_or_cap(
    name: str, arguments: dict[str, Any], scope: str
) -> None:
    """
    Whatever a model sends: no word of a foreign session, no answer over the cap, no error
    but an answer.
    """
    answer = HistoryTools(SHARED, Scope.from_text(scope)).call(name, arguments)
    asked = str(arguments)

    assert len(answer.text.encode()) <= CAP_BYTES
    assert SECRET in asked or SECRET not in answer.text
    assert "foreign" in asked or "foreign" not in answer.text
    assert "/secret" not in answer.text


SHARED = SessionQuery(store=history())
