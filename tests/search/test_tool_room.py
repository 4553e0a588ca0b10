"""What a model is told within the tool's room, whatever the sessions hold."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog import EventStore, open_store
from eventlog.query import SessionQuery
from eventlog.query.tool import ToolText, session_query_tool
from eventlog.query.tool_text import TEXT_BYTES_MAX, UNREAD
from support import make_header, messages
from support.damage import DAMAGED
from support.jsonl import plant
from support.query import said
from support.searching import filled

IDS = [(f"{n:02}" + "日" * 85)[:85] if n % 2 else f"{n:02}" + "x" * 253 for n in range(60)]


@pytest.fixture
def crowd(memory: EventStore) -> EventStore:
    """Sixty sessions with ids as long as they may be, and long texts."""
    for number, session_id in enumerate(IDS):
        filled(memory, ["needle " + "z" * 2_000] * 3, session_id, created_at=number, cwd="/w")
    return memory


def answers(tool: object, arguments: dict[str, object]) -> Iterator[ToolText]:
    """Every answer of a walk, each by the arguments that the one before said."""
    while True:
        answer = tool.call(arguments)  # type: ignore[attr-defined]
        assert not answer.is_error, answer
        yield answer
        following = re.search(r"call again with (\{.*\})\.$", answer, re.M)
        if following is None:
            return
        arguments = json.loads(following[1])


@pytest.mark.parametrize("excerpt_bytes", [1, 600, 100_000])
@pytest.mark.parametrize("scope", ["cwd", "all"])
def test_i1_long_ids_push_nothing_out(
    crowd: EventStore, query: SessionQuery, scope: str, excerpt_bytes: int
) -> None:
    """
    I1: fifty matches with ids of 255 bytes had no room in one answer: those at its end were
    cut away together with the cursor, and no page had them. Now there are fewer on a page, and
    each has the beginning of its excerpt.
    """
    tool = session_query_tool(query, IDS[-1], scope=scope, excerpt_bytes=excerpt_bytes)  # type: ignore[arg-type]
    found: list[str] = []
    for answer in answers(tool, {"query": "needle", "limit": 50}):
        assert len(answer.encode()) <= TEXT_BYTES_MAX
        found += re.findall(r"^\[session (\d\d)", answer, re.M)
        if excerpt_bytes < 1_000:
            assert answer.count("[session") == answer.count("in full: {")
        if excerpt_bytes > 1:
            assert answer.count("[session") == answer.count("needle z")

    assert [f"{n:02}" for n in range(59, -1, -1)] == found


def test_i1_what_is_read_in_full_is_whole(crowd: EventStore, query: SessionQuery) -> None:
    """The arguments that an answer gives for a match lead to its whole text."""
    tool = session_query_tool(query, IDS[-1], scope="all")
    assert tool is not None
    answer = tool.call({"query": "needle", "limit": 50})
    for arguments in re.findall(r"in full: (\{.*?\})\)$", answer, re.M):
        assert "needle " + "z" * 2_000 in tool.call(json.loads(arguments))


def test_i2_a_host_that_allows_many(memory: EventStore, query: SessionQuery) -> None:
    """However many matches a host allows, those that one answer cannot hold are on the next."""
    memory.append(make_header("s1"), [said(n, "user", f"needle {n}") for n in range(3_000)])
    tool = session_query_tool(query, "s1", limit_max=10_000)
    found: list[int] = []
    for answer in answers(tool, {"query": "needle", "limit": 10_000}):
        assert len(answer.encode()) <= TEXT_BYTES_MAX
        found += [int(seq) for seq in re.findall(r"^\[seq (\d+)", answer, re.M)]
        if len(found) > 400:
            break

    assert [*range(2_999, 2_999 - len(found), -1)] == found


@pytest.mark.parametrize(
    ("limit", "said"),
    [(2.5, "not 2.5."), ("many", 'not "many".'), (True, "not a boolean."), ([], "not a list.")],
)
def test_a_wrong_limit_is_said(
    memory: EventStore, query: SessionQuery, limit: object, said: str
) -> None:
    """A limit of 2.5 was answered with "must be a whole number, not a number"."""
    filled(memory, ["needle"])
    tool = session_query_tool(query, "s1")
    assert tool is not None
    answer = tool.call({"limit": limit})

    assert answer.is_error
    assert f"limit must be a whole number, {said}" in answer


@pytest.mark.parametrize("kinds", [[], {}])
def test_no_kinds_are_no_choice(
    memory: EventStore, query: SessionQuery, kinds: list[str] | dict[str, list[str]]
) -> None:
    """A host that offers no kind offers no argument: an empty enum is no schema."""
    filled(memory, ["needle"])
    tool = session_query_tool(query, "s1", kinds=kinds)
    assert tool is not None

    assert "kinds" not in tool.parameters()["properties"]
    assert not tool.call({"kinds": ["user"]}).is_error


def test_i1_error_has_its_room_too(memory: EventStore, query: SessionQuery) -> None:
    """
    A kind that a host with a thousand event types does not offer was answered with all of them.
    """
    filled(memory, ["needle"])
    tool = session_query_tool(query, "s1", kinds=[f"x/{n:0100}" for n in range(1_000)])
    assert tool is not None
    answer = tool.call({"kinds": ["user"]})

    assert answer.is_error
    assert len(answer.encode()) <= TEXT_BYTES_MAX


def test_damage_is_said_where_nothing_is_found(tmp_path: Path) -> None:
    """
    "No match" was all that a model was told where a part of its log could not be searched.
    """
    plant(tmp_path, DAMAGED["garbage"])
    with open_store(f"jsonl:{tmp_path}") as store:
        store.append(make_header("sound"), messages(2))
        query = SessionQuery(store=store)
        damaged, sound = (session_query_tool(query, one) for one in ("s1", "sound"))
        assert damaged is not None
        assert sound is not None
        hurt, whole = damaged.call({"query": "absent"}), sound.call({"query": "absent"})
        query.engines.close()

    assert hurt.endswith(UNREAD)
    assert not hurt.is_error
    assert UNREAD not in whole
    assert str(tmp_path) not in hurt
