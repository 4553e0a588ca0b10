"""
Listing sessions: which part of the corpus a filter lets us skip, and pages of the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from attrs import define, field

from eventlog.model import Fault, HeadKey

from .corpus import Corpus, CorpusPage, Scan
from .errors import check_cancel, is_id
from .filters import LIVE, PERSISTED, Availability, CreatedAt, Ids, Parent, SessionFilter
from .records import OnConflict, SessionRecord

__all__ = ["session_page"]

SCAN_HEADS: Final = 200
"""Heads read at a time where some of them may not pass a filter."""

PAGE_HEADS_MAX: Final = 1000
"""Heads read at a time at most, however long a page is asked for."""


@define
class Listing:
    """
    A page in the making.

    Attributes:
        records: The sessions found so far.

        next_key: The place behind the last of them, None at the end.

        faults: What could not be read, in order, some of it twice.
    """

    records: list[SessionRecord] = field(factory=list)
    next_key: HeadKey | None = None
    faults: list[Fault] = field(factory=list)


def session_page(
    corpus: Corpus,
    filters: Sequence[SessionFilter],
    after: HeadKey | None,
    limit: int,
    on_conflict: OnConflict,
    cancel: Callable[[], bool] | None,
) -> Listing:
    """
    Return at most *limit* sessions that pass *filters*, newest first, then by id.

    Cost: *limit* heads of each source; with filters, the heads scanned until as many have
    passed. ``Ids`` and ``Parent`` are looked up, ``Availability`` and ``CreatedAt`` bound
    the scan, ``Cwd`` scans.

    Raises:
        SessionQueryError: ABORTED; SOURCE_CONFLICT, by *on_conflict*; PERSISTENCE_FAILED.
    """
    page = Listing()
    for stretch in _stretches(corpus, filters, after, limit, on_conflict, cancel):
        page.faults += stretch.faults
        for record in stretch.records:
            if all(f.matches(record) for f in filters):
                page.records.append(record)
                if len(page.records) == limit:
                    last = stretch.records[-1] is record and stretch.next_key is None
                    page.next_key = None if last else HeadKey.from_header(record.header)
                    return page
    return page


def _stretches(
    corpus: Corpus,
    filters: Sequence[SessionFilter],
    after: HeadKey | None,
    limit: int,
    on_conflict: OnConflict,
    cancel: Callable[[], bool] | None,
) -> Iterator[CorpusPage]:
    """Yield the parts of the corpus in which a session may pass, in order."""
    check_cancel(cancel)
    if any(f.values == () for f in filters if not isinstance(f, CreatedAt)):
        return
    ids = _intersection(f.values for f in filters if isinstance(f, Ids))
    if ids is not None:
        yield corpus.lookup(ids, after, on_conflict=on_conflict)
        return
    scan, first_time, last_time = _scan(filters)
    if last_time is not None and (after is None or after.created_at > last_time):
        if after is None:
            yield CorpusPage((), None, corpus.first_faults(scan))
        # Ids are not empty, so this place is before every session of that millisecond.
        after = HeadKey(last_time, "")
    step = SCAN_HEADS if filters else min(limit, PAGE_HEADS_MAX)
    left = limit
    while True:
        stretch = corpus.walk(after, step, scan=scan, on_conflict=on_conflict)
        yield stretch
        after = stretch.next_key
        if after is None or (first_time is not None and after.created_at < first_time):
            return
        if not filters:
            left -= len(stretch.records)
            step = min(max(left, 1), PAGE_HEADS_MAX)
        check_cancel(cancel)


def _scan(filters: Sequence[SessionFilter]) -> tuple[Scan, int | None, int | None]:
    """Return what has to be walked, and the first and last creation time in it."""
    parents = _intersection(
        tuple(parent for parent in f.values if is_id(parent))
        for f in filters
        if isinstance(f, Parent) and None not in f.values
    )
    # A session that must be live is found among the live ones, and likewise if stored.
    required = {f.values for f in filters if isinstance(f, Availability)}
    live_only, stored_only = (LIVE,) in required, (PERSISTED,) in required
    spans = [f for f in filters if isinstance(f, CreatedAt)]
    return (
        Scan(parents=parents, live=live_only or not stored_only, stored=not live_only),
        max((f.start for f in spans if f.start is not None), default=None),
        min((f.end for f in spans if f.end is not None), default=None),
    )


def _intersection(groups: Iterable[tuple[str, ...]]) -> tuple[str, ...] | None:
    """Return what is in every group, sorted; None where there is no group."""
    sets = [set(group) for group in groups]
    return tuple(sorted(set.intersection(*sets))) if sets else None
