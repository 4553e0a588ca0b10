"""
The one boundary that every value passes before any driver sees it.

A value is JSON with Python's exact builtin types: ``None``, ``bool``, ``int`` in
−2⁶³ … 2⁶⁴−1, finite ``float``, ``str`` without lone surrogates, ``list``, ``dict`` with
``str`` keys. A ``tuple`` is stored as a list. Everything else, subclasses included, is
:class:`~eventlog.errors.ValueRejected`. The canonical encoding is compact UTF-8 JSON in
insertion order; two values are equal exactly when their encodings are, so ``1``, ``1.0``
and ``True`` differ, and so do two orders of the same keys.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NoReturn, TypeAlias

import orjson

from eventlog.errors import InvalidArgument, ValueRejected

__all__ = [
    "DEPTH_MAX",
    "PAYLOAD_BYTES_MAX",
    "SEQ_MAX",
    "TIME_MAX",
    "JSONValue",
    "check_event_type",
    "check_int",
    "check_session_id",
    "check_text",
    "decode",
    "encode",
    "encode_derived",
    "is_seq",
    "member_path",
    "parse",
    "shown",
]

# A value as it comes back: fresh containers of builtin types.
JSONValue: TypeAlias = Any

DEPTH_MAX = 200
PAYLOAD_BYTES_MAX = 64 * 1024 * 1024
SEQ_MAX = 2**53 - 1
TIME_MAX = 2**53 - 1
INT_MIN, INT_MAX = -(2**63), 2**64 - 1
SESSION_ID_BYTES_MAX = 255
EVENT_TYPE_CHARS_MAX = 128
PATH_KEY_CHARS_MAX = 200
DERIVED_LEVELS_MAX = 16
WIRE_TAGS = frozenset({"session", "text-chunks", "reasoning-chunks", "tool-call-chunks"})


def encode(value: object, *, path: str = "data") -> bytes:
    """
    Return the canonical encoding of *value*, a JSON object.

    Args:
        value: A ``dict`` of accepted values. Not changed, not kept.

        path: How errors call the value itself.

    Cost: O(size of *value*).

    Raises:
        ValueRejected: The value, or one inside it, cannot be held without changing it;
            *path* says which.
    """
    payload = _encoded(value, path, 1)
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise ValueRejected(
            path, f"encodes to {len(payload)} bytes; at most {PAYLOAD_BYTES_MAX} are kept"
        )
    return payload


def encode_derived(value: object, *, path: str) -> bytes:
    """
    Return the canonical encoding of a JSON object that was made of one that the log holds,
    and is not kept: it may be a few levels deeper, and of any size.

    Raises:
        ValueRejected: As :func:`encode`.
    """
    return _encoded(value, path, 1 - DERIVED_LEVELS_MAX)


def _encoded(value: object, path: str, depth: int) -> bytes:
    if type(value) is not dict:
        raise ValueRejected(path, f"must be a dict with str keys, not {type(value).__name__}")
    try:
        plain = value if _is_plain(value, depth) else _plain_copy(value, path, depth)
        return orjson.dumps(plain)
    except TypeError:
        # The walk has passed every type and range; only a lone surrogate is left.
        _plain_copy(value, path, depth)
        raise ValueRejected(path, "was changed while it was encoded") from None
    except RecursionError:
        raise
    except RuntimeError:
        # So says Python of a dict that another thread changes while it is walked.
        raise ValueRejected(path, "was changed while it was encoded") from None


def decode(payload: bytes) -> dict[str, JSONValue]:
    """
    Return the value of canonical bytes, detached: a fresh object at every call.

    Cost: O(bytes).
    """
    value: dict[str, JSONValue] = orjson.loads(payload)
    return value


def parse(text: bytes, *, path: str = "record", levels_above: int = 0) -> dict[str, JSONValue]:
    """
    Read one JSON object that somebody else wrote, by the rules of this boundary.

    What orjson would change in silence is refused here: duplicate keys, integers beyond
    64 bits, numbers out of range. Canonical text costs one parse and one dump; other
    text a slower pass in Python.

    Args:
        text: One object in UTF-8; surrounding white space is allowed.

        path: How errors call the object.

        levels_above: How many levels the object adds above the data inside it, which
            has :data:`DEPTH_MAX` for itself.

    Raises:
        ValueRejected: The text is not such an object; *reason* says why.
    """
    try:
        value = orjson.loads(text)
        if type(value) is not dict:
            raise ValueRejected(path, f"must be a JSON object, not {_json_kind(value)}")
        if orjson.dumps(value) == text and _is_shallow(text, value, 1 - levels_above):
            return value
    except (orjson.JSONDecodeError, TypeError):
        pass  # orjson says little about why; the slow pass names it, or accepts the text
    value = _parse_strictly(text, path, 1 - levels_above)
    if type(value) is not dict:
        raise ValueRejected(path, f"must be a JSON object, not {_json_kind(value)}")
    return value


def is_seq(value: object) -> bool:
    """Tell whether *value* is an event's seq: an int in 0 … 2⁵³−1, and no bool."""
    return type(value) is int and 0 <= value <= SEQ_MAX


