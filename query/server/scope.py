"""
Which sessions a client of the server may see.
"""

from __future__ import annotations

import os
from typing import Final, Self

from attrs import frozen

from eventlog.errors import InvalidArgument, ValueRejected
from eventlog.model import SessionHeader
from eventlog.values import check_session_id

from ..filters import Cwd, Ids, SessionFilter

__all__ = ["Scope"]

KINDS: Final = ("session", "cwd", "all")


@frozen
class Scope:
    """
    The sessions that a client may see. Fixed at start; no argument of a tool widens it.

    Attributes:
        kind: ``"session"``, ``"cwd"`` or ``"all"``.

        value: The session's id, or the working directory, compared exactly; "" for all.
    """

    kind: str
    value: str = ""

    @classmethod
    def from_text(cls, text: str) -> Self:
        """
        Read ``session:ID``, ``cwd:PATH`` or ``all``. A ``~`` that PATH begins with is the
        home folder, as in the URLs of stores: no shell expands it in a host's settings.

        Raises:
            InvalidArgument: It is none of these, or ID can be no session's.
        """
        kind, _, value = text.partition(":")
        if kind not in KINDS or (kind == "all") == bool(value):
            raise InvalidArgument("scope", f"is session:ID, cwd:PATH or all, not {text!r:.80}")
        if kind == "session":
            try:
                check_session_id(value)
            except ValueRejected as error:
                raise InvalidArgument("scope", str(error)) from None
        return cls(kind, os.path.expanduser(value) if kind == "cwd" else value)

    @property
    def session_id(self) -> str | None:
        """The one session that is visible; None where there may be several."""
        return self.value if self.kind == "session" else None

    def allows(self, header: SessionHeader) -> bool:
        """Tell whether the session with *header* may be seen."""
        if self.kind == "session":
            return header.id == self.value
        return self.kind == "all" or header.cwd == self.value

    def filters(self) -> list[SessionFilter]:
        """The same as filters of a query."""
        if self.kind == "session":
            return [Ids([self.value])]
        return [Cwd([self.value])] if self.kind == "cwd" else []

    def __str__(self) -> str:
        return f"{self.kind}:{self.value}" if self.value else self.kind
