"""
Resuming stored sessions: what comes back, what closes it, what is refused.

Of the reference's facts B1–B12 those of resuming are here by number; B2, B7, B9 and
B10–B12 are the store's (header values, cancellation, changes, retries, gaps, values).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog import (
    APPEND,
    DEFAULT_VOCABULARY,
    Event,
    EventStore,
    EventType,
    LiveSessions,
    Recorder,
    Replace,
    Session,
    SessionHeader,
    fold_surface,
    open_store,
)
from eventlog.errors import (
    InvalidSurface,
    SequenceConflict,
    SessionExists,
    SessionNotFound,
    StoreFull,
    UnsupportedFormat,
    ValueRejected,
)
from eventlog.loading import load_log
from eventlog.testing.faulty import FaultyStore
from eventlog.testing.samples import random_log
from support import log_only, make_header, message, messages


@pytest.fixture(params=["memory", "lmdb", "jsonl"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EventStore]:
    """Each store in turn, empty."""
    url = "memory:" if request.param == "memory" else f"{request.param}:{tmp_path / 'store'}"
    with open_store(url) as opened:
        yield opened


def event(seq: int, type: str, data: dict[str, Any], **fields: Any) -> Event:
    return Event(seq, 1_000 + seq, type, data, **fields)


def turn(start: int, number: int) -> list[Event]:
    """A whole turn of six events."""
    return [
        event(start, "turn/start", {"turn": number}),
        event(start + 1, "step/start", {"turn": number, "step": 1}),
        message(start + 2),
        answer(start + 3, number),
        event(start + 4, "step/end", {"turn": number, "step": 1}),
        event(start + 5, "turn/end", {"turn": number, "reason": {"kind": "completed"}}),
    ]


def answer(seq: int, number: int = 1, *calls: str) -> Event:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": "ok"}]
    blocks += [{"type": "tool-call", "id": c, "name": "bash", "arguments": "{}"} for c in calls]
    said = {"id": f"a{seq}", "role": "assistant", "content": blocks, "source": {"kind": "model"}}
    data = {"turn": number, "step": 1, "message": said}
    return event(seq, "assistant/message", data, surface_op=APPEND)


def call(seq: int, call_id: str) -> Event:
    data = {"turn": 1, "step": 1, "callId": call_id, "name": "bash", "arguments": "{}"}
    return event(seq, "tool/call", data)


def everything(store: EventStore, session_id: str = "s1") -> list[Event]:
    snapshot = store.snapshot(session_id)
    return snapshot.read(0, snapshot.length)


def resumed(store: EventStore) -> Session:
    """Resume a session by a recorder of its own, which is closed again."""
    with Recorder(LiveSessions(), store) as recorder:
        return recorder.resume("s1")


def test_b1_a_whole_log_comes_back_as_it_is(store: EventStore) -> None:
    """
    A log that ends between turns gets nothing: same header, same events, and the next
    append continues it in the store.
    """
    header = make_header("s1", cwd="/w", agent_preset="p", extra={"k": 1})
    store.append(header, turn(0, 1))
    token = store.changes().token
    live = LiveSessions()
    with Recorder(live, store) as recorder:
        session = recorder.resume("s1")
        assert (header, turn(0, 1)) == (session.header, session.read(0, 99))
        assert session is live.get("s1")
        assert turn(0, 1) == everything(store)
        recorder.flush()
        assert token == store.changes(token).token
        assert 6 == session.append("turn/start", {"turn": 2}).seq
        recorder.flush(session)
        assert session.read(0, 99) == everything(store)


def test_b3_an_interrupted_turn_is_closed_once(store: EventStore) -> None:
    """
    After a whole turn and a second one that a crash cut short, inspecting shows the
    balanced log and changes nothing; resuming stores the same, and the log goes on
    behind it. Resumed again, nothing is added.
    """
    log = [*turn(0, 1), event(6, "turn/start", {"turn": 2}), event(7, "step/start", {"step": 1})]
    store.append(make_header("s1"), log)
    with Recorder(LiveSessions(), store) as recorder:
        shown = recorder.inspect("s1")
        assert (8, 10) == (shown.length, shown.snapshot.length)
        assert ["step/end", "turn/end"] == [closer.type for closer in shown.closers]
        assert log == everything(store)

        session = recorder.resume("s1")
        assert shown.snapshot.read(0, 99) == session.read(0, 99) == everything(store)
        assert {"kind": "interrupted"} == session.read(9, 10)[0].data["reason"]
        assert 10 == session.append("turn/start", {"turn": 3}).seq
        session.append("turn/end", {"turn": 3, "reason": {"kind": "completed"}})
    again = resumed(store)
    assert list(range(12)) == [each.seq for each in everything(store)]
    assert again.read(0, 99) == everything(store)


def test_f14_b4_b5_an_unanswered_call_is_answered(store: EventStore) -> None:
    """
    A crash between a call and its result: every later turn was refused by the provider.

    Inspecting reports the open calls and changes nothing. Resuming appends a synthetic
    result for each, which can be found and which the model sees; doing it twice adds
    nothing.
    """
    log = [
        event(0, "turn/start", {"turn": 1}),
        event(1, "step/start", {"turn": 1, "step": 1}),
        message(2),
        answer(3, 1, "c1", "c2"),
        call(4, "c2"),
    ]
    store.append(make_header("s1"), log)
    with Recorder(LiveSessions(), store) as recorder:
        work = recorder.inspect("s1").open_work
        assert [("c1", None), ("c2", 4)] == [(each.call_id, each.seq) for each in work.calls]
        assert (0, 1, 1, 1) == (work.turn_start, work.turn, work.step_start, work.step)
        assert log == everything(store)

    session = resumed(store)
    assert ["tool/result", "tool/result", "step/end", "turn/end"] == [
        each.type for each in session.read(5, 99)
    ]
    codes = [each.data["error"]["code"] for each in session.read(5, 7)]
    assert ["TOOL_NOT_STARTED", "TOOL_OUTCOME_UNKNOWN"] == codes
    assert all("Interrupted" in DEFAULT_VOCABULARY.text(each) for each in session.read(5, 7))
    seen = session.messages()[-2:]
    assert ["c1", "c2"] == [each["content"][0]["toolCallId"] for each in seen]
    assert [True, True] == [each["content"][0]["isError"] for each in seen]
    assert [2, 3, 5, 6] == session.nodes
    assert session.read(0, 99) == everything(store) == resumed(store).read(0, 99)


def test_f14_a_log_without_turns(store: EventStore) -> None:
    """
    A harness that knows no turns ends at an answer with a call: it is answered too.
    """
    store.append(make_header("s1"), [message(0), answer(1, 1, "c1")])
    assert ["user/message", "assistant/message", "tool/result"] == [
        each.type for each in resumed(store).read(0, 9)
    ]
    assert 3 == len(everything(store))
    assert 3 == resumed(store).length


def test_b6_a_session_that_was_never_used_cannot_be_resumed(store: EventStore) -> None:
    """
    Nothing was stored, so there is nothing to bring back; and nothing is created.
    """
    with Recorder(LiveSessions(), store) as recorder:
        recorder.live.create("s1")
        recorder.live.dispose("s1")
        with pytest.raises(SessionNotFound):
            recorder.resume("s1")
        with pytest.raises(SessionNotFound):
            recorder.inspect("s1")
        with pytest.raises(ValueRejected):
            recorder.resume("")
    assert () == store.heads().items


def test_b8_a_log_is_read_as_it_is_stored(store: EventStore) -> None:
    """
    Reading from a seq gives what is stored, open turns without closers; beyond the end
    there is nothing.
    """
    log = [*turn(0, 1), event(6, "turn/start", {"turn": 2})]
    store.append(make_header("s1"), log)
    snapshot = store.snapshot("s1")
    assert log == snapshot.read(0, snapshot.length)
    assert log[3:] == snapshot.read(3, 7)
    assert [] == snapshot.read(7, 99)


def test_j7_resuming_makes_no_second_log(tmp_path: Path) -> None:
    """
    A resume made a second file with only a header while events went to the first.

    There is one file with one header, and the events are in it.
    """
    root = tmp_path / "logs"
    with open_store(f"jsonl:{root}") as store:
        store.append(make_header("s1"), turn(0, 1))
        with Recorder(LiveSessions(), store) as recorder:
            recorder.resume("s1").append("x/note", {}, ignorable=True)
    files = list(root.iterdir())
    assert ["s1.jsonl"] == [file.name for file in files]
    lines = files[0].read_bytes().splitlines()
    assert 1 == sum(line.startswith(b'{"type":"session"') for line in lines)
    assert 8 == len(lines)


def test_an_unknown_required_type_is_refused_by_name(store: EventStore) -> None:
    """
    A log with an event that this harness would misread is not resumed, and nothing is
    written to it. Inspecting shows which types those are.
    """
    log = [
        event(0, "turn/start", {"turn": 1}),
        event(1, "x/skippable", {}, ignorable=True),
        event(2, "x/required", {}),
        event(3, "y/required", {}),
        event(4, "x/required", {}),
    ]
    store.append(make_header("s1"), log)
    with Recorder(LiveSessions(), store) as recorder:
        assert {"x/required": 2, "y/required": 3} == recorder.inspect("s1").unknown_types
        with pytest.raises(UnsupportedFormat) as caught:
            recorder.resume("s1")
        assert ("x/required", 2) == (caught.value.found, caught.value.seq)
        assert "turn/start" in caught.value.supported
        assert ["event 3 has the unknown required type 'y/required'"] == caught.value.__notes__
        assert [] == list(recorder.live)
    assert log == everything(store)


def test_a_registered_type_may_be_resumed(store: EventStore) -> None:
    """
    A harness resumes logs with the types that it has registered.
    """
    store.append(make_header("s1"), [event(0, "x/required", {})])
    vocabulary = DEFAULT_VOCABULARY.with_types({"x/required": EventType()})
    with Recorder(LiveSessions(vocabulary=vocabulary), store) as recorder:
        assert 1 == recorder.resume("s1").length


def test_another_version_is_refused(tmp_path: Path) -> None:
    """
    A log of a later format is not resumed; it is refused by its version before anything
    else is said of it.
    """
    (tmp_path / "s1.jsonl").write_bytes(
        b'{"type":"session","version":3,"id":"s1","createdAt":1,"delegationDepth":0}\n'
        b'{"type":"z/new","seq":0,"time":1,"data":{}}\n'
    )
    with (
        open_store(f"jsonl:{tmp_path}") as store,
        Recorder(LiveSessions(), store) as recorder,
        pytest.raises(UnsupportedFormat) as caught,
    ):
        recorder.resume("s1")
    assert (3, None) == (caught.value.found, caught.value.seq)


def test_a_log_whose_fold_fails_is_not_resumed(tmp_path: Path) -> None:
    """
    A file that somebody else wrote has a replacement of a node that is not there. It is
    refused by the event, and nothing is written or live.
    """
    text = (
        b'{"type":"session","version":0,"id":"s1","createdAt":1,"delegationDepth":0}\n'
        b'{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}\n'
        b'{"type":"user/message","seq":1,"time":1,"sourceEventSeqs":[0],'
        b'"surfaceOp":{"op":"replace","start":0,"end":0},"data":{}}\n'
    )
    (tmp_path / "s1.jsonl").write_bytes(text)
    with open_store(f"jsonl:{tmp_path}") as store, Recorder(LiveSessions(), store) as recorder:
        for look in (recorder.resume, recorder.inspect):
            with pytest.raises(InvalidSurface) as caught:
                look("s1")
            assert 1 == caught.value.seq
        assert [] == list(recorder.live)
    assert text == (tmp_path / "s1.jsonl").read_bytes()


def test_a_live_session_is_not_resumed_and_is_inspected_as_it_is() -> None:
    """
    What is live already cannot come back; its open turn goes on and is not closed.
    """
    store = open_store("memory:")
    live = LiveSessions()
    with Recorder(live, store) as recorder:
        session = live.create("s1")
        session.append("turn/start", {"turn": 1})
        with pytest.raises(SessionExists):
            recorder.resume("s1")
        shown = recorder.inspect("s1")
        assert ((), 1, 0) == (shown.closers, shown.length, shown.open_work.turn_start)
        assert session.read(0, 9) == shown.snapshot.read(0, 9)


def test_a_disposed_session_is_stored_before_it_is_resumed() -> None:
    """
    What a session had left in its window when it was let go is there when it comes back.
    """
    store = FaultyStore(open_store("memory:"), StoreFull("here"))
    live = LiveSessions()
    with Recorder(live, store, window_ms=60_000) as recorder:
        session = live.create("s1")
        session.append("x/note", {"n": 1}, ignorable=True)
        live.dispose(session)
        assert 1 == store.raised
        assert session.read(0, 9) == recorder.resume("s1").read(0, 9)


def test_closers_that_cannot_be_stored_bring_nothing_back() -> None:
    """
    The store is full when the turn is to be closed: resuming fails, nothing is live, and
    the next try succeeds.
    """
    inner = open_store("memory:")
    inner.append(make_header("s1"), [event(0, "turn/start", {"turn": 1})])
    store = FaultyStore(inner, StoreFull("here"))
    with Recorder(LiveSessions(), store) as recorder:
        with pytest.raises(StoreFull):
            recorder.resume("s1")
        assert [] == list(recorder.live)
        assert 1 == len(everything(inner))
        assert 2 == recorder.resume("s1").length


def test_closing_whose_answer_was_lost_is_not_repeated() -> None:
    """
    The closers were stored and the answer lost. Resuming again finds the turn closed.
    """
    inner = open_store("memory:")
    inner.append(make_header("s1"), [event(0, "turn/start", {"turn": 1})])
    store = FaultyStore(inner, StoreFull("here"), when="after")
    with Recorder(LiveSessions(), store) as recorder:
        with pytest.raises(StoreFull):
            recorder.resume("s1")
        assert 2 == recorder.resume("s1").length
    assert 2 == len(everything(inner))


class RacedStore(FaultyStore):
    """A store in which somebody else resumes the same session first, at the last moment."""

    def append(self, header: SessionHeader, events: Any) -> int:
        resumed(self._inner)
        for extra in self.then:
            self._inner.append(header, [extra])
        return super().append(header, events)

    then: tuple[Event, ...] = ()


def raced(*then: Event) -> RacedStore:
    """A store with an open turn, and what the one who resumes first appends then."""
    inner = open_store("memory:")
    inner.append(make_header("s1"), [event(0, "turn/start", {"turn": 1})])
    store = RacedStore(inner, StoreFull("never"), times=0)
    store.then = then
    return store


def test_two_that_resume_at_once_close_the_turn_once() -> None:
    """
    Both find the turn open and make the same closers; they are stored once.
    """
    store = raced()
    with Recorder(LiveSessions(), store) as recorder:
        session = recorder.resume("s1")
        assert session.read(0, 9) == everything(store)
    assert 2 == len(everything(store))


def test_who_resumes_a_log_that_has_gone_on_is_told() -> None:
    """
    The other one has closed the turn and gone on: what was read is old, and nothing is
    brought back from it.
    """
    store = raced(event(2, "turn/start", {"turn": 2}))
    with Recorder(LiveSessions(), store) as recorder:
        with pytest.raises(SequenceConflict) as caught:
            recorder.resume("s1")
        assert (3, 2) == (caught.value.expected, caught.value.actual)
        assert [] == list(recorder.live)


def test_a_resumed_surface_is_that_of_a_fresh_fold(store: EventStore) -> None:
    """
    Of random logs with replacements, the surface, classes, replacements and citations of
    the log that was loaded in bulk are those of a fold, and it can be appended to.
    """
    choose = random.Random(8)
    for n in range(12):
        log = random_log(choose.randrange, 60)
        session_id = f"s{n}"
        store.append(make_header(session_id), log)
        loaded = load_log(store.snapshot(session_id))
        fresh, view = fold_surface(log), loaded.snapshot()
        again = LiveSessions().create(seed=log).snapshot(at=len(log))
        assert log == view.read(0, 99)
        assert fresh.nodes == view.nodes()
        assert len(fresh.replacements) == loaded.tables.replacements
        assert again.replaced_by(0, 99) == view.replaced_by(0, 99)
        for seq in range(len(log)):
            assert fresh.classify(seq) is view.classify(seq)
            assert again.replaced(seq) == view.replaced(seq)
            assert again.citing(seq) == view.citing(seq)
            assert again.stand_in(seq) == view.stand_in(seq)
        nodes = view.nodes()
        if nodes:
            op = Replace(nodes[0], nodes[-1])
            loaded.append(message(len(log), surface_op=op, source_event_seqs=nodes))
            assert [len(log)] == loaded.snapshot().nodes()


def test_resuming_compares_nothing_again() -> None:
    """
    The stored events of a resumed session are known to be stored: the next append does
    not read them.
    """
    store = open_store("memory:")
    store.append(make_header("s1"), messages(3000))
    with Recorder(LiveSessions(), store) as recorder:
        session = recorder.resume("s1")
        store.meter.reset()
        session.append("turn/start", {"turn": 1})
        recorder.flush()
        assert store.meter.records < 10
    assert 3001 == store.snapshot("s1").length


def test_a_log_of_log_only_events(store: EventStore) -> None:
    """
    A log that has never had a surface comes back with an empty one.
    """
    store.append(make_header("s1"), [log_only(n, ignorable=True) for n in range(3)])
    session = resumed(store)
    assert ([], [], 3) == (session.nodes, session.messages(), session.length)
