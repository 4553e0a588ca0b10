"""
Reads of one session: listings, windows, surfaces, whole logs, documents.
"""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from eventlog import (
    APPEND,
    EventClass,
    EventStore,
    EventType,
    LiveSessions,
    Replace,
    fold_surface,
    open_store,
)
from eventlog.codec import converter
from eventlog.query import (
    Classes,
    EventRecord,
    Seq,
    SessionQuery,
    SessionQueryError,
    SessionQueryErrorCode,
    Text,
    Time,
    Types,
)
from eventlog.vocabulary import DEFAULT_VOCABULARY
from support import log_only, make_header, message, messages, replacement
from support.query import event, pages, raises, said

Code = SessionQueryErrorCode

# Ten messages of which nine are compacted; behind them a note and one more message.
COMPACTED = [
    *messages(10),
    replacement(10, 0, 8, list(range(9))),
    log_only(11),
    message(12),
]


def seqs(records: Any) -> list[int]:
    return [record.seq for record in records]


def test_a_window_holds_the_event_and_its_neighbours(
    query: SessionQuery, store: EventStore
) -> None:
    """
    A window has what was asked for before and behind its target, and the header.
    """
    header = make_header()
    store.append(header, COMPACTED)
    window = query.read_event("s1", 4, before=2, after=1)

    assert header == window.header
    assert COMPACTED[4] == window.target
    assert tuple(COMPACTED[2:6]) == window.events
    assert (2, 5) == (window.start_seq, window.end_seq)


def test_a_window_ends_with_the_log(query: SessionQuery, store: EventStore) -> None:
    """
    At the ends of the log a window has fewer neighbours, and no error.
    """
    store.append(make_header(), COMPACTED)
    front, back = (query.read_event("s1", seq, before=5, after=5) for seq in (1, 12))

    assert (0, 6) == (front.start_seq, front.end_seq)
    assert (7, 12) == (back.start_seq, back.end_seq)
    assert COMPACTED[12] == back.target


@pytest.mark.parametrize(
    "seq", [13, -1, 2**70, True, 3.0, "3", None, pytest.param(10**5_000, id="huge")]
)
def test_an_absent_event_is_not_found(memory: EventStore, seq: Any) -> None:
    """
    A seq that no event has, and what is no seq at all, is EVENT_NOT_FOUND.
    """
    memory.append(make_header(), COMPACTED)
    query = SessionQuery(None, memory)

    with raises(Code.EVENT_NOT_FOUND):
        query.read_event("s1", seq)
    with raises(Code.EVENT_NOT_FOUND):
        query.trace_event("s1", seq)


def test_listed_events_have_their_class(query: SessionQuery, store: EventStore) -> None:
    """
    A listing tells what is on the surface, what was, and what never was.
    """
    store.append(make_header(), COMPACTED)
    surface = fold_surface(COMPACTED)
    expected = tuple(
        EventRecord("s1", e.seq, e.type, e.time, surface.classify(e.seq), False) for e in COMPACTED
    )

    assert expected == query.list_events("s1").items
    assert {EventClass.CURRENT, EventClass.SHADOWED, EventClass.LOG_ONLY} == {
        record.event_class for record in expected
    }


@pytest.mark.parametrize("limit", [1, 2, 5, 13, 14, 1000])
def test_pages_of_events_give_each_event_once(
    query: SessionQuery, store: EventStore, limit: int
) -> None:
    """
    Whatever the limit, the pages together are the log, and only the last one may be short.
    """
    store.append(make_header(), COMPACTED)
    found = list(pages(lambda cursor: query.list_events("s1", limit=limit, cursor=cursor)))

    assert list(range(13)) == [seq for page in found for seq in seqs(page.items)]
    assert all(limit == len(page.items) for page in found[:-1])
    assert found[-1].items


