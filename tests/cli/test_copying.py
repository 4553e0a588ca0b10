"""Copying between stores: complete, resumable, idempotent, and accounted for."""

from collections.abc import Callable
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog import Event, EventStore, open_store
from eventlog.copying import CopyAccount, CopyProgress, copy_sessions
from eventlog.errors import InvalidArgument, StoreClosed, StoreReadOnly
from support import make_header, message, messages, replacement


def filled(*lengths: int) -> EventStore:
    """A store with one session of each length, the last one the newest."""
    store = open_store("memory:")
    for number, length in enumerate(lengths):
        store.append(make_header(f"s{number}", created_at=1_000 + number), messages(length))
    return store


def contents(store: EventStore) -> dict[str, list[Event]]:
    """Every session of a store with its events."""
    ids = [head.header.id for head in store.heads(limit=1_000).items]
    return {i: store.snapshot(i).read(0, 1_000_000) for i in ids}


def test_everything_is_copied_and_counted() -> None:
    """All sessions arrive with their headers, events and surfaces; the account adds up."""
    source, destination = filled(3, 700, 1), open_store("memory:")
    source.append(make_header("s0", created_at=1_000), [replacement(3, 0, 1, [0, 1])])

    account = copy_sessions(source, destination)

    payload = sum(len(e.payload) for events in contents(source).values() for e in events)
    assert CopyAccount(3, 3, 0, (), 705, payload) == account
    assert contents(source) == contents(destination)
    assert source.heads() == destination.heads()
    assert [3, 2] == destination.snapshot("s0").nodes()


def test_a_second_copy_adds_nothing() -> None:
    """What the destination holds is found the same, and not written again."""
    source, destination = filled(3, 700), open_store("memory:")
    copy_sessions(source, destination)
    token = destination.changes().token

    assert CopyAccount(2, 0, 2, (), 0, 0) == copy_sessions(source, destination)
    assert () == destination.changes(token).session_ids


def test_an_empty_source_gives_zeros() -> None:
    """There is nothing to copy, and that is no error."""
    account = copy_sessions(open_store("memory:"), open_store("memory:"))

    assert CopyAccount(0, 0, 0, (), 0, 0) == account


def test_a_session_held_in_part_is_completed() -> None:
    """Only what is missing is added; a destination that is ahead is left as it is."""
    source, destination = filled(5, 5), open_store("memory:")
    destination.append(make_header("s0", created_at=1_000), messages(2))
    destination.append(make_header("s1", created_at=1_001), messages(9))

    account = copy_sessions(source, destination)

    assert (2, 1, 1, 3) == (account.found, account.copied, account.same, account.events)
    assert [5, 9] == [len(events) for _, events in sorted(contents(destination).items())]


def test_what_differs_is_refused_and_left() -> None:
    """Another header, another event and a deleted session are refused, each by its name."""
    source, destination = filled(3, 3, 3, 3), open_store("memory:")
    destination.append(make_header("s0", created_at=1_000, cwd="/else"), messages(3))
    destination.append(make_header("s1", created_at=1_001), [message(0), message(1, "other")])
    destination.append(make_header("s2", created_at=1_002), messages(3))
    destination.delete("s2")
    before = contents(destination)

    account = copy_sessions(source, destination)

    assert [
        ("s2", "SessionDeleted", 0),
        ("s1", "SequenceConflict", 2),
        ("s0", "HeaderConflict", 3),
    ] == [(refusal.session_id, refusal.kind, refusal.stored) for refusal in account.refused]
    assert (4, 1, 0) == (account.found, account.copied, account.same)
    assert before.items() <= contents(destination).items()


@pytest.mark.parametrize("stopped_at", range(1, 9))
def test_a_stopped_copy_is_finished_by_the_next(stopped_at: int) -> None:
    """Interrupted after any batch, the next run brings what is missing, and only that."""
    source, destination = filled(20, 600, 2), open_store("memory:")
    steps = count(1)

    def stop(_: CopyProgress) -> None:
        if next(steps) == stopped_at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_sessions(source, destination, progress=stop)
    there = sum(len(events) for events in contents(destination).values())
    account = copy_sessions(source, destination)

    assert 622 - there == account.events
    assert contents(source) == contents(destination)


def test_progress_reaches_the_end() -> None:
    """The last report counts every event; sessions come newest first."""
    reports: list[CopyProgress] = []

    copy_sessions(filled(3, 40), open_store("memory:"), progress=reports.append)

    assert ["s1", "s0"] == list(dict.fromkeys(report.session_id for report in reports))
    assert 43 == reports[-1].events


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        (lambda store: open_store("memory:", read_only=True), StoreReadOnly),
        (lambda store: (store.close(), store)[1], StoreClosed),
    ],
    ids=["read-only", "closed"],
)
def test_a_destination_that_takes_nothing_stops_the_copy(
    broken: Callable[[EventStore], EventStore], error: type[Exception]
) -> None:
    """What fails for one session fails for all: it is raised, not counted."""
    with pytest.raises(error):
        copy_sessions(filled(1), broken(open_store("memory:")))


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30), st.booleans()), max_size=5),
)
def test_the_account_adds_up(plan: list[tuple[int, int, bool]]) -> None:
    """Whatever the destination holds before, every session found is in one count."""
    source, destination = open_store("memory:"), open_store("memory:")
    for number, (length, held, differs) in enumerate(plan):
        header = make_header(f"s{number}")
        source.append(header, messages(length))
        known = messages(held)
        if differs and held:
            known[-1] = message(held - 1, "other")
        destination.append(header, known)

    account = copy_sessions(source, destination)

    differing = [differs and 0 < held <= length for length, held, differs in plan]
    growing = [held < length for length, held, _ in plan]
    assert account.found == len(plan)
    assert account.found == account.copied + account.same + len(account.refused)
    assert sum(differing) == len(account.refused)
    assert account.copied == sum(g and not d for g, d in zip(growing, differing, strict=True))


def test_what_is_no_store_is_not_copied() -> None:
    """Both ends are checked before anything is read."""
    store = open_store("memory:")
    for source, destination in ((store, "memory:"), (None, store)):
        with pytest.raises(InvalidArgument):
            copy_sessions(source, destination)  # type: ignore[arg-type]
