"""
Failing the system under a store: the n-th write, sync, rename or truncation of files below
a folder fails, falls short, or is where the process dies.

What Python asks of the system is intercepted in :mod:`os`; what a library in C asks, by a
small shim (:mod:`eventlog.testing.preloading`).
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

from attrs import define, field

__all__ = ["STEPS", "StepFaults", "each_step"]

WRITES: Final = ("write", "pwrite")

STEPS: Final = (
    *WRITES,
    *("fsync", "fdatasync", "ftruncate", "truncate"),
    *("rename", "replace", "link", "unlink", "remove"),
    *("mkdir", "rmdir"),
)
"""What counts as a step: what a store asks of :mod:`os` to change its medium."""

Fault = Literal["fail", "short", "die"]


@define
class StepFaults:
    """
    Counts the steps below a folder, and lets one go wrong.

    Attributes:
        root: Only files in or below it count.

        at: The number of the step that goes wrong, from 1; 0 is none.

        fault: ``"fail"`` raises *code*; ``"short"`` writes half, and raises *code* at the
            next step (of other steps: as ``"fail"``); ``"die"`` kills the process before it.

        code: The error's number.

        times: How many steps in a row go wrong from there on.

        taken: The name of each step so far.
    """

    root: Path
    at: int = 0
    fault: Fault = "fail"
    code: int = errno.EIO
    times: int = 1
    taken: list[str] = field(factory=list)

    @contextmanager
    def active(self) -> Iterator[StepFaults]:
        """Intercept the steps of this process while the context lasts."""
        reals = {name: getattr(os, name) for name in STEPS}
        try:
            for name, real in reals.items():
                setattr(os, name, self._counting(name, real))
            yield self
        finally:
            for name, real in reals.items():
                setattr(os, name, real)

    def _counting(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            if not self._is_below(arguments[0]):
                return real(*arguments, **options)
            self.taken.append(name)
            number = len(self.taken)
            if not self.at or not self.at <= number < self.at + self.times:
                return real(*arguments, **options)
            if self.fault == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.fault == "short" and name in WRITES and number == self.at:
                # As a disk that fills up: a part is written, and the rest is refused.
                self.times += 1
                target, data, *place = arguments
                return real(target, bytes(data)[: len(data) // 2], *place)
            raise OSError(self.code, os.strerror(self.code))

        return step

    def _is_below(self, target: int | str | os.PathLike[str]) -> bool:
        if isinstance(target, int):
            try:
                path = os.readlink(f"/proc/self/fd/{target}")
            except OSError:
                return False
        else:
            path = os.path.abspath(os.fspath(target))
        return path == str(self.root) or path.startswith(f"{self.root}/")


def each_step(
    prepare: Callable[[Path], None],
    act: Callable[[Path], object],
    check: Callable[[Path, bool], None],
    root: Path,
    *,
    fault: Fault = "fail",
    code: int = errno.EIO,
    steps_max: int = 200,
) -> list[str]:
    """
    Let *act* go wrong at its first step, then at its second, and so on to the last.

    Args:
        prepare: Makes the store at a path, unharmed.

        act: What is tried; it may raise.

        check: Asserts that what is at the path is legal; its second argument tells
            whether *act* came to its end without an error.

        root: A folder for the stores.

        fault, code: What goes wrong, as in :class:`StepFaults`.

    Returns:
        The names of the steps of an unharmed run.

    Raises:
        AssertionError: *act* takes more than *steps_max* steps, or *check* failed.
    """
    for number in range(1, steps_max + 1):
        place = root / f"{fault}-{number}"
        prepare(place)
        faults = StepFaults(place, number, fault, code)
        done = _forked(place, faults, act) if fault == "die" else _tried(faults, act, place)
        check(place, done)
        if fault == "die":
            if done:
                return _steps_of(act, prepare, root / "unharmed")
        elif len(faults.taken) < number:
            return faults.taken
    raise AssertionError(f"more than {steps_max} steps")


def _tried(faults: StepFaults, act: Callable[[Path], object], place: Path) -> bool:
    with faults.active():
        try:
            act(place)
        except Exception:
            return False
        return True


def _steps_of(
    act: Callable[[Path], object], prepare: Callable[[Path], None], place: Path
) -> list[str]:
    prepare(place)
    with StepFaults(place).active() as faults:
        act(place)
    return faults.taken


def _forked(place: Path, faults: StepFaults, act: Callable[[Path], object]) -> bool:
    """Try it in a process that may die; tells whether it came to its end."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with faults.active():
                act(place)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, -signal.SIGKILL), f"ended with {code}"
    return code == 0
