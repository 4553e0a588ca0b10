"""``copy`` between real stores: whole, killed, damaged, large."""

import os
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

from eventlog import EventStore, open_store
from eventlog.copying import CopyProgress, copy_sessions
from support import log_only, make_header, messages, replacement
from support.cli import Run


def fill(url: str, sessions: int = 3, events: int = 40) -> None:
    """Sessions with a compaction each."""
    with open_store(url) as store:
        for number in range(sessions):
            header = make_header(f"s{number}", created_at=number, cwd="/work", extra={"a": [1]})
            log = messages(events)
            log += [log_only(events), replacement(events + 1, 0, 2, [0, 1, 2])]
            store.append(header, log)


def files(root: Path) -> dict[str, bytes]:
    """The files of a folder by name."""
    return {path.name: path.read_bytes() for path in root.iterdir()}


def test_a_log_comes_back_from_another_medium_byte_by_byte(run: Run, tmp_path: Path) -> None:
    """From files into LMDB and back into files nothing is added, lost or reordered."""
    first, between, last = (tmp_path / name for name in ("first", "between", "last"))
    fill(f"jsonl:{first}")

    there = run("copy", f"jsonl:{first}", f"lmdb:{between}")
    back = run("copy", f"lmdb:{between}", f"jsonl:{last}", "--json")
    again = run("copy", f"lmdb:{between}", f"jsonl:{last}")

    assert [0, 0, 0] == [there.code, back.code, again.code]
    assert there.out.startswith("3 found = 3 copied + 0 same + 0 refused; 126 events, ")
    assert again.out.startswith("3 found = 0 copied + 3 same + 0 refused; 0 events, 0 B added")
    assert {"found", "copied", "same", "refused", "events", "bytes"} == back.json.keys()
    assert files(first) == files(last)


def test_what_is_refused_is_named_and_the_rest_is_copied(run: Run, tmp_path: Path) -> None:
    """Damaged headers, damaged lines and conflicts each have a reason; the account adds up."""
    source, destination = tmp_path / "source", f"lmdb:{tmp_path / 'destination'}"
    fill(f"jsonl:{source}", sessions=4, events=700)
    (source / "s0.jsonl").write_bytes(b"not a header\n")
    lines = (source / "s1.jsonl").read_bytes().splitlines(keepends=True)
    lines[600] = b'{"type":"x/note"}\n'
    (source / "s1.jsonl").write_bytes(b"".join(lines))
    with open_store(destination) as store:
        store.append(make_header("s2", created_at=2, cwd="/elsewhere"), messages(1))

    text = run("copy", f"jsonl:{source}", destination)
    account = run("copy", f"jsonl:{source}", destination, "--json").json

    assert 3 == text.code
    assert text.out.startswith("4 found = 1 copied + 0 same + 3 refused")
    assert 4 == account["found"]
    assert 4 == account["copied"] + account["same"] + len(account["refused"])
    reasons = {refusal["session_id"] or "s0": refusal for refusal in account["refused"]}
    assert ["CorruptLog", "HeaderConflict"] == [reasons[name]["kind"] for name in ("s1", "s2")]
    assert "s0.jsonl" in reasons["s0"]["path"]
    assert "line 601" in reasons["s1"]["reason"]
    # The sound events before the damage are there, and the account says how many.
    with open_store(destination, read_only=True) as store:
        assert [reasons["s1"]["stored"], 702] == [store.snapshot(n).length for n in ("s1", "s3")]
    assert f"{reasons['s1']['stored']} of its events are there" in text.err


def test_an_empty_source_is_none_found(run: Run, tmp_path: Path) -> None:
    """Nothing is copied, and nothing is created."""
    result = run("copy", f"lmdb:{tmp_path / 'a'}", f"jsonl:{tmp_path / 'b'}")

    assert (1, False) == (result.code, (tmp_path / "b").exists())
    assert result.out.startswith("0 found")


@pytest.mark.parametrize("schemes", [("jsonl", "lmdb"), ("lmdb", "jsonl")], ids="-to-".join)
def test_a_killed_copy_is_finished_by_the_next(tmp_path: Path, schemes: tuple[str, str]) -> None:
    """After kill -9 the destination is sound, and the next run adds what is missing."""
    source, destination = (f"{scheme}:{tmp_path / scheme}" for scheme in schemes)
    fill(source, sessions=6, events=4_000)
    process = subprocess.Popen(
        [sys.executable, "-m", "eventlog", "copy", source, destination], cwd=tmp_path
    )
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with open_store(destination, read_only=True) as store:
            if len(store.heads().items) >= 2:
                break
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()

    with open_store(source, read_only=True) as read, open_store(destination) as written:
        held = sum(head.length for head in written.heads().items)
        account = copy_sessions(read, written)

        assert 6 * 4_002 - held == account.events
        assert (6, ()) == (account.found, account.refused)
        assert read.heads() == written.heads()
        for head in read.heads().items:
            ours, theirs = (s.snapshot(head.header.id) for s in (read, written))
            assert ours.read(0, ours.length) == theirs.read(0, theirs.length)
            assert ours.nodes() == theirs.nodes()


@pytest.mark.parametrize(("event_bytes", "events"), [(1_000, 24_000), (300_000, 160)])
def test_a_copy_holds_little_in_memory(tmp_path: Path, event_bytes: int, events: int) -> None:
    """A session passes through a few MB of memory, in small events and in large ones."""
    text = "x" * event_bytes
    with open_store(f"jsonl:{tmp_path / 'source'}") as source:
        header = make_header("s")
        for start in range(0, events, 80):
            source.append(header, [log_only(start + n, data={"a": text}) for n in range(80)])

        def peak(_: CopyProgress) -> None:
            peaks.append(tracemalloc.get_traced_memory()[1])

        peaks: list[int] = []
        with open_store(f"lmdb:{tmp_path / 'destination'}") as destination:
            tracemalloc.start()
            copy_sessions(source, destination, progress=peak)
            tracemalloc.stop()
            assert source.heads() == destination.heads()

    assert max(peaks) < event_bytes * events / 2


def test_a_copy_follows_a_store_that_grows(tmp_path: Path) -> None:
    """What is appended while a copy runs is left for the next one; nothing is torn."""
    with (
        open_store(f"lmdb:{tmp_path / 'source'}") as source,
        open_store(f"jsonl:{tmp_path / 'destination'}") as destination,
    ):
        source.append(make_header("s"), messages(100))

        def grow(progress: CopyProgress) -> None:
            length = source.snapshot("s").length
            source.append(make_header("s"), messages(10, start=length))

        first = copy_sessions(source, destination, progress=grow)
        second = copy_sessions(source, destination)

        assert 1 == first.copied
        assert lengths(source) == lengths(destination)
        assert lengths(source)["s"] == first.events + second.events


def lengths(store: EventStore) -> dict[str, int]:
    """How many events each session has."""
    return {head.header.id: head.length for head in store.heads().items}
