"""Searching one session."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, cycle, repeat
from random import Random
from typing import Any

import pytest

from eventlog import EventClass, EventStore, LiveSessions
from eventlog.query import (
    Classes,
    ScanProvider,
    SearchMode,
    Seq,
    SessionQuery,
    SessionQueryErrorCode,
    Sort,
    Text,
    Time,
    Types,
)
from eventlog.query.search.parsing import QUERY_CHARS_MAX
from eventlog.vocabulary import DEFAULT_VOCABULARY
from support import log_only, make_header, message, replacement
from support.query import event, raises, said
from support.searching import filled, found, walked

Code = SessionQueryErrorCode


@pytest.fixture(params=["index", "scan"])
def query(request: pytest.FixtureRequest, memory: EventStore) -> SessionQuery:
    """Queries over *memory*, with an index and without."""
    provider = ScanProvider(DEFAULT_VOCABULARY) if request.param == "scan" else None
    return SessionQuery(store=memory, search=provider)


def test_tiers_come_best_first(memory: EventStore, query: SessionQuery) -> None:
    """The phrase, words near each other, all words, other spellings, any word: in this order."""
    gap = " filler" * 20
    filled(
        memory,
        [
            "nothing of it",
            "only alpha here",
            f"alpha{gap} bravo",
            "alpah and bravo",
            "bravo, then alpha",
            "the alpha bravo",
        ],
    )

    page = query.search_events("s1", "alpha bravo")

    assert [5, 4, 2, 3, 1] == [hit.seq for hit in page.items]
    assert [5, 4, 3, 2, 1] == [int(hit.score) for hit in page.items]
    assert 6 == page.searched
    assert 5 == page.indexed_through


def test_a_rarer_word_that_looks_like_a_typo_is_followed_by_what_was_meant(
    memory: EventStore, query: SessionQuery
) -> None:
    """A query that stands in the log as it is still finds its neighbours, behind it."""
    filled(memory, ["the form is sent", "sent from here", "from there"])

    assert [0, 2, 1] == found(query, "form")


def test_equals_come_newest_first(memory: EventStore, query: SessionQuery) -> None:
    """Texts that match equally well are ordered by time, the newest first."""
    filled(memory, ["same word"] * 5)

    assert [4, 3, 2, 1, 0] == found(query, "same word")


def test_the_query_to_the_letter_comes_before_its_folded_forms(
    memory: EventStore, query: SessionQuery
) -> None:
    """Of equally good matches the one with the query's case, accents and signs is first."""
    filled(memory, ["a Café there", "a cafe there", "a CAFÉ there"])

    assert 0 == found(query, "Café")[0]
    assert 2 == found(query, "CAFÉ")[0]
    assert 3 == len(found(query, "cafe"))


def test_a_blank_query_lists_the_newest(memory: EventStore, query: SessionQuery) -> None:
    """Nothing to look for is a listing, newest first, and pages go on behind one another."""
    filled(memory, [f"text {n}" for n in range(7)])

    page = query.search_events("s1", "  ", limit=3)
    walk = walked(query.search_events, "s1", "", limit=3)

    assert SearchMode.NEWEST is page.mode
    assert [6, 5, 4] == [hit.seq for hit in page.items]
    assert [6, 5, 4, 3, 2, 1, 0] == [hit.seq for hit in walk]
    assert {0.0} == {hit.score for hit in walk}


def test_a_query_of_signs_is_looked_for_to_the_letter(
    memory: EventStore, query: SessionQuery
) -> None:
    """Without a word the very characters are looked for, newest first."""
    filled(memory, ["a 🔑 b", "nothing", "** bold **", "🔑🔑", "x"] * 3)

    page = query.search_events("s1", "🔑")

    assert SearchMode.LITERAL is page.mode
    assert [13, 10, 8, 5, 3, 0] == [hit.seq for hit in page.items]
    walk = walked(query.search_events, "s1", "**", limit=1)
    assert [12, 7, 2] == [hit.seq for hit in walk]


def test_sort_by_time_is_newest_first_among_all_words(
    memory: EventStore, query: SessionQuery
) -> None:
    """By time the best group alone is listed, and how well each matches does not count."""
    filled(memory, ["alpha bravo", "alpha", "bravo x alpha", "alpah bravo", "alpha bravo alpha"])

    walk = walked(query.search_events, "s1", "alpha bravo", sort=Sort.TIME, limit=2)
    typo = query.search_events("s1", "alphx bravo", sort="time")

    assert [4, 2, 0] == [hit.seq for hit in walk]
    assert [4, 2, 0] == [hit.seq for hit in typo.items if hit.seq != 3]


