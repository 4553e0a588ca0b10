"""A browser, and a session that was compacted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from eventlog import EventStore, open_store
from support import log_only, make_header, message, replacement
from support.browser import CHROMIUM


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium, such as Debian's package chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    with playwright.sync_playwright() as driver:
        sandbox = [] if os.geteuid() else ["--no-sandbox"]
        running = driver.chromium.launch(executable_path=CHROMIUM, args=[*sandbox, "--disable-gpu"])
        yield running
        running.close()


@pytest.fixture
def store() -> EventStore:
    """Three messages, of which two were compacted, then one more and a note."""
    kept = open_store("memory:")
    kept.append(
        make_header(cwd="/w"),
        [
            message(0, "the first detail is 4711"),
            message(1, "the second"),
            message(2, "the third"),
            replacement(3, 0, 1, [0, 1]),
            message(4, "the last"),
            log_only(5),
        ],
    )
    return kept
