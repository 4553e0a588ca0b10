"""
Calls in the midst of a call of the same thread: signal handlers and finalizers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from eventlog import (
    APPEND,
    Event,
    EventStore,
    LiveSessions,
    Recorder,
    Replace,
    Session,
    fold_surface,
    open_store,
)
from eventlog.drivers.memory import MemoryStore
from eventlog.errors import SequenceConflict, SessionExists, StoreBusy
from eventlog.testing.contract.base import read_all
from support import make_header, message, messages, replacement
from support.midst import interrupted, steps_of, struck
from support.processes import forked

DATA = {"role": "user", "content": [{"type": "text", "text": "x"}]}


def say(session: Session) -> Event:
    return session.append("user/message", DATA, surface_op=APPEND)


def compact(session: Session) -> None:
    session.append("user/message", DATA, surface_op=Replace(0, 1), source_event_seqs=[0, 1])


def check_whole(session: Session) -> None:
    """A session's log is numbered, and its surface and messages are those of a fresh fold."""
    events = session.read(0, session.length)
    assert list(range(len(events))) == [event.seq for event in events]
    fresh = fold_surface(events)
    assert fresh.nodes == session.nodes
    assert len(fresh.nodes) == len(session.messages())
    assert all(fresh.classify(e.seq) is session.snapshot().classify(e.seq) for e in events)


SESSION_CALLS: dict[str, Callable[[Session], object]] = {
    "append": say,
    "replace": compact,
    "messages": lambda session: session.messages(),
    "nodes": lambda session: session.nodes,
}


@pytest.mark.parametrize("inner", SESSION_CALLS)
@pytest.mark.parametrize("outer", SESSION_CALLS)
def test_x5_live_log_is_whole_whatever_a_handler_calls(outer: str, inner: str) -> None:
    """
    A signal handler appended in the midst of an append of its thread: two events had one
    seq, and the surface lost one of them. What would meet half of a change is refused.

    Everything else is done, each call once, at whatever place it strikes.
    """
    refused = 0
    at = 1
    while True:
        live = LiveSessions()
        told: list[int] = []
        live.observe(lambda _, event, told=told: told.append(event.seq))  # type: ignore[misc]
        session = live.create("s1")
        for _ in range(3):
            say(session)
        session.messages()
        outcome: list[str] = []

        def strike(session: Session = session, outcome: list[str] = outcome) -> None:
            before = session.length
            try:
                SESSION_CALLS[inner](session)
            except StoreBusy:
                outcome.append("refused" if before == session.length else "half done")
            except ValueError:  # the other one has replaced the same nodes
                outcome.append("second")
            else:
                outcome.append("done")

        with struck(strike, at) as count, suppress(ValueError):
            SESSION_CALLS[outer](session)
        if count[0] < at:
            break
        refused += outcome == ["refused"]
        assert outcome in (["refused"], ["second"], ["done"])
        check_whole(session)
        say(session)
        check_whole(session)
        assert list(range(session.length)) == told
        at += 1
    assert at > 2
    assert (refused > 0) == (inner in ("append", "replace"))


def test_x5_lists_are_whole_whatever_a_handler_calls() -> None:
    """
    Sessions come and go in the midst of the coming and going of another; the listing has
    exactly those that are live, each in its place.
    """

    def create(live: LiveSessions) -> None:
        with suppress(SessionExists):
            live.create("new", created_at=3, parent_session="p")

    calls: list[Callable[[LiveSessions], object]] = [
        create,
        lambda live: live.dispose("a"),
        lambda live: live.heads(),
        lambda live: live.children("p"),
    ]
    for outer in calls:
        for inner in calls:
            at = 1
            while True:
                live = LiveSessions()
                for number, session_id in enumerate("abc"):
                    live.create(session_id, created_at=number, parent_session="p")

                def strike(live: LiveSessions = live, inner: Any = inner) -> None:
                    with suppress(StoreBusy):
                        inner(live)

                with struck(strike, at) as count:
                    outer(live)
                expected = sorted((session.header.created_at, session.id) for session in live)
                for page in (live.heads(), live.children("p")):
                    listed = [(head.header.created_at, head.header.id) for head in page.items]
                    assert expected[::-1] == listed
                if count[0] < at:
                    break
                at += 1


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.002)


