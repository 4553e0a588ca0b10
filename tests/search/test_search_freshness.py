"""An answer is never silently stale, nor a false "no match"."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from eventlog import EventStore, open_store
from eventlog.query import EmbeddedIndex, SessionQuery, SessionQueryErrorCode
from eventlog.query.search.database import Database, Engine
from eventlog.query.search.engines import store_index
from eventlog.vocabulary import DEFAULT_VOCABULARY
from support import make_header, replacement
from support.processes import forked, wait_for
from support.query import raises
from support.searching import filled, found, sessions_found

Code = SessionQueryErrorCode


@pytest.fixture
def query(stored: EventStore) -> Iterator[SessionQuery]:
    """Queries over *stored*."""
    query = SessionQuery(store=stored)
    yield query
    query.engines.close()


def index_file(cache: Path) -> Path:
    """The file of the only index there is."""
    (path,) = cache.glob("*.sqlite3")
    return path


def test_h6_what_another_process_appends_is_found_at_once(
    stored: EventStore, query: SessionQuery
) -> None:
    """
    H6: an index fell behind and recent sessions could not be found, and nothing said so.
    What another process has appended is in the very next answer.
    """
    filled(stored, ["first"])
    assert [] == found(query, "needle")
    assert [] == sessions_found(query, "needle")

    def append() -> None:
        with open_store(f"{scheme(stored)}:{stored.location}") as other:
            filled(other, ["needle"])
            filled(other, ["needle"], "s2")

    assert 0 == forked(append)
    assert [1] == found(query, "needle")
    assert {"s1", "s2"} == set(sessions_found(query, "needle"))


def scheme(store: EventStore) -> str:
    return "lmdb" if "Lmdb" in type(store).__name__ else "jsonl"


def test_one_append_costs_one_append(stored: EventStore, query: SessionQuery) -> None:
    """A search behind one append reads that event and a handful of records, not the log."""
    for number in range(20):
        filled(stored, [f"word {n}" for n in range(100)], f"s{number}")
    query.search_sessions("warm")
    filled(stored, ["needle"], "s7")
    stored.meter.reset()

    assert ["s7"] == sessions_found(query, "needle")
    assert stored.meter.records < 20


def test_an_unchanged_store_is_not_read(stored: EventStore, query: SessionQuery) -> None:
    """A search of what was indexed and finds nothing reads no event."""
    filled(stored, [f"word {n}" for n in range(100)])
    query.search_sessions("warm")
    stored.meter.reset()

    assert [] == sessions_found(query, "absent")
    assert 0 == stored.meter.records


def test_classes_follow_a_replacement(stored: EventStore, query: SessionQuery) -> None:
    """What a compaction replaced is found as shadowed, its summary as current."""
    from eventlog.query import Classes

    filled(stored, ["needle one", "needle two", "needle three"])
    assert [2, 1, 0] == found(query, "needle", filters=[Classes(["current"])])

    stored.append(make_header("s1"), [replacement(3, 0, 1, [0, 1])])

    assert [2] == found(query, "needle", filters=[Classes(["current"])])
    assert [1, 0] == found(query, "needle", filters=[Classes(["shadowed"])])
    assert [3] == found(query, "summary", filters=[Classes(["current"])])


def test_h9_a_deleted_session_does_not_come_back(stored: EventStore, query: SessionQuery) -> None:
    """
    H9: a deleted session's text was found again after the next scan. Once deleted it is in
    no list and no search, by this index and by a new one, and its id is unknown.
    """
    filled(stored, ["needle"], "gone")
    filled(stored, ["needle"], "kept")
    assert {"gone", "kept"} == set(sessions_found(query, "needle"))

    stored.delete("gone")

    assert ["kept"] == sessions_found(query, "needle")
    with raises(Code.SESSION_NOT_FOUND):
        query.search_events("gone", "needle")
    filled(stored, ["more"], "kept")
    again = SessionQuery(store=stored)
    assert ["kept"] == sessions_found(again, "needle")
    again.engines.close()


def test_h9_a_session_that_came_and_went_between_two_searches_is_gone(
    stored: EventStore, query: SessionQuery
) -> None:
    """
    H9: a session that only a search of its own had indexed, and that was deleted before the
    store was searched as a whole, stayed in the index: some stores tell of a difference
    only, and there was none.
    """
    filled(stored, ["needle"], "kept")
    assert ["kept"] == sessions_found(query, "needle")
    filled(stored, ["needle"], "passing")
    assert [0] == found(query, "needle", "passing")
    stored.delete("passing")
    stored.delete("passing", forget=True)

    page = query.search_sessions("needle")

    assert (["kept"], 1) == ([hit.record.header.id for hit in page.items], page.searched)
    index = query.engines.stored(stored)
    assert isinstance(index, EmbeddedIndex)
    assert 1 == index.status().sessions


def test_a_session_made_anew_is_another_one(stored: EventStore, query: SessionQuery) -> None:
    """The same id with another log is indexed anew, whatever its length."""
    filled(stored, ["needle", "same"], created_at=5)
    assert [0] == found(query, "needle")
    stored.delete("s1")
    stored.delete("s1", forget=True)
    filled(stored, ["other", "thing"], created_at=5)

    assert [] == sessions_found(query, "needle")
    assert [] == found(query, "needle")
    assert [0] == found(query, "other")
    assert ["s1"] == sessions_found(query, "other")


def test_a_store_put_back_to_an_earlier_state(tmp_path: Path) -> None:
    """
    A backup was put back over a store, and the index, whose mark was ahead of it, took the
    store for unchanged. What was lost is found no more, and what came since is found.
    """
    root, backup = tmp_path / "store", tmp_path / "backup"
    with open_store(f"lmdb:{root}") as store:
        filled(store, ["kept"], "s1")
    shutil.copytree(root, backup)
    with open_store(f"lmdb:{root}") as store:
        filled(store, ["lost"], "s1")
        filled(store, ["lost"], "s2")
        query = SessionQuery(store=store)
        assert {"s1", "s2"} == set(sessions_found(query, "lost"))
        query.engines.close()
    shutil.rmtree(root)
    shutil.copytree(backup, root)
    with open_store(f"lmdb:{root}") as store:
        filled(store, ["new"], "s3")
        query = SessionQuery(store=store)

        assert [] == sessions_found(query, "lost")
        assert ["s1"] == sessions_found(query, "kept")
        assert ["s3"] == sessions_found(query, "new")
        query.engines.close()


def test_one_damaged_session_among_many(tmp_path: Path) -> None:
    """J4: a damaged log is a fault of the answer; what can be read of it is found, and all else."""
    root = tmp_path / "store"
    with open_store(f"jsonl:{root}") as store:
        for name in ("s1", "s2", "s3"):
            filled(store, [f"needle {n} {name}" for n in range(20)], name)
    path = root / "s2.jsonl"
    lines = path.read_bytes().split(b"\n")
    lines[10] = b'{"broken'
    path.write_bytes(b"\n".join(lines))
    with open_store(f"jsonl:{root}") as store:
        query = SessionQuery(store=store)

        page = query.search_sessions("needle")

        assert {"s1", "s2", "s3"} == {hit.record.header.id for hit in page.items}
        assert ["s2"] == [fault.session_id for fault in page.faults]
        hits = found(query, "needle s2", "s2", limit=50)
        assert 19 == len(hits)
        assert 9 not in hits
        path.unlink()
        filled(store, ["later"], "s1")
        assert () == query.search_sessions("needle").faults
        query.engines.close()


def killed_while_indexing(root: Path, cache: Path, delay_s: float) -> None:
    """Index in a child that is killed after a while."""
    child = os.fork()
    if child == 0:
        try:
            os.environ["EVENTLOG_CACHE"] = str(cache)
            with open_store(f"jsonl:{root}") as store:
                SessionQuery(store=store).search_sessions("needle")
        finally:
            os._exit(0)
    time.sleep(delay_s)
    os.kill(child, signal.SIGKILL)
    wait_for(child)


def kill_campaign(tmp_path: Path, kills: int) -> None:
    root = tmp_path / "store"
    random = Random(3)
    words = [f"word{n}" for n in range(2_000)]
    with open_store(f"jsonl:{root}") as store:
        for number in range(30):
            texts = [" ".join(random.choices(words, k=30)) for _ in range(60)]
            filled(store, [*texts, f"needle{number}"], f"s{number}")
    cache = tmp_path / "cache"
    for kill in range(kills):
        killed_while_indexing(root, cache, random.uniform(0.0, 0.4))
        if kill % 5 == 0:
            os.environ["EVENTLOG_CACHE"] = str(cache)
            with open_store(f"jsonl:{root}") as store:
                query = SessionQuery(store=store)
                number = random.randrange(30)
                page = query.search_sessions(f"needle{number}", limit=1)
                assert [f"s{number}"] == [hit.record.header.id for hit in page.items]
                assert () == page.faults
                assert 30 * 61 + kill // 5 == page.searched
                filled(store, [f"more{kill}"], f"s{number}")
                query.engines.close()
        if kill % 20 == 19:
            shutil.rmtree(cache)


def test_killed_in_mid_write(tmp_path: Path) -> None:
    """An indexer killed at any moment leaves an index that gives the right answers."""
    kill_campaign(tmp_path, 10)


@pytest.mark.long
def test_killed_in_mid_write_200_times(tmp_path: Path) -> None:
    """An indexer killed 200 times leaves an index that gives the right answers."""
    kill_campaign(tmp_path, 200)


def test_several_processes_build_one_index(tmp_path: Path, cache: Path) -> None:
    """Of four processes that search a new store at once each finds everything."""
    root = tmp_path / "store"
    with open_store(f"jsonl:{root}") as store:
        for number in range(20):
            filled(store, [f"needle {n}" for n in range(50)], f"s{number}")
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with open_store(f"jsonl:{root}") as store:
                    query = SessionQuery(store=store)
                    page = query.search_sessions("needle", limit=100)
                    code = 0 if (len(page.items), page.faults) == (20, ()) else 2
            finally:
                os._exit(code)
        children.append(child)

    assert [0] * 4 == [wait_for(child) for child in children]
    with open_store(f"jsonl:{root}") as store:
        index = store_index(store, DEFAULT_VOCABULARY)
        assert (20, 1_000) == (index.status().sessions, index.status().documents)
        index.close()


def test_a_forked_child_searches_by_itself(stored: EventStore, query: SessionQuery) -> None:
    """A child of a process with an open index opens its own, and the parent goes on."""
    filled(stored, ["needle"])
    assert ["s1"] == sessions_found(query, "needle")

    def search() -> None:
        assert ["s1"] == sessions_found(query, "needle")
        assert [0] == found(query, "needle")

    assert 0 == forked(search)
    filled(stored, ["needle again"], "s2")
    assert {"s1", "s2"} == set(sessions_found(query, "needle"))


def test_both_modules_of_sqlite_share_a_file(tmp_path: Path) -> None:
    """An index that one module has written is read and extended by the other."""
    path = tmp_path / "index.sqlite3"
    with open_store("memory:") as store:
        for number, engine in enumerate(("apsw", "sqlite3", "apsw")):
            filled(store, [f"needle{number}"], f"s{number}")
            index = EmbeddedIndex(path, DEFAULT_VOCABULARY, engine=engine)  # type: ignore[arg-type]
            query = SessionQuery(store=store, search=index)
            for earlier in range(number + 1):
                assert [f"s{earlier}"] == sessions_found(query, f"needle{earlier}", limit=1)
            assert (number + 1, 0) == (index.status().documents, index.status().hidden)
            index.close()


@pytest.mark.parametrize("engine", ["apsw", "sqlite3"])
def test_failures_of_sqlite_have_one_form(tmp_path: Path, engine: Engine) -> None:
    """Both modules tell a broken file and a place that cannot be written alike."""
    from eventlog.query.search.database import DatabaseFailure

    path = tmp_path / "x"
    path.write_bytes(b"no database at all" * 100)
    db = Database(str(path), engine=engine)
    with pytest.raises(DatabaseFailure) as caught:
        db.execute("SELECT * FROM sqlite_schema")
    assert caught.value.is_broken
    db.close()
    with pytest.raises(DatabaseFailure) as caught:
        Database(str(tmp_path / "no" / "folder"), engine=engine)
    assert caught.value.is_unwritable


def test_a_cancelled_search_leaves_a_whole_index(stored: EventStore, query: SessionQuery) -> None:
    """A search given up in the middle of indexing costs nothing but the rest of the work."""
    for number in range(10):
        filled(stored, [f"needle {n}" for n in range(30)], f"s{number}")
    asked = iter([False] * 6 + [True])
    with raises(Code.ABORTED):
        query.search_sessions("needle", cancel=lambda: next(asked))

    page = query.search_sessions("needle", limit=50)
    assert (10, 300, ()) == (len(page.items), page.searched, page.faults)