def test_a_walk_keeps_the_length_it_began_with(query: SessionQuery, live: LiveSessions) -> None:
    """
    Events and replacements that come between two pages do not show in the later ones.
    """
    session = live.create("s1", seed=messages(6))
    first = query.list_events("s1", limit=3)
    session.append(
        "user/message",
        {"content": []},
        surface_op=Replace(0, 5),
        source_event_seqs=list(range(6)),
    )
    second = query.list_events("s1", limit=100, cursor=first.next_cursor)

    assert [3, 4, 5, 6] == seqs(second.items)
    assert EventClass.CURRENT is second.items[0].event_class
    assert EventClass.SHADOWED is query.list_events("s1").items[3].event_class


def test_a_walk_goes_on_in_a_log_that_lost_its_tail(
    query: SessionQuery, live: LiveSessions, store: EventStore
) -> None:
    """
    A live session that goes away unflushed leaves the stored prefix to a walk over it.
    """
    events = messages(8)
    session = live.create("s1", created_at=1_000)
    for e in events:
        session.append(e.type, e.data, surface_op=e.surface_op, time=e.time)
    store.append(session.header, events[:5])
    first = query.list_events("s1", limit=3)
    live.dispose("s1")
    second = query.list_events("s1", limit=3, cursor=first.next_cursor)

    assert [3, 4] == seqs(second.items)
    assert second.next_cursor is None


def test_events_are_listed_as_of_a_length(query: SessionQuery, store: EventStore) -> None:
    """
    With *at* the log is listed as it was when it had so many events, classes included.
    """
    store.append(make_header(), COMPACTED)
    before, after = query.list_events("s1", at=10).items, query.list_events("s1", at=11).items

    assert 10 == len(before)
    assert {EventClass.CURRENT} == {record.event_class for record in before}
    assert EventClass.SHADOWED is after[0].event_class
    assert () == query.list_events("s1", at=0).items


def test_start_begins_a_listing(query: SessionQuery, store: EventStore) -> None:
    """
    A listing may begin anywhere; beyond the log there is nothing.
    """
    store.append(make_header(), COMPACTED)

    assert [11, 12] == seqs(query.list_events("s1", start=11).items)
    assert [4, 5] == seqs(query.list_events("s1", start=4, limit=2).items)
    assert () == query.list_events("s1", start=13).items


def test_d9_out_of_range_windows(memory: EventStore) -> None:
    """
    A negative cursor produced a report of missing events in a healthy log of two events.
    Negative and boolean numbers are refused by name, and beyond the end there is nothing.
    """
    memory.append(make_header(), messages(2))
    query = SessionQuery(None, memory)

    wrong: list[Any] = [-1, -5, True, 1.0, "1", None]
    for value in wrong:
        with raises(Code.INVALID_WINDOW):
            query.list_events("s1", start=value)
        with raises(Code.INVALID_WINDOW):
            query.read_event("s1", 1, before=value)
        with raises(Code.INVALID_WINDOW):
            query.read_event("s1", 1, after=value)
    for value in (0, -1, True, 1.0, "1", None):
        with raises(Code.INVALID_LIMIT):
            query.list_events("s1", limit=value)  # type: ignore[arg-type]
        with raises(Code.INVALID_LIMIT):
            query.list_sessions(limit=value)  # type: ignore[arg-type]
        with raises(Code.INVALID_LIMIT):
            query.filter_events("s1", limit=value)  # type: ignore[arg-type]
    assert () == query.list_events("s1", start=2).items
    assert () == query.list_events("s1", start=10**9).items
    assert () == query.list_events("s1", start=10**5_000).items


@pytest.mark.parametrize("at", [-1, True, 1.0, "1", 14, 10**30])
def test_a_length_that_the_log_never_had(memory: EventStore, at: Any) -> None:
    """
    An *at* that is no length of the log is INVALID_WINDOW, for live sessions too.
    """
    memory.append(make_header(), COMPACTED)
    live = LiveSessions()
    live.create("s2", seed=messages(3))
    query = SessionQuery(live, memory)

    for session_id in ("s1", "s2"):
        with raises(Code.INVALID_WINDOW):
            query.list_events(session_id, at=at)
        with raises(Code.INVALID_WINDOW):
            query.read_surface(session_id, at=at)


