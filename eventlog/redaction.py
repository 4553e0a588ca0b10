"""
Taking secrets out of events where they are made, before anything keeps or shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os.path import basename
from typing import TypeAlias

from eventlog import values
from eventlog.errors import RedactionFailed
from eventlog.values import JSONValue, member_path

__all__ = ["Redact", "redacted"]

Redact: TypeAlias = Callable[[str, str, str], str]
"""
Given an event's type, a path such as ``data.message.content[0].text`` and the str that
stands there, returns the str to keep in its place; the same one to keep it.
"""


def redacted(
    redact: Redact, event_type: str, data: Mapping[str, JSONValue]
) -> dict[str, JSONValue]:
    """
    Return a detached copy of *data* in which *redact* was asked for every str.

    It is asked once for each, in the order of the encoding. Keys and numbers stay. In a
    path, ``['…']`` stands around a key that is no identifier, and a key of more than 200
    characters is cut short.

    Cost: O(size of *data*), an encoding and a parse, beside the calls.

    Raises:
        ValueRejected: A value inside *data* is not accepted; nothing was asked.

        RedactionFailed: *redact* raised an exception, or returned something else.
    """
    fresh = values.decode(values.encode(data))

    def walk(value: JSONValue, path: str) -> JSONValue:
        if type(value) is str:
            return _asked(redact, event_type, path, value)
        if type(value) is dict:
            for key, item in value.items():
                value[key] = walk(item, member_path(path, key))
        elif type(value) is list:
            for index, item in enumerate(value):
                value[index] = walk(item, f"{path}[{index}]")
        return value

    walk(fresh, "data")
    return fresh


def _asked(redact: Redact, event_type: str, path: str, text: str) -> str:
    try:
        kept = redact(event_type, path, text)
    except Exception as error:
        # Its message may hold the text, and so may what it is chained to: only its class
        # and its place are told, behind this block, where nothing is chained.
        reason = f"raised {type(error).__name__}{_place(error)}"
    else:
        if type(kept) is str:
            return kept
        reason = f"returned a {type(kept).__name__}, not a str"
    raise RedactionFailed(event_type, path, reason)


def _place(error: Exception) -> str:
    """Where in the hook an exception came up; nothing for a hook that is no Python."""
    inside = error.__traceback__ and error.__traceback__.tb_next
    if inside is None:
        return ""
    return f" at {basename(inside.tb_frame.f_code.co_filename)}:{inside.tb_lineno}"
