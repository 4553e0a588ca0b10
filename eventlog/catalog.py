"""
The order of listings in memory: newest first, then by id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from sortedcontainers import SortedDict

from eventlog.model import HeadKey, SessionHead, SessionHeader

__all__ = ["Catalog"]


class Catalog:
    """
    Headers in listing order, all together and by parent. Not thread-safe: the owner locks.

    Its owner decides which sessions there are, and tells of a change by :meth:`changing`
    before and by :meth:`add` or :meth:`remove` behind it. An exception from outside, such
    as Ctrl-C, that strikes in between leaves the order to be made anew by the next read.

    Args:
        held: Gives the headers of all sessions that there are.
    """

    __slots__ = ("_held", "_order", "_torn")

    def __init__(self, held: Callable[[], Iterable[SessionHeader]]) -> None:
        self._held = held
        self._order = _Order()
        self._torn = False

    def changing(self) -> None:
        """Take note that a session comes or goes. Cost: O(1) unless the last one was torn."""
        self._mended()
        self._torn = True

    def add(self, header: SessionHeader) -> None:
        """Put *header* in its places. Cost: O(log n)."""
        order = self._order
        order.add(header)
        # A read in a signal handler may have put another in its place meanwhile.
        self._torn = self._order is not order

    def remove(self, header: SessionHeader) -> None:
        """Take away *header*; one that is not there is left alone. Cost: O(log n)."""
        order = self._order
        order.remove(header)
        self._torn = self._order is not order

    def ids(self, after: HeadKey | None, *, parent_id: str | None = None) -> Iterator[str]:
        """
        Yield session ids in listing order.

        Args:
            after: Only those behind this place; None starts with the newest.

            parent_id: Only children of this session; None is all sessions.

        Cost: O(log n) and what is taken.
        """
        places = self._mended().places(parent_id)
        if places is not None:
            start = None if after is None else after.sort_key
            for key in places.irange(start, None, (False, True)):
                yield places[key]

    def heads(
        self,
        after: HeadKey | None,
        limit: int,
        head: Callable[[str], SessionHead],
        *,
        parent_id: str | None = None,
    ) -> list[SessionHead]:
        """Return *limit* heads and one more, where there is one, for ``head_page``."""
        found: list[SessionHead] = []
        for session_id in self.ids(after, parent_id=parent_id):
            found.append(head(session_id))
            if len(found) > limit:
                break
        return found

    def _mended(self) -> _Order:
        order = self._order
        if self._torn:
            order = _Order()
            for header in self._held():
                order.add(header)
            self._order = order
            self._torn = False
        return order


Places: TypeAlias = "SortedDict[tuple[int, str], str]"


class _Order:
    """The ids of sessions by their places."""

    __slots__ = ("_children_of", "_newest")

    def __init__(self) -> None:
        self._newest: Places = SortedDict()
        self._children_of: dict[str, Places] = {}

    def places(self, parent_id: str | None) -> Places | None:
        return self._newest if parent_id is None else self._children_of.get(parent_id)

    def add(self, header: SessionHeader) -> None:
        key = HeadKey.from_header(header).sort_key
        self._newest[key] = header.id
        if header.parent_session is not None:
            self._children_of.setdefault(header.parent_session, SortedDict())[key] = header.id

    def remove(self, header: SessionHeader) -> None:
        key = HeadKey.from_header(header).sort_key
        self._newest.pop(key, None)
        siblings = self._children_of.get(header.parent_session or "")
        if siblings is not None:
            siblings.pop(key, None)
            if not siblings:
                del self._children_of[header.parent_session or ""]
