"""
The errors of the library: one tree, each carrying its facts.

Every error inherits :class:`EventLogError` and the builtin exception that a caller
would reach for, so ``except KeyError`` catches an unknown session. Match on the class
and its fields, never on the text. All of them survive ``pickle`` and ``copy``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = [
    "CorruptLog",
    "EventLogError",
    "HeaderConflict",
    "InvalidArgument",
    "InvalidSurface",
    "MissingExtra",
    "NotPicklable",
    "RedactionFailed",
    "SequenceConflict",
    "SessionDeleted",
    "SessionExists",
    "SessionNotFound",
    "StoreBusy",
    "StoreClosed",
    "StoreFull",
    "StoreReadOnly",
    "StoreUnavailable",
    "UnsupportedFormat",
    "ValueRejected",
]


class EventLogError(Exception):
    """
    The root of every error that the library raises on purpose.

    The facts of an error are its constructor's arguments and its attributes; the
    message is derived from them.
    """

    # The positional facts are BaseException.args, so that pickle and copy rebuild an
    # error by calling its class. OSError and KeyError would print them their own way.
    def __str__(self) -> str:
        return self._message()

    def _message(self) -> str:
        return " ".join(str(fact) for fact in self.args)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args


class ValueRejected(EventLogError, ValueError):
    """
    A value that the log cannot hold without changing it. Nothing was stored.

    Attributes:
        path: Where the value stands, such as ``data.items[3].score``.

        reason: What is wrong with it.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def _message(self) -> str:
        return f"{self.path}: {self.reason}"


class RedactionFailed(EventLogError, RuntimeError):
    """
    The hook that redacts events failed, so the event was not appended. Nothing that the
    hook was given is told.

    Attributes:
        event_type: The type of the event.

        path: Where the text stands that it was asked about, such as ``data.items[3].text``.

        reason: What it did: the class and the place of its exception.
    """

    def __init__(self, event_type: str, path: str, reason: str) -> None:
        super().__init__(event_type, path, reason)
        self.event_type = event_type
        self.path = path
        self.reason = reason

    def _message(self) -> str:
        return (
            f"a {self.event_type} event was not appended: "
            f"asked about {self.path}, the redact hook {self.reason}"
        )


class InvalidSurface(EventLogError, ValueError):
    """
    An event that the surface fold refuses.

    Attributes:
        seq: The seq of the refused event.

        reason: The rule that it breaks, with the seqs involved.
    """

    def __init__(self, seq: int, reason: str) -> None:
        super().__init__(seq, reason)
        self.seq = seq
        self.reason = reason

    def _message(self) -> str:
        return f"event {self.seq}: {self.reason}"


