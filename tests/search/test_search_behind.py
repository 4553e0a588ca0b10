"""Search while another process indexes: what is missing is named, and the rest is found."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eventlog import EventStore, open_store
from eventlog.query import (
    EmbeddedIndex,
    SearchPage,
    SessionHit,
    SessionQuery,
    SessionQueryErrorCode,
)
from eventlog.query.search.engines import store_index
from eventlog.query.search.location import FileLock
from eventlog.query.search.narrowing import DocumentScope, SessionScope
from eventlog.query.search.parsing import parse
from eventlog.query.search.provider import CorpusRequest, SessionRequest
from eventlog.vocabulary import DEFAULT_VOCABULARY
from support.query import raises
from support.searching import filled, found, sessions_found

Behind = Callable[[EventStore], SessionQuery]


@pytest.fixture
def behind(stored: EventStore, cache: Path) -> Iterator[Behind]:
    """Makes queries over a store whose index has s1 and s2, and is held by somebody else."""
    filled(stored, ["needle"], "s1")
    filled(stored, ["needle"], "s2")
    index: EmbeddedIndex = store_index(stored, DEFAULT_VOCABULARY, wait_s=0.05)
    assert {"s1", "s2"} == set(sessions_found(SessionQuery(store=stored, search=index), "needle"))
    (path,) = cache.glob("*.sqlite3")
    with FileLock(path.with_suffix(".lock")).held(wait_s=1) as held:
        assert held
        yield lambda store: SessionQuery(store=store, search=index)
    index.close()


def faults(page: SearchPage[SessionHit]) -> list[tuple[str | None, str]]:
    return [(fault.session_id, fault.kind) for fault in page.faults]


def test_a_new_session_is_named(stored: EventStore, behind: Behind) -> None:
    """A search over sessions answers from what there is; that of one session reads its log."""
    filled(stored, ["needle"], "s3")
    query = behind(stored)

    page = query.search_sessions("needle")

    assert {"s1", "s2"} == {hit.record.header.id for hit in page.items}
    assert [("s3", "behind")] == faults(page)
    assert [0] == found(query, "needle", "s3")


def test_a_session_made_anew_is_named(stored: EventStore, behind: Behind) -> None:
    """
    A session that was deleted and made anew, no longer than before, counted as indexed: its
    old words were found, its new ones were not, and nothing said so.
    """
    stored.delete("s2", forget=True)
    filled(stored, ["thimble"], "s2", created_at=9)

    page = behind(stored).search_sessions("thimble")

    assert () == page.items
    assert [("s2", "behind")] == faults(page)


def test_a_store_made_anew_is_named(stored: EventStore, behind: Behind, tmp_path: Path) -> None:
    """Another store at the place of the one that was indexed is one that is not indexed yet."""
    root = tmp_path / "store"
    scheme = "jsonl" if [*root.glob("*.jsonl")] else "lmdb"
    stored.close()
    shutil.rmtree(root)
    with open_store(f"{scheme}:{root}") as store:
        filled(store, ["thimble"], "s3")

        page = behind(store).search_sessions("thimble")

    assert () == page.items
    assert [("s3", "behind")] == faults(page)


@pytest.mark.parametrize("stored", ["jsonl"], indirect=True)
def test_j4_one_damaged_session_is_a_fault_of_its_own(
    stored: EventStore, behind: Behind, tmp_path: Path
) -> None:
    """A session that cannot be read made the whole search fail while somebody else was indexing."""
    (tmp_path / "store" / "s2.jsonl").write_bytes(b"{garbage\n")

    page = behind(stored).search_sessions("needle")

    assert ["s1"] == [hit.record.header.id for hit in page.items]
    assert [("s2", "header")] == faults(page)


def test_a_search_notices_that_another_process_has_begun_anew(stored: EventStore) -> None:
    """
    Once much of an index is gone it is emptied and filled again, and its numbers mean other
    sessions. A search that was drawing its matches then found nothing, or those of another
    session, and said nothing.
    """
    for number in range(110):
        filled(stored, ["gone"] * 10, f"gone{number}")
    filled(stored, ["needle"] * 20, "s1")
    filled(stored, ["needle"] * 30, "s2")
    indexes = [store_index(stored, DEFAULT_VOCABULARY) for _ in range(2)]
    query = SessionQuery(store=stored, search=indexes[0])
    scope = DocumentScope()
    asked = SessionRequest(parse("needle"), scope)
    answers = [
        indexes[0].search_session(lambda: query.corpus.snapshot("s1"), asked),
        indexes[0].search_corpus(stored, CorpusRequest(parse("needle"), scope, SessionScope())),
    ]

    for number in range(110):
        stored.delete(f"gone{number}")
    for _ in range(2):
        indexes[1].update(stored)

    assert 0 == indexes[1].status().hidden
    for answer in answers:
        with raises(SessionQueryErrorCode.INDEX_FAILED):
            next(answer.matches)
    assert 20 == len(found(query, "needle", "s1", limit=50))
    assert {"s1", "s2"} == set(sessions_found(query, "needle"))
    for index in indexes:
        index.close()
