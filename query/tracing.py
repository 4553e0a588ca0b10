"""
Traces: where an event comes from and what became of it, and the same for a session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from eventlog.model import Fault

from .corpus import Corpus, Scan
from .corpus_snapshot import CorpusSnapshot
from .errors import Code, SessionQueryError, check_cancel, check_id, not_found
from .faults import distinct
from .reads import record_at
from .records import Descendant, EventTrace, LineageTrace, SessionRecord

__all__ = ["event_trace", "lineage_trace"]

CHAIN_MAX: Final = 100
HINT_CHILDREN: Final = 3

Cancel: TypeAlias = Callable[[], bool]


def event_trace(log: CorpusSnapshot, seq: int) -> EventTrace:
    """
    Trace one event.

    Cost: 1 record, and the rows of the answer.

    Raises:
        SessionQueryError: EVENT_NOT_FOUND, which comes before INVALID_SURFACE.
    """
    event, record = record_at(log, seq)
    chain: list[int] = []
    current: int | None = seq if event.is_node else None
    replacer = _replacer(log, seq)
    while replacer is not None and len(chain) < CHAIN_MAX:
        chain.append(replacer)
        replacer = _replacer(log, replacer)
    if chain:
        current = chain[-1] if replacer is None else log.stand_in(seq)
    return EventTrace(
        log.header,
        record,
        chain[0] if chain else None,
        current,
        tuple(chain),
        replacer is None,
        tuple(log.replaced(seq)),
        event.source_event_seqs or (),
        tuple(log.citing(seq)),
    )


def lineage_trace(corpus: Corpus, session_id: str, cancel: Cancel | None) -> LineageTrace:
    """
    Trace one session through the corpus.

    Cost: the heads of its ancestors and descendants, in each source.

    Raises:
        SessionQueryError: SESSION_NOT_FOUND; INVALID_LINEAGE: a session is its own
            ancestor; CORRUPT_SESSION: *session_id*'s header cannot be read;
            SOURCE_CONFLICT; PERSISTENCE_FAILED; ABORTED.
    """
    check_id(session_id)
    faults: list[Fault] = []
    target = corpus.find(session_id, faults)
    if target is None:
        raise _unknown(corpus, session_id)
    ancestors, unresolved = _ancestors(corpus, target, faults, cancel)
    descendants = _descendants(corpus, target, faults, cancel)
    return LineageTrace(
        target,
        tuple(ancestors),
        [target, *ancestors][-1] if unresolved is None else None,
        unresolved is None,
        unresolved,
        tuple(descendants),
        distinct(faults),
    )


def _unknown(corpus: Corpus, session_id: str) -> SessionQueryError:
    """Return the error for a session that nobody has; it may be known from its children."""
    children = corpus.walk(None, HINT_CHILDREN, scan=Scan(parents=(session_id,))).records
    error = not_found(session_id)
    if not children:
        return error
    names = ", ".join(repr(record.header.id) for record in children[:HINT_CHILDREN])
    return SessionQueryError(
        error.code, f"{error.detail}, though it is named as the parent of {names}", session_id
    )


def _replacer(log: CorpusSnapshot, seq: int) -> int | None:
    return log.replaced_by(seq, seq + 1).get(seq)


def _ancestors(
    corpus: Corpus, target: SessionRecord, faults: list[Fault], cancel: Cancel | None
) -> tuple[list[SessionRecord], str | None]:
    """Return the ancestors, nearest first, and the first one that is not to be had."""
    ancestors: list[SessionRecord] = []
    seen = {target.header.id}
    parent_id = target.header.parent_session
    while parent_id is not None:
        check_cancel(cancel)
        if parent_id in seen:
            raise _circle(parent_id)
        seen.add(parent_id)
        parent = corpus.find(parent_id, faults, tolerant=True)
        if parent is None:
            break
        ancestors.append(parent)
        parent_id = parent.header.parent_session
    return ancestors, parent_id


def _descendants(
    corpus: Corpus, target: SessionRecord, faults: list[Fault], cancel: Cancel | None
) -> list[Descendant]:
    """Return the descendants in pre-order, walked with a stack of our own: chains are deep."""
    found: list[Descendant] = []
    seen = {target.header.id}
    pending: list[Descendant] = []
    parent, depth = target, 0
    while True:
        check_cancel(cancel)
        parent_id = parent.header.id
        children = corpus.children(parent_id, faults)
        pending += [Descendant(child, parent_id, depth + 1) for child in reversed(children)]
        if not pending:
            return found
        found.append(pending.pop())
        parent, depth = found[-1].record, found[-1].depth
        if parent.header.id in seen:
            raise _circle(parent.header.id)
        seen.add(parent.header.id)


def _circle(session_id: str) -> SessionQueryError:
    return SessionQueryError(
        Code.INVALID_LINEAGE, f"session {session_id!r} is its own ancestor", session_id
    )
