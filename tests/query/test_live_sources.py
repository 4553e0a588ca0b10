"""Live sources that others write: what goes wrong in one is told in codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from eventlog import EventStore
from eventlog.drivers.memory import MemoryStore
from eventlog.query import Ids, SessionQuery, SessionQueryErrorCode
from support import make_header, messages
from support.query import raises

CALLS: dict[str, Callable[[SessionQuery], object]] = {
    "list_sessions": lambda query: query.list_sessions(),
    "list_sessions-ids": lambda query: query.list_sessions(filters=[Ids(["s1"])]),
    "list_events": lambda query: query.list_events("s1"),
    "read_event": lambda query: query.read_event("s1", 0),
    "read_surface": lambda query: query.read_surface("s1"),
    "read_log": lambda query: list(query.read_log("s1")),
    "trace_event": lambda query: query.trace_event("s1", 0),
    "trace_session": lambda query: query.trace_session("s1"),
    "search_events": lambda query: query.search_events("s1", "text"),
}


class FailingSource:
    """A source of live sessions of which every call raises something of its own."""

    def _fail(self, *args: object, **options: object) -> Any:
        raise ZeroDivisionError("a fault of the harness")

    head = heads = children = snapshot = _fail


@pytest.mark.parametrize("call", CALLS)
def test_failing_live_source_is_told(memory: EventStore, call: str) -> None:
    """
    What a live source raised left the query as it was, from some calls and not from others.
    """
    memory.append(make_header(), messages(2))

    with raises(SessionQueryErrorCode.PERSISTENCE_FAILED) as caught:
        CALLS[call](SessionQuery(FailingSource(), memory))
    assert type(caught.value.__cause__) is ZeroDivisionError


def test_live_source_may_be_any_object(memory: EventStore) -> None:
    """
    Whatever has the four methods is a live source, a store too.
    """
    memory.append(make_header(), messages(2))
    live = MemoryStore()
    live.append(make_header(), messages(3))

    (record,) = SessionQuery(live, memory).list_sessions().items
    assert (True, True, 3) == (record.live, record.persisted, record.length)
