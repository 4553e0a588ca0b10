"""The contract as the example driver's author fills it in."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
import pytest

from eventlog.testing import StoreContract
from support import IN_MEMORY
from support.sqlite_example import SqliteStore


class SqliteContract(StoreContract):
    raw_form = "lines"
    scanned = frozenset({"children", "changes"})
    # Several milliseconds a commit make long tests slow.
    threads = 8
    appends_a_thread = 5
    appends_in_a_row = 20
    crowd_sessions = 200

    @pytest.fixture
    def root(self) -> Iterator[Path]:
        with TemporaryDirectory(prefix="example-", dir=IN_MEMORY) as folder:
            yield Path(folder, "store")

    def open_store(self, root: Path, *, read_only: bool = False) -> SqliteStore:
        return SqliteStore(root / "log.sqlite", read_only=read_only)

    def raw_read(self, root: Path, session_id: str) -> bytes | None:
        if not root.exists():
            return None
        with closing(sqlite3.connect(root / "log.sqlite")) as db:
            query = "SELECT key, header FROM session WHERE id = ?"
            row = db.execute(query, (session_id,)).fetchone()
            if row is None:
                return None
            key, header = row
            events = db.execute("SELECT line FROM event WHERE key = ? ORDER BY seq", (key,))
            return b"".join([header, *(line for (line,) in events)])

    def raw_write(self, root: Path, session_id: str, lines: bytes) -> None:
        header, *events = lines.splitlines(keepends=True)
        try:
            created_at = orjson.loads(header)["createdAt"]
        except orjson.JSONDecodeError:
            created_at = 0
        if not (root / "log.sqlite").exists():
            SqliteStore(root / "log.sqlite")._create()
        with closing(sqlite3.connect(root / "log.sqlite")) as db, db:
            db.execute("DELETE FROM session WHERE id = ?", (session_id,))
            key = db.execute(
                "INSERT INTO session(id, created_at, header) VALUES (?, ?, ?)",
                (session_id, created_at, header),
            ).lastrowid
            rows = [(key, seq, line) for seq, line in enumerate(events)]
            db.executemany("INSERT INTO event VALUES (?, ?, ?)", rows)
