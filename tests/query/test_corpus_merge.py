"""
The merge view: live and stored sessions as one corpus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from eventlog import Batch, EventStore, LiveSessions, LogSnapshot, SessionHeader, open_store
from eventlog.errors import CorruptLog, HeaderConflict, StoreClosed, StoreUnavailable
from eventlog.query import (
    Availability,
    CreatedAt,
    Cwd,
    Ids,
    OnConflict,
    Page,
    Parent,
    SessionQuery,
    SessionQueryErrorCode,
    SessionRecord,
)
from support import make_header, message, messages
from support.query import (
    BrokenStore,
    CountingStore,
    HookedStore,
    RewritingStore,
    pages,
    plant,
    raises,
)

Code = SessionQueryErrorCode


def ids(query: SessionQuery, **options: Any) -> list[str]:
    return [record.header.id for record in query.list_sessions(**options).items]


def walked(query: SessionQuery, **options: Any) -> Iterator[Page[SessionRecord]]:
    """Every page of a listing."""
    return pages(lambda cursor: query.list_sessions(cursor=cursor, **options))


def flags(record: SessionRecord) -> tuple[bool, bool]:
    return record.live, record.persisted


def adopted(live: LiveSessions, header: SessionHeader, count: int) -> None:
    """Make the session of *header* live, with *count* messages."""
    names = ("created_at", "cwd", "parent_session", "seed_length", "origin", "extra")
    session = live.create(
        header.id,
        delegation_depth=header.delegation_depth,
        agent_preset=header.agent_preset,
        **{name: getattr(header, name) for name in names},
    )
    for e in messages(count):
        session.append(e.type, e.data, surface_op=e.surface_op, time=e.time)


def test_one_listing_over_both_sources(
    query: SessionQuery, live: LiveSessions, store: EventStore
) -> None:
    """
    A listing has every session once, newest first, and says who holds it.
    """
    store.append(make_header("stored", created_at=3), messages(2))
    store.append(make_header("both", created_at=2), messages(2))
    adopted(live, make_header("both", created_at=2), 5)
    adopted(live, make_header("live", created_at=1), 0)
    stored, both, only_live = query.list_sessions().items

    assert ["stored", "both", "live"] == [r.header.id for r in (stored, both, only_live)]
    assert [(False, True), (True, True), (True, False)] == [
        flags(record) for record in (stored, both, only_live)
    ]
    assert [(2, 1_001), (5, 1_004), (0, None)] == [
        (record.length, record.last_time) for record in (stored, both, only_live)
    ]


def test_live_events_win(query: SessionQuery, live: LiveSessions, store: EventStore) -> None:
    """
    Every read of a session in both sources gives the live log.
    """
    header = make_header()
    store.append(header, messages(2))
    adopted(live, header, 5)

    assert 5 == len(query.list_events("s1").items)
    assert 4 == query.read_surface("s1").captured_through_seq
    assert 5 == len(list(query.read_log("s1")))
    assert 4 == query.read_event("s1", 4).target.seq


def test_a_live_target_never_touches_the_store(memory: EventStore) -> None:
    """
    No read of a live session asks the store for anything.
    """
    header = make_header()
    memory.append(header, messages(2))
    live = LiveSessions()
    adopted(live, header, 5)
    store = CountingStore(memory)
    query = SessionQuery(live, store)
    query.list_events("s1")
    query.read_event("s1", 0)
    query.read_surface("s1")
    list(query.read_log("s1"))
    query.trace_event("s1", 0)
    query.filter_events("s1")

    assert [] == store.reads


def test_a_session_that_becomes_live_meanwhile_answers_live(memory: EventStore) -> None:
    """
    Whenever during a stored read a session becomes live, the answer is the live log.
    """
    header = make_header()
    for moment in ("head", "snapshot"):
        with open_store("memory:") as inner:
            inner.append(header, messages(2))
            live = LiveSessions()

            def revive(
                name: str, _: str | None, live: LiveSessions = live, moment: str = moment
            ) -> None:
                if name == moment and "s1" not in live:
                    adopted(live, header, 5)

            query = SessionQuery(live, HookedStore(inner, revive))

            assert 5 == len(query.list_events("s1").items)


def test_a_session_that_becomes_live_hides_a_failing_store(memory: EventStore) -> None:
    """
    A store that fails does not matter once its session is live.
    """
    live = LiveSessions()

    def revive_and_fail(name: str, session_id: str | None) -> NoReturn:
        adopted(live, make_header(), 3)
        raise StoreUnavailable("gone")

    query = SessionQuery(live, HookedStore(memory, revive_and_fail))

    assert 3 == len(query.list_events("s1").items)


CONFLICTS: dict[str, dict[str, Any]] = {
    "created_at": {"created_at": 1_001},
    "cwd": {"cwd": "/b"},
    "parent_session": {"parent_session": "q"},
    "seed_length": {"seed_length": 2},
    "origin": {"origin": "plugin"},
    "delegation_depth": {"delegation_depth": 2},
    "agent_preset": {"agent_preset": "slow"},
    "extra": {"extra": {"team": "b"}},
}

FULL: dict[str, Any] = {
    "created_at": 1_000,
    "cwd": "/a",
    "parent_session": "p",
    "seed_length": 1,
    "origin": "subagent",
    "delegation_depth": 1,
    "agent_preset": "fast",
    "extra": {"team": "a"},
}


@pytest.mark.parametrize("field", CONFLICTS)
def test_h15_headers_that_differ_are_a_conflict(store: EventStore, field: str) -> None:
    """
    An archive step rewrote session metadata from a stale cache. A header that differs in
    any field from the live one is a conflict that names it, in the list and in the trace;
    on request the list marks the session and shows all others.
    """
    live = LiveSessions()
    query = SessionQuery(live, store)
    store.append(make_header("s1", **FULL), messages(1))
    adopted(live, make_header("s1", **(FULL | CONFLICTS[field])), 1)
    for number, created_at in enumerate((5, 999, 1_000, 1_001, 2_000)):
        store.append(make_header(f"t{number}", created_at=created_at), messages(1))

    for ask in (query.list_sessions, lambda: query.trace_session("s1")):
        with raises(Code.SOURCE_CONFLICT) as caught:
            ask()
        assert isinstance(caught.value.__cause__, HeaderConflict)
        assert ("s1", field) == (caught.value.session_id, caught.value.__cause__.field)
    for limit in (1, 2, 50):
        found = list(walked(query, limit=limit, on_conflict="fault"))
        assert ["t4", "t3", "t2", "t1", "t0"] == [
            record.header.id for page in found for record in page.items
        ]
        faults = {fault for page in found for fault in page.faults}
        assert {("s1", "conflict")} == {(fault.session_id, fault.kind) for fault in faults}
        assert all(field in fault.detail for fault in faults)


def test_a_conflict_ends_with_its_source(memory: EventStore) -> None:
    """
    A conflict is gone when one of its sources is.
    """
    live = LiveSessions()
    query = SessionQuery(live, memory)
    memory.append(make_header(cwd="/a"), messages(1))
    adopted(live, make_header(cwd="/b"), 1)
    with raises(Code.SOURCE_CONFLICT):
        query.list_sessions()
    query.unmount()

    assert ["s1"] == ids(query)
    query.mount(memory)
    live.dispose("s1")
    assert ["s1"] == ids(query)


@pytest.mark.parametrize("field", [*CONFLICTS, "id", "version"])
def test_a_header_that_changes_between_list_and_load(memory: EventStore, field: str) -> None:
    """
    A store that loads another header than it lists is a conflict for every stored read.
    """
    header = make_header("s1", **FULL)
    memory.append(header, messages(3))
    changes: dict[str, Any] = {"version": {"version": 1}, "id": {"id": "s2"}, **CONFLICTS}
    other = SessionHeader(**({"id": "s1"} | FULL | changes[field]))
    query = SessionQuery(LiveSessions(), RewritingStore(memory, other))

    for ask in (
        lambda: query.list_events("s1"),
        lambda: query.read_event("s1", 0),
        lambda: query.read_surface("s1"),
        lambda: query.read_log("s1"),
        lambda: query.trace_event("s1", 0),
        lambda: query.filter_events("s1"),
    ):
        with raises(Code.SOURCE_CONFLICT) as caught:
            ask()
        assert isinstance(caught.value.__cause__, HeaderConflict)
        assert field == caught.value.__cause__.field
    assert ["s1"] == ids(query)


def test_a_session_is_loaded_as_it_was_listed(memory: EventStore) -> None:
    """
    What a listing gave is loaded under that header or not at all, live and stored.
    """
    live = LiveSessions()
    adopted(live, make_header("live"), 2)
    memory.append(make_header("stored"), messages(2))
    corpus = SessionQuery(live, memory).corpus

    for name in ("live", "stored"):
        assert 2 == corpus.snapshot(name, listed=make_header(name)).length
        with raises(Code.SOURCE_CONFLICT):
            corpus.snapshot(name, listed=make_header(name, cwd="/b"))


@pytest.mark.parametrize(
    "error",
    [
        StoreUnavailable("disk", "gone"),
        StoreClosed("disk"),
        OSError("input/output error"),
        RuntimeError("no such table"),
        TypeError("a bug of the driver"),
        KeyError("x"),
        MemoryError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_store_that_fails_on_any_call(error: Exception) -> None:
    """
    Live sessions are read as ever; lists, lineage and stored reads say PERSISTENCE_FAILED,
    with the cause, whatever the store raised.
    """
    live = LiveSessions()
    adopted(live, make_header(), 3)
    store = BrokenStore(error)
    query = SessionQuery(live, store)

    assert 3 == len(query.list_events("s1").items)
    assert 1 == query.read_event("s1", 1).target.seq
    assert 3 == len(query.read_surface("s1").events)
    assert 3 == len(list(query.read_log("s1")))
    assert 1 == query.trace_event("s1", 1).target.seq
    assert 3 == len(query.filter_events("s1").items)
    assert 0 == store.calls
    for ask in (
        query.list_sessions,
        lambda: query.list_sessions(on_conflict="fault"),
        lambda: query.list_sessions(filters=[Ids(["s1"])]),
        lambda: query.list_sessions(filters=[Availability(["live"])]),
        lambda: query.list_sessions(filters=[Parent(["p"])]),
        lambda: query.trace_session("s1"),
        lambda: query.list_events("other"),
        lambda: query.read_event("other", 0),
        lambda: query.read_surface("other"),
        lambda: query.read_log("other"),
        lambda: query.trace_event("other", 0),
        lambda: query.filter_events("other"),
        lambda: query.trace_session("other"),
    ):
        with raises(Code.PERSISTENCE_FAILED) as caught:
            ask()
        assert error is caught.value.__cause__


def test_a_store_that_gives_other_events_is_not_believed(memory: EventStore) -> None:
    """
    A window that is short or displaced is CORRUPT_SESSION and never served.
    """
    memory.append(make_header(), messages(6))

    class Displaced:
        def __init__(self, log: LogSnapshot) -> None:
            self.header, self.length = log.header, log.length
            self.read = lambda start, stop: log.read(start + 1, stop + 1)

    class DisplacingStore(HookedStore):
        def snapshot(self, session_id: str, *, at: int | None = None) -> Any:
            return Displaced(super().snapshot(session_id, at=at))

    query = SessionQuery(None, DisplacingStore(memory, lambda *_: None))

    with raises(Code.CORRUPT_SESSION) as caught:
        query.read_event("s1", 2)
    assert isinstance(caught.value.__cause__, CorruptLog)


def test_a_store_whose_pages_stand_still_fails(memory: EventStore) -> None:
    """
    A store that gives the same page again and again ends a listing with an error.
    """
    for number in range(5):
        memory.append(make_header(f"s{number}"), messages(1))

    class Stuck(HookedStore):
        def heads(self, *, after: Any = None, limit: int = 50) -> Any:
            return super().heads(after=None, limit=1)

    query = SessionQuery(None, Stuck(memory, lambda *_: None))

    with raises(Code.PERSISTENCE_FAILED):
        query.list_sessions(limit=3)


def test_mounting_replaces_and_closes_nothing(memory: EventStore) -> None:
    """
    A store is read from its mounting to its unmounting, and is open behind that.
    """
    with open_store("memory:") as other:
        memory.append(make_header("a"), messages(1))
        other.append(make_header("b"), messages(1))
        query = SessionQuery()
        seen = [ids(query)]
        for store in (memory, other):
            query.mount(store)
            seen.append(ids(query))
        query.unmount()
        query.unmount()
        seen.append(ids(query))

        assert [[], ["a"], ["b"], []] == seen
        assert memory.head("a") is not None
        assert other.head("b") is not None
        with raises(Code.SESSION_NOT_FOUND):
            query.read_event("b", 0)


def test_a_running_read_keeps_its_store(memory: EventStore) -> None:
    """
    Unmounting in the middle of a listing, a trace or a whole log does not show in it.
    """
    for number in range(30):
        parent = f"s{number - 1}" if number else None
        header = make_header(f"s{number:02}", created_at=number, parent_session=parent)
        memory.append(header, messages(600))
    query = SessionQuery()

    def unmount(name: str, session_id: str | None) -> None:
        query.unmount()

    store = HookedStore(memory, unmount)
    answers = []
    asks: list[Callable[[], int]] = [
        lambda: len(query.list_sessions(filters=[Cwd([None])], limit=30).items),
        lambda: len(query.list_events("s00", limit=600).items),
        lambda: len(list(query.read_log("s00"))),
    ]
    for ask in asks:
        query.mount(store)
        answers.append(ask())
        assert query.corpus.store is None

    assert [30, 600, 600] == answers


def test_pages_hold_each_session_once(
    query: SessionQuery, live: LiveSessions, store: EventStore
) -> None:
    """
    Whatever the limit and however the sources interleave, the pages are the one list.
    """
    for number in range(20):
        header = make_header(f"s{number:02}", created_at=1_000 + number // 4)
        if number % 3 != 1:
            store.append(header, messages(1))
        if number % 3:
            adopted(live, header, 2)
    expected = sorted((-(1_000 + n // 4), f"s{n:02}") for n in range(20))
    for limit in (1, 2, 3, 5, 7, 100):
        found = list(walked(query, limit=limit))

        assert [key[1] for key in expected] == [
            record.header.id for page in found for record in page.items
        ]
        assert all(limit == len(page.items) for page in found[:-1])


def test_h13_the_limit_is_of_the_merged_list(
    query: SessionQuery, live: LiveSessions, store: EventStore
) -> None:
    """
    A limit applied to each source gave twice as many. Five live and five stored sessions,
    one of them the same, give exactly five, and the one that is both comes once, live.
    """
    for number in range(5):
        store.append(make_header(f"p{number}", created_at=2 * number), messages(1))
        adopted(live, make_header(f"l{number}", created_at=2 * number + 1), 1)
    adopted(live, make_header("p4", created_at=8), 3)
    page = query.list_sessions(limit=5)

    assert ["l4", "p4", "l3", "p3", "l2"] == [record.header.id for record in page.items]
    assert (True, True, 3) == (*flags(page.items[1]), page.items[1].length)


def test_k4_a_thousand_sessions_of_one_millisecond(
    query: SessionQuery, store: EventStore, tmp_path: Path
) -> None:
    """
    Ordering by clocks alone broke on ties. Sessions of one millisecond come by id, and
    each on exactly one page.
    """
    names = [f"s{(7 * number) % 1_000:03}" for number in range(1_000)]
    headers = [make_header(name, created_at=5) for name in names]
    if store.location == str(tmp_path / "jsonl"):
        for header in headers:
            plant(tmp_path / "jsonl", header, [message(0)])
    else:
        store.append_many([Batch(header, [message(0)]) for header in headers])
    found = list(walked(query, limit=10))

    assert sorted(names) == [record.header.id for page in found for record in page.items]
    assert 100 == len(found)


def test_a_walk_survives_what_happens_between_its_pages(
    query: SessionQuery, live: LiveSessions, store: EventStore
) -> None:
    """
    Sessions deleted, added and revived between two pages leave the walk over the others.
    """
    for number in range(9):
        store.append(make_header(f"s{number}", created_at=number), messages(1))
    first = query.list_sessions(limit=3)
    store.delete("s6")
    store.delete("s4")
    store.append(make_header("new", created_at=100), messages(1))
    store.append(make_header("old", created_at=1), messages(1))
    adopted(live, make_header("s3", created_at=3), 4)
    rest = list(
        pages(lambda cursor: query.list_sessions(limit=3, cursor=cursor or first.next_cursor))
    )

    assert ["s8", "s7", "s6"] == [record.header.id for record in first.items]
    assert ["s5", "s3", "s2", "old", "s1", "s0"] == [
        record.header.id for page in rest for record in page.items
    ]
    assert [True] == [r.live for page in rest for r in page.items if r.header.id == "s3"]


def test_h12_an_unknown_id_gives_nothing_else(
    query: SessionQuery, store: EventStore, live: LiveSessions
) -> None:
    """
    An unknown id returned another session, or quietly began a new one. Ids are matched
    exactly, and nothing is created by asking.
    """
    for name in ("abcd", "abce"):
        store.append(make_header(name), messages(1))

    for name in ("abc", "ABCD", "abcd ", "zzz"):
        for ask in (query.read_surface, query.trace_session, query.list_events):
            with raises(Code.SESSION_NOT_FOUND):
                ask(name)
        assert () == query.list_sessions(filters=[Ids([name])]).items
    assert ["abcd", "abce"] == ids(query)
    assert 0 == len(live)


def test_i5_the_header_decides_about_the_folder(query: SessionQuery, store: EventStore) -> None:
    """
    Lossy folder names made unrelated projects share history. A filter by working
    directory gives exactly the sessions of that directory.
    """
    folders = ["/w/a-b", "/w/a/b", "/w/a_b", "/w/외주", "/w/개인", "/w/a/b/", None]
    for number, folder in enumerate(folders):
        store.append(make_header(f"s{number}", cwd=folder), messages(1))

    for number, folder in enumerate(folders):
        assert [f"s{number}"] == ids(query, filters=[Cwd([folder])])


def test_a_query_says_what_it_reads(memory: EventStore) -> None:
    """
    Shown in a debugger, a query names its sources.
    """
    live = LiveSessions()
    query = SessionQuery(live, memory)

    assert f"<SessionQuery of {live!r} and {memory!r}>" == repr(query)
    query.unmount()
    assert f"<SessionQuery of {live!r}>" == repr(query)
    assert "<SessionQuery of nothing>" == repr(SessionQuery())


@pytest.mark.parametrize(
    "options",
    [
        {"live": 5},
        {"live": b"x"},
        {"store": 5},
        {"store": b"x"},
        {"vocabulary": {}},
        {"vocabulary": None},
        {"read_window_max": -1},
        {"read_window_max": True},
        {"read_window_max": 2.0},
        {"read_window_max": None},
    ],
    ids=str,
)
def test_what_cannot_be_queried_is_refused(options: dict[str, Any]) -> None:
    """
    A query object that could not work is INVALID_CONFIG when it is made.
    """
    with raises(Code.INVALID_CONFIG):
        SessionQuery(**options)


def test_what_cannot_be_mounted_is_refused(memory: EventStore) -> None:
    """
    What is no store cannot be mounted, and leaves the one that is; nor is a policy that is
    none accepted.
    """
    query = SessionQuery(None, memory)

    for wrong in (None, 5, "memory:", MemoryError):
        with raises(Code.INVALID_CONFIG):
            query.mount(wrong)  # type: ignore[arg-type]
    assert memory is query.corpus.store
    for policy in ("ignore", 1, None):
        with raises(Code.INVALID_CONFIG):
            query.list_sessions(on_conflict=policy)  # type: ignore[arg-type]
    assert () == query.list_sessions(on_conflict=OnConflict.FAULT).items


@pytest.mark.parametrize(
    "chosen",
    [
        [],
        [Availability(["live"])],
        [Availability(["persisted"])],
        [Availability(["live"]), Availability(["persisted"])],
        [Availability(["live", "persisted"])],
        [Availability([])],
        [Ids(["s03", "s04", "s11", "none", ""])],
        [Ids(["s03", "s04"]), Ids(["s04", "s05"])],
        [Parent(["s00", "s01"])],
        [Parent([None])],
        [Parent([None, "s02"])],
        [Parent(["s00", "s01"]), Parent(["s01", "s02"])],
        [Parent([])],
        [CreatedAt(1_001, 1_003)],
        [CreatedAt(end=1_002)],
        [CreatedAt(start=1_003)],
        [CreatedAt(1_002, 1_002), Availability(["live"])],
        [CreatedAt(0, 5)],
        [CreatedAt(5_000, 6_000)],
        [CreatedAt(-5, -1)],
        [Cwd(["/w"]), Parent(["s00", "s01", "s02"])],
        [Cwd([None])],
    ],
    ids=str,
)
def test_filters_that_narrow_the_scan_change_nothing(
    query: SessionQuery, live: LiveSessions, store: EventStore, chosen: Any
) -> None:
    """
    However a filter is answered, by lookup, by bounds or by scanning, the list is the
    whole one with the sessions left out that do not pass.
    """
    for number in range(24):
        header = make_header(
            f"s{number:02}",
            created_at=1_000 + number // 5,
            cwd="/w" if number % 2 else None,
            parent_session=None if number < 4 else f"s{number % 4:02}",
        )
        if number % 3 != 1:
            store.append(header, messages(1))
        if number % 3:
            adopted(live, header, 2)
    everything = query.list_sessions(limit=100).items
    expected = [r.header.id for r in everything if all(f.matches(r) for f in chosen)]
    for limit in (1, 3, 50):
        found = list(walked(query, filters=chosen, limit=limit))

        assert expected == [record.header.id for page in found for record in page.items]
        assert all(limit == len(page.items) for page in found[:-1])


def test_filtered_pages_over_uneven_sources(memory: EventStore) -> None:
    """
    However far the sources are apart, and however many sessions of one millisecond lie
    at the edge of a stretch, a filtered list is in order and whole.
    """
    live = LiveSessions()
    expected = []
    for number in range(1_500):
        header = make_header(
            f"s{number:04}", created_at=number // 400, cwd="/w" if number % 2 else "/x"
        )
        # The live sessions lie in clusters among the stored ones.
        if number % 500 < 40:
            adopted(live, header, 1)
        else:
            memory.append(header, [message(0)])
        if number % 2:
            expected.append((-header.created_at, header.id))
    query = SessionQuery(live, memory)
    expected.sort()
    for limit in (7, 300, 2_000):
        for span in ((None, None), (1, None), (1, 2), (None, 2)):
            filters: list[Any] = [Cwd(["/w"]), CreatedAt(*span)]
            found = [r for page in walked(query, limit=limit, filters=filters) for r in page.items]

            assert [
                name
                for age, name in expected
                if (span[0] or 0) <= -age <= (9 if span[1] is None else span[1])
            ] == [record.header.id for record in found]
