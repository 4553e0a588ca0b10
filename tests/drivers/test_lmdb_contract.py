"""The contract, held by the LMDB store."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import lmdb

from eventlog import Event, SessionHeader
from eventlog.codec import decode_line, encode_line
from eventlog.drivers.lmdb import LmdbStore
from eventlog.drivers.lmdb.layout import (
    DATABASES,
    EVENT_KEY,
    LAYOUT,
    U64,
    SessionRow,
    decode_events,
    encode_event,
    newest_key,
)
from eventlog.testing import StoreContract


class TestLmdbStore(StoreContract):
    volatile_files = frozenset({"lock.mdb"})

    def open_store(self, root: Path, *, read_only: bool = False) -> LmdbStore:
        return LmdbStore(root, read_only=read_only)

    def raw_read(self, root: Path, session_id: str) -> bytes | None:
        if not (root / "data.mdb").exists():
            return None
        # The store has the files open, and LMDB opens none twice in a process.
        with tempfile.TemporaryDirectory() as copy:
            shutil.copy(root / "data.mdb", copy)
            with opened(Path(copy)) as env, env.begin() as transaction:
                sessions = env.open_db(b"sessions", txn=transaction)
                value = transaction.get(session_id.encode(), db=sessions)
                events = env.open_db(b"events", txn=transaction)
                if value is None:
                    return orphans(transaction, sessions, events)
                row = SessionRow.decode(value)
                cursor = transaction.cursor(events)
                assert cursor.set_range(U64.pack(row.ordinal))
                found, _ = decode_events(cursor.iternext(False, True), 0, row.length)
        return encode_line(row.header) + b"".join(map(encode_line, found))

    def raw_write(self, root: Path, session_id: str, lines: bytes) -> None:
        header, *events = (decode_line(line) for line in lines.splitlines(keepends=True))
        assert isinstance(header, SessionHeader)
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with opened(root) as env, env.begin(write=True) as transaction:
            made = {name: env.open_db(name.encode(), txn=transaction) for name in DATABASES}

            def put(name: str, key: bytes, value: bytes) -> None:
                assert transaction.put(key, value, db=made[name])

            put("about", b"layout", LAYOUT)
            put("about", b"store", bytes(16))
            position = transaction.stat(made["feed"])["entries"] + 1
            last_time = 0
            for seq, event in enumerate(events):
                assert isinstance(event, Event)
                put("events", EVENT_KEY.pack(position, seq), encode_event(event))
                last_time = event.time
            row = SessionRow(position, len(events), last_time, position, header)
            put("sessions", session_id.encode(), row.encode())
            put("newest", newest_key(header.created_at, session_id), b"")
            put("feed", U64.pack(position), session_id.encode())


def orphans(
    transaction: lmdb.Transaction[bytes], sessions: lmdb._Database, events: lmdb._Database
) -> bytes | None:
    """The values of events that no session owns, None where there are none."""
    rows = transaction.cursor(sessions).iternext(False, True)
    owned = {SessionRow.decode(row).ordinal for row in rows}
    left = [
        value for key, value in transaction.cursor(events) if EVENT_KEY.unpack(key)[0] not in owned
    ]
    return b"".join(left) or None


def opened(root: Path) -> lmdb.Environment:
    return lmdb.open(str(root), max_dbs=len(DATABASES), map_size=2**30, lib_version=0)
