"""Searching many sessions, live and stored."""

from __future__ import annotations

from random import Random
from threading import Event, Thread
from typing import Any

import pytest

from eventlog import EventStore, LiveSessions, Session, SessionHeader
from eventlog.query import (
    Availability,
    Classes,
    CreatedAt,
    Cwd,
    Ids,
    Parent,
    ScanProvider,
    SessionQuery,
    SessionQueryErrorCode,
    Text,
    Types,
)
from eventlog.vocabulary import DEFAULT_VOCABULARY
from support import log_only, make_header, message, replacement
from support.query import raises
from support.searching import filled, sessions_found, walked

Code = SessionQueryErrorCode


def say(session: Session, *texts: str) -> None:
    """Append messages to a live session."""
    for text in texts:
        event = message(0, text)
        session.append(event.type, event.data, surface_op=event.surface_op)


def test_each_session_is_given_by_its_best_event(memory: EventStore, query: SessionQuery) -> None:
    """A session stands once, where its best event does."""
    filled(memory, ["alpha", "alpha bravo", "bravo"], "a", created_at=1)
    filled(memory, ["bravo", "bravo then alpha"], "b", created_at=2)
    filled(memory, ["neither"], "c", created_at=3)

    page = query.search_sessions("alpha bravo")

    assert [("a", 1, 5), ("b", 1, 4)] == [
        (hit.record.header.id, hit.best_match.seq, int(hit.best_match.score)) for hit in page.items
    ]
    assert (True, False) == (page.items[0].record.persisted, page.items[0].record.live)
    assert 6 == page.searched


def test_session_filters_are_applied_in_the_engine(memory: EventStore, query: SessionQuery) -> None:
    """Filters by id, folder, parent, creation time and availability, alone and together."""
    for number, (cwd, parent) in enumerate([("/a", None), ("/b", "s0"), (None, "s0"), ("/a", "x")]):
        header: dict[str, Any] = {"cwd": cwd, "parent_session": parent}
        filled(memory, ["needle"], f"s{number}", created_at=number, **header)

    def found(*filters: Any) -> set[str]:
        return set(sessions_found(query, "needle", session_filters=filters))

    assert {"s1", "s3"} == found(Ids(["s1", "s3", "nope"]))
    assert {"s0", "s3"} == found(Cwd(["/a"]))
    assert {"s2"} == found(Cwd([None]))
    assert {"s1", "s2"} == found(Parent(["s0"]))
    assert {"s0", "s3"} == found(Parent([None, "x"]))
    assert {"s1", "s2"} == found(CreatedAt(1, 2))
    assert {"s3"} == found(Cwd(["/a"]), Parent(["x"]))
    assert set() == found(Cwd([]))
    assert {"s0", "s1", "s2", "s3"} == found(Availability(["persisted"]))
    assert set() == found(Availability(["live"]))


def test_event_filters_choose_the_best_event_among_what_passes(
    memory: EventStore, query: SessionQuery
) -> None:
    """A session whose best event does not pass is given by the next one that does."""
    memory.append(
        make_header("s1"),
        [
            message(0, "alpha bravo"),
            message(1, "alpha, not so near the other word, bravo"),
            log_only(2, "tool/call", data={"name": "alpha"}),
            replacement(3, 0, 0, [0]),
        ],
    )

    def best(*filters: Any) -> list[int]:
        page = query.search_sessions("alpha bravo", event_filters=filters)
        return [hit.best_match.seq for hit in page.items]

    assert [0] == best()
    assert [1] == best(Classes(["current"]))
    assert [1] == best(Text("not so"))
    assert [2] == best(Types(["tool/call"]))
    assert [] == best(Text("not so"), Types(["tool/call"]))


