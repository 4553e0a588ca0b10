"""Which steps of a store the kit can let go wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from eventlog.testing import StepFaults

# What a store in Python does to change its medium, by pathlib where it is usual there.
STEPS: dict[str, Callable[[Path, int], object]] = {
    "write": lambda root, fd: os.write(fd, b"four"),
    "pwrite": lambda root, fd: os.pwrite(fd, b"four", 2),
    "fsync": lambda root, fd: os.fsync(fd),
    "fdatasync": lambda root, fd: os.fdatasync(fd),
    "ftruncate": lambda root, fd: os.ftruncate(fd, 1),
    "truncate": lambda root, fd: os.truncate(root / "log", 1),
    "rename": lambda root, fd: (root / "log").rename(root / "other"),
    "replace": lambda root, fd: (root / "log").replace(root / "other"),
    "link": lambda root, fd: (root / "other").hardlink_to(root / "log"),
    "unlink": lambda root, fd: (root / "log").unlink(),
    "remove": lambda root, fd: os.remove(root / "log"),
    "mkdir": lambda root, fd: (root / "new").mkdir(),
    "rmdir": lambda root, fd: (root / "empty").rmdir(),
}


@pytest.mark.parametrize("name", STEPS)
def test_step_is_counted_and_fails(tmp_path: Path, name: str) -> None:
    """
    Each step fails before it has done anything, and is done where nothing is to go wrong.

    A rename by ``Path.replace``, a write at a place, and others, were no steps: a store that
    used them was never seen to fail there.
    """
    (tmp_path / "log").write_bytes(b"before")
    (tmp_path / "empty").mkdir()
    before = sorted(path.name for path in tmp_path.iterdir())
    fd = os.open(tmp_path / "log", os.O_RDWR)
    try:
        with StepFaults(tmp_path, at=1).active() as faults, pytest.raises(OSError, match=r"."):
            STEPS[name](tmp_path, fd)
        assert [name] == faults.taken
        assert before == sorted(path.name for path in tmp_path.iterdir())
        assert b"before" == (tmp_path / "log").read_bytes()
        with StepFaults(tmp_path).active() as counted:
            STEPS[name](tmp_path, fd)
        assert [name] == counted.taken
    finally:
        os.close(fd)


@pytest.mark.parametrize("name", ["write", "pwrite"])
def test_short_write_leaves_a_half(tmp_path: Path, name: str) -> None:
    """
    A short write writes half, says so, and the rest is refused.
    """
    (tmp_path / "log").write_bytes(b"")
    fd = os.open(tmp_path / "log", os.O_RDWR)
    try:
        with StepFaults(tmp_path, at=1, fault="short").active():
            assert 2 == STEPS[name](tmp_path, fd)
            with pytest.raises(OSError, match=r"."):
                STEPS[name](tmp_path, fd)
    finally:
        os.close(fd)
    assert b"fo" == (tmp_path / "log").read_bytes().lstrip(b"\0")
