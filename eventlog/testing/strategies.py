"""
Hypothesis strategies for everything that a store holds, and for what it must refuse.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from eventlog.codec import encode_line
from eventlog.model import Event, SessionHeader
from eventlog.testing.samples import random_log

__all__ = [
    "event_data",
    "event_types",
    "headers",
    "json_values",
    "logs",
    "malformed_records",
    "rejected_values",
    "session_ids",
]

INTS = st.integers(-(2**63), 2**64 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
# Text that some medium, codec or terminal has choked on.
HARD_TEXT = st.sampled_from(
    [
        "",
        "\x00",
        "a\x00b",
        "\n",
        "\r\n",
        "\u2028",
        "\u0085",
        "\ufeff",
        "\U0001f511",
        "e\u0301",
        '"\\',
    ]
)
SAFE_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40)


def json_values(*, max_leaves: int = 12) -> st.SearchStrategy[Any]:
    """Return values that the boundary accepts, of any shape; no tuples."""
    scalars = st.none() | st.booleans() | INTS | FLOATS | TEXT | HARD_TEXT
    return st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(TEXT | HARD_TEXT, inner, max_size=4)
        ),
        max_leaves=max_leaves,
    )


def event_data(*, max_leaves: int = 12) -> st.SearchStrategy[dict[str, Any]]:
    """Return data of an event: JSON objects that the boundary accepts."""
    return st.dictionaries(TEXT | HARD_TEXT, json_values(max_leaves=max_leaves), max_size=4)


def session_ids() -> st.SearchStrategy[str]:
    """Return session ids: short and long ones, ones that look like paths, case variants."""
    odd = ["..", "a/b", "A", "a", "a ", "a.", "con", "C:x", "%41", "\u00e9", "e\u0301", "a" * 255]
    free = SAFE_TEXT.filter(lambda text: len(text.encode()) <= 255)
    return st.sampled_from(odd) | free


def event_types() -> st.SearchStrategy[str]:
    """Return foreign event types: ones that may be on the surface or off it."""
    letters = st.text("abcdefghijklmnopqrstuvwxyz-./日", min_size=1, max_size=12)
    return letters.map(lambda text: f"x/{text}")


@st.composite
def headers(draw: st.DrawFn, *, ids: st.SearchStrategy[str] | None = None) -> SessionHeader:
    """
    Return headers with any of their fields given or not.

    Args:
        ids: Where the ids come from; :func:`session_ids` where it is None.
    """
    extra = st.dictionaries(
        st.text("abcxyz_", min_size=2, max_size=6), json_values(max_leaves=4), max_size=3
    )
    # "cwd" and "id" are the fields' own names and cannot be made of these letters.
    return SessionHeader(
        draw(session_ids() if ids is None else ids),
        draw(st.integers(0, 3) | st.integers(0, 2**53 - 1)),
        cwd=draw(st.none() | TEXT),
        parent_session=draw(st.none() | session_ids()),
        seed_length=draw(st.none() | st.integers(0, 2**53 - 1)),
        origin=draw(st.none() | st.just("subagent") | TEXT),
        delegation_depth=draw(st.integers(0, 3)),
        agent_preset=draw(st.none() | TEXT),
        extra=draw(st.none() | extra),
    )


@st.composite
def logs(draw: st.DrawFn, *, min_size: int = 0, max_size: int = 30) -> list[Event]:
    """
    Return logs that the fold accepts, from seq 0 on.

    They have messages, tool results and their rewrites, log-only events, sources, and
    replacements of ranges that hold earlier replacements; times may step back.
    """

    def choose(count: int) -> int:
        return draw(st.integers(0, count - 1))

    return random_log(choose, draw(st.integers(min_size, max_size)))


class _Shade(enum.StrEnum):
    DARK = "dark"


# Made anew for each example, so that no two share a container.
_REFUSED: list[Callable[[], Any]] = [
    lambda: float("nan"),
    lambda: float("inf"),
    lambda: -float("inf"),
    lambda: 2**64,
    lambda: -(2**63) - 1,
    lambda: 10**5_000,
    lambda: "\ud83d",
    lambda: "ok \udcb2 end",
    lambda: b"bytes",
    lambda: bytearray(b"bytes"),
    lambda: {1, 2},
    lambda: frozenset("a"),
    lambda: {3: "an int for a key"},
    lambda: {True: "a bool for a key"},
    lambda: {"\ud800": "half a character for a key"},
    lambda: object(),
    lambda: datetime(2026, 1, 1),
    lambda: date(2026, 1, 1),
    lambda: Decimal("0.1"),
    lambda: uuid.UUID(int=7),
    lambda: _Shade.DARK,
    lambda: 2j,
    lambda: range(3),
    lambda: iter([1]),
    lambda: _deep(300),
]


@st.composite
def rejected_values(draw: st.DrawFn) -> dict[str, Any]:
    """Return data with one value that the boundary refuses, at any place inside."""
    value: Any = draw(st.sampled_from(_REFUSED))()
    for _ in range(draw(st.integers(0, 4))):
        beside = draw(json_values(max_leaves=3))
        shape = draw(st.sampled_from(["list", "tuple", "dict"]))
        if shape == "dict":
            value = {"beside": beside, draw(TEXT.filter(lambda key: key != "beside")): value}
        else:
            value = [beside, value] if shape == "list" else (value, beside)
    return {draw(TEXT): value}


def malformed_records(*, seq: int = 1) -> st.SearchStrategy[bytes]:
    """
    Return lines without their LF that are no event record, though they may look like one.

    Args:
        seq: The seq of the event that such a line stands for, where it has one.
    """
    good = encode_line(Event(seq, 1_000, "x/note", {"text": "t"}))[:-1]
    at, key = b"%d" % seq, b'"seq":%d' % seq

    def swapped(old: bytes, new: bytes) -> bytes:
        assert old in good, "the sample has what is to be broken"
        return good.replace(old, new)

    lines = [
        b"[]",
        b"null",
        b'"x"',
        b"{}",
        b"7",
        b"{" + key + b"}",
        swapped(key, b'"seq":"' + at + b'"'),
        swapped(key, b'"seq":' + at + b".0"),
        swapped(key, b'"seq":true'),
        swapped(key, b'"seq":null'),
        swapped(key, b'"seq":-' + at),
        swapped(key, key + b"," + key),
        swapped(key, key + b',"surprise":1'),
        swapped(key, key + b',"ignorable":false'),
        swapped(key, key + b',"sourceEventSeqs":null'),
        swapped(key, key + b',"sourceEventSeqs":{}'),
        swapped(key, key + b',"surfaceOp":"remove"'),
        swapped(key, key + b',"surfaceOp":{"op":"replace","start":0}'),
        swapped(b'"time":1000', b'"time":1e3'),
        swapped(b'"time":1000', b'"time":null'),
        swapped(b'"time":1000', b'"time":9007199254740992'),
        swapped(b'"type":"x/note"', b'"type":""'),
        swapped(b'"type":"x/note"', b'"type":5'),
        swapped(b'"type":"x/note"', b'"type":"a b"'),
        swapped(b'{"text":"t"}', b"[]"),
        swapped(b'{"text":"t"}', b"null"),
        swapped(b'"t"', b"NaN"),
        swapped(b'"t"', b"-Infinity"),
        swapped(b'"t"', b"1e400"),
        swapped(b'"t"', b"18446744073709551616"),
        swapped(b'"t"', b"1" * 5_000),
        swapped(b'"t"', b"[" * 300 + b"]" * 300),
        swapped(b'"t"', b'"\\ud83d"'),
        swapped(b'"t"', b'"\xff"'),
        swapped(b'"t"', b"'t'"),
        swapped(b'"t"', b'"a\tb"'),
        swapped(b"}}", b"}"),
        swapped(b"}}", b"},}"),
        good + b"x",
        good + good,
        b"\xef\xbb\xbf" + good,
    ]
    cut = st.integers(1, len(good) - 1).map(lambda length: good[:length])
    return st.sampled_from(lines) | cut


def _deep(levels: int) -> Any:
    value: Any = None
    for _ in range(levels):
        value = [value]
    return value
