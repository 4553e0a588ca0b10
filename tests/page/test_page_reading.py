"""
Finding one's way on the page, in a real browser: by search, by key, through compactions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eventlog import APPEND, Event, EventStore, open_store
from support import make_header, message, replacement
from support.browser import Tab, write


def test_keys_do_what_the_help_says(browser: Any, store: EventStore, tmp_path: Path) -> None:
    """
    The page is used without a mouse.
    """
    tab = Tab(browser, write(store, "s1", tmp_path / "page.html"))
    tab.view.keyboard.press("j")
    tab.view.keyboard.press("k")
    tab.view.keyboard.press("[")
    assert "5 of 6" in tab.view.inner_text("#at")
    tab.view.keyboard.press("]")
    tab.view.keyboard.press("m")
    assert [0, 1, 2, 3, 4, 5] == tab.seqs()
    tab.view.keyboard.press("Escape")
    tab.view.keyboard.press("?")

    assert tab.view.is_visible("#help")
    assert not tab.view.is_visible("#panel")
    tab.check()


@pytest.mark.parametrize(("depth", "width"), [(60, 1280), (60, 400), (12_000, 400)])
def test_a_compaction_of_compactions_stays_in_view(
    browser: Any, tmp_path: Path, depth: int, width: int
) -> None:
    """
    What the first of sixty compactions took away stood beyond the right edge, and the
    first of twelve thousand ended the script.
    """
    events = [message(0, "the needle"), message(1)]
    top = 0
    for _ in range(depth):
        seq = len(events)
        events += [replacement(seq, top, seq - 1, [top, seq - 1]), message(seq + 1)]
        top = seq
    kept = open_store("memory:")
    kept.append(make_header(), events)
    tab = Tab(browser, write(kept, "s1", tmp_path / "page.html"))
    tab.view.set_viewport_size({"width": width, "height": 800})
    tab.view.fill("#search", "needle")
    tab.view.wait_for_selector("#hits:has-text('1 found')")
    tab.view.press("#search", "Enter")
    box = tab.view.locator('.row[data-seq="0"]').bounding_box()

    assert box is not None
    assert 200 < box["width"] < box["x"] + box["width"] <= width
    tab.check()


def test_what_is_found_is_brought_into_view(browser: Any, tmp_path: Path) -> None:
    """
    A match below the fold of a long text, or inside a folded thought, was selected and
    stayed hidden. Letters that lowering makes longer moved the marks behind them.
    """
    lines = [f"line {number}" for number in range(200)]
    lines[100] = "the NEEDLE"
    thought = [{"type": "reasoning", "text": "of a needle"}, {"type": "text", "text": "done"}]
    data = {"message": {"role": "assistant", "id": "m", "content": thought}}
    kept = open_store("memory:")
    kept.append(
        make_header(),
        [
            message(0, "\n".join(lines)),
            message(1, "İİİ needle"),
            Event(2, 2, "assistant/message", data, surface_op=APPEND),
        ],
    )
    tab = Tab(browser, write(kept, "s1", tmp_path / "page.html"))
    tab.view.fill("#search", "needle")
    tab.view.wait_for_selector("#hits:has-text('3 found')")
    seen = []
    for _ in range(3):
        tab.view.press("#search", "Enter")
        marks = tab.view.locator("#list .selected mark")
        tab.view.wait_for_timeout(100)
        box = marks.first.bounding_box()
        assert box is not None
        assert 0 < box["y"] < 900
        assert marks.first.evaluate(
            """mark => document.elementFromPoint(
                mark.getBoundingClientRect().x + 1, mark.getBoundingClientRect().y + 5) === mark"""
        )
        seen.append(marks.first.inner_text())

    assert ["NEEDLE", "needle", "needle"] == seen
    tab.check()


def test_a_button_pressed_by_key_keeps_the_place(
    browser: Any, store: EventStore, tmp_path: Path
) -> None:
    """
    Tab goes through the rows from the top, however one came to them, and goes on from the
    button that was pressed.
    """
    tab = Tab(browser, write(store, "s1", tmp_path / "page.html"))
    tab.view.focus("button.open")
    tab.view.keyboard.press("Enter")
    assert [3, 0, 1, 2, 4] == tab.seqs()
    focused = tab.view.evaluate("document.activeElement.textContent")
    rows = "[...document.querySelectorAll('#canvas .row')].map(row => Number(row.dataset.seq))"
    assert "close what it replaced" == focused
    tab.view.keyboard.press("m")

    assert [0, 1, 2, 3, 4, 5] == tab.view.evaluate(rows)
    tab.check()


def test_keys_that_scroll_do(browser: Any, tmp_path: Path) -> None:
    """
    They did once one had come to the list by Tab. Where an event is selected, the log
    opens at it, and so does the surface.
    """
    kept = open_store("memory:")
    kept.append(make_header(), [message(seq) for seq in range(200)])
    tab = Tab(browser, write(kept, "s1", tmp_path / "page.html"))
    assert 199 in tab.seqs()
    tab.view.keyboard.press("/")
    tab.view.keyboard.press("Escape")
    tab.view.keyboard.press("Home")
    tab.view.wait_for_selector('.row[data-seq="0"]')
    tab.view.evaluate("document.getElementById('list').scrollTop = 5000")
    tab.view.wait_for_timeout(100)
    tab.view.keyboard.press("j")
    selected = tab.view.get_attribute("#list .selected", "data-seq")
    tab.view.evaluate("document.getElementById('list').scrollTop = 0")
    tab.view.wait_for_timeout(100)
    for _ in range(2):
        tab.view.keyboard.press("m")
        assert tab.view.is_visible(f'#list .selected[data-seq="{selected}"]')
    tab.check()


def test_rows_stand_in_order_after_scrolling_back(browser: Any, tmp_path: Path) -> None:
    """
    Tab and a copied selection follow the document, in which rows stood as they were drawn.
    """
    kept = open_store("memory:")
    kept.append(make_header(), [message(seq) for seq in range(200)])
    tab = Tab(browser, write(kept, "s1", tmp_path / "page.html"))
    rows = "[...document.querySelectorAll('#canvas .row')].map(row => Number(row.dataset.seq))"
    for place in (2_000, 1_700, 4_000, 3_800):
        tab.view.evaluate(f"document.getElementById('list').scrollTop = {place}")
        tab.view.wait_for_timeout(100)
        found = tab.view.evaluate(rows)
        assert sorted(found) == found
