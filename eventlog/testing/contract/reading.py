"""
The contract of reading one session: heads, windows, snapshots of a length.
"""

from __future__ import annotations

from typing import Any

import pytest

from eventlog.errors import InvalidArgument, SessionNotFound, ValueRejected
from eventlog.snapshot import LogSnapshot
from eventlog.store import EventStore
from eventlog.testing.contract.base import ContractBase, read_all
from eventlog.testing.samples import make_header, message, messages, note

__all__ = ["BAD_INDEXES", "ReadContract"]

BAD_INDEXES: tuple[Any, ...] = (-1, -5, True, False, 1.0, "1", None, [0])


class ReadContract(ContractBase):
    """What ``head``, ``snapshot`` and a snapshot's ``read`` promise."""

    def test_head_tells_header_length_and_last_time(self, store: EventStore) -> None:
        """
        The head of a session has its header, its next free seq and its last event's time.
        """
        header = make_header(cwd="/w", extra={"k": [1, 2]})
        store.append(header, [note(0, time=7), note(1, time=5)])

        head = store.head("s1")

        assert head is not None
        assert (header, 2, 5) == (head.header, head.length, head.last_time)
        store.append(header, [note(2, time=9)])
        assert 2 == head.length, "a head is a value and does not change"
        assert 3 == store.head("s1").length  # type: ignore[union-attr]

    def test_head_of_an_unknown_session(self, store: EventStore) -> None:
        """
        An unknown id has no head.
        """
        assert store.head("s1") is None

    def test_snapshot_of_an_unknown_session(self, store: EventStore) -> None:
        """
        An unknown id has no snapshot; the error names it.
        """
        with pytest.raises(SessionNotFound) as caught:
            store.snapshot("nope")

        assert "nope" == caught.value.session_id

    @pytest.mark.parametrize("asked", ["abc", "ab", "ABCD", "abcd ", "abcde", "zzz", "%", "abc_"])
    def test_h12_ids_match_exactly(self, store: EventStore, asked: str) -> None:
        """
        No part, case or pattern of an id finds its session.

        A lookup by prefix opened another session than the one that was asked for.
        """
        store.append(make_header("abcd"), messages(1))
        store.append(make_header("abce"), messages(1))

        assert store.head(asked) is None
        with pytest.raises(SessionNotFound):
            store.snapshot(asked)
        assert store.head(asked) is None, "asking creates nothing"

    def test_windows_are_half_open_and_clipped(self, store: EventStore) -> None:
        """
        Every window of a log is exactly its slice.
        """
        events = messages(7)
        store.append(make_header(), events)
        snapshot = store.snapshot("s1")

        for start in range(10):
            for stop in range(10):
                assert events[start:stop] == snapshot.read(start, stop), (start, stop)

    def test_windows_of_a_long_log(self, store: EventStore) -> None:
        """
        Windows anywhere in a log of thousands of events are exactly their slices.
        """
        events = [message(seq, "x" * (seq * 37 % 211)) for seq in range(2_100)]
        store.append(make_header(), events)
        snapshot = store.snapshot("s1")

        for start in (0, 1, 254, 255, 256, 511, 1_022, 1_023, 1_024, 1_025, 2_047, 2_089, 2_099):
            for size in (1, 2, 11, 300):
                assert events[start : start + size] == snapshot.read(start, start + size)

    def test_windows_across_appends(self, store: EventStore) -> None:
        """
        A window does not show where one append ended and the next began.
        """
        for start in range(0, 12, 3):
            store.append(make_header(), messages(3, start=start))
        snapshot = store.snapshot("s1")

        assert [messages(5, start=at) for at in range(8)] == [
            snapshot.read(at, at + 5) for at in range(8)
        ]

    def test_windows_of_one_session_only(self, store: EventStore) -> None:
        """
        Sessions written in turn do not show in each other's windows.
        """
        for seq in range(5):
            for session_id in ("a", "b", "ab"):
                store.append(make_header(session_id), [message(seq, f"{session_id} {seq}")])

        for session_id in ("a", "b", "ab"):
            expected = [message(seq, f"{session_id} {seq}") for seq in range(5)]
            assert expected == read_all(store, session_id)

    def test_d9_windows_beyond_the_log_are_empty(self, store: EventStore) -> None:
        """
        A window past the end, or whose end is not behind its start, is empty.
        """
        store.append(make_header(), messages(2))
        snapshot = store.snapshot("s1")

        for start, stop in ((2, 3), (2, 2), (0, 0), (1, 0), (10**9, 10**9 + 1), (5, 10**18)):
            assert [] == snapshot.read(start, stop)
        assert messages(2) == snapshot.read(0, 2**62)

    @pytest.mark.parametrize("bad", BAD_INDEXES, ids=repr)
    def test_d9_window_bounds_are_ints_from_0(self, store: EventStore, bad: Any) -> None:
        """
        A bound that is negative, a bool or no int is refused by name.

        A negative cursor was answered with a made-up gap in a healthy log.
        """
        store.append(make_header(), messages(2))
        snapshot = store.snapshot("s1")

        with pytest.raises(InvalidArgument) as caught:
            snapshot.read(bad, 2)
        assert "start" == caught.value.name
        with pytest.raises(InvalidArgument) as caught:
            snapshot.read(0, bad)
        assert "stop" == caught.value.name

    def test_snapshot_at_each_length(self, store: EventStore) -> None:
        """
        A snapshot may be taken as of any earlier length, and shows nothing later.
        """
        events = messages(5)
        store.append(make_header(), events)

        for length in range(6):
            snapshot = store.snapshot("s1", at=length)
            assert length == snapshot.length
            assert events[:length] == snapshot.read(0, 10)
            assert list(range(length)) == snapshot.nodes()

    @pytest.mark.parametrize("bad", [3, 10**9, *(bad for bad in BAD_INDEXES if bad is not None)])
    def test_snapshot_length_is_within_the_log(self, store: EventStore, bad: Any) -> None:
        """
        A length that is beyond the log, negative or no int is refused.
        """
        store.append(make_header(), messages(2))

        with pytest.raises(InvalidArgument) as caught:
            store.snapshot("s1", at=bad)

        assert "at" == caught.value.name

    def test_snapshot_does_not_grow(self, store: EventStore) -> None:
        """
        What is appended after a snapshot was taken does not show in it.
        """
        store.append(make_header(), messages(3))
        snapshot = store.snapshot("s1")
        store.append(make_header(), messages(4, start=3))

        assert 3 == snapshot.length
        assert messages(3) == snapshot.read(0, 10)
        assert [] == snapshot.read(3, 5)
        assert [0, 1, 2] == snapshot.nodes()
        with pytest.raises(InvalidArgument):
            snapshot.classify(3)

    def test_snapshot_is_a_log_snapshot(self, store: EventStore) -> None:
        """
        A snapshot has every method of the protocol, and its session's header.
        """
        store.append(make_header(cwd="/w"), messages(1))
        snapshot = store.snapshot("s1")

        assert isinstance(snapshot, LogSnapshot)
        assert make_header(cwd="/w") == snapshot.header

    def test_results_are_detached(self, store: EventStore) -> None:
        """
        A caller may change everything it was given; the next reader sees nothing of it.
        """
        data = {"list": [1, {"deep": "value"}], "text": "t"}
        header = make_header(extra={"k": ["v"]})
        store.append(header, [note(0, data)])
        data["list"].append("caller")  # type: ignore[attr-defined]

        snapshot = store.snapshot("s1")
        for _ in range(2):
            read = snapshot.read(0, 1)
            assert {"list": [1, {"deep": "value"}], "text": "t"} == read[0].data
            assert {"k": ["v"]} == snapshot.header.extra
            read[0].data["list"][1]["deep"] = "changed"
            read[0].data.clear()
            read.clear()
            snapshot.header.extra["k"].append("changed")
            snapshot.nodes().append(99)
            snapshot.replaced_by(0, 1)[0] = 99
            snapshot.replaced(0).append(99)
            snapshot.citing(0).append(99)
        assert [] == snapshot.nodes() == snapshot.replaced(0) == snapshot.citing(0)
        assert {} == snapshot.replaced_by(0, 1)

    @pytest.mark.parametrize("bad", ["", "a\x00b", "a\nb", "\x7f", "a" * 256, "日" * 86, 1, None])
    def test_reads_refuse_what_is_no_id(self, store: EventStore, bad: Any) -> None:
        """
        Every call that takes an id refuses what no session can have.
        """
        for call in (store.head, store.snapshot, store.children, store.delete):
            with pytest.raises(ValueRejected):
                call(bad)
