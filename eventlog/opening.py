"""
Opening a store by its URL, and the wrapper that refuses writes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal, NoReturn, TypeVar
from urllib.parse import parse_qsl

from eventlog.errors import EventLogError, InvalidArgument, StoreReadOnly, StoreUnavailable
from eventlog.findings import Finding, Gap
from eventlog.model import Event, HeadKey, HeadPage, SessionHead
from eventlog.snapshot import ForwardedSnapshot, LogSnapshot
from eventlog.store import ChangeSet, EventStore
from eventlog.values import check_flag, shown

__all__ = ["ReadOnlyStore", "local_path", "open_store"]

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
            driver does not know; its driver cannot be loaded, or several are installed
            for it; or *read_only* is no bool.

        MissingExtra: The driver needs packages that are not installed.

        StoreUnavailable: The medium cannot be reached, or no driver is found at all.
    """
    if type(url) is not str:
        raise InvalidArgument("url", f"must be a str, not {type(url).__name__}")
    scheme, colon, rest = url.partition(":")
    points = entry_points(group=DRIVERS_GROUP)
    # An editable installation may be listed twice.
    drivers = {point.value: point for point in points if point.name == scheme}
    if not points:
        # Python passes over what it may not open, or cannot while no file can be opened.
        reason = "no drivers are found: it is not installed, or its files cannot be opened"
        raise StoreUnavailable("agent-eventlog", reason)
    if not colon or not drivers:
        known = ", ".join(f"{name}:" for name in sorted({point.name for point in points}))
        # No more of the URL, here and below: it may hold a password.
        found = f"not {scheme!r:.80}" if colon else "and has no scheme"
        raise InvalidArgument("url", f"must start with one of {known}, {found}")
    check_flag(read_only, "read_only")
    path, _, query = rest.partition("?")
    store = _loaded(scheme, drivers)(path, _options(query), read_only=read_only)
    if not isinstance(store, EventStore):
        raise InvalidArgument("url", f"the driver {scheme!r} gave a {type(store).__name__}")
    return store


def _loaded(scheme: str, drivers: Mapping[str, EntryPoint]) -> Callable[..., object]:
    """Return the one driver that is installed for a scheme."""
    (name, point), *others = sorted(drivers.items())
    if others:
        several = " and ".join(repr(name) for name in sorted(drivers))
        raise InvalidArgument("url", f"the scheme {scheme!r} has several drivers: {several}")
    try:
        loaded: Callable[..., object] = point.load()
    except EventLogError:
        raise
    except Exception as error:
        reason = f"the driver {name!r} cannot be loaded: {shown(error, 200)}"
        raise InvalidArgument("url", reason) from error
    return loaded


def local_path(path: str | os.PathLike[str]) -> str:
    """
    Return the absolute path that a user means, for drivers that keep files: ``~`` expands,
    and what is relative is so to the current directory.

    Raises:
        InvalidArgument: *path* is empty, or no file can have it.
    """
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if type(text) is not str:
        raise InvalidArgument("path", f"must be a str or a path, not {type(path).__name__}")
    if not text:
        raise InvalidArgument("path", "must name a folder")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise InvalidArgument("path", f"is no path of this system: {text!r:.80}") from None
    if "\0" in text:
        raise InvalidArgument("path", f"holds a NUL: {text!r:.80}")
    return os.path.abspath(os.path.expanduser(text))


def _options(query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise InvalidArgument("url", "must have its options as NAME=VALUE&NAME=VALUE") from None
    options = dict(pairs)
    if len(options) != len(pairs):
        raise InvalidArgument("url", "has an option twice")
    return options


class ReadOnlyStore(EventStore):
    """
    A store that reads from *inner* and refuses every write.

    Closing it does not close *inner*. The meter is that of *inner*.

    Raises:
        InvalidArgument: *inner* is no store.
    """

    def __init__(self, inner: EventStore) -> None:
        if not isinstance(inner, EventStore):
            raise InvalidArgument("inner", f"must be an EventStore, not {type(inner).__name__}")
        super().__init__(inner.location, read_only=True)
        self._inner = inner
        self.capabilities = inner.capabilities
        self.meter = inner.meter

    def __reduce__(self) -> tuple[Any, ...]:
        return ReadOnlyStore, (self._inner,)

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

    def _place(self) -> Hashable:
        return self._inner._place()

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