def test_the_surface_is_in_its_order(query: SessionQuery, store: EventStore) -> None:
    """
    A surface holds the current nodes in surface order, with their data.
    """
    header = make_header()
    store.append(header, COMPACTED)
    surface = query.read_surface("s1")

    assert header == surface.header
    assert 12 == surface.captured_through_seq
    assert (COMPACTED[10], COMPACTED[9], COMPACTED[12]) == surface.events


def test_the_surface_as_it_was(query: SessionQuery, store: EventStore) -> None:
    """
    With *at* the surface is what the model saw when the log had so many events.
    """
    store.append(make_header(), COMPACTED)

    assert tuple(COMPACTED[:10]) == query.read_surface("s1", at=10).events
    assert 9 == query.read_surface("s1", at=10).captured_through_seq
    assert query.read_surface("s1", at=0).captured_through_seq is None


def test_f4_one_fold_live_stored_and_merged(store: EventStore) -> None:
    """
    After a resume a compaction was undone, and the context had its old size again. The
    surface and the class of every event are the same live, stored and merged.
    """
    events = [*messages(10), replacement(10, 0, 8, list(range(9)))]
    live = LiveSessions()
    session = live.create("s1", created_at=1_000)
    for e in events:
        session.append(
            e.type,
            e.data,
            surface_op=e.surface_op,
            source_event_seqs=e.source_event_seqs,
            time=e.time,
        )
    store.append(session.header, events)
    views = [SessionQuery(live), SessionQuery(None, store), SessionQuery(live, store)]

    for view in views:
        assert [10, 9] == seqs(view.read_surface("s1").events)
        assert [EventClass.SHADOWED] * 9 + [EventClass.CURRENT] * 2 == [
            record.event_class for record in view.list_events("s1").items
        ]


def test_f6_a_replacement_stands_where_its_range_began(
    query: SessionQuery, store: EventStore
) -> None:
    """
    A summary of the older part dropped all messages. It takes the place of its range, and
    later nodes stay.
    """
    store.append(make_header(), [*messages(4), replacement(4, 0, 1, [0, 1])])
    shadowed = query.list_events("s1", filters=[Classes([EventClass.SHADOWED])])

    assert [4, 2, 3] == seqs(query.read_surface("s1").events)
    assert [0, 1] == seqs(shadowed.items)


def test_f2_a_replacement_of_shadowed_nodes(live: LiveSessions) -> None:
    """
    A second compaction that began at a shadowed node lost everything in between. It is
    refused; by position the same stretch is accepted.
    """
    session = live.create("s1", seed=[*messages(4), replacement(4, 0, 2, [0, 1, 2])])
    query = SessionQuery(live)
    for text in ("five", "six"):
        session.append("user/message", {"content": text}, surface_op=APPEND)
    before = seqs(query.read_surface("s1").events)
    with pytest.raises(ValueError, match="not found in surface"):
        session.append(
            "user/message", {}, surface_op=Replace(1, 6), source_event_seqs=[1, 2, 3, 4, 6]
        )
    unchanged = seqs(query.read_surface("s1").events)
    session.append("user/message", {}, surface_op=Replace(4, 6), source_event_seqs=[4, 3, 6])

    assert [4, 3, 6, 7] == before == unchanged
    assert [8, 7] == seqs(query.read_surface("s1").events)


def test_the_whole_log_is_an_iterator(query: SessionQuery, store: EventStore) -> None:
    """
    A whole log comes in order, and as of the call: what is appended later is not in it.
    """
    events = messages(1_203)
    store.append(make_header(), events)
    found = query.read_log("s1")
    first = next(found)
    store.append(make_header(), [message(1_203)])

    assert events == [first, *found]
    assert 1_204 == len(list(query.read_log("s1")))


def test_a_live_log_is_read_on_when_its_session_goes(
    query: SessionQuery, live: LiveSessions
) -> None:
    """
    A read that began with a live session ends with it, also when it is disposed meanwhile.
    """
    live.create("s1", seed=messages(1_100))
    found = query.read_log("s1")
    next(found)
    live.dispose("s1")

    assert 1_100 == len(list(found))


