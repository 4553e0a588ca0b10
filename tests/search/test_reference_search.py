"""Search answers that DeepSeek Harness recorded, through searches here."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from eventlog import Event, EventStore, SessionHeader, open_store
from eventlog.codec import decode_line
from eventlog.query import (
    Classes,
    CreatedAt,
    Cwd,
    EventFilter,
    Ids,
    Seq,
    SessionFilter,
    SessionQuery,
    SessionQueryError,
    SessionQueryErrorCode,
    Text,
    Types,
)
from support import corpus
from support.differences import Difference

Code = SessionQueryErrorCode


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    """The requests and their answers."""
    answers: dict[str, Any] = json.loads(corpus("dsh-search", "_search.json").read_bytes())
    return answers


@pytest.fixture(scope="module")
def store() -> Iterator[EventStore]:
    """The sessions that were searched."""
    with open_store("memory:") as store:
        for path in sorted(corpus("dsh-search").glob("*.jsonl")):
            header, *events = records(path.read_bytes())
            assert isinstance(header, SessionHeader)
            store.append(header, [event for event in events if isinstance(event, Event)])
        yield store


def records(data: bytes) -> Iterator[SessionHeader | Event]:
    for line in filter(None, data.split(b"\n")):
        record = decode_line(line)
        if isinstance(record, (SessionHeader, Event)):
            yield record
        else:
            yield from record


def session_filter(recorded: dict[str, Any]) -> SessionFilter:
    match recorded["kind"]:
        case "cwd":
            return Cwd(recorded["values"])
        case "created-at":
            return CreatedAt(recorded.get("from"), recorded.get("to"))
        case "id":
            return Ids(recorded["values"])
    raise SessionQueryError(Code.INVALID_FILTER, f"no filter {recorded['kind']}")


def event_filter(recorded: dict[str, Any]) -> EventFilter:
    match recorded["kind"]:
        case "surface":
            return Classes(recorded["values"])
        case "type":
            return Types(recorded["values"])
        case "seq":
            return Seq(recorded.get("from"), recorded.get("to"))
        case "text":
            return Text(recorded["text"])
    raise SessionQueryError(Code.INVALID_FILTER, f"no filter {recorded['kind']}")


def is_without_word(query: object) -> bool:
    return isinstance(query, str) and not any(char.isalnum() for char in query)


def test_the_phrases_found_across_sessions(store: EventStore, recorded: dict[str, Any]) -> None:
    """
    Every session that a recorded search found is found here in the tier of phrases, and
    none but these, save for the differences that are counted.
    """
    query = SessionQuery(store=store)
    counted: Counter[Difference] = Counter()
    compared = 0
    for entry in recorded["searchSessions"]:
        request = entry["request"]
        if "error" in entry or not isinstance(entry["items"], list):
            continue
        if is_without_word(request["query"]):
            with pytest.raises(SessionQueryError) as caught:
                query.search_sessions(request["query"])
            assert caught.value.code is Code.INVALID_QUERY
            assert entry["items"] == []
            counted[Difference.SEARCH_WITHOUT_WORD] += 1
            continue
        page = query.search_sessions(
            request["query"],
            session_filters=[*map(session_filter, request.get("sessionFilters", []))],
            event_filters=[*map(event_filter, request.get("eventFilters", []))],
            limit=1_000,
        )
        expected = {item["id"] for item in entry["items"]}
        actual = {hit.record.header.id for hit in page.items if hit.best_match.score >= 5}
        if len(request["query"]) > 64 and " " not in request["query"] and expected < actual:
            counted[Difference.SEARCH_LONG_WORD] += 1
            continue
        assert expected <= actual, request
        if not entry.get("hasNext"):
            assert expected == actual, request
        compared += 1

    assert 216 == compared
    assert {difference: difference.cases for difference in counted} == dict(counted)


def test_the_phrases_found_in_sessions(store: EventStore, recorded: dict[str, Any]) -> None:
    """Every event that a recorded search of one session found is found here, and no other."""
    query = SessionQuery(store=store)
    compared = 0
    for entry in recorded["searchEvents"]:
        request = entry["request"]
        if "error" in entry:
            with pytest.raises(SessionQueryError) as caught:
                query.search_events(request["sessionId"], request["query"])
            assert caught.value.code is Code.SESSION_NOT_FOUND
            continue
        page = query.search_events(
            request["sessionId"],
            request["query"],
            filters=[*map(event_filter, request.get("filters", []))],
            limit=1_000,
        )
        expected = {item["seq"] for items in entry["pages"] for item in items}
        actual = {hit.seq for hit in page.items if hit.score >= 5 or page.mode == "literal"}
        assert expected <= actual, request
        if not entry["hasNext"]:
            assert expected == actual, request
        compared += 1

    assert 240 == compared
