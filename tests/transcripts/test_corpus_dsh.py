"""Every recorded log of DeepSeek Harness, imported, against what that system says of it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from eventlog import Event, EventStore, open_store
from eventlog.codec import event_to_wire
from eventlog.drivers.transcripts.dsh import DeepSeekHarness
from eventlog.importing import ImportAccount, Outcome, import_transcripts
from eventlog.snapshot import LogSnapshot
from support import corpus

SELF_CITING = "apps__web__tests__snapshots__cordis-tool-round__session"
STORES = ["memory:", "lmdb:{}/store", "jsonl:{}/store"]


def imported(store: EventStore, *paths: Path) -> ImportAccount:
    account = import_transcripts(store, DeepSeekHarness(), paths)
    assert account.adds_up
    return account


def oracle(log: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        corpus("dsh-oracle", f"{log.stem}.json").read_text(encoding="utf-8")
    )
    return found


def key_orders(log: Path) -> list[list[str]]:
    """The order of each event's envelope keys; that of a packed row's members is fixed."""
    orders: list[list[str]] = []
    for line in log.read_bytes().split(b"\n")[1:]:
        record = json.loads(line) if line else {}
        if "seq0" in record:
            members = record["data"].get("texts") or record["data"].get("args")
            orders += [["type", "seq", "time", "data"]] * len(members)
        elif record:
            orders.append(list(record))
    return orders


def trace(log: LogSnapshot, event: Event, replaced_by: dict[int, int]) -> dict[str, Any]:
    """One event's trace, in the form in which the recorder gave it."""
    chain: list[int] = []
    replacer = replaced_by.get(event.seq)
    found: dict[str, Any] = {} if replacer is None else {"replacedBy": replacer}
    while replacer is not None:
        chain.append(replacer)
        replacer = replaced_by.get(replacer)
    return found | {
        "replacementChain": chain,
        "replacedEventSeqs": log.replaced(event.seq) if event.is_node else [],
        "sourceEventSeqs": list(event.source_event_seqs or ()),
        "derivedEventSeqs": log.citing(event.seq),
    }


@pytest.mark.parametrize("url", STORES)
def test_every_log_reads_as_recorded(url: str, tmp_path: Path) -> None:
    """
    Each of the 124 logs, in a store of its own, has the recorder's events, classes,
    surface, replacements and traces, and every payload its digest; the one whose surface
    the recorder refuses is refused.
    """
    logs = sorted(corpus("dsh").iterdir())
    refused = []
    for number, log in enumerate(logs):
        expected = oracle(log)
        with open_store(url.format(tmp_path / str(number))) as store:
            account = imported(store, log)
            if account.refused:
                refused.append((log.stem, account.refused[0].kind))
                assert not expected["fold"]["ok"]
                assert () == store.heads().items
                continue
            if not expected["events"]:
                # No store keeps a session that has no events yet.
                assert (1, 1, ()) == (account.found, account.same, store.heads().items)
                continue
            snapshot = store.snapshot(account.sessions[0].session_id)
            events = snapshot.read(0, snapshot.length)
            assert expected["fold"]["nodes"] == snapshot.nodes()
            replacements = {r["seq"]: r["shadowedSeqs"] for r in expected["fold"]["replacements"]}
            assert replacements == {
                event.seq: found for event in events if (found := snapshot.replaced(event.seq))
            }
            orders = key_orders(log)
            replaced_by = snapshot.replaced_by(0, snapshot.length)
            for event, order, theirs in zip(events, orders, expected["events"], strict=True):
                wire = event_to_wire(event)
                document = orjson.dumps({name: wire[name] for name in order})
                ours = {
                    "seq": event.seq,
                    "type": event.type,
                    "time": event.time,
                    "surface": str(snapshot.classify(event.seq)),
                    "sha256": hashlib.sha256(document).hexdigest(),
                    "trace": trace(snapshot, event, replaced_by),
                }
                assert {name: theirs[name] for name in ours} == ours, (log.stem, event.seq)

    assert 124 == len(logs)
    assert [(SELF_CITING, "InvalidSurface")] == refused


@pytest.mark.parametrize("encoding", ["none", "zstd"])
def test_roots_read_as_expected(encoding: str) -> None:
    """A whole root, raw or in zstd frames, gives the sessions that its own loader gives."""
    expected = json.loads(corpus("dsh-roots", "real_expected_readFrom.json").read_text("utf-8"))
    wanted = {
        key.partition("|")[2]: value
        for key, value in expected.items()
        if key.startswith(f"{encoding}|")
    }
    with open_store("memory:") as store:
        account = imported(store, corpus("dsh-roots", "real", encoding))
        for session_id, theirs in wanted.items():
            snapshot = store.snapshot(session_id)
            found = [event_to_wire(event) for event in snapshot.read(0, snapshot.length)]
            assert theirs["events"] == found
            assert theirs["meta"]["createdAt"] == snapshot.header.created_at
            assert theirs["meta"].get("parentSession") == snapshot.header.parent_session
            assert theirs["meta"].get("seedLength") == snapshot.header.seed_length

    assert 3 == len(wanted)
    assert (4, 4, []) == (account.found, account.new, account.refused)


def test_importing_again_adds_nothing(tmp_path: Path) -> None:
    """A second import of a root finds every session the same."""
    root = corpus("dsh-roots", "real", "zstd")
    with open_store(f"lmdb:{tmp_path}/store") as store:
        imported(store, root)
        again = imported(store, root)

    assert (4, 4, 0) == (again.found, again.same, again.events)


def test_a_log_that_grew_is_completed(tmp_path: Path) -> None:
    """The first lines of a log, then all of it, give the same session as all at once."""
    log = corpus(
        "dsh", f"{SELF_CITING.replace('cordis-tool-round', 'goal-multi-turn-actions')}.jsonl"
    )
    lines = log.read_bytes().splitlines(keepends=True)
    part = tmp_path / "session.jsonl"
    with open_store("memory:") as whole, open_store("memory:") as store:
        session_id = imported(whole, log).sessions[0].session_id
        for count in range(2, len(lines) + 1, max(1, len(lines) // 12)):
            part.write_bytes(b"".join(lines[:count]))
            imported(store, part)
        part.write_bytes(b"".join(lines))
        last = imported(store, part)
        expected, actual = whole.snapshot(session_id), store.snapshot(session_id)

        assert last.sessions[0].outcome in (Outcome.GROWN, Outcome.SAME)
        assert expected.read(0, expected.length) == actual.read(0, actual.length)
