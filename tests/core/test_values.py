"""
The boundary of values: what is accepted, what is refused, and that nothing changes on the way.
"""

from __future__ import annotations

import enum
import math
import uuid
from collections import Counter, OrderedDict
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog import values
from eventlog.errors import ValueRejected


class Number(enum.IntEnum):
    ONE = 1


class Word(enum.StrEnum):
    A = "a"


class Text(str):
    pass


def nested(depth: int) -> list[Any]:
    """Lists within lists, *depth* levels with the object around them."""
    value: list[Any] = []
    for _ in range(depth - 2):
        value = [value]
    return value


REFUSED = {
    "NaN": (math.nan, "data.x"),
    "infinity": ([math.inf], "data.x[0]"),
    "int beyond 64 bits": (2**64, "data.x"),
    "int below 64 bits": (-(2**63) - 1, "data.x"),
    "int of 5000 digits": (10**5000, "data.x"),
    "lone surrogate": ("ok \ud83d end", "data.x"),
    "lone surrogate deep inside": ({"a": [{"b": "\udc80"}]}, "data.x.a[0].b"),
    "lone surrogate in a key": ({"\ud800": 1}, "data.x (a key)"),
    "bytes": (b"\xff", "data.x"),
    "set": ({1}, "data.x"),
    "datetime": (datetime(2026, 1, 1, tzinfo=UTC), "data.x"),
    "UUID": (uuid.UUID(int=1), "data.x"),
    "int enum": (Number.ONE, "data.x"),
    "str enum": (Word.A, "data.x"),
    "str subclass": (Text("a"), "data.x"),
    "dict subclass": (Counter("aab"), "data.x"),
    "ordered dict": (OrderedDict(a=1), "data.x"),
    "int key": ({1: 2}, "data.x"),
    "str enum key": ({Word.A: 2}, "data.x"),
    "fragment of JSON": (orjson.Fragment(b"1"), "data.x"),
    "complex": (1j, "data.x"),
    "object": (object(), "data.x"),
    "odd member name": ({"a.b": math.nan}, "data.x['a.b']"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_values_that_json_cannot_carry_are_refused(case: str) -> None:
    """
    A value that would come back changed, or not at all, is refused with its path.
    """
    value, path = REFUSED[case]

    with pytest.raises(ValueRejected) as caught:
        values.encode({"before": [1, (2, 3)], "x": value})

    assert path == caught.value.path


@pytest.mark.parametrize("value", [None, [], "text", 3, ("a",), b"{}", Counter()])
def test_data_is_an_object(value: object) -> None:
    """
    The data of an event is a dict, and nothing that merely resembles one.
    """
    with pytest.raises(ValueRejected) as caught:
        values.encode(value)

    assert "data" == caught.value.path


@pytest.mark.parametrize(
    "value",
    [
        {"a": 9007199254740993, "b": 2**63 - 1, "c": 2**64 - 1, "d": -(2**63)},
        {"z": -0.0, "f": 1.0, "i": 1, "d": 0.1 + 0.2, "e": 1e22, "t": True},
        {"text": "D\x00i\x00r\x00 done"},
        {"text": "a\u2028b\u2029c\u0085d\x0be\x1cf\x1eg\r\n"},
        {"": 1, "a.b": 2, "__proto__": 3, **{f"k{n}": n for n in range(1000)}},
        {"lc": 1, "type": "constructor", "id": ["builtins", "print"], "kwargs": {"x": 1}},
        {"__reduce__": ["builtins.print", ["x"]]},
        {"deep": nested(values.DEPTH_MAX)},
    ],
)
def test_accepted_values_come_back_with_type_and_sign(value: dict[str, Any]) -> None:
    """
    What is accepted comes back equal in value, type, sign and order of keys.
    """
    assert repr(value) == repr(values.decode(values.encode(value)))


def test_a_tuple_is_stored_as_a_list() -> None:
    """
    Tuples are the one convenience: stored and read back as lists.
    """
    assert {"t": [1, [2]]} == values.decode(values.encode({"t": (1, (2,))}))


@pytest.mark.parametrize("depth", [values.DEPTH_MAX + 1, 1_000, 10_000, 200_000])
def test_x2_deep_nesting_is_refused(depth: int) -> None:
    """
    Nesting is bounded, however deep it is: no recursion error, and the next value is taken.
    """
    with pytest.raises(ValueRejected):
        values.encode({"deep": nested(depth)})
    with pytest.raises(ValueRejected):
        values.parse(b'{"deep":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}")

    assert b'{"a":1}' == values.encode({"a": 1})


def test_a_cycle_is_refused() -> None:
    """
    A value that holds itself is refused as nested too deep.
    """
    value: dict[str, Any] = {}
    value["self"] = value

    with pytest.raises(ValueRejected):
        values.encode(value)


def test_payloads_are_bounded() -> None:
    """
    A payload over the limit is refused; the limit is the same for every store.
    """
    with pytest.raises(ValueRejected):
        values.encode({"text": "x" * values.PAYLOAD_BYTES_MAX})


FOREIGN = {
    "NaN": (b'{"x":NaN}', "NaN is not JSON"),
    "1e400": (b'{"x":1e400}', "out of range"),
    "-1e400": (b'{"x":[-1e400]}', "out of range"),
    "int beyond 64 bits": (b'{"x":18446744073709551616}', "beyond 64 bits"),
    "int of 5000 digits": (b'{"x":' + b"1" * 5000 + b"}", "beyond 64 bits"),
    "duplicate key": (b'{"seq":0,"seq":1}', "'seq' twice"),
    "duplicate key inside": (b'{"a":[{"b":1,"b":1}]}', "'b' twice"),
    "escaped lone surrogate": (rb'{"x":"\ud83d"}', "lone surrogate"),
    "escaped lone surrogate in a key": (rb'{"\udc80":1}', "lone surrogate"),
    "not UTF-8": (b'{"x":"\xff"}', "not UTF-8"),
    "BOM": (b'\xef\xbb\xbf{"x":1}', "not JSON"),
    "torn": (b'{"x":', "not JSON"),
    "two objects": (b'{"x":1}{"x":1}', "not JSON"),
    "array": (b"[]", "an array"),
    "null": (b"null", "null"),
    "string": (b'"x"', "a string"),
    "empty": (b"", "not JSON"),
    "NULs": (b"\x00" * 10, "not JSON"),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_foreign_text_that_would_change_is_refused(case: str) -> None:
    """
    What parsers accept and silently change is refused with its reason.
    """
    text, reason = FOREIGN[case]

    with pytest.raises(ValueRejected) as caught:
        values.parse(text)

    assert reason in caught.value.reason


def test_foreign_text_may_be_written_in_its_own_way() -> None:
    """
    White space, escapes and other spellings of numbers are read as what they mean.
    """
    text = b' { "a" : 1E5, "b" : "\\u00e9\\/", "c" : -0, "d" : 1.50 } '

    assert {"a": 100000.0, "b": "é/", "c": 0, "d": 1.5} == values.parse(text)


def test_huge_numbers_in_errors_are_not_converted() -> None:
    """
    A refusal of a huge int is a refusal, not Python's own error about digits.
    """
    with pytest.raises(ValueRejected) as caught:
        values.check_int(10**5000, "seq")

    assert "bits" in caught.value.reason


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("ab.\u2028é"), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text("ab"), plain))
def test_every_plain_value_round_trips(value: dict[str, Any]) -> None:
    """
    Encoding and decoding, and parsing of the encoding, give the value back exactly.
    """
    payload = values.encode(value)

    assert repr(value) == repr(values.decode(payload))
    assert repr(value) == repr(values.parse(payload))
    assert payload == values.encode(values.decode(payload))


@given(st.binary(max_size=200) | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_no_text_escapes_the_error_tree(text: bytes) -> None:
    """
    Any bytes either parse to an object that encodes, or are ValueRejected.
    """
    try:
        value = values.parse(text)
    except ValueRejected:
        return

    assert repr(value) == repr(values.decode(values.encode(value)))
