"""The page in a real browser: where it is, and an open page."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from eventlog import EventStore
from eventlog.query import SessionQuery
from eventlog.query.page import write_page

__all__ = ["CHROMIUM", "Tab", "write"]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


class Tab:
    """An open page with all that it complained of and asked for."""

    def __init__(self, browser: Any, path: Path) -> None:
        self.view = browser.new_page(viewport={"width": 1280, "height": 900})
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.view.on("console", lambda line: self.complaints.append(line.text))
        self.view.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.view.on("request", lambda request: self.requests.append(request.url))
        self.view.goto(path.as_uri())
        self.view.wait_for_selector("html[data-ready]", state="attached")
        self.url = path.as_uri()

    def seqs(self) -> list[int]:
        """The events in view, from the top."""
        found: list[int] = self.view.evaluate(
            """() => [...document.querySelectorAll("#canvas .row")]
                .sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)
                .map((row) => Number(row.dataset.seq))"""
        )
        return found

    def check(self) -> None:
        """Nothing was complained of, and nothing left the file."""
        assert [] == self.complaints
        assert [self.url] == self.requests


def write(store: EventStore, session_id: str, path: Path, **options: Any) -> Path:
    with path.open("wb") as out:
        write_page(SessionQuery(store=store), session_id, out, **options)
    return path
