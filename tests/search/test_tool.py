"""The model's own search: what it is told, and what it cannot reach."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog import EventStore, LiveSessions, Session
from eventlog.errors import StoreUnavailable
from eventlog.query import ScanProvider, SessionQuery, SessionQueryErrorCode
from eventlog.query.tool import SessionQueryTool, ToolText, session_query_tool
from eventlog.query.tool_text import TEXT_BYTES_MAX
from eventlog.vocabulary import DEFAULT_VOCABULARY
from support import log_only, make_header, replacement
from support.query import BrokenStore, event, raises, said
from support.searching import filled

Code = SessionQueryErrorCode


def made(query: SessionQuery, session_id: str = "s1", **options: Any) -> SessionQueryTool:
    """The tool of a session that exists."""
    tool = session_query_tool(query, session_id, **options)
    assert tool is not None
    return tool


def seqs(text: str) -> list[int]:
    """The seqs of the entries that an answer shows."""
    return [int(seq) for seq in re.findall(r"^\[(?:session [^,]+, )?seq (\d+)", text, re.M)]


def cursor(text: str, form: str) -> dict[str, str]:
    """The arguments that an answer says to call again with."""
    found = re.search(r'\{"cursor": "' + form + r':[^"]+"\}', text)
    assert found is not None, text
    arguments: dict[str, str] = json.loads(found.group())
    return arguments


def say(session: Session, role: str, text: str) -> None:
    """Append a message to a live session."""
    made = said(0, role, text)
    session.append(made.type, made.data, surface_op=made.surface_op)


def test_detail_is_recovered_after_a_compaction(memory: EventStore, query: SessionQuery) -> None:
    """What a compaction dropped from the model's view is found, with where it stands."""
    memory.append(
        make_header("s1"),
        [
            event(0, "turn/start", {"turn": 9}),
            said(1, "user", "the account is acct_9931"),
            said(2, "assistant", "noted"),
            replacement(3, 1, 2, [1, 2]),
        ],
    )

    answer = made(query).call({"query": "which acct_9931"})

    assert not answer.is_error
    first, place, text = answer.splitlines()[:3]
    assert "1 match (searched 3 entries):" == first
    assert re.fullmatch(r"\[seq 1, turn 9, user\] score \d\.\d", place)
    assert "the account is acct_9931" == text


def test_every_word_must_appear_for_the_all_words_tier(
    memory: EventStore, query: SessionQuery
) -> None:
    """An entry with all the words comes before any with some of them."""
    filled(memory, ["alpha only", "alpha and bravo", "bravo only"])

    answer = made(query).call({"query": "bravo alpha"})

    assert [1, 2, 0] == seqs(answer)
    scores = [float(score) for score in re.findall(r"score (\d+\.\d)", answer)]
    assert scores[0] > 3 > scores[1] >= scores[2]


@pytest.mark.parametrize("typed", ["CAFÉ", "cafe", "Cafe\u0301", "caffe"])
def test_case_accents_and_typos(memory: EventStore, query: SessionQuery, typed: str) -> None:
    """Case, accents and typos are forgiven."""
    filled(memory, ["a café", "something else"])

    assert [0] == seqs(made(query).call({"query": typed}))


@pytest.mark.parametrize("arguments", [None, "", "{}", {}, {"query": ""}, {"query": None}])
def test_an_empty_query_is_the_newest_first(
    memory: EventStore, query: SessionQuery, arguments: str | Mapping[str, Any] | None
) -> None:
    """No arguments browse: the newest entries come first, ten of them."""
    filled(memory, [f"text {n}" for n in range(12)])

    answer = made(query).call(arguments)

    assert [*range(11, 1, -1)] == seqs(answer)
    assert answer.startswith("10 newest of 12 entries:")


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(3, 3), (10**6, 50), ("7", 7), (-1, 1), (0, 1), (None, 10), (4.0, 4), ("-5", 1)],
)
def test_i2_limits_that_a_model_chooses(
    memory: EventStore, query: SessionQuery, limit: object, expected: int
) -> None:
    """
    I2: a model asked for a huge page and flooded its own context. The limit is held to the
    range that the schema declares, and all of it to the cap, also where each entry is small.
    """
    filled(memory, [f"needle {n} " + "x" * 490 for n in range(200)])
    tool = made(query)

    answer = tool.call({"query": "needle", "limit": limit})

    assert expected == len(seqs(answer))
    assert len(answer.encode()) <= TEXT_BYTES_MAX
    assert 50 == tool.parameters()["properties"]["limit"]["maximum"]


