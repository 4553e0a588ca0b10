"""Search tests never touch the user's own cache folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that indexes are kept in."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("EVENTLOG_CACHE", str(folder))
    yield folder
