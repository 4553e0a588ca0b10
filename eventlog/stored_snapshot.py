"""
The snapshot of a store without tables of its own.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from eventlog.model import Event, SessionHead
from eventlog.snapshot import Snapshot
from eventlog.tables import ViewTables

if TYPE_CHECKING:
    from eventlog.store import EventStore

__all__ = ["StoredSnapshot"]


class StoredSnapshot(Snapshot):
    """
    A session of a store without tables of its own: it is folded in memory, once a
    process and log, then only its tail.
    """

    __slots__ = ("_head", "_store")

    def __init__(self, store: EventStore, head: SessionHead, length: int) -> None:
        super().__init__(head.header, length)
        self._store = store
        self._head = head

    def _check_open(self) -> None:
        self._store._check_open()

    def _read(self, start: int, stop: int) -> list[Event]:
        return self._store._read_events(self._head, start, stop)

    def _tables(self) -> AbstractContextManager[ViewTables]:
        return self._store._folded(self._head, self._length)
