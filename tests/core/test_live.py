"""
Live sessions: appending, reading, observers, listing, disposal.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest

from eventlog import (
    APPEND,
    DEFAULT_VOCABULARY,
    Event,
    EventClass,
    EventType,
    HeadKey,
    LiveSessions,
    LogSnapshot,
    Replace,
    Session,
    values,
)
from eventlog.errors import (
    InvalidArgument,
    InvalidSurface,
    SessionExists,
    SessionNotFound,
    ValueRejected,
)
from support import message, messages, replacement


def say(session: Session, text: str = "hello", **fields: Any) -> Event:
    """Append a user's message."""
    data = {"id": "m", "role": "user", "content": [{"type": "text", "text": text}]}
    return session.append("user/message", data, surface_op=APPEND, **fields)


def texts(session: Session) -> list[str]:
    """The first text of each message that the model sees."""
    return [message["content"][0]["text"] for message in session.messages()]


def test_append_returns_the_logged_event() -> None:
    """
    An append gives the next seq, the time of now, and the event as the log holds it.
    """
    session = LiveSessions().create("s1", created_at=5)
    first = say(session)
    second = session.append("x/note", {"n": 1}, ignorable=True, time=-7)

    assert [first, second] == session.read(0, 10)
    assert (0, 1) == (first.seq, second.seq)
    assert first.time > 1_700_000_000_000
    assert Event(1, -7, "x/note", {"n": 1}, ignorable=True) == second
    assert (2, -7) == (session.head().length, session.head().last_time)


def test_a_session_exists_before_its_first_event() -> None:
    """
    A session without events is listed, has a head, a snapshot and no messages.
    """
    live = LiveSessions()
    session = live.create("s1", created_at=5, cwd="/w", agent_preset="p", extra={"k": [1]})

    assert session is live.get("s1")
    assert session.header == live.snapshot("s1").header
    assert ("/w", "p", {"k": [1]}) == (
        session.header.cwd,
        session.header.agent_preset,
        session.header.extra,
    )
    assert (0, None) == (session.head().length, session.head().last_time)
    assert [] == session.messages()
    assert [] == session.nodes
    assert isinstance(live.snapshot("s1"), LogSnapshot)


@pytest.mark.parametrize(
    ("type", "data", "fields"),
    [
        ("x/note", {"n": float("nan")}, {}),
        ("x/note", [1], {}),
        ("", {}, {}),
        ("x/note", {}, {"time": 1.5}),
        ("x/note", {}, {"ignorable": 1}),
    ],
)
def test_a_refused_value_uses_no_seq(type: str, data: Any, fields: dict[str, Any]) -> None:
    """
    What the log cannot hold is refused where it is made, and leaves no gap.
    """
    session = LiveSessions().create()
    with pytest.raises(ValueRejected):
        session.append(type, data, **fields)

    assert 0 == session.length
    assert 0 == say(session).seq


def test_the_data_is_detached() -> None:
    """
    What the caller does to its objects afterwards does not reach the log.
    """
    session = LiveSessions().create()
    data: dict[str, Any] = {"items": [1]}
    event = session.append("x/note", data)
    data["items"].append(2)
    event.data["items"].append(3)

    assert {"items": [1]} == session.read(0, 1)[0].data


def test_an_id_is_taken_once() -> None:
    """
    A second session under a live id is refused, and the first one goes on.
    """
    live = LiveSessions()
    say(first := live.create("s1"))
    with pytest.raises(SessionExists) as caught:
        live.create("s1")

    assert "s1" == caught.value.session_id
    assert first is live.get("s1")
    assert 1 == live.heads().items[0].length


def test_made_ids_are_unique_and_sort_by_time() -> None:
    """
    Sessions without a given id get ids that no one can guess and that sort by creation.
    """
    live = LiveSessions()
    made = [live.create().id for _ in range(200)]

    assert 200 == len(set(made))
    assert sorted(made, key=lambda made_id: made_id[:13]) == made
    assert 200 == len({made_id[15:] for made_id in made})


def test_messages_follow_the_surface() -> None:
    """
    Messages grow with appends and are those of the new surface after a replacement.
    """
    session = LiveSessions().create()
    say(session, "a")
    say(session, "b")
    session.append("turn/start", {"turn": 1})
    assert ["a", "b"] == texts(session)

    say(session, "c")
    assert ["a", "b", "c"] == texts(session)

    data = {"role": "user", "content": [{"type": "text", "text": "a+b"}]}
    session.append("user/message", data, surface_op=Replace(0, 1), source_event_seqs=[0, 1, 2])
    assert ["a+b", "c"] == texts(session)

    say(session, "d")
    assert ["a+b", "c", "d"] == texts(session)


