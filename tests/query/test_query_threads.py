"""
Many threads at once: mounting, unmounting, appending, copying, reading.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from time import monotonic

import pytest

from eventlog import Event, EventClass, EventStore, LiveSessions, ReadOnlyStore, fold_surface
from eventlog.log import MemoryLog
from eventlog.query import (
    Seq,
    SessionQuery,
    SessionQueryError,
    SessionQueryErrorCode,
    SessionRecord,
)
from support import log_only, make_header, message, replacement
from support.query import SCHEMES, opened

Code = SessionQueryErrorCode

LENGTH_MAX = 400


def script() -> list[Event]:
    """The one log that every session is a prefix of, with a compaction every seven events."""
    events: list[Event] = []
    nodes: list[int] = []
    for seq in range(LENGTH_MAX):
        if seq % 7 == 6:
            gone, nodes = nodes[:4], nodes[4:]
            events.append(replacement(seq, gone[0], gone[-1], gone))
            nodes.insert(0, seq)
        elif seq % 7 == 3:
            events.append(log_only(seq))
        else:
            events.append(message(seq))
            nodes.append(seq)
    return events


LOG = script()
SURFACES = [fold_surface(LOG[:length]) for length in range(LENGTH_MAX + 1)]


class Answers:
    """Readers that know what every answer must be, whatever the others do meanwhile."""

    def __init__(self, query: SessionQuery, rng: random.Random) -> None:
        self._query = query
        self._rng = rng

    def listing(self) -> None:
        """Each session once, in order; those that are always live are always there."""
        found: list[SessionRecord] = []
        cursor = None
        while True:
            page = self._query.list_sessions(limit=self._rng.choice([1, 3, 50]), cursor=cursor)
            assert () == page.faults
            found += page.items
            cursor = page.next_cursor
            if cursor is None:
                break
        keys = [(-record.header.created_at, record.header.id) for record in found]
        assert sorted(set(keys)) == keys
        by_id = {record.header.id: record for record in found}
        assert {"live0", "live1", "both"} <= by_id.keys()
        assert all(by_id[name].live for name in ("live0", "live1", "both"))
        assert not any(record.live for name, record in by_id.items() if name.startswith("stored"))
        for record in found:
            assert record.last_time == (LOG[record.length - 1].time if record.length else None)

    def events(self, name: str) -> None:
        """The classes are those of the log as of the length of the answer."""
        items = self._query.list_events(name).items
        surface = SURFACES[len(items)]
        assert [(e.seq, surface.classify(e.seq)) for e in LOG[: len(items)]] == [
            (record.seq, record.event_class) for record in items
        ]

    def surface(self, name: str) -> None:
        """The surface is that of the length that it was taken at."""
        answer = self._query.read_surface(name)
        through = answer.captured_through_seq
        surface = SURFACES[0 if through is None else through + 1]
        assert surface.nodes == [e.seq for e in answer.events]
        assert [LOG[seq] for seq in surface.nodes] == list(answer.events)

    def window(self, name: str) -> None:
        """A window holds the events of its seqs."""
        seq = self._rng.randrange(20)
        answer = self._query.read_event(name, seq, before=3, after=3)
        assert LOG[answer.start_seq : answer.end_seq + 1] == list(answer.events)
        assert LOG[seq] == answer.target

    def trace(self, name: str) -> None:
        """A replacer is the one of the script, and the class goes with it."""
        seq = self._rng.randrange(20)
        answer = self._query.trace_event(name, seq)
        assert answer.replaced_by in (None, SURFACES[-1].replaced_by(seq))
        shadowed = answer.target.event_class is EventClass.SHADOWED
        assert shadowed is (answer.replaced_by is not None)

    def filtered(self, name: str) -> None:
        """Documents are the events with text."""
        documents = self._query.filter_events(name, [Seq(0, 30)]).items
        texts = [d.seq for d in documents]
        assert texts == [e.seq for e in LOG[:31] if e.type == "user/message"][: len(texts)]

    def lineage(self) -> None:
        """The family of the live sessions is whole, with the store and without."""
        trace = self._query.trace_session("live0")
        assert trace.complete
        assert "live1" in [d.record.header.id for d in trace.descendants]

    def any(self) -> None:
        name = self._rng.choice(["live0", "live1", "both", "stored0", "stored1", "churn0"])
        ask = self._rng.choice([self.events, self.surface, self.window, self.trace, self.filtered])
        try:
            ask(name)
        except SessionQueryError as error:
            gone = error.code is Code.SESSION_NOT_FOUND and name[:4] not in ("live", "both")
            short = error.code is Code.EVENT_NOT_FOUND
            if not (gone or short):
                raise


def run(seconds: float, store: EventStore) -> int:
    """Let eight threads loose on one query object. Returns how many answers were checked."""
    live = LiveSessions()
    query = SessionQuery(live, store)
    headers = {
        name: make_header(name, created_at=number // 2, parent_session=parent)
        for number, (name, parent) in enumerate(
            [
                ("live0", None),
                ("live1", "live0"),
                ("both", "live1"),
                ("stored0", "live0"),
                ("stored1", "stored0"),
                ("churn0", "both"),
            ]
        )
    }
    logs = {name: MemoryLog(headers[name]) for name in ("live0", "live1", "both")}
    for log in logs.values():
        log.extend(LOG[:20])
        live.adopt(log)
    for name in ("stored0", "stored1", "both"):
        store.append(headers[name], LOG[:20])
    deadline = monotonic() + seconds
    stop = Flag()
    failures: list[BaseException] = []
    checked = [0] * 8

    def forever(number: int, act: Callable[[random.Random], None]) -> None:
        rng = random.Random(number)
        try:
            while monotonic() < deadline and not stop.is_set():
                act(rng)
                checked[number] += 1
        except BaseException as error:
            failures.append(error)
            stop.set()

    def mount(rng: random.Random) -> None:
        if rng.random() < 0.4:
            query.unmount()
        else:
            query.mount(store if rng.random() < 0.5 else ReadOnlyStore(store))
        stop.wait(0.002)

    def append_live(rng: random.Random) -> None:
        session = live.get(rng.choice(["live0", "live1", "both"]))
        assert session is not None
        length = session.head().length
        if length < LENGTH_MAX:
            e = LOG[length]
            session.append(
                e.type,
                e.data,
                surface_op=e.surface_op,
                source_event_seqs=e.source_event_seqs,
                time=e.time,
            )
            if session.id == "both":
                store.append(session.header, LOG[: length + 1])
        stop.wait(0.001)

    def append_stored(rng: random.Random) -> None:
        name = rng.choice(["stored0", "stored1"])
        head = store.head(name)
        assert head is not None
        store.append(headers[name], LOG[head.length : head.length + 3])
        stop.wait(0.002)

    def churn(rng: random.Random) -> None:
        log = MemoryLog(headers["churn0"])
        log.extend(LOG[: rng.randrange(20, 60)])
        live.adopt(log)
        length = 0 if (head := store.head("churn0")) is None else head.length
        if length < log.length:
            store.append(log.header, log.read(length, log.length))
        stop.wait(0.001)
        live.dispose("churn0")

    def read(rng: random.Random) -> None:
        Answers(query, rng).any()

    def listing(rng: random.Random) -> None:
        answers = Answers(query, rng)
        answers.listing()
        answers.lineage()

    acts = [mount, append_live, append_stored, churn, read, read, read, listing]
    threads = [Thread(target=forever, args=pair) for pair in enumerate(acts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 60)
    assert not any(thread.is_alive() for thread in threads)
    for failure in failures:
        raise failure
    assert all(checked), checked
    return sum(checked[4:])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_eight_threads_for_a_moment(tmp_path: Path, scheme: str) -> None:
    """
    While stores come and go and logs grow, every answer is right for its moment, and
    nothing but a missing session is ever raised.
    """
    with opened(scheme, tmp_path) as store:
        assert 10 < run(0.8, store)


@pytest.mark.long
@pytest.mark.parametrize("scheme", SCHEMES)
def test_eight_threads_for_half_a_minute(tmp_path: Path, scheme: str) -> None:
    """
    The same for 30 seconds.
    """
    with opened(scheme, tmp_path) as store:
        assert 1_000 < run(30, store)
