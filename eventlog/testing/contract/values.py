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

from eventlog.errors import ValueRejected
from eventlog.model import Event
from eventlog.store import EventStore
from eventlog.testing.contract.base import ContractBase, read_all
from eventlog.testing.samples import make_header, message, messages, note
from eventlog.testing.strategies import event_data, rejected_values

__all__ = ["KEPT", "ValueContract", "quick"]


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


LINE_ENDS: list[dict[str, Any]] = [
    {"text": "a\u2028b\u2029c\u0085d\x0be\x1cf\x1eg"},
    {"text": "a\nb\rc\r\nd", "\n": "\r"},
]
NUMBERS = {"z": -0.0, "f": 1.0, "i": 1, "d": 0.1 + 0.2, "e": 1e22, "t": True}
CONSTRUCTORS = {
    "lc": 1,
    "type": "constructor",
    "id": ["builtins", "print"],
    "kwargs": {"x": 1},
    "__reduce__": ["builtins.print", ["x"]],
    "__class__": "os.system",
    "py/object": "subprocess.Popen",
}
ODD_KEYS = {"": 1, "a.b": 2, "__proto__": 3, " ": 4, "a": {"b": 5}, "$ref": "#"}

# Values that some medium or codec has changed, and that no report is about.
OTHERS: dict[str, dict[str, Any]] = {
    "empty": {},
    "empty-containers": {"l": [], "d": {}, "s": "", "n": None, "f": False},
    "unicode": {"text": "日本語 🔑 e\u0301 é \ufeff \uffff \u202e", "🔑": "\u200d"},
    "json-in-text": {"text": '{"seq":1,"data":{}}\n{"type":"session"}', ',"data":': "}"},
}

KEPT: list[dict[str, Any]] = [*LINE_ENDS, NUMBERS, CONSTRUCTORS, ODD_KEYS, *OTHERS.values()]
"""Some of the values that come back exactly, for other tests to store."""

# What is no report's, refused all the same; and where it stands.
OTHERS_REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
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
    "not-an-object": (lambda: [1], "data"),
    "no-data": (lambda: None, "data"),
}


