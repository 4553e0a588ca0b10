"""
The recorder: windows, barriers, order, adoption, disposal, health.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from eventlog import (
    APPEND,
    DEFAULT_VOCABULARY,
    Batch,
    Event,
    LiveSessions,
    Recorder,
    Session,
)
from eventlog.drivers.memory import MemoryStore
from eventlog.errors import (
    EventLogError,
    HeaderConflict,
    InvalidArgument,
    SequenceConflict,
    SessionNotFound,
    StoreClosed,
    StoreReadOnly,
)
from support import make_header, messages

LONG_MS = 60_000  # a window that no test waits for


class WatchedStore(MemoryStore):
    """A store that remembers what was written to it, when, and can be held up."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[dict[str, tuple[int, int]]] = []
        self.times: list[float] = []
        self.may_write = threading.Event()
        self.may_write.set()
        self.entered = threading.Event()

    def append_many(self, batches: Sequence[Batch]) -> list[int | EventLogError]:
        self.times.append(time.monotonic())
        self.entered.set()
        assert self.may_write.wait(20)
        self.writes.append(
            {b.header.id: (b.events[0].seq, len(b.events)) for b in batches if b.events}
        )
        return super().append_many(batches)


def say(session: Session, count: int = 1, text: str = "hello") -> None:
    data = {"role": "user", "content": [{"type": "text", "text": text}]}
    for _ in range(count):
        session.append("user/message", data, surface_op=APPEND)


def stored(store: MemoryStore, session_id: str) -> list[Event]:
    snapshot = store.snapshot(session_id)
    return snapshot.read(0, snapshot.length)


