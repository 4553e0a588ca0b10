"""A cursor may be made up by whoever knows how one is sealed: it is checked like any argument."""

from __future__ import annotations

import zlib
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import pytest

from eventlog import EventStore
from eventlog.query import Ids, SessionQuery, SessionQueryErrorCode
from eventlog.query.cursors import Cursors
from eventlog.query.filters import described
from eventlog.query.search.walks import NUMBERS_MAX, packed, unpacked
from support.query import raises
from support.searching import filled

Code = SessionQueryErrorCode

NOTHING = packed(())
SCOPE = [Ids(["s1", "s2"])]


@pytest.fixture
def query(memory: EventStore) -> SessionQuery:
    """Queries over two sessions that are searched, and one that is not."""
    for number in (1, 2):
        filled(memory, [f"needle {word}" for word in range(9)], f"s{number}")
    filled(memory, ["secret"], "hidden")
    return SessionQuery(store=memory)


def in_session(*position: Any) -> str:
    cursors = Cursors("search_events", "s1", "needel", [], "relevance")
    return cursors.encode(*position)


def in_corpus(*position: Any) -> str:
    cursors = Cursors("search_sessions", "needel", described(SCOPE), [])
    return cursors.encode(*position)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("length", -1),
        ("length", 2**53),
        ("length", 2**64 - 1),
        ("place", [0, 0, 2**63]),
        ("place", [0, -2, 0]),
        ("place", [0, 0]),
        ("place", [0.0, 0, 0]),
        ("given", "x"),
        ("given", b64encode(zlib.compress(b"\xff" * 100)).decode()),
        ("score", "inf"),
        ("score", "nan"),
        ("score", "high"),
        ("spelling", [1]),
        ("spelling", [[], [["needel", [[1, 'a" OR "secret']]]]]),
        ("spelling", [[], [["needel", [[1, "needle*"]]]]]),
        ("spelling", [[["needel", "x"]], []]),
    ],
)
def test_no_part_of_a_cursor_is_trusted(query: SessionQuery, name: str, value: object) -> None:
    """What no walk has written is an invalid cursor, and nothing worse."""
    held = query.search_events("s1", "needel", limit=2).next_cursor
    assert held is not None
    cursors = Cursors("search_events", "s1", "needel", [], "relevance")
    names = ("length", "tail", "place", "given", "score", "spelling")
    position = dict(zip(names, cursors.decode(held, int, str, list, str, str, list), strict=True))

    with raises(Code.INVALID_CURSOR):
        query.search_events("s1", "needel", cursor=in_session(*{**position, name: value}.values()))


@pytest.mark.parametrize(
    "stored",
    [
        ["", 2**63, [], NOTHING, []],
        ["", -1, [], NOTHING, []],
        ["", 30, [0, 0, 2**64 - 1], NOTHING, []],
        ["", 30, [], NOTHING, [[["needel", 0]], [["needel", [[1, 'x") OR ("secret']]]]]],
    ],
)
def test_a_cursor_leads_into_no_other_session(
    query: SessionQuery, stored: Sequence[object]
) -> None:
    """
    Sessions are searched by an expression, and other spellings that a cursor holds are a
    part of it: one that is no word would have led beyond the sessions that were asked for.
    """
    page = query.search_sessions("needel", session_filters=SCOPE, limit=1)
    assert page.next_cursor is not None
    cursors = Cursors("search_sessions", "needel", described(SCOPE), [])
    score, live, (generation, *_) = cursors.decode(page.next_cursor, str, list, list)

    made_up = in_corpus(score, live, [generation, *stored[1:]])
    with raises(Code.INVALID_CURSOR):
        query.search_sessions("needel", session_filters=SCOPE, cursor=made_up)


def test_packed_numbers_are_bounded() -> None:
    """A few bytes that unpack to a number of millions of digits, or to millions, are none."""
    assert {0, 5, 2**63 - 1} == unpacked(packed([0, 5, 2**63 - 1]))
    with raises(Code.INVALID_CURSOR):
        unpacked(b64encode(zlib.compress(b"\xff" * 4_000_000)).decode())
    with raises(Code.INVALID_CURSOR):
        unpacked(b64encode(zlib.compress(bytes(NUMBERS_MAX + 1))).decode())
