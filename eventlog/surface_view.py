"""
The surface as of a length, read from tables that may be ahead of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice

from eventlog.errors import InvalidArgument
from eventlog.model import EventClass
from eventlog.tables import ViewTables, label_of
from eventlog.values import SEQ_MAX, check_index, shown

__all__ = ["SurfaceView"]


class SurfaceView:
    """
    The surface of a log as of a length, read from tables that may be ahead of it.

    A later replacement only ever took nodes away and wrote down which, so an earlier
    surface is the later one with every later node expanded into what it replaced, or
    dropped where it was an append.

    Args:
        tables: The tables of the log, folded to *length* or further.

        length: How many events the view knows of.
    """

    __slots__ = ("_length", "_tables")

    def __init__(self, tables: ViewTables, length: int) -> None:
        self._tables = tables
        self._length = length

    def classify(self, seq: int) -> EventClass:
        """
        Return the class of one event. Cost: O(log n) rows, no payload.

        Raises:
            InvalidArgument: No event below the view's length has this seq.
        """
        self._check(seq)
        replacer = self._tables.replaced_by(seq, seq + 1).get(seq)
        if replacer is not None:
            return EventClass.SHADOWED if replacer < self._length else EventClass.CURRENT
        if self._tables.node(label_of(self._tables, seq)) == seq:
            return EventClass.CURRENT
        return EventClass.LOG_ONLY

    def replaced_by(self, start: int, stop: int) -> dict[int, int]:
        """
        Return the replacer of each shadowed event in ``[start, stop)``; others are left out.

        Cost: O(log n + answer).
        """
        start = check_index(start, "start")
        stop = min(check_index(stop, "stop"), self._length)
        if start >= stop:
            return {}
        found = self._tables.replaced_by(start, stop)
        return {seq: replacer for seq, replacer in found.items() if replacer < self._length}

    def replaced(self, seq: int) -> list[int]:
        """
        Return the nodes that *seq* replaced, in surface order; [] if it replaced none.

        Raises:
            InvalidArgument: No event below the view's length has this seq.
        """
        self._check(seq)
        return list(self._tables.replaced(seq))

    def citing(self, seq: int) -> list[int]:
        """
        Return the events that cite *seq*, ascending; [] if none does.

        Raises:
            InvalidArgument: No event below the view's length has this seq.
        """
        self._check(seq)
        found = [citer for citer in self._tables.citing(seq) if citer < self._length]
        # A replacement cites what it shadows; that row is not kept twice.
        replacer = self.replaced_by(seq, seq + 1).get(seq)
        if replacer is not None:
            found = sorted({*found, replacer})
        return found

    def stand_in(self, seq: int) -> int | None:
        """
        Return the node that stands for *seq* on the surface: itself where it is current,
        the one that covers it where it was replaced, however often; None where it never
        was on the surface.

        Cost: O(log n), whatever the length of the chain of replacements, on the newest
        length; on an older one also the nodes that later ones replaced.

        Raises:
            InvalidArgument: No event below the view's length has this seq.
        """
        event_class = self.classify(seq)
        if event_class is not EventClass.SHADOWED:
            return seq if event_class is EventClass.CURRENT else None
        label = label_of(self._tables, seq)
        # A replacement has the label of its first node and no node is left inside its
        # range, so the node before a label is the one that covers it.
        start = self._tables.floor(label)
        node = None if start is None else self._tables.node(start)
        while node is not None and node >= self._length:
            covered = self._tables.replaced(node)
            place = bisect_right(covered, label, key=lambda member: label_of(self._tables, member))
            node = covered[place - 1]
        return node

    def nodes(self, *, after: int | None = None, limit: int | None = None) -> list[int]:
        """
        Return the surface's nodes in order.

        Args:
            after: A node; only those behind it are returned. None starts at the front.

            limit: At most so many; None is all.

        Cost: O(log n + answer) on the newest length; on an older one also the nodes that
        came later.

        Raises:
            InvalidArgument: *after* is no node of this surface, or *limit* is negative.
        """
        if limit is not None:
            # No log is longer than that, and islice takes no more.
            limit = min(check_index(limit, "limit"), SEQ_MAX)
        behind = -1
        if after is not None:
            self._check(after, "after")
            if self.classify(after) is not EventClass.CURRENT:
                raise InvalidArgument("after", f"seq {after} is not on the surface")
            behind = label_of(self._tables, after)
        if limit == 0:
            return []
        return list(islice(self._from(behind), limit))

    def _from(self, behind: int) -> Iterator[int]:
        """Yield the nodes whose label is greater than *behind*, in order."""
        # The table may hold a later node that covers *behind* and more; start there.
        start = self._tables.floor(behind)
        for label, node in self._tables.walk(0 if start is None else start):
            if node >= self._length:
                yield from self._expanded(label, node, behind)
            elif label > behind:
                yield node

    def _expanded(self, label: int, node: int, behind: int) -> Iterator[int]:
        pending = [(label, node)]
        while pending:
            label, node = pending.pop()
            if node < self._length:
                if label > behind:
                    yield node
                continue
            covered = self._tables.replaced(node)
            if not covered:
                continue  # appended later
            labels = [label_of(self._tables, seq) for seq in covered]
            # The last member that starts at or before *behind* may reach beyond it.
            first = max(bisect_right(labels, behind) - 1, 0)
            pending += zip(reversed(labels[first:]), reversed(covered[first:]), strict=True)

    def _check(self, seq: int, name: str = "seq") -> None:
        if check_index(seq, name) >= self._length:
            raise InvalidArgument(name, f"no event {shown(seq)}; the log has {self._length} here")
