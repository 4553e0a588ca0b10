"""
The kinds of entries that a host lets the model choose from, and their event types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from eventlog.values import shown
from eventlog.vocabulary import Vocabulary

from .errors import Code, SessionQueryError

__all__ = ["event_types", "message_types"]

MESSAGE: Final = "message"
BOOKKEEPING: Final = "bookkeeping"
_MESSAGE_KINDS: Final = {
    "user": ("user/message",),
    "assistant": ("assistant/message",),
    "tool": ("tool/result",),
}


def message_types(vocabulary: Vocabulary) -> tuple[str, ...]:
    """Return the event types that give the model messages."""
    return tuple(name for name, kind in vocabulary.types.items() if kind.message is not None)


def event_types(
    kinds: Sequence[str] | Mapping[str, Sequence[str]], vocabulary: Vocabulary
) -> dict[str, tuple[str, ...]]:
    """
    Return the event types of each kind that the host offers.

    Raises:
        SessionQueryError: INVALID_CONFIG: *kinds* is something else.
    """
    if isinstance(kinds, Mapping):
        return {_name(kind): _names(types) for kind, types in kinds.items()}
    messages = message_types(vocabulary)
    known = {
        **_MESSAGE_KINDS,
        MESSAGE: messages,
        BOOKKEEPING: tuple(
            name
            for name, kind in vocabulary.types.items()
            if kind.text is not None and name not in messages
        ),
    }
    return {kind: known.get(kind, (kind,)) for kind in _names(kinds)}


def _names(given: object) -> tuple[str, ...]:
    # A str is a sequence of str too, and each of its letters would pass for a name.
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise SessionQueryError(
            Code.INVALID_CONFIG,
            "kinds must be a list of names, or a mapping from names to event types",
        )
    return tuple(map(_name, given))


def _name(value: object) -> str:
    if type(value) is not str or not value:
        raise SessionQueryError(Code.INVALID_CONFIG, f"a kind is a name, not {shown(value)}")
    return value
