"""
Reading one foreign JSON object so that nothing of it is lost.

What :mod:`eventlog.values` accepts comes back as it is. Of an object that it refuses, a
*cleaned copy* comes back, with the exact text to keep beside it:

- a lone surrogate, and a byte that is no UTF-8, becomes U+FFFD;
- an integer beyond 64 bits, a number out of range, ``NaN`` and the infinities become
  strings of what was written;
- of a key that stands twice in an object the last value counts, as with the JSON parsers
  of the tools that wrote it;
- what is nested deeper than 150 levels becomes a string of its JSON.

The exact text is held as a string. JSON text has lone surrogates as escapes, so only
bytes that are no UTF-8 need a form of their own there: ``\\xNN``, which JSON never has.
"""

from __future__ import annotations

import json
from typing import Final

import orjson
from attrs import frozen

from eventlog import values
from eventlog.errors import ValueRejected
from eventlog.values import JSONValue

__all__ = ["Parsed", "clean", "read_object", "read_plain"]

# Less than the boundary's limit: what is read here is put into an event's data.
DEPTH_MAX: Final = 150


@frozen(slots=True)
class Parsed:
    """
    A foreign object.

    Attributes:
        value: The object, acceptable to every store.

        raw: Its exact text where *value* is a cleaned copy, else None.

        reason: What had to be cleaned, None where nothing was.

        doubled_key: A key of the outermost object that stands twice, None without one.
    """

    value: dict[str, JSONValue]
    raw: str | None = None
    reason: str | None = None
    doubled_key: str | None = None


def read_plain(text: bytes) -> dict[str, JSONValue] | None:
    """
    Return the object of a text that is written as its canonical encoding is: nothing of it
    has to be cleaned. None for another text, which :func:`read_object` may still read.

    Cost: one parse and one dump.
    """
    try:
        value = orjson.loads(text)
        if (
            type(value) is dict
            and text.count(b"{") + text.count(b"[") <= DEPTH_MAX
            and orjson.dumps(value) == text
        ):
            return value
    except (orjson.JSONDecodeError, TypeError):
        pass
    return None


def read_object(text: bytes) -> Parsed:
    """
    Read one JSON object.

    Cost: one parse and one dump for clean text, a slower pass for other text.

    Raises:
        ValueRejected: *text* is no JSON object; *reason* says why.
    """
    plain = read_plain(text)
    if plain is not None:
        return Parsed(plain)
    try:
        value = values.parse(text)
        if text.count(b"{") + text.count(b"[") <= DEPTH_MAX or _depth(value) <= DEPTH_MAX:
            return Parsed(value)
        refused = ValueRejected("record", f"is nested deeper than {DEPTH_MAX} levels")
    except ValueRejected as error:
        refused = error
    doubled: list[str | None] = [None]

    def read_pairs(pairs: list[tuple[str, JSONValue]]) -> dict[str, JSONValue]:
        built = dict(pairs)
        # The outermost object is the last to be built.
        doubled[0] = _doubled(pairs) if len(built) < len(pairs) else None
        return built

    try:
        value = json.loads(
            text.decode("utf-8", "replace"),
            parse_int=_read_int,
            parse_float=_read_float,
            parse_constant=str,
            object_pairs_hook=read_pairs,
        )
        value = _cleaned(value, 1)
    except (json.JSONDecodeError, RecursionError):
        raise refused from None
    if type(value) is not dict:
        raise refused
    return Parsed(value, text.decode("utf-8", "backslashreplace"), refused.reason, doubled[0])


def clean(value: JSONValue) -> JSONValue:
    """Return a cleaned copy of a decoded value, by the rule of this module."""
    return _cleaned(value, 1)


def _read_int(digits: str) -> int | str:
    if len(digits) > 20:  # as many as every accepted int needs, and Python refuses 4,301
        return digits
    number = int(digits)
    return number if values.INT_MIN <= number <= values.INT_MAX else digits


def _read_float(digits: str) -> float | str:
    number = float(digits)
    return number if number - number == 0.0 else digits


def _doubled(pairs: list[tuple[str, JSONValue]]) -> str | None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return key
        seen.add(key)
    return None


def _cleaned(value: JSONValue, depth: int) -> JSONValue:
    kind = type(value)
    if kind is str:
        return _cleaned_text(value)
    if kind is int and not values.INT_MIN <= value <= values.INT_MAX:
        return str(value)
    if kind is float and value - value != 0.0:
        return json.dumps(value)
    if kind is dict:
        if depth > DEPTH_MAX:
            return _cleaned_text(json.dumps(value, ensure_ascii=False))
        return {_cleaned_text(key): _cleaned(item, depth + 1) for key, item in value.items()}
    if kind is list:
        if depth > DEPTH_MAX:
            return _cleaned_text(json.dumps(value, ensure_ascii=False))
        return [_cleaned(item, depth + 1) for item in value]
    return value


def _cleaned_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _depth(value: JSONValue) -> int:
    """How deep *value* is nested. The boundary has passed it, so recursion is bounded."""
    if type(value) is dict:
        return 1 + max(map(_depth, value.values()), default=0)
    if type(value) is list:
        return 1 + max(map(_depth, value), default=0)
    return 0
