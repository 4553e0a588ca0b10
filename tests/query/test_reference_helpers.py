"""What DeepSeek Harness asserts of documents and filters (facts H8–H20)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from eventlog import EventClass, EventStore, LiveSessions, Replace, open_store
from eventlog.query import (
    Availability,
    Classes,
    CreatedAt,
    Cwd,
    Ids,
    Parent,
    Seq,
    SessionQuery,
    SessionQueryErrorCode,
    Text,
    Time,
    Types,
)
from support import make_header, message, messages
from support.query import event, facts, plant, raises, said

Code = SessionQueryErrorCode

WITHOUT_MEANING = {
    "H20": "services are registered with a container there; here a query object is made",
}


@pytest.fixture
def sessions(memory: EventStore) -> SessionQuery:
    """Four sessions: with and without folder and parent, live and stored."""
    live = LiveSessions()
    memory.append(make_header("a", created_at=4, cwd="/w"), messages(1))
    memory.append(make_header("b", created_at=3, parent_session="a"), messages(1))
    live.create("c", created_at=2, cwd="/w", parent_session="b")
    live.create("d", created_at=1)
    memory.append(make_header("d", created_at=1), messages(1))
    return SessionQuery(live, memory)


def chosen(query: SessionQuery, *filters: Any) -> str:
    return "".join(r.header.id for r in query.list_sessions(filters=filters).items)


def test_h8_documents_and_classes(memory: EventStore) -> None:
    """
    Events with text are documents, with their class; a chunk is listed but is none.
    """
    memory.append(
        make_header(),
        [
            said(0, "user", "one"),
            event(1, "assistant/chunk"),
            said(2, "assistant", "two", surface_op=Replace(0, 0), source_event_seqs=[0]),
            event(3, "turn/end", {"turn": 1, "reason": {"kind": "interrupted"}}),
        ],
    )
    query = SessionQuery(None, memory)

    assert ["shadowed", "log-only", "current", "log-only"] == [
        record.event_class for record in query.list_events("s1").items
    ]
    assert [(0, "shadowed", "one"), (2, "current", "two"), (3, "log-only", "interrupted")] == [
        (d.seq, d.event_class, d.text) for d in query.filter_events("s1").items
    ]


def test_h9_session_filters(sessions: SessionQuery) -> None:
    """
    Clauses are ANDed, values ORed; None is an absent folder or parent; ranges are inclusive.
    """
    assert "ac" == chosen(sessions, Ids(["c", "a", "x"]))
    assert "ac" == chosen(sessions, Cwd(["/w"]))
    assert "bd" == chosen(sessions, Cwd([None]))
    assert "abcd" == chosen(sessions, Cwd(["/w", None]))
    assert "bc" == chosen(sessions, CreatedAt(2, 3))
    assert "ad" == chosen(sessions, Parent([None]))
    assert "bc" == chosen(sessions, Parent(["a", "b"]))
    assert "cd" == chosen(sessions, Availability(["live"]))
    assert "abd" == chosen(sessions, Availability(["persisted"]))
    assert "c" == chosen(sessions, Cwd(["/w"]), Parent(["a", "b"]))


def test_h10_an_unknown_availability() -> None:
    """
    Availability is live or persisted.
    """
    with raises(Code.INVALID_FILTER):
        Availability(["archived"])


def test_h11_event_filters(memory: EventStore) -> None:
    """
    Ranges, types, classes and text are ANDed; a text is literal, in any case and spacing.
    """
    memory.append(
        make_header(),
        [said(0, "user", "Hello\n(AI)+"), said(1, "assistant", "hello (ai)+"), message(2, "hello")],
    )
    query = SessionQuery(None, memory)

    def found(*filters: Any) -> list[int]:
        return [d.seq for d in query.filter_events("s1", filters).items]

    assert [0, 1] == found(Text("hello   (ai)+"))
    assert [0] == found(Text("hello (AI)+"), Types(["user/message"]))
    assert [1] == found(Text("hello"), Seq(1, 1), Time(1_000, 1_001), Classes(["current"]))
    assert [] == found(Text("hello"), Seq(0, 1), Time(1_002, 1_003))


def test_h12_accents_and_case(memory: EventStore) -> None:
    """
    Case is folded beyond ASCII.
    """
    memory.append(make_header(), [message(0, "un café")])

    assert 1 == len(SessionQuery(None, memory).filter_events("s1", [Text("CAFÉ")]).items)


def test_h13_no_filters_and_no_values(memory: EventStore) -> None:
    """
    Without filters everything passes, without values nothing does.
    """
    memory.append(make_header(), messages(3))
    query = SessionQuery(None, memory)

    assert 3 == len(query.filter_events("s1", []).items)
    assert () == query.filter_events("s1", [Classes([])]).items


def test_h14_unknown_classes_and_blank_texts() -> None:
    """
    A class that is none and a text of white space only are refused.
    """
    with raises(Code.INVALID_FILTER):
        Classes(["hidden"])
    with raises(Code.INVALID_FILTER):
        Text(" \t\n")


@pytest.mark.parametrize("make", [CreatedAt, Seq, Time])
def test_h15_ranges_that_are_none(make: Callable[[Any, Any], Any]) -> None:
    """
    NaN, infinities and a range that ends before it starts are refused.
    """
    for span in ((float("nan"), None), (None, float("inf")), (3, 2), (2.5, None)):
        with raises(Code.INVALID_FILTER):
            make(*span)


def test_h16_documents_of_a_log_without_surface(tmp_path: Any) -> None:
    """
    A log that replaces an absent node has neither records nor documents.
    """
    plant(
        tmp_path,
        make_header(),
        [message(0), message(1, surface_op=Replace(7, 7), source_event_seqs=[0])],
    )
    query = SessionQuery(None, open_store(f"jsonl:{tmp_path}"))

    for ask in (query.list_events, query.filter_events):
        with raises(Code.INVALID_SURFACE):
            ask("s1")


def test_h17_an_open_start(sessions: SessionQuery) -> None:
    """
    A range with an end only has no start.
    """
    assert CreatedAt(None, 2) == CreatedAt(end=2)
    assert CreatedAt(end=2).start is None
    assert "cd" == chosen(sessions, CreatedAt(end=2))


@pytest.mark.parametrize(
    "make",
    [
        lambda: SessionQuery().list_sessions(filters="ids"),  # type: ignore[arg-type]
        lambda: SessionQuery().list_sessions(filters=[{"values": ["a"]}]),  # type: ignore[list-item]
        lambda: SessionQuery().list_sessions(filters=[{"kind": "x"}]),  # type: ignore[list-item]
        lambda: SessionQuery().list_events("s1", filters=[{"kind": "x"}]),  # type: ignore[list-item]
        lambda: SessionQuery().filter_events("s1", {"kind": "x"}),  # type: ignore[arg-type]
        lambda: Ids("a"),
        lambda: Ids([1]),  # type: ignore[list-item]
        lambda: Cwd([1]),  # type: ignore[list-item]
        lambda: Parent([False]),  # type: ignore[list-item]
        lambda: Text(1),  # type: ignore[arg-type]
    ],
)
def test_h18_malformed_filters(make: Callable[[], Any]) -> None:
    """
    What is no list of filters, or no filter, is refused, also where there is nothing to
    filter.
    """
    with raises(Code.INVALID_FILTER):
        make()


def test_h19_live_text() -> None:
    """
    The text of a live session is filtered as it is.
    """
    live = LiveSessions()
    live.create("s1", seed=[message(0, "Alpha\n beta"), message(1, "gamma")])
    (found,) = SessionQuery(live).filter_events("s1", [Text("alpha beta")]).items

    assert (0, EventClass.CURRENT) == (found.seq, found.event_class)


def test_every_fact_is_tested_or_listed() -> None:
    """
    H8 to H20 are here, or listed with the reason why they have no meaning.
    """
    assert {f"H{n}" for n in range(8, 21)} <= facts(sys.modules[__name__]) | WITHOUT_MEANING.keys()
