"""
A state machine that holds stores and a naive model to one meaning.

Hypothesis makes up programs of appends, retries, conflicts, deletions, crashes and reads,
runs each on all stores at once, and looks for one that answers differently from the
model. What is compared: every answer, the class of every error with the facts that tell
a caller what to do, and after each write the whole session.
"""

from __future__ import annotations

from attrs import frozen
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from eventlog.model import HeadKey, HeadPage
from eventlog.testing.agreed_writes import SESSION_IDS, Kept, WritesAgree
from eventlog.testing.contract.base import surface_facts

__all__ = ["StoresAgree"]

# What picks a place in a log of any length, or one of the sessions that there are.
PICKS = st.integers(0, 999)

KEPT_MAX = 6


@frozen
class _Token:
    """The tokens that every store gave at one time, and what there was then."""

    changes: int
    session_ids: set[str]
    tokens: dict[str, str]


class StoresAgree(WritesAgree):
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
            session's bytes past the store, as a process that crashed would have left it:
            given the path, the id and the fragment.

        folder: Where the stores of each program are made and removed; None is the
            system's folder for temporary files. One in memory makes many programs
            quick: what is compared does not depend on a disk.
    """

    def __init__(self) -> None:
        super().__init__()
        self._tokens: list[_Token] = []

    @rule(pick=PICKS, start=PICKS, stop=PICKS)
    def read(self, pick: int, start: int, stop: int) -> None:
        """Read any window, sensible or not."""
        session_id = self._some_id(pick)
        start, stop = self._some_seq(session_id, start), self._some_seq(session_id, stop)
        self._agree(
            "read",
            lambda store: store.snapshot(session_id).read(start, stop),
            lambda: self._model.read(session_id, start, stop),
        )

    @rule(pick=PICKS, at=PICKS)
    def look_at(self, pick: int, at: int) -> None:
        """Ask for the whole surface as of any length."""
        session_id = self._some_id(pick)
        at = self._some_seq(session_id, at)
        self._agree(
            "snapshot",
            lambda store: surface_facts(store.snapshot(session_id, at=at)),
            lambda: surface_facts(self._model.surface(session_id, at)),
        )

    @rule(
        pick=PICKS,
        seq=PICKS,
        question=st.sampled_from(["classify", "replaced", "stand_in", "citing"]),
    )
    def ask(self, pick: int, seq: int, question: str) -> None:
        """Ask for one event's class, nodes, stand-in or citations, existing or not."""
        session_id = self._some_id(pick)
        seq = self._some_seq(session_id, seq)
        self._agree(
            question,
            lambda store: getattr(store.snapshot(session_id), question)(seq),
            lambda: self._model.ask(session_id, question, seq),
        )

    @rule(pick=PICKS, after=PICKS, limit=st.integers(0, 4))
    def page_of_nodes(self, pick: int, after: int, limit: int) -> None:
        """Ask for the nodes behind an event, which may be none of the surface."""
        session_id = self._some_id(pick)
        after = self._some_seq(session_id, after)
        self._agree(
            "nodes",
            lambda store: store.snapshot(session_id).nodes(after=after, limit=limit),
            lambda: self._model.nodes(session_id, after, limit),
        )

    @rule(pick=PICKS, back=st.integers(0, 5))
    def keep(self, pick: int, back: int) -> None:
        """Take a snapshot of every store, to be looked at later."""
        session_id = self._some_id(pick)
        log = self._model.logs.get(session_id)
        if log is None:
            return
        length = max(0, len(log.events) - back)
        self._kept.append(
            Kept(
                session_id,
                log,
                length,
                log.events[:length],
                surface_facts(log.surface_at(length)),
                {n: s.snapshot(session_id, at=length) for n, s in self._stores.items()},
            )
        )
        del self._kept[:-KEPT_MAX]

    @rule()
    @precondition(lambda self: self._kept)
    def look_at_kept(self) -> None:
        """Ask the old snapshots again."""
        self._check_kept()

    @rule(
        parent=st.none() | st.sampled_from(SESSION_IDS),
        created_at=st.integers(0, 4),
        session_id=st.sampled_from(SESSION_IDS),
        limit=st.integers(0, 4),
    )
    def list_from(self, parent: str | None, created_at: int, session_id: str, limit: int) -> None:
        """Ask for a page behind any key, of a session or of none."""
        self._compare_pages(parent, HeadKey(created_at, session_id), limit)

    @rule(limit=st.integers(1, 4))
    def list_all(self, limit: int) -> None:
        """Walk all sessions, and the children of each, by pages of one size."""
        for parent in (None, *SESSION_IDS):
            key: HeadKey | None = None
            while True:
                self._compare_pages(parent, key, limit)
                key = self._model.page(parent, key, limit).next_key
                if key is None:
                    break

    def _compare_pages(self, parent: str | None, after: HeadKey | None, limit: int) -> None:
        def naive() -> HeadPage:
            return self._model.page(parent, after, limit)

        if parent is None:
            self._agree("heads", lambda store: store.heads(after=after, limit=limit), naive)
        else:
            self._agree(
                "children", lambda store: store.children(parent, after=after, limit=limit), naive
            )

    @rule()
    def follow(self) -> None:
        """Ask what changed since each of the last tokens, and since ever."""
        existing = set(self._model.logs)
        fresh: dict[str, str] = {}
        for name, store in self._stores.items():
            everything = store.changes()
            assert existing <= set(everything.session_ids), f"changes of {name}"
            fresh[name] = everything.token
            for earlier in self._tokens:
                named = store.changes(earlier.tokens[name]).session_ids
                assert len(set(named)) == len(named), f"changes of {name}"
                # Of a session that came and went between, nobody need hear.
                changed = set(self._model.changed[earlier.changes :])
                needed = changed & (existing | earlier.session_ids)
                assert needed <= set(named) <= set(self._model.changed), f"changes of {name}"
        self._tokens.append(_Token(len(self._model.changed), existing, fresh))
        del self._tokens[:-KEPT_MAX]

    def _some_id(self, pick: int) -> str:
        """Return the id of a session, or now and then one that may be of none."""
        known = list(self._model.logs)
        if not known or pick % 10 == 0:
            return SESSION_IDS[pick % len(SESSION_IDS)]
        return known[pick % len(known)]

    def _some_seq(self, session_id: str, pick: int) -> int:
        """Return a seq of the session, or the next one before its first or behind its last."""
        return pick % (len(self._events(session_id)) + 4) - 1
