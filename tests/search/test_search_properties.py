"""
Search against programs: an index after any history is the index of its outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from eventlog import Event, EventStore, open_store
from eventlog.query import SearchHit, SearchPage, SessionHit, SessionQuery, SessionQueryError
from eventlog.query.search.analyzer import analyze
from eventlog.query.search.index import EmbeddedIndex
from eventlog.query.search.scan import ScanProvider
from eventlog.vocabulary import DEFAULT_VOCABULARY
from support import make_header, message, replacement

WORDS = [
    "alpha", "alhpa", "alpho", "beta", "betas", "gamma", "delta_7", "café", "cafe", "x9",
    "上线", "推迟上线", "雨", "1,284", "lib/io.py", "Số", "dư",
]  # fmt: skip
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
queries = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)


def shown(page: SearchPage[SearchHit]) -> set[tuple[int, int, str]]:
    return {(int(hit.score), hit.seq, hit.event_class) for hit in page.items}


def sessions_shown(page: SearchPage[SessionHit]) -> set[tuple[str, int]]:
    return {(hit.record.header.id, int(hit.best_match.score)) for hit in page.items}


class Histories(RuleBasedStateMachine):
    """One store and an index of it through appends, replacements, deletes and reopenings."""

    @initialize()
    def begin(self) -> None:
        self.store: EventStore = open_store("memory:")
        self.index = EmbeddedIndex(None, DEFAULT_VOCABULARY)
        self.query = SessionQuery(store=self.store, search=self.index)
        self.created = 0

    def teardown(self) -> None:
        self.index.close()

    def ids(self) -> list[str]:
        return [head.header.id for head in self.store.heads(limit=1000).items]

    @rule(id=st.sampled_from("abc"), given=st.lists(texts, min_size=1, max_size=4))
    def append(self, id: str, given: Sequence[str]) -> None:
        head = self.store.head(id)
        if head is None:
            self.created += 1
            parent = next(iter(self.ids()), None)
            header = make_header(id, created_at=self.created, cwd=f"/{id}", parent_session=parent)
            self.store.delete(id, forget=True)
            start = 0
        else:
            header, start = head.header, head.length
        self.store.append(header, [message(start + n, text) for n, text in enumerate(given)])

    @rule(id=st.sampled_from("abc"), first=st.integers(0, 9), count=st.integers(1, 4))
    def replace(self, id: str, first: int, count: int) -> None:
        head = self.store.head(id)
        if head is None:
            return
        nodes = self.store.snapshot(id).nodes()[first : first + count]
        if nodes:
            event = replacement(head.length, nodes[0], nodes[-1], nodes)
            self.store.append(head.header, [event])

    @rule(id=st.sampled_from("abc"))
    def delete(self, id: str) -> None:
        self.store.delete(id)

    @rule(id=st.sampled_from("abc"), length=st.integers(1, 3))
    def fork(self, id: str, length: int) -> None:
        head = self.store.head(id)
        if head is None or head.length < length or self.store.head(f"{id}-fork") is not None:
            return
        self.created += 1
        header = make_header(
            f"{id}-fork", created_at=self.created, parent_session=id, seed_length=length
        )
        self.store.delete(header.id, forget=True)
        try:
            self.store.append(header, self.store.snapshot(id).read(0, length))
        except ValueError:
            pass  # a replacement may reach back behind the cut

    @rule(query=queries)
    def search(self, query: str) -> None:
        self.query.search_sessions(query)

    @rule()
    def rebuild(self) -> None:
        self.index.rebuild(self.store)

    @rule(query=queries)
    def equals_fresh(self, query: str) -> None:
        fresh = EmbeddedIndex(None, DEFAULT_VOCABULARY)
        other = SessionQuery(store=self.store, search=fresh)
        scan = SessionQuery(store=self.store, search=ScanProvider(DEFAULT_VOCABULARY))
        try:
            for id in self.ids():
                expected = other.search_events(id, query, limit=1000)
                actual = self.query.search_events(id, query, limit=1000)
                assert shown(expected) == shown(actual)
                assert expected.searched == actual.searched
                read = scan.search_events(id, query, limit=1000)
                exact = {entry for entry in shown(read) if entry[0] >= 3}
                assert exact == {entry for entry in shown(actual) if entry[0] >= 3}
            expected_sessions = other.search_sessions(query, limit=1000)
            actual_sessions = self.query.search_sessions(query, limit=1000)
            assert sessions_shown(expected_sessions) == sessions_shown(actual_sessions)
            assert expected_sessions.searched == actual_sessions.searched
        finally:
            fresh.close()


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=400, stateful_step_count=25, deadline=None)
