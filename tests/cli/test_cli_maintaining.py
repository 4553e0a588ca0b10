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
    assert "nothing wrong" in after.out
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
    assert (2, "") == (elsewhere.code, elsewhere.out)
    assert "--to takes jsonl:PATH" in elsewhere.err
    assert not (tmp_path / "lmdb").exists()


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


def test_prune_says_why_it_left_sessions_a_line_a_kind(
    run: Run, root: Path, tmp_path: Path
) -> None:
    """
    Of 2,000 sessions that it left, prune told each in a line of its own. It tells how many
    there are of each kind and one example; those it takes out, and --json, stay complete.
    """
    with open_store(f"jsonl:{root}") as store, open_store(f"jsonl:{tmp_path / 'a'}") as archive:
        for number in range(30):
            store.append(make_header(f"s{number:02}"), messages(2))
            if number < 25:
                archive.append(make_header(f"s{number:02}", cwd="/other"), messages(1))
    command = ("prune", "--older-than", "1h", "--apply", "--archive", f"jsonl:{tmp_path / 'a'}")
    result = run(*command)

    assert 3 == result.code
    assert 1 == result.err.count("\n")
    assert "left 25 sessions (HeaderConflict), such as s00: " in result.err
    assert "5 of 30 sessions taken out" in result.out
    assert ["s25", "s26", "s27", "s28", "s29"] == [
        line.split()[-1] for line in result.out.splitlines()[1:-1]
    ]
    again = run(*command, "--json")
    assert 3 == again.code
    assert [f"s{number:02}" for number in range(25)] == [
        one["session_id"] for one in again.json["spared"]
    ]


def test_prune_names_what_it_cannot_look_at(run: Run, root: Path) -> None:
    """A session without a readable header is left, and prune says so."""
    plant(root, b"{broken header\n")
    result = run("prune", "--older-than", "1h")

    assert 3 == result.code
    assert f"{root}/s1.jsonl" in result.err


def test_prune_takes_a_folder_as_list_does(
    run: Run, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``prune --cwd .`` spared what ``list --cwd .`` shows."""
    with open_store(f"jsonl:{root}") as store:
        for name, cwd in (("here", tmp_path / "cwd"), ("home", tmp_path / "w"), ("other", "/x")):
            store.append(make_header(name, cwd=str(cwd)), messages(1))
    monkeypatch.setenv("HOME", str(tmp_path))

    for given, found in ((".", "here"), ("~/w", "home"), ("/x", "other")):
        pruned = run("prune", "--older-than", "1h", "--cwd", given, "--json").json["pruned"]
        assert [found] == [one["session_id"] for one in pruned]