def test_a_hit_says_where_it_stands(memory: EventStore, query: SessionQuery) -> None:
    """A hit has role, turn, time, class and whether it is inherited."""
    header = make_header("s1", parent_session="p", seed_length=2)
    events = [
        said(0, "user", "needle asked", time=5),
        said(1, "assistant", "needle answered", time=4),
        event(2, "turn/start", {"turn": 7}),
        said(3, "user", "needle again", time=9),
        replacement(4, 0, 1, [0, 1], time=10),
    ]
    memory.append(header, events)

    hits = {hit.seq: hit for hit in query.search_events("s1", "needle").items}

    assert {0, 1, 3} == hits.keys()
    assert ("user", None, 5, EventClass.SHADOWED, True) == (
        hits[0].role,
        hits[0].turn,
        hits[0].time,
        hits[0].event_class,
        hits[0].inherited,
    )
    assert ("assistant", 4) == (hits[1].role, hits[1].time)
    assert (7, EventClass.CURRENT, False) == (
        hits[3].turn,
        hits[3].event_class,
        hits[3].inherited,
    )
    assert "s1" == hits[3].session_id


def test_filters_are_applied_before_the_page_is_cut(
    memory: EventStore, query: SessionQuery
) -> None:
    """Filters by seq, time, type, class and text narrow what matches, all of them together."""
    memory.append(
        make_header("s1"),
        [
            *(message(n, f"needle {n} {'even' if n % 2 == 0 else 'odd'}") for n in range(6)),
            log_only(6, "tool/call", data={"name": "needle", "arguments": "x"}),
            replacement(7, 0, 2, [0, 1, 2]),
        ],
    )

    assert [5, 4] == found(query, "needle", filters=[Seq(4, 5)])
    assert [3, 2] == found(query, "needle", filters=[Time(1_002, 1_003)])
    assert [6] == found(query, "needle", filters=[Types(["tool/call"])])
    assert [2, 1, 0] == found(query, "needle", filters=[Classes(["shadowed"])])
    assert [6] == found(query, "needle", filters=[Classes(["log-only"])])
    assert [4, 2, 0] == found(query, "needle", filters=[Text("EVEN")])
    assert [4] == found(query, "needle", filters=[Text("even"), Classes(["current"])])
    assert [] == found(query, "needle", filters=[Types([])])
    assert [] == found(query, "needle", filters=[Types(["never/seen"])])
    assert [4, 2, 0] == [
        hit.seq
        for hit in walked(query.search_events, "s1", "needle", filters=[Text("even")], limit=1)
    ]


def test_searched_counts_what_filters_let_through(memory: EventStore, query: SessionQuery) -> None:
    """An answer says how many entries it searched: by type and seq, not by what matched."""
    memory.append(
        make_header("s1"),
        [
            *(message(n, "word") for n in range(4)),
            log_only(4, "tool/call", data={"name": "word"}),
            log_only(5, "x/silent"),
        ],
    )

    assert 5 == query.search_events("s1", "absent").searched
    assert 4 == query.search_events("s1", "x", filters=[Types(["user/message"])]).searched
    assert 2 == query.search_events("s1", "x", filters=[Seq(1, 2)]).searched
    assert 0 == query.search_events("s1", "x", filters=[Types([])]).searched


def test_a_log_whose_fold_fails_is_searched(tmp_path_factory: pytest.TempPathFactory) -> None:
    """F1: a log that cites a missing node has no surface, but it is searched and says so."""
    from eventlog import open_store
    from support.query import plant

    root = tmp_path_factory.mktemp("logs") / "store"
    broken = replacement(6, 3, 5, [3, 4, 5, 7])
    plant(root, make_header("s1"), [*(message(n, f"needle {n}") for n in range(6)), broken])
    with open_store(f"jsonl:{root}") as store:
        query = SessionQuery(store=store)

        page = query.search_events("s1", "needle")

        assert {0, 1, 2, 3, 4, 5} == {hit.seq for hit in page.items}
        assert {"s1"} == {fault.session_id for fault in page.faults}
        assert ["s1"] == [hit.record.header.id for hit in query.search_sessions("needle").items]
        query.engines.close()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"query": 5}, Code.INVALID_QUERY),
        ({"query": "x" * (QUERY_CHARS_MAX + 1)}, Code.INVALID_QUERY),
        ({"query": "half \ud83d"}, Code.INVALID_QUERY),
        ({"limit": 0}, Code.INVALID_LIMIT),
        ({"limit": True}, Code.INVALID_LIMIT),
        ({"filters": "x"}, Code.INVALID_FILTER),
        ({"filters": [5]}, Code.INVALID_FILTER),
        ({"cursor": "zz"}, Code.INVALID_CURSOR),
        ({"cursor": 5}, Code.INVALID_CURSOR),
        ({"sort": "best"}, Code.INVALID_CONFIG),
        ({"cancel": 5}, Code.INVALID_CONFIG),
        ({"cancel": lambda: True}, Code.ABORTED),
        ({"session_id": "other"}, Code.SESSION_NOT_FOUND),
    ],
)
def test_bad_arguments(
    memory: EventStore, query: SessionQuery, options: dict[str, object], code: Code
) -> None:
    """Every bad argument has its code."""
    filled(memory, ["a", "b"])
    with raises(code):
        query.search_events(**({"session_id": "s1", "query": "a"} | options))  # type: ignore[arg-type]


