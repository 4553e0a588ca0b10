"""
Filters of sessions and events.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from eventlog import EventClass, EventStore
from eventlog.query import (
    Availability,
    Classes,
    CreatedAt,
    Cwd,
    Ids,
    Parent,
    Seq,
    SessionQuery,
    SessionQueryErrorCode,
    Text,
    Time,
    Types,
)
from support import log_only, make_header, message, messages, replacement
from support.query import raises

Code = SessionQueryErrorCode


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine stands in a zone whose clock is set forward in March."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def listed(query: SessionQuery, *filters: Any) -> list[int]:
    return [record.seq for record in query.list_events("s1", filters=filters).items]


def documents(query: SessionQuery, *filters: Any) -> list[int]:
    return [document.seq for document in query.filter_events("s1", filters).items]


def test_filters_are_anded_and_values_ored(query: SessionQuery, store: EventStore) -> None:
    """
    An event passes all filters, and one of the values of each.
    """
    store.append(
        make_header(),
        [*messages(4), log_only(4), replacement(5, 0, 1, [0, 1]), log_only(6, "x/other")],
    )

    assert [0, 1, 2, 3, 4, 5, 6] == listed(query)
    assert [4, 6] == listed(query, Types(["x/note", "x/other"]))
    assert [0, 1, 4, 6] == listed(query, Classes([EventClass.SHADOWED, EventClass.LOG_ONLY]))
    assert [1] == listed(query, Classes(["shadowed"]), Seq(1, 4))
    assert [2, 3] == listed(query, Classes(["current"]), Time(end=1_004))
    assert [5] == listed(query, Text("summary"), Types(["user/message"]))
    assert [2] == documents(query, Text("text"), Seq(start=2), Time(end=1_002))


@pytest.mark.parametrize("nothing", [Types([]), Classes([]), Types(()), Classes(set())])
def test_no_values_match_nothing(query: SessionQuery, store: EventStore, nothing: Any) -> None:
    """
    A filter without values lets nothing through.
    """
    store.append(make_header(), messages(3))

    assert [] == listed(query, nothing)
    assert [] == documents(query, nothing)
    for empty in (Ids([]), Cwd([]), Parent([]), Availability([])):
        assert () == query.list_sessions(filters=[empty]).items


def test_ranges_are_inclusive(query: SessionQuery, store: EventStore) -> None:
    """
    Both ends of a range belong to it, and an end that is None is open.
    """
    store.append(make_header(), messages(5))

    assert [1, 2, 3] == listed(query, Seq(1, 3)) == listed(query, Time(1_001, 1_003))
    assert [2] == listed(query, Seq(2, 2)) == listed(query, Time(1_002, 1_002))
    assert [3, 4] == listed(query, Seq(3)) == listed(query, Time(1_003))
    assert [0, 1] == listed(query, Seq(end=1)) == listed(query, Time(end=1_001))
    assert [0, 1, 2, 3, 4] == listed(query, Seq()) == listed(query, Time())
    assert [] == listed(query, Seq(0, 2), Seq(3, 4))
    assert [] == listed(query, Seq(7, 9))


def test_k1_times_that_step_back(query: SessionQuery, store: EventStore) -> None:
    """
    Times from a skewed clock reordered messages. Order is by seq, and a range of times
    gives what lies in it on both sides of the step.
    """
    times = [1_000, 900, 1_100]
    store.append(make_header(), [message(seq, time=times[seq]) for seq in range(3)])

    assert [0, 2] == listed(query, Time(950, 1_100))
    assert [0, 1, 2] == [e.seq for e in query.read_surface("s1").events]
    assert 1_100 == query.list_sessions().items[0].last_time


def test_k3_times_need_a_zone(query: SessionQuery, store: EventStore, berlin: None) -> None:
    """
    Times without a zone were read as local time. They are refused, in the hour that the
    local clock leaves out too; the same instant in any zone gives the same set.
    """
    utc = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)
    stamp = int(utc.timestamp() * 1000)
    store.append(make_header(), [message(seq, time=stamp + seq - 2) for seq in range(5)])
    instants: list[Any] = [
        stamp,
        utc,
        utc.astimezone(timezone(timedelta(hours=2))),
        utc.astimezone(ZoneInfo("Europe/Berlin")),
        utc.astimezone(ZoneInfo("America/St_Johns")),
    ]

    for instant in instants:
        assert [2, 3, 4] == listed(query, Time(start=instant))
        assert [0, 1, 2] == listed(query, Time(end=instant))
        assert 1 == len(query.list_sessions(filters=[CreatedAt(end=instant)]).items)
    naive: list[Any] = [
        datetime(2026, 3, 29, 2, 30),
        datetime(1970, 1, 1),
        "2026-03-29T02:30:00",
        "2026-03-29T02:30:00Z",
        1e12,
        float("nan"),
        float("inf"),
        True,
        2**53,
        utc.date(),
    ]
    for wrong in naive:
        for make in (Time, CreatedAt):
            with raises(Code.INVALID_FILTER):
                make(start=wrong)
            with raises(Code.INVALID_FILTER):
                make(end=wrong)


def test_times_finer_than_a_millisecond(query: SessionQuery, store: EventStore) -> None:
    """
    A bound between two milliseconds excludes the one outside it.
    """
    store.append(make_header(), messages(5))
    second = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    inside = second + timedelta(microseconds=1_500)

    assert [2, 3, 4] == listed(query, Time(start=inside))
    assert [0, 1] == listed(query, Time(end=inside))
    assert [] == listed(query, Time(inside, inside + timedelta(microseconds=1)))
    assert (Time(-1), Time(end=-1)) == (
        Time(datetime(1969, 12, 31, 23, 59, 59, 998_500, tzinfo=UTC)),
        Time(end=datetime(1969, 12, 31, 23, 59, 59, 999_900, tzinfo=UTC)),
    )


@pytest.mark.parametrize(
    ("needle", "text"),
    [
        ("CAFÉ", "ein café"),
        ("cafe\u0301", "CAFÉ"),
        ("straße", "STRASSE"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ("hello   (ai)+", "Hello\n(AI)+"),
        ("alpha beta", "Alpha\n beta"),
        ("a b", "a\u2028\u00a0\t\x85b"),
        ("  padded ", "[padded]"),
        ("50%", "at 50% of it"),
        ("a.b*", "A.B*"),
        ("don't", "DON'T"),
        ("上线", "推迟上线日期"),
        ("a\x00b", "A\x00B"),
    ],
)
def test_text_is_literal(query: SessionQuery, store: EventStore, needle: str, text: str) -> None:
    """
    Text is found literally, in any case, with any run of white space for any other.
    """
    store.append(make_header(), [message(0, "nothing of it"), message(1, text)])

    assert [1] == documents(query, Text(needle)) == listed(query, Text(needle))


@pytest.mark.parametrize(
    ("needle", "text"),
    [("cafe", "café"), ("a.c", "abc"), ("ab", "a b"), ("a b", "ab"), ("a%", "ab")],
)
def test_text_is_no_pattern(memory: EventStore, needle: str, text: str) -> None:
    """
    No character of a text stands for others, and a letter with a mark is another letter.
    """
    memory.append(make_header(), [message(0, text)])

    assert [] == documents(SessionQuery(None, memory), Text(needle))


def test_lone_surrogates_match_nothing(memory: EventStore) -> None:
    """
    What no log can hold may be asked for, and is not found.
    """
    memory.append(make_header(), messages(3))
    query = SessionQuery(None, memory)

    assert [] == documents(query, Text("\ud83d")) == listed(query, Types(["\ud83d"]))
    for nothing in (Ids(["\ud83d"]), Cwd(["\ud83d"]), Parent(["\ud83d"])):
        assert () == query.list_sessions(filters=[nothing]).items


WRONG: dict[str, Callable[[], object]] = {
    "ids str": lambda: Ids("abc"),
    "ids None": lambda: Ids(None),  # type: ignore[arg-type]
    "ids int": lambda: Ids([1]),  # type: ignore[list-item]
    "ids nested": lambda: Ids([["a"]]),  # type: ignore[list-item]
    "ids dict": lambda: Ids({"a": 1}),
    "ids iterator": lambda: Ids(iter(["a"])),  # type: ignore[arg-type]
    "cwd int": lambda: Cwd([1]),  # type: ignore[list-item]
    "cwd bytes": lambda: Cwd(b"/w"),  # type: ignore[arg-type]
    "parent bool": lambda: Parent([True]),  # type: ignore[list-item]
    "availability": lambda: Availability(["stored"]),
    "availability None": lambda: Availability([None]),  # type: ignore[list-item]
    "class": lambda: Classes(["visible"]),
    "class None": lambda: Classes([None]),  # type: ignore[list-item]
    "class list": lambda: Classes([["current"]]),  # type: ignore[list-item]
    "types int": lambda: Types([3]),  # type: ignore[list-item]
    "seq negative": lambda: Seq(-1),
    "seq bool": lambda: Seq(True),
    "seq float": lambda: Seq(end=3.0),  # type: ignore[arg-type]
    "seq huge": lambda: Seq(2**53),
    "seq order": lambda: Seq(4, 3),
    "time order": lambda: Time(4, 3),
    "created order": lambda: CreatedAt(4, 3),
    "text None": lambda: Text(None),  # type: ignore[arg-type]
    "text empty": lambda: Text(""),
    "text blank": lambda: Text(" \n\u2028"),
    "text bytes": lambda: Text(b"x"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("make", WRONG.values(), ids=WRONG)
def test_a_filter_that_cannot_be_meant(make: Callable[[], object]) -> None:
    """
    A malformed filter is refused where it is made.
    """
    with raises(Code.INVALID_FILTER):
        make()


@pytest.mark.parametrize(
    "wrong", [None, 5, "Ids", {"kind": "seq"}, [None], [{"kind": "seq"}], [Seq], Seq(), iter([])]
)
def test_what_is_no_list_of_filters(memory: EventStore, wrong: Any) -> None:
    """
    Anything but a list of filters of the right kind is INVALID_FILTER, before any read.
    """
    memory.append(make_header(), messages(1))
    query = SessionQuery(None, memory)
    memory.meter.reset()

    for ask in (
        lambda: query.list_sessions(filters=wrong),
        lambda: query.list_events("s1", filters=wrong),
        lambda: query.filter_events("s1", wrong),
        lambda: query.list_sessions(filters=[Seq(1)]),  # type: ignore[list-item]
        lambda: query.list_events("s1", filters=[Ids(["s1"])]),  # type: ignore[list-item]
    ):
        with raises(Code.INVALID_FILTER):
            ask()
    assert 0 == memory.meter.records


def test_filters_keep_their_own_values(memory: EventStore) -> None:
    """
    What happens to a list behind a filter that was made of it does not show.
    """
    memory.append(make_header(), messages(2))
    values = ["s1"]
    chosen = Ids(values)
    values.clear()

    assert 1 == len(SessionQuery(None, memory).list_sessions(filters=[chosen]).items)
    assert Ids(["b", "a", "b"]) == Ids({"a", "b"}) == Ids(("a", "b"))
    assert hash(Text("x")) == hash(Text("x"))


def test_a_session_filter_sees_the_merged_record(query: SessionQuery, store: EventStore) -> None:
    """
    Sessions are chosen by id, folder, parent and time together.
    """
    for number in range(6):
        header = make_header(
            f"s{number}",
            created_at=number,
            cwd="/w" if number % 2 else None,
            parent_session="s0" if number > 3 else None,
        )
        store.append(header, messages(1))

    def found(*filters: Any) -> list[str]:
        return [r.header.id for r in query.list_sessions(filters=filters).items]

    assert ["s5", "s3", "s1"] == found(Cwd(["/w"]))
    assert ["s4", "s2", "s0"] == found(Cwd([None]))
    assert ["s5"] == found(Cwd(["/w"]), Parent(["s0"]))
    assert ["s3", "s2", "s1", "s0"] == found(Parent([None]))
    assert ["s3", "s2"] == found(CreatedAt(2, 4), Parent([None]))
    assert ["s4", "s1"] == found(Ids(["s1", "s4", "s9"]))
    assert "TZ" not in os.environ or os.environ["TZ"] != "Europe/Berlin"
