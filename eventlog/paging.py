"""
Pages of a listing, and the default token of changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from eventlog.errors import InvalidArgument, ValueRejected
from eventlog.model import Fault, HeadKey, HeadPage, SessionHead, check_time
from eventlog.values import check_index, check_text

__all__ = ["check_page", "head_page", "ids_of_token"]


def check_page(after: object, limit: object) -> None:
    if after is not None:
        if type(after) is not HeadKey:
            raise InvalidArgument("after", f"must be a HeadKey, not {type(after).__name__}")
        try:
            check_time(after.created_at, path="created_at")
            check_text(after.session_id, "session_id")
        except ValueRejected as error:
            raise InvalidArgument("after", f"its {error.path} {error.reason}") from None
    if check_index(limit, "limit") == 0:
        raise InvalidArgument("limit", "must be an int ≥ 1, not 0")


def head_page(found: Sequence[SessionHead], limit: int, faults: Sequence[Fault] = ()) -> HeadPage:
    """Return the page of the first *limit* of *found*, which holds one more where there is more."""
    items = tuple(found[:limit])
    more = len(found) > limit
    return HeadPage(items, HeadKey.from_header(items[-1].header) if more else None, tuple(faults))


def ids_of_token(token: str | None) -> list[str]:
    if token is None:
        return []
    try:
        ids = orjson.loads(token)
    except (orjson.JSONDecodeError, TypeError):
        ids = None
    if type(ids) is not list or any(type(session_id) is not str for session_id in ids):
        raise InvalidArgument("since", "is no token of this store")
    return ids