@pytest.mark.parametrize("across", [False, True])
def test_a_search_by_text_asks_cancel_on_the_way(
    memory: EventStore, query: SessionQuery, across: bool
) -> None:
    """
    What is looked for to the letter is looked for by reading match after match, and a
    search that found nothing asked whether it was still wanted only at its end.
    """
    filled(memory, [f"needle {n}" for n in range(100)])
    asked: list[int] = []

    def cancel() -> bool:
        asked.append(len(asked))
        return len(asked) == 20

    with raises(Code.ABORTED):
        if across:
            query = SessionQuery(store=memory)
            query.search_sessions("needle", event_filters=[Text("absent")], cancel=cancel)
        else:
            query.search_events("s1", "needle", filters=[Text("absent")], cancel=cancel)
    assert 20 == len(asked)


def test_a_cursor_belongs_to_its_search(memory: EventStore, query: SessionQuery) -> None:
    """A cursor of another query, session, filter or order is refused."""
    filled(memory, ["same word"] * 5)
    filled(memory, ["same word"] * 5, "s2")
    cursor = query.search_events("s1", "same", limit=2).next_cursor

    assert 3 == len(query.search_events("s1", "same", cursor=cursor).items)
    for arguments, options in (
        (("s1", "word"), {}),
        (("s2", "same"), {}),
        (("s1", "same"), {"sort": "time"}),
        (("s1", "same"), {"filters": [Seq(0, 3)]}),
    ):
        with raises(Code.INVALID_CURSOR):
            query.search_events(*arguments, cursor=cursor, **options)


@pytest.mark.parametrize("sort", ["relevance", "time"])
@pytest.mark.parametrize("typed", ["delta 雨 alpha", "betta gamma"])
def test_a_walk_goes_on_with_any_engine(memory: EventStore, sort: Sort, typed: str) -> None:
    """
    An index may fail between two pages. An index ranked what has any of the words in two
    steps, and a scan in one, so that a walk gave matches twice and lost some without a word.
    """
    words = ["alpha", "beta", "betas", "gamma", "delta", "雨", "雨天"]
    random = Random(2)
    filled(memory, [" ".join(random.choices(words, k=2)) for _ in range(40)])
    engines = [SessionQuery(store=memory)]
    engines.append(SessionQuery(store=memory, search=ScanProvider(DEFAULT_VOCABULARY)))
    whole = sorted(found(engines[0], typed, limit=100, sort=sort))

    for limit in (1, 2, 3, 7, 12):
        for turns in (cycle((0, 1)), chain([0], repeat(1)), chain([1], repeat(0))):

            def ask(*arguments: Any, turns: Iterator[int] = turns, **options: Any) -> Any:
                return engines[next(turns)].search_events(*arguments, **options)

            walk = walked(ask, "s1", typed, limit=limit, sort=sort)
            assert whole == sorted(hit.seq for hit in walk)


def test_a_walk_over_a_replaced_log_is_stale(memory: EventStore, query: SessionQuery) -> None:
    """Once another log has the session's id, a cursor of the old one says so."""
    filled(memory, ["same word"] * 5)
    cursor = query.search_events("s1", "same", limit=2).next_cursor
    memory.delete("s1")
    memory.delete("s1", forget=True)
    filled(memory, ["same other word"] * 5)

    with raises(Code.STALE_CURSOR):
        query.search_events("s1", "same", cursor=cursor)


def test_a_cursor_works_in_another_query_object(memory: EventStore) -> None:
    """A walk goes on in another object and with another engine, while the log grows."""
    filled(memory, [f"same word {n}" for n in range(9)])
    page = SessionQuery(store=memory).search_events("s1", "same word", limit=4)
    filled(memory, ["same word, later"] * 3)
    scan = SessionQuery(store=memory, search=ScanProvider(DEFAULT_VOCABULARY))

    rest = scan.search_events("s1", "same word", cursor=page.next_cursor)

    assert [8, 7, 6, 5] == [hit.seq for hit in page.items]
    assert [4, 3, 2, 1, 0] == [hit.seq for hit in rest.items]


