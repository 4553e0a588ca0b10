"""A harness's vocabulary that fails on what a log holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from eventlog import EventStore
from eventlog.query import ScanProvider, SessionQuery, SessionQueryErrorCode
from eventlog.query.tool import session_query_tool
from eventlog.vocabulary import DEFAULT_VOCABULARY, EventType
from support.query import raises
from support.searching import filled

CALLS: dict[str, Callable[[SessionQuery], object]] = {
    "search_events": lambda query: query.search_events("s1", "needle"),
    "newest": lambda query: query.search_events("s1", ""),
    "literal": lambda query: query.search_events("s1", "!"),
    "search_sessions": lambda query: query.search_sessions("needle"),
    "filter_events": lambda query: query.filter_events("s1"),
}


class Moody:
    """What a ``user/message`` means, until it is told to fail."""

    def __init__(self) -> None:
        self.fails: set[str] = set()
        self.vocabulary = DEFAULT_VOCABULARY.with_types(
            {"user/message": EventType(text=self.text, message=self.message)}
        )

    def text(self, data: dict[str, Any]) -> list[Any]:
        return [data["missing" if "text" in self.fails else "content"][0]["text"]]

    def message(self, data: dict[str, Any]) -> dict[str, Any]:
        return data["missing"] if "message" in self.fails else data


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("scans", [False, True], ids=["index", "scan"])
@pytest.mark.parametrize("part", ["text", "message"])
@pytest.mark.parametrize("is_indexed", [False, True], ids=["at-first", "later"])
def test_failure_is_the_vocabularys(
    memory: EventStore, call: str, scans: bool, part: str, is_indexed: bool
) -> None:
    """
    A vocabulary that failed raised a KeyError out of a search; while a log was indexed, the
    store was blamed. It is INVALID_CONFIG, with the event.
    """
    if scans and call == "search_sessions":
        pytest.skip("a scan searches one session")
    filled(memory, ["needle!"])
    moody = Moody()
    search = ScanProvider(moody.vocabulary) if scans else None
    query = SessionQuery(store=memory, vocabulary=moody.vocabulary, search=search)
    if is_indexed:
        CALLS[call](query)
    moody.fails.add(part)

    with raises(SessionQueryErrorCode.INVALID_CONFIG) as caught:
        CALLS[call](query)
    assert "user/message 0" in caught.value.detail
    tool = session_query_tool(query, "s1")
    assert tool is not None
    assert tool.call({"query": "needle"}).is_error
    query.engines.close()
