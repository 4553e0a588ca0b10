"""
The contract of appending: creation, continuation, retries, batches of several sessions.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path

import pytest

from eventlog.errors import (
    EventLogError,
    HeaderConflict,
    InvalidArgument,
    InvalidSurface,
    SequenceConflict,
    SessionDeleted,
    UnsupportedFormat,
)
from eventlog.model import APPEND, Batch, Event
from eventlog.store import EventStore
from eventlog.testing.contract.base import ContractBase, read_all, walk_heads
from eventlog.testing.contract.refusing import FULL_HEADER, conflict_facts
from eventlog.testing.samples import make_header, message, messages, note, summary

__all__ = ["AppendContract"]


class AppendContract(ContractBase):
    """What :meth:`~eventlog.EventStore.append` and ``append_many`` promise."""

    def test_opening_creates_nothing(self, store: EventStore, root: Path) -> None:
        """
        Opening a store leaves the place where it will be as it was.
        """
        assert not root.exists()
        assert [] == walk_heads(store)

    def test_first_append_creates_the_session(self, store: EventStore) -> None:
        """
        The first append makes the session, with its header and its events.
        """
        header = make_header(**FULL_HEADER)

        assert 3 == store.append(header, messages(3))

        assert header == store.snapshot("s1").header
        assert messages(3) == read_all(store, "s1")

    def test_empty_append_creates_nothing(self, store: EventStore, root: Path) -> None:
        """
        An append without events makes no session, and returns 0.
        """
        assert 0 == store.append(make_header(), [])

        assert store.head("s1") is None
        assert [] == walk_heads(store)
        assert not root.exists()

    def test_empty_append_returns_the_length(self, store: EventStore) -> None:
        """
        An append without events to a session changes nothing and returns its next seq.
        """
        store.append(make_header(), messages(3))

        assert 3 == store.append(make_header(), [])
        assert messages(3) == read_all(store, "s1")

    def test_empty_append_checks_the_header(self, store: EventStore) -> None:
        """
        An append without events is refused when its header is not the stored one.
        """
        store.append(make_header(), messages(1))

        with pytest.raises(HeaderConflict):
            store.append(make_header(cwd="/other"), [])

    def test_append_continues_the_log(self, store: EventStore) -> None:
        """
        Appends of any size follow each other; each returns the next free seq.
        """
        lengths = [store.append(make_header(), messages(n, start=at)) for at, n in SIZES]

        assert [at + n for at, n in SIZES] == lengths
        assert messages(lengths[-1]) == read_all(store, "s1")

    def test_large_batch_is_stored_whole(self, store: EventStore) -> None:
        """
        One call may carry thousands of events and one event a megabyte.
        """
        events = [*messages(3_000), message(3_000, "x" * 1_000_000)]

        assert 3_001 == store.append(make_header(), events)
        assert events == read_all(store, "s1")

    def test_events_may_be_any_sequence(self, store: EventStore) -> None:
        """
        Events are taken from a tuple, or any other sequence, as from a list.
        """
        assert 2 == store.append(make_header(), tuple(messages(2)))
        assert 4 == store.append(make_header(), deque(messages(2, start=2)))
        assert messages(4) == read_all(store, "s1")

    def test_caller_keeps_its_list(self, store: EventStore) -> None:
        """
        What a caller does with its list after the append does not reach the log.
        """
        given = messages(3)
        store.append(make_header(), given)
        given.clear()
        given.append(message(0, "other"))

        assert messages(3) == read_all(store, "s1")

    def test_d6_retry_adds_nothing(self, store: EventStore) -> None:
        """
        A batch sent again, as after a lost answer, is accepted and adds nothing.

        A client that timed out sent its entries again; they were stored four times.
        """
        store.append(make_header(), messages(3))

        assert 5 == store.append(make_header(), messages(2, start=3))
        assert 5 == store.append(make_header(), messages(2, start=3))
        assert messages(5) == read_all(store, "s1")
        head = store.head("s1")
        assert head is not None
        assert (5, 1_004) == (head.length, head.last_time)

    def test_d6_same_events_in_another_session_are_its_own(self, store: EventStore) -> None:
        """
        Seqs belong to a session: equal events in another one are appended there.
        """
        store.append(make_header("s1"), messages(2))

        assert 2 == store.append(make_header("s2"), messages(2))
        assert messages(2) == read_all(store, "s1") == read_all(store, "s2")

    def test_retry_of_an_inner_stretch_adds_nothing(self, store: EventStore) -> None:
        """
        A retry may cover any stretch of the log; the answer is the log's next seq.
        """
        store.append(make_header(), messages(9))

        assert 9 == store.append(make_header(), messages(4, start=2))
        assert messages(9) == read_all(store, "s1")

    def test_partial_retry_adds_the_rest(self, store: EventStore) -> None:
        """
        A batch that starts below the log's end is completed: only what is new is stored.
        """
        store.append(make_header(), messages(3))

        assert 6 == store.append(make_header(), messages(5, start=1))
        assert messages(6) == read_all(store, "s1")
        assert list(range(6)) == store.snapshot("s1").nodes()

    def test_partial_retry_folds_only_the_rest(self, store: EventStore) -> None:
        """
        A retry that holds a stored replacement does not replace again.
        """
        events = [*messages(4), summary(4, 0, 2, [0, 1, 2]), message(5), summary(6, 4, 3, [4, 3])]
        store.append(make_header(), events[:5])

        assert 7 == store.append(make_header(), events[3:])
        assert [6, 5] == store.snapshot("s1").nodes()

    @pytest.mark.parametrize(
        "other",
        [
            Event(0, 1_001, "x/note", {"a": 1, "b": 2}),
            Event(0, 1_000, "x/other", {"a": 1, "b": 2}),
            Event(0, 1_000, "x/note", {"b": 2, "a": 1}),
            Event(0, 1_000, "x/note", {"a": 1.0, "b": 2}),
            Event(0, 1_000, "x/note", {"a": True, "b": 2}),
            Event(0, 1_000, "x/note", {"a": 1, "b": 2}, surface_op=APPEND),
            Event(0, 1_000, "x/note", {"a": 1, "b": 2}, ignorable=True),
        ],
        ids=["time", "type", "key-order", "float", "bool", "surface-op", "ignorable"],
    )
    def test_retry_that_differs_anywhere_is_refused(self, store: EventStore, other: Event) -> None:
        """
        A retry is one only if every fact of the event is the stored one.
        """
        stored = Event(0, 1_000, "x/note", {"a": 1, "b": 2})
        store.append(make_header(), [stored])

        with pytest.raises(SequenceConflict):
            store.append(make_header(), [other])

        assert [stored] == read_all(store, "s1")

    def test_absent_and_empty_sources_differ(self, store: EventStore) -> None:
        """
        "No sources recorded" and "known to have none" are stored apart.
        """
        absent = Event(0, 1_000, "assistant/message", {}, surface_op=APPEND)
        empty = Event(1, 1_000, "assistant/message", {}, surface_op=APPEND, source_event_seqs=[])
        store.append(make_header(), [absent, empty])

        assert [None, ()] == [event.source_event_seqs for event in read_all(store, "s1")]

    def test_append_many_answers_in_order(self, store: EventStore) -> None:
        """
        Each batch of one call is stored, and answered in its place.
        """
        batches = [Batch(make_header(f"s{n}"), messages(n)) for n in (3, 1, 2)]

        assert [3, 1, 2] == store.append_many(batches)
        assert [messages(n) for n in (3, 1, 2)] == [read_all(store, f"s{n}") for n in (3, 1, 2)]

    def test_append_many_of_nothing(self, store: EventStore, root: Path) -> None:
        """
        No batches give no answers and create nothing; so do batches without events.
        """
        assert [] == store.append_many([])
        assert [0] == store.append_many([Batch(make_header(), [])])
        assert store.head("s1") is None
        assert not root.exists()

    def test_append_many_batches_follow_each_other(self, store: EventStore) -> None:
        """
        A later batch of one call may continue, repeat or compact an earlier one.
        """
        header = make_header()
        batches = [
            Batch(header, messages(2)),
            Batch(header, messages(2, start=2)),
            Batch(header, messages(3, start=1)),
            Batch(header, [summary(4, 0, 3, [0, 1, 2, 3])]),
        ]

        assert [2, 4, 4, 5] == store.append_many(batches)
        assert [*messages(4), summary(4, 0, 3, [0, 1, 2, 3])] == read_all(store, "s1")
        assert [4] == store.snapshot("s1").nodes()

    def test_append_many_batches_stand_alone(self, store: EventStore) -> None:
        """
        A refused batch of a call is answered with its error; the others are stored.
        """
        store.append(make_header("old"), messages(2))
        store.append(make_header("gone"), messages(1))
        store.delete("gone")
        batches = [
            Batch(make_header("a"), messages(2)),
            Batch(make_header("old", cwd="/b"), messages(1, start=2)),
            Batch(make_header("old"), messages(1, start=5)),
            Batch(make_header("new"), [message(0), summary(1, 0, 0, [])]),
            Batch(make_header("gone"), messages(1)),
            Batch(make_header("v1", version=1), messages(1)),
            Batch(make_header("none"), None),  # type: ignore[arg-type]
            Batch(make_header("b"), messages(1)),
        ]

        answers = store.append_many(batches)

        expected = [
            2,
            HeaderConflict,
            SequenceConflict,
            InvalidSurface,
            SessionDeleted,
            UnsupportedFormat,
            InvalidArgument,
            1,
        ]
        assert expected == [answer if type(answer) is int else type(answer) for answer in answers]
        assert all(isinstance(answer, int | EventLogError) for answer in answers)
        assert {"old", "a", "b"} == {head.header.id for head in walk_heads(store)}
        assert messages(2) == read_all(store, "old") == read_all(store, "a")

    def test_append_many_errors_carry_their_facts(self, store: EventStore) -> None:
        """
        The error of a batch is the one that append would have raised, facts included.
        """
        header = make_header()
        batches = [Batch(header, messages(3)), Batch(header, [message(1, "other")])]

        _, refused = store.append_many(batches)

        assert isinstance(refused, SequenceConflict)
        assert ("s1", 3, 1) == conflict_facts(refused)

    @pytest.mark.parametrize("step", [0, -1_000], ids=["frozen", "backwards"])
    def test_d3_clock_decides_nothing(self, store: EventStore, step: int) -> None:
        """
        Appends succeed while the clock stands still or runs backwards.

        A store took the time of the last write for its version; two appends within one
        tick were refused as stale.
        """
        for seq in range(self.appends_in_a_row):
            assert seq + 1 == store.append(make_header(), [note(seq, time=5_000 + step * seq)])

        times = [event.time for event in read_all(store, "s1")]
        assert [5_000 + step * seq for seq in range(self.appends_in_a_row)] == times

    def test_k1_order_is_by_seq(self, store: EventStore) -> None:
        """
        Events whose times step back keep the order of their seqs; the last event counts.
        """
        events = [note(0, time=1_000), note(1, time=900), note(2, time=1_100), note(3, time=-5)]
        store.append(make_header(), events)

        head = store.head("s1")
        assert events == read_all(store, "s1")
        assert head is not None
        assert -5 == head.last_time


SIZES = [(0, 1), (1, 2), (3, 7), (10, 1), (11, 300), (311, 1)]
