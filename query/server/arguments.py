"""
The arguments of a tool: their schema, and reading what a model gave.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import frozen

__all__ = ["Arguments", "BadArgument", "Field", "schema"]

_WHOLE: Final = re.compile(r"[+-]?\d{1,19}")
_NAMES: Final = {int: "integer", str: "string"}


class BadArgument(Exception):
    """An argument that the model can mend; the text says how."""


@frozen
class Field:
    """
    One argument, always optional.

    Attributes:
        name: Its name.

        kind: ``str`` or ``int``.

        description: For the model.

        default: What stands where it is absent or null.

        minimum, maximum: Bounds of an int, inclusive; a number beyond is clamped.
    """

    name: str
    kind: type
    description: str
    default: str | int | None
    minimum: int | None = None
    maximum: int | None = None

    def read(self, value: Any) -> str | int | None:
        """
        Return *value* as the tool takes it.

        Raises:
            BadArgument: It is of another type.
        """
        if value is None:
            return self.default
        if self.kind is int:
            value = _whole(value)
        if type(value) is not self.kind:
            raise BadArgument(f"{self.name} must be a JSON {_NAMES[self.kind]}")
        return self._clamped(value) if isinstance(value, int) else str(value)

    def _clamped(self, value: int) -> int:
        if self.minimum is not None and value < self.minimum:
            return self.minimum
        if self.maximum is not None and value > self.maximum:
            return self.maximum
        return value


def _whole(value: Any) -> Any:
    """Read a number as models write them: as text, and as floats."""
    if type(value) is str and _WHOLE.fullmatch(value.strip()):
        return int(value)
    return int(value) if type(value) is float and value.is_integer() else value


class Arguments(dict[str, Any]):
    """Every field of a tool with the value given or its default."""

    @classmethod
    def read(cls, fields: Sequence[Field], given: Mapping[str, Any] | None) -> Arguments:
        """
        Read the arguments of one call; unknown ones are ignored.

        Raises:
            BadArgument: They are no object, or one of them is of another type.
        """
        if given is not None and not isinstance(given, Mapping):
            raise BadArgument("the arguments must be a JSON object")
        held = given or {}
        return cls({field.name: field.read(held.get(field.name)) for field in fields})


def schema(fields: Sequence[Field]) -> dict[str, Any]:
    """Return the JSON Schema of the arguments of a tool."""
    properties: dict[str, Any] = {}
    for field in fields:
        told: dict[str, Any] = {"type": _NAMES[field.kind], "description": field.description}
        if field.default is not None:
            told["default"] = field.default
        if field.minimum is not None:
            told["minimum"] = field.minimum
        if field.maximum is not None:
            told["maximum"] = field.maximum
        properties[field.name] = told
    return {"type": "object", "properties": properties, "additionalProperties": False}
