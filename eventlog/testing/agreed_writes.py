"""
The writing half of the state machine: stores that are written alike must answer alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from attrs import frozen
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from eventlog.codec import encode_line
from eventlog.model import Batch, Event, SessionHeader
from eventlog.snapshot import LogSnapshot
from eventlog.store import EventStore
from eventlog.testing.contract.base import surface_facts
from eventlog.testing.naive import NaiveLog, NaiveStore, NaiveSurface
from eventlog.testing.outcomes import answer_facts, outcome
from eventlog.testing.samples import message, random_event, wild_event

__all__ = ["SESSION_IDS", "Kept", "WritesAgree"]

# Few, so that programs meet: case variants, a path, characters beyond UTF-16's order.
SESSION_IDS = ("s", "S", "s/1", "\U0001f511", "\uff5e")
# The first one often: a long log is reached sooner.
IDS = st.sampled_from((*SESSION_IDS, *SESSION_IDS[:1] * 5))
SEEDS = st.integers(0, 2**16)

HEADER_CHANGES: list[dict[str, Any]] = [
    {"cwd": "/other"},
    {"cwd": "/other", "delegation_depth": 9},
    {"created_at": 77, "cwd": None},
    {"parent_session": None, "agent_preset": "other"},
    {"delegation_depth": 9},
    {"version": 1},
]


@frozen
class Kept:
    """A snapshot that was taken of every store, and what it must go on saying."""

    session_id: str
    log: NaiveLog
    length: int
    events: list[Event]
    facts: dict[str, object]
    snapshots: dict[str, LogSnapshot]


class WritesAgree(RuleBasedStateMachine):
    """
    Write to several stores and a naive model, end and begin them, and compare.

    Attributes:
        factories, volatile, tears, folder: See :class:`~eventlog.testing.StoresAgree`.
    """

    factories: ClassVar[Mapping[str, Callable[[Path], EventStore]]] = {}
    volatile: ClassVar[frozenset[str]] = frozenset()
    tears: ClassVar[Mapping[str, Callable[[Path, str, bytes], None]]] = {}
    folder: ClassVar[Path | None] = None

    def __init__(self) -> None:
        super().__init__()
        self._folder = TemporaryDirectory(prefix="stores-agree-", dir=self.folder)
        self._roots = {name: Path(self._folder.name, name) for name in self.factories}
        self._stores = {name: self.factories[name](root) for name, root in self._roots.items()}
        self._model = NaiveStore()
        self._headers: dict[str, SessionHeader] = {}
        self._headers_made = 0
        # Sessions with a torn line that no writer has cut yet: nothing is written behind one.
        self._torn: set[str] = set()
        self._kept: list[Kept] = []

    def teardown(self) -> None:
        try:
            for session_id in SESSION_IDS:
                self._check_session(session_id, whole=True)
        finally:
            for store in self._stores.values():
                store.close()
            self._folder.cleanup()

    # Writing.

    @rule(session_id=IDS, seed=SEEDS, count=st.integers(0, 12))
    def append(self, session_id: str, seed: int, count: int) -> None:
        """Append events that continue the log."""
        self._append(self._batch(session_id, self._continuation(session_id, seed, count)))

    @rule(session_id=IDS, seed=SEEDS, count=st.integers(1, 4))
    def append_wildly(self, session_id: str, seed: int, count: int) -> None:
        """Append events with any ops and sources: mostly refused, sometimes right."""
        surface = NaiveSurface(self._events(session_id))
        choose = Random(seed).randrange
        events = [wild_event(choose, surface.length + ahead, surface) for ahead in range(count)]
        self._append(self._batch(session_id, events))

    @rule(
        session_id=IDS,
        start=st.integers(0, 999),
        count=st.integers(1, 8),
        seed=SEEDS,
        more=st.integers(0, 3),
    )
    def retry(self, session_id: str, start: int, count: int, seed: int, more: int) -> None:
        """Append stored events again, and perhaps some that are new."""
        events = self._events(session_id)
        start %= len(events) + 1
        stored = events[start : start + count]
        at_the_end = start + count >= len(events)
        fresh = self._continuation(session_id, seed, more) if at_the_end else []
        self._append(self._batch(session_id, [*stored, *fresh]))

    @rule(session_id=IDS, back=st.integers(-2, 8), place=st.integers(0, 3))
    def collide(self, session_id: str, back: int, place: int) -> None:
        """Append what another writer would have appended: beside the log, or beyond it."""
        start = max(0, len(self._events(session_id)) - back)
        repeated = self._events(session_id)[start : start + place]
        fresh = message(start + len(repeated), "of another writer")
        self._append(self._batch(session_id, [*repeated, fresh]))

    @rule(session_id=IDS, seed=SEEDS, skipped=st.integers(0, 3))
    def append_with_a_gap(self, session_id: str, seed: int, skipped: int) -> None:
        """Append a batch from which one event was lost."""
        events = self._continuation(session_id, seed, 4)
        self._append(self._batch(session_id, events[:skipped] + events[skipped + 1 :]))

    @rule(
        session_id=IDS,
        change=st.sampled_from(HEADER_CHANGES),
        count=st.integers(0, 2),
        skipped=st.integers(0, 1),
    )
    def append_under_another_header(
        self, session_id: str, change: dict[str, Any], count: int, skipped: int
    ) -> None:
        """Append with a header that is not the session's, and perhaps at a wrong seq."""
        header = self._header(session_id)
        facts: dict[str, Any] = {
            "cwd": header.cwd,
            "parent_session": header.parent_session,
            "created_at": header.created_at,
            **change,
        }
        events = self._continuation(session_id, 0, count)[skipped:]
        known = session_id in self._model.logs or session_id in self._model.deleted
        if known or "version" in change:
            self._append(Batch(SessionHeader(session_id, **facts), events))

    @rule(
        ids=st.lists(IDS, max_size=5),
        seed=SEEDS,
        wild=st.sets(st.integers(0, 4), max_size=2),
    )
    def append_many(self, ids: list[str], seed: int, wild: set[int]) -> None:
        """Append several batches in one call, some for the same session, some refused."""
        batches, expected = [], []
        for place, session_id in enumerate(ids):
            events = self._continuation(session_id, seed + place, 1 + (seed + place) % 3)
            if place in wild:
                events = [*events, message(events[-1].seq + 2)]
            batch = self._batch(session_id, events)
            batches.append(batch)
            # The model moves on at once, so that a later batch may continue this one.
            changes = len(self._model.changed)
            expected.append(outcome(self._model.append, batch.header, batch.events))
            self._torn.difference_update(self._model.changed[changes:])
        for name, store in self._stores.items():
            answers = [answer_facts(answer) for answer in store.append_many(batches)]
            assert expected == answers, f"append_many of {name}"
        for session_id in set(ids):
            self._check_session(session_id)

    @rule(session_id=IDS, forget=st.booleans())
    def delete(self, session_id: str, forget: bool) -> None:
        """Delete a session, or forget that it was deleted."""
        self._agree(
            "delete",
            lambda store: store.delete(session_id, forget=forget),
            lambda: self._model.delete(session_id, forget=forget),
        )
        self._torn.discard(session_id)
        if session_id not in self._model.logs and session_id not in self._model.deleted:
            self._headers.pop(session_id, None)
        self._check_session(session_id)
        self._check_kept()

    # Ends and beginnings.

    @rule(look=st.booleans())
    def reopen(self, look: bool) -> None:
        """Close every store that outlives its object and open it again."""
        for name in self._lasting():
            self._stores[name].close()
            self._stores[name] = self.factories[name](self._roots[name])
        # What was taken of a store ends with it, and so does a cache that might hide
        # what the medium says; looking at once or later makes a difference there.
        self._kept.clear()
        if look:
            for session_id in SESSION_IDS:
                self._check_session(session_id, whole=True)

    @rule(
        session_id=IDS,
        seed=SEEDS,
        count=st.integers(1, 4),
        cut=st.floats(0, 1),
        reopen=st.booleans(),
    )
    @precondition(lambda self: self.tears)
    def crash(self, session_id: str, seed: int, count: int, cut: float, reopen: bool) -> None:
        """Leave a part of a batch on the media of text, as a crash does, and send it again."""
        if session_id in self._model.logs:
            batch = self._batch(session_id, self._continuation(session_id, seed, count))
            lines = b"".join(map(encode_line, batch.events))
            self._plant(session_id, lines[: int(cut * len(lines))], reopen)
            self._append(batch)

    @rule(session_id=IDS, cut=st.integers(1, 60), reopen=st.booleans())
    @precondition(lambda self: self.tears)
    def tear(self, session_id: str, cut: int, reopen: bool) -> None:
        """Leave a torn line on the media of text: nothing may show of it."""
        if session_id in self._model.logs:
            line = encode_line(message(len(self._events(session_id)), "torn"))
            self._plant(session_id, line[:cut], reopen)
            self._check_session(session_id, whole=True)

    def _plant(self, session_id: str, fragment: bytes, reopen: bool) -> None:
        """Leave a fragment on the media of text, as this process or another one would."""
        if reopen:
            self.reopen(look=False)
        if session_id not in self._torn:
            self._torn.add(session_id)
            for name, tear in self.tears.items():
                tear(self._roots[name], session_id, fragment)

    @rule(session_id=IDS)
    def look_from_beside(self, session_id: str) -> None:
        """Read a session through another store of the same place."""
        for name in self._lasting():
            with self.factories[name](self._roots[name]) as beside:
                self._check_session(session_id, whole=True, stores={name: beside})

    @rule()
    def verify(self) -> None:
        """Nothing is wrong with any store but the ends that crashes left; all is salvaged."""
        for name, store in self._stores.items():
            found = {(finding.kind, finding.session_id) for finding in store.verify()}
            assert found <= {("torn", session_id) for session_id in self._torn}, name
            for session_id, log in self._model.logs.items():
                pieces = [item for item in store.salvage(session_id) if isinstance(item, Event)]
                assert log.events == pieces, f"what {name} salvages"

    # What the rules share.

    def _append(self, batch: Batch) -> None:
        changes = len(self._model.changed)
        self._agree(
            "append",
            lambda store: store.append(batch.header, batch.events),
            lambda: self._model.append(batch.header, batch.events),
        )
        self._torn.difference_update(self._model.changed[changes:])
        self._check_session(batch.header.id)

    def _agree(
        self, what: str, ask: Callable[[EventStore], object], naive: Callable[[], object]
    ) -> None:
        expected = outcome(naive)
        for name, store in self._stores.items():
            assert expected == outcome(ask, store), f"{what} of {name}"

    def _check_session(
        self,
        session_id: str,
        *,
        whole: bool = False,
        stores: Mapping[str, EventStore] | None = None,
    ) -> None:
        """Compare one session of every store with the model's, with *whole* its surface too."""
        log = self._model.logs.get(session_id)
        for name, store in (self._stores if stores is None else stores).items():
            head = store.head(session_id)
            if log is None:
                assert head is None, f"{name} has a session that is not"
                continue
            assert log.head() == head, f"the head of {name}"
            snapshot = store.snapshot(session_id)
            assert log.events == snapshot.read(0, 10**6), f"the events of {name}"
            if whole:
                assert surface_facts(log.surface) == surface_facts(snapshot), (
                    f"the surface of {name}"
                )
            for start in range(0, len(log.events), 5):
                window = log.events[start : start + 3]
                assert window == snapshot.read(start, start + 3), f"a window of {name}"

    def _events(self, session_id: str) -> list[Event]:
        log = self._model.logs.get(session_id)
        return [] if log is None else log.events

    def _continuation(self, session_id: str, seed: int, count: int) -> list[Event]:
        """Return *count* events that the fold accepts after those of the session."""
        surface = NaiveSurface(self._events(session_id))
        choose = Random(seed).randrange
        for _ in range(count):
            surface.add(random_event(choose, surface))
        return surface.events[len(self._events(session_id)) :]

    def _batch(self, session_id: str, events: Sequence[Event]) -> Batch:
        return Batch(self._header(session_id), events)

    def _header(self, session_id: str) -> SessionHeader:
        """Return the header of a session, for a new one one that no earlier session had."""
        if session_id not in self._headers:
            number = self._headers_made
            self._headers_made += 1
            # Of three that begin at once, two have one parent: its children tie.
            self._headers[session_id] = SessionHeader(
                session_id,
                number // 3,
                cwd=f"/{number}",
                parent_session=None if number % 3 == 0 else SESSION_IDS[number // 3 % 4],
            )
        return self._headers[session_id]

    def _lasting(self) -> list[str]:
        return [name for name in self.factories if name not in self.volatile]

    def _check_kept(self) -> None:
        """Old snapshots answer as they did, or their session is gone."""
        for kept in self._kept:
            answers = ((list, kept.events), (dict, kept.facts))
            if self._model.logs.get(kept.session_id) is not kept.log:
                answers = (("SessionNotFound", kept.session_id),) * 2  # type: ignore[assignment]
            for name, snapshot in kept.snapshots.items():
                assert (kept.log.header, kept.length) == (snapshot.header, snapshot.length), name
                if kept.length:
                    found = outcome(snapshot.read, 0, 99), outcome(surface_facts, snapshot)
                    assert answers == found, f"an old snapshot of {name}"
