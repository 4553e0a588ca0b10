"""
The contract of refusals: which appends are refused, with which facts, in which order.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eventlog.errors import (
    HeaderConflict,
    InvalidArgument,
    InvalidSurface,
    SequenceConflict,
    SessionDeleted,
    StoreClosed,
    UnsupportedFormat,
)
from eventlog.model import Batch, Event, SessionHeader
from eventlog.store import EventStore
from eventlog.testing.contract.base import ContractBase, read_all, walk_heads
from eventlog.testing.samples import make_header, message, messages, note, summary

__all__ = ["RefuseContract"]

FULL_HEADER: dict[str, Any] = {
    "created_at": 1_000,
    "cwd": "/work",
    "parent_session": "p",
    "seed_length": 2,
    "origin": "subagent",
    "delegation_depth": 1,
    "agent_preset": "default",
    "extra": {"team": {"name": "a"}, "n": 1},
}

# For each field, another value than that of FULL_HEADER.
OTHER_VALUES: dict[str, list[Any]] = {
    "created_at": [1_001, 0],
    "cwd": ["/work/", None],
    "parent_session": ["P", None],
    "seed_length": [0, None],
    "origin": ["Subagent", None],
    "delegation_depth": [0],
    "agent_preset": ["", None],
    "extra": [
        None,
        {"n": 1},
        {"n": 1, "team": {"name": "a"}},
        {"team": {"name": "a"}, "n": 1.0},
        {"team": {"name": "a"}, "n": 1, "more": None},
    ],
}


class RefuseContract(ContractBase):
    """What :meth:`~eventlog.EventStore.append` refuses, storing nothing."""

    @pytest.mark.parametrize(
        ("field", "value"),
        [(name, value) for name, values in OTHER_VALUES.items() for value in values],
    )
    def test_header_conflict_names_the_field(
        self, store: EventStore, field: str, value: Any
    ) -> None:
        """
        A header that differs in one field is refused, naming that field and both values.
        """
        stored = make_header(**FULL_HEADER)
        given = make_header(**{**FULL_HEADER, field: value})
        store.append(stored, messages(1))

        with pytest.raises(HeaderConflict) as caught:
            store.append(given, messages(1, start=1))

        assert ("s1", field) == (caught.value.session_id, caught.value.field)
        assert getattr(stored, field) == caught.value.stored
        assert getattr(given, field) == caught.value.given

    @pytest.mark.parametrize("field", FULL_HEADER)
    def test_header_conflict_names_what_is_new(self, store: EventStore, field: str) -> None:
        """
        A header that says more than the stored one is another one.
        """
        stored = make_header(created_at=0)
        given = make_header(**{"created_at": 0, field: FULL_HEADER[field]})
        store.append(stored, messages(1))

        for events in ([], messages(1), messages(1, start=1)):
            with pytest.raises(HeaderConflict) as caught:
                store.append(given, events)
            assert ("s1", field) == (caught.value.session_id, caught.value.field)
        assert stored == store.snapshot("s1").header
        assert messages(1) == read_all(store, "s1")

    def test_header_conflict_names_the_first_field(self, store: EventStore) -> None:
        """
        Of several fields that differ, the first in the order of the format is named.
        """
        store.append(make_header(**FULL_HEADER), messages(1))

        with pytest.raises(HeaderConflict) as caught:
            store.append(make_header(cwd="/other", created_at=1_000, origin="x"), [])

        assert "cwd" == caught.value.field

    def test_header_conflict_stores_nothing(self, store: EventStore) -> None:
        """
        A refused header leaves the stored one and the events as they were.
        """
        store.append(make_header(**FULL_HEADER), messages(1))

        with pytest.raises(HeaderConflict):
            store.append(make_header(**{**FULL_HEADER, "cwd": "/b"}), messages(1, start=1))

        assert make_header(**FULL_HEADER) == store.snapshot("s1").header
        assert messages(1) == read_all(store, "s1")

    def test_gap_before_the_batch_is_a_conflict(self, store: EventStore) -> None:
        """
        A batch that starts beyond the log is refused with the next seq and its own.
        """
        store.append(make_header(), messages(3))

        with pytest.raises(SequenceConflict) as caught:
            store.append(make_header(), messages(2, start=5))

        assert ("s1", 3, 5) == conflict_facts(caught.value)
        assert messages(3) == read_all(store, "s1")

    def test_gap_before_the_first_batch_is_a_conflict(self, store: EventStore) -> None:
        """
        The first batch of a session starts at seq 0, or creates nothing.
        """
        with pytest.raises(SequenceConflict) as caught:
            store.append(make_header(), messages(2, start=1))

        assert ("s1", 0, 1) == conflict_facts(caught.value)
        assert store.head("s1") is None

    def test_d1_second_writer_gets_a_conflict(self, store: EventStore) -> None:
        """
        Of two writers that both hold the next event as seq 10, the second is refused.

        Two harnesses resumed one session and both wrote its next seq; no later load
        accepted the log. Here the slower one learns the next free seq and where it
        parts from the log, and none of its events is stored.
        """
        store.append(make_header(), messages(12))

        with pytest.raises(SequenceConflict) as caught:
            store.append(make_header(), [message(10, "mine"), message(11, "mine too")])

        assert ("s1", 12, 10) == conflict_facts(caught.value)
        assert messages(12) == read_all(store, "s1")

    def test_conflict_names_where_the_batch_parts(self, store: EventStore) -> None:
        """
        A batch that repeats stored events and then differs names the first that differs.
        """
        store.append(make_header(), messages(600))
        given = [*messages(450, start=100), message(550, "other"), *messages(99, start=551)]

        with pytest.raises(SequenceConflict) as caught:
            store.append(make_header(), given)

        assert ("s1", 600, 550) == conflict_facts(caught.value)

    def test_conflict_stores_nothing_of_its_tail(self, store: EventStore) -> None:
        """
        A batch that differs from the log below its end adds nothing above it.
        """
        store.append(make_header(), messages(3))

        with pytest.raises(SequenceConflict):
            store.append(make_header(), [message(2, "other"), message(3), message(4)])

        assert messages(3) == read_all(store, "s1")

    @pytest.mark.parametrize(
        ("seqs", "refused"),
        [((0, 2), 2), ((0, 1, 1), 1), ((0, 1, 0), 0), ((0, 1, 2, 4, 5), 4)],
        ids=["gap", "twice", "back", "later-gap"],
    )
    def test_gap_inside_a_batch_is_refused(
        self, store: EventStore, seqs: tuple[int, ...], refused: int
    ) -> None:
        """
        A batch whose own seqs do not follow each other is refused whole.
        """
        with pytest.raises(InvalidSurface) as caught:
            store.append(make_header(), [message(seq) for seq in seqs])

        assert refused == caught.value.seq
        assert store.head("s1") is None

    def test_refused_batch_stores_nothing(self, store: EventStore) -> None:
        """
        A batch with one event that the fold refuses leaves log and surface as they were.
        """
        store.append(make_header(), messages(3))
        given = [message(3), message(4), summary(5, 3, 4, [3]), message(6)]

        with pytest.raises(InvalidSurface) as caught:
            store.append(make_header(), given)

        assert 5 == caught.value.seq
        assert messages(3) == read_all(store, "s1")
        assert [0, 1, 2] == store.snapshot("s1").nodes()
        assert 4 == store.append(make_header(), [message(3, "good")])

    def test_refused_batch_creates_nothing(self, store: EventStore) -> None:
        """
        A first batch that the fold refuses makes no session.
        """
        with pytest.raises(InvalidSurface):
            store.append(make_header(), [message(0), summary(1, 0, 0, [])])

        assert store.head("s1") is None
        assert [] == walk_heads(store)

    def test_d6_other_content_under_a_stored_seq_is_refused(self, store: EventStore) -> None:
        """
        An event with other content under a stored seq is a conflict, not a retry.
        """
        store.append(make_header(), messages(2))

        with pytest.raises(SequenceConflict) as caught:
            store.append(make_header(), [message(0, "other")])

        assert ("s1", 2, 0) == conflict_facts(caught.value)

    @pytest.mark.parametrize("broken", range(7))
    def test_order_of_refusals(self, root: Path, broken: int) -> None:
        """
        Of all that is wrong with an append, the first in the contract's order is told.

        The order is: closed, arguments, version, deleted, header, gap inside the batch,
        sequence, surface. The case *n* has everything wrong from the *n*-th on.
        """
        store = self.open_store(root)
        store.append(make_header(), messages(3))
        if broken <= 3:
            store.delete("s1")
        header: SessionHeader = make_header(
            cwd="/other" if broken <= 4 else None, version=1 if broken <= 2 else 0
        )
        events: list[Any] = [message(3), note(4), summary(5, 0, 4, [0])]
        if broken <= 6:
            events = [event_at(event, event.seq + 4) for event in events]
        if broken <= 5:
            events[1] = note(20)
        if broken <= 1:
            events[2] = {"seq": 9}
        if broken == 0:
            store.close()
        expected = (
            StoreClosed,
            InvalidArgument,
            UnsupportedFormat,
            SessionDeleted,
            HeaderConflict,
            InvalidSurface,
            SequenceConflict,
        )[broken]

        with store, pytest.raises(expected):
            store.append(header, events)

    @pytest.mark.parametrize(
        ("header", "events", "name"),
        [
            (None, [], "header"),
            ({"id": "s1"}, [], "header"),
            ("s1", [], "header"),
            (make_header(), None, "events"),
            (make_header(), 3, "events"),
            (make_header(), [{"seq": 0}], "events"),
            (make_header(), [message(0), None], "events"),
            (make_header(), "events", "events"),
        ],
    )
    def test_wrong_arguments_are_refused(
        self, store: EventStore, header: Any, events: Any, name: str
    ) -> None:
        """
        A header or events of another kind are refused, naming the argument.
        """
        with pytest.raises(InvalidArgument) as caught:
            store.append(header, events)

        assert name == caught.value.name
        assert [] == walk_heads(store)

    @pytest.mark.parametrize(
        "batches",
        [
            None,
            3,
            "batches",
            [None],
            [(make_header(), messages(1))],
            [Batch(make_header(), messages(1)), make_header("s2")],
        ],
        ids=repr,
    )
    def test_append_many_takes_batches(self, store: EventStore, batches: Any) -> None:
        """
        Anything but a sequence of batches is refused as a whole, naming the argument.
        """
        with pytest.raises(InvalidArgument) as caught:
            store.append_many(batches)

        assert "batches" == caught.value.name
        assert [] == walk_heads(store)

    def test_other_versions_are_not_written(self, store: EventStore) -> None:
        """
        A header of another format version is refused, naming it and the known ones.
        """
        with pytest.raises(UnsupportedFormat) as caught:
            store.append(make_header(version=1), messages(1))

        assert (1, [0], None) == (caught.value.found, caught.value.supported, caught.value.seq)
        assert store.head("s1") is None


def conflict_facts(error: SequenceConflict) -> tuple[str, int, int]:
    return error.session_id, error.expected, error.actual


def event_at(event: Event, seq: int) -> Event:
    """The same event under another seq; nothing is checked."""
    return Event.from_payload(
        seq, event.time, event.type, event.payload, event.surface_op, event.source_event_seqs
    )
