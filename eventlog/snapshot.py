"""
Snapshots: a log as of a length, the one form in which queries see live and stored sessions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol, TypeVar, runtime_checkable

from attrs import define

from eventlog.model import Event, EventClass, SessionHeader
from eventlog.surface_view import SurfaceView
from eventlog.tables import ViewTables
from eventlog.values import check_index

__all__ = ["ForwardedSnapshot", "LogSnapshot", "MeteredTables", "ScanMeter", "Snapshot"]


T = TypeVar("T")


@define
class ScanMeter:
    """
    What a store touched to answer, since the last :meth:`reset`.

    Attributes:
        records: Events and headers read from the medium.

        probes: Rows of ordered tables and positions of a file looked at on the way.

        names: File names listed.

        bytes: Bytes of all of these that were read.

    Counts of concurrent reads may be lost; measure with one reader.
    """

    records: int = 0
    probes: int = 0
    names: int = 0
    bytes: int = 0

    def reset(self) -> None:
        """Set every count to 0."""
        self.records = self.probes = self.names = self.bytes = 0


@runtime_checkable
class LogSnapshot(Protocol):
    """
    One session's log as of a length. A plain value: it holds nothing open and never goes
    stale; what is appended later does not show.

    Every method raises :class:`~eventlog.errors.InvalidArgument` for a seq or bound that
    is negative or no int, :class:`~eventlog.errors.CorruptLog` where it touches damage,
    :class:`~eventlog.errors.SessionNotFound` once the session is deleted and
    :class:`~eventlog.errors.StoreClosed` once its store is closed.
    """

    @property
    def header(self) -> SessionHeader:
        """The session's header."""

    @property
    def length(self) -> int:
        """How many events the snapshot knows of."""

    def read(self, start: int, stop: int) -> list[Event]:
        """
        Return the events of ``[start, stop)``, clipped to the log; [] where none is left.

        Cost: the events returned; on files also O(log n) probes.
        """

    def classify(self, seq: int) -> EventClass:
        """
        Return the class of one event. Cost: O(log n) rows, no payload.

        Raises:
            InvalidArgument: The snapshot has no event *seq*.

            InvalidSurface: The log's fold fails.
        """

    def replaced_by(self, start: int, stop: int) -> dict[int, int]:
        """
        Return the replacer of each shadowed event in ``[start, stop)``, ascending; events
        that nothing replaced are left out. Cost: O(log n + answer).

        Raises:
            InvalidSurface: The log's fold fails.
        """

    def replaced(self, seq: int) -> list[int]:
        """
        Return the nodes that *seq* replaced, in surface order; [] if it replaced none.

        Raises:
            InvalidArgument: The snapshot has no event *seq*.

            InvalidSurface: The log's fold fails.
        """

    def stand_in(self, seq: int) -> int | None:
        """
        Return the node that stands for *seq* on the surface: itself where it is current,
        the one that covers it where it was replaced, however often; None where it never
        was on the surface. Cost: O(log n) for the newest length.

        Raises:
            InvalidArgument: The snapshot has no event *seq*.

            InvalidSurface: The log's fold fails.
        """

    def nodes(self, *, after: int | None = None, limit: int | None = None) -> list[int]:
        """
        Return the surface in order.

        Args:
            after: A node; only those behind it are returned. None starts at the front.

            limit: At most so many; None is all.

        Cost: O(log n + answer) for the newest length; for an older one also the nodes
        that came later.

        Raises:
            InvalidArgument: *after* is no node of this surface.

            InvalidSurface: The log's fold fails.
        """

    def citing(self, seq: int) -> list[int]:
        """
        Return the events that cite *seq*, ascending; [] if none does.

        Raises:
            InvalidArgument: The snapshot has no event *seq*.

            InvalidSurface: The log's fold fails.
        """