@pytest.mark.parametrize(
    "arguments",
    [
        '{"query": ',
        "[]",
        "5",
        '"text"',
        [],
        5,
        {"query": 5},
        {"query": ["x"]},
        {"query": True},
        {"limit": "many"},
        {"limit": True},
        {"limit": 1.5},
        {"limit": "+-5"},
        {"limit": "--5"},
        {"limit": "1e3"},
        {"limit": float("inf")},
        {"limit": float("nan")},
        {"limit": ""},
        {"limit": {}},
        {"cursor": 5},
        {"cursor": "nonsense"},
        {"cursor": "more:nonsense"},
        {"cursor": "full:nonsense"},
        {"query": "x" * 3_000},
        {"query": "half \ud83d"},
    ],
)
def test_malformed_arguments_are_an_error(
    memory: EventStore, query: SessionQuery, arguments: Any
) -> None:
    """What cannot be meant is told as an error, and nothing is raised."""
    filled(memory, ["needle"])

    answer = made(query).call(arguments)

    assert answer.is_error
    assert answer.startswith(("Bad arguments", "This cursor"))


def test_unknown_arguments_are_ignored(memory: EventStore, query: SessionQuery) -> None:
    """Arguments that the tool does not have change nothing, kinds among them."""
    filled(memory, ["needle"])
    tool = made(query)

    expected = tool.call({"query": "needle"})

    assert expected == tool.call({"query": "needle", "kinds": ["x"], "session_id": "s2", "at": 5})


def test_a_miss_an_empty_log_and_a_failure_read_differently(
    memory: EventStore, query: SessionQuery
) -> None:
    """ "No match", "nothing to search" and "search failed" are three different answers."""
    filled(memory, ["one", "two"])
    live = LiveSessions()
    live.create("empty")

    miss = made(query).call({"query": "zebra"})
    empty = made(SessionQuery(live), "empty").call({"query": "zebra"})
    store = BrokenStore(StoreUnavailable("/secret/path", "disk on fire"))
    failure = made(SessionQuery(None, store)).call({"query": "zebra"})

    assert ("No match (searched 2 entries).", False) == (miss.text, miss.is_error)
    assert ("Nothing to search: there are no entries yet.", False) == (empty.text, empty.is_error)
    told = "Search failed: the session store cannot be read. Try again later."
    assert (told, True) == (failure.text, failure.is_error)


def test_there_is_no_tool_without_a_session(memory: EventStore, query: SessionQuery) -> None:
    """A session that is neither live nor stored has no tool, unless an engine is given."""
    filled(memory, ["needle"])

    assert session_query_tool(query, "other") is None
    assert session_query_tool(query, "s1") is not None
    tool = session_query_tool(query, "other", provider=ScanProvider(DEFAULT_VOCABULARY))
    assert tool is not None
    assert "Nothing to search: the session has no log." == tool.call({"query": "x"})


def test_messages_only_unless_the_host_offers_kinds(
    memory: EventStore, query: SessionQuery
) -> None:
    """Bookkeeping is found only by its kind, and only where the host lets the model choose."""
    ended = {"kind": "error", "error": {"message": "needle"}}
    memory.append(
        make_header("s1"),
        [
            said(0, "user", "needle"),
            said(1, "assistant", "needle"),
            log_only(2, "tool/call", data={"name": "needle"}),
            log_only(3, "turn/end", data={"reason": ended}),
        ],
    )
    plain = made(query)
    choosing = made(query, kinds=["message", "user", "bookkeeping", "turn/end"])
    own = made(query, kinds={"calls": ["tool/call"]})

    assert {0, 1} == set(seqs(plain.call({"query": "needle"})))
    assert {0, 1} == set(seqs(choosing.call({"query": "needle"})))
    assert {2, 3} == set(seqs(choosing.call({"query": "needle", "kinds": ["bookkeeping"]})))
    assert {0, 3} == set(seqs(choosing.call({"query": "needle", "kinds": ["user", "turn/end"]})))
    assert [2] == seqs(own.call({"query": "needle", "kinds": "calls"}))
    assert choosing.call({"query": "needle", "kinds": ["tool/call"]}).is_error
    assert choosing.call({"query": "needle", "kinds": 5}).is_error
    assert "kinds" not in plain.parameters()["properties"]
    schema = choosing.parameters()["properties"]["kinds"]
    assert ["message", "user", "bookkeeping", "turn/end"] == schema["items"]["enum"]