@pytest.mark.parametrize("inner", ["append", "flush", "dispose", "health", "close"])
@pytest.mark.parametrize("outer", ["append", "flush", "dispose"])
def test_x5_recorder_is_never_waited_for_by_itself(outer: str, inner: str) -> None:
    """
    A handler of SIGTERM flushed in the midst of a flush, or of the moment in which an
    append wakes the recorder, and the process hung. It is refused there and nowhere else;
    everything that was appended is stored by itself, or by the close that comes at last.
    """
    at = 1
    while True:
        live, store = LiveSessions(), MemoryStore()
        recorder = Recorder(live, store, window_ms=1)
        session, other = live.create("s1"), live.create("s2")
        say(session)
        calls: dict[str, Callable[[], object]] = {
            "append": lambda session=session: say(session),  # type: ignore[misc]
            "flush": lambda recorder=recorder: recorder.flush(),  # type: ignore[misc]
            "dispose": lambda live=live: live.dispose("s2"),  # type: ignore[misc]
            "health": lambda recorder=recorder: repr(recorder),  # type: ignore[misc]
            "close": lambda recorder=recorder: recorder.close(),  # type: ignore[misc]
        }
        say(other)

        def strike(call: Callable[[], object] = calls[inner]) -> None:
            with suppress(StoreBusy):
                call()

        with struck(strike, at) as count:
            calls[outer]()
        if inner == "close":
            recorder.close()
        else:
            eventually(lambda recorder=recorder: recorder.health().pending == 0)  # type: ignore[misc]
            say(session)
            eventually(lambda recorder=recorder: recorder.health().pending == 0)  # type: ignore[misc]
            assert session.read(0, 99) == read_all(store, "s1")
        recorder.close()
        assert other.read(0, 99) == read_all(store, "s2")
        if count[0] < at:
            break
        at += 1 if at < 40 else 9


