"""What shells complete: commands, options, and the ids of sessions that are safe to put in."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog import open_store
from support import make_header, messages
from support.cli import Run

BASH = shutil.which("bash")
HARMFUL = ("h$(touch ran)", "h`touch ran`", "h;touch ran", "h&touch ran", "h*", "h x", "h'", "-h")


@pytest.fixture
def filled(url: str) -> str:
    """A store with ids that hold colons, and ids that a shell would run."""
    with open_store(url) as store:
        for session_id in ("s-one", "s-two", "a:1-new", "ä:2", *HARMFUL):
            store.append(make_header(session_id), messages(1))
    return url


def test_completion_code_is_printed(run: Run) -> None:
    """Each shell gets the code that completes our commands."""
    for shell in ("bash", "zsh", "fish"):
        assert "_EVENTLOG_COMPLETE" in run("completion", shell).out


@pytest.mark.parametrize(
    ("words", "position", "offered"),
    [
        ("eventlog su", 1, {"surface"}),
        ("eventlog show s-", 2, {"s-one", "s-two"}),
        ("eventlog show", 2, {"s-one", "s-two", "a:1-new", "ä:2"}),
        ("eventlog show h", 2, set()),
        ("eventlog archive s-one s-t", 3, {"s-two"}),
        ("eventlog search x --session s-t", 4, {"s-two"}),
        ("eventlog list --parent s-t", 3, {"s-two"}),
    ],
)
def test_shells_complete_commands_and_sessions(
    run: Run,
    filled: str,
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    position: int,
    offered: set[str],
) -> None:
    """
    What is typed is completed from the commands, and from the ids in the store.

    An id with a command in it was offered, and bash ran it when the line was entered.
    """
    monkeypatch.setenv("_EVENTLOG_COMPLETE", "zsh_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(position))

    assert offered == set(run().out.splitlines()[1::3])


class Bash:
    """A bash at a terminal, with our completion, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        script = folder / "eventlog"
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m eventlog "$@"\n')
        script.chmod(0o755)
        self.terminal, end = pty.openpty()
        self.process = subprocess.Popen(
            [BASH or "", "--norc", "--noprofile", "-i"],
            stdin=end,
            stdout=end,
            stderr=end,
            cwd=folder,
            env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "TERM": "dumb"},
            start_new_session=True,
        )
        os.close(end)
        self.type('eval "$(eventlog completion bash)"; echo rea""dy\r', "ready")

    def type(self, keys: str, awaited: str) -> str:
        """Press *keys*, and return what is shown from then on until *awaited* is."""
        os.write(self.terminal, keys.encode())
        shown = b""
        end = time.monotonic() + 20
        while awaited not in shown.decode(errors="replace") and time.monotonic() < end:
            if select.select([self.terminal], [], [], 0.2)[0]:
                shown += os.read(self.terminal, 65536)
        return shown.decode(errors="replace")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.terminal)


@pytest.fixture
def bash(filled: str, tmp_path: Path) -> Iterator[Bash]:
    if BASH is None:
        pytest.skip("needs bash")
    running = Bash(tmp_path)
    yield running
    running.close()


def test_bash_completes_words_with_colons(bash: Bash, tmp_path: Path) -> None:
    """
    Bash takes words apart at colons: an id with one was not found, nor anything behind the
    URL of --store.
    """
    store = f"lmdb:{tmp_path / 'store'}"
    for typed, completed in (
        ("eventlog show a:", "a:1-new "),
        ("eventlog show a", "a:1-new "),
        (f"eventlog show --store {store} s-o", "s-one "),
        ("eventlog search x --class=sh", "--class=shadowed "),
        ("true; eventlog surf", "eventlog surface "),
    ):
        assert completed in bash.type(f"\x15{typed}\t", completed)