def test_x2_messages_of_whatever_the_log_took(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A message has an envelope around what the event held. At the bounds of depth and size
    it was beyond them, and no message of the session could be had any more.
    """
    deep: Any = "x"
    for _ in range(199):
        deep = [deep]
    session = LiveSessions().create()
    session.append("tool/result", {"callId": "c", "content": deep}, surface_op=APPEND)
    monkeypatch.setattr(values, "PAYLOAD_BYTES_MAX", 1_000)
    session.append("user/message", {"content": "x" * (1_000 - 14)}, surface_op=APPEND)

    result, said = session.messages()
    assert deep == result["content"][0]["content"]
    assert {"role": "user", "content": "x" * 986} == said


def test_messages_are_fresh_objects() -> None:
    """
    A caller may change the messages it got; neither the log nor the next list sees it.
    """
    session = LiveSessions().create()
    say(session, "a")
    session.messages()[0]["content"].clear()
    assert ["a"] == texts(session)


def test_messages_look_at_each_event_once() -> None:
    """
    Asked again without news, nothing is derived; after appends only the news is.
    """
    looked_at: list[int] = []

    def remember(data: dict[str, Any]) -> dict[str, Any]:
        looked_at.append(data["n"])
        return {"role": "user", "content": [{"type": "text", "text": str(data["n"])}]}

    vocabulary = DEFAULT_VOCABULARY.with_types({"x/said": EventType(message=remember)})
    session = LiveSessions(vocabulary=vocabulary).create()
    for n in range(3):
        session.append("x/said", {"n": n}, surface_op=APPEND)
    session.messages()
    session.messages()
    session.append("x/said", {"n": 3}, surface_op=APPEND)

    assert ["0", "1", "2", "3"] == texts(session)
    assert [0, 1, 2, 3] == looked_at


def test_a_type_of_its_own_without_a_message_is_a_node_all_the_same() -> None:
    """
    Whether an event is on the surface is a fact of the log, not of the vocabulary.
    """
    session = LiveSessions().create()
    session.append("x/marker", {}, surface_op=APPEND)

    assert [0] == session.nodes
    assert [] == session.messages()


def test_a_snapshot_does_not_grow() -> None:
    """
    A snapshot is the log as of its length, whatever is appended or replaced later.
    """
    live = LiveSessions()
    session = live.create("s1")
    say(session, "a")
    say(session, "b")
    snapshot = live.snapshot("s1")
    session.append(
        "user/message",
        {"role": "user", "content": []},
        surface_op=Replace(0, 1),
        source_event_seqs=[0, 1],
    )

    assert 2 == snapshot.length
    assert [0, 1] == snapshot.nodes()
    assert 2 == len(snapshot.read(0, 9))
    assert EventClass.CURRENT is snapshot.classify(0)
    assert EventClass.SHADOWED is session.snapshot().classify(0)
    assert [0] == live.snapshot("s1", at=1).nodes()
    with pytest.raises(InvalidArgument):
        live.snapshot("s1", at=4)


def test_unknown_sessions() -> None:
    """
    None from the look-ups, an error from a snapshot, False from disposal.
    """
    live = LiveSessions()
    assert None is live.get("nobody")
    assert None is live.head("nobody")
    assert False is live.dispose("nobody")
    assert "nobody" not in live
    with pytest.raises(SessionNotFound) as caught:
        live.snapshot("nobody")
    assert "nobody" == caught.value.session_id
    with pytest.raises(ValueRejected):
        live.head("")


def test_listing_has_the_order_and_pages_of_stores() -> None:
    """
    Newest first, then by id in code point order; pages go on behind a key, also one
    whose session is gone.
    """
    live = LiveSessions()
    for session_id, created_at in (("b", 1), ("a", 1), ("Z", 1), ("c", 3), ("d", 2)):
        live.create(session_id, created_at=created_at)

    first = live.heads(limit=2)
    assert ["c", "d"] == [head.header.id for head in first.items]
    assert HeadKey(2, "d") == first.next_key
    live.dispose("d")
    rest = live.heads(after=first.next_key, limit=3)
    assert ["Z", "a", "b"] == [head.header.id for head in rest.items]
    assert None is rest.next_key
    assert () == live.heads(after=HeadKey(0, "x")).items
    with pytest.raises(InvalidArgument):
        live.heads(limit=0)


def test_children_are_listed_by_parent() -> None:
    """
    A parent that is not live has its children all the same; disposed ones are gone.
    """
    live = LiveSessions()
    for session_id, created_at in (("x", 1), ("y", 2), ("z", 3)):
        live.create(session_id, created_at=created_at, parent_session="gone")
    live.create("other", parent_session="x")
    live.dispose("y")

    assert ["z", "x"] == [head.header.id for head in live.children("gone").items]
    assert ["z"] == [head.header.id for head in live.children("gone", limit=1).items]
    assert () == live.children("y").items


def test_a_seed_is_marked_and_not_told() -> None:
    """
    A seeded session starts with the events given and one session/end-seed; observers
    hear of the session only. An empty seed is marked too, no seed is not.
    """
    live = LiveSessions()
    told: list[Any] = []
    live.observe(lambda session, event: told.append(event.seq), created=told.append)
    seeded = live.create("s1", seed=messages(3), parent_session="p", seed_length=3)
    empty = live.create("s2", seed=[])

    assert [*messages(3)] == seeded.read(0, 3)
    assert ["session/end-seed"] == [event.type for event in seeded.read(3, 9)]
    assert ["session/end-seed"] == [event.type for event in empty.read(0, 9)]
    assert [seeded, empty] == told
    assert 4 == say(seeded).seq
    assert [seeded, empty, 4] == told


@pytest.mark.parametrize(
    ("seed", "error"),
    [
        ([message(1)], InvalidSurface),
        ([message(0), message(2)], InvalidSurface),
        ([message(0), replacement(1, 0, 0, [])], InvalidSurface),
        ([{"seq": 0}], InvalidArgument),
        (5, InvalidArgument),
    ],
)
def test_a_bad_seed_creates_nothing(seed: Any, error: type[Exception]) -> None:
    """
    A seed with a gap, a broken fold, or something else inside leaves no session behind.
    """
    live = LiveSessions()
    with pytest.raises(error):
        live.create("s1", seed=seed)
    assert [] == list(live)


def test_observers_are_told_in_order() -> None:
    """
    Creation, events by seq, disposal: each observer hears all of it in this order.
    """
    live = LiveSessions()
    told: list[tuple[str, Any]] = []
    unsubscribe = live.observe(
        lambda session, event: told.append((session.id, event.seq)),
        created=lambda session: told.append((session.id, "created")),
        disposed=lambda session: told.append((session.id, "disposed")),
    )
    session = live.create("s1")
    say(session)
    say(session)
    assert live.dispose(session)
    unsubscribe()
    unsubscribe()
    say(live.create("s2"))

    assert [("s1", "created"), ("s1", 0), ("s1", 1), ("s1", "disposed")] == told


def test_a_failing_observer_is_contained(caplog: pytest.LogCaptureFixture) -> None:
    """
    The append stands, the observers behind are told, and the failure is logged.
    """
    live = LiveSessions()
    told: list[int] = []

    def fail(session: Session, event: Event) -> None:
        raise RuntimeError("broken")

    live.observe(fail)
    live.observe(lambda session, event: told.append(event.seq))
    session = live.create("s1")
    with caplog.at_level(logging.ERROR, logger="eventlog.live"):
        say(session)
        say(session)

    assert [0, 1] == told
    assert 2 == session.length
    assert 2 == len(caplog.records)
    assert "eventlog.live" == caplog.records[0].name


def test_an_interrupt_in_an_observer_reaches_the_caller() -> None:
    """
    Ctrl-C while observers are told: the event is in, the others hear of it, the
    exception is raised, and the next append tells as before.
    """
    live = LiveSessions()
    told: list[int] = []

    def interrupt(session: Session, event: Event) -> None:
        if event.seq == 0:
            raise KeyboardInterrupt

    live.observe(interrupt)
    live.observe(lambda session, event: told.append(event.seq))
    session = live.create("s1")
    with pytest.raises(KeyboardInterrupt):
        say(session)
    assert (1, [0]) == (session.length, told)
    say(session)
    assert [0, 1] == told


def test_an_observer_may_append() -> None:
    """
    An observer that appends to the session it is told about does not wait for itself;
    every observer hears of both events in log order.
    """
    live = LiveSessions()
    told: list[int] = []

    def echo(session: Session, event: Event) -> None:
        if event.type == "user/message":
            assert event.seq + 1 == session.append("x/echo", {}).seq

    live.observe(echo)
    live.observe(lambda session, event: told.append(event.seq))
    session = live.create()
    say(session)
    say(session)

    assert [0, 1, 2, 3] == told
    assert ["user/message", "x/echo"] * 2 == [event.type for event in session.read(0, 9)]


def test_an_observer_may_dispose_and_fork() -> None:
    """
    An observer may do to the sessions whatever a caller may.
    """
    live = LiveSessions()
    forked: list[Session] = []

    def react(session: Session, event: Event) -> None:
        if session.id == "s1":
            forked.append(live.fork(session, session_id="child"))
            live.dispose(session)

    live.observe(react)
    say(live.create("s1"))

    assert ["child"] == [session.id for session in live]
    assert "s1" == forked[0].header.parent_session


def test_a_disposed_session_takes_no_events_and_can_be_read() -> None:
    """
    Disposal frees the id; what holds the session still reads it, and cannot append.
    """
    live = LiveSessions()
    session = live.create("s1")
    say(session, "kept")
    snapshot = live.snapshot("s1")
    assert live.dispose(session)
    assert not live.dispose(session)

    with pytest.raises(SessionNotFound):
        say(session)
    assert session.disposed
    assert ["kept"] == texts(session)
    assert 1 == len(snapshot.read(0, 9))
    assert None is live.get("s1")
    assert () == live.heads().items

    again = live.create("s1")
    assert not live.dispose(session)
    assert again is live.get("s1")


def test_repr_tells_what_there_is() -> None:
    """
    The representations name ids and counts, not contents.
    """
    live = LiveSessions()
    session = live.create("s1")
    say(session)
    assert "<Session 's1', 1 events>" == repr(session)
    assert "<LiveSessions, 1 sessions>" == repr(live)
    live.dispose(session)
    assert "<Session 's1', 1 events, disposed>" == repr(session)