class InvalidArgument(EventLogError, ValueError):
    """
    An argument outside what a call accepts. Nothing was done.

    Attributes:
        name: The argument.

        reason: What it must be, and what it was.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def _message(self) -> str:
        return f"{self.name}: {self.reason}"


class NotPicklable(InvalidArgument, TypeError):
    """
    An object of one process that ``pickle`` or ``copy`` was given. Nothing was done.

    Attributes:
        name: What the object is, such as ``session``.

        reason: Which one, and how to get it elsewhere.
    """


class CorruptLog(EventLogError, ValueError):
    """
    A stored log that does not say what a log must say.

    Attributes:
        session_id: The session, where it is known.

        path: The file, where the store has one for each session.

        line: The 1-based line in that file, where it is known.

        offset_bytes: The byte offset of that line, where it is known.

        seq: The seq that was looked for, or found out of place, where there is one.

        kind: The class of damage: ``"header"``, ``"malformed"``, ``"seq"``,
            ``"misnamed"``, ``"empty"``, ``"truncated"``, ``"symlink"``, ….

        detail: What was seen, for a person.
    """

    def __init__(
        self,
        session_id: str | None,
        path: str | None,
        line: int | None,
        offset_bytes: int | None,
        seq: int | None,
        kind: str,
        detail: str = "",
    ) -> None:
        super().__init__(session_id, path, line, offset_bytes, seq, kind, detail)
        self.session_id = session_id
        self.path = path
        self.line = line
        self.offset_bytes = offset_bytes
        self.seq = seq
        self.kind = kind
        self.detail = detail

    def _message(self) -> str:
        where = [
            f"{name} {value}"
            for name, value in (
                ("line", self.line),
                ("byte", self.offset_bytes),
                ("seq", self.seq),
            )
            if value is not None
        ]
        subject = f"session {self.session_id!r}" if self.session_id is not None else "log"
        text = f"{subject} is damaged ({self.kind})"
        if self.path is not None:
            text += f" in {self.path}"
        if where:
            text += " at " + ", ".join(where)
        return f"{text}: {self.detail}" if self.detail else text


class HeaderConflict(EventLogError, ValueError):
    """
    The session exists with another header. Headers are never rewritten.

    Attributes:
        session_id: The session.

        field: The first field that differs, by its name in ``SessionHeader``.

        stored: The value held.

        given: The value that was given.
    """

    def __init__(self, session_id: str, field: str, stored: object, given: object) -> None:
        super().__init__(session_id, field, stored, given)
        self.session_id = session_id
        self.field = field
        self.stored = stored
        self.given = given

    def _message(self) -> str:
        return (
            f"session {self.session_id!r} exists with another {self.field}: "
            f"stored {self.stored!r:.200}, given {self.given!r:.200}"
        )


class SequenceConflict(EventLogError, ValueError):
    """
    An append that does not continue the log: another writer came first, or events are missing.

    Attributes:
        session_id: The session.

        expected: The next free seq of the log.

        actual: The seq at which the given events part from the log.
    """

    def __init__(self, session_id: str, expected: int, actual: int) -> None:
        super().__init__(session_id, expected, actual)
        self.session_id = session_id
        self.expected = expected
        self.actual = actual

    def _message(self) -> str:
        return (
            f"session {self.session_id!r} continues at seq {self.expected}, "
            f"but the given events part from it at seq {self.actual}"
        )


class SessionExists(EventLogError, ValueError):
    """
    A new session was asked for under an id that is taken.

    Attributes:
        session_id: The id.
    """

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.session_id = session_id

    def _message(self) -> str:
        return f"session {self.session_id!r} exists already"


class SessionNotFound(EventLogError, KeyError):
    """
    No session has this id. Ids are matched exactly.

    Attributes:
        session_id: The id that was asked for.
    """

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.session_id = session_id

    def _message(self) -> str:
        return f"no session {self.session_id!r}"


class SessionDeleted(EventLogError, KeyError):
    """
    The session was deleted and stays so until it is forgotten.

    Attributes:
        session_id: The id.
    """

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.session_id = session_id

    def _message(self) -> str:
        return (
            f"session {self.session_id!r} was deleted; "
            "delete(…, forget=True) frees its id for a new session"
        )


class UnsupportedFormat(EventLogError, ValueError):
    """
    A format version or a required event type that this release does not know.

    Attributes:
        found: The version or the type.

        supported: What is known.

        seq: The event concerned, None for the header.
    """

    def __init__(self, found: object, supported: Sequence[object], seq: int | None = None) -> None:
        super().__init__(found, supported, seq)
        self.found = found
        self.supported = supported
        self.seq = seq

    def _message(self) -> str:
        if self.seq is None:
            return f"format version {self.found!r} is not supported; supported: {self.supported!r}"
        return f"event {self.seq} has the unknown required type {self.found!r}"


class StoreBusy(EventLogError, TimeoutError):
    """
    Another writer holds the session or the store; or this call, of a signal handler or a
    finalizer, interrupts one of its own thread that does. Nothing was done.

    Attributes:
        owner: Who holds it, such as ``"pid 4711"``; None where the medium does not tell.

        waited_s: Seconds waited before giving up.
    """

    def __init__(self, owner: str | None, waited_s: float) -> None:
        super().__init__(owner, waited_s)
        self.owner = owner
        self.waited_s = waited_s

    def _message(self) -> str:
        return f"held by {self.owner or 'another writer'}; waited {self.waited_s:g} s"


class StoreFull(EventLogError, OSError):
    """
    The medium has no room. Nothing of the refused call was stored.

    Attributes:
        path: The store.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def _message(self) -> str:
        return f"no room left for {self.path}"


class StoreUnavailable(EventLogError, OSError):
    """
    The medium cannot be reached or fails.

    Attributes:
        path: The store, or the file that failed.

        detail: What the system said.
    """

    def __init__(self, path: str, detail: str = "") -> None:
        super().__init__(path, detail)
        self.path = path
        self.detail = detail

    def _message(self) -> str:
        return f"{self.path} is not available" + (f": {self.detail}" if self.detail else "")


class StoreReadOnly(EventLogError, PermissionError):
    """
    A write to a store that was opened for reading, or to a medium that refuses writes.

    Attributes:
        path: The store.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def _message(self) -> str:
        return f"{self.path} is read-only"


class StoreClosed(EventLogError, ValueError):
    """
    The store was closed, or the recorder.

    Attributes:
        path: The store; or the recorder, in words.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def _message(self) -> str:
        return f"{self.path} is closed"


class MissingExtra(EventLogError, ImportError):
    """
    A part of the library needs packages that are not installed.

    Attributes:
        extra: The extra's name.

        install: The command that installs it.
    """

    def __init__(self, extra: str, install: str) -> None:
        super().__init__(extra, install)
        self.extra = extra
        self.install = install

    def _message(self) -> str:
        return f"this needs the extra {self.extra!r}; install it with: {self.install}"
