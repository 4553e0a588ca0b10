"""Children that tests fork, kill, starve of rights and limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from tempfile import TemporaryDirectory

import pytest

import eventlog

from . import IN_MEMORY

__all__ = [
    "dropping_root",
    "forked",
    "forked_together",
    "need_other_users",
    "output",
    "reachable_folder",
    "running",
    "script",
    "started",
    "wait_for",
]

CHILD_WAIT_S = 60.0


def forked(body: Callable[[], object], *, wait_s: float = CHILD_WAIT_S) -> int:
    """
    Run *body* in a forked child and return its exit code: 0 where it returned, 1 where
    it raised, the negated signal where it was killed or hung.
    """
    return wait_for(started(body), wait_s=wait_s)


def forked_together(bodies: Sequence[Callable[[], object]]) -> list[int]:
    """Run each of *bodies* in a child of its own, at once; return their exit codes."""
    gate, opener = os.pipe()

    def wait_and_run(body: Callable[[], object]) -> object:
        os.close(opener)
        os.read(gate, 1)
        return body()

    children = [started(partial(wait_and_run, body)) for body in bodies]
    os.close(gate)
    os.close(opener)
    return [wait_for(child) for child in children]


def started(body: Callable[[], object]) -> int:
    """Fork a child that runs *body*, and return its pid."""
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        # Python 3.12 warns of every fork beside threads, which some tests are about.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 1
        try:
            body()
            code = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)
    return child


def wait_for(child: int, *, wait_s: float = CHILD_WAIT_S) -> int:
    """Wait for a forked child, kill it where it hangs, and return its exit code."""
    until = time.monotonic() + wait_s
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return -signal.SIGKILL
        time.sleep(0.002)


def need_other_users() -> None:
    """
    Make ready for a child that is another user: load whatever it may import, and skip the
    test where it could not read the installation's own files.
    """
    if os.getuid() != 0:
        return
    for path in (sys.prefix, eventlog.__file__):
        for folder in Path(path).resolve().parents:
            if folder.stat().st_mode & 0o005 != 0o005:
                pytest.skip(f"another user cannot read what is below {folder}")
    _load_everything()


@cache
def _load_everything() -> None:
    for package in ("eventlog", "eventlog.drivers", "eventlog.query"):
        path = import_module(package).__path__
        for module in walk_packages(path, f"{package}."):
            import_module(module.name)


@contextmanager
def reachable_folder() -> Iterator[Path]:
    """A folder that every user may enter, whatever becomes of the test run's own."""
    with TemporaryDirectory(prefix="eventlog-", dir=IN_MEMORY) as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def dropping_root(body: Callable[[], object]) -> Callable[[], object]:
    """A *body* for :func:`forked` that has no more rights than any user."""
    need_other_users()

    def dropped() -> object:
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        return body()

    return dropped


def script(source: str, *arguments: object, **options: object) -> subprocess.Popen[str]:
    """
    Start *source* as a program of its own, with *arguments* in ``sys.argv[1:]``. It may
    import from ``support``.
    """
    tests = str(Path(__file__).parents[1])
    child: subprocess.Popen[str] = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": tests},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **options,  # type: ignore[call-overload]
    )
    return child


def output(child: subprocess.Popen[str]) -> str:
    """Wait for a program to end well, and return what it printed."""
    printed, _ = child.communicate(timeout=CHILD_WAIT_S)
    assert child.returncode == 0
    return printed


@contextmanager
def running(source: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A program that has printed its first line, and is killed at the end."""
    child = script(source, *arguments)
    try:
        assert child.stdout is not None
        assert child.stdout.readline(), "the program prints a line when it is ready"
        yield child
    finally:
        child.kill()
        child.communicate()