@pytest.mark.parametrize("scheme", ["memory", "lmdb", "jsonl"])
def test_x5_store_is_never_waited_for_by_itself(tmp_path: Path, scheme: str) -> None:
    """
    A handler that appended in the midst of an append of its thread hung for good on LMDB,
    waited for itself on JSONL, and gave two events one seq in memory. It is done, or
    refused at once.
    """

    def append(store: EventStore, seq: int, text: str) -> str:
        try:
            store.append(make_header(), [message(seq, text)])
        except StoreBusy as error:
            return "refused" if error.waited_s == 0 else "waited"
        except SequenceConflict:
            return "second"
        return "done"

    url = "memory:" if scheme == "memory" else f"{scheme}:{tmp_path}/store"
    with open_store(url) as store:
        store.append(make_header(), messages(2))
        steps = steps_of(lambda: append(store, 2, "first"))
        seen = set()
        for at in range(1, steps, max(1, steps // 60)):
            outcomes: list[str] = []
            length = store.snapshot("s1").length

            def strike(length: int = length, outcomes: list[str] = outcomes) -> None:
                outcomes.append(append(store, length, "inner"))

            with struck(strike, at):
                outcomes.append(append(store, length, "outer"))
            assert 1 == outcomes.count("done"), outcomes
            assert "waited" not in outcomes
            seen |= set(outcomes)
            assert length + 1 == store.snapshot("s1").length
        events = read_all(store, "s1")
        assert list(range(len(events))) == [event.seq for event in events]
        assert fold_surface(events).nodes == store.snapshot("s1").nodes()
        assert [] == list(store.verify())
        assert "refused" in seen


def test_x5_interrupted_fold_is_begun_anew(tmp_path: Path) -> None:
    """
    Ctrl-C in the midst of a fold left half of a replacement in the tables kept of a log,
    and the process called its surface invalid from then on.
    """
    events = [*messages(3), replacement(3, 0, 1, [0, 1]), *messages(2, start=4)]
    with open_store(f"jsonl:{tmp_path}/a") as store:
        store.append(make_header(), events)

    def interrupt() -> None:
        raise KeyboardInterrupt

    at = 1
    while True:
        with open_store(f"jsonl:{tmp_path}/a") as store:
            snapshot = store.snapshot("s1")
            with suppress(KeyboardInterrupt), struck(interrupt, at) as count:
                snapshot.nodes()
            assert fold_surface(events).nodes == store.snapshot("s1").nodes()
            assert [0, 1] == store.snapshot("s1").replaced(3)
        if count[0] < at:
            break
        at += 1


@pytest.mark.parametrize("scheme", ["memory", "lmdb", "jsonl"])
def test_x5_no_interrupt_of_a_write_is_swallowed(tmp_path: Path, scheme: str) -> None:
    """
    Ctrl-C in a callback of a weak reference, at the end of an append to a log file, was
    printed and forgotten. At whatever place it strikes, it is raised, the event is in or
    out, and the next append goes on.
    """
    url = "memory:" if scheme == "memory" else f"{scheme}:{tmp_path}/store"
    with open_store(url) as store:
        store.append(make_header(), messages(2))
        at, length = 1, 2
        while True:
            with suppress(KeyboardInterrupt), interrupted(at) as count:
                store.append(make_header(), [message(length)])
                if count[0] < at:
                    break
                pytest.fail(f"an interrupt was swallowed at place {at}")
            length = store.snapshot("s1").length
            length = store.append(make_header(), [message(length)])
            at += 1 if scheme != "lmdb" else 3
        assert messages(length + 1) == read_all(store, "s1")
        assert [] == list(store.verify())


def test_x5_listing_holds_what_comes_behind_an_interrupted_creation() -> None:
    """
    Ctrl-C in the midst of a creation left half of an entry in the order of the listing, and
    the next creation took it for mended: the session was never listed, or the list raised.
    """
    at = 1
    while True:
        live, store = LiveSessions(), MemoryStore()
        calls: list[Callable[[str], object]] = [
            lambda name, live=live: live.create(name, created_at=1, parent_session="p"),  # type: ignore[misc]
            lambda name, store=store: store.append(  # type: ignore[misc]
                make_header(name, parent_session="p"), messages(1)
            ),
        ]
        is_over = True
        for call in calls:
            with suppress(KeyboardInterrupt), interrupted(at) as count:
                call("torn")
            is_over &= count[0] < at
            call("whole")
        for kept, there in ((live, "torn" in live), (store, store.head("torn") is not None)):
            expected = ["torn", "whole"] if there else ["whole"]
            for page in (kept.heads(), kept.children("p")):
                assert expected == [head.header.id for head in page.items]
        if is_over:
            break
        at += 1


def test_flush_that_comes_before_the_notice_does_not_stop_the_recording() -> None:
    """
    An observer flushed on the event that the recorder was told of next, as a checkpoint
    does. The news of a stored event stayed, and kept all later news of its session from
    being seen: nothing was stored any more until the next flush.
    """
    live, store = LiveSessions(), MemoryStore()
    flushes: list[Recorder] = []
    live.observe(lambda session, event: flushes[0].flush(session) if flushes else None)
    with Recorder(live, store, window_ms=5) as recorder:
        session = live.create("s1")
        flushes.append(recorder)
        say(session)
        flushes.clear()
        time.sleep(0.1)  # the window of the news, if there are any, ends
        assert 1 == store.snapshot("s1").length
        say(session)
        eventually(lambda: store.snapshot("s1").length == 2)


def test_observers_may_come_and_go_while_being_told() -> None:
    """
    Subscribing and unsubscribing need no lock, so a handler may do both at any place; who
    comes while an event is told hears of the next one.
    """
    live = LiveSessions()
    told: list[str] = []

    def once(session: Session, event: Event) -> None:
        told.append(f"once {event.seq}")
        leave()
        live.observe(lambda session, event: told.append(f"late {event.seq}"))

    leave = live.observe(once)
    session = live.create("s1")
    say(session)
    say(session)
    leave()

    assert ["once 0", "late 1"] == told


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_child_of_a_fork_is_not_kept_waiting_by_the_recorder() -> None:
    """
    A child made while the recorder's thread held its locks could neither append nor look:
    the thread that would have let them go was not copied.
    """
    program = """
import os, sys, threading
from eventlog import LiveSessions, Recorder, open_store

live = LiveSessions()
recorder = Recorder(live, open_store("memory:"), window_ms=60000)
session = live.create("s1")
holding, go_on = threading.Event(), threading.Event()

def hold():
    with recorder._writer._lock, recorder._writer._writing:
        holding.set()
        go_on.wait(30)

threading.Thread(target=hold).start()
holding.wait()
child = os.fork()
if child == 0:
    session.append("x/note", {})
    assert 1 == recorder.health().pending
    os._exit(7)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
go_on.set()
recorder.close()
sys.exit(0 if code == 7 else 1)
"""
    done = subprocess.run([sys.executable, "-c", program], timeout=30, check=False)
    assert 0 == done.returncode


def locks_held(live: LiveSessions, session: Session, store: MemoryStore) -> list[Any]:
    """Every lock that a thread takes while it appends to a session, makes one, or stores."""
    return [session._log.lock, session._outbox._guard, live._lock, store._lock]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("number", range(4))
def test_child_of_a_fork_waits_for_no_thread_of_its_parent(number: int) -> None:
    """
    A child made while another thread appended to a session waited for ever, as soon as it
    looked at that session: the thread that would have let the lock go was not copied.
    """
    live, store = LiveSessions(), MemoryStore()
    session = live.create("s1")
    store.append(make_header(), messages(1))
    holding, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with locks_held(live, session, store)[number]:
            holding.set()
            go_on.wait(30)

    def work() -> None:
        told: list[int] = []
        live.observe(lambda _, event: told.append(event.seq))
        say(session)
        assert [0] == told
        check_whole(session)
        live.create("s2")
        assert {"s1", "s2"} == {head.header.id for head in live.heads().items}
        assert 2 == store.append(make_header(), [message(1)])

    thread = threading.Thread(target=hold)
    thread.start()
    assert holding.wait(30)
    try:
        assert 0 == forked(work, wait_s=10)
    finally:
        go_on.set()
        thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_observers_in_a_forked_child_are_told_of_its_events() -> None:
    """
    A child made while another thread told an event was told of no event of that session
    any more: it left them to that thread, which it does not have.
    """
    live = LiveSessions()
    session = live.create("s1")
    telling, go_on = threading.Event(), threading.Event()
    told: list[int] = []

    def observe(_: Session, event: Event) -> None:
        told.append(event.seq)
        if event.seq == 0:
            telling.set()
            go_on.wait(30)

    def work() -> None:
        say(session)
        assert [0, 1] == told

    live.observe(observe)
    thread = threading.Thread(target=say, args=(session,))
    thread.start()
    assert telling.wait(30)
    try:
        assert 0 == forked(work, wait_s=10)
    finally:
        go_on.set()
        thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_within_a_write_leaves_the_lock_to_its_own_thread() -> None:
    """
    What forks in the midst of an append comes back to it on both sides: there the append
    still holds its lock, and lets it go.
    """
    session = LiveSessions().create("s1")

    def work() -> None:
        session._log.lock.release()  # as the append would that the child comes back to
        say(session)
        check_whole(session)

    with session._log.lock:
        code = forked(work, wait_s=10)

    assert 0 == code
