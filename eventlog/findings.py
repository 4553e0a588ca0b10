"""
What verifying finds, what repairing changes, and what salvaging could not give.

Four readings of a damaged store, from strict to lenient:

* a *strict* read (:meth:`~eventlog.store.EventStore.snapshot`) refuses what it cannot prove;
* :meth:`~eventlog.store.EventStore.verify` names every problem and changes nothing;
* :meth:`~eventlog.store.EventStore.salvage` gives all that can be read of one session, and
  marks each place where the log is not whole;
* :meth:`~eventlog.store.EventStore.repair` changes the medium, on request, after a backup,
  so that strict reads work again.
"""

from __future__ import annotations

from typing import Final, Literal

from attrs import frozen

from eventlog.model import Event

__all__ = ["LOST_TYPE", "Change", "Finding", "Gap", "lost_event"]

LOST_TYPE: Final = "log/lost"
"""The type of the event that a repair puts where an event is lost."""

Action = Literal["cut", "edit", "rename", "set-aside", "delete", "rebuild"]


@frozen
class Change:
    """
    What a repair does, or did, about one finding.

    Attributes:
        action: ``"cut"`` takes bytes off the end of a file; ``"edit"`` takes the bytes at
            the finding's *offset_bytes* out and puts *inserted* there; ``"rename"`` and
            ``"set-aside"`` give a file another name; ``"delete"`` completes a deletion or
            removes a second name of the same bytes; ``"rebuild"`` writes derived rows
            anew from the log.

        removed_bytes: How many bytes are taken out.

        inserted: What is put in their place.

        target: Where a renamed file lies then, None for the other actions.

        backup: Where everything that is taken away is kept; None where nothing is, or
            where the change was not made yet.
    """

    action: Action
    removed_bytes: int = 0
    inserted: bytes = b""
    target: str | None = None
    backup: str | None = None


@frozen
class Finding:
    """
    One problem of a store.

    Attributes:
        kind: Its class. Of a log: ``"torn"`` (an unfinished end, which readers pass over),
            ``"fused"``, ``"broken-line"``, ``"padding"``, ``"malformed"``, ``"seq"``,
            ``"missing"``, ``"header"``, ``"empty"``, ``"surface"``, ``"frame"``. Of a
            store: ``"misnamed"``, ``"leftover"``, ``"stray"``, ``"symlink"``,
            ``"directory"``, ``"special"``, ``"denied"``, ``"unavailable"``, ``"row"``,
            ``"index"``, ``"orphan"``.

        session_id: The session concerned, None where it is not known.

        path: The file, where the store has one for each session.

        line: The 1-based line in that file, where there is one.

        offset_bytes: Where that line begins.

        size_bytes: How many bytes are concerned, None where that means nothing.

        seq: The first seq concerned, None where there is none.

        detail: What was seen, for a person.

        change: What a repair does about it; None where it takes a person to decide.
    """

    kind: str
    session_id: str | None = None
    path: str | None = None
    line: int | None = None
    offset_bytes: int | None = None
    size_bytes: int | None = None
    seq: int | None = None
    detail: str = ""
    change: Change | None = None


@frozen
class Gap:
    """
    A place in a salvaged log where what follows does not continue what came before.

    Attributes:
        kind: The class of damage, as in :attr:`Finding.kind`.

        start_seq: The seq that should come here, None where the header is concerned.

        next_seq: The seq of the event that follows, None where none does. Smaller than
            *start_seq* where the log steps back: what follows is a run of its own.

        path, line, offset_bytes, size_bytes: Where the damage lies, as in :class:`Finding`.

        detail: What was seen, for a person.

        recovered: Events found inside the damaged bytes. They are whole records, but it
            is a guess that they were written as events of this log in this place; so they
            are not among the events of the salvaged log.
    """

    kind: str
    start_seq: int | None
    next_seq: int | None
    path: str | None = None
    line: int | None = None
    offset_bytes: int | None = None
    size_bytes: int | None = None
    detail: str = ""
    recovered: tuple[Event, ...] = ()


def lost_event(event: Event) -> bool:
    """Tell whether *event* stands for one that was lost."""
    return event.type == LOST_TYPE
