"""``eventlog import``: where it looks, what it says, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eventlog import open_store
from eventlog.importing import ImportProgress, import_transcripts
from eventlog.sources import load_sources
from support.cli import Run

LINE = '{"type":"user","uuid":"%s","sessionId":"%s","message":{"role":"user","content":"hi"}}\n'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder without any tool's files, and no tool's variable set."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "QWEN_HOME", "DSH_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def session(folder: Path, name: str = "s") -> Path:
    """Leave a session of Claude Code in a projects folder."""
    path = folder / "projects" / "-w" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(LINE % ("u", name))
    return path


def test_the_usual_place_is_found(run: Run, url: str, home: Path) -> None:
    """Without a path the tool's own folder is read; a second import finds all the same."""
    session(home / ".claude")
    first, second = run("import", "claude-code"), run("import", "claude-code")

    assert (0, "") == (first.code, first.err)
    assert "sessions  1 found = 1 new + 0 grown + 0 same + 0 refused" in first.out
    assert "records   1 found = 1 mapped + 0 kept as they are + 0 refused" in first.out
    assert "1 found = 0 new + 0 grown + 1 same + 0 refused" in second.out


def test_a_tools_own_variable_says_where(
    run: Run, url: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable by which the tool itself is told its folder is followed."""
    session(home / ".claude", "usual")
    session(home / "elsewhere", "told")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "elsewhere"))
    assert 0 == run("import", "claude-code").code
    with open_store(url, read_only=True) as store:
        assert ["told"] == [head.header.id for head in store.heads().items]


def test_all_reads_every_tool_that_has_left_any(run: Run, url: str, home: Path) -> None:
    """``all`` looks at each usual place; tools without one are left out."""
    session(home / ".claude")
    rollout = home / ".codex" / "sessions" / "2026" / "rollout-1.jsonl"
    rollout.parent.mkdir(parents=True)
    rollout.write_text('{"type":"session_meta","payload":{"id":"t","cwd":"/w"}}\n')
    result = run("import", "all", "--json")

    assert ["claude-code", "codex"] == [account["tool"] for account in result.json]
    assert all(account["sessions"][0]["outcome"] == "new" for account in result.json)


def test_nothing_there_is_said(run: Run, url: str, home: Path) -> None:
    """Where the tool has left nothing the places are named, and the code says none found."""
    result = run("import", "codex")

    assert 1 == result.code
    assert str(home / ".codex" / "sessions") in result.err


def test_what_is_refused_is_named(run: Run, url: str, home: Path) -> None:
    """A damaged line and an empty file: named on standard error, and the code is 3."""
    path = session(home / ".claude")
    path.write_text(LINE % ("u", "s") + "{nope\n" + LINE % ("v", "s"))
    (path.parent / "empty.jsonl").write_bytes(b"")
    result = run("import", "claude-code")

    assert 3 == result.code
    assert f"{path}, line 2, byte {len(LINE % ('u', 's'))}: malformed" in result.err
    assert str(path.parent / "empty.jsonl") in result.err
    assert "2 found = 1 new + 0 grown + 0 same + 1 refused" in result.out
    assert "3 found = 2 mapped + 0 kept as they are + 1 refused" in result.out


@pytest.mark.parametrize("arguments", [["nobody"], ["all", "somewhere"], []])
def test_wrong_calls_are_refused(arguments: list[str], run: Run, url: str, home: Path) -> None:
    """An unknown tool, a path for all, and no tool."""
    assert 2 == run("import", *arguments).code


def test_a_path_that_is_not_there_is_named(run: Run, url: str, home: Path) -> None:
    """A path that does not exist is a wrong call, and nothing is imported from the others."""
    result = run("import", "claude-code", str(home), str(home / "absent"), "--json")

    assert (2, "") == (result.code, result.out)
    assert f"there is no {home / 'absent'}" in result.err
    assert 1 == run("list").code


def test_escape_sequences_of_a_transcript_never_reach_the_terminal(
    run: Run, url: str, home: Path
) -> None:
    """File names and damaged lines may hold anything; what is said of them is harmless."""
    folder = home / ".claude" / "projects" / "\x1b[31mred"
    folder.mkdir(parents=True)
    (folder / "s.jsonl").write_text("\x1b]0;title\x07\n")
    result = run("import", "claude-code")

    assert 3 == result.code
    assert "\x1b" not in result.out + result.err


def test_progress_never_goes_back(tmp_path: Path) -> None:
    """Each report is at or behind the one before, and the last one is at the end."""
    for number in range(3):
        lines = [LINE % (f"u{n}", f"s{number}") for n in range(2_500)]
        (tmp_path / f"{number}.jsonl").write_text("".join(lines))
    reports: list[ImportProgress] = []
    with open_store("memory:") as store:
        import_transcripts(
            store, load_sources()["claude-code"], [tmp_path], progress=reports.append
        )

    places = [(report.files, report.bytes) for report in reports]
    assert sorted(places) == places
    assert len(reports) > 6
    assert (3, reports[-1].bytes_total) == places[-1]


def test_into_a_pipe_only_the_account_is_written(run: Run, url: str, home: Path) -> None:
    """Without a terminal there is no bar, and nothing on standard error."""
    session(home / ".claude")
    result = run("import", "claude-code")

    assert "" == result.err
    assert 4 == len(result.out.splitlines())


def test_the_account_as_json_adds_up(run: Run, url: str, home: Path) -> None:
    """The account's fields are those of the Python record."""
    session(home / ".claude")
    account = json.loads(run("import", "claude-code", "--json").out)

    assert {"tool", "sessions", "refused", "records", "events"} == set(account)
    records = account["records"]
    assert records["found"] == records["mapped"] + records["kept"] + records["refused"]


def test_without_a_tool_those_that_left_something_are_named(run: Run, url: str, home: Path) -> None:
    """A first call without arguments is a wrong one, and says what could be called."""
    nothing = run("import")
    session(home / ".claude")
    something = run("import")

    assert (2, 2) == (nothing.code, something.code)
    assert "no known tool has left anything here" in nothing.err
    assert "here claude-code left something" in something.err
    assert "did you mean claude-code?" in run("import", "claude").err


def test_all_is_silent_of_tools_that_left_only_a_folder(run: Run, url: str, home: Path) -> None:
    """An empty folder of a tool is worth no account; without any session that is said once."""
    (home / ".pi" / "agent" / "sessions").mkdir(parents=True)
    nothing = run("import", "all")
    session(home / ".claude")
    something = run("import", "all")

    assert (1, "") == (nothing.code, nothing.out)
    assert 1 == nothing.err.count("no known tool has left anything here")
    assert (0, "") == (something.code, something.err)
    assert "pi" not in something.out.split()


def test_a_place_that_may_not_be_looked_at_is_named(
    run: Run, url: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable that leads through a file or round in a circle leads nowhere, and says so."""
    (home / "circle").symlink_to(home / "circle")
    monkeypatch.setenv("CODEX_HOME", str(home / "circle"))
    circle = run("import", "codex")
    (home / "file").touch()
    monkeypatch.setenv("CODEX_HOME", str(home / "file"))
    nowhere = run("import", "codex")

    assert 3 == circle.code
    assert str(home / "circle" / "sessions") in circle.err
    assert (1, True) == (nowhere.code, "has left nothing here" in nowhere.err)
