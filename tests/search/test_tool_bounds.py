"""What no cursor leads to, where the running call begins, and what a failure says to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eventlog import EventStore, open_store
from eventlog.query import ScanProvider, SessionQuery
from eventlog.query.cursors import Cursors
from eventlog.query.tool import SessionQueryTool, ToolText, session_query_tool
from eventlog.vocabulary import DEFAULT_VOCABULARY, EventType
from support import make_header
from support.jsonl import plant
from support.query import event, said
from support.searching import filled

NONE_OF_OURS = "This cursor is not one that this tool gave"
NO_LONGER = "This cursor is no longer valid."


def made(query: SessionQuery, session_id: str = "s1", **options: Any) -> SessionQueryTool:
    """The tool of a session."""
    tool = session_query_tool(query, session_id, **options)
    assert tool is not None
    return tool


def forged(tool: SessionQueryTool, scope: str, *position: Any, form: str = "full") -> ToolText:
    """What the tool answers to a cursor that was made up by who knows how they are made."""
    call = "session_query in full" if form == "full" else "session_query"
    return tool.call({"cursor": f"{form}:{Cursors(call, 's1', scope).encode(*position)}"})


@pytest.fixture
def near(memory: EventStore) -> EventStore:
    """A session, one beside it, and one of another folder."""
    filled(memory, ["needle mine"], "s1", cwd="/a")
    filled(memory, ["needle near"], "near", cwd="/a")
    filled(memory, ["needle secret"], "foreign", cwd="/b")
    return memory


@pytest.mark.parametrize("scope", ["own", "cwd"])
def test_i8_forged_cursors_find_out_no_ids(
    near: EventStore, query: SessionQuery, scope: str
) -> None:
    """
    I8: a session that is missing was "nothing to search", and a foreign one "not one that this
    tool gave": whoever makes up cursors learned which ids exist.
    """
    tool = made(query, scope=scope)
    answers = {forged(tool, scope, name, 0, 0) for name in ("foreign", "nope", "", "a\nb")}

    (answer,) = answers
    assert answer.startswith(NONE_OF_OURS)
    assert answer.is_error
    served = forged(tool, scope, "near", 0, 0)
    assert ("needle near" in served) == (scope == "cwd")


def test_i8_unreadable_session_is_as_foreign_as_any(tmp_path: Path) -> None:
    """
    I8: the cursor of a session whose header cannot be read told that its log is damaged,
    which nobody knows to be in the scope.
    """
    plant(tmp_path, b'{"type":"session","version":0,\n', "hurt")
    with open_store(f"jsonl:{tmp_path}") as store:
        filled(store, ["needle mine"], "s1", cwd="/a")
        answer = forged(made(SessionQuery(store=store), scope="cwd"), "cwd", "hurt", 0, 0)

    assert answer.startswith(NONE_OF_OURS)


@pytest.mark.parametrize("names", [[["x"]], [{}], [5], [None]])
def test_forged_kinds_are_no_kinds(near: EventStore, query: SessionQuery, names: list[Any]) -> None:
    """
    A cursor with a list for a kind raised a TypeError into the harness.
    """
    answer = forged(made(query, kinds=["message"]), "own", "needle", names, "x", form="more")

    assert answer.startswith(NONE_OF_OURS)


@pytest.mark.parametrize(
    ("seq", "start", "said"),
    [(99, 0, NO_LONGER), (-1, 0, NO_LONGER), (2**60, 0, NO_LONGER), (0, -5, NONE_OF_OURS)],
)
def test_forged_places_say_what_to_do(
    near: EventStore, query: SessionQuery, seq: int, start: int, said: str
) -> None:
    """
    An event that is not there was "Search failed." and no more; a place before the text was
    the end of it.
    """
    answer = forged(made(query), "own", "s1", seq, start)

    assert answer.startswith(said)
    assert answer.endswith("Search again without it.")
    assert answer.is_error


def test_cursor_of_a_session_that_is_gone(near: EventStore, query: SessionQuery) -> None:
    """
    Reading on in a session that was deleted was "the session has no log", as if it were the
    tool's own.
    """
    tool = made(query, scope="all")
    near.delete("foreign")

    assert forged(tool, "all", "foreign", 0, 0).startswith(NO_LONGER)


def test_sessions_are_searched_though_the_own_one_is_missing(
    near: EventStore, query: SessionQuery
) -> None:
    """
    A tool over all sessions whose own one was deleted had "nothing to search" in any of them.
    """
    tool = made(query, scope="all")
    near.delete("s1")

    answer = tool.call({"query": "needle"})
    assert answer.startswith("2 matches (searched 2 entries):")
    assert "Nothing to search: the session has no log." == tool.call({})


@pytest.mark.parametrize("before", [-1, True, 2.5, "5", [], 2**80], ids=repr)
def test_host_that_gives_no_seq(near: EventStore, query: SessionQuery, before: Any) -> None:
    """
    A callable that gave True hid all but the first entry; one that gave a text raised.
    """
    answer = made(query, before_seq=lambda: before).call({"query": "needle"})

    assert answer.is_error
    assert answer.startswith("Search failed, and will fail again.")


def test_vocabulary_that_fails_is_told(memory: EventStore) -> None:
    """
    A vocabulary that raised on what an entry holds raised into the harness.
    """

    def text(data: dict[str, Any]) -> list[Any]:
        return [data["missing"]]

    vocabulary = DEFAULT_VOCABULARY.with_types({"x/bare": EventType(text=text)})
    memory.append(make_header("s1"), [event(0, "x/bare", {})])
    tool = made(SessionQuery(store=memory, vocabulary=vocabulary))

    assert forged(tool, "own", "s1", 0, 0).is_error


@pytest.mark.parametrize("types", [(), ("turn/start", "step/start")], ids=["bare", "open-step"])
def test_running_call_is_found_at_the_end_of_the_log(
    memory: EventStore, query: SessionQuery, types: tuple[str, ...]
) -> None:
    """
    In a log without turns, or a step of thousands of events, each call looked for the open
    step through all of it; now through what came since the call before.
    """
    begun = [event(seq, name, {"turn": 1, "step": 1}) for seq, name in enumerate(types)]
    later = [event(seq, "x/note") for seq in range(len(types), 5_000)]
    memory.append(make_header("s1"), [*begun, *later, said(5_000, "user", "needle")])
    tool = made(query)
    first = tool.call({"query": "needle"})

    memory.append(make_header("s1"), [said(5_001, "user", "needle again")])
    tool.call({"query": "needle"})
    memory.meter.reset()
    answer = tool.call({"query": "needle"})

    assert memory.meter.records < 300
    assert ("needle again" in answer) == ("needle" in first) == (types == ())
    memory.append(make_header("s1"), [event(5_002, "step/end", {"turn": 1, "step": 1})])
    assert "needle again" in tool.call({"query": "needle"})


def test_running_call_of_another_log_of_the_same_id(
    memory: EventStore, query: SessionQuery
) -> None:
    """
    What was seen of a log says nothing about the one that took its id.
    """
    started = event(0, "step/start", {"turn": 1, "step": 1})
    memory.append(make_header("s1"), [started, said(1, "user", "needle")])
    tool = made(query)
    assert tool.call({"query": "needle"}).startswith("Nothing to search")
    memory.delete("s1", forget=True)
    filled(memory, ["other", "needle now"], "s1")

    assert "needle now" in tool.call({"query": "needle"})


def test_failures_say_what_to_do(near: EventStore) -> None:
    """
    What cannot be searched is told with whether to try again.
    """
    off = made(SessionQuery(store=near, search=False)).call({"query": "needle"})
    unfit = made(
        SessionQuery(store=near, search=ScanProvider(DEFAULT_VOCABULARY)), scope="all"
    ).call({"query": "needle"})

    assert off.endswith("Go on without it.")
    assert unfit.endswith("Go on without it.")
