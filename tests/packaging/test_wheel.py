"""
What a user installs: the wheel in an empty environment, and the checkout in editable mode.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

USER_MODULE = """\
from eventlog import APPEND, Event, EventStore, SessionHeader, open_store
from eventlog.drivers.lmdb import LmdbStore
from eventlog.query import SessionQuery


def last_type(store: EventStore, session_id: str) -> str:
    snapshot = store.snapshot(session_id)
    events: list[Event] = snapshot.read(snapshot.length - 1, snapshot.length)
    return events[0].type


def main(path: str) -> int:
    header = SessionHeader("s1", 1_000, cwd="/w")
    event = Event(0, 1_000, "x/note", {"text": "hello"}, surface_op=APPEND)
    with LmdbStore(path) as store:
        length: int = store.append(header, [event])
        window = SessionQuery(store=store).read_event("s1", 0)
        assert window.header == header
        assert last_type(store, "s1") == "x/note"
    with open_store("lmdb:" + path) as again:
        head = again.head("s1")
        assert head is not None
        return head.length + length
"""


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command without this process's Python settings; returns what it printed."""
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the checkout's files."""
    built = tmp_path_factory.mktemp("wheel")
    source = tmp_path_factory.mktemp("source")
    # A build leaves files behind in its folder; those of the checkout are left alone.
    for name in ("pyproject.toml", "README.md", "LICENSE", "eventlog", "drivers", "query"):
        run("cp", "-r", ROOT / name, source, cwd=ROOT)
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", built, ".", cwd=source)
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment that has the wheel and what it requires."""
    where = tmp_path_factory.mktemp("environment")
    venv.create(where)  # a pip of its own takes seconds, and ours can install there
    interpreter = where / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", interpreter, "install", "-q", wheel, cwd=where)
    return interpreter


def test_wheel_adds_one_name(wheel: Path) -> None:
    """
    ``eventlog`` is the only top-level name, and its types are for everyone.
    """
    names = zipfile.ZipFile(wheel).namelist()
    top_level = {name.split("/")[0] for name in names if ".dist-info/" not in name}

    assert {"eventlog"} == top_level
    assert "eventlog/py.typed" in names
    assert "eventlog/drivers/memory.py" in names
    assert "eventlog/query/__init__.py" in names


def test_wheel_works_from_an_empty_folder(python: Path, tmp_path: Path) -> None:
    """
    A base install runs a user's program on a real store.
    """
    (tmp_path / "user.py").write_text(USER_MODULE)

    printed = run(python, "-c", "import user; print(user.main('store'))", cwd=tmp_path)

    assert "2\n" == printed


def test_base_install_says_what_the_command_line_needs(python: Path, tmp_path: Path) -> None:
    """
    Without its extra the command line names the command that installs it.
    """
    done = subprocess.run(
        [str(python), "-m", "eventlog", "list"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode != 0
    assert "agent-eventlog[cli]" in done.stderr
    assert "Traceback" not in done.stderr


def test_extras_bring_what_their_commands_need() -> None:
    """
    After the README's first command ``eventlog search`` asked for another extra, and
    ``eventlog mcp`` did after that of its own name.
    """
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]

    assert "agent-eventlog[search]" in extras["cli"]
    assert "agent-eventlog[cli]" in extras["mcp"]


def test_checkout_imports_from_its_root() -> None:
    """
    Python started in the checkout's root finds the nested packages too.
    """
    code = "import eventlog.query, eventlog.drivers.memory; print(eventlog.query.__name__)"

    assert "eventlog.query\n" == run(sys.executable, "-c", code, cwd=ROOT)
    assert "eventlog" in run(sys.executable, "-m", "eventlog", "--help", cwd=ROOT)


def test_importing_the_library_imports_no_extra(tmp_path: Path) -> None:
    """
    ``import eventlog`` loads nothing that a base install lacks, and no test tool.
    """
    extras = "click rich platformdirs rapidfuzz zstandard mcp apsw pytest hypothesis".split()
    code = (
        f"import sys, eventlog, eventlog.query; print(sorted(set({extras!r}) & set(sys.modules)))"
    )

    assert "[]\n" == run(sys.executable, "-c", code, cwd=tmp_path)


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_types_hold_for_a_user(checker: str, python: Path, tmp_path: Path) -> None:
    """
    A strict type checker accepts a user's module against the installed wheel.
    """
    (tmp_path / "user.py").write_text(USER_MODULE)
    if checker == "mypy":
        command = ["--strict", f"--python-executable={python}", f"--cache-dir={tmp_path}/cache"]
    else:
        command = [f"--pythonpath={python}"]

    run(sys.executable, "-m", checker, *command, "user.py", cwd=tmp_path)
