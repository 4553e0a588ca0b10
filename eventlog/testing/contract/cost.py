"""
The contract of cost: what each read may touch, counted by the store's meter.

A bound is the same for a short and a long log; the meter itself is held to count what
is read, so that a store cannot keep a bound by not counting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import log2
from pathlib import Path
from typing import Any

import pytest

from eventlog.model import Batch, Event, EventClass
from eventlog.snapshot import LogSnapshot, ScanMeter
from eventlog.store import EventStore
from eventlog.testing.contract.base import ContractBase, walk_heads
from eventlog.testing.samples import busy_log, make_header, message, note

__all__ = ["CostContract"]

# A header, and the end of the log, where it is not kept beside the header.
RECORDS_A_HEAD = 2

# A head beside the answer, and the end of a log that a file has to be asked for.
RECORDS_BESIDE = 3

# Rows that a walk down a tree, or steps in a file, may look at for each halving of a log.
PROBES_A_LEVEL = 4


class CostContract(ContractBase):
    """What each read may touch."""

    def test_meter_counts_what_is_read(self, store: EventStore) -> None:
        """
        The meter counts each event and header that is read, with its bytes, until reset.
        """
        events = [message(seq, "x" * 1_000) for seq in range(20)]
        store.append(make_header(), events)
        snapshot = store.snapshot("s1")

        store.meter.reset()
        snapshot.read(5, 15)
        assert store.meter.records >= 10
        assert store.meter.bytes >= 10_000
        before = store.meter.records
        store.heads()
        assert store.meter.records + store.meter.names > before
        snapshot.nodes()
        assert store.meter.probes >= 20
        store.meter.reset()
        assert (0, 0, 0, 0) == meter_facts(store)

    def test_window_costs_its_events(self, logs: Logs) -> None:
        """
        A window of 11 in a long log reads 11 events; where it stands changes nothing.
        """
        for length in logs.lengths:
            for start in (0, length // 3, length - 11):
                snapshot = logs.snapshot(length)
                cost = logs.cost(snapshot.read, start, start + 11)
                assert 11 <= cost.records <= 11 + RECORDS_BESIDE
                assert cost.probes <= PROBES_A_LEVEL * log2(length)
                assert cost.bytes <= 100 * 300

    def test_g1_tail_costs_its_events(self, logs: Logs) -> None:
        """
        The last 50 events of a long log cost 50 events, their snapshot included.

        Going on with a large log took tens of gigabytes of memory.
        """
        for length in logs.lengths:
            cost = logs.cost(logs.read, length, length - 50, length)
            assert 50 <= cost.records <= 50 + RECORDS_BESIDE
            assert cost.probes <= PROBES_A_LEVEL * log2(length)

    def test_length_of_the_log_costs_nothing(self, logs: Logs) -> None:
        """
        A window, a tail and a class touch as many records of a long log as of a short one.
        """
        costs = []
        for length in logs.lengths:
            warm = logs.warm(length)
            window = logs.cost(logs.read, length, length // 2, length // 2 + 11).records
            tail = logs.cost(logs.read, length, length - 50, length).records
            classes = logs.cost(warm.classify, length // 2).records
            costs.append((window, tail, classes, logs.cost(warm.nodes).records))

        assert costs[0] == costs[1]

    def test_head_costs_a_record(self, logs: Logs) -> None:
        """
        Head and snapshot cost the same for every length.
        """
        for length in logs.lengths:
            cost = logs.cost(logs.store.head, name_of(length))
            assert cost.records <= RECORDS_BESIDE
            assert cost.probes <= PROBES_A_LEVEL * log2(length)

    def test_class_costs_a_lookup(self, logs: Logs) -> None:
        """
        The class of one event, and what stands for it, cost a lookup and no payload.
        """
        for length in logs.lengths:
            snapshot = logs.warm(length)
            for seq, expected in (
                (0, EventClass.SHADOWED),
                (1, EventClass.LOG_ONLY),
                (length - 1, EventClass.CURRENT),
            ):
                cost = logs.cost(snapshot.classify, seq)
                assert expected is snapshot.classify(seq)
                assert 0 == cost.records
                assert cost.probes <= PROBES_A_LEVEL * log2(length)
                cost = logs.cost(snapshot.stand_in, seq)
                assert 0 == cost.records
                assert cost.probes <= 3 * PROBES_A_LEVEL * log2(length)
            first = logs.cost(partial(snapshot.nodes, limit=1))
            assert (0, True) == (first.records, first.probes <= PROBES_A_LEVEL * log2(length))

    def test_trace_costs_its_answer(self, logs: Logs) -> None:
        """
        What replaced an event, what it replaced and who cites it cost rows of the answer.
        """
        for length in logs.lengths:
            snapshot = logs.warm(length)
            seq = length // 2 - 1
            assert 9 <= len(snapshot.replaced(seq)) <= 11
            for ask in (
                partial(snapshot.replaced, seq),
                partial(snapshot.citing, seq),
                partial(snapshot.replaced_by, seq - 5, seq + 6),
            ):
                cost = logs.cost(ask)
                assert 0 == cost.records
                assert cost.probes <= 11 + PROBES_A_LEVEL * log2(length)

    def test_g5_surface_costs_its_nodes(self, logs: Logs) -> None:
        """
        A small surface in a long log costs its nodes, whole or page by page.

        Fourteen messages stood among thousands of progress lines; showing them read all.
        """
        for length in logs.lengths:
            snapshot = logs.warm(length)
            nodes = snapshot.nodes()
            assert len(nodes) <= 11
            for ask in (snapshot.nodes, partial(snapshot.nodes, after=nodes[0])):
                cost = logs.cost(ask)
                assert 0 == cost.records
                assert cost.probes <= len(nodes) + 2 * PROBES_A_LEVEL * log2(length)

    def test_surface_costs_its_nodes_at_once(self, logs: Logs, root: Path) -> None:
        """
        A store that bounds its surface reads costs no more at its first one.
        """
        self.need_capability(logs.store, "bounded_surface")
        self.need_reopening()
        for length in logs.lengths:
            with self.open_store(logs.root) as store:
                store.meter.reset()
                snapshot = store.snapshot(name_of(length))
                snapshot.nodes()
                snapshot.classify(0)
                assert store.meter.records <= RECORDS_BESIDE
                assert store.meter.probes <= 11 + 3 * PROBES_A_LEVEL * log2(length)

    def test_tail_is_folded_once(self, logs: Logs) -> None:
        """
        After an append a surface read costs the tail at most, not the log again.
        """
        length = logs.lengths[-1]
        store, header = logs.store, make_header("grows")
        if store.head("grows") is None:
            store.append(header, busy_log(length))
        store.snapshot("grows").nodes()
        next_seq = store.append(header, [])
        store.append(header, [note(seq) for seq in range(next_seq, next_seq + 5)])

        cost = logs.cost(lambda: store.snapshot("grows").nodes())
        assert cost.records <= 5 + RECORDS_BESIDE
        assert cost.probes <= 11 + 2 * PROBES_A_LEVEL * log2(length)

    def test_append_costs_its_events(self, logs: Logs) -> None:
        """
        An append to a long log reads no more of it than one to a short log.
        """
        for length in logs.lengths:
            header = make_header(name_of(length))
            last = logs.snapshot(length).read(length - 1, length)
            cost = logs.cost(logs.store.append, header, last)
            assert cost.records <= 1 + RECORDS_BESIDE
            assert cost.bytes <= 100 * 300

    def test_g9_pages_of_a_long_log(self, logs: Logs) -> None:
        """
        Reading a log page by page costs its bytes a few times at most, each page alike.

        Paging through a long run cost more and more for each page.
        """
        length = logs.lengths[-1]
        size = sum(len(event.payload) for event in logs.snapshot(length).read(0, length))
        costs = []
        for start in range(0, length, 100):
            cost = logs.cost(lambda at=start: logs.snapshot(length).read(at, at + 100))
            assert 100 <= cost.records <= 100 + RECORDS_BESIDE
            costs.append(cost.bytes)
        # A summary cites its sources, so pages are not all of one size.
        assert sum(costs) <= 3 * (size + 100 * length)
        assert max(costs[len(costs) // 2 :]) <= 1.5 * max(costs[: len(costs) // 2])

    @pytest.mark.parametrize("limit", [1, 10, 50])
    def test_g2_page_of_heads_costs_its_heads(self, crowd: EventStore, limit: int) -> None:
        """
        A page of heads costs its heads, wherever it stands among however many sessions.

        A picker parsed every transcript before it showed the first.
        """
        first = crowd.heads(limit=limit)
        middle = crowd.heads(limit=self.crowd_sessions // 2).next_key
        for after in (None, first.next_key, middle):
            crowd.meter.reset()
            page = crowd.heads(after=after, limit=limit)
            assert limit == len(page.items)
            assert crowd.meter.records <= RECORDS_A_HEAD * limit + RECORDS_BESIDE
            assert crowd.meter.probes <= limit + PROBES_A_LEVEL * log2(self.crowd_sessions)

    def test_children_cost_themselves(self, crowd: EventStore) -> None:
        """
        The children of a session cost no more than they are, among however many sessions.
        """
        self.need_index("children")
        crowd.heads(limit=1)
        children = self.crowd_sessions // 10
        for parent, count in (("c000000", children), ("c000001", 0)):
            crowd.meter.reset()
            assert count == len(walk_heads(crowd, parent=parent, limit=count + 1))
            assert crowd.meter.records <= RECORDS_A_HEAD * count + RECORDS_BESIDE
            assert crowd.meter.probes <= count + PROBES_A_LEVEL * log2(self.crowd_sessions)

    def test_g8_stored_bytes_are_those_of_the_events(self, store: EventStore, root: Path) -> None:
        """
        A thousand turns of a kilobyte take what they are, times a small factor.

        Each step stored the whole state again; thirty-two threads took a gigabyte.
        """
        self.need_reopening()
        sizes = []
        for start in range(0, 1_000, 50):
            events = [message(seq, "x" * 1_000) for seq in range(start, start + 50)]
            sizes.append(sum(len(event.payload) for event in events))
            store.append(make_header(), events)
            if start == 450:
                half = stored_bytes(root)
        store.close()

        assert stored_bytes(root) <= self.storage_factor_max * sum(sizes)
        assert stored_bytes(root) <= 2.5 * half, "growth is linear"

    @pytest.fixture(scope="class")
    @classmethod
    def logs(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logs]:
        """A store with a short and a long log whose surfaces are small."""
        root = tmp_path_factory.mktemp("logs") / "store"
        lengths = (cls.short_log_events, cls.long_log_events)
        with cls().open_store(root) as store:
            for length in lengths:
                events = busy_log(length)
                for start in range(0, length, 1_000):
                    batch = Batch(make_header(name_of(length)), events[start : start + 1_000])
                    store.append(batch.header, batch.events)
            yield Logs(store, root, lengths)


class Logs:
    """Logs of several lengths in one store, and what a read of them costs."""

    def __init__(self, store: EventStore, root: Path, lengths: tuple[int, ...]) -> None:
        self.store = store
        self.root = root
        self.lengths = lengths

    def snapshot(self, length: int) -> LogSnapshot:
        """A snapshot of the log of that length."""
        return self.store.snapshot(name_of(length))

    def warm(self, length: int) -> LogSnapshot:
        """A snapshot whose surface was read before, as it is after a process's one pass."""
        snapshot = self.snapshot(length)
        snapshot.nodes(limit=1)
        return snapshot

    def read(self, length: int, start: int, stop: int) -> list[Event]:
        """A window of the log of that length, its snapshot included."""
        return self.snapshot(length).read(start, stop)

    def cost(self, read: Callable[..., object], *arguments: Any) -> ScanMeter:
        """The meter's counts for one read."""
        self.store.meter.reset()
        read(*arguments)
        return self.store.meter


def name_of(length: int) -> str:
    return f"log-{length}"


def meter_facts(store: EventStore) -> tuple[int, int, int, int]:
    meter = store.meter
    return meter.records, meter.probes, meter.names, meter.bytes


def stored_bytes(root: Path) -> int:
    """Bytes that the files below *root* take on the medium; holes take none."""
    return sum(path.stat().st_blocks * 512 for path in root.rglob("*") if path.is_file())
