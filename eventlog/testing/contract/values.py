"""
The contract of values: what every store keeps exactly, and what every store refuses.
"""

from __future__ import annotations

import enum
import sys
import uuid
from collections import Counter, OrderedDict, namedtuple
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from eventlog.errors import InvalidSurface, ValueRejected
from eventlog.model import APPEND, Event, SessionHeader
from eventlog.store import EventStore
from eventlog.testing.contract.base import ContractBase, read_all, walk_heads
from eventlog.testing.samples import make_header, message, note
from eventlog.testing.strategies import event_data, headers, rejected_values

__all__ = ["ValueContract"]


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 1


class Text(str):
    pass


Point = namedtuple("Point", "x y")


def nested(depth: int) -> dict[str, Any]:
    """Data whose lists reach *depth* levels, the object itself included."""
    value: Any = 1
    for _ in range(depth - 1):
        value = [value]
    return {"v": value}


KEPT: dict[str, dict[str, Any]] = {
    "b3-line-separators": {"text": "a\u2028b\u2029c\u0085d\x0be\x1cf\x1eg"},
    "b3-line-ends": {"text": "a\nb\rc\r\nd", "\n": "\r"},
    "b4-nul": {"text": "D\x00i\x00r\x00 done", "k\x00": "\x00"},
    "c1-large-ints": {"a": 2**53 + 1, "b": 2**63 - 1, "c": -(2**63), "d": 2**64 - 1},
    "c2-signs-and-types": {"z": -0.0, "f": 1.0, "i": 1, "d": 0.1 + 0.2, "e": 1e22, "t": True},
    "c2-extremes": {"a": 5e-324, "b": 1.7976931348623157e308, "c": -1e-7, "d": 123456789.125},
    "c8-constructors": {
        "lc": 1,
        "type": "constructor",
        "id": ["builtins", "print"],
        "kwargs": {"x": 1},
        "__reduce__": ["builtins.print", ["x"]],
        "__class__": "os.system",
        "py/object": "subprocess.Popen",
    },
    "x2-deep": nested(200),
    "x10-odd-keys": {"": 1, "a.b": 2, "__proto__": 3, " ": 4, "a": {"b": 5}, "$ref": "#"},
    "x10-many-keys": {f"k{number}": number for number in range(1_000)},
    "empty": {},
    "empty-containers": {"l": [], "d": {}, "s": "", "n": None, "f": False},
    "unicode": {"text": "日本語 🔑 e\u0301 é \ufeff \uffff \u202e", "🔑": "\u200d"},
    "json-in-text": {"text": '{"seq":1,"data":{}}\n{"type":"session"}', ',"data":': "}"},
}

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "b1-lone-surrogate": (lambda: {"text": "ok \ud83d end"}, "data.text"),
    "b1-surrogate-in-key": (lambda: {"a": {"\udcb2": 1}}, "data.a (a key)"),
    "c1-beyond-64-bits": (lambda: {"c": 2**64}, "data.c"),
    "c1-below-64-bits": (lambda: {"c": [0, -(2**63) - 1]}, "data.c[1]"),
    "c3-nan": (lambda: {"score": float("nan")}, "data.score"),
    "c3-infinity": (lambda: {"x": [float("inf")]}, "data.x[0]"),
    "c3-negative-infinity": (lambda: {"x": -float("inf")}, "data.x"),
    "c5-bytes": (lambda: {"blob": b"\xff\xfe"}, "data.blob"),
    "c5-bytearray": (lambda: {"blob": bytearray(b"a")}, "data.blob"),
    "c6-counter": (lambda: {"c": Counter("aab")}, "data.c"),
    "c6-datetime": (lambda: {"d": datetime(2026, 1, 1)}, "data.d"),
    "c6-named-tuple": (lambda: {"p": Point(1, 2)}, "data.p"),
    "c6-ordered-dict": (lambda: {"d": OrderedDict(a=1)}, "data.d"),
    "str-enum": (lambda: {"e": Colour.RED}, "data.e"),
    "int-enum": (lambda: {"e": Level.HIGH}, "data.e"),
    "str-subclass": (lambda: {"t": Text("x")}, "data.t"),
    "uuid": (lambda: {"u": uuid.UUID(int=1)}, "data.u"),
    "decimal": (lambda: {"n": Decimal(1)}, "data.n"),
    "complex": (lambda: {"n": 1j}, "data.n"),
    "set": (lambda: {"s": {1}}, "data.s"),
    "path": (lambda: {"p": Path("x")}, "data.p"),
    "object": (lambda: {"o": object()}, "data.o"),
    "int-key": (lambda: {"a": [{1: 2}]}, "data.a[0]"),
    "none-key": (lambda: {None: 2}, "data"),
    "x1-thousands-of-digits": (lambda: {"n": 10**5_000}, "data.n"),
    "x2-too-deep": (lambda: nested(201), "data.v" + "[0]" * 199),
    "not-an-object": (lambda: [1], "data"),
    "no-data": (lambda: None, "data"),
}

