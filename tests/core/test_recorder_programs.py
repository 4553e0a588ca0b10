"""
Random programs of live sessions over a store that fails at random, before or after it has
done the work: nothing is lost, doubled or mixed up.
"""

from __future__ import annotations

import random

import pytest

from eventlog import APPEND, Event, EventStore, LiveSessions, Recorder, Session, open_store
from eventlog.errors import EventLogError, StoreBusy, StoreFull, StoreUnavailable
from eventlog.testing.faulty import FaultyStore


class UnreliableStore(FaultyStore):
    """A store of whose appends a part fails, until it is mended."""

    def __init__(self, inner: EventStore, choose: random.Random) -> None:
        super().__init__(inner, StoreFull("here"))
        self.choose = choose
        self.mended = False

    def _fails(self, kind: str) -> bool:
        if self.mended or kind != "append":
            return False
        self._error = self.choose.choice(
            [StoreFull("here"), StoreBusy(None, 0.0), StoreUnavailable("here"), OSError("odd")]
        )
        self._when = self.choose.choice(("before", "after"))
        return self.choose.random() < 0.4


def append(session: Session, choose: random.Random) -> None:
    """Append something: a message, an event off the surface, a turn's start or end."""
    kind = choose.choice(("user/message", "todo/write", "turn/start", "turn/end"))
    data = {"turn": 1, "content": [{"type": "text", "text": str(choose.random())}]}
    session.append(kind, data, surface_op=APPEND if kind == "user/message" else None)


def events_of(session: Session) -> list[Event]:
    return session.read(0, session.length)


@pytest.mark.parametrize("seed", range(40))
def test_programs_end_with_every_event_stored_once(seed: int) -> None:
    """
    Sessions are made, appended to, forked, flushed, let go and resumed, while the store
    fails now and then. Once it is mended, it has of every session exactly what was
    appended; and a flush that returned had spoken the truth.
    """
    choose = random.Random(seed)
    inner = open_store("memory:")
    store = UnreliableStore(inner, choose)
    live = LiveSessions()
    expected: dict[str, list[Event]] = {}
    with Recorder(live, store, window_ms=choose.choice((1, 60_000))) as recorder:
        for step in range(60):
            sessions = list(live)
            action = choose.random()
            session = choose.choice(sessions) if sessions else live.create(f"s{step}")
            try:
                if action < 0.1:
                    session = live.create(f"n{step}")
                elif action < 0.6:
                    append(session, choose)
                elif action < 0.7:
                    nodes = [event.type for event in events_of(session)]
                    ends = [kind for kind in nodes if kind in ("turn/start", "turn/end")]
                    if not ends or ends[-1] == "turn/end":
                        session = live.fork(session, session_id=f"f{step}")
                elif action < 0.85:
                    recorder.flush(session)
                    if session.length:
                        held = inner.snapshot(session.id)
                        assert events_of(session) == held.read(0, held.length)
                elif action < 0.93:
                    live.dispose(session)
                else:
                    gone = [name for name in expected if name not in live and expected[name]]
                    if gone:
                        session = recorder.resume(choose.choice(gone))
                        assert (
                            expected[session.id] == events_of(session)[: len(expected[session.id])]
                        )
            except (StoreFull, StoreBusy, StoreUnavailable, OSError):
                pass
            expected[session.id] = events_of(session)
        store.mended = True
        for session in live:
            expected[session.id] = events_of(session)

    assert recorder.health().ok
    for name, events in expected.items():
        head = inner.head(name)
        if events:
            held = inner.snapshot(name)
            # Closers of a resume whose answer was lost are stored, and synthetic.
            assert events == held.read(0, len(events)), name
            assert all(
                event.type == "turn/end" and event.data["reason"] == {"kind": "interrupted"}
                for event in held.read(len(events), held.length)
            )
        else:
            assert None is head


def test_every_failing_step_of_a_resume_leaves_a_legal_state() -> None:
    """
    A fault at each call of resuming in turn, with the work done or not: the session is
    not live, the log is as it was or closed, and the next resume succeeds.
    """
    for when in ("before", "after"):
        for at in range(1, 20):
            inner = open_store("memory:")
            live = LiveSessions()
            first = live.create("s1")
            first.append("turn/start", {"turn": 1})
            inner.append(first.header, events_of(first))
            store = FaultyStore(
                inner,
                StoreUnavailable("here"),
                at=at,
                when=when,
                calls={"append", "snapshot", "read", "surface"},
            )
            with Recorder(LiveSessions(), store) as recorder:
                try:
                    recorder.resume("s1")
                except EventLogError:
                    assert [] == list(recorder.live)
                    assert inner.snapshot("s1").length in (1, 2)
                    assert 2 == recorder.resume("s1").length
                else:
                    assert 0 == store.raised
            assert 2 == inner.snapshot("s1").length
            if not store.raised:
                break
        assert at > 3
