"""
What belongs to one process, and what may leave it.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from eventlog import LiveSessions, Recorder
from eventlog.drivers.memory import MemoryStore
from eventlog.errors import EventLogError, NotPicklable
from eventlog.query import SessionQuery
from support import messages

LEAVING: dict[str, Callable[[Any], Any]] = {
    "pickle": pickle.dumps,
    "pickle-0": lambda value: pickle.dumps(value, 0),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("leave", LEAVING)
@pytest.mark.parametrize("name", ["session", "live", "recorder", "query", "store"])
def test_x11_what_lives_in_one_process_says_so(name: str, leave: str) -> None:
    """
    Live sessions and what works on them refuse to be pickled or copied, in words.

    Pickle spoke of some lock inside; a shallow copy of a session or of a recorder was
    made, and was a second end of the same log.
    """
    live, store = LiveSessions(), MemoryStore()
    session = live.create("s1", seed=messages(2))
    with Recorder(live, store) as recorder:
        held = {
            "session": session,
            "live": live,
            "recorder": recorder,
            "query": SessionQuery(live, store),
            "store": store,
        }
        with pytest.raises(NotPicklable) as caught:
            LEAVING[leave](held[name])

    assert name == caught.value.name
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, EventLogError)
    assert "lock" not in str(caught.value)


@pytest.mark.parametrize("leave", ["pickle", "deepcopy"])
def test_x11_what_is_read_from_a_live_log_says_so(leave: str) -> None:
    """
    A snapshot or an inspection of a live log holds that log, and stays with it.
    """
    live = LiveSessions()
    session = live.create("s1", seed=messages(2))
    with Recorder(live, MemoryStore()) as recorder:
        for held in (session.snapshot(), recorder.inspect("s1"), [session.snapshot()]):
            with pytest.raises(NotPicklable) as caught:
                LEAVING[leave](held)
            assert "log" == caught.value.name


def test_x11_values_leave() -> None:
    """
    What a live session tells of itself is values, and goes anywhere.
    """
    live = LiveSessions()
    session = live.create("s1", seed=messages(2))
    with Recorder(live, MemoryStore()) as recorder:
        told = [session.header, session.head(), session.read(0, 9), live.heads()]
        told.append(recorder.health())
    for value in told:
        assert value == pickle.loads(pickle.dumps(value)) == copy.deepcopy(value)
