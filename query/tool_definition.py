"""
How the model's search tool is declared to a model: what it is for, and its arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from .search.parsing import QUERY_CHARS_MAX

__all__ = ["NAME", "Scope", "ToolDefinition"]

Scope: TypeAlias = Literal["own", "cwd", "all"]

NAME: Final = "session_query"
DEFAULT_LIMIT: Final = 10

_SEARCHED: Final[Mapping[Scope, str]] = {
    "own": "this session's whole log",
    "cwd": "the logs of this session and of the others in its folder",
    "all": "the logs of all sessions",
}


class ToolDefinition:
    """
    The declaration of a search tool, in the forms that providers of models want.

    Attributes:
        name: ``"session_query"``.

        description: What the model is told it is for.

        self_gated: Whether it may run without asking: it only reads, and only its own
            session.
    """

    name = NAME

    def __init__(
        self, scope: Scope, limit_max: int, kinds: Mapping[str, tuple[str, ...]] | None
    ) -> None:
        self._limit_max = limit_max
        self._default_limit = min(DEFAULT_LIMIT, limit_max)
        self._kinds = kinds
        self.self_gated = scope == "own"
        self.description = (
            f"Search {_SEARCHED[scope]}, including what compaction removed from your context. "
            "Give a few words that the entry contains; case, accents and typos are forgiven. "
            "An empty query lists the newest entries of this session."
        )

    def parameters(self, *, strict: bool = False) -> dict[str, Any]:
        """
        Return the JSON Schema of the arguments.

        Args:
            strict: Require every argument and let null stand for its default, as OpenAI's
                strict mode has it, and leave out the bounds, of which not every provider's
                strict mode knows; else all of them are optional.
        """
        properties: dict[str, dict[str, Any]] = {
            "query": {
                "type": "string",
                "maxLength": QUERY_CHARS_MAX,
                "description": f"Words to look for, up to {QUERY_CHARS_MAX} characters. "
                "Empty: the newest entries.",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": self._limit_max,
                "description": f"How many, 1 to {self._limit_max}; "
                f"{self._default_limit} if left out.",
            },
            "cursor": {
                "type": "string",
                "description": "What an earlier answer said to call again with.",
            },
        }
        if self._kinds is not None:
            properties["kinds"] = {
                "type": "array",
                "items": {"type": "string", "enum": list(self._kinds)},
                "description": "Kinds of entries; messages if left out.",
            }
        if strict:
            for schema in properties.values():
                schema["type"] = [schema["type"], "null"]
                for bound in ("maxLength", "minimum", "maximum"):
                    schema.pop(bound, None)
        return {
            "type": "object",
            "properties": properties,
            "required": list(properties) if strict else [],
            "additionalProperties": False,
        }

    def openai(self) -> dict[str, Any]:
        """Return the definition for OpenAI's Chat Completions, in strict mode."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": self.parameters(strict=True),
                "strict": True,
            },
        }

    def anthropic(self) -> dict[str, Any]:
        """Return the definition for Anthropic's Messages."""
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": self.parameters(),
        }

    def mcp(self) -> dict[str, Any]:
        """Return the definition for the Model Context Protocol."""
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": self.parameters(),
            "annotations": {"readOnlyHint": True, "openWorldHint": False},
        }
