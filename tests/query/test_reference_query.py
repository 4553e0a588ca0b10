"""What DeepSeek Harness asserts of its query service (facts Q1–Q31)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from eventlog import EventStore, LiveSessions, Replace, open_store
from eventlog.errors import CorruptLog, StoreUnavailable
from eventlog.query import Ids, SessionQuery, SessionQueryErrorCode
from support import make_header, message, messages
from support.query import (
    BrokenStore,
    CountingStore,
    HookedStore,
    RewritingStore,
    event,
    facts,
    plant,
    raises,
    said,
)

Code = SessionQueryErrorCode

TITLES = "a title is an event of the type session/title and has no call of its own"
WITHOUT_MEANING = {
    "Q2": "calls are synchronous: a store is not interrupted, *cancel* is asked between reads",
    "Q4": "as Q2",
    "Q8": TITLES,
    "Q9": TITLES,
    "Q10": TITLES,
    "Q11": TITLES,
    "Q12": TITLES,
    "Q13": TITLES,
    "Q14": TITLES,
    "Q15": TITLES,
}


def adopt(live: LiveSessions, session_id: str = "s1", count: int = 2, **header: Any) -> None:
    session = live.create(session_id, created_at=1_000, **header)
    for e in messages(count):
        session.append(e.type, e.data, surface_op=e.surface_op, time=e.time)


CALLS = {
    "list": lambda query, cancel: query.list_sessions(cancel=cancel),
    "lineage": lambda query, cancel: query.trace_session("s1", cancel=cancel),
    "trace": lambda query, cancel: query.trace_event("s1", 0, cancel=cancel),
    "read": lambda query, cancel: query.read_event("s1", 0, cancel=cancel),
}


@pytest.mark.parametrize("call", CALLS)
def test_q1_cancelled_before_it_began(memory: EventStore, call: str) -> None:
    """
    A call that is cancelled before it begins does not touch the store.
    """
    memory.append(make_header(), messages(2))
    store = CountingStore(memory)

    with raises(Code.ABORTED):
        CALLS[call](SessionQuery(LiveSessions(), store), lambda: True)
    assert [] == store.reads


@pytest.mark.parametrize("call", CALLS)
def test_q3_cancelled_while_the_store_reads(memory: EventStore, call: str) -> None:
    """
    A store that goes on reading all the same does not save a cancelled call.
    """
    memory.append(make_header(), messages(2))
    cancelled: list[str] = []
    store = HookedStore(memory, lambda name, _: cancelled.append(name))

    with raises(Code.ABORTED):
        CALLS[call](SessionQuery(LiveSessions(), store), lambda: bool(cancelled))


def test_q5_a_stored_session_is_read_whole(memory: EventStore) -> None:
    """
    A whole stored session comes with header and events, detached.
    """
    header = make_header(extra={"k": [1]})
    memory.append(header, messages(3))
    query = SessionQuery(None, memory)
    events = list(query.read_log("s1"))
    events[0].data["content"].clear()
    query.read_surface("s1").header.extra["k"].clear()

    assert messages(3) == list(query.read_log("s1"))
    assert header == query.read_surface("s1").header


def test_q6_a_log_that_begins_above_zero(tmp_path: Path) -> None:
    """
    A stored log whose first event is not event 0 is damaged.
    """
    plant(tmp_path, make_header(), messages(3, start=1))
    query = SessionQuery(None, open_store(f"jsonl:{tmp_path}"))

    with raises(Code.CORRUPT_SESSION):
        list(query.read_log("s1"))


def test_q7_a_session_that_becomes_live(memory: EventStore) -> None:
    """
    What becomes live during a stored read answers live.
    """
    memory.append(make_header(), messages(2))
    live = LiveSessions()

    def revive(name: str, _: str | None) -> None:
        if name == "snapshot":
            adopt(live, count=7)

    query = SessionQuery(live, HookedStore(memory, revive))

    assert 7 == len(list(query.read_log("s1")))


def test_q16_the_order_of_a_list(memory: EventStore) -> None:
    """
    A list is by creation time, newest first, then by id; its headers are detached.
    """
    for name, created_at in (("b", 5), ("a", 5), ("c", 9), ("d", 1)):
        memory.append(make_header(name, created_at=created_at, extra={"k": []}), messages(1))
    query = SessionQuery(None, memory)
    items = query.list_sessions().items
    items[0].header.extra["k"].append(1)

    assert ["c", "a", "b", "d"] == [record.header.id for record in items]
    assert {"k": []} == query.list_sessions().items[0].header.extra


def test_q17_filters_are_taken_at_the_call(memory: EventStore) -> None:
    """
    A list of filters that changes afterwards, or during the call, has no effect.
    """
    for name in ("a", "b"):
        memory.append(make_header(name), messages(1))
    filters = [Ids(["a"])]
    store = HookedStore(memory, lambda *_: filters.clear())

    assert 1 == len(SessionQuery(None, store).list_sessions(filters=filters).items)
    assert [] == filters
    with raises(Code.INVALID_FILTER):
        SessionQuery(None, memory).list_sessions(filters=[object()])  # type: ignore[list-item]
    with raises(Code.INVALID_FILTER):
        SessionQuery(None, memory).filter_events("a", [object()])  # type: ignore[list-item]


def test_q18_classes(memory: EventStore) -> None:
    """
    A replaced message is shadowed, a chunk is log-only, its replacement is current.
    """
    memory.append(
        make_header(),
        [
            message(0),
            event(1, "assistant/chunk"),
            said(2, "assistant", "r", surface_op=Replace(0, 0), source_event_seqs=[0]),
        ],
    )

    assert ["shadowed", "log-only", "current"] == [
        record.event_class for record in SessionQuery(None, memory).list_events("s1").items
    ]


def test_q19_the_surface_after_two_replacements(memory: EventStore) -> None:
    """
    Two replacements leave two nodes, as of the last event.
    """
    header = make_header()
    memory.append(
        header,
        [
            *messages(2),
            said(2, "assistant", "r"),
            said(3, "assistant", "r", surface_op=Replace(0, 1), source_event_seqs=[0, 1]),
            message(4, surface_op=Replace(3, 3), source_event_seqs=[3]),
            said(5, "assistant", "r", surface_op=Replace(2, 2), source_event_seqs=[2]),
        ],
    )
    surface = SessionQuery(None, memory).read_surface("s1")

    assert [(4, "user/message"), (5, "assistant/message")] == [
        (e.seq, e.type) for e in surface.events
    ]
    assert (5, header) == (surface.captured_through_seq, surface.header)


def test_q20_an_empty_surface() -> None:
    """
    A session without events has an empty surface, through no event.
    """
    live = LiveSessions()
    live.create("s1")
    surface = SessionQuery(live).read_surface("s1")

    assert ((), None) == (surface.events, surface.captured_through_seq)


def test_q21_a_window(memory: EventStore) -> None:
    """
    A window of one before and one behind has three events.
    """
    memory.append(make_header(), messages(5))
    window = SessionQuery(None, memory).read_event("s1", 2, before=1, after=1)

    assert (1, 3, 2) == (window.start_seq, window.end_seq, window.target.seq)
    assert tuple(messages(3, start=1)) == window.events


def test_q22_an_absent_event(memory: EventStore) -> None:
    """
    An event that is not there is not found.
    """
    memory.append(make_header(), messages(2))

    with raises(Code.EVENT_NOT_FOUND):
        SessionQuery(None, memory).read_event("s1", 2)


def test_q23_windows_out_of_range(memory: EventStore) -> None:
    """
    Negative, broken and too large neighbourhoods are refused.
    """
    memory.append(make_header(), messages(5))
    query = SessionQuery(None, memory, read_window_max=1)
    wrong: list[dict[str, Any]] = [{"before": -1}, {"before": 2}, {"after": 2}, {"after": 0.5}]

    for options in wrong:
        with raises(Code.INVALID_WINDOW):
            query.read_event("s1", 2, **options)
    assert 3 == len(query.read_event("s1", 2, before=1, after=1).events)


def test_q24_one_row_for_both_sources(memory: EventStore) -> None:
    """
    A session in both sources is one row, read live; one that is only stored is readable.
    """
    memory.append(make_header(), messages(2))
    memory.append(make_header("s2"), messages(2))
    live = LiveSessions()
    adopt(live, count=3)
    query = SessionQuery(live, memory)

    assert [("s1", True, True), ("s2", False, True)] == [
        (r.header.id, r.live, r.persisted) for r in query.list_sessions().items
    ]
    assert [3, 2] == [len(query.list_events(name).items) for name in ("s1", "s2")]


@pytest.mark.parametrize("other", [{"cwd": "/b"}, {"delegation_depth": 1}])
def test_q25_conflicting_headers(memory: EventStore, other: dict[str, Any]) -> None:
    """
    Headers that differ fail the list; without the store the live rows are left.
    """
    memory.append(make_header(), messages(2))
    live = LiveSessions()
    adopt(live, **other)
    query = SessionQuery(live, memory)

    with raises(Code.SOURCE_CONFLICT):
        query.list_sessions()
    query.unmount()
    assert [(True, False)] == [(r.live, r.persisted) for r in query.list_sessions().items]


def test_q26_a_failing_store() -> None:
    """
    Live reads go on without the store; lists and stored reads fail with it.
    """
    live = LiveSessions()
    adopt(live)
    store = BrokenStore(StoreUnavailable("x"))
    query = SessionQuery(live, store)

    assert 2 == len(query.list_events("s1").items)
    assert 0 == query.trace_event("s1", 0).target.seq == query.read_event("s1", 0).target.seq
    assert 0 == store.calls
    with raises(Code.PERSISTENCE_FAILED):
        query.list_sessions()
    with raises(Code.PERSISTENCE_FAILED):
        query.read_event("other", 0)


def test_q27_corruption_names_the_session(memory: EventStore) -> None:
    """
    A store's report of damage is told with the session and keeps its cause.
    """
    memory.append(make_header(), messages(2))
    error = CorruptLog("s1", None, None, None, 1, "malformed", "no JSON")

    def fail(name: str, _: str | None) -> None:
        if name == "snapshot":
            raise error

    query = SessionQuery(LiveSessions(), HookedStore(memory, fail))

    with raises(Code.CORRUPT_SESSION) as caught:
        query.read_event("s1", 0)
    assert caught.value.detail.startswith("stored session 's1' is corrupt: ")
    assert error is caught.value.__cause__


def test_q28_unknown_ids_and_odd_errors(memory: EventStore) -> None:
    """
    An unknown id is not found with a store and without; any other error of a store, and a
    header that changes, have their codes.
    """
    memory.append(make_header(), messages(2))

    for query in (SessionQuery(), SessionQuery(LiveSessions(), memory)):
        with raises(Code.SESSION_NOT_FOUND):
            query.read_event("nope", 0)
    with raises(Code.PERSISTENCE_FAILED):
        SessionQuery(None, BrokenStore(Exception())).read_event("s1", 0)
    with raises(Code.SOURCE_CONFLICT):
        SessionQuery(None, RewritingStore(memory, make_header(cwd="/x"))).read_event("s1", 0)


def test_q29_a_message_without_its_mark(tmp_path: Path) -> None:
    """
    A stored message that is no node has no place in a listing with classes.
    """
    plant(tmp_path, make_header(), [event(0, "user/message", {"content": []})])

    with raises(Code.INVALID_SURFACE):
        SessionQuery(None, open_store(f"jsonl:{tmp_path}")).list_events("s1")


@pytest.mark.parametrize("wrong", [-1, 1.5, "5", None, True])
def test_q30_a_window_maximum_that_is_none(wrong: Any) -> None:
    """
    A configuration out of range is refused when the object is made.
    """
    with raises(Code.INVALID_CONFIG):
        SessionQuery(read_window_max=wrong)


def test_q31_without_a_store() -> None:
    """
    Live sessions are queried with no store at all, and so is nothing.
    """
    live = LiveSessions()
    adopt(live)

    assert 2 == len(SessionQuery(live).read_surface("s1").events)
    assert () == SessionQuery().list_sessions().items


def test_every_fact_is_tested_or_listed() -> None:
    """
    Q1 to Q31 are here, or listed with the reason why they have no meaning.
    """
    assert {f"Q{n}" for n in range(1, 32)} <= facts(sys.modules[__name__]) | WITHOUT_MEANING.keys()
