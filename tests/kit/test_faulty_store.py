"""The store that fails on purpose: it counts, it fails when it should, and else it is a store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eventlog import Batch, EventStore
from eventlog.drivers.memory import MemoryStore
from eventlog.errors import StoreBusy, StoreClosed, StoreFull, StoreUnavailable
from eventlog.testing import FaultyStore, StoreContract, make_header, messages
from eventlog.testing.faulty import CALLS

FULL = StoreFull("memory:")


class TestFaultyStore(StoreContract):
    reopens = False

    def open_store(self, root: Path, *, read_only: bool = False) -> EventStore:
        return FaultyStore(MemoryStore(read_only=read_only), FULL, at=10**9, calls=CALLS)


def test_only_the_named_call_fails() -> None:
    """
    The call that the countdown names fails, those before and after it do not.
    """
    store = FaultyStore(MemoryStore(), FULL, at=3)

    assert 1 == store.append(make_header(), messages(1))
    assert 2 == store.append(make_header(), messages(1, start=1))
    with pytest.raises(StoreFull) as caught:
        store.append(make_header(), messages(1, start=2))
    assert "memory:" == caught.value.path
    assert 3 == store.append(make_header(), messages(1, start=2))
    assert (4, 1) == (store.counted, store.raised)


@pytest.mark.parametrize(("when", "stored"), [("before", 0), ("after", 2)])
def test_fault_falls_before_or_after_the_call(when: Any, stored: int) -> None:
    """
    Before: the inner store never hears of the call. After: only its answer is lost.
    """
    inner = MemoryStore()
    store = FaultyStore(inner, FULL, when=when)

    with pytest.raises(StoreFull):
        store.append(make_header(), messages(2))

    head = inner.head("s1")
    assert stored == (0 if head is None else head.length)
    assert 2 == store.append(make_header(), messages(2))


@pytest.mark.parametrize(("times", "failures"), [(1, 1), (2, 2), (None, 4)])
def test_calls_fail_in_a_row(times: int | None, failures: int) -> None:
    """
    So many calls fail in a row as were asked for, or all of them.
    """
    store = FaultyStore(MemoryStore(), StoreBusy("pid 1", 2.0), times=times)
    answers, raised = [], []
    for _ in range(4):
        try:
            answers.append(store.append(make_header(), messages(1)))
        except StoreBusy as error:
            raised.append(error)

    assert (failures, 4 - failures) == (len(raised), len(answers))
    assert len(set(map(id, raised))) == failures, "each failure has an error of its own"
    assert {("pid 1", 2.0)} == {(error.owner, error.waited_s) for error in raised}


@pytest.mark.parametrize(("when", "stored"), [("before", ["a", "c"]), ("after", ["a", "b", "c"])])
def test_one_batch_of_many_fails(when: Any, stored: list[str]) -> None:
    """
    Each batch of a call counts; the failing one is answered, the others are stored.
    """
    store = FaultyStore(MemoryStore(), FULL, at=2, when=when)

    answers = store.append_many([Batch(make_header(name), messages(2)) for name in "abc"])

    assert [2, StoreFull, 2] == [a if isinstance(a, int) else type(a) for a in answers]
    assert stored == [head.header.id for head in store.heads().items]


def test_other_errors_leave_append_many() -> None:
    """
    An error that is none of the library's is raised by the whole call.
    """
    store = FaultyStore(MemoryStore(), KeyboardInterrupt(), at=2)

    with pytest.raises(KeyboardInterrupt):
        store.append_many([Batch(make_header(name), messages(2)) for name in "abc"])
    assert () == store.heads().items


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        ("delete", lambda store: store.delete("s1")),
        ("head", lambda store: store.head("s1")),
        ("heads", lambda store: store.heads()),
        ("children", lambda store: store.children("s1")),
        ("changes", lambda store: store.changes()),
        ("snapshot", lambda store: store.snapshot("s1")),
        ("read", lambda store: store.snapshot("s1").read(0, 1)),
        ("surface", lambda store: store.snapshot("s1").nodes()),
        ("surface", lambda store: store.snapshot("s1").classify(0)),
    ],
)
def test_every_kind_of_call_can_fail(kind: str, call: Callable[[EventStore], object]) -> None:
    """
    A call of each kind fails, and only those of its kind are counted.
    """
    store = FaultyStore(MemoryStore(), StoreUnavailable("disk"), calls={kind})
    store.append(make_header(), messages(2))
    assert 0 == store.counted

    with pytest.raises(StoreUnavailable):
        call(store)
    assert (1, 1) == (store.counted, store.raised)
    call(store)


def test_unknown_kinds_are_refused() -> None:
    """
    A kind of call that there is not is refused, so that no fault waits for ever.
    """
    with pytest.raises(ValueError, match="apend"):
        FaultyStore(MemoryStore(), FULL, calls={"apend"})


def test_closing_closes_both() -> None:
    """
    The faulty store stands for the inner one: closing it closes that, too.
    """
    inner = MemoryStore()
    FaultyStore(inner, FULL).close()

    with pytest.raises(StoreClosed):
        inner.heads()
