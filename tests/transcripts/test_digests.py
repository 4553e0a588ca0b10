"""Digests of files: read again only where the file may have changed."""

from __future__ import annotations

import os
import time
from hashlib import file_digest
from pathlib import Path
from typing import Any

import pytest

from eventlog import digests
from eventlog.digests import FileDigests


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files whose bytes were read."""
    names: list[str] = []

    def counted(file: Any, *rest: Any) -> Any:
        names.append(Path(file.name).name)
        return file_digest(file, *rest)

    monkeypatch.setattr("eventlog.digests.file_digest", counted)
    return names


def test_an_unchanged_file_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: list[str]
) -> None:
    """
    A server that looks at a year of transcripts before each answer reads what is new. A
    file is another one when bytes are added, when they change under an old time of
    writing, and when another file takes its place.
    """
    monkeypatch.setattr(digests, "SETTLING_NS", -1_000_000_000)
    known = FileDigests()
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_bytes(b"one")
    b.write_bytes(b"two")
    first = known.of(a)
    assert [first, first] == [known.of(a), known.of(a)]
    assert first != known.of(b)
    assert ["a", "b"] == read

    with a.open("ab") as file:
        file.write(b"!")
    grown = known.of(a)
    time.sleep(0.05)  # many ticks of the file system's clock
    times = a.stat().st_atime_ns, a.stat().st_mtime_ns
    a.write_bytes(b"ONE!")
    os.utime(a, ns=times)
    changed = known.of(a)
    os.replace(b, a)

    assert 4 == len({first, grown, changed, known.of(a)})
    assert ["a", "b", "a", "a", "a"] == read


def test_a_file_that_was_just_written_is_read_again(tmp_path: Path, read: list[str]) -> None:
    """
    Two writes within one tick of the file system's clock leave the same status.
    """
    path = tmp_path / "a"
    path.write_bytes(b"one")
    known = FileDigests()

    assert known.of(path) == known.of(path)
    assert ["a", "a"] == read


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    """
    Nothing is answered from memory for a file that cannot be opened.
    """
    with pytest.raises(FileNotFoundError):
        FileDigests().of(tmp_path / "none")
