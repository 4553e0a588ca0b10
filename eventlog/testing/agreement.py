"""
A state machine that holds stores and a naive model to one meaning.

Hypothesis makes up programs of appends, retries, conflicts, deletions, crashes and reads,
runs each on all stores at once, and looks for one that answers differently from the
model. What is compared: every answer, the class of every error with the facts that tell
a caller what to do, and after each write the whole session.
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
from eventlog.errors import EventLogError, InvalidArgument
from eventlog.model import Batch, Event, HeadKey, HeadPage, SessionHeader
from eventlog.snapshot import LogSnapshot
from eventlog.store import EventStore
from eventlog.testing.contract.base import surface_facts
from eventlog.testing.naive import NaiveLog, NaiveStore, NaiveSurface
from eventlog.testing.samples import message, random_event, wild_event

__all__ = ["StoresAgree"]

# Few, so that programs meet: case variants, a path, characters beyond UTF-16's order.
SESSION_IDS = ("s", "S", "s/1", "\U0001f511", "\uff5e")
# The first one often: a long log is reached sooner.
IDS = st.sampled_from((*SESSION_IDS, *SESSION_IDS[:1] * 5))
SEEDS = st.integers(0, 2**16)
INDEXES = st.integers(-1, 40)

# For each error class, the facts that every store must tell alike.
FACTS = {
    "SequenceConflict": ("session_id", "expected", "actual"),
    "HeaderConflict": ("session_id", "field"),
    "InvalidSurface": ("seq",),
    "InvalidArgument": ("name",),
    "SessionNotFound": ("session_id",),
    "SessionDeleted": ("session_id",),
    "UnsupportedFormat": ("found", "seq"),
}


@frozen
class _Kept:
    """A snapshot that was taken of every store, and what it must go on saying."""

    session_id: str
    log: NaiveLog
    length: int
    events: list[Event]
    facts: dict[str, object]
    snapshots: dict[str, LogSnapshot]


class StoresAgree(RuleBasedStateMachine):
    """
    Hold several stores and a naive model, and assert nothing but that they agree.

    Use it by a subclass that names the stores, and its ``TestCase``::

        class Agree(StoresAgree):
            factories = {"memory": lambda root: MemoryStore(), "mine": MyStore}
            volatile = frozenset({"memory"})

        TestAgree = Agree.TestCase
        TestAgree.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)

    Attributes:
        factories: For each name, what opens the store at a path where nothing is at
            first. One store is enough: the model is always there.

        volatile: The stores that are gone with their object; they are never reopened.

        tears: For the stores whose medium is text, what appends a fragment to a
            session's bytes, past the store and while it is closed, as a crash would have
            left it: given the path, the id and the fragment.
    """

    factories: ClassVar[Mapping[str, Callable[[Path], EventStore]]] = {}
    volatile: ClassVar[frozenset[str]] = frozenset()
    tears: ClassVar[Mapping[str, Callable[[Path, str, bytes], None]]] = {}

    def __init__(self) -> None:
        super().__init__()
        self._folder = TemporaryDirectory(prefix="stores-agree-")
        self._roots = {name: Path(self._folder.name, name) for name in self.factories}
        self._stores = {name: self.factories[name](root) for name, root in self._roots.items()}
        self._model = NaiveStore()
        self._headers: dict[str, SessionHeader] = {}
        self._headers_made = 0
        self._kept: list[_Kept] = []
        self._tokens: list[tuple[int, dict[str, str]]] = []

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
        start=st.integers(0, 40),
        count=st.integers(1, 8),
        seed=SEEDS,
        more=st.integers(0, 3),
    )
    def retry(self, session_id: str, start: int, count: int, seed: int, more: int) -> None:
        """Append stored events again, and perhaps some that are new."""
        stored = self._events(session_id)[start : start + count]
        at_the_end = start + count >= len(self._events(session_id))
        fresh = self._continuation(session_id, seed, more) if at_the_end else []
        self._append(self._batch(session_id, [*stored, *fresh]))

    @rule(session_id=IDS, back=st.integers(-2, 5), place=st.integers(0, 5))
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
        change=st.sampled_from(
            [{"cwd": "/other"}, {"created_at": 77}, {"version": 1}, {"delegation_depth": 9}]
        ),
        count=st.integers(0, 2),
    )
    def append_under_another_header(
        self, session_id: str, change: dict[str, Any], count: int
    ) -> None:
        """Append with a header that is not the session's."""
        header = self._header(session_id)
        facts: dict[str, Any] = {
            "cwd": header.cwd,
            "parent_session": header.parent_session,
            "created_at": header.created_at,
            **change,
        }
        events = self._continuation(session_id, 0, count)
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
            expected.append(outcome(lambda: self._model.append(batch.header, batch.events)))  # noqa: B023
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
        if session_id not in self._model.logs and session_id not in self._model.deleted:
            self._headers.pop(session_id, None)
        self._check_session(session_id)

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
    )
    @precondition(lambda self: self.tears)
    def crash(self, session_id: str, seed: int, count: int, cut: float) -> None:
        """
        Leave a part of a batch on the media of text, as a crash does, and send it again.
        """
        if session_id not in self._model.logs:
            return
        batch = self._batch(session_id, self._continuation(session_id, seed, count))
        lines = b"".join(map(encode_line, batch.events))
        self.reopen(look=False)
        for name, tear in self.tears.items():
            self._stores[name].close()
            tear(self._roots[name], session_id, lines[: int(cut * len(lines))])
            self._stores[name] = self.factories[name](self._roots[name])
        self._append(batch)

    @rule(session_id=IDS, cut=st.integers(1, 60))
    @precondition(lambda self: self.tears)
    def tear(self, session_id: str, cut: int) -> None:
        """Leave a torn line on the media of text: nothing may show of it."""
        if session_id not in self._model.logs:
            return
        line = encode_line(message(len(self._events(session_id)), "torn"))
        self.reopen(look=False)
        for name, tear in self.tears.items():
            self._stores[name].close()
            tear(self._roots[name], session_id, line[:cut])
            self._stores[name] = self.factories[name](self._roots[name])
        self._check_session(session_id, whole=True)

    @rule(session_id=IDS)
    def look_from_beside(self, session_id: str) -> None:
        """Read a session through another store of the same place."""
        for name in self._lasting():
            with self.factories[name](self._roots[name]) as beside:
                self._check_session(session_id, whole=True, stores={name: beside})

    # Reading.

    @rule(session_id=IDS, start=INDEXES, stop=INDEXES)
    def read(self, session_id: str, start: int, stop: int) -> None:
        """Read any window, sensible or not."""

        def naive() -> list[Event]:
            events = self._model.log(session_id).events
            check_bounds(start=start, stop=stop)
            return events[start:stop]

        self._agree("read", lambda store: store.snapshot(session_id).read(start, stop), naive)

    @rule(session_id=IDS, at=INDEXES)
    def look_at(self, session_id: str, at: int) -> None:
        """Ask for the whole surface as of any length."""

        def naive() -> dict[str, object]:
            log = self._model.log(session_id)
            check_bounds(at=at)
            self._model.log(session_id, at=at)
            return surface_facts(log.surface_at(at))

        self._agree(
            "snapshot", lambda store: surface_facts(store.snapshot(session_id, at=at)), naive
        )

    @rule(
        session_id=IDS,
        seq=INDEXES,
        ask=st.sampled_from(["classify", "replaced", "stand_in", "citing"]),
    )
    def ask(self, session_id: str, seq: int, ask: str) -> None:
        """Ask for one event's class, nodes or citations, existing or not."""

        def naive() -> object:
            surface = self._model.log(session_id).surface
            check_bounds(below=surface.length, seq=seq)
            if ask == "replaced":
                return surface.replaced.get(seq, [])
            answer: object = getattr(surface, ask)(seq)
            return answer

        self._agree(ask, lambda store: getattr(store.snapshot(session_id), ask)(seq), naive)

    @rule(session_id=IDS, after=INDEXES, limit=st.integers(0, 4))
    def page_of_nodes(self, session_id: str, after: int, limit: int) -> None:
        """Ask for the nodes behind an event, which may be none of the surface."""

        def naive() -> list[int]:
            nodes = self._model.log(session_id).surface.nodes
            check_bounds(after=after)
            check_among(nodes, after=after)
            return nodes[nodes.index(after) + 1 :][:limit]

        self._agree(
            "nodes",
            lambda store: store.snapshot(session_id).nodes(after=after, limit=limit),
            naive,
        )

    @rule(session_id=IDS, back=st.integers(0, 5))
    def keep(self, session_id: str, back: int) -> None:
        """Take a snapshot of every store, to be looked at later."""
        log = self._model.logs.get(session_id)
        if log is None:
            return
        length = max(0, len(log.events) - back)
        self._kept.append(
            _Kept(
                session_id,
                log,
                length,
                log.events[:length],
                surface_facts(log.surface_at(length)),
                {n: s.snapshot(session_id, at=length) for n, s in self._stores.items()},
            )
        )

    @rule(pick=st.integers(0, 20))
    @precondition(lambda self: self._kept)
    def look_at_kept(self, pick: int) -> None:
        """Ask an old snapshot: it answers as it did, or its session is gone."""
        kept = self._kept[pick % len(self._kept)]
        gone = self._model.logs.get(kept.session_id) is not kept.log
        for name, snapshot in kept.snapshots.items():
            assert (kept.log.header, kept.length) == (snapshot.header, snapshot.length), name
            if not kept.length:
                continue
            events = outcome(lambda: snapshot.read(0, 99))  # noqa: B023
            facts = outcome(lambda: surface_facts(snapshot))  # noqa: B023
            if gone:
                refused = ("SessionNotFound", kept.session_id)
                assert (refused, refused) == (events, facts), f"an old snapshot of {name}"
            else:
                answers = ((list, kept.events), (dict, kept.facts))
                assert answers == (events, facts), f"an old snapshot of {name}"

    @rule(
        parent=st.none() | st.sampled_from(SESSION_IDS),
        after=st.none() | st.tuples(st.integers(0, 4), st.sampled_from(SESSION_IDS)),
        limit=st.integers(0, 4),
    )
    def list_page(self, parent: str | None, after: tuple[int, str] | None, limit: int) -> None:
        """Ask for any page of the sessions, or of the children of one."""
        key = None if after is None else HeadKey(*after)

        def naive() -> HeadPage:
            check_bounds(limit=limit, minimum=1)
            heads = self._model.heads(parent=parent)
            if after is not None:
                place = (-after[0], after[1])
                heads = [h for h in heads if (-h.header.created_at, h.header.id) > place]
            last = heads[limit - 1].header if len(heads) > limit else None
            following = None if last is None else HeadKey(last.created_at, last.id)
            return HeadPage(tuple(heads[:limit]), following)

        if parent is None:
            self._agree("heads", lambda store: store.heads(after=key, limit=limit), naive)
        else:
            self._agree(
                "children", lambda store: store.children(parent, after=key, limit=limit), naive
            )

    @rule(pick=st.integers(0, 20))
    def follow(self, pick: int) -> None:
        """Ask what changed since an earlier token, or since ever; keep the new token."""
        since, tokens = 0, dict.fromkeys(self._stores, "")
        if self._tokens and pick:
            since, tokens = self._tokens[pick % len(self._tokens)]
        needed = set(self._model.changed[since:]) if since else set(self._model.logs)
        fresh = {}
        for name, store in self._stores.items():
            changes = store.changes(tokens[name] or None)
            assert len(set(changes.session_ids)) == len(changes.session_ids), name
            assert needed <= set(changes.session_ids) <= set(self._model.changed), name
            fresh[name] = changes.token
        self._tokens.append((len(self._model.changed), fresh))

    # What the rules share.

    def _append(self, batch: Batch) -> None:
        self._agree(
            "append",
            lambda store: store.append(batch.header, batch.events),
            lambda: self._model.append(batch.header, batch.events),
        )
        self._check_session(batch.header.id)

    def _agree(
        self, what: str, ask: Callable[[EventStore], object], naive: Callable[[], object]
    ) -> None:
        expected = outcome(naive)
        for name, store in self._stores.items():
            assert expected == outcome(lambda: ask(store)), f"{what} of {name}"  # noqa: B023

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
            self._headers[session_id] = SessionHeader(
                session_id,
                number // 3,
                cwd=f"/{number}",
                parent_session=None if number % 3 == 0 else SESSION_IDS[number % 4],
            )
        return self._headers[session_id]

    def _lasting(self) -> list[str]:
        return [name for name in self.factories if name not in self.volatile]


def outcome(call: Callable[[], object]) -> object:
    """Return what a call answered, with its type, or the class and facts of its error."""
    try:
        answer = call()
    except EventLogError as error:
        return answer_facts(error)
    return type(answer), answer


def answer_facts(answer: object) -> object:
    if not isinstance(answer, EventLogError):
        return type(answer), answer
    name = type(answer).__name__
    return (name, *(getattr(answer, fact) for fact in FACTS.get(name, ())))


def check_bounds(*, minimum: int = 0, below: int | None = None, **bounds: int) -> None:
    """Refuse, in the order given, a bound that is below *minimum* or not below *below*."""
    for name, bound in bounds.items():
        if bound < minimum or (below is not None and bound >= below):
            raise InvalidArgument(name, "out of range")


def check_among(members: Sequence[int], **bounds: int) -> None:
    for name, bound in bounds.items():
        if bound not in members:
            raise InvalidArgument(name, "not among them")