def test_live_sessions_win_over_their_stored_copies(memory: EventStore) -> None:
    """A session that is live is searched as it lives, once, beside the stored ones."""
    filled(memory, ["needle stored"], "both", created_at=1_000)
    filled(memory, ["needle too"], "stored", created_at=1_000)
    live = LiveSessions()
    say(live.create("both", created_at=1_000), "needle live", "more")
    say(live.create("alive", created_at=1_000), "a needle")
    query = SessionQuery(live, memory)

    page = query.search_sessions("needle")

    found = {hit.record.header.id: hit for hit in page.items}
    assert {"both", "stored", "alive"} == found.keys()
    assert len(page.items) == 3
    assert "needle live" == found["both"].best_match.excerpt
    assert (True, True) == (found["both"].record.live, found["both"].record.persisted)
    assert (True, False) == (found["alive"].record.live, found["alive"].record.persisted)
    assert 4 == page.searched
    both = sessions_found(query, "needle", session_filters=[Availability(["live"])])
    assert {"both", "alive"} == set(both)
    persisted = sessions_found(query, "needle", session_filters=[Availability(["persisted"])])
    assert {"both", "stored"} == set(persisted)


def test_a_live_word_weighs_as_much_as_a_stored_one(memory: EventStore) -> None:
    """
    Two live sessions that are all about one word were ranked below every stored one,
    because the word is common among them; all sessions together are what counts.
    """
    for number in range(30):
        filled(memory, ["many other words here", "and more of them"], f"s{number}")
    filled(memory, ["needle in a text with a good many other words around"], "stored")
    live = LiveSessions()
    say(live.create("alive"), "needle")
    query = SessionQuery(live, memory)

    assert ["alive", "stored"] == sessions_found(query, "needle")


def test_a_disposed_session_is_found_in_the_store(memory: EventStore) -> None:
    """What leaves the live sessions leaves their index; its stored copy is found instead."""
    live = LiveSessions()
    session = live.create("s1", created_at=5)
    say(session, "needle")
    query = SessionQuery(live, memory)
    assert [True] == [hit.record.live for hit in query.search_sessions("needle").items]

    memory.append(session.header, session.snapshot().read(0, 10))
    live.dispose(session)

    assert [False] == [hit.record.live for hit in query.search_sessions("needle").items]


def test_h13_the_limit_is_that_of_the_merged_answer(memory: EventStore) -> None:
    """
    H13: with five hits in each source a limit applied to each gave twice as many. There
    are exactly so many, in one order, each session once, its live copy before the stored.
    """
    live = LiveSessions()
    for number in range(5):
        filled(memory, [f"needle {number}"], f"stored{number}", created_at=number)
        say(live.create(f"live{number}", created_at=number), f"needle {number}")
    filled(memory, ["needle 0"], "live0", created_at=0)
    query = SessionQuery(live, memory)

    page = query.search_sessions("needle", limit=5)
    everything = walked(query.search_sessions, "needle", limit=5)

    assert 5 == len(page.items)
    ids = [hit.record.header.id for hit in everything]
    assert 10 == len(ids) == len(set(ids))
    assert page.items == query.search_sessions("needle", limit=5).items
    (both,) = [hit for hit in everything if hit.record.header.id == "live0"]
    assert (True, True) == (both.record.live, both.record.persisted)


def fork(store: EventStore, parent: str, child: str, length: int, *own: str, at: int) -> None:
    """Store a child that begins with *length* events of its parent."""
    inherited = store.snapshot(parent).read(0, length)
    header = SessionHeader(child, at, parent_session=parent, seed_length=length)
    store.append(header, [*inherited, *(message(length + n, text) for n, text in enumerate(own))])