def check_int(value: object, path: str, *, minimum: int = 0, maximum: int = SEQ_MAX) -> None:
    """
    Refuse *value* unless it is an int in *minimum* … *maximum*, both inclusive.

    Raises:
        ValueRejected: It is something else; a bool or a float is none.
    """
    if type(value) is not int:
        raise ValueRejected(path, f"must be an int, not {type(value).__name__}")
    if not minimum <= value <= maximum:
        raise ValueRejected(path, f"must be in {minimum} … {maximum}, not {shown(value)}")


def check_text(value: object, path: str) -> None:
    """
    Refuse *value* unless it is a str that UTF-8 can hold.

    Raises:
        ValueRejected: It is something else, or holds a lone surrogate.
    """
    if type(value) is not str:
        raise ValueRejected(path, f"must be a str, not {type(value).__name__}")
    _reject_lone_surrogate(value, path)


def check_session_id(value: object, *, path: str = "id") -> None:
    """
    Refuse *value* unless it is a session id: 1–255 bytes of UTF-8, no control characters.

    Raises:
        ValueRejected: It is not.
    """
    check_text(value, path)
    assert isinstance(value, str)
    if not 1 <= len(value.encode()) <= SESSION_ID_BYTES_MAX:
        raise ValueRejected(path, f"must have 1–{SESSION_ID_BYTES_MAX} bytes of UTF-8")
    if _has_control(value):
        raise ValueRejected(path, "must have no control characters")


# Types recur; one that has passed need not be looked at again. Bounded, since a hostile
# log may have a new type in every event.
_known_types: set[str] = set()


def check_event_type(value: object, *, path: str = "type") -> None:
    """
    Refuse *value* unless it is an event type: 1–128 characters, none of them a control
    character or white space, and not one of the tags of the wire format.

    Raises:
        ValueRejected: It is not.
    """
    if type(value) is str and value in _known_types:
        return
    check_text(value, path)
    assert isinstance(value, str)
    if not 1 <= len(value) <= EVENT_TYPE_CHARS_MAX:
        raise ValueRejected(path, f"must have 1–{EVENT_TYPE_CHARS_MAX} characters")
    if _has_control(value) or any(char.isspace() for char in value):
        raise ValueRejected(path, "must have no control characters or spaces")
    if value in WIRE_TAGS:
        raise ValueRejected(path, f"{value!r} is a tag of the wire format")
    if len(_known_types) < 1024:
        _known_types.add(value)


def check_index(value: object, name: str) -> int:
    """
    Return *value*, an argument that counts or addresses events.

    Raises:
        InvalidArgument: It is no int, a bool, or negative.
    """
    if type(value) is not int or value < 0:
        raise InvalidArgument(name, f"must be an int ≥ 0, not {shown(value)}")
    return value


def check_flag(value: object, name: str) -> None:
    """
    Refuse *value*, an argument that switches something on or off, unless it is a bool.

    Raises:
        InvalidArgument: It is something else, which Python would take for one of the two.
    """
    if value is not True and value is not False:
        raise InvalidArgument(name, f"must be a bool, not {shown(value)}")


def shown(value: object, chars: int = 60) -> str:
    """Return *value* as an error shows it: in so many characters at most, whatever it is."""
    if type(value) is int and value.bit_length() > 128:
        return f"an int of {value.bit_length()} bits"  # Python refuses to print long ones
    try:
        text = repr(value)
    except Exception:
        text = f"a value of the type {type(value).__name__}"
    return text if len(text) <= chars else text[: chars - 1] + "…"


def _has_control(text: str) -> bool:
    return not text.isprintable() and any(char < " " or "\x7f" <= char <= "\x9f" for char in text)


