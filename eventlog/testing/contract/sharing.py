"""
The contract of sharing: threads on one store, and several stores of one place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from threading import Barrier
from threading import Event as Flag
from typing import TypeVar

import pytest

from eventlog.errors import SequenceConflict
from eventlog.store import EventStore
from eventlog.testing.contract.base import ContractBase, read_all, walk_heads
from eventlog.testing.naive import NaiveSurface
from eventlog.testing.samples import busy_log, make_header, message, messages, note, summary

__all__ = ["SharingContract"]

T = TypeVar("T")


class SharingContract(ContractBase):
    """What holds when threads, or several store objects, work at once."""

    @pytest.mark.parametrize("read_only", [False, True], ids=["writer", "reader"])
    def test_d10_other_store_sees_appends(
        self, store: EventStore, root: Path, read_only: bool
    ) -> None:
        """
        What one store has appended, another that was open before sees at its next read.

        A second object kept the last id that it had seen and returned nothing newer.
        """
        self.need_reopening()
        store.append(make_header(), messages(3))
        with self.open_store(root, read_only=read_only) as reader:
            assert messages(3) == read_all(reader, "s1")
            old = reader.snapshot("s1")
            assert [0, 1, 2] == old.nodes()
            token = reader.changes().token

            store.append(make_header(), [message(3), summary(4, 0, 1, [0, 1])])
            store.append(make_header("s2", parent_session="s1"), messages(1))

            head = reader.head("s1")
            assert head is not None
            assert 5 == head.length
            assert [message(3)] == reader.snapshot("s1").read(3, 4)
            assert [4, 2, 3] == reader.snapshot("s1").nodes()
            assert ["s1", "s2"] == [listed.header.id for listed in walk_heads(reader)]
            assert ["s2"] == [listed.header.id for listed in walk_heads(reader, parent="s1")]
            assert {"s1", "s2"} <= set(reader.changes(token).session_ids)
            assert (3, [0, 1, 2]) == (old.length, old.nodes())

    @pytest.mark.parametrize("read_only", [False, True], ids=["writer", "reader"])
    def test_other_store_sees_deletions(
        self, store: EventStore, root: Path, read_only: bool
    ) -> None:
        """
        What one store has deleted is gone for another that was open before.
        """
        self.need_reopening()
        store.append(make_header(), messages(3))
        with self.open_store(root, read_only=read_only) as other:
            assert 3 == len(read_all(other, "s1"))
            store.delete("s1", forget=True)
            assert other.head("s1") is None
            assert [] == walk_heads(other)

            store.append(make_header(created_at=7), [note(0), message(1)])
            assert [note(0), message(1)] == read_all(other, "s1")
            assert [1] == other.snapshot("s1").nodes()

    def test_two_stores_append_in_turn(self, store: EventStore, root: Path) -> None:
        """
        Two stores of one place may write a session in turn; each is judged on all of it.
        """
        self.need_reopening()
        events = busy_log(40)
        with self.open_store(root) as other:
            for seq in range(0, 40, 4):
                writer = (store, other)[seq // 4 % 2]
                assert seq + 4 == writer.append(make_header(), events[seq : seq + 4])
                assert events[: seq + 4] == read_all(store, "s1") == read_all(other, "s1")
            with pytest.raises(SequenceConflict) as caught:
                store.append(make_header(), [message(39, "other")])
            assert (40, 39) == (caught.value.expected, caught.value.actual)
        assert NaiveSurface(events).nodes == store.snapshot("s1").nodes()

    def test_d12_threads_append_to_one_session(self, store: EventStore) -> None:
        """
        Threads that append to one session through one store lose and double nothing.

        A lock that was made anew for each call excluded nobody.
        """
        self._race([store] * self.threads)

    def test_d12_stores_append_to_one_session(self, store: EventStore, root: Path) -> None:
        """
        Threads that append to one session, each through its own store, do so too.
        """
        self.need_reopening()
        others = [self.open_store(root) for _ in range(self.threads - 1)]
        try:
            self._race([store, *others])
        finally:
            for other in others:
                other.close()

    def test_threads_append_to_their_own_sessions(self, store: EventStore) -> None:
        """
        Threads that write one session each do not meet: no append is refused.
        """
        barrier = Barrier(self.threads)

        def write(number: int) -> None:
            barrier.wait()
            for seq in range(self.appends_a_thread):
                assert seq + 1 == store.append(make_header(f"s{number:02}"), [message(seq)])

        run_in_threads(self.threads, write)

        names = [f"s{number:02}" for number in range(self.threads)]
        assert names == [head.header.id for head in walk_heads(store)]
        for name in names:
            assert messages(self.appends_a_thread) == read_all(store, name)

    def test_readers_see_whole_prefixes(self, store: EventStore) -> None:
        """
        While one thread appends and compacts, others read only logs that were there.
        """
        events = [message(0)]
        for seq in range(1, 120):
            last = seq - 1
            step = [message(seq)] if seq % 3 else [summary(seq, last, last, [last])]
            events += step
        done = Flag()

        def read(_: int) -> None:
            seen = 0
            while not done.is_set():
                head = store.head("s1")
                if head is None:
                    continue
                snapshot = store.snapshot("s1")
                assert seen <= head.length <= snapshot.length
                seen = snapshot.length
                assert events[:seen] == snapshot.read(0, seen)
                assert NaiveSurface(events[:seen]).nodes == snapshot.nodes()

        def write(number: int) -> None:
            if number:
                return read(number)
            try:
                for start in range(0, len(events), 4):
                    store.append(make_header(), events[start : start + 4])
            finally:
                done.set()
            return None

        run_in_threads(3, write)
        assert events == read_all(store, "s1")

    def _race(self, stores: Sequence[EventStore]) -> None:
        """Append from one thread for each store until each has had its events accepted."""
        barrier = Barrier(len(stores))
        total = len(stores) * self.appends_a_thread

        def write(number: int) -> list[int]:
            store, seq = stores[number], 0
            accepted: list[int] = []
            barrier.wait()
            # Each conflict means that another append was accepted, so that there are at
            # most as many as all appends together.
            for _ in range(total + self.appends_a_thread):
                if len(accepted) == self.appends_a_thread:
                    break
                try:
                    store.append(make_header(), [note(seq, {"writer": number})])
                except SequenceConflict as conflict:
                    seq = conflict.expected
                else:
                    accepted.append(seq)
                    seq += 1
            return accepted

        accepted = run_in_threads(len(stores), write)

        for store in (stores[0], stores[-1]):
            events = read_all(store, "s1")
            assert list(range(total)) == [event.seq for event in events]
            for number, seqs in enumerate(accepted):
                assert seqs == [e.seq for e in events if e.data["writer"] == number]
                assert all(earlier < later for earlier, later in pairwise(seqs))


def run_in_threads(count: int, work: Callable[[int], T]) -> list[T]:
    """Run *work* with 0 … *count* - 1, each in a thread, and return what they returned."""
    with ThreadPoolExecutor(count) as pool:
        return [future.result(60) for future in [pool.submit(work, n) for n in range(count)]]