def test_documents_are_events_with_text(query: SessionQuery, store: EventStore) -> None:
    """
    Filtering gives role and text, in seq order, and leaves out what says nothing.
    """
    store.append(
        make_header(seed_length=1),
        [
            said(0, "user", "  find the bug  "),
            event(1, "turn/start", {"turn": 1}),
            said(2, "assistant", "found it"),
            event(3, "tool/call", {"name": "read", "arguments": "{}"}),
            said(4, "user", "   "),
        ],
    )
    found = query.filter_events("s1").items

    assert [
        (0, "user", "find the bug", True),
        (2, "assistant", "found it", False),
        (3, None, "read\n{}", False),
    ] == [(d.seq, d.role, d.text, d.inherited) for d in found]
    assert EventClass.LOG_ONLY is found[2].event_class


@pytest.mark.parametrize("limit", [1, 3, 7, 50])
def test_filtered_pages_are_full(query: SessionQuery, store: EventStore, limit: int) -> None:
    """
    A filtered page is scanned on until it is full, over any number of misses.
    """
    events = [log_only(seq) if seq % 97 else message(seq, "a needle") for seq in range(2_000)]
    store.append(make_header(), events)
    expected = [seq for seq in range(2_000) if seq % 97 == 0]
    listed = list(
        pages(
            lambda cursor: query.list_events(
                "s1", limit=limit, cursor=cursor, filters=[Types(["user/message"])]
            )
        )
    )
    filtered = list(
        pages(
            lambda cursor: query.filter_events("s1", [Text("NEEDLE")], limit=limit, cursor=cursor)
        )
    )

    for walk in (listed, filtered):
        assert expected == [seq for page in walk for seq in seqs(page.items)]
        assert all(limit == len(page.items) for page in walk[:-1])


def test_an_own_type_has_text_by_its_vocabulary(memory: EventStore) -> None:
    """
    A harness's own types are found by their text once it has said what that is.
    """
    memory.append(make_header(), [event(0, "acme/note", {"note": "remember"})])
    vocabulary = DEFAULT_VOCABULARY.with_types(
        {"acme/note": EventType(lambda data: [data.get("note")])}
    )

    assert () == SessionQuery(None, memory).filter_events("s1").items
    (found,) = SessionQuery(None, memory, vocabulary=vocabulary).filter_events("s1").items
    assert "remember" == found.text


def test_a_failing_text_function_is_named(memory: EventStore) -> None:
    """
    A vocabulary that raises is a fault of the configuration, not of the log.
    """

    def fail(data: dict[str, Any]) -> list[Any]:
        raise KeyError("note")

    memory.append(make_header(), [event(0, "acme/note")])
    query = SessionQuery(
        None, memory, vocabulary=DEFAULT_VOCABULARY.with_types({"acme/note": EventType(fail)})
    )

    with raises(Code.INVALID_CONFIG) as caught:
        query.filter_events("s1")
    assert isinstance(caught.value.__cause__, KeyError)


def test_inherited_events_are_flagged(query: SessionQuery, live: LiveSessions) -> None:
    """
    A fork's prefix is inherited; the mark that ends it, and what follows, is the child's own.
    """
    parent = live.create("parent", seed=messages(3))
    child = live.fork(parent, 1, session_id="child")
    listed = query.list_events("child").items

    assert [True, True, False] == [record.inherited for record in listed]
    assert 2 == child.header.seed_length
    assert not any(record.inherited for record in query.list_events("parent").items)


def test_f12_inherited_events_are_counted_once(
    query: SessionQuery, live: LiveSessions, store: EventStore
) -> None:
    """
    Forks copy their parent's history, and totals came out three times too high. By the
    flag the corpus has 10 events of the parent and 2 of each child besides their marks.
    """
    store.append(make_header("p", created_at=1), messages(10))
    for name in ("c1", "c2"):
        header = make_header(name, created_at=2, parent_session="p", seed_length=6)
        own = [event(6, "session/end-seed"), message(7, "own"), message(8, "own")]
        store.append(header, [*messages(6), *own])
    records = [
        record
        for session in query.list_sessions().items
        for record in query.list_events(session.header.id).items
    ]

    assert 10 + 3 + 3 == sum(not record.inherited for record in records)
    assert [("c1", True), ("c2", True), ("p", False)] == sorted(
        (document.session_id, document.inherited)
        for session in query.list_sessions().items
        for document in query.filter_events(session.header.id, [Text("text 3")]).items
    )