def eventually(condition: Callable[[], Any], *, within_s: float = 10) -> None:
    """Wait until something becomes true; fail when it does not."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.005)


def test_what_is_appended_is_stored_after_the_window() -> None:
    """
    Without a flush the events are in the store a little later, with their header.
    """
    live, store = LiveSessions(), MemoryStore()
    with Recorder(live, store, window_ms=20):
        session = live.create("s1", cwd="/w")
        say(session, 3)
        eventually(lambda: store.head("s1") is not None)
        assert session.header == store.snapshot("s1").header
        assert session.read(0, 9) == stored(store, "s1")


def test_the_window_begins_with_the_first_event_and_is_fixed() -> None:
    """
    Later events neither move the end of the window nor begin another one: all sessions
    are written together, once, when it ends.
    """
    live, store = LiveSessions(), WatchedStore()
    with Recorder(live, store, window_ms=1000):
        began = time.monotonic()
        first, second = live.create("s1"), live.create("s2")
        say(first)
        while time.monotonic() < began + 0.2:
            say(first)
            say(second)
            time.sleep(0.01)
        eventually(lambda: store.writes)
        assert {"s1", "s2"} == store.writes[0].keys()
        assert 0.95 < store.times[0] - began
        assert (first.length, second.length) == tuple(n for _, n in store.writes[0].values())
        time.sleep(0.05)
        assert 1 == len(store.writes)


def test_news_during_a_write_has_a_window_of_its_own() -> None:
    """
    What is appended while the store writes is not lost, and comes with the next write.
    """
    live, store = LiveSessions(), WatchedStore()
    with Recorder(live, store, window_ms=20):
        session = live.create("s1")
        store.may_write.clear()
        say(session)
        assert store.entered.wait(10)
        say(session, 2)
        store.may_write.set()
        eventually(lambda: len(store.writes) == 2)
    assert [{"s1": (0, 1)}, {"s1": (1, 2)}] == store.writes


def test_flush_is_a_barrier() -> None:
    """
    When a flush returns, what was appended before it is stored, and nothing more is
    asked of the store until there is news.
    """
    live, store = LiveSessions(), WatchedStore()
    with Recorder(live, store, window_ms=LONG_MS) as recorder:
        session, other = live.create("s1"), live.create("s2")
        say(session, 2)
        recorder.flush(session)
        assert 2 == len(stored(store, "s1"))
        recorder.flush("s1")
        recorder.flush()
        assert 1 == len(store.writes)

        say(session)
        say(other)
        recorder.flush()
        assert [3, 1] == [len(stored(store, name)) for name in ("s1", "s2")]
        assert {"s1": (2, 1), "s2": (0, 1)} == store.writes[1]


def test_a_flush_takes_the_news_of_other_sessions_along() -> None:
    """
    One commit serves every session that has news, so flushes of many threads share it.
    """
    live, store = LiveSessions(), WatchedStore()
    with Recorder(live, store, window_ms=LONG_MS) as recorder:
        sessions = [live.create(f"s{n}") for n in range(8)]
        for session in sessions:
            say(session)
        for session in sessions:
            recorder.flush(session)
    assert 1 == len(store.writes)


def test_j7_j10_sessions_without_events_leave_nothing() -> None:
    """
    A resume made a second log with only a header while events went to the first. A
    session that was created and not used is in no store and in no list.
    """
    live, store = LiveSessions(), WatchedStore()
    with Recorder(live, store, window_ms=5) as recorder:
        session = live.create("s1")
        recorder.flush(session)
        live.dispose(session)
    assert () == store.heads().items
    assert [] == store.writes


def test_j24_a_fork_is_stored_whole() -> None:
    """
    Prefix and session/end-seed of a child are one append, also where they exceed what a
    write may otherwise hold.
    """
    live, store = LiveSessions(), WatchedStore()
    parent = live.create("parent")
    say(parent, 40, text="x" * 1_000_000)
    with Recorder(live, store, window_ms=LONG_MS) as recorder:
        child = live.fork(parent, session_id="child")
        say(child)
        recorder.flush()
    of_child = [write["child"] for write in store.writes if "child" in write]
    of_parent = [write["parent"] for write in store.writes if "parent" in write]
    assert [(0, 41), (41, 1)] == of_child
    assert len(of_parent) > 1
    assert child.read(0, 99) == stored(store, "child")
    assert parent.read(0, 99) == stored(store, "parent")


def test_a_store_that_was_away_gets_everything_in_bounded_writes() -> None:
    """
    A backlog of many sessions goes out in order, and no write holds much more than its
    bound.
    """
    live, store = LiveSessions(), WatchedStore()
    sessions = [live.create(f"s{n}") for n in range(5)]
    for session in sessions:
        say(session, 30, text="x" * 300_000)
    with Recorder(live, store) as recorder:
        recorder.flush()
    assert [30] * 5 == [len(stored(store, session.id)) for session in sessions]
    assert max(sum(n for _, n in write.values()) for write in store.writes) <= 57


def test_sessions_that_are_live_already_are_recorded() -> None:
    """
    A recorder that comes later stores what was appended before it came.
    """
    live, store = LiveSessions(), MemoryStore()
    session = live.create("s1")
    say(session, 2)
    with Recorder(live, store):
        say(session)
    assert session.read(0, 9) == stored(store, "s1")


def test_a_stored_session_is_adopted_where_it_agrees() -> None:
    """
    The store has the first events already; the rest is added behind them.
    """
    live, store = LiveSessions(), MemoryStore()
    header = make_header("s1", cwd="/w")
    store.append(header, messages(3))
    with Recorder(live, store):
        session = live.create("s1", created_at=header.created_at, cwd="/w", seed=messages(4))
    assert session.read(0, 9) == stored(store, "s1")
    assert 5 == session.length


@pytest.mark.parametrize(
    ("fields", "seed", "error"),
    [
        ({"cwd": "/other"}, messages(3), HeaderConflict),
        ({"cwd": "/w"}, messages(2), SequenceConflict),
    ],
)
def test_j67_j68_j69_a_stored_session_that_differs_is_left_alone(
    fields: dict[str, Any], seed: list[Event], error: type[Exception]
) -> None:
    """
    Another header or another event under the same id: the recording of that session
    ends, flush and close say why, the stored log is as it was, and others go on.
    """
    live, store = LiveSessions(), MemoryStore()
    store.append(make_header("s1", cwd="/w"), messages(3))
    recorder = Recorder(live, store, window_ms=5)
    session = live.create("s1", created_at=1_000, seed=seed, **fields)
    other = live.create("s2")
    say(other)
    eventually(lambda: recorder.health().stopped)

    with pytest.raises(error):
        recorder.flush(session)
    assert isinstance(recorder.health().stopped["s1"], error)
    assert session.read(0, 9) == recorder.unstored(session)
    say(other)
    recorder.flush(other)
    with pytest.raises(error):
        recorder.close()
    assert messages(3) == stored(store, "s1")
    assert other.read(0, 9) == stored(store, "s2")


def test_disposal_stores_what_is_left() -> None:
    """
    A session that is let go inside a window is stored whole before dispose returns, and
    then forgotten.
    """
    live, store = LiveSessions(), MemoryStore()
    with Recorder(live, store, window_ms=LONG_MS) as recorder:
        session = live.create("s1")
        say(session, 2)
        live.dispose(session)
        assert session.read(0, 9) == stored(store, "s1")
        assert () == recorder.health().sessions
        recorder.flush(session)
        with pytest.raises(SessionNotFound):
            recorder.flush("s1")


def test_an_unknown_session_cannot_be_flushed() -> None:
    """
    A session of other live sessions, or none at all, is not recorded here.
    """
    with Recorder(LiveSessions(), MemoryStore()) as recorder:
        with pytest.raises(SessionNotFound):
            recorder.flush(LiveSessions().create("s1"))
        with pytest.raises(SessionNotFound):
            recorder.unstored("s1")


def test_health_counts_what_is_pending() -> None:
    """
    Marks and pending events by session; all is well where nothing fails.
    """
    live, store = LiveSessions(), MemoryStore()
    with Recorder(live, store, window_ms=LONG_MS) as recorder:
        session = live.create("s1")
        say(session, 2)
        recorder.flush()
        say(session, 3)
        health = recorder.health()
        assert [("s1", 2, 3, None, False)] == [
            (each.session_id, each.stored, each.pending, each.failure, each.stopped)
            for each in health.sessions
        ]
        assert (3, True, {}, {}) == (health.pending, health.ok, health.failing, health.stopped)
        assert "<Recorder to memory:: 1 sessions, 3 events pending>" == repr(recorder)
        assert session.read(2, 5) == recorder.unstored("s1")
    assert 0 == recorder.health().pending


def test_closing_stores_what_is_left_and_ends_the_recording() -> None:
    """
    Close writes the open window; what is appended later is not recorded. Closing again
    is harmless.
    """
    live, store = LiveSessions(), MemoryStore()
    recorder = Recorder(live, store, window_ms=LONG_MS)
    session = live.create("s1")
    say(session, 2)
    recorder.close()
    recorder.close()
    assert 2 == len(stored(store, "s1"))
    say(live.create("s2"))
    assert None is store.head("s2")
    with pytest.raises(StoreClosed) as caught:
        recorder.resume("s1")
    assert "the recorder to memory:" == caught.value.path, "the store itself is open"


def test_recording_adds_little_to_an_append() -> None:
    """
    Recording costs an append a notification and no more: well below 20 µs in the median.
    """

    def median_us(recorded: bool) -> float:
        live = LiveSessions()
        recorder = Recorder(live, MemoryStore()) if recorded else None
        session = live.create()
        taken = []
        for _ in range(3000):
            began = time.perf_counter()
            session.append("x/note", {"text": "hello"})
            taken.append(time.perf_counter() - began)
        if recorder is not None:
            recorder.close()
        return statistics.median(taken) * 1e6

    added_us = min(median_us(True) for _ in range(3)) - min(median_us(False) for _ in range(3))
    assert added_us < 20


def test_a_store_that_was_closed_first_is_named() -> None:
    """
    Events that the store can no longer take are reported by close, and kept.
    """
    live, store = LiveSessions(), MemoryStore()
    recorder = Recorder(live, store, window_ms=LONG_MS)
    say(live.create("s1"))
    store.close()
    with pytest.raises(StoreClosed):
        recorder.close()
    assert 1 == len(recorder.unstored("s1"))


def test_what_a_recorder_joins_stays_joined() -> None:
    """
    A store put in the place of a recorder's own was read by resume, while the thread went on
    writing into the other one.
    """
    live, store = LiveSessions(), MemoryStore()
    with Recorder(live, store) as recorder:
        for name, other in (("store", MemoryStore()), ("live", LiveSessions())):
            with pytest.raises(AttributeError):
                setattr(recorder, name, other)
        with pytest.raises(AttributeError):
            live.vocabulary = DEFAULT_VOCABULARY  # type: ignore[misc]
        assert (live, store) == (recorder.live, recorder.store)


@pytest.mark.parametrize("window_ms", [0, -1, 1.5, True, 2**31, None])
def test_a_window_has_bounds(window_ms: Any) -> None:
    """
    A window is a number of whole milliseconds, at least one.
    """
    with pytest.raises(InvalidArgument) as caught:
        Recorder(LiveSessions(), MemoryStore(), window_ms=window_ms)
    assert "window_ms" == caught.value.name


def test_a_read_only_store_is_refused_at_once() -> None:
    """
    Nothing could ever be recorded there.
    """
    with pytest.raises(StoreReadOnly):
        Recorder(LiveSessions(), MemoryStore(read_only=True))


def test_j33_many_threads_append_flush_and_dispose() -> None:
    """
    Whatever threads do at the same time, in the end every session is stored whole.
    """
    live, store = LiveSessions(), MemoryStore()
    kept: list[Session] = []
    failures: list[BaseException] = []

    def work(worker: int) -> None:
        try:
            for n in range(15):
                session = live.create(f"s{worker}-{n}")
                for _ in range(20):
                    say(session)
                if n % 3 == 0:
                    recorder.flush(session)
                    assert session.length == len(stored(store, session.id))
                child = live.fork(session)
                say(child)
                kept.extend((session, child))
                if n % 2 == 0:
                    live.dispose(session)
        except BaseException as error:
            failures.append(error)

    with Recorder(live, store, window_ms=1) as recorder:
        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [] == failures
    assert 180 == len(kept)
    assert all(session.read(0, 99) == stored(store, session.id) for session in kept)
    assert recorder.health().ok
    assert 0 == recorder.health().pending


def test_what_cannot_be_recorded_is_refused() -> None:
    """
    A recorder is given live sessions and a store, and says which of them is something else.
    """
    for live, store, name in ((None, MemoryStore(), "live"), (LiveSessions(), "memory:", "store")):
        with pytest.raises(InvalidArgument) as caught:
            Recorder(live, store)  # type: ignore[arg-type]
        assert name == caught.value.name