def test_the_call_that_is_running_is_not_found(query: SessionQuery) -> None:
    """Nothing from the open step on is found, so that a search never finds itself."""
    live = LiveSessions()
    session = live.create("s1")
    say(session, "user", "needle of the last turn")
    session.append("turn/start", {"turn": 2})
    session.append("step/start", {"turn": 2, "step": 1})
    say(session, "user", "find the needle")
    say(session, "assistant", 'session_query {"query": "needle"}')
    tool = made(SessionQuery(live))

    assert [0] == seqs(tool.call({"query": "needle"}))
    assert [0] == seqs(tool.call({}))
    session.append("step/end", {"turn": 2, "step": 1})
    assert {0, 3, 4} == set(seqs(tool.call({"query": "needle"})))
    bounded = made(SessionQuery(live), before_seq=4)
    assert {0, 3} == set(seqs(bounded.call({"query": "needle"})))
    asked = made(SessionQuery(live), before_seq=lambda: 1)
    assert [0] == seqs(asked.call({"query": "needle"}))


def test_pages_go_on_by_cursor(memory: EventStore, query: SessionQuery) -> None:
    """A cursor alone goes on, each entry once; with another query it is refused."""
    filled(memory, [f"needle {n}" for n in range(7)])
    tool = made(query)
    answer = tool.call({"query": "needle", "limit": 3})
    shown = seqs(answer)
    again = cursor(answer, "more")
    filled(memory, ["needle, later"])
    while "There are more" in answer:
        answer = tool.call({**cursor(answer, "more"), "limit": 3})
        shown += seqs(answer)

    assert [*range(6, -1, -1)] == shown
    assert tool.call({**again, "query": "other"}).is_error
    assert not tool.call({**again, "query": "needle"}).is_error


def test_i1_a_long_entry_is_cut_and_read_on_by_cursor(
    memory: EventStore, query: SessionQuery
) -> None:
    """
    I1: reading one archived session returned 74,000 characters and killed a 64K context.
    Every answer keeps its cap, says how long the whole is, and how to read on.
    """
    text = "start " + "".join(f"{n:05d} filler, " for n in range(6_000)) + " needle end"
    filled(memory, ["short", text, "short too"])
    tool = made(query)

    answer = tool.call({"query": "needle"})

    assert len(answer.encode()) < 2_000
    assert f"(cut from {len(text):,} characters; in full:" in answer
    read, arguments = "", cursor(answer, "full")
    while True:
        page = tool.call(arguments)
        assert len(page.encode()) <= TEXT_BYTES_MAX
        head, *body = page.split("\n")
        assert f"{len(text):,} characters" in head
        read += body[0]
        if "There is more" not in page:
            break
        arguments = cursor(page, "full")
    assert text == read


def test_i8_the_scope_is_the_hosts(memory: EventStore, query: SessionQuery) -> None:
    """
    I8: a model guessed another session's id. No argument leads out of the scope; foreign
    and missing ids answer alike, and no hidden id stands in any answer.
    """
    filled(memory, ["needle mine"], "s1", cwd="/a")
    filled(memory, ["needle near"], "near", cwd="/a")
    filled(memory, ["needle secret"], "hidden-id", cwd="/b")
    own, cwd, everything = (made(query, scope=scope) for scope in ("own", "cwd", "all"))

    for foreign in ("hidden-id", "nope"):
        for arguments in ({"session_id": foreign}, {"id": foreign}, {"parent": foreign}):
            answer = own.call({"query": "needle", **arguments})
            assert own.call({"query": "needle"}) == answer
            assert "secret" not in answer
    assert 1 == len(seqs(own.call({"query": "needle"})))
    near, all_of_them = (tool.call({"query": "needle"}) for tool in (cwd, everything))
    assert 2 == len(seqs(near))
    assert "secret" not in near
    assert "hidden-id" not in near
    assert 3 == len(seqs(all_of_them))
    assert "[session hidden-id, seq 0, user]" in all_of_them
    assert (True, False, False) == (own.self_gated, cwd.self_gated, everything.self_gated)


def test_a_cursor_of_a_wider_scope_leads_nowhere(memory: EventStore, query: SessionQuery) -> None:
    """A cursor that one tool gave is none of another's."""
    filled(memory, ["needle " + "x" * 900], "s1", cwd="/a")
    filled(memory, ["needle " + "y" * 900], "s2", cwd="/b")
    wide = made(query, scope="all").call({"query": "needle"})
    for found in re.findall(r'"(full:[^"]+)"', wide):
        assert made(query).call({"cursor": found}).is_error
        assert made(query, scope="cwd").call({"cursor": found}).is_error


