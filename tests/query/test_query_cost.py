"""
What queries touch, by the meter: the answer, and never the length of the log or the corpus.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog import Batch, Event, EventStore, LiveSessions, Replace
from eventlog.query import (
    Availability,
    Classes,
    CreatedAt,
    Cwd,
    Ids,
    Parent,
    Seq,
    SessionFilter,
    SessionQuery,
    Types,
)
from support import log_only, make_header, message
from support.query import SCHEMES, opened, plant

LONG = pytest.mark.long
EVENTS = [1_000, pytest.param(100_000, marks=LONG)]
SESSIONS = [1_000, pytest.param(100_000, marks=LONG)]


def compacting(count: int) -> Iterator[Event]:
    """A log that compacts all but its newest message every hundred events."""
    nodes: list[int] = []
    for seq in range(count):
        if seq % 100 == 99:
            gone, nodes = nodes, [seq]
            yield message(
                seq, "summary", surface_op=Replace(gone[0], gone[-1]), source_event_seqs=gone
            )
        elif seq % 2:
            nodes.append(seq)
            yield message(seq)
        else:
            yield log_only(seq)


def filled(store: EventStore, count: int) -> None:
    events = list(compacting(count))
    for start in range(0, count, 1_000):
        store.append(make_header(), events[start : start + 1_000])


def touched(store: EventStore) -> tuple[int, int]:
    """Records and other rows since the last reset."""
    return store.meter.records, store.meter.probes + store.meter.names


@pytest.fixture(params=EVENTS)
def count(request: pytest.FixtureRequest) -> int:
    """How many events the log has."""
    number: int = request.param
    return number


@pytest.fixture(params=SCHEMES)
def logged(request: pytest.FixtureRequest, tmp_path: Path, count: int) -> Iterator[EventStore]:
    """A store of each driver with one long log, of which a surface was read before."""
    with opened(request.param, tmp_path) as store:
        filled(store, count)
        store.snapshot("s1").nodes(limit=1)
        store.meter.reset()
        yield store


def bounded(store: EventStore, rows: int) -> int:
    """*rows*, and on files what finding a place among lines takes."""
    return rows if store.capabilities.bounded_surface else rows + 60


def test_a_window_touches_its_events(logged: EventStore, count: int) -> None:
    """
    Reading an event with neighbours reads them, and at most 5 other rows, anywhere.
    """
    query = SessionQuery(LiveSessions(), logged)
    for seq in (0, count // 2, count - 1):
        logged.meter.reset()
        window = query.read_event("s1", seq, before=3, after=4)
        records, rows = touched(logged)

        assert len(window.events) <= records <= len(window.events) + 5
        assert records + rows <= bounded(logged, len(window.events) + 5)


def test_a_page_of_events_touches_its_events(logged: EventStore, count: int) -> None:
    """
    A page of events reads exactly them, and a row for each that was replaced.
    """
    query = SessionQuery(LiveSessions(), logged)
    for limit in (50, 750):
        logged.meter.reset()
        page = query.list_events("s1", start=count - 900, limit=limit)
        records, rows = touched(logged)

        assert limit == len(page.items)
        assert limit <= records <= limit + 5
        assert rows <= bounded(logged, limit + 10)


def test_a_trace_touches_its_rows(logged: EventStore, count: int) -> None:
    """
    Tracing an event reads it, and the rows of the answer.
    """
    query = SessionQuery(LiveSessions(), logged)
    for seq in (1, count // 2 + 1, count - 1, 0):
        logged.meter.reset()
        trace = query.trace_event("s1", seq)
        records, rows = touched(logged)
        answer = (
            len(trace.replacement_chain)
            + len(trace.replaced_event_seqs)
            + len(trace.derived_event_seqs)
        )

        assert records <= 1 + 5
        assert rows <= bounded(logged, 3 * answer + 20)
        assert trace.current_seq == (None if seq == 0 else count - 1)


def test_the_surface_touches_its_nodes(logged: EventStore, count: int) -> None:
    """
    Reading the surface reads its nodes, not the log.
    """
    logged.append(make_header(), [message(count + n) for n in range(20)])
    query = SessionQuery(LiveSessions(), logged)
    query.read_surface("s1")
    logged.meter.reset()
    surface = query.read_surface("s1")
    records, rows = touched(logged)

    assert 21 == len(surface.events)
    assert 21 <= records <= 21 + 5
    assert rows <= bounded(logged, 21 + 5)


def test_a_seq_filter_bounds_the_scan(logged: EventStore, count: int) -> None:
    """
    A range of seqs is read, and nothing outside it; other filters scan on.
    """
    query = SessionQuery(LiveSessions(), logged)
    logged.meter.reset()
    found = query.filter_events("s1", [Seq(count - 30, count - 11), Classes(["shadowed"])])
    records, _ = touched(logged)

    assert 10 == len(found.items)
    assert 20 <= records <= 20 + 5
    logged.meter.reset()
    query.list_events("s1", filters=[Types(["x/none"])])
    assert count <= logged.meter.records <= count + 5


@pytest.fixture(params=SESSIONS)
def sessions(request: pytest.FixtureRequest) -> int:
    """How many sessions the store has."""
    number: int = request.param
    return number


@pytest.fixture(params=SCHEMES)
def crowded(request: pytest.FixtureRequest, tmp_path: Path, sessions: int) -> Iterator[EventStore]:
    """
    A store of each driver with many sessions; a page of them was read before. The first
    ten are a family: each is the child of the one before.
    """
    with opened(request.param, tmp_path) as store:
        batches = []
        for number in range(sessions):
            parent = f"s{number - 1:06}" if 0 < number < 10 else None
            header = make_header(
                f"s{number:06}", created_at=number // 3, parent_session=parent, cwd="/w"
            )
            if request.param == "jsonl":
                plant(tmp_path / "jsonl", header, [message(0)])
            else:
                batches.append(Batch(header, [message(0)]))
        for start in range(0, len(batches), 5_000):
            store.append_many(batches[start : start + 5_000])
        store.heads(limit=1)
        store.meter.reset()
        yield store


def test_a_page_costs_the_same_anywhere(crowded: EventStore, sessions: int) -> None:
    """
    A page of sessions in the middle of the list touches what the first one touches.
    """
    query = SessionQuery(LiveSessions(), crowded)
    costs: list[tuple[int, int]] = []
    names: list[int] = []
    cursor = None
    for limit in (50, sessions // 2, 50, sessions // 4, 50):
        crowded.meter.reset()
        page = query.list_sessions(limit=limit, cursor=cursor)
        cursor = page.next_cursor
        if limit == 50:
            costs.append(touched(crowded))
            names.append(crowded.meter.names)

    # Names of files are listed while the folder has changed lately, and not at all after.
    assert set(names) <= ({0} if crowded.capabilities.bounded_surface else {0, sessions})
    rest = [sum(cost) - listed for cost, listed in zip(costs, names, strict=True)]
    assert all(abs(one - rest[0]) <= 1 for one in rest), costs
    assert all(50 <= records <= 51 for records, _ in costs)
    assert all(one <= 51 + 55 for one in rest)


def test_one_session_among_many(crowded: EventStore, sessions: int) -> None:
    """
    Reading one session touches that session only.
    """
    query = SessionQuery(LiveSessions(), crowded)
    name = f"s{sessions // 2:06}"
    query.read_event(name, 0)
    crowded.meter.reset()
    query.read_event(name, 0)
    query.read_surface(name)
    query.trace_event(name, 0)

    assert 0 == crowded.meter.names
    assert sum(touched(crowded)) <= 50


def test_a_lineage_touches_its_family(crowded: EventStore, sessions: int) -> None:
    """
    A lineage of ten reads ten heads and asks for the children of each.
    """
    query = SessionQuery(LiveSessions(), crowded)
    crowded.meter.reset()
    trace = query.trace_session("s000004")
    records, probes = crowded.meter.records, crowded.meter.probes

    assert (4, 5) == (len(trace.ancestors), len(trace.descendants))
    assert records <= 12
    assert probes <= bounded(crowded, 20)
    # Files have no index: the names in the folder are looked at for each parent.
    names = 0 if crowded.capabilities.bounded_surface else 6 * sessions
    assert crowded.meter.names <= names + 20


def test_lookups_do_not_scan(crowded: EventStore, sessions: int) -> None:
    """
    Ids and parents are looked up, and creation times bound the scan.
    """
    query = SessionQuery(LiveSessions(), crowded)
    day = (sessions // 2) // 3
    narrowed: list[tuple[list[SessionFilter], int]] = [
        ([Ids(["s000003", "s000900", "none"])], 2),
        ([Parent(["s000003", "s000004", "none"])], 2),
        ([CreatedAt(day, day + 9)], 30),
        ([CreatedAt(0, day + 9), CreatedAt(day, 10**6), Cwd(["/w"])], 30),
    ]
    for filters, found in narrowed:
        crowded.meter.reset()
        page = query.list_sessions(filters=filters, limit=1_000)

        assert found == len(page.items)
        # Nothing beyond a range but the rest of the last stretch, of 200 heads.
        assert crowded.meter.records <= (205 if found == 30 else 4 * found)


def test_a_live_page_asks_for_its_own_heads(crowded: EventStore, sessions: int) -> None:
    """
    With a hundred live sessions, of which half are stored too, a page looks the others up.
    """
    live = LiveSessions()
    for number in range(sessions - 49, sessions + 51):
        live.create(f"s{number:06}", created_at=number // 3, cwd="/w")
    query = SessionQuery(live, crowded)
    crowded.meter.reset()
    page = query.list_sessions(limit=100)

    assert 49 == sum(record.persisted for record in page.items)
    assert all(record.live for record in page.items)
    assert crowded.meter.records <= 101
    crowded.meter.reset()
    assert 100 == len(query.list_sessions(limit=1_000, filters=[Availability(["live"])]).items)
    assert crowded.meter.records <= 100
