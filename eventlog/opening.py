"""
Opening a store by its URL, and the wrapper that refuses writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Literal, NoReturn, TypeVar
from urllib.parse import parse_qsl

from eventlog.errors import InvalidArgument, StoreReadOnly
from eventlog.findings import Finding, Gap
from eventlog.model import Event, HeadKey, HeadPage, SessionHead
from eventlog.snapshot import ForwardedSnapshot, LogSnapshot
from eventlog.store import ChangeSet, EventStore

__all__ = ["ReadOnlyStore", "open_store"]

T = TypeVar("T")

DRIVERS_GROUP = "eventlog.drivers"


def open_store(url: str, *, read_only: bool = False) -> EventStore:
    """
    Open the store that *url* names.

    Nothing is created before the first append; a path where nothing is yet is an empty
    store.

    Args:
        url: ``SCHEME:PATH?OPTION=VALUE&…``, such as ``memory:``, ``lmdb:~/agent`` or
            ``jsonl:logs``. ``~`` expands. A scheme is the name of an entry point in the
            group ``eventlog.drivers``.

        read_only: Refuse writes; read-only media and foreign owners work.

    Raises:
        InvalidArgument: The URL has no scheme, an unknown one, or an option that the
            driver does not know.

        MissingExtra: The driver needs packages that are not installed.

        StoreUnavailable: The medium cannot be reached.
    """
    if type(url) is not str:
        raise InvalidArgument("url", f"must be a str, not {type(url).__name__}")
    scheme, colon, rest = url.partition(":")
    drivers = {point.name: point for point in entry_points(group=DRIVERS_GROUP)}
    if not colon or scheme not in drivers:
        known = ", ".join(f"{name}:" for name in sorted(drivers))
        raise InvalidArgument("url", f"must start with one of {known}, not {url!r:.80}")
    path, _, query = rest.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    store = drivers[scheme].load()(path, options, read_only=read_only)
    if not isinstance(store, EventStore):
        raise InvalidArgument("url", f"the driver {scheme!r} gave a {type(store).__name__}")
    return store


class ReadOnlyStore(EventStore):
    """
    A store that reads from *inner* and refuses every write.

    Closing it does not close *inner*. The meter is that of *inner*.
    """

    def __init__(self, inner: EventStore) -> None:
        super().__init__(inner.location, read_only=True)
        self._inner = inner
        self.capabilities = inner.capabilities
        self.meter = inner.meter

    def snapshot(self, session_id: str, *, at: int | None = None) -> LogSnapshot:
        self._check_open()
        return _ReadOnlySnapshot(self, self._inner.snapshot(session_id, at=at))

    def _head(self, session_id: str) -> SessionHead | None:
        return self._inner.head(session_id)

    def _heads(self, after: HeadKey | None, limit: int) -> HeadPage:
        return self._inner.heads(after=after, limit=limit)

    def _children(self, parent_id: str, after: HeadKey | None, limit: int) -> HeadPage:
        return self._inner.children(parent_id, after=after, limit=limit)

    def _changes(self, since: str | None) -> ChangeSet:
        return self._inner.changes(since)

    def _read_events(self, head: SessionHead, start: int, stop: int) -> list[Event]:
        return self._inner.snapshot(head.header.id, at=head.length).read(start, stop)

    def _verify(self) -> Iterator[Finding]:
        return self._inner.verify()

    def _repair(self, dry_run: bool) -> list[Finding]:
        return self._inner.repair(dry_run=True)  # the base class refused all else

    def _salvage(self, session_id: str) -> Iterator[Event | Gap]:
        return self._inner.salvage(session_id)

    # Never reached: the base class refuses before.

    def _writing(self, session_id: str) -> NoReturn:
        raise StoreReadOnly(self.location)

    def _delete(self, session_id: str, forget: bool) -> NoReturn:
        raise StoreReadOnly(self.location)


class _ReadOnlySnapshot(ForwardedSnapshot):
    """A snapshot of the inner store that ends with the wrapper, too."""

    __slots__ = ("_store",)

    def __init__(self, store: ReadOnlyStore, inner: LogSnapshot) -> None:
        super().__init__(inner)
        self._store = store

    def _ask(self, kind: Literal["read", "surface"], call: Callable[[], T]) -> T:
        self._store._check_open()
        return call()
