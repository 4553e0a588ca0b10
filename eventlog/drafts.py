"""
What a source builds a session with: entries, and the surface as they make it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from eventlog.model import APPEND, Replace, SessionHeader
from eventlog.sources import Entry
from eventlog.values import JSONValue

__all__ = ["DROPPED", "NodeOrder", "SessionDraft"]

DROPPED: Final = "import/dropped"
"""
The type of a node that stands for nodes which their source took back without putting
anything in their place that could stand there. It has no text and no message.
"""

# How much may wait for one entry to be completed.
HELD_ENTRIES_MAX: Final = 10_000
HELD_BYTES_MAX: Final = 8 << 20
TOOL_RESULT: Final = "tool/result"


class NodeOrder:
    """
    The nodes of a surface in order, where one takes the place of a stretch.

    Args:
        nodes: The nodes to begin with.

    Cost: O(log n) to find a node, and moving the rest of a list to replace some.
    """

    __slots__ = ("_labels", "_next", "_nodes", "_places")

    def __init__(self, nodes: Iterable[int] = ()) -> None:
        self._nodes = list(nodes)
        # Labels ascend along the surface; a replacement takes the label of its first node.
        self._labels = list(range(len(self._nodes)))
        self._places = dict(zip(self._nodes, self._labels, strict=True))
        self._next = len(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[int]:
        return iter(self._nodes)

    def __contains__(self, node: object) -> bool:
        return node in self._places

    def __getitem__(self, index: int) -> int:
        return self._nodes[index]

    def index(self, node: int) -> int:
        """Return where *node* stands, from 0. It must be on the surface."""
        return bisect_left(self._labels, self._places[node])

    def between(self, first: int, last: int) -> list[int]:
        """Return the nodes from *first* to *last*, inclusive; both must be on the surface."""
        return self._nodes[self.index(first) : self.index(last) + 1]

    def append(self, node: int) -> None:
        """Put *node* at the end."""
        self._nodes.append(node)
        self._labels.append(self._next)
        self._places[node] = self._next
        self._next += 1

    def replace(self, first: int, last: int, node: int) -> list[int]:
        """Put *node* in the place of those from *first* to *last*; returns these."""
        start, stop = self.index(first), self.index(last) + 1
        removed = self._nodes[start:stop]
        label = self._labels[start]
        self._nodes[start:stop] = [node]
        self._labels[start:stop] = [label]
        for gone in removed:
            del self._places[gone]
        self._places[node] = label
        return removed


class SessionDraft:
    """
    One session as a source tells it.

    A source adds entries; :meth:`take` hands on those that are final. Entries are named
    by their numbers.

    Args:
        header: The session's header.

    Attributes:
        header: The session's header.

        nodes: The surface after the entries so far.

        count: How many entries there are so far: the number of the next one.
    """

    def __init__(self, header: SessionHeader) -> None:
        self.header = header
        self.nodes = NodeOrder()
        self.count = 0
        self._pending: list[Entry] = []
        self._held: int | None = None
        self._held_bytes = 0
        self._cut: int | None = None

    def log(self, type: str, time: int, data: dict[str, JSONValue]) -> int:  # noqa: A002
        """Add an entry that never is on the surface; returns its number."""
        return self._add(Entry(self.header.id, type, time, data))

    def append(
        self,
        type: str,  # noqa: A002
        time: int,
        data: dict[str, JSONValue],
        *,
        cites: Sequence[int] = (),
    ) -> int:
        """
        Add an entry at the end of the surface; returns its number.

        After :meth:`cut_behind` it takes the place of what was cut off.
        """
        if self._cut is not None:
            start, self._cut = self._cut, None
            if start < len(self.nodes):
                first, last = self.nodes[start], self.nodes[-1]
                if type != TOOL_RESULT:
                    return self.replace(first, last, type, time, data, cites=cites)
                # A result cannot stand for a stretch.
                self.drop(first, last, time, data["origin"])
        self.nodes.append(self.count)
        return self._add(Entry(self.header.id, type, time, data, APPEND, tuple(cites)))

    def replace(
        self,
        first: int,
        last: int,
        type: str,  # noqa: A002
        time: int,
        data: dict[str, JSONValue],
        *,
        cites: Sequence[int] = (),
    ) -> int:
        """Add an entry in the place of the nodes from *first* to *last*; returns its number."""
        removed = self.nodes.between(first, last)
        shadowed = set(removed)
        cited = (*removed, *(number for number in cites if number not in shadowed))
        entry = Entry(self.header.id, type, time, data, Replace(first, last), cited)
        start = self.nodes.index(first)
        self.nodes.replace(first, last, self.count)
        if self._cut is not None and self._cut > start:
            # What is cut off begins so much earlier now; behind the newcomer at least.
            self._cut = max(self._cut - len(removed) + 1, start + 1)
        return self._add(entry)

    def rewrite_result(
        self,
        result: int,
        time: int,
        content: list[JSONValue],
        origin: dict[str, JSONValue],
        *,
        cites: Sequence[int] = (),
    ) -> int:
        """Give the ``tool/result`` *result*, a node, another content; returns the new number."""
        entry = Entry(
            self.header.id,
            TOOL_RESULT,
            time,
            {"origin": origin},
            Replace(result, result),
            (result, *cites),
            content,
        )
        self.nodes.replace(result, result, self.count)
        return self._add(entry)

    def drop(self, first: int, last: int, time: int, origin: dict[str, JSONValue]) -> int:
        """Take the nodes from *first* to *last* away; returns the number of what marks them."""
        marked = {**origin, "key": f"{origin['key']}#dropped"}
        marked.pop("fields", None)
        return self.replace(first, last, DROPPED, time, {"origin": marked})

    def cut_behind(self, node: int | None) -> None:
        """
        Cut off what stands behind *node*, as a rewind does; None cuts off everything.

        The surface changes with the next entry that is appended; until one is, nothing
        takes the place of what was cut off, and it stays. The shortest of several cuts
        holds.
        """
        start = 0 if node is None else self.nodes.index(node) + 1
        if self._cut is None or start < self._cut:
            self._cut = start

    @property
    def kept_nodes(self) -> int:
        """How many nodes, from the front, a pending cut leaves; all without one."""
        return len(self.nodes) if self._cut is None else min(self._cut, len(self.nodes))

    def hold(self, number: int) -> None:
        """
        Hand on neither entry *number* nor what comes after it: its data is to be completed.

        Held is held until :meth:`release`, or until ten thousand entries, or 8 MiB of
        records, wait: then *held* is None again.
        """
        self._held = number
        self._held_bytes = 0

    def weigh(self, size_bytes: int) -> None:
        """Say that a record of this size was read, so that what is held stays bounded."""
        self._held_bytes += size_bytes

    def release(self) -> None:
        """Hand everything on again."""
        self._held = None

    @property
    def held(self) -> int | None:
        """The entry that is held, None where none is."""
        return self._held

    def take(self) -> list[Entry]:
        """Return the entries that are final and were not taken yet, and forget them."""
        if self._held is None:
            taken, self._pending = self._pending, []
            return taken
        waiting = self.count - self._held
        if waiting > HELD_ENTRIES_MAX or self._held_bytes > HELD_BYTES_MAX:
            self._held = None
            return self.take()
        stop = len(self._pending) - waiting
        taken = self._pending[:stop]
        if taken:
            del self._pending[:stop]
        return taken

    def _add(self, entry: Entry) -> int:
        self._pending.append(entry)
        self.count += 1
        return self.count - 1