def _is_plain(value: Any, depth: int) -> bool:
    """Tell whether *value* may be dumped as it is. A tuple and a bad value are not plain."""
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return True
    if kind is dict:
        if depth > DEPTH_MAX:
            return False
        for key, item in value.items():
            if type(key) is not str:
                return False
            # Most items are str, and a call for each costs more than the check.
            if type(item) is not str and not _is_plain(item, depth + 1):
                return False
        return True
    if kind is list:
        if depth > DEPTH_MAX:
            return False
        for item in value:
            if type(item) is not str and not _is_plain(item, depth + 1):
                return False
        return True
    if kind is int:
        in_range: bool = INT_MIN <= value <= INT_MAX
        return in_range
    if kind is float:
        finite: bool = value - value == 0.0  # NaN and infinities give NaN
        return finite
    return False


def _plain_copy(value: Any, path: str, depth: int) -> JSONValue:
    """Return *value* with its tuples as lists, or raise for the first value refused."""
    kind = type(value)
    if kind is str:
        _reject_lone_surrogate(value, path)
        return value
    if kind in (dict, list, tuple) and depth > DEPTH_MAX:
        raise ValueRejected(path, f"is nested deeper than {DEPTH_MAX} levels")
    if kind is dict:
        copied: dict[str, JSONValue] = {}
        for key, item in value.items():
            if type(key) is not str:
                raise ValueRejected(path, f"has a key that is no str: {shown(key)}")
            _reject_lone_surrogate(key, f"{path} (a key)")
            copied[key] = _plain_copy(item, member_path(path, key), depth + 1)
        return copied
    if kind is list or kind is tuple:
        return [
            _plain_copy(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)
        ]
    if not _is_plain(value, depth):
        raise ValueRejected(path, _why_refused(value))
    return value


def _why_refused(value: object) -> str:
    if type(value) is int:
        return f"is outside −2⁶³ … 2⁶⁴−1: {shown(value)}"
    if type(value) is float:
        return f"is not finite: {value!r}"
    return (
        f"has the type {type(value).__qualname__}; "
        "only None, bool, int, float, str, list, tuple and dict are kept"
    )


def _reject_lone_surrogate(text: str, path: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueRejected(path, f"holds a lone surrogate at character {error.start}") from None


def member_path(path: str, key: str) -> str:
    """Return the path of a member: ``path.key``, or ``path['a key']`` for odd keys."""
    if len(key) > PATH_KEY_CHARS_MAX:
        key = key[: PATH_KEY_CHARS_MAX - 1] + "…"
    return f"{path}.{key}" if key.isidentifier() else f"{path}[{key!r}]"


def _json_kind(value: object) -> str:
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string"}
    return names.get(type(value), "an array")


def _is_shallow(text: bytes, value: object, depth: int) -> bool:
    """Tell whether text of balanced brackets stays within the depth limit."""
    return text.count(b"{") + text.count(b"[") <= DEPTH_MAX or _is_plain(value, depth)


def _parse_strictly(text: bytes, path: str, depth: int) -> JSONValue:
    """Parse with the standard library, whose hooks see what orjson hides."""

    def reject_constant(token: str) -> NoReturn:
        raise ValueRejected(path, f"{token} is not JSON")

    def read_int(digits: str) -> int:
        # Python refuses to convert more than 4,300 digits; 20 hold every accepted int.
        if len(digits) > 20 or not INT_MIN <= (number := int(digits)) <= INT_MAX:
            raise ValueRejected(path, f"holds an integer beyond 64 bits: {digits[:24]}")
        return number

    def read_float(digits: str) -> float:
        number = float(digits)
        if number - number != 0.0:
            raise ValueRejected(path, f"holds a number out of range: {digits[:24]}")
        return number

    def read_object(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
        built = dict(pairs)
        if len(built) != len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise ValueRejected(path, f"has the key {twice[:60]!r} twice")
        return built

    try:
        value = json.loads(
            text.decode(),
            parse_constant=reject_constant,
            parse_int=read_int,
            parse_float=read_float,
            object_pairs_hook=read_object,
        )
    except UnicodeDecodeError as error:
        raise ValueRejected(path, f"is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise ValueRejected(path, f"is not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise ValueRejected(path, f"is nested deeper than {DEPTH_MAX} levels") from None
    if not _is_plain(value, depth):
        _plain_copy(value, path, depth)
    _reject_surrogates_inside(value, path, depth)
    return value


def _reject_surrogates_inside(value: JSONValue, path: str, depth: int) -> None:
    try:
        orjson.dumps(value)
    except TypeError:
        _plain_copy(value, path, depth)
        raise