def test_answers_are_detached(query: SessionQuery, live: LiveSessions) -> None:
    """
    What a caller does with the data of an answer reaches no later answer.
    """
    session = live.create("s1", seed=messages(1), extra={"team": ["a"]})
    answer = query.read_event("s1", 0)
    answer.target.data["content"].clear()
    answer.header.extra["team"].append("b")

    assert "text 0" == query.read_event("s1", 0).target.data["content"][0]["text"]
    assert {"team": ["a"]} == query.read_surface("s1").header.extra == session.header.extra


def test_records_are_written_as_json(query: SessionQuery, store: EventStore) -> None:
    """
    The project's converter turns every record into JSON values under its own names.
    """
    store.append(make_header(), COMPACTED)
    window = converter.unstructure(query.read_event("s1", 11))
    trace = converter.unstructure(query.trace_event("s1", 0))
    page = converter.unstructure(query.list_sessions())

    assert {"header", "target", "events", "start_seq", "end_seq"} == window.keys()
    assert {"note": 11} == window["target"]["data"]
    assert ("shadowed", 10) == (trace["target"]["event_class"], trace["current_seq"])
    assert "s1" == page["items"][0]["header"]["id"]


CALLS: dict[str, Callable[[SessionQuery, Any], Any]] = {
    "list_sessions": lambda query, cancel: query.list_sessions(cancel=cancel),
    "list_events": lambda query, cancel: query.list_events("s1", cancel=cancel),
    "read_event": lambda query, cancel: query.read_event("s1", 0, cancel=cancel),
    "read_surface": lambda query, cancel: query.read_surface("s1", cancel=cancel),
    "read_log": lambda query, cancel: list(query.read_log("s1", cancel=cancel)),
    "trace_event": lambda query, cancel: query.trace_event("s1", 0, cancel=cancel),
    "trace_session": lambda query, cancel: query.trace_session("s1", cancel=cancel),
    "filter_events": lambda query, cancel: query.filter_events("s1", cancel=cancel),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_cancelled_call_is_aborted(memory: EventStore, call: str) -> None:
    """
    A call ends with ABORTED once its *cancel* answers true, also behind the last read.
    """
    memory.append(make_header(), messages(3))
    query = SessionQuery(None, memory)
    asked = 0

    def count() -> bool:
        nonlocal asked
        asked += 1
        return False

    CALLS[call](query, count)
    assert 1 <= asked
    for patience in range(asked):
        answers = iter([False] * patience + [True])
        with raises(Code.ABORTED):
            CALLS[call](query, lambda answers=answers: next(answers))


@pytest.mark.parametrize("call", CALLS)
def test_what_cancel_raises_is_its_owners(memory: EventStore, call: str) -> None:
    """
    An exception of *cancel* comes back as it is; one that cannot be called is refused.
    """
    memory.append(make_header(), messages(3))
    query = SessionQuery(None, memory)

    class Stop(Exception):
        pass

    def stop() -> bool:
        raise Stop

    with pytest.raises(Stop):
        CALLS[call](query, stop)
    with raises(Code.INVALID_CONFIG):
        CALLS[call](query, 7)


def test_a_long_scan_asks_on_the_way(memory: EventStore) -> None:
    """
    A scan over a long log that finds nothing can be stopped before it has read it all.
    """
    memory.append(make_header(), [log_only(seq) for seq in range(20_000)])
    memory.meter.reset()
    answers = iter([False] * 5 + [True])

    with raises(Code.ABORTED):
        SessionQuery(None, memory).filter_events(
            "s1", [Text("absent")], cancel=lambda: next(answers)
        )
    assert 0 < memory.meter.records < 5_000


@pytest.mark.parametrize("cursor", ["", "x", "🔑", "a" * 10_000, 5, b"x", "====", "\ud800"])
def test_a_foreign_cursor_is_refused(memory: EventStore, cursor: Any) -> None:
    """
    What is no cursor of ours is INVALID_CURSOR, whatever it is.
    """
    memory.append(make_header(), messages(3))
    query = SessionQuery(None, memory)

    for ask in (
        lambda: query.list_sessions(cursor=cursor),
        lambda: query.list_events("s1", cursor=cursor),
        lambda: query.filter_events("s1", cursor=cursor),
    ):
        with raises(Code.INVALID_CURSOR):
            ask()


def test_a_cursor_belongs_to_its_call(memory: EventStore) -> None:
    """
    A cursor of another session, other filters, another length or another call is refused.
    """
    for name in ("s1", "s2"):
        memory.append(make_header(name), messages(5))
    query = SessionQuery(None, memory)
    cursor = query.list_events("s1", limit=2).next_cursor
    sessions = query.list_sessions(limit=1).next_cursor

    for ask in (
        lambda: query.list_events("s2", cursor=cursor),
        lambda: query.list_events("s1", cursor=cursor, filters=[Seq(0, 3)]),
        lambda: query.list_events("s1", cursor=cursor, at=4),
        lambda: query.filter_events("s1", cursor=cursor),
        lambda: query.list_sessions(cursor=cursor),
        lambda: query.list_events("s1", cursor=sessions),
    ):
        with raises(Code.INVALID_CURSOR):
            ask()
    assert [2, 3] == seqs(query.list_events("s1", limit=2, cursor=cursor).items)


def test_cursors_work_in_another_process(tmp_path: Any) -> None:
    """
    A cursor is a plain text that another process continues from.
    """
    url = f"jsonl:{tmp_path}"
    with open_store(url) as store:
        for number in range(3):
            store.append(make_header(f"s{number}", created_at=number), messages(4))
        query = SessionQuery(None, store)
        tokens = [
            query.list_sessions(limit=1).next_cursor,
            query.list_events("s0", limit=1, filters=[Time(0, 5_000)]).next_cursor,
        ]
    script = (
        "import sys; from eventlog import open_store; from eventlog.query import *\n"
        "query = SessionQuery(None, open_store(sys.argv[1], read_only=True))\n"
        "print(*(s.header.id for s in query.list_sessions(cursor=sys.argv[2]).items))\n"
        "page = query.list_events('s0', cursor=sys.argv[3], filters=[Time(0, 5_000)])\n"
        "print(*(e.seq for e in page.items))\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script, url, *map(str, tokens)],
        check=True,
        capture_output=True,
        text=True,
    )

    assert ["s1 s0", "1 2 3"] == answer.stdout.splitlines()


@pytest.mark.parametrize("session_id", ["", "x" * 300, "a\nb", "\ud800", 5, None, b"s1", "nope"])
def test_a_session_that_cannot_be_is_not_found(memory: EventStore, session_id: Any) -> None:
    """
    An unknown id, and what can be no id, is SESSION_NOT_FOUND in every call.
    """
    memory.append(make_header(), messages(3))
    query = SessionQuery(LiveSessions(), memory)

    for ask in (
        lambda: query.list_events(session_id),
        lambda: query.read_event(session_id, 0),
        lambda: query.read_surface(session_id),
        lambda: query.read_log(session_id),
        lambda: query.trace_event(session_id, 0),
        lambda: query.trace_session(session_id),
        lambda: query.filter_events(session_id),
    ):
        with raises(Code.SESSION_NOT_FOUND):
            ask()


def test_query_errors_are_told_apart_by_code() -> None:
    """
    An error carries code, detail and session, and survives pickle and copy.
    """
    error = SessionQueryError(Code.INVALID_WINDOW, "before is too large", "s1")

    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (error.code, error.detail, error.session_id) == (
            twin.code,
            twin.detail,
            twin.session_id,
        )
    assert "SESSION_QUERY_INVALID_WINDOW: before is too large" == str(error)
    assert all(f"SESSION_QUERY_{code.name}" == code for code in Code)
    assert 17 == len(Code)
