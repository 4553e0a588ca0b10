"""The JSONL store over logs of the system whose format it shares, whole and damaged."""

from __future__ import annotations

import base64
import json
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path

from eventlog import EventLogError
from eventlog.codec import decode_line
from eventlog.drivers.jsonl import JsonlStore
from eventlog.drivers.jsonl.names import log_name
from eventlog.errors import CorruptLog
from eventlog.model import SessionHeader
from support import corpus


def test_recorded_logs_fold_as_recorded(tmp_path: Path) -> None:
    """Each recorded log, read as the file it is, has the events and the surface recorded."""
    folded = 0
    for path in sorted(corpus("dsh").glob("*.jsonl")):
        data = path.read_bytes()
        header = decode_line(data[: data.index(b"\n")])
        assert isinstance(header, SessionHeader)
        root = tmp_path / path.stem
        root.mkdir()
        (root / log_name(header.id)).write_bytes(data)
        oracle = json.loads(corpus("dsh-oracle", f"{path.stem}.json").read_text())
        snapshot = JsonlStore(root).snapshot(header.id)

        assert len(oracle["events"]) == snapshot.length
        events = snapshot.read(0, snapshot.length)
        assert [(e["seq"], e["type"], e["time"]) for e in oracle["events"]] == [
            (event.seq, event.type, event.time) for event in events
        ]
        for start in range(0, snapshot.length, 7):
            assert events[start : start + 5] == snapshot.read(start, start + 5)
        if oracle["fold"]["ok"]:
            folded += 1
            assert oracle["fold"]["nodes"] == snapshot.nodes()
            assert [e["surface"] for e in oracle["events"]] == [
                str(snapshot.classify(event.seq)) for event in events
            ]
    assert folded > 100


KINDS = ("malformed", "seq", "header", "empty")


def verdict(store: JsonlStore, seq: int) -> CorruptLog | None:
    """What is wrong with one event; None where it is there, or where the log is shorter."""
    try:
        events = store.snapshot("s").read(seq, seq + 1)
    except CorruptLog as error:
        return error
    assert [] == events or [seq] == [event.seq for event in events]
    return None


def test_damaged_logs_keep_their_prefix(tmp_path: Path) -> None:
    """
    Of 700 damaged logs, what the recorder keeps of each is read here too, but for what the
    values' boundary refuses; all else is events with the seqs asked for, or an error that
    says where. No byte changes.
    """
    refused: Counter[str] = Counter()
    with corpus("fuzz", "scanlog.jsonl").open(encoding="utf-8", newline="\n") as cases:
        for number, line in enumerate(cases):
            case = json.loads(line)
            data = base64.b64decode(case["bytesBase64"])
            root = tmp_path / str(number)
            root.mkdir()
            path = root / log_name("s")
            path.write_bytes(data)
            store = JsonlStore(root)
            errors = [error for error in map(partial(verdict, store), range(30)) if error]
            assert all(error.kind in KINDS and error.line is not None for error in errors)
            with suppress(EventLogError):
                store.snapshot("s").nodes()
            if case["scan"]["ok"]:
                kept = [verdict(store, seq) for seq in range(case["scan"]["events"])]
                first = next((error for error in kept if error), None)
                if first is not None:
                    refused[first.kind] += 1
                    assert "lone surrogate" in first.detail or "cwd" in first.detail
            assert data == path.read_bytes()
    assert {"malformed": 146, "header": 4} == refused
