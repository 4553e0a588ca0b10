"""
Where the call that is running begins: from there on, the model's search finds nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from eventlog.values import is_seq, shown

from .corpus import Corpus
from .corpus_snapshot import CorpusSnapshot
from .errors import Code, SessionQueryError
from .search.writing import event_digest

__all__ = ["BeforeSeq", "CallBound"]

BeforeSeq: TypeAlias = int | Callable[[], int | None] | None

STEP_EVENTS: Final = 128


class CallBound:
    """
    The seq from which on nothing of the own session is found.

    Args:
        session_id: The own session.

        before_seq: What the host says: a seq, a callable that is asked each time, or None
            for the step that is open then.
    """

    def __init__(self, session_id: str, before_seq: BeforeSeq) -> None:
        self._session_id = session_id
        self._before_seq = before_seq
        # The last event of the log that was looked through last, and what came of it.
        self._seen: tuple[int, bytes, int | None] | None = None

    def seq(self, corpus: Corpus) -> int | None:
        """
        Return the seq, None where there is no bound.

        Cost: the events of the last step, or those since the last call where they are fewer.

        Raises:
            SessionQueryError: INVALID_CONFIG: the host's callable gives no seq;
                PERSISTENCE_FAILED, SOURCE_CONFLICT.
        """
        if self._before_seq is None:
            return self._running(corpus)
        value = self._before_seq() if callable(self._before_seq) else self._before_seq
        if value is not None and not is_seq(value):
            raise SessionQueryError(
                Code.INVALID_CONFIG, f"before_seq gives a seq or None, not {shown(value)}"
            )
        return value

    def _running(self, corpus: Corpus) -> int | None:
        try:
            return self._open_step(corpus.snapshot(self._session_id))
        except SessionQueryError as error:
            if error.code not in (Code.CORRUPT_SESSION, Code.SESSION_NOT_FOUND):
                raise
            # Only a stored log is damaged, and then nothing is running in it.
            return None

    def _open_step(self, log: CorpusSnapshot) -> int | None:
        """Return the seq of the step that is open at the end of a log, None where none is."""
        found = self._last_open(log)
        if log.length:
            (last,) = log.read(log.length - 1, log.length)
            self._seen = last.seq, event_digest(last), found
        return found

    def _last_open(self, log: CorpusSnapshot) -> int | None:
        seen = self._seen
        for stop in range(log.length, 0, -STEP_EVENTS):
            for event in reversed(log.read(max(0, stop - STEP_EVENTS), stop)):
                if event.type == "step/start":
                    return event.seq
                if event.type in ("step/end", "turn/start", "turn/end"):
                    return None
                if seen and event.seq == seen[0] and event_digest(event) == seen[1]:
                    return seen[2]
        return None
