"""The file of an index: where it is, what it holds, and how it is looked after."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog import EventStore, open_store
from eventlog.query import EmbeddedIndex, SessionQuery
from eventlog.query.search.database import Engine
from eventlog.vocabulary import DEFAULT_VOCABULARY, EventType
from support import log_only, make_header
from support.processes import dropping_root, forked
from support.searching import filled, found, sessions_found


@pytest.fixture
def query(stored: EventStore) -> Iterator[SessionQuery]:
    """Queries over *stored*."""
    query = SessionQuery(store=stored)
    yield query
    query.engines.close()


def test_the_index_is_a_private_file_in_the_cache(
    stored: EventStore, query: SessionQuery, cache: Path
) -> None:
    """The index is readable by its user alone, and nothing is written beside the store."""
    before = set(os.listdir(stored.location)) if os.path.isdir(stored.location) else set()
    filled(stored, ["needle"])
    listed = set(os.listdir(stored.location))
    query.search_sessions("needle")

    assert 0o700 == stat.S_IMODE(cache.stat().st_mode)
    assert {0o600} == {stat.S_IMODE(path.stat().st_mode) for path in cache.iterdir()}
    assert listed == set(os.listdir(stored.location)) >= before


def test_another_vocabulary_has_another_index(stored: EventStore, cache: Path) -> None:
    """What has no text in one vocabulary is found by another, each in its own index."""
    stored.append(make_header("s1"), [log_only(0, "x/note", data={"note": "needle"})])
    own = DEFAULT_VOCABULARY.with_types({"x/note": EventType(text=lambda data: [data["note"]])})
    plain, extended = SessionQuery(store=stored), SessionQuery(store=stored, vocabulary=own)

    assert [] == sessions_found(plain, "needle")
    assert ["s1"] == sessions_found(extended, "needle")
    assert [] == sessions_found(plain, "needle")
    assert 2 == len(list(cache.glob("*.sqlite3")))
    plain.engines.close()
    extended.engines.close()


def test_where_the_cache_cannot_be_written_the_index_is_in_memory(tmp_path: Path) -> None:
    """J3: a read-only home still searches: the index is built in memory."""
    root = tmp_path / "store"
    with open_store(f"jsonl:{root}") as store:
        filled(store, ["needle"])
    sealed = tmp_path / "sealed"
    sealed.mkdir(mode=0o555)
    for path in (root, *root.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)
    for path in (tmp_path, *tmp_path.parents):
        if not path.stat().st_mode & 0o001:
            path.chmod(path.stat().st_mode | 0o011)  # pytest's own folders are private

    def search() -> None:
        os.environ["EVENTLOG_CACHE"] = str(sealed / "cache")
        with open_store(f"jsonl:{root}", read_only=True) as store:
            query = SessionQuery(store=store)
            assert ["s1"] == sessions_found(query, "needle")
            assert [0] == found(query, "needle")

    assert 0 == forked(dropping_root(search))
    assert [] == list(sealed.iterdir())


def test_an_index_with_much_that_is_gone_is_built_anew(tmp_path: Path) -> None:
    """Hidden documents do not pile up for ever."""
    path = tmp_path / "index.sqlite3"
    with open_store("memory:") as store:
        index = EmbeddedIndex(path, DEFAULT_VOCABULARY)
        query = SessionQuery(store=store, search=index)
        for _ in range(3):
            filled(store, [f"needle {n}" for n in range(600)], "s1")
            query.search_sessions("needle")
            store.delete("s1")
            store.delete("s1", forget=True)
        filled(store, ["needle"], "kept")

        assert ["kept"] == sessions_found(query, "needle")
        status = index.status()
        assert (1, 1) == (status.sessions, status.documents)
        assert status.hidden <= 1_200
        index.close()


@pytest.mark.parametrize("engine", ["apsw", "sqlite3"])
def test_to_open_an_index_writes_nothing(tmp_path: Path, engine: Engine) -> None:
    """Opening an index that is there writes no page, and waits for no writer."""
    path = tmp_path / "index.sqlite3"
    with open_store("memory:") as store:
        filled(store, ["needle"])
        index = EmbeddedIndex(path, DEFAULT_VOCABULARY, engine=engine)
        index.update(store)
        index.close()
    before = path.read_bytes()
    writer = sqlite3.connect(path)
    writer.execute("BEGIN IMMEDIATE")

    index = EmbeddedIndex(path, DEFAULT_VOCABULARY, engine=engine)
    assert 1 == index.status().documents
    assert 0 == os.path.getsize(f"{path}-wal")

    writer.close()
    index.close()
    assert before == path.read_bytes()


@pytest.mark.parametrize("engine", ["apsw", "sqlite3"])
def test_many_new_sessions_become_one_part(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    What a first search indexes in many commits is merged: later ones look into one part,
    and the room of the others is given back.
    """
    monkeypatch.setattr("eventlog.query.search.writing.BATCH_DOCUMENTS", 5)
    path = tmp_path / "index.sqlite3"
    with open_store("memory:") as store:
        for number in range(70):
            filled(store, ["needle", f"other {number}"], f"s{number}")
        index = EmbeddedIndex(path, DEFAULT_VOCABULARY, engine=engine)

        hits = sessions_found(SessionQuery(store=store, search=index), "needle", limit=100)
        index.close()

    assert 70 == len(hits)
    connection = sqlite3.connect(path)
    assert [(1,)] == connection.execute("SELECT count(DISTINCT segid) FROM fts_idx").fetchall()
    assert [(0,)] == connection.execute("PRAGMA freelist_count").fetchall()
    connection.close()


def test_rebuild_and_status(stored: EventStore, query: SessionQuery) -> None:
    """The status says what the index holds; building it anew changes no answer."""
    filled(stored, ["needle", "other"])
    index = query.engines.stored(stored)
    assert isinstance(index, EmbeddedIndex)
    before = sessions_found(query, "needle")

    assert index.rebuild(stored)

    status = index.status()
    assert (1, 2, 0, ()) == (status.sessions, status.documents, status.hidden, status.faults)
    assert status.path is not None
    assert status.size_bytes > 0
    assert before == sessions_found(query, "needle")


def test_a_rebuilt_index_holds_nothing_of_what_is_gone(
    stored: EventStore, query: SessionQuery, cache: Path
) -> None:
    """The words of a deleted session are in no byte of an index that was built anew."""
    filled(stored, ["xylophonist secretword"], "gone")
    filled(stored, ["other"], "kept")
    assert ["gone"] == sessions_found(query, "secretword")
    index = query.engines.stored(stored)
    assert isinstance(index, EmbeddedIndex)
    stored.delete("gone")
    assert [] == sessions_found(query, "secretword")

    assert index.rebuild(stored)

    assert ["kept"] == sessions_found(query, "other")
    for path in cache.iterdir():
        assert b"secretword" not in path.read_bytes()
        assert b"xylophonist" not in path.read_bytes()
