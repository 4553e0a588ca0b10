"""Verifying, repairing and salvaging LMDB stores: values, rows and indexes against the log."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias
from zlib import crc32

import lmdb
import pytest

from eventlog.drivers.lmdb import LmdbStore
from eventlog.drivers.lmdb.layout import EVENT_KEY, U64, encode_event
from eventlog.errors import CorruptLog, SessionNotFound, StoreClosed, StoreReadOnly
from eventlog.findings import LOST_TYPE, Finding
from support import make_header, message, messages, replacement
from support.damage import outline
from support.lmdb_files import make_store, raw

Damage: TypeAlias = "Callable[[lmdb.Transaction[bytes], Callable[[str], lmdb._Database]], None]"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with two sessions; the surface of the first has a replacement."""
    return make_store(tmp_path / "store")


def damage(path: Path, act: Damage) -> None:
    """Change the store past the driver."""
    with raw(path) as (transaction, database):
        act(transaction, database)


def session_key(transaction: lmdb.Transaction[bytes], rows: lmdb._Database, number: int) -> bytes:
    """The ordinal of the session that comes *number*-th by id, as it stands in keys."""
    values = [value for _, value in transaction.cursor(rows)]
    return U64.pack(struct.unpack_from("<Q", values[number])[0])


def at_event(seq: int, change: Callable[[bytes], bytes | None]) -> Damage:
    """Change the value of an event of the first session; None deletes it."""

    def act(
        transaction: lmdb.Transaction[bytes], database: Callable[[str], lmdb._Database]
    ) -> None:
        key = session_key(transaction, database("sessions"), 0) + U64.pack(seq)
        value = change(transaction.get(key, db=database("events")) or b"")
        if value is None:
            transaction.delete(key, db=database("events"))
        else:
            transaction.put(key, value, db=database("events"))

    return act


def at_row(kind: bytes, seq: int, value: bytes | None) -> Damage:
    """Put a row of the first session, or delete it."""

    def act(
        transaction: lmdb.Transaction[bytes], database: Callable[[str], lmdb._Database]
    ) -> None:
        key = session_key(transaction, database("sessions"), 0) + kind + U64.pack(seq)
        if value is None:
            transaction.delete(key, db=database("rows"))
        else:
            transaction.put(key, value, db=database("rows"))

    return act


def drop_first(name: str) -> Damage:
    """Delete the first entry of an index."""

    def act(
        transaction: lmdb.Transaction[bytes], database: Callable[[str], lmdb._Database]
    ) -> None:
        cursor = transaction.cursor(database(name))
        assert cursor.first()
        cursor.delete()

    return act


def add(name: str, key: bytes, value: bytes = b"") -> Damage:
    """Add an entry to an index."""

    def act(
        transaction: lmdb.Transaction[bytes], database: Callable[[str], lmdb._Database]
    ) -> None:
        transaction.put(key, value, db=database(name))

    return act


def sealed(body: bytes) -> bytes:
    return body + struct.pack("<I", crc32(body))


def facts(findings: list[Finding]) -> list[tuple[str, str | None, int | None]]:
    return [(finding.kind, finding.session_id, finding.seq) for finding in findings]


def test_a_sound_store_has_no_findings(path: Path, tmp_path: Path) -> None:
    """Nothing is found in a sound store, an empty one, and one where nothing is yet."""
    with LmdbStore(path) as store:
        assert [] == list(store.verify())
        assert [] == store.repair(dry_run=False)
        store.append(make_header("child", parent_session="s1"), messages(2))
        store.delete("s2")
        store.delete("s2", forget=True)
        store.delete("child")
        assert [] == list(store.verify())
    assert [] == list(LmdbStore(tmp_path / "none").verify())
    assert [] == LmdbStore(tmp_path / "none").repair(dry_run=False)
    assert not (tmp_path / "none").exists()


FORGED = sealed(struct.pack("<QqIHB", 5, 1, 0, 3, 0) + b"x/a" + b'{"a": 1}')
BAD_TYPE = sealed(struct.pack("<QqIHB", 5, 1, 0, 2, 0) + b"\xff\xfe" + b"{}")


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (at_event(5, lambda value: value[:-1]), [("event", "s1", 5)]),
        (at_event(5, lambda value: b""), [("event", "s1", 5)]),
        (at_event(5, lambda value: FORGED), [("event", "s1", 5)]),
        (at_event(5, lambda value: BAD_TYPE), [("event", "s1", 5)]),
        (at_event(5, lambda value: None), [("event", "s1", 5)]),
        (at_event(10, lambda value: None), [("event", "s1", 10)]),
        (at_event(5, lambda value: encode_event(message(6))), [("event", "s1", 5)]),
        (at_event(11, lambda value: encode_event(message(11))), [("seq", "s1", 11)]),
        (at_row(b"n", 7, None), [("row", "s1", 7)]),
        (at_row(b"n", 3, struct.pack("<Q", 3)), [("row", "s1", 3)]),
        (at_row(b"s", 3, struct.pack("<Q", 9)), [("row", "s1", 3)]),
        (at_row(b"l", 10, None), [("row", "s1", 10)]),
        (at_row(b"r", 10, struct.pack("<2Q", 2, 3)), [("row", "s1", 10)]),
        (at_row(b"c", 1, b""), [("row", "s1", 1)]),
        (drop_first("newest"), [("index", "s1", None)]),
        (drop_first("feed"), [("index", "s1", None)]),
        (add("newest", U64.pack(1) + b"ghost"), [("index", None, None)]),
        (add("children", bytes(16) + U64.pack(1) + b"ghost"), [("index", None, None)]),
        (add("feed", U64.pack(99), b"s1"), [("index", None, None)]),
        (add("events", EVENT_KEY.pack(77, 0), b"?"), [("orphan", None, None)]),
        (add("sessions", b"s1", b"?"), [("header", "s1", None), ("orphan", None, None)] * 1),
    ],
)
def test_each_problem_is_named(
    path: Path, act: Damage, expected: list[tuple[str, str | None, int | None]]
) -> None:
    """Damaged and missing values, rows that a fresh fold has not, and wrong indexes are named."""
    damage(path, act)
    with LmdbStore(path) as store:
        found = facts(list(store.verify()))
    if expected[0][0] == "header":
        assert set(expected) == set(found)
    else:
        assert expected == found


