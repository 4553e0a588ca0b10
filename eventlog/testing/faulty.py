"""
A store that fails on purpose, once its countdown has run out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from threading import Lock
from typing import Literal, NoReturn, TypeVar

from eventlog.admission import checked_batches
from eventlog.errors import EventLogError
from eventlog.findings import Finding, Gap
from eventlog.model import Batch, Event, HeadKey, HeadPage, SessionHead, SessionHeader
from eventlog.snapshot import ForwardedSnapshot, LogSnapshot
from eventlog.store import ChangeSet, EventStore

__all__ = ["CALLS", "WRITE_CALLS", "FaultyStore"]

T = TypeVar("T")

WRITE_CALLS = frozenset({"append", "delete"})
"""The kinds of call that write. Each batch of ``append_many`` is an ``append``."""

CALLS = WRITE_CALLS | {"head", "heads", "children", "changes", "snapshot", "read", "surface"}
"""
All kinds of call. ``read`` is that of a snapshot, ``surface`` any other of its methods.
"""


class FaultyStore(EventStore):
    """
    Pass every call on to *inner*, except those that the countdown names.

    It is a store like every other: capabilities, meter, place and answers are those of
    *inner*, and closing it closes *inner*.

    Args:
        inner: The store behind it.

        error: What a failing call raises, a fresh copy each time. An
            :class:`~eventlog.EventLogError` in ``append_many`` is the answer to its
            batch, as it would be of any store.

        at: The number of the first call that fails, counted from 1 over all *calls*.

        times: How many calls in a row fail from there on; None is every one.

        when: ``"before"``: *inner* never hears of the call. ``"after"``: *inner* has
            done it, and the answer is lost.

        calls: The kinds of call that count, of :data:`CALLS`; :data:`WRITE_CALLS` by
            default.

    Attributes:
        counted: How many calls of these kinds there were.

        raised: How many of them have failed.
    """

    def __init__(
        self,
        inner: EventStore,
        error: BaseException,
        *,
        at: int = 1,
        times: int | None = 1,
        when: Literal["before", "after"] = "before",
        calls: Collection[str] = WRITE_CALLS,
    ) -> None:
        super().__init__(inner.location, read_only=inner.read_only)
        unknown = set(calls) - CALLS
        if unknown:
            raise ValueError(f"no kinds of call: {', '.join(sorted(unknown))}")
        self.capabilities = inner.capabilities
        self.meter = inner.meter
        self.counted = 0
        self.raised = 0
        self._inner = inner
        self._error = error
        self._at = at
        self._times = times
        self._when = when
        self._calls = frozenset(calls)
        self._counting = Lock()

    def append(self, header: SessionHeader, events: Sequence[Event]) -> int:
        self._check_writable()
        return self._passed("append", lambda: self._inner.append(header, events))

    def append_many(self, batches: Sequence[Batch]) -> list[int | EventLogError]:
        self._check_writable()
        batches = checked_batches(batches)
        failing = [self._fails("append") for _ in batches]
        if any(failing) and not isinstance(self._error, EventLogError):
            if self._when == "after":
                self._inner.append_many(batches)
            raise copy.copy(self._error)
        heard = [
            batch
            for batch, fails in zip(batches, failing, strict=True)
            if not fails or self._when == "after"
        ]
        answers = iter(self._inner.append_many(heard))
        results: list[int | EventLogError] = []
        for fails in failing:
            answer = next(answers) if not fails or self._when == "after" else 0
            if fails:
                assert isinstance(self._error, EventLogError)
                answer = copy.copy(self._error)
            results.append(answer)
        return results

    def snapshot(self, session_id: str, *, at: int | None = None) -> LogSnapshot:
        self._check_open()
        found = self._passed("snapshot", lambda: self._inner.snapshot(session_id, at=at))
        return _FaultySnapshot(self, found)

    def close(self) -> None:
        super().close()
        self._inner.close()

    def _head(self, session_id: str) -> SessionHead | None:
        return self._passed("head", lambda: self._inner.head(session_id))

    def _heads(self, after: HeadKey | None, limit: int) -> HeadPage:
        return self._passed("heads", lambda: self._inner.heads(after=after, limit=limit))

    def _children(self, parent_id: str, after: HeadKey | None, limit: int) -> HeadPage:
        return self._passed(
            "children", lambda: self._inner.children(parent_id, after=after, limit=limit)
        )

    def _changes(self, since: str | None) -> ChangeSet:
        return self._passed("changes", lambda: self._inner.changes(since))

    def _delete(self, session_id: str, forget: bool) -> bool:
        return self._passed("delete", lambda: self._inner.delete(session_id, forget=forget))

    def _place(self) -> Hashable:
        return self._inner._place()

    def _verify(self) -> Iterator[Finding]:
        return self._inner.verify()

    def _repair(self, dry_run: bool) -> list[Finding]:
        return self._inner.repair(dry_run=dry_run)

    def _archive(self, session_id: str) -> bool:
        return self._inner.archive(session_id)

    def _salvage(self, session_id: str) -> Iterator[Event | Gap]:
        return self._inner.salvage(session_id)

    def _passed(self, kind: str, call: Callable[[], T]) -> T:
        fails = self._fails(kind)
        if fails and self._when == "before":
            raise copy.copy(self._error)
        answer = call()
        if fails:
            raise copy.copy(self._error)
        return answer

    def _fails(self, kind: str) -> bool:
        """Count a call, and tell whether it is one that fails."""
        if kind not in self._calls:
            return False
        with self._counting:
            self.counted += 1
            past = self.counted - self._at
            fails = past >= 0 and (self._times is None or past < self._times)
            self.raised += fails
        return fails

    # Never reached: the calls above go to the inner store.

    def _writing(self, session_id: str) -> NoReturn:
        raise NotImplementedError

    def _read_events(self, head: SessionHead, start: int, stop: int) -> NoReturn:
        raise NotImplementedError


class _FaultySnapshot(ForwardedSnapshot):
    """A snapshot of the inner store, each call of which counts."""

    __slots__ = ("_store",)

    def __init__(self, store: FaultyStore, inner: LogSnapshot) -> None:
        super().__init__(inner)
        self._store = store

    def _ask(self, kind: Literal["read", "surface"], call: Callable[[], T]) -> T:
        return self._store._passed(kind, call)
