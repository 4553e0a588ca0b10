"""
Search against programs: an index after any history is the index of its outcome.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import chain, repeat
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from eventlog import EventStore, open_store
from eventlog.errors import InvalidSurface
from eventlog.query import (
    EmbeddedIndex,
    ScanProvider,
    SearchHit,
    SearchPage,
    SessionHit,
    SessionQuery,
    SessionQueryError,
    SessionQueryErrorCode,
)
from eventlog.vocabulary import DEFAULT_VOCABULARY
from support import make_header, message, replacement
from support.searching import filled, found

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
        self.folder = TemporaryDirectory()
        self.open_index()
        self.created = 0

    def open_index(self) -> None:
        path = Path(self.folder.name) / "index.sqlite3"
        self.index = EmbeddedIndex(path, DEFAULT_VOCABULARY)
        self.query = SessionQuery(store=self.store, search=self.index)

    def teardown(self) -> None:
        self.index.close()
        self.folder.cleanup()

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
        except InvalidSurface:
            pass  # a replacement may reach back behind the cut

    @rule(query=queries)
    def search(self, query: str) -> None:
        self.query.search_sessions(query)

    @rule()
    def reopen(self) -> None:
        self.index.close()
        self.open_index()

    @rule(asked=st.integers(0, 5))
    def give_up_and_reopen(self, asked: int) -> None:
        answers = chain([False] * asked, repeat(True))
        try:
            self.index.update(self.store, cancel=lambda: next(answers))
        except SessionQueryError as error:
            assert SessionQueryErrorCode.ABORTED is error.code  # noqa: PT017
        self.reopen()

    @rule(damage=st.sampled_from(["truncate", "remove"]))
    def damage(self, damage: str) -> None:
        path = Path(self.folder.name) / "index.sqlite3"
        if damage == "remove":
            path.unlink(missing_ok=True)
        elif path.exists():
            os.truncate(path, path.stat().st_size // 2)

    @rule()
    def rebuild(self) -> None:
        self.index.rebuild(self.store)

    @rule(query=queries)
    def equals_fresh(self, query: str) -> None:
        fresh = EmbeddedIndex(None, DEFAULT_VOCABULARY)
        other = SessionQuery(store=self.store, search=fresh)
        scan = SessionQuery(store=self.store, search=ScanProvider(DEFAULT_VOCABULARY))
        try:
            for session_id in self.ids():
                expected = other.search_events(session_id, query, limit=1000)
                actual = self.query.search_events(session_id, query, limit=1000)
                assert shown(expected) == shown(actual)
                assert expected.searched == actual.searched
                read = scan.search_events(session_id, query, limit=1000)
                exact = {entry for entry in shown(read) if entry[0] >= 3}
                assert exact == {entry for entry in shown(actual) if entry[0] >= 3}
            expected_sessions = other.search_sessions(query, limit=1000)
            actual_sessions = self.query.search_sessions(query, limit=1000)
            assert sessions_shown(expected_sessions) == sessions_shown(actual_sessions)
            assert expected_sessions.searched == actual_sessions.searched
        finally:
            fresh.close()


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=12, stateful_step_count=25, deadline=None)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=5),
    st.text(max_size=20),
    st.booleans(),
)
def test_any_text_is_a_query(given: list[str], other: str, scanned: bool) -> None:
    """
    Any text as a query raises nothing but INVALID_QUERY, and every text of the session
    matches itself, by its very characters where it has no word.
    """
    provider = ScanProvider(DEFAULT_VOCABULARY) if scanned else None
    with open_store("memory:") as store:
        filled(store, given)
        query = SessionQuery(store=store, search=provider)
        searchable = {document.seq: document.text for document in query.filter_events("s1").items}
        for seq, text in searchable.items():
            assert seq in found(query, text, limit=10)
        for typed in (other, f"{other} *", f'"{other}'):
            codes = {refusal(query, typed, across) for across in (False, True)}
            assert codes <= {None, SessionQueryErrorCode.INVALID_QUERY} or scanned
        query.engines.close()


def refusal(query: SessionQuery, typed: str, across: bool) -> SessionQueryErrorCode | None:
    """Why a query is refused, None where it is not."""
    try:
        if across:
            query.search_sessions(typed)
        else:
            query.search_events("s1", typed)
    except SessionQueryError as error:
        return error.code
    return None


class Walk(RuleBasedStateMachine):
    """Pages of searches, fetched while the log grows, is compacted and indexed anew."""

    @initialize(texts=st.lists(texts, min_size=5, max_size=30), query=queries)
    def begin(self, texts: list[str], query: str) -> None:
        self.store: EventStore = open_store("memory:")
        self.index = EmbeddedIndex(None, DEFAULT_VOCABULARY)
        self.query = SessionQuery(store=self.store, search=self.index)
        self.typed = query
        self.others = 0
        filled(self.store, texts, "s0")
        for number in range(1, 8):
            filled(self.store, texts[number % 5 :: 3] or texts, f"s{number}", created_at=number)
        page = self.query.search_events("s0", query, limit=2)
        sessions = self.query.search_sessions(query, limit=2)
        # Words that appear later may change what a typo is taken for, but nothing else.
        self.matching = {
            hit.seq
            for hit in self.query.search_events("s0", query, limit=500).items
            if hit.score >= 3
        }
        self.matching_sessions = {
            hit.record.header.id
            for hit in self.query.search_sessions(query, limit=500).items
            if hit.best_match.score >= 3
        }
        self.lengths = {head.header.id: head.length for head in self.store.heads(limit=100).items}
        self.events, self.sessions = [*page.items], [*sessions.items]
        self.cursor, self.sessions_cursor = page.next_cursor, sessions.next_cursor

    def teardown(self) -> None:
        while self.cursor is not None or self.sessions_cursor is not None:
            self.go_on()
        assert len(self.events) == len({hit.seq for hit in self.events})
        assert self.matching <= {hit.seq for hit in self.events}
        assert all(hit.seq < self.lengths["s0"] for hit in self.events)
        ids = [hit.record.header.id for hit in self.sessions]
        assert len(ids) == len(set(ids))
        assert self.matching_sessions <= set(ids)
        assert all(hit.best_match.seq < self.lengths[hit.record.header.id] for hit in self.sessions)
        for hits in ([*self.events], [hit.best_match for hit in self.sessions]):
            scores = [hit.score for hit in hits]
            assert sorted(scores, reverse=True) == scores
        self.index.close()

    @rule()
    def go_on(self) -> None:
        if self.cursor is not None:
            page = self.query.search_events("s0", self.typed, limit=2, cursor=self.cursor)
            self.events += page.items
            self.cursor = page.next_cursor
        if self.sessions_cursor is not None:
            sessions = self.query.search_sessions(self.typed, limit=2, cursor=self.sessions_cursor)
            self.sessions += sessions.items
            self.sessions_cursor = sessions.next_cursor

    @rule(text=texts, number=st.integers(0, 7))
    def grow(self, text: str, number: int) -> None:
        filled(self.store, [text], f"s{number}")

    @rule(texts=st.lists(st.just("filler"), min_size=10, max_size=40))
    def shift_scores(self, texts: list[str]) -> None:
        self.others += 1
        filled(self.store, texts, f"other{self.others}")

    @rule(count=st.integers(1, 5))
    def compact(self, count: int) -> None:
        head = self.store.head("s0")
        assert head is not None
        nodes = self.store.snapshot("s0").nodes()[:count]
        self.store.append(head.header, [replacement(head.length, nodes[0], nodes[-1], nodes)])


TestWalk = Walk.TestCase
TestWalk.settings = settings(max_examples=20, stateful_step_count=12, deadline=None)
