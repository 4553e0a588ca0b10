"""
Headers and events: what they accept, and that nobody can change them.
"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import attrs
import pytest

from eventlog import APPEND, Event, LiveSessions, Recorder, Replace, SessionHeader
from eventlog.codec import header_from_wire
from eventlog.drivers.memory import MemoryStore
from eventlog.errors import InvalidArgument, InvalidSurface, ValueRejected
from support import make_header, message

GOOD_IDS = ["s", "a" * 255, "日" * 85, "a b", "../../x", "CON", "é", "e\u0301", "{{sessionId}}"]
BAD_IDS = ["", "a" * 256, "日" * 86, "a\x00b", "a\nb", "a\x7f", "a\x85b", "\ud800", 3, None, b"s"]


@pytest.mark.parametrize("session_id", GOOD_IDS)
def test_ids_are_any_text_that_fits(session_id: str) -> None:
    """
    An id is 1–255 bytes of UTF-8 without control characters, kept as it is.
    """
    assert session_id == SessionHeader(session_id, 0).id


@pytest.mark.parametrize("session_id", BAD_IDS)
@pytest.mark.parametrize("field", ["id", "parent_session"])
def test_bad_ids_are_refused(session_id: Any, field: str) -> None:
    """
    Any other id is refused, as a session's own and as a parent's.
    """
    if field == "parent_session" and session_id is None:
        return  # no parent
    given = {"id": "s", "created_at": 0, field: session_id}

    with pytest.raises(ValueRejected) as caught:
        SessionHeader(**given)

    assert field == caught.value.path


@pytest.mark.parametrize("bad", [-1, 2**53, True, 1.0, "1", None])
@pytest.mark.parametrize("field", ["created_at", "seed_length", "delegation_depth", "version"])
def test_counts_of_a_header_are_ints(bad: Any, field: str) -> None:
    """
    A bool, a float, a negative or a huge number is no count.
    """
    if field == "seed_length" and bad is None:
        return  # not seeded
    with pytest.raises(ValueRejected) as caught:
        SessionHeader(**{"id": "s", "created_at": 0, field: bad})

    assert field == caught.value.path


@pytest.mark.parametrize("field", ["cwd", "origin", "agent_preset"])
@pytest.mark.parametrize("bad", [3, b"/w", "\udc80"])
def test_texts_of_a_header_are_text(bad: Any, field: str) -> None:
    """
    A text that UTF-8 cannot hold is refused.
    """
    with pytest.raises(ValueRejected) as caught:
        SessionHeader("s", 0, **{field: bad})

    assert field == caught.value.path


def test_extra_fields_are_detached() -> None:
    """
    Nobody changes a header through what it was made of or what it gives.
    """
    extra = {"tags": ["a"]}
    header = make_header(extra=extra)
    extra["tags"].append("b")
    header.extra["tags"].append("c")

    assert {"tags": ["a"]} == header.extra


def test_an_extra_field_cannot_pose_as_a_known_one() -> None:
    """
    A field that has its own place cannot be written twice.
    """
    with pytest.raises(ValueRejected):
        make_header(extra={"cwd": "/other"})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"extra": {"x": 1}}, {"extra": {"x": 1.0}}),
        ({"extra": {"x": 1}}, {"extra": {"x": True}}),
        ({"cwd": None}, {"cwd": ""}),
        ({"seed_length": None}, {"seed_length": 0}),
    ],
)
def test_headers_differ_where_their_encodings_do(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    """
    1, 1.0 and True are three values; absent and empty are two.
    """
    assert make_header(**one) != make_header(**other)
    assert make_header(**one) == make_header(**one)
    assert hash(make_header(**one)) == hash(make_header(**one))


@pytest.mark.parametrize("bad", [-1, 2**53, True, 1.0, "0", None])
def test_seqs_are_ints(bad: Any) -> None:
    """
    A seq is an int in 0 … 2⁵³−1.
    """
    with pytest.raises(ValueRejected) as caught:
        Event(bad, 0, "x/note", {})

    assert "seq" == caught.value.path


@pytest.mark.parametrize("time", [-(2**53) + 1, -1, 0, 2**53 - 1])
def test_time_may_be_before_1970(time: int) -> None:
    """
    Times are any safe int of milliseconds.
    """
    assert time == Event(0, time, "x/note", {}).time


@pytest.mark.parametrize("bad", [2**53, -(2**53), True, 1.5, None])
def test_other_times_are_refused(bad: Any) -> None:
    """
    A float or an unsafe int is no time.
    """
    with pytest.raises(ValueRejected) as caught:
        Event(0, bad, "x/note", {})

    assert "time" == caught.value.path


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "a\nb",
        "a b",
        "a\u2003b",
        "x" * 129,
        "x\x00",
        "\ud800",
        3,
        None,
        "session",
        "text-chunks",
        "reasoning-chunks",
        "tool-call-chunks",
    ],
)
def test_x10_odd_event_types_are_refused(bad: Any) -> None:
    """
    A type is 1–128 printable characters, and no tag of the wire format.
    """
    with pytest.raises(ValueRejected) as caught:
        Event(0, 0, bad, {})

    assert "type" == caught.value.path


@pytest.mark.parametrize("bad", ["0", [0, "1"], [True], [-1], [0.5], {0}, 3])
def test_sources_are_a_list_of_seqs(bad: Any) -> None:
    """
    Sources that are no list of seqs are refused where the event is made.
    """
    with pytest.raises(InvalidSurface) as caught:
        Event(1, 0, "user/message", {}, surface_op=APPEND, source_event_seqs=bad)

    assert 1 == caught.value.seq


@pytest.mark.parametrize("bad", ["append", True, {"op": "replace"}])
def test_surface_ops_are_ops(bad: Any) -> None:
    """
    What looks like an op on the wire is none in memory.
    """
    with pytest.raises(InvalidSurface):
        Event(1, 0, "user/message", {}, surface_op=bad)


def test_absent_and_empty_sources_differ() -> None:
    """
    "Not recorded" and "known to be none" are told apart.
    """
    assert message(0) != message(0, source_event_seqs=[])
    assert () == message(0, source_event_seqs=[]).source_event_seqs


def test_events_are_frozen_and_their_data_is_detached() -> None:
    """
    Nobody changes an event through its attributes, its data, or what it was made of.
    """
    data = {"list": [1]}
    event = Event(0, 0, "x/note", data)
    data["list"].append(2)
    event.data["list"].append(3)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        event.seq = 1  # type: ignore[misc]

    assert {"list": [1]} == event.data


def test_events_differ_where_their_encodings_do() -> None:
    """
    1 and 1.0 are two events' data, and so are two orders of keys.
    """

    def note(data: dict[str, Any]) -> Event:
        return Event(0, 0, "x/note", data)

    assert note({"x": 1}) == note({"x": 1})
    assert note({"x": 1}) != note({"x": 1.0})
    assert note({"x": 1}) != note({"x": True})
    assert note({"a": 1, "b": 2}) != note({"b": 2, "a": 1})


def test_records_travel_between_processes() -> None:
    """
    Events and headers survive pickle and copy.
    """
    event = message(0, source_event_seqs=[], ignorable=True)
    replaced = message(3, surface_op=Replace(0, 2), source_event_seqs=[0, 1, 2])
    for record in (event, replaced, make_header(cwd="/w", extra={"x": 1})):
        assert record == pickle.loads(pickle.dumps(record)) == copy.deepcopy(record)


def test_reprs_answer_the_debugging_question() -> None:
    """
    A repr says what a record is, not what it holds.
    """
    assert "<Event 3 user/message Replace(start=0, end=2) 3 sources, 94 bytes>" == repr(
        message(3, surface_op=Replace(0, 2), source_event_seqs=[0, 1, 2])
    )
    assert "SessionHeader('s1', created_at=1000, cwd='/w')" == repr(make_header(cwd="/w"))


class Unprintable:
    """An object whose own text fails."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("value", [10**5000, Unprintable()], ids=["huge", "unprintable"])
def test_x1_refusals_survive_what_cannot_be_shown(value: Any) -> None:
    """
    A refusal quotes what it refuses; where that has no text, such as an int of 5,000
    digits, the quoting failed and a ValueError of Python's own came out.
    """
    for refused, make in (
        (ValueRejected, lambda: Event(0, 0, "x/a", {}, ignorable=value)),
        (InvalidSurface, lambda: Event(0, 0, "x/a", {}, surface_op=value)),
        (InvalidSurface, lambda: Event(0, 0, "x/a", {}, source_event_seqs=[value])),
        (ValueRejected, lambda: header_from_wire({"type": value})),
        (InvalidArgument, lambda: MemoryStore().changes(value)),
        (InvalidArgument, lambda: Recorder(LiveSessions(), MemoryStore(), window_ms=value)),
    ):
        with pytest.raises(refused):
            make()
