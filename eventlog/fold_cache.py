"""
Surface tables in memory for stores that have none on their medium.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import RLock

from eventlog.errors import InvalidSurface
from eventlog.locks import is_own, unowned
from eventlog.model import Event
from eventlog.surface import Step, apply, plan
from eventlog.tables import MemoryTables

__all__ = ["FoldCache"]

SESSIONS_MAX = 256
CHUNK_EVENTS = 1024

ReadEvents = Callable[[int, int], Iterable[Event]]


class FoldCache:
    """
    The folds of the logs read lately: one pass over a log, then only over its tail.

    Args:
        sessions_max: How many folds are kept; the one unused for longest goes first.
    """

    def __init__(self, *, sessions_max: int = SESSIONS_MAX) -> None:
        self._sessions_max = sessions_max
        self._folds: OrderedDict[Hashable, _Fold] = OrderedDict()
        self._lock = RLock()

    @contextmanager
    def tables(
        self, log: Hashable, length: int, read: ReadEvents, *, scan: ReadEvents | None = None
    ) -> Iterator[MemoryTables]:
        """
        Hold the tables of a log, folded to *length* or further.

        Args:
            log: What tells this log from every other one.

            length: How many events the caller knows of.

            read: Reads ``[start, stop)`` of the log.

            scan: Reads the same for folding: its events may lack their data, and those
                that :func:`~eventlog.surface.is_inert` may be left out. Defaults to
                *read*.

        Cost: O(k log n) for the k events not folded yet.

        Raises:
            InvalidSurface: An event below *length* is refused by the fold.

            StoreBusy: A signal handler asks in the midst of a call of its own thread.
        """
        with self._lock:
            fold = self._folds.get(log)
            if fold is None:
                fold = self._folds[log] = _Fold()
            self._folds.move_to_end(log)
            while len(self._folds) > self._sessions_max:
                self._folds.popitem(last=False)
        if is_own(fold.lock) and not fold.has(length):
            unowned(fold.lock)
        with fold.lock:
            fold.catch_up(length, read, scan or read)
            yield fold.tables

    def extend(self, log: Hashable, start: int, steps: Sequence[Step]) -> None:
        """
        Take over the steps of events that the caller has just stored from *start* on.

        A fold that is elsewhere is left to catch up by itself. Null case: none is kept.
        """
        with self._lock:
            fold = self._folds.get(log)
        if fold is not None:
            with fold.lock:
                if fold.length == start and fold.refused is None and not fold.torn:
                    fold.torn = True
                    for step in steps:
                        apply(fold.tables, step)
                    fold.length += len(steps)
                    fold.torn = False

    def forget(self, log: Hashable) -> None:
        """Drop the fold of a log that is gone or was replaced. Null case: none is kept."""
        with self._lock:
            self._folds.pop(log, None)


class _Fold:
    """One log's tables and how far they are; a refused event stops them for good."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.tables = MemoryTables()
        self.length = 0
        self.refused: InvalidSurface | None = None
        # True while a step may be half applied: an exception from outside, such as Ctrl-C,
        # then leaves the log to be folded anew.
        self.torn = False

    def has(self, length: int) -> bool:
        """Tell whether nothing is left to be folded below *length*."""
        return not self.torn and (self.length >= length or self.refused is not None)

    def catch_up(self, length: int, read: ReadEvents, scan: ReadEvents) -> None:
        if self.torn:
            self.tables, self.length, self.refused, self.torn = MemoryTables(), 0, None, False
        while self.length < length and self.refused is None:
            stop = min(self.length + CHUNK_EVENTS, length)
            for event in scan(self.length, stop):
                try:
                    step = plan(self.tables, event, lambda seq: next(iter(read(seq, seq + 1))))
                except InvalidSurface as error:
                    self.refused, self.length = error, event.seq
                    break
                self.torn = True
                apply(self.tables, step)
                self.length = event.seq + 1
                self.torn = False
            else:
                self.length = stop
        if self.refused is not None and self.length < length:
            raise InvalidSurface(self.refused.seq, self.refused.reason)
