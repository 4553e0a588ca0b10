"""The README says what is so: its code runs, and its captures are what commands print."""

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog.query.cli import main

README = Path(__file__).parent.parent / "README.md"
CAPTURED = "a capture depends on the sources of the Python that it was made with"


def blocks(language: str) -> list[str]:
    """The fenced blocks of the README in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text("utf-8"), re.M | re.S)


def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every Python block runs, one after the other, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "readme"}
    found = blocks("python")

    for number, code in enumerate(found, 1):
        exec(compile(code, f"README.md, block {number}", "exec"), names)

    assert len(found) >= 5


def captures() -> Iterator[tuple[str, list[str]]]:
    """Each command of the README's console blocks, with the lines shown for it."""
    for block in blocks("console"):
        for capture in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, *lines = capture.splitlines()
            yield command, lines


def shape(line: str) -> str:
    """A line without what differs from run to run and from machine to machine."""
    line = re.sub(r"demo-\d[\w-]*", "ID", line)
    line = re.sub(r"[~/…][\w~/.-]*/lib/python3[.\d]*", "ROOT", line)
    line = re.sub(r"\d[\d.,:-]*", "N", line)
    return re.sub(r"[\s─]+", " ", line).strip()


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason=CAPTURED)
def test_the_captures_are_what_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each line of a capture is printed, in that order; … stands for lines left out."""
    monkeypatch.delenv("EVENTLOG_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("EVENTLOG_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    commands = list(captures())

    for command, lines in commands:
        call, _, redirected = command.partition(" > ")
        words = shlex.split(call)
        assert "eventlog" == words[0]
        capfd.readouterr()
        assert 0 == main(words[1:]), command
        out = capfd.readouterr().out
        if redirected:
            Path(redirected).write_text(out, "utf-8")
        printed = iter(map(shape, out.splitlines()))
        for line in lines:
            if line.strip() not in ("", "…"):
                assert shape(line) in printed, f"{command} does not print: {line}"

    captured = {command.split()[1] for command, _ in commands}
    assert {"demo", "list", "show", "search", "import"} <= captured


def test_the_two_commands_are_there() -> None:
    """The commands that a newcomer is told to type stand in the README, exactly."""
    text = README.read_text("utf-8")

    assert 'pip install -e ".[cli]" && eventlog demo\n' in text
    assert 'pip install -e ".[test]" && pytest\n' in text
