"""Running the command line inside the test's process, over stores in its own folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog.query.cli import main
from support.cli import Result, Run


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], data_folder: Path) -> Run:
    """Run one command and return what it left."""

    def run(*arguments: str) -> Result:
        capfd.readouterr()
        code = main(list(arguments))
        out, err = capfd.readouterr()
        return Result(code, out, err)

    return run


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data folder and a working directory of the test's own; no store is named."""
    monkeypatch.delenv("EVENTLOG_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("EVENTLOG_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    yield tmp_path / "data"
    assert [] == list((tmp_path / "cwd").iterdir()), "a command wrote into the current directory"


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data_folder: Path) -> str:
    """The store that commands use without being told; empty until a test fills it."""
    named = f"lmdb:{tmp_path / 'store'}"
    monkeypatch.setenv("EVENTLOG_STORE", named)
    return named