def test_classes_are_those_of_the_walks_beginning(memory: EventStore, query: SessionQuery) -> None:
    """What is shadowed between two pages is current on both."""
    filled(memory, ["same word"] * 4)
    options = {"filters": [Classes(["current"])], "limit": 2}
    page = query.search_events("s1", "same", **options)  # type: ignore[arg-type]
    memory.append(make_header("s1"), [replacement(4, 0, 1, [0, 1])])

    rest = query.search_events("s1", "same", cursor=page.next_cursor, **options)  # type: ignore[arg-type]

    assert [1, 0] == [hit.seq for hit in rest.items]
    assert {EventClass.CURRENT} == {hit.event_class for hit in rest.items}
    assert [3, 2] == found(query, "same", filters=[Classes(["current"])])


def test_a_live_session_is_searched_without_the_store() -> None:
    """A search of a live session never touches the store, not even a broken one."""
    from eventlog.errors import StoreUnavailable
    from support.query import BrokenStore

    live = LiveSessions()
    session = live.create("s1")
    session.append("user/message", message(0, "needle").data, surface_op=message(0).surface_op)
    store = BrokenStore(StoreUnavailable("x"))
    query = SessionQuery(live, store)

    assert [0] == found(query, "needle")
    session.append("user/message", message(1, "needle 2").data, surface_op=message(1).surface_op)
    assert [1, 0] == found(query, "needle")
    assert 0 == store.calls
    with raises(Code.PERSISTENCE_FAILED):
        query.search_sessions("needle")


def test_search_can_be_switched_off(memory: EventStore) -> None:
    """Without search every search says SEARCH_DISABLED, and all else works."""
    filled(memory, ["a"])
    query = SessionQuery(store=memory, search=False)

    with raises(Code.SEARCH_DISABLED):
        query.search_events("s1", "a")
    with raises(Code.SEARCH_DISABLED):
        query.search_sessions("a")
    assert 1 == len(query.list_sessions().items)


def test_search_takes_only_a_provider(memory: EventStore) -> None:
    """Anything else as *search* is INVALID_CONFIG."""
    with raises(Code.INVALID_CONFIG):
        SessionQuery(store=memory, search="fts")  # type: ignore[arg-type]


def test_a_common_word_is_ranked_in_windows(memory: EventStore) -> None:
    """
    Of more than 2,000 matches the newest are ranked together and given first, and the mode
    says so; a walk goes on to the older ones and gives each once.
    """
    filled(memory, [f"common {'common ' * (n % 3)}word {n % 7}" for n in range(4_500)])
    query = SessionQuery(store=memory)

    page = query.search_events("s1", "common", limit=50)
    walk = walked(query.search_events, "s1", "common", limit=700)

    assert SearchMode.WINDOW is page.mode
    assert all(hit.seq >= 2_500 for hit in page.items)
    seqs = [hit.seq for hit in walk]
    assert {*range(4_500)} == {*seqs}
    assert 4_500 == len(seqs)
    assert {*range(2_500, 4_500)} == {*seqs[:2_000]}
    assert {*range(500, 2_500)} == {*seqs[2_000:4_000]}
    scores = [hit.score for hit in walk]
    assert sorted(scores, reverse=True) == scores
    by_time = walked(query.search_events, "s1", "common", limit=1_500, sort="time")
    assert [*range(4_499, -1, -1)] == [hit.seq for hit in by_time]


def test_a_walk_that_no_cursor_can_hold_ends_with_a_fault(
    memory: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A scan of a session ranks all matches together, and its cursor holds what was given. A
    walk through very many of them went on with a cursor that was then refused.
    """
    for module in ("cursors", "search.walks"):
        monkeypatch.setattr(f"eventlog.query.{module}.CURSOR_CHARS_MAX", 400, raising=False)
    filled(memory, Random(3).choices(["needle", "hay"], k=2_000))
    query = SessionQuery(store=memory, search=ScanProvider(DEFAULT_VOCABULARY))

    pages = [query.search_events("s1", "needle", limit=limit) for limit in (5, 900)]

    assert [[], ["walk"]] == [[fault.kind for fault in page.faults] for page in pages]
    assert [False, True] == [page.next_cursor is None for page in pages]
    assert 5 == len(query.search_events("s1", "needle", limit=5, cursor=pages[0].next_cursor).items)