def test_f12_an_inherited_event_is_found_once(memory: EventStore, query: SessionQuery) -> None:
    """
    F12: forks copy their parent's history, so a word of the parent was found three times.
    It is found once, under the parent; within a fork it is found and marked as inherited.
    """
    filled(memory, [f"word{n}" for n in range(10)], "p", created_at=1)
    fork(memory, "p", "c1", 6, "own1", "own2", at=2)
    fork(memory, "p", "c2", 6, "own3", "own4", at=3)

    assert ["p"] == sessions_found(query, "word3")
    assert ["p"] == sessions_found(query, "word9")
    assert ["c1"] == sessions_found(query, "own1")
    (hit,) = query.search_events("c1", "word3").items[:1]
    assert (3, True) == (hit.seq, hit.inherited)
    (own,) = query.search_events("c1", "own1").items[:1]
    assert (6, False) == (own.seq, own.inherited)


def test_an_inherited_event_is_shown_under_the_fork_where_its_owner_is_not_searched(
    memory: EventStore, query: SessionQuery
) -> None:
    """Out of scope or deleted, the owner leaves the event to the eldest of its forks."""
    filled(memory, [f"word{n}" for n in range(10)], "p", created_at=1)
    fork(memory, "p", "c1", 6, "own1", at=2)
    fork(memory, "p", "c2", 8, "own2", at=3)
    fork(memory, "c2", "g", 9, "own3", at=4)

    forks = [Ids(["c1", "c2", "g"])]
    assert ["c1"] == sessions_found(query, "word3", session_filters=forks)
    assert ["c2"] == sessions_found(query, "word7", session_filters=forks)
    assert ["g"] == sessions_found(query, "word7", session_filters=[Ids(["g"])])
    assert ["c2"] == sessions_found(query, "own2", session_filters=[Ids(["c2", "g"])])
    memory.delete("p")
    assert ["c1"] == sessions_found(query, "word3")
    assert ["c2"] == sessions_found(query, "word7")
    assert [] == sessions_found(query, "word9")


def test_a_header_that_lies_about_its_seed_hides_nothing(
    memory: EventStore, query: SessionQuery
) -> None:
    """What the parent does not really have is shown under the fork that has it."""
    filled(memory, ["same", "parent only"], "p", created_at=1)
    header = SessionHeader("c", 2, parent_session="p", seed_length=3)
    memory.append(header, [message(0, "same"), message(1, "child only"), message(2, "third")])

    assert ["p"] == sessions_found(query, "same")
    assert ["c"] == sessions_found(query, "child only")[:1]
    assert ["c"] == sessions_found(query, "third")


def test_a_live_fork_of_a_stored_parent_shows_its_own_only(memory: EventStore) -> None:
    """Inherited events are compared across the two sources."""
    filled(memory, [f"word{n}" for n in range(4)], "p", created_at=1)
    live = LiveSessions()
    seed = memory.snapshot("p").read(0, 2)
    child = live.create("c", created_at=2, parent_session="p", seed_length=2, seed=seed)
    say(child, "own word")
    query = SessionQuery(live, memory)

    assert ["p"] == sessions_found(query, "word1")
    assert "c" == sessions_found(query, "own")[0]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"query": ""}, Code.INVALID_QUERY),
        ({"query": " \t"}, Code.INVALID_QUERY),
        ({"query": "🔑"}, Code.INVALID_QUERY),
        ({"query": 5}, Code.INVALID_QUERY),
        ({"limit": 0}, Code.INVALID_LIMIT),
        ({"session_filters": "x"}, Code.INVALID_FILTER),
        ({"session_filters": [Types(["x"])]}, Code.INVALID_FILTER),
        ({"event_filters": [Ids(["x"])]}, Code.INVALID_FILTER),
        ({"cursor": "zz"}, Code.INVALID_CURSOR),
        ({"cancel": lambda: True}, Code.ABORTED),
    ],
)
def test_bad_arguments(
    memory: EventStore, query: SessionQuery, options: dict[str, Any], code: Code
) -> None:
    """Every bad argument has its code."""
    filled(memory, ["a", "b"])
    with raises(code):
        query.search_sessions(**({"query": "a"} | options))


