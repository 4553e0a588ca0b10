"""
The merge view against a model of it, over random programs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from eventlog import APPEND, Event, LiveSessions, Replace, SessionHeader
from eventlog.drivers.memory import MemoryStore
from eventlog.query import (
    Availability,
    Classes,
    CreatedAt,
    Ids,
    Parent,
    Seq,
    SessionQuery,
    SessionQueryError,
    SessionQueryErrorCode,
    SessionRecord,
    Text,
    Types,
)
from eventlog.testing.naive import NaiveSurface
from support.query import pages

Code = SessionQueryErrorCode

IDS = ["a", "b", "c", "d", "é", "Z"]
WORDS = ["Alpha", "beta  gamma", "DELTA"]

Log = tuple[SessionHeader, list[Event]]


class Merged(RuleBasedStateMachine):
    """Live sessions, two stores of which one at most is mounted, and dicts that say the same."""

    def __init__(self) -> None:
        super().__init__()
        self.live = LiveSessions()
        self.stores = [MemoryStore(), MemoryStore()]
        self.query = SessionQuery(self.live)
        self.running: dict[str, Log] = {}
        self.kept: list[dict[str, Log]] = [{}, {}]
        self.mounted: int | None = None
        self.clock = 0

    # What happens.

    @rule(
        name=st.sampled_from(IDS),
        parent=st.none() | st.sampled_from(IDS),
        created_at=st.integers(0, 3),
        cwd=st.sampled_from([None, "/w"]),
    )
    def create(self, name: str, parent: str | None, created_at: int, cwd: str | None) -> None:
        if name in self.running:
            return
        session = self.live.create(name, created_at=created_at, parent_session=parent, cwd=cwd)
        self.running[name] = (session.header, [])

    @precondition(lambda self: self.running)
    @rule(data=st.data(), word=st.sampled_from(WORDS), is_node=st.booleans())
    def append(self, data: st.DataObject, word: str, is_node: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.running)))
        content = {"content": [{"type": "text", "text": word}]}
        if is_node:
            self.add(name, "user/message", content, surface_op=APPEND)
        else:
            self.add(name, "x/note", {"note": word})

    @precondition(lambda self: any(NaiveSurface(log).nodes for _, log in self.running.values()))
    @rule(data=st.data())
    def replace(self, data: st.DataObject) -> None:
        name = data.draw(
            st.sampled_from(
                sorted(n for n, (_, log) in self.running.items() if NaiveSurface(log).nodes)
            )
        )
        nodes = NaiveSurface(self.running[name][1]).nodes
        first = data.draw(st.integers(0, len(nodes) - 1))
        last = data.draw(st.integers(first, len(nodes) - 1))
        self.add(
            name,
            "user/message",
            {"content": [{"type": "text", "text": "summary"}]},
            surface_op=Replace(nodes[first], nodes[last]),
            source_event_seqs=nodes[first : last + 1],
        )

    @precondition(lambda self: any(log for _, log in self.running.values()))
    @rule(data=st.data(), child=st.sampled_from(IDS))
    def fork(self, data: st.DataObject, child: str) -> None:
        if child in self.running:
            return
        name = data.draw(st.sampled_from(sorted(n for n, (_, log) in self.running.items() if log)))
        log = self.running[name][1]
        boundary = data.draw(st.integers(0, len(log) - 1))
        session = self.live.fork(name, boundary, session_id=child)
        ending = session.read(boundary + 1, boundary + 2)
        self.running[child] = (session.header, [*log[: boundary + 1], *ending])

    @precondition(lambda self: self.running)
    @rule(data=st.data(), store=st.integers(0, 1))
    def copy(self, data: st.DataObject, store: int) -> None:
        """Bring a live session's log into a store, where that takes it."""
        name = data.draw(st.sampled_from(sorted(self.running)))
        header, log = self.running[name]
        held = self.kept[store].get(name)
        if held is not None and (held[0] != header or held[1] != log[: len(held[1])]):
            return
        self.stores[store].append(header, log)
        if log:
            self.kept[store][name] = (header, list(log))

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def dispose(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.running)))
        self.live.dispose(name)
        del self.running[name]

    @precondition(lambda self: any(self.kept))
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        store, name = data.draw(
            st.sampled_from([(n, name) for n in (0, 1) for name in sorted(self.kept[n])])
        )
        self.stores[store].delete(name, forget=True)
        del self.kept[store][name]

    @rule(store=st.integers(0, 1))
    def mount(self, store: int) -> None:
        self.query.mount(self.stores[store])
        self.mounted = store

    @rule()
    def unmount(self) -> None:
        self.query.unmount()
        self.mounted = None

    # What must then be seen.

    @rule(limit=st.sampled_from([1, 2, 3, 50]), data=st.data())
    def list_sessions(self, limit: int, data: st.DataObject) -> None:
        filters: list[Any] = data.draw(
            st.lists(
                st.one_of(
                    st.builds(Ids, st.sets(st.sampled_from(IDS))),
                    st.builds(Parent, st.sets(st.none() | st.sampled_from(IDS))),
                    st.builds(Availability, st.sets(st.sampled_from(["live", "persisted"]))),
                    st.builds(CreatedAt, st.none() | st.integers(0, 1), st.integers(1, 3)),
                ),
                max_size=2,
            )
        )
        found = list(
            pages(
                lambda cursor: self.query.list_sessions(
                    limit=limit, cursor=cursor, filters=filters, on_conflict="fault"
                )
            )
        )
        expected = [r for r in self.records() if all(f.matches(r) for f in filters)]

        assert expected == [record for page in found for record in page.items]
        faults = {fault.session_id for page in found for fault in page.faults}
        assert faults <= self.conflicts()
        if not filters:
            assert faults == self.conflicts()
            assert self.fails(lambda: list(self.query.list_sessions().items)) is (
                Code.SOURCE_CONFLICT if faults else None
            )

    @rule(limit=st.sampled_from([1, 2, 5, 100]), data=st.data())
    def read(self, limit: int, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(IDS))
        held = self.running.get(name) or self.stored().get(name)
        if held is None:
            assert Code.SESSION_NOT_FOUND is self.fails(lambda: self.query.list_events(name))
            return
        header, log = held
        length = data.draw(st.none() | st.integers(0, len(log)))
        surface = NaiveSurface(log if length is None else log[:length])
        answer = self.query.read_surface(name, at=length)
        filters: list[Any] = data.draw(
            st.lists(
                st.one_of(
                    st.builds(Seq, st.none() | st.integers(0, 3), st.none() | st.integers(3, 9)),
                    st.builds(Types, st.sets(st.sampled_from(["user/message", "x/note"]))),
                    st.builds(Classes, st.sets(st.sampled_from(["current", "shadowed"]))),
                    st.sampled_from([Text("alpha"), Text("BETA gamma"), Text("summary")]),
                ),
                max_size=2,
            )
        )
        listed = list(
            pages(
                lambda cursor: self.query.list_events(
                    name, limit=limit, cursor=cursor, at=length, filters=filters
                )
            )
        )

        assert [log[seq] for seq in surface.nodes] == list(answer.events)
        assert header == answer.header
        assert [e.seq for e in surface.events if all(passes(f, e, surface) for f in filters)] == [
            record.seq for page in listed for record in page.items
        ]
        for record in (record for page in listed for record in page.items):
            assert surface.classify(record.seq) is record.event_class
            assert record.inherited is (record.seq < (header.seed_length or 0))
        assert log == list(self.query.read_log(name))

    @rule(name=st.sampled_from(IDS))
    def lineage(self, name: str) -> None:
        expected = self.family(name)
        if isinstance(expected, Code):
            assert expected is self.fails(lambda: self.query.trace_session(name))
            return
        trace = self.query.trace_session(name)

        assert expected == (
            [record.header.id for record in trace.ancestors],
            trace.unresolved_parent_id,
            [(d.depth, d.record.header.id) for d in trace.descendants],
        )
        assert trace.complete is (trace.unresolved_parent_id is None)

    @invariant()
    def live_sessions_are_read_live(self) -> None:
        for name, (_, log) in self.running.items():
            if log:
                assert log[-1] == self.query.read_event(name, len(log) - 1).target

    # The model.

    def add(self, name: str, type: str, data: dict[str, Any], **surface: Any) -> None:
        self.clock += 1
        session = self.live.get(name)
        assert session is not None
        event = session.append(type, data, time=self.clock, **surface)
        _, log = self.running[name]
        log.append(Event(len(log), self.clock, type, data, **surface))
        assert event == log[-1]

    def stored(self) -> dict[str, Log]:
        return {} if self.mounted is None else self.kept[self.mounted]

    def conflicts(self) -> set[str]:
        stored = self.stored()
        both = self.running.keys() & stored.keys()
        return {name for name in both if self.running[name][0] != stored[name][0]}

    def records(self) -> list[SessionRecord]:
        stored = self.stored()
        names = self.running.keys() | stored.keys()
        found = []
        for name in names - self.conflicts():
            header, log = self.running.get(name) or stored[name]
            last = log[-1].time if log else None
            found.append(
                SessionRecord(header, name in self.running, name in stored, len(log), last)
            )
        return sorted(found, key=lambda r: (-r.header.created_at, r.header.id))

    def family(self, name: str) -> Code | tuple[list[str], str | None, list[tuple[int, str]]]:
        by_id = {record.header.id: record.header for record in self.records()}
        conflicts, stored = self.conflicts(), self.stored()
        if name not in by_id:
            return Code.SOURCE_CONFLICT if name in conflicts else Code.SESSION_NOT_FOUND
        ancestors: list[str] = []
        parent = by_id[name].parent_session
        while parent is not None:
            if parent in [name, *ancestors]:
                return Code.INVALID_LINEAGE
            if parent in conflicts:
                return Code.SOURCE_CONFLICT
            if parent not in by_id:
                break
            ancestors.append(parent)
            parent = by_id[parent].parent_session
        headers = [header for header, _ in [*self.running.values(), *stored.values()]]

        def below(above: str, depth: int) -> Iterator[tuple[int, str]]:
            names = {header.id for header in headers if header.parent_session == above}
            if names & conflicts:
                raise LookupError
            for child in sorted(names, key=lambda n: (by_id[n].created_at, n)):
                yield depth, child
                yield from below(child, depth + 1)

        try:
            return ancestors, parent, list(below(name, 1))
        except LookupError:
            return Code.SOURCE_CONFLICT

    def fails(self, ask: Any) -> SessionQueryErrorCode | None:
        try:
            ask()
        except SessionQueryError as error:
            return error.code
        return None


def passes(chosen: Any, event: Event, surface: NaiveSurface) -> bool:
    """Whether an event passes a filter, told in the plainest way."""
    if isinstance(chosen, Seq):
        return (chosen.start or 0) <= event.seq <= (9 if chosen.end is None else chosen.end)
    if isinstance(chosen, Types):
        return event.type in chosen.values
    if isinstance(chosen, Classes):
        return surface.classify(event.seq) in chosen.values
    assert isinstance(chosen, Text)
    if event.type != "user/message":
        return False
    text = event.data["content"][0]["text"]
    return chosen.text.lower() in text.lower().replace("  ", " ")


Merged.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestTheMergeViewEqualsItsModel = Merged.TestCase


@pytest.mark.long
def test_the_merge_view_equals_its_model_over_long_programs() -> None:
    """
    The same over 1,000 programs of 60 steps.
    """
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        Merged,
        settings=settings(
            max_examples=1_000,
            stateful_step_count=60,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
