"""Whatever happens to an index, answers are those of the log, or an error: never a false miss."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from eventlog import open_store
from eventlog.query import EmbeddedIndex, SessionQuery, SessionQueryErrorCode
from eventlog.query.search.database import Engine
from eventlog.vocabulary import DEFAULT_VOCABULARY
from support import make_header, message
from support.query import raises
from support.searching import filled, found, sessions_found

Code = SessionQueryErrorCode


def overwrite_start(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"\xff" * 100)


def overwrite_middle(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        for place in range(8192, size - 8192, 8192):
            file.seek(place)
            file.write(b"\xff" * 4096)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def scribble(path: Path) -> None:
    path.write_bytes(Random(1).randbytes(100_000))


def running(statement: str) -> Callable[[Path], None]:
    """Damage that SQLite itself takes for none."""

    def damage(path: Path) -> None:
        with sqlite3.connect(path) as connection:
            connection.execute(statement)
        connection.close()

    return damage


def directory_for(ending: str) -> Callable[[Path], None]:
    """A folder in the place of a file beside the index."""

    def damage(path: Path) -> None:
        path.with_suffix(ending).unlink()
        path.with_suffix(ending).mkdir()

    return damage


DAMAGE: dict[str, Callable[[Path], None]] = {
    "unlinked": Path.unlink,
    "start overwritten": overwrite_start,
    "middle overwritten": overwrite_middle,
    "truncated": truncate,
    "empty": empty,
    "scribbled on": scribble,
    "no words": running("DROP TABLE fts"),
    "words lost": running("UPDATE fts_data SET block = x'00ff'"),
    "no documents": running("DROP TABLE doc"),
    "other identity": running("UPDATE state SET value = 'other' WHERE name = 'identity'"),
    "no state": running("DELETE FROM state"),
    "no position": running("DELETE FROM state WHERE name = 'position'"),
    "position is text": running("UPDATE state SET value = 'x' WHERE name = 'position'"),
    "position begins again": running("UPDATE state SET value = 1 WHERE name = 'position'"),
    "sid begins again": running("UPDATE state SET value = 1 WHERE name = 'sid'"),
    "recent is no list": running("UPDATE state SET value = '{' WHERE name = 'recent'"),
    "token is bytes": running("UPDATE state SET value = x'ff' WHERE name = 'token'"),
    "length is text": running("UPDATE session SET length = 'abc'"),
    "no lock": directory_for(".lock"),
    "no lock to open": directory_for(".open"),
}


@pytest.mark.parametrize("damage", [pytest.param(done, id=name) for name, done in DAMAGE.items()])
@pytest.mark.parametrize("while_open", [False, True], ids=["closed", "open"])
@pytest.mark.parametrize("engine", ["apsw", "sqlite3"])
def test_h7_a_lost_or_broken_index_is_built_anew(
    tmp_path: Path, damage: Callable[[Path], None], while_open: bool, engine: Engine
) -> None:
    """
    H7: a damaged or missing side database made intact transcripts invisible. Whatever is
    done to the index, open or not, the answers are those of the log, and what comes later
    is found, too.
    """
    path = tmp_path / "cache" / "index.sqlite3"
    with open_store("memory:") as store:
        for number in range(6):
            filled(store, [f"needle{number} {word}" for word in range(30)], f"s{number}")
        index = EmbeddedIndex(path, DEFAULT_VOCABULARY, engine=engine)
        query = SessionQuery(store=store, search=index)
        assert ["s3"] == sessions_found(query, "needle3", limit=1)
        if not while_open:
            index.close()
            index = EmbeddedIndex(path, DEFAULT_VOCABULARY, engine=engine)
            query = SessionQuery(store=store, search=index)
        damage(path)

        for number in range(6):
            assert [f"s{number}"] == sessions_found(query, f"needle{number}", limit=1)
            assert 30 == len(found(query, f"needle{number}", f"s{number}", limit=50))
        assert 6 == len(query.list_sessions().items)
        header = make_header("s2")
        store.append(header, [message(30, "later")])
        assert ["s2"] == sessions_found(query, "later")
        index.close()


@pytest.mark.parametrize("engine", ["apsw", "sqlite3"])
def test_h7_a_foreign_database_is_refused(tmp_path: Path, engine: Engine) -> None:
    """
    H7: a database of something else at the index's path is left as it is. A search over
    sessions says that the index failed; the search of one reads its log instead.
    """
    path = tmp_path / "index.sqlite3"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE precious(x)")
    connection.close()
    before = path.read_bytes()
    with open_store("memory:") as store:
        filled(store, ["needle"])
        index = EmbeddedIndex(path, DEFAULT_VOCABULARY, engine=engine)
        query = SessionQuery(store=store, search=index)

        with raises(Code.INDEX_FAILED):
            query.search_sessions("needle")
        assert [0] == found(query, "needle")
        assert "scan" == query.search_events("s1", "needle").mode
        index.close()
    assert before == path.read_bytes()
