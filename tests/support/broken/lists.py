"""
Stores that break one promise of listing sessions, children or changes each.

Every class says in its docstring what is wrong with it, and in ``promise`` which test of
the contract has to fail for it.
"""

from __future__ import annotations

from attrs import evolve

from eventlog import ChangeSet, HeadKey, HeadPage
from eventlog.errors import CorruptLog
from support.broken.appends import BrokenMemory, BrokenSqlite


class TiesAsTheyCame(BrokenMemory):
    """Lists sessions of one millisecond in the order of their creation."""

    promise = "test_ties_are_in_code_point_order"

    def _heads(self, after: HeadKey | None, limit: int) -> HeadPage:
        heads = [log.head() for log in self._logs.values()]
        heads.sort(key=lambda head: -head.header.created_at)
        keys = [HeadKey.from_header(head.header) for head in heads]
        start = keys.index(after) + 1 if after in keys else 0
        more = len(heads) > start + limit
        return HeadPage(
            tuple(heads[start : start + limit]), keys[start + limit - 1] if more else None
        )


class PageBoundaryRepeated(BrokenMemory):
    """Begins a page with the session that ended the one before."""

    promise = "test_pages_hold_each_session_once"

    def _heads(self, after: HeadKey | None, limit: int) -> HeadPage:
        page = super()._heads(after, limit)
        head = None if after is None else self._head(after.session_id)
        return page if head is None else evolve(page, items=(head, *page.items)[:limit])


class LimitExceeded(BrokenMemory):
    """Gives one session more than was asked for."""

    promise = "test_page_is_as_long_as_its_limit"

    def _heads(self, after: HeadKey | None, limit: int) -> HeadPage:
        return super()._heads(after, limit + 1)


class LastPageHasANext(BrokenMemory):
    """Names a next page whenever a page is full."""

    promise = "test_page_is_as_long_as_its_limit"

    def _heads(self, after: HeadKey | None, limit: int) -> HeadPage:
        page = super()._heads(after, limit)
        if len(page.items) < limit:
            return page
        return evolve(page, next_key=HeadKey.from_header(page.items[-1].header))


class KeyMustExist(BrokenMemory):
    """Starts over when the session of a page's key is gone."""

    promise = "test_key_of_a_session_that_is_gone"

    def _heads(self, after: HeadKey | None, limit: int) -> HeadPage:
        known = after is not None and after.session_id in self._logs
        return super()._heads(after if known else None, limit)


class FaultFailsThePage(BrokenSqlite):
    """Fails a whole listing because of one session."""

    promise = "test_j4_damaged_session_is_a_fault_of_its_page"

    def _heads(self, after: HeadKey | None, limit: int) -> HeadPage:
        page = super()._heads(after, limit)
        for fault in page.faults:
            raise CorruptLog(fault.session_id, fault.path, None, None, None, fault.kind)
        return page


class DamagedSessionHidden(BrokenSqlite):
    """Lists what it can read, and is silent about the rest."""

    promise = "test_j4_damaged_session_is_a_fault_of_its_page"

    def _heads(self, after: HeadKey | None, limit: int) -> HeadPage:
        return evolve(super()._heads(after, limit), faults=())


class OrphansMissing(BrokenMemory):
    """Lists no children of a session that is not there."""

    promise = "test_f5_parent_need_not_exist"

    def _children(self, parent_id: str, after: HeadKey | None, limit: int) -> HeadPage:
        if parent_id not in self._logs:
            return HeadPage((), None)
        return super()._children(parent_id, after, limit)


class ChildrenByPrefix(BrokenMemory):
    """Lists the children of every session whose id begins alike."""

    promise = "test_children_of_ids_that_resemble"

    def _children(self, parent_id: str, after: HeadKey | None, limit: int) -> HeadPage:
        page = super()._heads(after, 1_000)
        children = [h for h in page.items if (h.header.parent_session or "").startswith(parent_id)]
        return HeadPage(tuple(children[:limit]), None)


class OnlyCreationIsAChange(BrokenMemory):
    """Names new sessions, and none that merely grew."""

    promise = "test_changes_name_what_was_appended_to"

    def _changed(self, session_id: str) -> None:
        if session_id not in self._positions or session_id not in self._logs:
            super()._changed(session_id)


class DeletionIsNoChange(BrokenMemory):
    """Does not name sessions that were deleted."""

    promise = "test_changes_name_deleted_sessions"

    def _changes(self, since: str | None) -> ChangeSet:
        changes = super()._changes(since)
        return evolve(changes, session_ids=tuple(s for s in changes.session_ids if s in self._logs))


class TokenOfThisObject(BrokenSqlite):
    """Gives out tokens that only it can read."""

    promise = "test_changes_tokens_work_in_another_store"

    def _changes(self, since: str | None) -> ChangeSet:
        own = f"{id(self)}:"
        if since is not None and not since.startswith(own):
            return ChangeSet((), own)
        changes = super()._changes(None if since is None else since.removeprefix(own))
        return evolve(changes, token=own + changes.token)