BAD_IDS: dict[str, Any] = {
    "empty": "",
    "256-bytes": "a" * 256,
    "511-bytes": "a" * 511,
    "512-bytes": "a" * 512,
    "600-bytes-of-utf-8": "日" * 200,
    "nul": "a\x00b",
    "line-feed": "a\nb",
    "delete": "a\x7f",
    "c1-control": "a\x85",
    "lone-surrogate": "a\ud800",
    "int": 5,
    "bytes": b"a",
    "none": None,
}

BAD_TYPES = ("", "a\nb", "a b", "x" * 10_000, "session", "text-chunks", "a\x00", None, 5)

# Ids that are paths, devices, patterns or case variants somewhere; each is its own session.
GOOD_IDS = (
    *("../../x", "/abs", "a/../b", "..", ".", "a\\b", "C:x", "con", "NUL.txt", "a ", " a", "a."),
    *("a", "A", "a" * 255, "日" * 85, "é", "e\u0301", "%41", "a%", "*", "~", "-rf", "x.jsonl"),
    *("a" * 254 + "b", "a" * 254 + "B", "🔑", "\u202e", "_", "a_b", "a-b", "con.jsonl", "'\";--"),
)


class ValueContract(ContractBase):
    """What is kept exactly, and what is refused before it reaches any store."""

    @pytest.mark.parametrize("name", KEPT)
    def test_values_come_back_exactly(self, store: EventStore, root: Path, name: str) -> None:
        """
        An accepted value is read with the same types, signs and order, now and later.

        Field reports b3, b4, c1, c2, c8, x2, x10: separators inside text were taken for
        line ends, NULs cut text, large ints and signs of zero were lost on the way.
        """
        given = KEPT[name]
        store.append(make_header("first"), [note(0)])
        read_all(store, "first")
        modules = set(sys.modules)
        event = Event(0, 1_000, "x/note", given)
        store.append(make_header(), [event, message(1)])

        assert exact(given) == exact(read_all(store, "s1")[0].data)
        assert event == read_all(store, "s1")[0]
        assert modules == set(sys.modules), "reading imports nothing"
        if self.reopens:
            with self.reopened(store, root) as again:
                assert exact(given) == exact(read_all(again, "s1")[0].data)

    def test_c6_tuple_is_a_list_at_once(self, store: EventStore) -> None:
        """
        A tuple is a list from the moment the event is made, not only after a restart.
        """
        event = Event(0, 1_000, "x/note", {"t": (1, (2, 3)), "e": ()})
        store.append(make_header(), [event])

        assert {"t": [1, [2, 3]], "e": []} == event.data == read_all(store, "s1")[0].data

    @pytest.mark.parametrize("name", REFUSED)
    def test_values_are_refused(self, store: EventStore, name: str) -> None:
        """
        What JSON cannot carry unchanged is refused with its path; no seq is used.

        Field reports b1, c1, c3, c5, c6, x1, x2: stores wrote what they could not read
        back, each its own way.
        """
        build, path = REFUSED[name]
        store.append(make_header(), [note(0)])

        with pytest.raises(ValueRejected) as caught:
            store.append(make_header(), [Event(1, 1_000, "x/note", build())])

        assert path == caught.value.path
        assert 2 == store.append(make_header(), [note(1)])
        assert [note(0), note(1)] == read_all(store, "s1")

    def test_values_of_any_shape(self, store: EventStore) -> None:
        """
        Any data that the boundary accepts comes back equal.
        """
        taken = iter(range(10**6))

        @quick
        @given(event_data())
        def check(data: dict[str, Any]) -> None:
            session_id = f"s{next(taken)}"
            event = Event(0, 0, "x/note", data)
            store.append(make_header(session_id), [event])
            assert [event] == read_all(store, session_id)
            assert exact(data) == exact(read_all(store, session_id)[0].data)

        check()

    def test_values_that_are_refused_anywhere(self, store: EventStore) -> None:
        """
        A value that is not accepted is refused wherever it hides, and nothing is stored.
        """

        @quick
        @given(rejected_values())
        def check(data: dict[str, Any]) -> None:
            with pytest.raises(ValueRejected):
                store.append(make_header(), [Event(0, 0, "x/note", data)])
            assert store.head("s1") is None

        check()

    def test_headers_of_any_shape(self, store: EventStore) -> None:
        """
        Any header that is accepted comes back equal, from heads and from snapshots.
        """

        @quick
        @given(headers())
        def check(header: SessionHeader) -> None:
            store.delete(header.id, forget=True)
            store.append(header, [note(0)])
            head = store.head(header.id)
            assert head is not None
            assert header == head.header == store.snapshot(header.id).header
            assert header in [listed.header for listed in walk_heads(store)]

        check()

    @pytest.mark.parametrize("name", BAD_IDS)
    def test_e7_ids_that_are_refused(self, store: EventStore, root: Path, name: str) -> None:
        """
        An id that some medium could not hold is refused for all of them, before a write.
        """
        bad = BAD_IDS[name]
        with pytest.raises(ValueRejected) as caught:
            store.append(SessionHeader(bad, 0), [note(0)])
        assert "id" == caught.value.path
        for call in (store.head, store.snapshot, store.children, store.delete):
            with pytest.raises(ValueRejected):
                call(bad)
        assert [] == walk_heads(store)
        assert not root.exists()

    def test_i3_ids_that_are_kept(self, store: EventStore, root: Path) -> None:
        """
        Ids that look like paths, devices or each other are each a session of their own.

        A session id was used in a path, and wrote outside the store.
        """
        before = everything_in(root.parent) - {root}
        for number, session_id in enumerate(GOOD_IDS):
            store.append(make_header(session_id), [note(0, {"n": number})])
        for session_id in GOOD_IDS:
            store.append(make_header(session_id), [note(1)])

        assert sorted(GOOD_IDS) == [head.header.id for head in walk_heads(store, limit=7)]
        for number, session_id in enumerate(GOOD_IDS):
            assert [note(0, {"n": number}), note(1)] == read_all(store, session_id)
        outside = {path for path in everything_in(root.parent) if root not in path.parents}
        assert before == outside - {root}

    @pytest.mark.parametrize(
        "bad",
        ["", "a\nb", "a b", "x" * 10_000, "session", "text-chunks", "a\x00", None, 5],
        ids=repr,
    )
    def test_x10_types_that_are_refused(self, store: EventStore, bad: Any) -> None:
        """
        A type that is empty, too long, has spaces or is a tag of the format is refused.
        """
        with pytest.raises(ValueRejected) as caught:
            store.append(make_header(), [Event(0, 0, bad, {})])

        assert "type" == caught.value.path
        assert store.head("s1") is None

    def test_x10_types_that_are_kept(self, store: EventStore) -> None:
        """
        Any other type, known or not, is stored and served as it is.
        """
        types = ["x", "a.b/c:d", "__proto__", "日本", "x" * 128, "Session", "üñ🔑", "%s", "a,b"]
        events = [Event(seq, 0, name, {}) for seq, name in enumerate(types)]
        store.append(make_header(), events)

        assert types == [event.type for event in read_all(store, "s1")]

    @pytest.mark.parametrize(
        "fields",
        [
            {"seq": -1},
            {"seq": True},
            {"seq": 1.0},
            {"seq": "1"},
            {"seq": 2**53},
            {"time": True},
            {"time": 1.5},
            {"time": 2**53},
            {"time": -(2**53)},
            {"ignorable": 1},
            {"surface_op": "append"},
            {"source_event_seqs": "0"},
            {"source_event_seqs": [True]},
            {"source_event_seqs": [-1]},
        ],
        ids=repr,
    )
    def test_envelopes_that_are_refused(self, store: EventStore, fields: dict[str, Any]) -> None:
        """
        A seq, time, flag, op or source of another kind or range is refused.
        """
        facts: dict[str, Any] = {"seq": 0, "time": 0, "type": "x/note", "data": {}, **fields}
        with pytest.raises((ValueRejected, InvalidSurface)):
            store.append(make_header(), [Event(**facts)])

        assert store.head("s1") is None

    def test_envelopes_come_back_exactly(self, store: EventStore) -> None:
        """
        The extremes of time, flags, ops and sources are read as they were given.
        """
        events = [
            Event(0, 2**53 - 1, "x/a", {}, ignorable=True),
            Event(1, -(2**53) + 1, "x/b", {}, surface_op=APPEND, source_event_seqs=[0]),
            Event(2, 0, "x/c", {}, source_event_seqs=[1, 0]),
        ]
        store.append(make_header(), events)

        assert events == read_all(store, "s1")
        assert [(), (0,), (1, 0)] == [
            event.source_event_seqs or () for event in read_all(store, "s1")
        ]


# A test's store is shared by its examples: each is under an id of its own. The contract
# must not depend on a database of failures, nor on how fast the medium is.
quick = settings(
    max_examples=25,
    deadline=None,
    database=None,
    derandomize=True,
    report_multiple_bugs=False,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)


def exact(value: Any) -> str:
    """Text that tells values apart as the boundary does: by type, sign and order."""
    return repr(value)


def everything_in(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))
