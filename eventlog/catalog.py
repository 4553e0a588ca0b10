"""
The order of listings in memory: newest first, then by id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sortedcontainers import SortedDict

from eventlog.model import HeadKey, SessionHead, SessionHeader

__all__ = ["Catalog"]


class Catalog:
    """
    Headers in listing order, all together and by parent. Not thread-safe: the owner locks.
    """

    __slots__ = ("_children_of", "_newest")

    def __init__(self) -> None:
        self._newest: SortedDict[tuple[int, str], str] = SortedDict()
        self._children_of: dict[str, SortedDict[tuple[int, str], str]] = {}

    def add(self, header: SessionHeader) -> None:
        """Put *header* in its places. Cost: O(log n)."""
        key = HeadKey.from_header(header).sort_key
        self._newest[key] = header.id
        if header.parent_session is not None:
            self._children_of.setdefault(header.parent_session, SortedDict())[key] = header.id

    def remove(self, header: SessionHeader) -> None:
        """Take away *header*; one that is not there is left alone. Cost: O(log n)."""
        key = HeadKey.from_header(header).sort_key
        self._newest.pop(key, None)
        siblings = self._children_of.get(header.parent_session or "")
        if siblings is not None:
            siblings.pop(key, None)
            if not siblings:
                del self._children_of[header.parent_session or ""]

    def ids(self, after: HeadKey | None, *, parent_id: str | None = None) -> Iterator[str]:
        """
        Yield session ids in listing order.

        Args:
            after: Only those behind this place; None starts with the newest.

            parent_id: Only children of this session; None is all sessions.

        Cost: O(log n) and what is taken.
        """
        order = self._newest if parent_id is None else self._children_of.get(parent_id)
        if order is not None:
            start = None if after is None else after.sort_key
            for key in order.irange(start, None, (False, True)):
                yield order[key]

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
