"""
What event types mean: their text, the message each one gives the model, and whether a
harness that resumes a log knows them.

Stores and the fold need none of this. The default vocabulary is that of DeepSeek Harness
logs: 13 core types, and 35 plug-in types that are known and say nothing. A harness adds
its own with :meth:`Vocabulary.with_types`, and offers them to other programs, such as the
command line, through the entry-point group ``eventlog.vocabularies``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Final, TypeAlias

from attrs import frozen

from eventlog.errors import InvalidArgument
from eventlog.model import Event
from eventlog.surface import NEVER_NODES
from eventlog.values import JSONValue, check_event_type

__all__ = ["DEFAULT_VOCABULARY", "EventType", "Vocabulary", "load_vocabulary"]

VOCABULARIES_GROUP = "eventlog.vocabularies"

Data: TypeAlias = dict[str, JSONValue]
Parts: TypeAlias = Callable[[Data], Iterable[JSONValue]]
Message: TypeAlias = Callable[[Data], Data | None]


@frozen
class EventType:
    """
    What one event type means. ``EventType()`` is a type that is known and says nothing.

    Attributes:
        text: Gives the parts of the searchable text, in order, from the event's data.
            Parts are trimmed and joined by newlines; what is blank or no str is left
            out. None is a type without text.

        message: Gives the message that a node of this type shows the model, with at
            least ``role`` and ``content``, or None where there is none. None is a type
            without messages.

        revision: Raise it when *text* or *message* begin to answer differently, so that
            an index built before is built anew.

    Both functions get whatever a log may hold under this type, as a fresh object. They
    must not raise.
    """

    text: Parts | None = None
    message: Message | None = None
    revision: int = 1


class Vocabulary:
    """
    Event types by name. Immutable; every method may be called from any thread.

    Args:
        types: The types that are known.

    Raises:
        ValueRejected: A name is no event type.

        InvalidArgument: *types* is no mapping, or a value no :class:`EventType`.
    """

    __slots__ = ("_fingerprint", "_types")

    def __init__(self, types: Mapping[str, EventType]) -> None:
        if not isinstance(types, Mapping):
            raise InvalidArgument("types", f"must be a mapping, not {type(types).__name__}")
        held = dict(types)
        for name, kind in held.items():
            check_event_type(name)
            if type(kind) is not EventType:
                raise InvalidArgument(
                    "types", f"{name!r} must be an EventType, not {type(kind).__name__}"
                )
        self._types = held
        self._fingerprint = _fingerprint(held)

    @property
    def types(self) -> Mapping[str, EventType]:
        """The types by name, read-only."""
        return MappingProxyType(self._types)

    @property
    def fingerprint(self) -> str:
        """
        A digest of what the vocabulary says, equal in every process; another vocabulary,
        another text function or another revision has another one.
        """
        return self._fingerprint

    def with_types(self, types: Mapping[str, EventType]) -> Vocabulary:
        """
        Return a vocabulary that knows *types* too. One that is known already is replaced.

        Raises:
            ValueRejected: A name is no event type.

            InvalidArgument: *types* is no mapping, or a value no :class:`EventType`.
        """
        added = Vocabulary(types)
        return Vocabulary({**self._types, **added._types})

    def knows(self, type: str) -> bool:  # noqa: A002 - the event's field
        """Tell whether resuming may meet *type*."""
        return type in self._types

    def text(self, event: Event) -> str:
        """
        Return the searchable text of *event*; ``""`` where there is none.

        Cost: O(bytes) for a type with text, else O(1): the payload is not decoded.
        """
        kind = self._types.get(event.type)
        if kind is None or kind.text is None:
            return ""
        return joined(kind.text(event.data))

    def message(self, event: Event) -> Data | None:
        """
        Return the message of *event* as a fresh object; None where there is none.

        A message does not depend on whether the event is on the surface.

        Cost: O(bytes) for a type with messages, else O(1).
        """
        kind = self._types.get(event.type)
        if kind is None or kind.message is None:
            return None
        return kind.message(event.data)

    def role(self, event: Event) -> str | None:
        """
        Return the role of the message of *event*, such as ``"user"``; None where there
        is no message. Results of tools have the role ``"user"``, as in the message.

        Cost: as :meth:`message`.
        """
        message = self.message(event)
        role = None if message is None else message.get("role")
        return role if type(role) is str else None

    def __eq__(self, other: object) -> bool:
        if type(other) is not Vocabulary:
            return NotImplemented
        return self._types == other._types

    def __hash__(self) -> int:
        return hash(self._fingerprint)

    def __repr__(self) -> str:
        return f"<Vocabulary of {len(self._types)} types>"


def load_vocabulary() -> Vocabulary:
    """
    Return the default vocabulary with the types that installed harnesses offer.

    An entry point of the group ``eventlog.vocabularies`` names a :class:`Vocabulary`, or
    a mapping from type to :class:`EventType`. Null case: none is installed, and the
    default comes back.

    Raises:
        InvalidArgument: An entry point cannot be loaded, is something else, or two of
            them give one type different meanings.
    """
    added: dict[str, EventType] = {}
    givers: dict[str, str] = {}
    for point in sorted(entry_points(group=VOCABULARIES_GROUP), key=lambda point: point.name):
        try:
            loaded = point.load()
        except Exception as error:
            raise InvalidArgument(
                VOCABULARIES_GROUP, f"{point.name!r} cannot be loaded: {error}"
            ) from error
        types = loaded.types if isinstance(loaded, Vocabulary) else loaded
        if not isinstance(types, Mapping):
            raise InvalidArgument(
                VOCABULARIES_GROUP, f"{point.name!r} is a {type(types).__name__}, not a mapping"
            )
        for name, kind in types.items():
            # One that repeats the default, as a whole Vocabulary does, adds nothing.
            if CORE_TYPES.get(name) == kind:
                continue
            if added.setdefault(name, kind) != kind:
                raise InvalidArgument(
                    VOCABULARIES_GROUP,
                    f"{givers[name]!r} and {point.name!r} both define {name!r}",
                )
            givers.setdefault(name, point.name)
    return DEFAULT_VOCABULARY.with_types(added) if added else DEFAULT_VOCABULARY


# White space as ECMAScript trims it, which is what wrote and reads these logs: U+FEFF is
# in it, U+0085 and the separators U+001C–U+001F are not.
_SPACE: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)


def joined(parts: Iterable[JSONValue]) -> str:
    """Join the texts among *parts* by newlines, each trimmed, blank ones left out."""
    trimmed = (part.strip(_SPACE) for part in parts if type(part) is str)
    return "\n".join(part for part in trimmed if part)


def _fingerprint(types: Mapping[str, EventType]) -> str:
    digest = blake2b(digest_size=16)
    for name, kind in sorted(types.items()):
        functions = (_name(kind.text), _name(kind.message))
        digest.update(repr((name, *functions, kind.revision)).encode())
    return digest.hexdigest()


def _name(function: Callable[..., object] | None) -> str:
    if function is None:
        return ""
    qualified = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', '')}.{qualified}"


# The core types. Old logs have messages without an envelope, their fields in the data
# itself; what they hold is read all the same.


def _member(value: JSONValue, key: str) -> JSONValue:
    return value.get(key) if type(value) is dict else None


def _items(value: JSONValue) -> list[JSONValue]:
    return value if type(value) is list else []


def enveloped(data: Data) -> Data:
    """The message of an assistant or a tool, or the data that holds its fields."""
    message = data.get("message")
    return message if type(message) is dict else data


def block_texts(blocks: JSONValue) -> Iterator[JSONValue]:
    """
    Yield the searchable texts of content blocks: text, and the name and arguments of
    calls. The blocks inside a tool's result count, reasoning and images do not. Content
    that is a mere str is one text.
    """
    if type(blocks) is str:
        yield blocks
    # A stack, not recursion: a log may nest results as deep as values go.
    pending = _items(blocks)[::-1]
    while pending:
        block = pending.pop()
        kind = _member(block, "type")
        if kind == "text":
            yield _member(block, "text")
        elif kind == "tool-call":
            yield _member(block, "name")
            yield _member(block, "arguments")
        elif kind == "tool-result":
            pending += _items(_member(block, "content"))[::-1]


def _user_text(data: Data) -> Iterator[JSONValue]:
    return block_texts(data.get("content"))


def _assistant_text(data: Data) -> Iterator[JSONValue]:
    return block_texts(enveloped(data).get("content"))


def _result_text(data: Data) -> Iterator[JSONValue]:
    yield from block_texts(enveloped(data).get("content"))
    error = data.get("error")
    yield _member(error, "name")
    yield _member(error, "code")


def _call_text(data: Data) -> Iterator[JSONValue]:
    yield data.get("name")
    yield data.get("arguments")


def _todo_text(data: Data) -> Iterator[JSONValue]:
    for item in _items(data.get("todos")):
        yield _member(item, "status")
        yield _member(item, "content")


def _end_text(data: Data) -> Iterator[JSONValue]:
    reason = data.get("reason")
    kind = _member(reason, "kind")
    if kind == "error":
        yield "error"
        yield _member(_member(reason, "error"), "message")
    elif kind in ("aborted", "max-tokens", "interrupted"):
        yield kind


def _user_message(data: Data) -> Data:
    return data if "role" in data else {"role": "user", **data}


def _assistant_message(data: Data) -> Data | None:
    message = enveloped(data)
    if message is data:
        source = data.get("provenance")
        source = {**source, "kind": "model"} if type(source) is dict else {"kind": "model"}
        message = {"role": "assistant", "content": data.get("content"), "source": source}
    # Without content the event only says what the call has used.
    return message if message.get("content") else None


def _result_message(data: Data) -> Data:
    message = enveloped(data)
    if message is not data:
        return message
    call_id = data.get("callId")
    block = {"type": "tool-result", "toolCallId": call_id, "content": data.get("content")}
    if "isError" in data:
        block["isError"] = data["isError"]
    return {"role": "user", "content": [block], "source": {"kind": "tool", "callId": call_id}}


CORE_TYPES: Final[Mapping[str, EventType]] = MappingProxyType(
    {
        **dict.fromkeys(sorted(NEVER_NODES), EventType()),
        "turn/end": EventType(_end_text),
        "user/message": EventType(_user_text, _user_message),
        "assistant/message": EventType(_assistant_text, _assistant_message),
        "tool/call": EventType(_call_text),
        "tool/result": EventType(_result_text, _result_message),
        "todo/write": EventType(_todo_text),
    }
)

DEFAULT_VOCABULARY: Final = Vocabulary(CORE_TYPES)
"""The 13 core types and the 35 known plug-in types of DeepSeek Harness logs."""
