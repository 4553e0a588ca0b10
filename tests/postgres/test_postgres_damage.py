"""Rows that somebody changed past the store: found, served around, mended where they can be."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from psycopg import errors

from eventlog.drivers.postgres import PostgresStore
from eventlog.errors import CorruptLog
from eventlog.findings import Finding, Gap
from eventlog.model import Event, Fault, HeadKey, SessionHead
from eventlog.testing import (
    make_header,
    message,
    messages,
    note,
    random_log,
    summary,
)
from eventlog.testing.contract.base import surface_facts
from support.postgres import need_server, schema_of, store_at

LOG = [*messages(6), summary(6, 1, 3, [1, 2, 3]), note(7), summary(8, 6, 6, [6, 0]), message(9)]


def change(root: Path, statement: str) -> None:
    """Change rows past the store."""
    with need_server().connect() as connection:
        connection.execute("SELECT set_config('search_path', %s, false)", (schema_of(root),))
        connection.execute(statement.encode())


def fill(store: PostgresStore) -> None:
    """Store the log to be damaged, and one beside it."""
    store.append(make_header("bad", parent_session="p"), LOG)
    store.append(make_header("good"), messages(3))


def outline(findings: list[Finding]) -> list[tuple[str, str | None, int | None, bool]]:
    return [(one.kind, one.session_id, one.seq, one.change is not None) for one in findings]


OF_BAD = "ordinal = (SELECT ordinal FROM sessions WHERE id = 'bad')"

EVENT_CHANGES = {
    "payload": "payload = '{}'",
    "payload-of-equal-length": "payload = overlay(payload placing 'X' from 5)",
    "time": "time = 7",
    "type": "type = 'x/other'",
    "type-of-no-text": "type = '\\xff'",
    "not-a-node": "is_node = NOT is_node",
    "ignorable": "ignorable = NOT ignorable",
    "sources": "sources = '{1}'",
    "no-sources": "sources = '{}'",
    "bounds": "replace_start = 1, replace_end = 1",
    "half-bounds": "replace_end = 1",
    "negative-bounds": "replace_start = -1, replace_end = -1",
}


@pytest.mark.parametrize("how", EVENT_CHANGES)
def test_changed_event_is_damage(tmp_path: Path, how: str) -> None:
    """
    An event any column of which was changed is refused by windows that touch it, named by
    verify, and a gap of the salvaged log; all others are served.
    """
    with store_at(tmp_path) as store:
        fill(store)
        change(tmp_path, f"UPDATE events SET {EVENT_CHANGES[how]} WHERE seq = 4 AND {OF_BAD}")

        snapshot = store.snapshot("bad")
        with pytest.raises(CorruptLog) as caught:
            snapshot.read(3, 6)
        assert ("bad", 4) == (caught.value.session_id, caught.value.seq)
        assert LOG[:4] == snapshot.read(0, 4)
        assert LOG[5:] == snapshot.read(5, 99)
        assert [("event", "bad", 4, False)] == outline(list(store.verify()))
        pieces = list(store.salvage("bad"))
        assert LOG[:4] + LOG[5:] == [piece for piece in pieces if isinstance(piece, Event)]
        (gap,) = (piece for piece in pieces if isinstance(piece, Gap))
        assert (4, 5) == (gap.start_seq, gap.next_seq)
        assert messages(3) == store.snapshot("good").read(0, 9)
        assert outline(store.repair(dry_run=False)) == outline(list(store.verify()))


@pytest.mark.parametrize("seqs", [(0,), (4,), (4, 5), (9,), tuple(range(10))], ids=str)
def test_missing_events_are_damage(tmp_path: Path, seqs: tuple[int, ...]) -> None:
    """
    Events that somebody deleted are missing, and never closed up.
    """
    with store_at(tmp_path) as store:
        fill(store)
        wanted = ", ".join(map(str, seqs))
        change(tmp_path, f"DELETE FROM events WHERE seq IN ({wanted}) AND {OF_BAD}")

        with pytest.raises(CorruptLog) as caught:
            store.snapshot("bad").read(0, 10)
        assert seqs[0] == caught.value.seq
        assert [("event", "bad", seqs[0], False)] == outline(list(store.verify()))
        with pytest.raises(CorruptLog):
            store.append(make_header("bad", parent_session="p"), [LOG[seqs[0]], LOG[-1]][:1])
        kept = [event for event in LOG if event.seq not in seqs]
        assert kept == [piece for piece in store.salvage("bad") if isinstance(piece, Event)]


ROW_CHANGES = {
    "node-gone": f"DELETE FROM nodes WHERE label = 0 AND {OF_BAD}",
    "node-too-many": f"INSERT INTO nodes SELECT ordinal, 7, 7 FROM sessions WHERE {OF_BAD}",
    "node-changed": f"UPDATE nodes SET node = 6 WHERE label = 1 AND {OF_BAD}",
    "replacement-changed": f"UPDATE replacements SET replaced = '{{2}}' WHERE seq = 6 AND {OF_BAD}",
    "replacement-gone": f"DELETE FROM replacements WHERE seq = 8 AND {OF_BAD}",
    "replacer-changed": f"UPDATE shadowed SET replacer = 8 WHERE node = 2 AND {OF_BAD}",
    "replacer-gone": f"DELETE FROM shadowed WHERE node = 2 AND {OF_BAD}",
    "citation-gone": f"DELETE FROM citations WHERE source = 0 AND {OF_BAD}",
    "last-time": f"UPDATE sessions SET last_time = 1 WHERE {OF_BAD}",
    "created-at": f"UPDATE sessions SET created_at = 1 WHERE {OF_BAD}",
    "parent": f"UPDATE sessions SET parent = 'q' WHERE {OF_BAD}",
    "no-parent": f"UPDATE sessions SET parent = NULL WHERE {OF_BAD}",
}


@pytest.mark.parametrize("how", ROW_CHANGES)
def test_changed_rows_are_found_and_mended(tmp_path: Path, how: str) -> None:
    """
    Rows that disagree with the events or the header are named; a dry run changes nothing,
    a repair writes them anew, and a second one finds nothing to do.
    """
    with store_at(tmp_path) as store:
        fill(store)
        facts = surface_facts(store.snapshot("bad"))
        listed = store.heads().items, store.children("p").items
        change(tmp_path, ROW_CHANGES[how])

        for _ in range(2):
            (finding,) = store.repair()
            assert finding.kind in ("row", "index")
            assert "bad" == finding.session_id
            assert finding.change is not None
        token = store.changes().token
        store.repair(dry_run=False)
        assert [] == list(store.verify()) == store.repair(dry_run=False)
        assert facts == surface_facts(store.snapshot("bad"))
        assert listed == (store.heads().items, store.children("p").items)
        assert ("bad",) == store.changes(token).session_ids
        assert 11 == store.append(make_header("bad", parent_session="p"), [message(10)])


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE nodes SET node = label - 1",
        "UPDATE replacements SET replaced = ARRAY[seq]",
        "UPDATE replacements SET label = seq",
        "UPDATE shadowed SET replacer = node",
    ],
)
def test_rows_that_lead_in_circles_cannot_be(tmp_path: Path, statement: str) -> None:
    """
    The server refuses rows that a reader would follow for ever.
    """
    with store_at(tmp_path) as store:
        fill(store)
    with pytest.raises(errors.CheckViolation):
        change(tmp_path, statement)


@pytest.mark.parametrize(
    "how",
    ["header = '{broken'", "header = overlay(header placing 'X' from 30)", "crc = 5", "id = 'zzz'"],
)
def test_a7_damaged_header_is_never_overwritten(tmp_path: Path, how: str) -> None:
    """
    A session whose header was changed is refused to all and a fault of its pages; repair
    leaves it to a person.

    Field report a7: an unreadable first line was taken for "no session", and overwritten.
    """
    with store_at(tmp_path) as store:
        fill(store)
        change(tmp_path, f"UPDATE sessions SET {how} WHERE {OF_BAD}")
        session_id = "zzz" if how.startswith("id") else "bad"

        for call in (
            lambda: store.head(session_id),
            lambda: store.snapshot(session_id),
            lambda: store.append(make_header(session_id, parent_session="p"), [message(10)]),
            lambda: store.append(make_header(session_id, parent_session="p"), []),
        ):
            with pytest.raises(CorruptLog):
                call()
        for limit in (1, 50):
            items: list[SessionHead] = []
            faults: list[Fault] = []
            key: HeadKey | None = None
            while True:
                page = store.heads(limit=limit, after=key)
                assert page.items or page.next_key is None, "a page is not empty for its faults"
                items += page.items
                faults += page.faults
                key = page.next_key
                if key is None:
                    break
            assert ["good"] == [head.header.id for head in items]
            assert [session_id] == [fault.session_id for fault in faults]
        assert [("header", session_id, None, False)] == outline(store.repair(dry_run=False))
        assert [("header", session_id, None, False)] == outline(list(store.verify()))


def test_events_that_no_session_has(tmp_path: Path) -> None:
    """
    Rows that belong to nothing, and events beyond the end of a log, are named and left.
    """
    with store_at(tmp_path) as store:
        fill(store)
        change(tmp_path, f"UPDATE sessions SET length = 9 WHERE {OF_BAD}")
        change(tmp_path, "DELETE FROM sessions WHERE id = 'good'")

        kinds = {(one.kind, one.session_id) for one in store.verify()}
        assert {("orphan", None), ("seq", "bad")} <= kinds
        found = [one.change for one in store.repair(dry_run=False) if one.kind in ("orphan", "seq")]
        assert [None] * 3 == found


def test_long_logs_are_verified_beside_a_writer(tmp_path: Path) -> None:
    """
    A log of several readings is verified while it grows, and a damaged row of it is found.
    """
    events = random_log(Random(5).randrange, 3_000)
    with store_at(tmp_path) as store, store_at(tmp_path) as writer:
        store.append(make_header(), events[:2_500])
        findings = store.verify()
        for start in range(2_500, 3_000, 100):
            writer.append(make_header(), events[start : start + 100])
            assert next(findings, None) is None
            findings = store.verify()
        change(tmp_path, "UPDATE events SET payload = '{}' WHERE seq = 2047")
        change(tmp_path, "DELETE FROM nodes WHERE label = (SELECT max(label) FROM nodes)")

        assert [("event", "s1", 2047, False)] == outline(list(store.verify()))
