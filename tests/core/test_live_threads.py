"""
Live sessions under many threads, and under Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from eventlog import APPEND, Event, LiveSessions, Replace, Session, fold_surface
from eventlog.errors import SessionNotFound


def run_all(*tasks: Callable[[], None]) -> None:
    """Run tasks at the same time; the first exception of one of them is raised."""
    failures: list[BaseException] = []

    def guarded(task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@contextmanager
def rapid_switching() -> Iterator[None]:
    """Let threads take turns every 10 µs, to meet each other in the middle of things."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


def append_note(session: Session) -> None:
    """Append an event that is on no surface."""
    session.append("x/note", {})


DATA = {"role": "user", "content": [{"type": "text", "text": "x"}]}


def test_appends_of_many_threads_are_all_there() -> None:
    """
    Eight threads append to one session: no seq twice, none missing, and each observer is
    told of every event in seq order.
    """
    live = LiveSessions()
    session = live.create("s1")
    told: list[list[int]] = [[], []]
    live.observe(lambda _, event: told[0].append(event.seq))
    live.observe(lambda _, event: told[1].append(event.seq))
    mine: dict[int, list[int]] = defaultdict(list)

    def append(worker: int) -> None:
        for n in range(300):
            event = session.append("user/message", DATA, surface_op=APPEND)
            mine[worker].append(event.seq)
            if n % 50 == 0:
                assert len(session.messages()) >= n

    with rapid_switching():
        run_all(*(lambda worker=worker: append(worker) for worker in range(8)))

    assert list(range(2400)) == [event.seq for event in session.read(0, 9999)]
    assert list(range(2400)) == sorted(seq for seqs in mine.values() for seq in seqs)
    assert all(seqs == sorted(seqs) for seqs in mine.values())
    assert list(range(2400)) == told[0] == told[1]
    assert 2400 == len(session.messages())


def test_readers_beside_writers_see_a_whole_log() -> None:
    """
    Snapshots taken while another thread appends and replaces are those of a fold of what
    they hold.
    """
    session = LiveSessions().create("s1")
    done = threading.Event()

    def write() -> None:
        try:
            for n in range(600):
                nodes = session.nodes
                if n % 7 == 6:
                    op = Replace(nodes[0], nodes[3])
                    session.append("user/message", DATA, surface_op=op, source_event_seqs=nodes[:4])
                else:
                    session.append("user/message", DATA, surface_op=APPEND)
        finally:
            done.set()

    def read() -> None:
        while not done.is_set():
            snapshot = session.snapshot()
            events = snapshot.read(0, snapshot.length)
            assert snapshot.length == len(events)
            assert fold_surface(events).nodes == snapshot.nodes()
            time.sleep(0.001)

    with rapid_switching():
        run_all(write, read, read)


def test_creating_listing_and_disposing_in_many_threads() -> None:
    """
    Each session is created once, pages hold live sessions in order, nothing is left.
    """
    live = LiveSessions()

    def churn(worker: int) -> None:
        for n in range(60):
            session = live.create(f"s{worker}-{n}", created_at=n)
            session.append("x/note", {})
            live.fork(session)
            page = live.heads(limit=10)
            keys = [(-head.header.created_at, head.header.id) for head in page.items]
            assert sorted(keys) == keys
            assert live.dispose(session)
            with pytest.raises(SessionNotFound):
                session.append("x/note", {})

    with rapid_switching():
        run_all(*(lambda worker=worker: churn(worker) for worker in range(4)))

    assert 240 == len(live)
    assert all(session.header.parent_session is not None for session in live)


def test_an_observer_that_waits_for_another_append_does_not_deadlock() -> None:
    """
    An observer waits until another thread has appended to the same session; that append
    leaves its event to the telling thread and returns.
    """
    live = LiveSessions()
    session = live.create("s1")
    told: list[int] = []
    appended = threading.Event()

    def append_and_say() -> None:
        append_note(session)
        appended.set()

    def wait(_: Session, event: Event) -> None:
        if event.seq == 0:
            helper = threading.Thread(target=append_and_say)
            helper.start()
            assert appended.wait(10)
            helper.join()
        told.append(event.seq)

    live.observe(wait)
    session.append("x/note", {})
    assert [0, 1] == told


@contextmanager
def interrupts(every_s: float) -> Iterator[list[bool]]:
    """
    Send this process SIGINT again and again. While the list given holds anything, the next
    one empties it and raises KeyboardInterrupt, wherever the program is then.
    """
    stop = threading.Event()
    armed: list[bool] = []

    def send() -> None:
        while not stop.wait(every_s):
            os.kill(os.getpid(), signal.SIGINT)

    def strike(number: int, frame: FrameType | None) -> None:
        if armed:
            armed.clear()
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, strike)
    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield armed
    finally:
        armed.clear()
        stop.set()
        sender.join()
        signal.signal(signal.SIGINT, before)


def test_x5_interrupts_leave_each_event_wholly_in_or_out() -> None:
    """
    SIGINT struck a loop of appends and left an event in the log that the surface did not
    know, and a lock that nobody held.

    Whatever was appended is whole, the length tells whether it is in, every observer
    hears in seq order of what was appended, surface and messages are those of a fresh
    fold, and another thread can append.
    """
    live = LiveSessions()
    session = live.create("s1")
    told: list[int] = []
    live.observe(lambda _, event: told.append(event.seq))
    known = struck = 0
    deadline = time.monotonic() + 3
    with interrupts(0.0007) as armed:
        while struck < 150 and time.monotonic() < deadline:
            try:
                nodes = session.nodes
                known = session.length
                armed.append(True)
                if len(nodes) > 30:
                    op, cited = Replace(nodes[0], nodes[20]), nodes[:21]
                    session.append("user/message", DATA, surface_op=op, source_event_seqs=cited)
                else:
                    session.append("user/message", DATA, surface_op=APPEND)
                armed.clear()
            except KeyboardInterrupt:
                struck += 1
                assert session.length - known in (0, 1)

    assert struck > 30
    run_all(lambda: append_note(session))
    events = session.read(0, session.length)
    fresh = fold_surface(events)
    assert list(range(len(events))) == [event.seq for event in events]
    assert fresh.nodes == session.nodes
    assert len(fresh.nodes) == len(session.messages())
    assert all(fresh.classify(e.seq) is session.snapshot().classify(e.seq) for e in events)
    assert sorted(set(told)) == told
    assert len(events) - len(told) <= struck