def test_an_engine_without_an_index_is_refused(memory: EventStore) -> None:
    """Reading every log for a query is not what a search over sessions means."""
    filled(memory, ["a"])
    query = SessionQuery(store=memory, search=ScanProvider(DEFAULT_VOCABULARY))

    with raises(Code.INVALID_CONFIG):
        query.search_sessions("a")


def test_a_cursor_goes_stale_with_its_index(memory: EventStore) -> None:
    """An index built anew, or other sources, end a walk with STALE_CURSOR."""
    for number in range(4):
        filled(memory, ["needle"], f"s{number}")
    live = LiveSessions()
    say(live.create("alive"), "needle")
    query = SessionQuery(live, memory)
    cursor = query.search_sessions("needle", limit=2).next_cursor

    assert 3 == len(query.search_sessions("needle", cursor=cursor).items)
    with raises(Code.STALE_CURSOR):
        SessionQuery(store=memory).search_sessions("needle", cursor=cursor)
    query.engines.close()
    with raises(Code.STALE_CURSOR):
        query.search_sessions("needle", cursor=cursor)


def test_a_conflict_between_the_sources_is_one(memory: EventStore) -> None:
    """A session whose live and stored headers differ fails the search that finds it."""
    filled(memory, ["needle"], "s1", created_at=5, cwd="/a")
    live = LiveSessions()
    say(live.create("s1", created_at=5, cwd="/b"), "needle")

    with raises(Code.SOURCE_CONFLICT):
        SessionQuery(live, memory).search_sessions("needle")


def test_a_session_full_of_a_common_word_hides_no_other(
    memory: EventStore, query: SessionQuery
) -> None:
    """Beyond the newest 2,000 matches, all of one session, the other sessions are found."""
    for number in range(5):
        filled(memory, ["common word"] * 3, f"s{number}", created_at=number)
    filled(memory, ["common word"] * 2_500, "noisy", created_at=9)

    walk = walked(query.search_sessions, "common", limit=2)

    ids = [hit.record.header.id for hit in walk]
    assert "noisy" == ids[0]
    assert {"noisy", *(f"s{number}" for number in range(5))} == set(ids)
    assert 6 == len(ids)
    assert "window" == query.search_sessions("common").mode


@pytest.mark.parametrize("limit", [7, 100])
def test_many_equals_come_newest_first(memory: EventStore, query: SessionQuery, limit: int) -> None:
    """
    The best few matches are looked up first. Where more than these are alike, it is their
    time that says which come first, and not which the engine came upon first.
    """
    times = Random(5).sample(range(1_000), 200)
    for number, time in enumerate(times):
        text = "needle" if number % 20 == 0 else "needle in hay"
        memory.append(make_header(f"s{number}"), [message(0, text, time=time)])
    filled(memory, ["something else"] * 800, "other")
    assert 1_000 == query.search_sessions("needle").searched
    memory.delete("s0")

    walk = walked(query.search_sessions, "needle", limit=limit)

    ids = [int(hit.record.header.id[1:]) for hit in walk]
    expected = sorted(range(1, 200), key=lambda number: (number % 20 > 0, -times[number]))
    assert expected == ids


def test_threads_search_while_the_log_grows(memory: EventStore, query: SessionQuery) -> None:
    """Four threads search one index while another appends: no search misses what was there."""
    filled(memory, ["needle"], "s0")
    stop = Event()
    failures: list[BaseException] = []

    def search() -> None:
        try:
            while not stop.is_set():
                least = memory.heads(limit=100).items
                page = query.search_sessions("needle", limit=100)
                found = {hit.record.header.id for hit in page.items}
                assert {head.header.id for head in least} <= found
                assert query.search_events("s0", "needle").items
        except BaseException as error:
            failures.append(error)

    threads = [Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(1, 30):
        filled(memory, ["needle"], f"s{number}")
        filled(memory, ["needle"], "s0")
    stop.set()
    for thread in threads:
        thread.join()

    assert [] == failures
