"""``view`` and ``export --format html``."""

import os
import stat
from pathlib import Path

import pytest

from eventlog import open_store
from support import make_header, messages, replacement
from support.cli import Run


def fill(url: str) -> None:
    """A compacted session and its fork."""
    with open_store(url) as store:
        store.append(make_header("parent"), [*messages(3), replacement(3, 0, 1, [0, 1])])
        store.append(make_header("fork", parent_session="parent", seed_length=1), messages(1))


def test_a_page_is_private_and_replaced_by_the_next(
    run: Run, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The page stands in the cache folder, for its user alone, once for each session.
    """
    fill(url)
    first = run("view", "par", "--no-open", "--json")
    again = run("view", "parent", "--no-open", "--json")
    (page,) = (tmp_path / "cache" / "pages").iterdir()
    monkeypatch.setenv("HOME", str(tmp_path))

    assert f"{page}\n" == run("view", "parent", "--no-open").out
    assert 0 == first.code == again.code
    assert str(page) == first.json["path"] == again.json["path"]
    assert 0o600 == stat.S_IMODE(page.stat().st_mode)
    assert 0o700 == stat.S_IMODE(page.parent.stat().st_mode)
    assert "begins with" in first.err or "parent" in first.err


def test_a_page_is_opened(run: Run, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The browser is given the page's address; where there is none, that is said.
    """
    fill(url)
    opened: list[str] = []

    def record(address: str) -> bool:
        opened.append(address)
        return False

    monkeypatch.setattr("webbrowser.open", record)
    done = run("view", "parent", "--json")

    assert [Path(done.json["path"]).as_uri()] == opened
    assert "no browser" in done.err


def test_a_page_that_cannot_be_written_leaves_the_old_one(
    run: Run, url: str, tmp_path: Path
) -> None:
    """
    An unknown session or a missing folder is an error, and no file is touched.
    """
    fill(url)
    kept = tmp_path / "page.html"
    kept.write_text("kept")

    assert 1 == run("view", "unknown", "--output", str(kept), "--no-open").code
    missing = run("view", "parent", "--output", str(tmp_path / "no" / "x"), "--no-open")
    assert (4, f"eventlog: {tmp_path / 'no' / 'x'}: No such file or directory\n") == (
        missing.code,
        missing.err,
    )
    assert "kept" == kept.read_text()
    assert ["page.html"] == [path.name for path in tmp_path.glob("*page*")]


def test_what_is_no_file_is_not_replaced_by_a_page(run: Run, url: str, tmp_path: Path) -> None:
    """
    For root, a page in the place of /dev/null took the device away.
    """
    fill(url)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    assert 2 == run("view", "parent", "--output", str(pipe), "--no-open").code
    assert pipe.is_fifo()


def test_export_writes_the_same_page(run: Run, url: str, tmp_path: Path) -> None:
    """
    ``export`` prints what ``view`` writes, lineage included.
    """
    fill(url)
    page = tmp_path / "page.html"
    run("view", "fork", "--lineage", "--output", str(page), "--no-open")

    exported = run("export", "fork", "--format", "html", "--lineage")
    alone = run("export", "fork", "--format", "html")

    assert page.read_text() == exported.out
    assert '"id":"parent"' in exported.out
    assert '"id":"parent"' not in alone.out


def test_lineage_is_for_pages(run: Run, url: str) -> None:
    """
    The other forms have one session.
    """
    fill(url)

    assert 2 == run("export", "fork", "--lineage").code
