"""
The recorder over drivers that do what no driver should.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pytest

from eventlog import Batch, LiveSessions, Recorder
from eventlog.drivers.memory import MemoryStore
from eventlog.errors import EventLogError, StoreUnavailable
from eventlog.testing.contract.base import read_all

Answer = list[int | EventLogError]


class Unprintable(Exception):
    """An exception of a driver, whose message cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no message")

    __repr__ = __str__


class OddStore(MemoryStore):
    """A store that answers in a way of its own, until it is mended."""

    def __init__(self, answer: Callable[[], Answer]) -> None:
        super().__init__()
        self.answer: Callable[[], Answer] | None = answer
        self.calls = 0

    def append_many(self, batches: Sequence[Batch]) -> Answer:
        self.calls += 1
        return super().append_many(batches) if self.answer is None else self.answer()


def raise_unprintable() -> Answer:
    raise Unprintable


def raise_at_length() -> Answer:
    raise ValueError("x" * 10**6)


ODD: dict[str, Callable[[], Answer]] = {
    "unprintable": raise_unprintable,
    "at length": raise_at_length,
    "no answer": list,
    "too many answers": lambda: [1, 2, 3],
    "nothing": lambda: None,  # type: ignore[dict-item, return-value]
}


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.002)


@pytest.mark.parametrize("name", ODD)
def test_odd_driver_does_not_end_the_recording(name: str) -> None:
    """
    An exception of which nothing could be said, and answers that did not fit, ended the
    thread that stores, without a word. They are an outage like any other: told by flush in
    a typed error of few words, waited out, and the events are delivered once it is over.
    """
    live, store = LiveSessions(), OddStore(ODD[name])
    with Recorder(live, store, window_ms=5) as recorder:
        session = live.create("s1")
        session.append("x/a", {})
        eventually(lambda: store.calls > 0)
        with pytest.raises(StoreUnavailable) as caught:
            recorder.flush(session)
        assert len(str(caught.value)) < 1_000
        assert isinstance(recorder.health().failing["s1"], StoreUnavailable)
        store.answer = None
        eventually(lambda: recorder.health().pending == 0)
        assert session.read(0, 9) == read_all(store, "s1")
