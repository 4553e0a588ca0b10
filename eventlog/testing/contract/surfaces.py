"""
The contract of the surface: replacements, classes, citations, and the past of all of them.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from eventlog.errors import InvalidArgument, InvalidSurface
from eventlog.model import APPEND, Event, EventClass, Replace
from eventlog.store import EventStore
from eventlog.testing.contract.base import ContractBase, read_all, surface_facts
from eventlog.testing.contract.reading import BAD_INDEXES
from eventlog.testing.naive import NaiveSurface
from eventlog.testing.samples import (
    make_header,
    message,
    messages,
    note,
    random_log,
    summary,
    tool_result,
)

__all__ = ["SurfaceContract"]

CURRENT, SHADOWED, LOG_ONLY = EventClass.CURRENT, EventClass.SHADOWED, EventClass.LOG_ONLY


class SurfaceContract(ContractBase):
    """What the surface methods of a snapshot promise."""

    def test_ops_put_events_on_the_surface(self, store: EventStore) -> None:
        """
        An event is a node exactly when it has a surface op, whatever its type.
        """
        events = [
            message(0),
            note(1),
            Event(2, 0, "x/card", {}, surface_op=APPEND),
            Event(3, 0, "assistant/message", {}, surface_op=APPEND, source_event_seqs=[]),
            Event(4, 0, "turn/end", {}),
            tool_result(5, "c1"),
        ]
        store.append(make_header(), events)
        snapshot = store.snapshot("s1")

        assert [0, 2, 3, 5] == snapshot.nodes()
        classes = [CURRENT, LOG_ONLY, CURRENT, CURRENT, LOG_ONLY, CURRENT]
        assert classes == [snapshot.classify(seq) for seq in range(6)]

    def test_f6_replacement_stands_where_its_range_began(self, store: EventStore) -> None:
        """
        A replacement takes the place of its range; the nodes behind it stay.

        Summarising an older part dropped all messages instead.
        """
        store.append(make_header(), [*messages(4), summary(4, 0, 1, [0, 1])])
        snapshot = store.snapshot("s1")

        assert [4, 2, 3] == snapshot.nodes()
        assert {0: 4, 1: 4} == snapshot.replaced_by(0, 5)
        assert [0, 1] == snapshot.replaced(4)
        classes = [SHADOWED, SHADOWED, CURRENT, CURRENT, CURRENT]
        assert classes == [snapshot.classify(seq) for seq in range(5)]

    def test_nested_replacements(self, store: EventStore) -> None:
        """
        A replacement that is itself replaced is shadowed, and so are all below it.
        """
        events = [
            *messages(5),
            summary(5, 1, 2, [1, 2]),
            summary(6, 0, 5, [0, 5]),
            message(7),
            summary(8, 6, 4, [6, 3, 4]),
            note(9),
        ]
        store.append(make_header(), events)
        snapshot = store.snapshot("s1")

        assert [8, 7] == snapshot.nodes()
        assert {0: 6, 1: 5, 2: 5, 3: 8, 4: 8, 5: 6, 6: 8} == snapshot.replaced_by(0, 10)
        assert [[1, 2], [0, 5], [6, 3, 4]] == [snapshot.replaced(seq) for seq in (5, 6, 8)]
        expected = [*[SHADOWED] * 7, CURRENT, CURRENT, LOG_ONLY]
        assert expected == [snapshot.classify(seq) for seq in range(10)]
        assert [*[8] * 7, 7, 8, None] == [snapshot.stand_in(seq) for seq in range(10)]

    def test_f2_shadowed_bound_is_refused(self, store: EventStore) -> None:
        """
        A range whose start was replaced before is refused; the one that covers it is not.

        A second compaction started inside the first; everything between was lost.
        """
        events = [*messages(4), summary(4, 0, 2, [0, 1, 2]), message(5), message(6)]
        store.append(make_header(), events)

        with pytest.raises(InvalidSurface) as caught:
            store.append(make_header(), [summary(7, 1, 5, [1, 2, 3, 4, 5])])

        assert 7 == caught.value.seq
        store.append(make_header(), [summary(7, 4, 5, [4, 3, 5])])
        assert [7, 6] == store.snapshot("s1").nodes()

    def test_f1_missing_source_is_refused(self, store: EventStore) -> None:
        """
        A replacement that cites an event that does not exist yet is refused.
        """
        store.append(make_header(), messages(6))

        with pytest.raises(InvalidSurface) as caught:
            store.append(make_header(), [summary(6, 3, 5, [3, 4, 5, 7])])

        assert 6 == caught.value.seq
        assert messages(6) == read_all(store, "s1")

    def test_f8_empty_replacements_are_refused(self, store: EventStore) -> None:
        """
        A range that ends before it starts, no sources, and a source named twice are refused.

        Condensing nothing ended the conversation.
        """
        store.append(make_header(), messages(4))

        for refused in (
            summary(4, 2, 1, [1, 2]),
            summary(4, 1, 2, []),
            summary(4, 1, 2, [1, 2, 1]),
        ):
            with pytest.raises(InvalidSurface) as caught:
                store.append(make_header(), [refused])
            assert 4 == caught.value.seq
        assert messages(4) == read_all(store, "s1")
        assert 5 == store.append(make_header(), [summary(4, 1, 2, [1, 2])])

    def test_range_is_in_surface_order(self, store: EventStore) -> None:
        """
        Start and end are places on the surface; the start's seq may be the greater one.
        """
        store.append(make_header(), [*messages(4), summary(4, 0, 1, [0, 1])])

        with pytest.raises(InvalidSurface):
            store.append(make_header(), [summary(5, 2, 4, [2, 4])])
        assert 6 == store.append(make_header(), [summary(5, 4, 2, [4, 2])])
        assert [5, 3] == store.snapshot("s1").nodes()

    @pytest.mark.parametrize(
        "refused",
        [
            Event(3, 0, "user/message", {}),
            Event(3, 0, "assistant/message", {}),
            Event(3, 0, "tool/result", {}),
            Event(3, 0, "turn/start", {}, surface_op=APPEND),
            Event(3, 0, "todo/write", {}, surface_op=Replace(0, 0), source_event_seqs=[0]),
            Event(3, 0, "tool/call", {}, source_event_seqs=[0]),
            Event(3, 0, "session/end-seed", {}, surface_op=APPEND),
            Event(3, 0, "x/note", {}, source_event_seqs=[]),
            Event(3, 0, "x/note", {}, source_event_seqs=[3]),
            Event(3, 0, "x/note", {}, source_event_seqs=[1, 1]),
            Event(3, 0, "x/card", {}, surface_op=Replace(0, 1)),
            Event(3, 0, "x/card", {}, surface_op=Replace(0, 1), source_event_seqs=[0]),
            Event(3, 0, "x/card", {}, surface_op=Replace(0, 3), source_event_seqs=[0]),
            Event(3, 0, "x/card", {}, surface_op=Replace(2, 2), source_event_seqs=[2]),
            Event(3, 0, "x/card", {}, surface_op=Replace(9, 9), source_event_seqs=[0]),
        ],
        ids=lambda event: f"{event.type} {event.surface_op} {event.source_event_seqs}",
    )
    def test_rules_of_the_fold_hold(self, store: EventStore, refused: Event) -> None:
        """
        Each rule of the fold refuses an event that breaks it, and leaves the log usable.
        """
        held = [*messages(2), note(2)]
        store.append(make_header(), held)

        with pytest.raises(InvalidSurface) as caught:
            store.append(make_header(), [refused])

        assert 3 == caught.value.seq
        assert held == read_all(store, "s1")
        assert 4 == store.append(make_header(), [message(3)])

    def test_tool_result_is_rewritten_in_content_only(self, store: EventStore) -> None:
        """
        A rewrite of a tool result may change its content, and nothing else of it.
        """
        store.append(make_header(), [tool_result(0, "c1", "long"), message(1)])
        for refused in (
            tool_result(2, "c2", "short", replaces=0),
            tool_result(2, "c1", "short", replaces=1),
        ):
            with pytest.raises(InvalidSurface):
                store.append(make_header(), [refused])

        assert 3 == store.append(make_header(), [tool_result(2, "c1", "short", replaces=0)])
        assert 4 == store.append(make_header(), [tool_result(3, "c1", "x", replaces=2)])
        assert [3, 1] == store.snapshot("s1").nodes()

    def test_tool_result_is_rewritten_within_a_batch(self, store: EventStore) -> None:
        """
        A batch may rewrite a result that it brings itself.
        """
        store.append(make_header(), [message(0)])

        store.append(
            make_header(), [tool_result(1, "c1", "long"), tool_result(2, "c1", "x", replaces=1)]
        )
        assert [0, 2] == store.snapshot("s1").nodes()

    def test_f4_surface_is_the_same_after_reopening(self, store: EventStore, root: Path) -> None:
        """
        Surface and classes are those of the running store after the log is opened anew.

        After a resume the compaction was undone; the context had its old size again.
        """
        store.append(make_header(), messages(10))
        store.append(make_header(), [summary(10, 0, 8, list(range(9)))])
        running = surface_facts(store.snapshot("s1"))

        with self.reopened(store, root) as again:
            assert [10, 9] == again.snapshot("s1").nodes()
            assert running == surface_facts(again.snapshot("s1"))

    def test_surface_goes_on_after_reopening(self, store: EventStore, root: Path) -> None:
        """
        Appends to a log opened anew are judged and folded on top of what it held.
        """
        self.need_reopening()
        events = random_log(Random(5).randrange, 60)
        store.append(make_header(), events[:20])
        for start in (20, 40):
            store = self.reopened(store, root)
            with pytest.raises(InvalidSurface):
                store.append(make_header(), [summary(start, start - 1, 10**6, [0])])
            store.append(make_header(), events[start : start + 20])
        assert surface_facts(NaiveSurface(events)) == surface_facts(store.snapshot("s1"))
        store.close()

    @pytest.mark.parametrize("seed", range(3))
    def test_surface_at_every_length(self, store: EventStore, seed: int) -> None:
        """
        The surface as of any length is the fold of that many events.
        """
        events = random_log(Random(seed).randrange, 60)
        store.append(make_header(), events)

        for length in range(61):
            expected = surface_facts(NaiveSurface(events[:length]))
            assert expected == surface_facts(store.snapshot("s1", at=length)), length

    @pytest.mark.parametrize("seed", range(3))
    def test_old_snapshots_stay_right(self, store: EventStore, seed: int) -> None:
        """
        Snapshots taken while the log grows and compacts answer ever after as they did.
        """
        events = random_log(Random(100 + seed).randrange, 60)
        taken = []
        for start in range(0, 60, 4):
            store.append(make_header(), events[start : start + 4])
            taken.append(store.snapshot("s1"))

        for number, snapshot in enumerate(taken):
            length = 4 * number + 4
            assert events[:length] == snapshot.read(0, 100)
            assert surface_facts(NaiveSurface(events[:length])) == surface_facts(snapshot)

    def test_nodes_page_by_page(self, store: EventStore) -> None:
        """
        Pages of any size behind any node give the rest of the surface, at any length.
        """
        events = random_log(Random(42).randrange, 60)
        store.append(make_header(), events)

        for length in (60, 41, 23):
            nodes = NaiveSurface(events[:length]).nodes
            snapshot = store.snapshot("s1", at=length)
            assert len(nodes) > 2
            for limit in (1, 2, 3, None):
                assert nodes[:limit] == snapshot.nodes(limit=limit)
                for place, node in enumerate(nodes):
                    rest = nodes[place + 1 :]
                    assert rest[:limit] == snapshot.nodes(after=node, limit=limit)
            assert [] == snapshot.nodes(limit=0)

    def test_nodes_of_an_empty_surface(self, store: EventStore) -> None:
        """
        A log without nodes, or without events, has an empty surface.
        """
        store.append(make_header(), [note(0)])

        assert [] == store.snapshot("s1").nodes()
        assert [] == store.snapshot("s1", at=0).nodes()
        assert {} == store.snapshot("s1", at=0).replaced_by(0, 5)

    def test_nodes_start_behind_a_node(self, store: EventStore) -> None:
        """
        A page starts behind a node of this surface; anything else is refused by name.
        """
        events = [*messages(3), note(3), summary(4, 0, 1, [0, 1]), message(5)]
        store.append(make_header(), events)
        snapshot = store.snapshot("s1", at=5)

        for bad in (0, 3, 5, 6, 10**9, *(bad for bad in BAD_INDEXES if bad is not None)):
            with pytest.raises(InvalidArgument) as caught:
                snapshot.nodes(after=bad)
            assert "after" == caught.value.name
        for bad in (bad for bad in BAD_INDEXES if bad is not None):
            with pytest.raises(InvalidArgument) as caught:
                snapshot.nodes(limit=bad)
            assert "limit" == caught.value.name
        assert [0] == store.snapshot("s1", at=3).nodes(after=None, limit=1)

    @pytest.mark.parametrize("bad", [4, 10**9, *BAD_INDEXES], ids=repr)
    def test_seqs_are_within_the_snapshot(self, store: EventStore, bad: Any) -> None:
        """
        A seq that the snapshot does not have, or that is none, is refused by name.
        """
        store.append(make_header(), messages(6))
        snapshot = store.snapshot("s1", at=4)

        for ask in (snapshot.classify, snapshot.replaced, snapshot.stand_in, snapshot.citing):
            with pytest.raises(InvalidArgument) as caught:
                ask(bad)
            assert "seq" == caught.value.name

    @pytest.mark.parametrize("bad", BAD_INDEXES, ids=repr)
    def test_replaced_by_bounds_are_ints_from_0(self, store: EventStore, bad: Any) -> None:
        """
        A bound of the lookup that is negative, a bool or no int is refused by name.
        """
        store.append(make_header(), messages(2))

        with pytest.raises(InvalidArgument) as caught:
            store.snapshot("s1").replaced_by(bad, 2)
        assert "start" == caught.value.name
        with pytest.raises(InvalidArgument) as caught:
            store.snapshot("s1").replaced_by(0, bad)
        assert "stop" == caught.value.name

    def test_replaced_by_is_clipped(self, store: EventStore) -> None:
        """
        One lookup gives the replacers of a window, half-open, ascending and clipped.
        """
        store.append(make_header(), [*messages(6), summary(6, 1, 4, [4, 3, 2, 1])])
        snapshot = store.snapshot("s1")

        assert {2: 6, 3: 6} == snapshot.replaced_by(2, 4)
        assert [1, 2, 3, 4] == list(snapshot.replaced_by(0, 10**9))
        assert {} == snapshot.replaced_by(5, 7) == snapshot.replaced_by(3, 3)
        assert {} == snapshot.replaced_by(4, 1) == snapshot.replaced_by(100, 200)
        assert {} == snapshot.replaced_by(2**70, 2**71)

    def test_citing_names_replacements_too(self, store: EventStore) -> None:
        """
        Whoever cites an event is named, whether it shadows the event or only cites it.
        """
        events = [
            *messages(3),
            Event(3, 0, "x/cites", {}, source_event_seqs=[2, 0]),
            summary(4, 0, 1, [0, 1, 2]),
            Event(5, 0, "assistant/message", {}, surface_op=APPEND, source_event_seqs=[0, 4]),
        ]
        store.append(make_header(), events)
        snapshot = store.snapshot("s1")

        expected = [[3, 4, 5], [4], [3, 4], [], [5], []]
        assert expected == [snapshot.citing(seq) for seq in range(6)]
        assert [3] == store.snapshot("s1", at=4).citing(0)
        assert [3, 4] == store.snapshot("s1", at=5).citing(0)

    def test_surfaces_of_sessions_are_apart(self, store: EventStore) -> None:
        """
        Sessions that are written in turn have each their own surface.
        """
        logs = {name: random_log(Random(name).randrange, 40) for name in ("a", "b", "c")}
        for start in range(0, 40, 5):
            for name, events in logs.items():
                store.append(make_header(name), events[start : start + 5])

        for name, events in logs.items():
            assert surface_facts(NaiveSurface(events)) == surface_facts(store.snapshot(name))

    def test_deep_chain_of_replacements(self, store: EventStore) -> None:
        """
        A chain of a thousand replacements is folded, read and left behind without recursion.
        """
        events = [message(0)]
        events += [summary(seq, seq - 1, seq - 1, [seq - 1]) for seq in range(1, 1_200)]
        store.append(make_header(), events)

        assert [1_199] == store.snapshot("s1").nodes()
        assert [3] == store.snapshot("s1", at=4).nodes()
        assert [0] == store.snapshot("s1", at=1).nodes()
        assert SHADOWED is store.snapshot("s1").classify(0)