class ValueContract(ContractBase):
    """What is kept exactly, and what is refused before it reaches any store."""

    @pytest.mark.parametrize("name", OTHERS)
    def test_values_come_back_exactly(self, store: EventStore, root: Path, name: str) -> None:
        """
        An accepted value is read with the same types and order, now and later.
        """
        self._check_kept(store, root, OTHERS[name])

    @pytest.mark.parametrize("given", LINE_ENDS, ids=["separators", "ends"])
    def test_b3_separators_are_text(
        self, store: EventStore, root: Path, given: dict[str, Any]
    ) -> None:
        """
        Whatever some library takes for a line's end is text like all other.

        Line separators inside a record were taken for its end; the session was damaged.
        """
        self._check_kept(store, root, given)

    def test_b4_nul_is_text(self, store: EventStore, root: Path) -> None:
        """
        A NUL is a character like all other, in values and in keys.

        A tool's output in UTF-16 had NULs; the whole session could not be stored.
        """
        self._check_kept(store, root, {"text": "D\x00i\x00r\x00 done", "k\x00": "\x00"})

    def test_c1_large_ints_are_exact(self, store: EventStore, root: Path) -> None:
        """
        An int of up to 64 bits comes back exactly.

        Ints beyond 2⁵³ were shown rounded after one pass through a parser.
        """
        self._check_kept(store, root, {"a": 2**53 + 1, "b": 2**63 - 1, "c": -(2**63)})
        self._check_kept(store, root, {"d": 2**64 - 1})

    def test_c2_numbers_keep_sign_and_type(self, store: EventStore, root: Path) -> None:
        """
        −0.0 keeps its sign, 1.0 stays a float and 1 an int, and each digit counts.

        Values were brought to a normal form on the way to the screen.
        """
        self._check_kept(store, root, NUMBERS)
        self._check_kept(store, root, {"a": 5e-324, "b": 1.7976931348623157e308, "c": -1e-7})

    def test_c8_data_builds_nothing(self, store: EventStore, root: Path) -> None:
        """
        Data that names classes and calls comes back as data; nothing is imported.

        Loading a stored state built the objects that the data named.
        """
        store.append(make_header("first"), [note(0)])
        read_all(store, "first")
        modules = set(sys.modules)
        self._check_kept(store, root, CONSTRUCTORS)

        assert modules == set(sys.modules)

    def test_x2_deep_nesting_up_to_the_limit(self, store: EventStore, root: Path) -> None:
        """
        Data of 200 levels is stored and read.
        """
        self._check_kept(store, root, nested(200))

    def test_x10_odd_keys_are_kept(self, store: EventStore, root: Path) -> None:
        """
        A key may be empty, a path, a name of some language's own; and there may be many.
        """
        self._check_kept(store, root, ODD_KEYS)
        self._check_kept(store, root, {f"k{number}": number for number in range(1_000)})

    def test_c6_tuple_is_a_list_at_once(self, store: EventStore) -> None:
        """
        A tuple is a list from the moment the event is made, not only after a restart.

        After a restart values came back as another type, or as none.
        """
        event = Event(0, 1_000, "x/note", {"t": (1, (2, 3)), "e": ()})
        store.append(make_header(), [event])

        assert {"t": [1, [2, 3]], "e": []} == event.data == read_all(store, "s1")[0].data

    @pytest.mark.parametrize("name", OTHERS_REFUSED)
    def test_values_are_refused(self, store: EventStore, name: str) -> None:
        """
        What JSON cannot carry unchanged is refused with its path; no seq is used.
        """
        build, path = OTHERS_REFUSED[name]
        self._check_refused(store, build(), path)

    def test_b1_lone_surrogates_are_refused(self, store: EventStore) -> None:
        """
        Half a character is refused with its path, in values and in keys.

        Half of an emoji was stored; every later turn failed.
        """
        self._check_refused(store, {"text": "ok \ud83d end"}, "data.text")
        self._check_refused(store, {"a": {"\udcb2": 1}}, "data.a (a key)")

    def test_c1_ints_beyond_64_bits_are_refused(self, store: EventStore) -> None:
        """
        An int that some medium could not hold is refused for all of them.
        """
        self._check_refused(store, {"c": 2**64}, "data.c")
        self._check_refused(store, {"c": [0, -(2**63) - 1]}, "data.c[1]")

    def test_c3_nan_and_infinities_are_refused(self, store: EventStore) -> None:
        """
        A float that JSON cannot carry is refused with its path.

        It was written as a token that is no JSON; the line was later skipped in silence.
        """
        self._check_refused(store, {"score": float("nan")}, "data.score")
        self._check_refused(store, {"x": [float("inf")]}, "data.x[0]")
        self._check_refused(store, {"x": -float("inf")}, "data.x")

    def test_c5_bytes_are_refused(self, store: EventStore) -> None:
        """
        Bytes are refused, by stores in memory too.

        A tool returned bytes; one store took the history, and another failed on it.
        """
        self._check_refused(store, {"blob": b"\xff\xfe"}, "data.blob")
        self._check_refused(store, {"blob": bytearray(b"a")}, "data.blob")

    def test_c6_types_that_would_change_are_refused(self, store: EventStore) -> None:
        """
        A value that would come back as another type is refused when it is appended.
        """
        self._check_refused(store, {"c": Counter("aab")}, "data.c")
        self._check_refused(store, {"d": datetime(2026, 1, 1)}, "data.d")
        self._check_refused(store, {"p": Point(1, 2)}, "data.p")
        self._check_refused(store, {"d": OrderedDict(a=1)}, "data.d")

    def test_x1_thousands_of_digits_are_refused(self, store: EventStore) -> None:
        """
        An int too long for Python to print is refused like any that is too large.
        """
        self._check_refused(store, {"n": 10**5_000}, "data.n")

    @pytest.mark.parametrize("depth", [201, 1_000, 10_000, 200_000])
    def test_x2_deeper_nesting_is_refused(self, store: EventStore, depth: int) -> None:
        """
        Data nested beyond the limit is refused, however deep, and the store goes on.
        """
        self._check_refused(store, nested(depth), "data.v" + "[0]" * 199)

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

    def _check_kept(self, store: EventStore, root: Path, data: dict[str, Any]) -> None:
        """Store data in a session of its own, and read it from this store and the next."""
        session_id = f"kept-{len(data)}"
        event = Event(0, 1_000, "x/note", data)
        store.append(make_header(session_id), [event, message(1)])

        assert exact(data) == exact(read_all(store, session_id)[0].data)
        assert [event, message(1)] == read_all(store, session_id)
        if self.reopens:
            with self.open_store(root, read_only=True) as again:
                assert exact(data) == exact(read_all(again, session_id)[0].data)

    def _check_refused(self, store: EventStore, data: Any, path: str) -> None:
        """Fail to store data; the log goes on with the seq that it would have had."""
        next_seq = store.append(make_header(), messages(2))
        with pytest.raises(ValueRejected) as caught:
            store.append(make_header(), [Event(next_seq, 1_000, "x/note", data)])

        assert path == caught.value.path
        assert 2 == next_seq
        assert messages(2) == read_all(store, "s1")


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
