"""
The arguments of the model's search tool, as models write them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from .text import valid

__all__ = ["BadArguments", "ToolArguments", "read_arguments"]


SHOWN_CHARS_MAX: Final = 40
_WHOLE: Final = re.compile(r"[+-]?\d{1,19}")


class BadArguments(Exception):
    """Arguments that cannot be meant; the text says why, for the model."""


@frozen
class ToolArguments:
    """
    Checked arguments.

    Attributes:
        query: What to look for.

        limit: How many hits at most, within the tool's range.

        cursor: Where to go on, None to begin.

        kinds: The kinds that were chosen, None where none was.
    """

    query: str
    limit: int
    cursor: str | None
    kinds: tuple[str, ...] | None


def read_arguments(
    arguments: str | Mapping[str, Any] | None,
    *,
    limit_default: int,
    limit_max: int,
    kinds: Collection[str] | None,
) -> ToolArguments:
    """
    Return the arguments of a call.

    Args:
        kinds: The kinds to choose from; None where there is no choice, and what is given
            is ignored like any unknown argument.

    Null case: no arguments, and any that is null, take their defaults.

    Raises:
        BadArguments: They are no JSON object, or one has a wrong type.
    """
    given = _object(arguments)
    query = given.get("query")
    if query is not None and type(query) is not str:
        raise BadArguments(f"query must be a string, not {_kind(query)}")
    cursor = given.get("cursor")
    if cursor is not None and type(cursor) is not str:
        raise BadArguments(f"cursor must be a string, not {_kind(cursor)}")
    limit = _limit(given.get("limit"), limit_default, limit_max)
    chosen = None if kinds is None else _chosen(given.get("kinds"), kinds)
    return ToolArguments(query or "", limit, cursor or None, chosen)


def _object(arguments: object) -> Mapping[str, Any]:
    if isinstance(arguments, str):
        if not arguments.strip():
            return {}
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            raise BadArguments("the arguments are no valid JSON") from None
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise BadArguments(f"the arguments must be an object, not {_kind(arguments)}")
    return arguments


def _limit(value: object, default: int, maximum: int) -> int:
    if value is None:
        return default
    # Models write numbers as text, and as floats.
    if type(value) is str and _WHOLE.fullmatch(value.strip()):
        value = int(value)
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int:
        raise BadArguments(f"limit must be a whole number, not {_given(value)}")
    return max(1, min(value, maximum))


def _chosen(value: object, kinds: Collection[str]) -> tuple[str, ...] | None:
    if value is None or value == []:
        return None
    names: Sequence[object] = [value] if type(value) is str else ()
    if isinstance(value, (list, tuple)):
        names = value
    elif not names:
        raise BadArguments(f"kinds must be a list, not {_kind(value)}")
    for name in names:
        if type(name) is not str or name not in kinds:
            raise BadArguments(f"kinds are {', '.join(kinds)}")
    return tuple(dict.fromkeys(str(name) for name in names))


def _given(value: object) -> str:
    """Return a number or a short text as the model gave it, else what kind of value it is."""
    if type(value) in (int, float) or (type(value) is str and len(value) <= SHOWN_CHARS_MAX):
        return json.dumps(valid(value) if type(value) is str else value, ensure_ascii=False)
    return _kind(value)


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "an object" if isinstance(value, Mapping) else "a list"
