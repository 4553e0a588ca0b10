"""What a host gives the model's search tool, and what of it is refused."""

from __future__ import annotations

from typing import Any

import pytest

from eventlog import EventStore
from eventlog.query import SessionQuery, SessionQueryErrorCode, session_query_tool
from support.query import raises
from support.searching import filled, found


@pytest.mark.parametrize(
    "options",
    [
        {"query": None},
        {"query": 5},
        {"provider": 5},
        {"provider": "scan"},
        {"limit_max": 0},
        {"limit_max": True},
        {"limit_max": "50"},
        {"excerpt_bytes": -1},
        {"scope": "everything"},
        {"scope": None},
        {"before_seq": -1},
        {"before_seq": True},
        {"before_seq": "5"},
        {"kinds": "user"},
        {"kinds": 5},
        {"kinds": [5]},
        {"kinds": {"mine": "user/message"}},
        {"kinds": {"mine": [5]}},
        {"kinds": {"": ["user/message"]}},
    ],
    ids=repr,
)
def test_bad_setups_are_refused(
    memory: EventStore, query: SessionQuery, options: dict[str, Any]
) -> None:
    """
    A tool that could not work is INVALID_CONFIG when it is made. An engine that is none
    was found out by the model's first call; a kind whose types were given as one text
    meant a type for each letter, and never found anything.
    """
    filled(memory, ["a"])
    with raises(SessionQueryErrorCode.INVALID_CONFIG):
        session_query_tool(**{"query": query, "session_id": "s1", **options})


def test_limit_beyond_any_log(memory: EventStore, query: SessionQuery) -> None:
    """A limit that no machine counts to is a limit that is not reached."""
    filled(memory, ["alpha", "beta", "alpha"])

    assert [2, 0] == found(query, "alpha", limit=2**70)