def test_a_session_without_a_folder_shares_nothing(memory: EventStore, query: SessionQuery) -> None:
    """In the scope of a folder, a session without one has only itself."""
    filled(memory, ["needle mine"], "s1")
    filled(memory, ["needle other"], "s2")

    answer = made(query, scope="cwd").call({"query": "needle"})

    assert "mine" in answer
    assert "other" not in answer


def test_forms_of_the_definition(memory: EventStore, query: SessionQuery) -> None:
    """OpenAI's, Anthropic's and MCP's forms hold one schema, strict where that is wanted."""
    filled(memory, ["needle"])
    tool = made(query, kinds=["message", "bookkeeping"], limit_max=20)
    function = tool.openai()["function"]
    strict, plain = function["parameters"], tool.anthropic()["input_schema"]

    assert ("session_query", True) == (function["name"], function["strict"])
    assert {*strict["properties"]} == {*strict["required"]}
    assert not strict["additionalProperties"]
    words = {word for schema in strict["properties"].values() for word in schema}
    assert {"type", "description", "items"} == words, "bounds are not known to all"
    assert plain == tool.mcp()["inputSchema"]
    assert tool.mcp()["annotations"]["readOnlyHint"]
    for schema in (strict, plain):
        jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate({"query": "x", "limit": 5, "cursor": None, "kinds": None}, strict)
    jsonschema.validate({"query": "x"}, plain)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"limit": 21}, plain)
    result = tool.call({"query": "needle"}).mcp()
    assert not result["isError"]
    assert "needle" in result["content"][0]["text"]


@pytest.mark.parametrize(
    "options",
    [
        {"scope": "everything"},
        {"limit_max": 0},
        {"limit_max": True},
        {"excerpt_bytes": "x"},
        {"kinds": "message"},
        {"kinds": [5]},
        {"kinds": {"x": [5]}},
    ],
)
def test_bad_options_of_the_host(
    memory: EventStore, query: SessionQuery, options: dict[str, Any]
) -> None:
    """What the host gets wrong is INVALID_CONFIG, when the tool is made."""
    filled(memory, ["needle"])
    with raises(Code.INVALID_CONFIG):
        session_query_tool(query, "s1", **options)


arguments = st.dictionaries(
    st.sampled_from(["query", "limit", "cursor", "kinds", "session_id", "scope", "before_seq"]),
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.text(max_size=20)
    | st.sampled_from(["needle", "secret", "s2", "more:", "full:", "🔑", "the needle"])
    | st.lists(st.text(max_size=5), max_size=3),
    max_size=5,
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text(min_size=1, max_size=50) | st.just("needle " * 2_000), min_size=1, max_size=8),
    st.lists(arguments | st.text(max_size=30), min_size=1, max_size=4),
    st.integers(1, 5_000),
)
def test_any_log_and_any_arguments(
    texts: list[str], calls: list[dict[str, Any] | str], excerpt_bytes: int
) -> None:
    """No answer exceeds the cap or has anything of another session, whatever is asked."""
    from eventlog import open_store

    with open_store("memory:") as store:
        filled(store, texts)
        filled(store, ["SECRET needle"], "s2")
        query = SessionQuery(store=store)
        tool = made(query, excerpt_bytes=excerpt_bytes)
        for call in calls:
            answer = tool.call(call)
            assert isinstance(answer, ToolText)
            assert len(answer.encode()) <= TEXT_BYTES_MAX
            assert "SECRET" not in answer
            for found in re.findall(r'\{"cursor": "[^"]+"\}', answer):
                following = tool.call(found)
                assert len(following.encode()) <= TEXT_BYTES_MAX
                assert "SECRET" not in following
        query.engines.close()


def test_the_cap_holds_for_many_long_entries(memory: EventStore, query: SessionQuery) -> None:
    """Fifty entries of any script, with any label, share what room there is."""
    for script in ("x", "é", "漢", "🔑"):
        store_texts = [f"needle {script * 3_000} {n}" for n in range(60)]
        filled(memory, store_texts, f"s-{ord(script)}", cwd="/" + "d" * 200)
        answer = made(query, f"s-{ord(script)}", excerpt_bytes=100_000, scope="all").call(
            {"query": "needle", "limit": 50}
        )
        own = made(query, f"s-{ord(script)}", excerpt_bytes=100_000).call(
            {"query": "needle", "limit": 50}
        )
        assert len(answer.encode()) <= TEXT_BYTES_MAX
        assert len(own.encode()) <= TEXT_BYTES_MAX
        assert 50 == len(seqs(own))
        assert "There are more" in own