@pytest.mark.parametrize(
    "act",
    [
        at_event(5, lambda value: value[:-1]),
        at_event(3, lambda value: None),
        at_event(2, lambda value: None),
        at_event(10, lambda value: None),
        at_row(b"n", 7, None),
        at_row(b"s", 3, struct.pack("<Q", 9)),
        at_row(b"c", 1, b""),
        at_row(b"r", 10, b"???"),
        drop_first("newest"),
        drop_first("feed"),
        add("newest", U64.pack(1) + b"ghost"),
        add("feed", U64.pack(99), b"s1"),
    ],
)
def test_j10_repair(path: Path, act: Damage) -> None:
    """
    A dry run changes nothing; the repair backs the store up, does what was told, and finds
    nothing to do when it is run again. Strict reads, lists and appends work, and no event
    but the lost one differs.
    """
    events = [*messages(10), replacement(10, 2, 4, [2, 3, 4])]
    damage(path, act)
    with LmdbStore(path) as store:
        before = (path / "data.mdb").read_bytes()
        told = store.repair()
        assert before == (path / "data.mdb").read_bytes()

        done = store.repair(dry_run=False)

        assert facts(told) == facts(done)
        assert {str(path / "backup-1")} == {one.change and one.change.backup for one in done}
        assert [] == list(store.verify())
        assert [] == store.repair(dry_run=False)
        assert not (path / "backup-2").exists()
        found = store.snapshot("s1").read(0, 11)
        lost = [event.seq for event in found if event.type == LOST_TYPE]
        assert lost == [finding.seq for finding in done if finding.kind == "event"]
        assert [e for e in found if e.seq not in lost] == [e for e in events if e.seq not in lost]
        assert [0, 1, 10, 5, 6, 7, 8, 9] == store.snapshot("s1").nodes()
        assert [2, 3, 4] == store.snapshot("s1").replaced(10)
        assert ["s1", "s2"] == [head.header.id for head in store.heads().items]
        assert 12 == store.append(make_header(), [message(11)])
    with LmdbStore(path / "backup-1", read_only=True) as backup:
        assert facts(told) == facts(list(backup.verify())), "the damage as it was"


def test_a_damaged_session_row_is_left_to_a_person(path: Path) -> None:
    """What nothing else tells is not made up; the other session is served."""
    damage(path, add("sessions", b"s1", b"?"))
    with LmdbStore(path) as store:
        assert {None} == {finding.change for finding in store.repair(dry_run=False)}
        with pytest.raises(CorruptLog):
            store.head("s1")
        assert messages(3) == store.snapshot("s2").read(0, 3)
        assert not (path / "backup-1").exists()


def test_salvage(path: Path) -> None:
    """
    Everything readable is given with gaps marked: around damaged and missing events, and
    behind a header that cannot be read.
    """
    with LmdbStore(path) as store:
        assert list(range(11)) == outline(store)
        with pytest.raises(SessionNotFound):
            store.salvage("none")
    damage(path, at_event(3, lambda value: b"?"))
    damage(path, at_event(4, lambda value: None))
    damage(path, at_event(10, lambda value: None))
    with LmdbStore(path) as store:
        assert [0, 1, 2, ("event", 3, 5, []), 5, 6, 7, 8, 9, ("event", 10, None, [])] == outline(
            store
        )

    def flip(
        transaction: lmdb.Transaction[bytes], database: Callable[[str], lmdb._Database]
    ) -> None:
        value = transaction.get(b"s1", db=database("sessions"))
        assert value is not None
        transaction.put(b"s1", value[:-1] + b"\0", db=database("sessions"))

    damage(path, flip)
    with LmdbStore(path) as store:
        assert [("header", None, 0, []), 0, 1, 2] == outline(store)[:4]


def test_verifying_needs_no_right_to_write(path: Path) -> None:
    """A store that is open for reading can be verified, and tells what a repair would do."""
    damage(path, at_row(b"n", 7, None))
    with LmdbStore(path, read_only=True) as store:
        assert [("row", "s1", 7)] == facts(store.repair())
        with pytest.raises(StoreReadOnly):
            store.repair(dry_run=False)
    with pytest.raises(StoreClosed):
        store.verify()


def test_verifying_beside_a_writer(path: Path) -> None:
    """Sessions that grow, come and go while they are verified are no damage."""
    with LmdbStore(path) as store:
        for number in range(200):
            store.append(make_header(f"t{number:03}"), messages(1))
        found = store.verify()
        store.delete("t100")
        kinds = []
        for number, session_id in enumerate(("s1", "t050", "t150")):
            store.append(make_header(session_id), messages(1, start=11 if not number else 1))
        kinds += [finding.kind for finding in found]
        assert [] == kinds
