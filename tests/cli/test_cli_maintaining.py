"""``verify``, ``repair``, ``archive`` and ``prune``: told first, done on request."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventlog import open_store
from support import make_header, messages
from support.cli import Run
from support.damage import DAMAGED
from support.jsonl import files_in, plant


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the store that commands use."""
    monkeypatch.setenv("EVENTLOG_STORE", f"jsonl:{tmp_path / 'logs'}")
    return tmp_path / "logs"


def test_j10_verify_and_repair(run: Run, root: Path) -> None:
    """
    Damage is named and exits with 3; a repair tells before it does; then nothing is found.
    """
    plant(root, DAMAGED["a2-fused"])
    before = files_in(root)

    found = run("verify")
    told = run("repair")
    assert [3, 3] == [found.code, told.code]
    assert f"fused: {root}/s1.jsonl, line 4, byte " in found.out
    assert "put 1 line in" in told.out
    assert "--apply does it" in told.err
    assert before == files_in(root)

    done = run("repair", "--apply")
    assert (0, "") == (done.code, done.err)
    assert "s1.1.backup" in done.out
    after = run("verify")
    assert (0, "") == (after.code, after.err)
    assert "nothing found" in after.out
    assert 0 == run("repair", "--apply").code


def test_findings_as_json(run: Run, root: Path) -> None:
    """With --json the findings are one list, with the fields of the Python records."""
    plant(root, DAMAGED["a2-fused"])
    (finding,) = run("repair", "--json").json
    assert {"kind": "fused", "session_id": "s1", "line": 4, "seq": 2}.items() <= finding.items()
    assert "edit" == finding["change"]["action"]
    assert finding["change"]["inserted"].startswith('{"type"')
    plant(root, DAMAGED["a2-fused"].partition(b"\n")[0] + b"\n")
    assert [] == run("verify", "--json").json


def test_what_is_left_to_a_person(run: Run, root: Path) -> None:
    """What a repair cannot mend is said, and exits with 3."""
    plant(root, b"{broken header\n")
    done = run("repair", "--apply")
    assert 3 == done.code
    assert "left to you" in done.out + done.err


def test_archive(run: Run, root: Path, tmp_path: Path) -> None:
    """Sessions are compressed in place, or into another store; both are read as before."""
    with open_store(f"jsonl:{root}") as store:
        store.append(make_header("abc"), messages(3))
    there = run("archive", "abc", "--to", f"jsonl:{tmp_path / 'archive'}", "--json")
    assert [{"session_id": "abc", "compressed": True}] == there.json
    assert ["abc.jsonl"] == list(files_in(root))
    here = run("archive", "ab")
    assert (0, "abc: archived\n") == (here.code, here.out)
    assert ["abc.jsonl.zst"] == list(files_in(root)) == list(files_in(tmp_path / "archive"))
    assert "text 2" in run("show", "abc").out
    elsewhere = run("archive", "abc", "--to", f"lmdb:{tmp_path / 'lmdb'}")
    assert 4 == elsewhere.code
    assert "only a jsonl store compresses" in elsewhere.err


def test_j8_prune(run: Run, root: Path, tmp_path: Path) -> None:
    """Nothing goes without an age and --apply; what goes can be kept in an archive."""
    with open_store(f"jsonl:{root}") as store:
        store.append(make_header("old"), messages(3))
    assert 2 == run("prune").code
    assert 2 == run("prune", "--older-than", "90").code
    told = run("prune", "--older-than", "90d")
    assert 0 == told.code
    assert "old" in told.out
    assert "--apply" in told.err
    assert ["old.jsonl"] == list(files_in(root))
    done = run(
        "prune", "--older-than", "90d", "--apply", "--json", "--archive", f"jsonl:{tmp_path / 'a'}"
    ).json
    assert (1, False) == (done["found"], done["dry_run"])
    assert [("old", 3, True)] == [
        (one["session_id"], one["events"], one["archived"]) for one in done["pruned"]
    ]
    assert ["old.deleted"] == list(files_in(root))
    assert ["old.jsonl.zst"] == list(files_in(tmp_path / "a"))
    assert 1 == run("prune", "--older-than", "90d").code


def test_prune_where_the_archive_is_the_store(run: Run, root: Path) -> None:
    """A jsonl store named as its own archive keeps its sessions, compressed."""
    with open_store(f"jsonl:{root}") as store:
        store.append(make_header("old"), messages(3))
    assert 0 == run("prune", "--older-than", "1h", "--apply", "--archive", f"jsonl:{root}").code
    assert ["old.jsonl.zst"] == list(files_in(root))
