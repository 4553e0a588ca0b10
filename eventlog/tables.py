"""
The ordered tables that the surface fold reads and writes.

Four small tables for a session: *nodes* (label → node, in label order), *replacements*
(seq → its label and the nodes that it shadowed), *replaced by* (node → replacement), and
*citations* (source → citing events). All but *nodes* are written once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from sortedcontainers import SortedDict, SortedList

__all__ = ["FoldTables", "MemoryTables", "OverlayTables", "ViewTables", "label_of"]


class FoldTables(Protocol):
    """What :func:`~eventlog.surface.plan` and ``apply`` need. Labels and seqs are ints from 0."""

    def node(self, label: int) -> int | None:
        """Return the node at exactly *label*, None where there is none."""

    def span(self, first: int, last: int) -> list[tuple[int, int]]:
        """Return (label, node) with *first* ≤ label ≤ *last*, ascending."""

    def label(self, seq: int) -> int | None:
        """Return the label of the replacement *seq*, None where it is none."""

    def put_node(self, label: int, seq: int) -> None:
        """Put the node *seq* at *label*; one that stands there is overwritten."""

    def drop_node(self, label: int) -> None:
        """Take away the node at *label*, which is there."""

    def put_replacement(self, seq: int, label: int, shadowed: Sequence[int]) -> None:
        """Write the replacement *seq*. Once."""

    def put_replaced_by(self, node: int, seq: int) -> None:
        """Write that *seq* replaced *node*. Once."""

    def put_citation(self, source: int, seq: int) -> None:
        """Write that *seq* cites *source*. Once; *seq* ascends from call to call."""


class ViewTables(Protocol):
    """What :class:`~eventlog.surface.SurfaceView` reads."""

    def node(self, label: int) -> int | None:
        """Return the node at exactly *label*, None where there is none."""

    def label(self, seq: int) -> int | None:
        """Return the label of the replacement *seq*, None where it is none."""

    def floor(self, label: int) -> int | None:
        """Return the greatest label with a node at or before *label*, None where there is none."""

    def walk(self, start: int) -> Iterator[tuple[int, int]]:
        """Yield (label, node) from *start* on, ascending. Stop reading when the caller does."""

    def replaced(self, seq: int) -> Sequence[int]:
        """Return what the replacement *seq* shadowed, in surface order; empty where it is none."""

    def replaced_by(self, start: int, stop: int) -> dict[int, int]:
        """Return the replacement of each shadowed node in ``[start, stop)``, ascending."""

    def citing(self, source: int) -> Sequence[int]:
        """Return the events that cite *source* without shadowing it, ascending."""


def label_of(tables: FoldTables | ViewTables, seq: int) -> int:
    """The label that *seq* has, or would have as an appended node."""
    label = tables.label(seq)
    return seq if label is None else label


class MemoryTables:
    """
    The tables in memory. Not thread-safe: the owner locks.

    Cost: O(log n) for each call, beside what it returns.
    """

    __slots__ = ("_citing", "_labels", "_nodes", "_replaced", "_replaced_by")

    def __init__(self) -> None:
        self._nodes: SortedDict[int, int] = SortedDict()
        self._labels: dict[int, int] = {}
        self._replaced: dict[int, tuple[int, ...]] = {}
        self._replaced_by: dict[int, int] = {}
        self._citing: dict[int, list[int]] = {}

    @classmethod
    def from_rows(
        cls,
        nodes: Mapping[int, int],
        replaced: Mapping[int, tuple[int, tuple[int, ...]]],
        citing: dict[int, list[int]],
    ) -> MemoryTables:
        """
        Build the tables of a log from their rows, taking them over.

        Args:
            nodes: The nodes by label, in any order.

            replaced: The label and the shadowed nodes of each replacement, by seq.

            citing: The ascending citing events by source, without what they shadow.

        Cost: O(rows · log rows), and O(rows) where nodes are in label order.
        """
        tables = cls()
        tables._nodes = SortedDict(nodes)
        for seq, (label, shadowed) in replaced.items():
            tables._labels[seq] = label
            tables._replaced[seq] = shadowed
            tables._replaced_by.update(dict.fromkeys(shadowed, seq))
        tables._citing = citing
        return tables

    @property
    def replacements(self) -> int:
        """How many replacements were written."""
        return len(self._replaced)

    def node(self, label: int) -> int | None:
        found: int | None = self._nodes.get(label)
        return found

    def floor(self, label: int) -> int | None:
        place = self._nodes.bisect_right(label)
        return self._nodes.peekitem(place - 1)[0] if place else None

    def walk(self, start: int) -> Iterator[tuple[int, int]]:
        nodes = self._nodes
        return ((label, nodes[label]) for label in nodes.irange(start))

    def span(self, first: int, last: int) -> list[tuple[int, int]]:
        nodes = self._nodes
        return [(label, nodes[label]) for label in nodes.irange(first, last)]

    def label(self, seq: int) -> int | None:
        return self._labels.get(seq)

    def replaced(self, seq: int) -> Sequence[int]:
        return self._replaced.get(seq, ())

    def replaced_by(self, start: int, stop: int) -> dict[int, int]:
        found = self._replaced_by
        if stop - start > len(found):
            return {seq: found[seq] for seq in sorted(found) if start <= seq < stop}
        return {seq: found[seq] for seq in range(start, stop) if seq in found}

    def citing(self, source: int) -> Sequence[int]:
        return self._citing.get(source, ())

    def put_node(self, label: int, seq: int) -> None:
        self._nodes[label] = seq

    def drop_node(self, label: int) -> None:
        del self._nodes[label]

    def put_replacement(self, seq: int, label: int, shadowed: Sequence[int]) -> None:
        self._labels[seq] = label
        self._replaced[seq] = tuple(shadowed)

    def put_replaced_by(self, node: int, seq: int) -> None:
        self._replaced_by[node] = seq

    def put_citation(self, source: int, seq: int) -> None:
        self._citing.setdefault(source, []).append(seq)

    def replacement_rows(self) -> Iterator[tuple[int, int, Sequence[int]]]:
        """Yield (seq, label, shadowed) of each replacement, by seq."""
        for seq in sorted(self._replaced):
            yield seq, self._labels[seq], self._replaced[seq]

    def shadowed_rows(self) -> Iterator[tuple[int, int]]:
        """Yield (shadowed node, its replacer), by node."""
        for node in sorted(self._replaced_by):
            yield node, self._replaced_by[node]

    def citation_rows(self) -> Iterator[tuple[int, int]]:
        """Yield (source, citing event), ascending."""
        for source in sorted(self._citing):
            for citing in sorted(self._citing[source]):
                yield source, citing

    def as_of(self, length: int) -> MemoryTables:
        """
        Return a copy as it was when the log had *length* events.

        Cost: O(rows), without judging any event again.
        """
        copy = MemoryTables()
        copy._labels = {seq: label for seq, label in self._labels.items() if seq < length}
        copy._replaced = {seq: nodes for seq, nodes in self._replaced.items() if seq < length}
        copy._replaced_by = {
            node: replacer for node, replacer in self._replaced_by.items() if replacer < length
        }
        for source, citing in self._citing.items():
            earlier = citing[: bisect_left(citing, length)]
            if earlier:
                copy._citing[source] = earlier
        nodes: dict[int, int] = {}
        pending = list(self._nodes.items())
        while pending:
            label, node = pending.pop()
            if node < length:
                nodes[label] = node
            else:  # back into what it replaced; nothing, where it was an append
                covered = self._replaced.get(node, ())
                pending += [(self._labels.get(seq, seq), seq) for seq in covered]
        copy._nodes = SortedDict(nodes)
        return copy

    def __repr__(self) -> str:
        return f"<MemoryTables of {len(self._nodes)} nodes, {len(self._replaced)} replacements>"


class OverlayTables:
    """
    Fold tables that read through to *base* and keep what is written to themselves.

    A batch is folded into an overlay first, so that a refused one has changed nothing.
    Only what judging reads is kept.
    """

    __slots__ = ("_base", "_dropped", "_labels", "_nodes", "_order")

    def __init__(self, base: FoldTables) -> None:
        self._base = base
        self._nodes: dict[int, int] = {}
        # The labels in order, from the first span on: most batches replace nothing.
        self._order: SortedList[int] | None = None
        self._dropped: set[int] = set()
        self._labels: dict[int, int] = {}

    def node(self, label: int) -> int | None:
        found = self._nodes.get(label)
        if found is None and label not in self._dropped:
            return self._base.node(label)
        return found

    def span(self, first: int, last: int) -> list[tuple[int, int]]:
        merged = {
            label: node
            for label, node in self._base.span(first, last)
            if label not in self._dropped
        }
        if self._order is None:
            self._order = SortedList(self._nodes)
        merged.update((label, self._nodes[label]) for label in self._order.irange(first, last))
        return sorted(merged.items())

    def label(self, seq: int) -> int | None:
        found = self._labels.get(seq)
        return self._base.label(seq) if found is None else found

    def put_node(self, label: int, seq: int) -> None:
        if self._order is not None and label not in self._nodes:
            self._order.add(label)
        self._nodes[label] = seq

    def drop_node(self, label: int) -> None:
        if self._nodes.pop(label, None) is not None and self._order is not None:
            self._order.remove(label)
        self._dropped.add(label)

    def put_replacement(self, seq: int, label: int, shadowed: Sequence[int]) -> None:
        self._labels[seq] = label

    def put_replaced_by(self, node: int, seq: int) -> None:
        pass

    def put_citation(self, source: int, seq: int) -> None:
        pass