class Snapshot(ABC):
    """
    A :class:`LogSnapshot` over any medium that can read events and has surface tables.

    A subclass says how to read, and how to hold its tables still for one call.
    """

    __slots__ = ("_header", "_length")

    def __init__(self, header: SessionHeader, length: int) -> None:
        self._header = header
        self._length = length

    @property
    def header(self) -> SessionHeader:
        return self._header

    @property
    def length(self) -> int:
        return self._length

    @abstractmethod
    def _check_open(self) -> None:
        """Refuse where the snapshot's store is closed."""

    @abstractmethod
    def _read(self, start: int, stop: int) -> list[Event]:
        """Return exactly the events of ``[start, stop)``, within the log and maybe empty."""

    @abstractmethod
    def _tables(self) -> AbstractContextManager[ViewTables]:
        """Hold the session's tables, folded to the snapshot's length or further."""

    def read(self, start: int, stop: int) -> list[Event]:
        self._check_open()
        start = check_index(start, "start")
        stop = min(check_index(stop, "stop"), self._length)
        return self._read(min(start, stop), stop)

    def classify(self, seq: int) -> EventClass:
        with self._tables() as tables:
            return SurfaceView(tables, self._length).classify(seq)

    def replaced_by(self, start: int, stop: int) -> dict[int, int]:
        with self._tables() as tables:
            return SurfaceView(tables, self._length).replaced_by(start, stop)

    def replaced(self, seq: int) -> list[int]:
        with self._tables() as tables:
            return SurfaceView(tables, self._length).replaced(seq)

    def stand_in(self, seq: int) -> int | None:
        with self._tables() as tables:
            return SurfaceView(tables, self._length).stand_in(seq)

    def nodes(self, *, after: int | None = None, limit: int | None = None) -> list[int]:
        with self._tables() as tables:
            return SurfaceView(tables, self._length).nodes(after=after, limit=limit)

    def citing(self, seq: int) -> list[int]:
        with self._tables() as tables:
            return SurfaceView(tables, self._length).citing(seq)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._header.id!r}, {self._length} events>"


class ForwardedSnapshot(ABC):
    """
    A snapshot that asks another one; a wrapper of a store says what comes before or after.

    Args:
        inner: The snapshot that answers.
    """

    __slots__ = ("_inner",)

    def __init__(self, inner: LogSnapshot) -> None:
        self._inner = inner

    @abstractmethod
    def _ask(self, kind: Literal["read", "surface"], call: Callable[[], T]) -> T:
        """Return what *call*, a read of events or of the surface, answers."""

    @property
    def header(self) -> SessionHeader:
        return self._inner.header

    @property
    def length(self) -> int:
        return self._inner.length

    def read(self, start: int, stop: int) -> list[Event]:
        return self._ask("read", lambda: self._inner.read(start, stop))

    def classify(self, seq: int) -> EventClass:
        return self._ask("surface", lambda: self._inner.classify(seq))

    def replaced_by(self, start: int, stop: int) -> dict[int, int]:
        return self._ask("surface", lambda: self._inner.replaced_by(start, stop))

    def replaced(self, seq: int) -> list[int]:
        return self._ask("surface", lambda: self._inner.replaced(seq))

    def stand_in(self, seq: int) -> int | None:
        return self._ask("surface", lambda: self._inner.stand_in(seq))

    def nodes(self, *, after: int | None = None, limit: int | None = None) -> list[int]:
        return self._ask("surface", lambda: self._inner.nodes(after=after, limit=limit))

    def citing(self, seq: int) -> list[int]:
        return self._ask("surface", lambda: self._inner.citing(seq))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._inner!r}>"


class MeteredTables:
    """Tables that count on *meter* every row that a reader gets from *base*."""

    __slots__ = ("_base", "_meter")

    def __init__(self, base: ViewTables, meter: ScanMeter) -> None:
        self._base = base
        self._meter = meter

    def node(self, label: int) -> int | None:
        self._meter.probes += 1
        return self._base.node(label)

    def floor(self, label: int) -> int | None:
        self._meter.probes += 1
        return self._base.floor(label)

    def walk(self, start: int) -> Iterator[tuple[int, int]]:
        for row in self._base.walk(start):
            self._meter.probes += 1
            yield row

    def label(self, seq: int) -> int | None:
        self._meter.probes += 1
        return self._base.label(seq)

    def replaced(self, seq: int) -> Sequence[int]:
        found = self._base.replaced(seq)
        self._meter.probes += max(1, len(found))
        return found

    def replaced_by(self, start: int, stop: int) -> dict[int, int]:
        found = self._base.replaced_by(start, stop)
        self._meter.probes += max(1, len(found))
        return found

    def citing(self, source: int) -> Sequence[int]:
        found = self._base.citing(source)
        self._meter.probes += max(1, len(found))
        return found
