"""
The page in a real browser.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eventlog import APPEND, Event, EventStore, open_store
from eventlog.codec import decode_line
from eventlog.model import SessionHeader
from support import corpus, log_only, make_header, message, messages
from support.browser import Tab, write

HOSTILE = [
    "<script>window.broken = 1</script>",
    "</script><script>window.broken = 1</script>",
    "<img src=x onerror='window.broken = 1'><svg onload='window.broken = 1'>",
    "<!--<script>",
    "[link](javascript:window.broken=1) javascript:window.broken=1",
    "\u2028\u2029\u202e\u0000\ufeff\u0085",
    "<style>*{display:none}</style><meta http-equiv=refresh content='0;url=http://x.test'>",
    "a" * 5_000,
    "{{constructor.constructor('window.broken=1')()}}",
]


def test_the_surface_opens_first(browser: Any, store: EventStore, tmp_path: Path) -> None:
    """
    A reader sees what the model sees now, and how much else there is.
    """
    tab = Tab(browser, write(store, "s1", tmp_path / "page.html"))

    assert [3, 2, 4] == tab.seqs()
    assert "6 of 6 events" in tab.view.inner_text("#at")
    assert "the model saw 3" in tab.view.inner_text("#status")
    tab.check()


def test_a_compaction_opens_to_what_it_replaced(
    browser: Any, store: EventStore, tmp_path: Path
) -> None:
    """
    The replaced events stand behind their summary, dimmed, and go again.
    """
    tab = Tab(browser, write(store, "s1", tmp_path / "page.html"))
    tab.view.click(".open")
    assert [3, 0, 1, 2, 4] == tab.seqs()
    tab.view.click(".open")

    assert [3, 2, 4] == tab.seqs()
    tab.check()


def test_the_slider_goes_back_in_time(browser: Any, store: EventStore, tmp_path: Path) -> None:
    """
    At every length the page shows the surface that a snapshot of that length has.
    """
    tab = Tab(browser, write(store, "s1", tmp_path / "page.html"))
    for length in (0, 1, 3, 4, 6):
        tab.view.evaluate(
            """(length) => {
                const slider = document.getElementById("slider");
                slider.value = String(length);
                slider.dispatchEvent(new Event("input"));
            }""",
            length,
        )
        assert store.snapshot("s1", at=length).nodes() == tab.seqs()
    tab.check()


def test_citations_are_followed(browser: Any, store: EventStore, tmp_path: Path) -> None:
    """
    From a summary to what it cites, which is opened where it was hidden, and back.
    """
    tab = Tab(browser, write(store, "s1", tmp_path / "page.html"))
    tab.view.click('[data-seq="3"] header')
    tab.view.click("#panel .ref:has-text('#1')")
    assert "#1 user/message" in tab.view.inner_text("#panel h2")
    assert [3, 0, 1, 2, 4] == tab.seqs()
    tab.view.click("#panel .ref:has-text('#3')")

    assert "#3 user/message" in tab.view.inner_text("#panel h2")
    tab.check()


def test_search_finds_what_compaction_dropped(
    browser: Any, store: EventStore, tmp_path: Path
) -> None:
    """
    A detail that is off the surface is found, shown and marked.
    """
    tab = Tab(browser, write(store, "s1", tmp_path / "page.html"))
    tab.view.fill("#search", "4711")
    tab.view.wait_for_selector("#hits:has-text('1 found')")
    tab.view.press("#search", "Enter")

    assert "#0 user/message" in tab.view.inner_text("#panel h2")
    assert "4711" == tab.view.inner_text("mark")
    tab.check()


def test_a_transcript_executes_nothing(browser: Any, tmp_path: Path) -> None:
    """
    Scripts, handlers, closing tags and odd characters are text, wherever they stand.
    """
    kept = open_store("memory:")
    header = SessionHeader("<b onclick=x>", 1_000, cwd=HOSTILE[1])
    events = [message(seq, text) for seq, text in enumerate(HOSTILE)]
    for text in HOSTILE:
        events.append(log_only(len(events), data={text: text, "text": [text]}))
        events.append(Event(len(events), 0, "session/title", {"title": text}))
    kept.append(header, events)
    tab = Tab(browser, write(kept, header.id, tmp_path / "page.html"))
    tab.view.click("#mode-log")
    for text in HOSTILE[:4]:
        tab.view.fill("#search", text[:20])
        tab.view.wait_for_selector("#hits:has-text('found')")
        tab.view.press("#search", "Enter")

    assert tab.view.evaluate("() => window.broken === undefined")
    assert 0 == tab.view.locator("#canvas script, #canvas img, #canvas a, #panel a").count()
    tab.check()


def test_a_log_of_odd_events_opens(browser: Any, tmp_path: Path) -> None:
    """
    A time that no calendar has, which a log may hold, left the page empty. Nor does data of
    any shape, under types that are known for another one.
    """
    shapes: list[Any] = [
        {},
        {"content": 5},
        {"content": {"a": 1}},
        {"content": [5, None, [], {"type": "text"}, {"type": "tool-call", "arguments": {}}]},
        {"content": [{"type": "tool-result", "content": "x"}, {"type": ["a"]}]},
        {"__proto__": {"x": 1}, "constructor": 5, "toString": "x", "message": None},
        {"message": {"content": None}},
        {"n": 2**64 - 1, "f": 1e308, "z": -0.0},
    ]
    kinds = ["user/message", "assistant/message", "tool/result", "session/title", "x/odd"]
    events: list[Event] = []
    for kind in kinds:
        for shape in shapes:
            seq = len(events)
            time = (0, -(2**53 - 1), 2**53 - 1)[seq % 3]
            op = None if kind == "session/title" else APPEND
            events.append(Event(seq, time, kind, shape, surface_op=op))
    kept = open_store("memory:")
    kept.append(SessionHeader("s1", 2**53 - 1), events)
    tab = Tab(browser, write(kept, "s1", tmp_path / "page.html"))
    tab.view.click("#mode-log")
    for seq in range(len(events)):
        tab.view.evaluate(f"() => go({seq})")

    assert "9007199254740991 ms" in tab.view.inner_text("#facts")
    tab.check()


def test_a_text_of_megabytes_opens(browser: Any, tmp_path: Path) -> None:
    """
    One line of a million characters without a space took a browser minutes, whether it was
    looked at or not. Its beginning is shown, and how much there is more.
    """
    texts = ["日本語🔑" * 250_000, "x" * 5_000_000, "a line of text\n" * 50_000]
    kept = open_store("memory:")
    kept.append(make_header("s1"), [message(seq, text) for seq, text in enumerate(texts)])
    tab = Tab(browser, write(kept, "s1", tmp_path / "page.html"))
    tab.view.set_default_timeout(20_000)
    for seq, text in enumerate(texts):
        tab.view.evaluate(f"() => go({seq})")
        tab.view.evaluate(f"() => {{ state.unfolded.add({seq}); refresh(); }}")
        shown = tab.view.locator(f"[data-seq='{seq}'] .body").inner_text()
        assert shown.startswith(text[:50])
        assert "more characters; eventlog export has them" in shown
        tab.view.evaluate(f"() => {{ state.unfolded.delete({seq}); refresh(); }}")

    tab.check()


def test_a_text_in_pieces_is_whole(browser: Any, tmp_path: Path) -> None:
    """A long text is laid out in pieces, of which none is lost and none ends inside a character."""
    texts = ["🔑" * 30_000, "word " * 20_000, ("line " * 30 + "\n") * 400, "\n" * 20_001 + "end"]
    kept = open_store("memory:")
    kept.append(make_header("s1"), [message(seq, text) for seq, text in enumerate(texts)])
    tab = Tab(browser, write(kept, "s1", tmp_path / "page.html"))
    for text in texts:
        found = tab.view.evaluate("(text) => pieces(text)", text)
        assert text.replace("\n", "") == "".join(found).replace("\n", "")
        assert max(map(len, found)) <= 10_000
        assert text.count("\n") <= "\n".join(found).count("\n")

    tab.check()


def test_a_lineage_is_walked(browser: Any, tmp_path: Path) -> None:
    """
    The sessions of a lineage are one click apart.
    """
    kept = open_store("memory:")
    kept.append(make_header("p"), messages(3))
    kept.append(make_header("c", parent_session="p", seed_length=2), messages(2))
    tab = Tab(browser, write(kept, "c", tmp_path / "page.html", lineage=True))
    assert "2 of 2" in tab.view.inner_text("#at")
    tab.view.click("#lineage button:has-text('p (3)')")

    assert "3 of 3" in tab.view.inner_text("#at")
    tab.check()


def test_the_largest_recorded_session_opens(browser: Any, tmp_path: Path) -> None:
    """
    A real session opens, is searched and scrolled without a complaint.
    """
    path = max(corpus("dsh").glob("*.jsonl"), key=lambda path: path.stat().st_size)
    records = [decode_line(line) for line in path.read_bytes().split(b"\n") if line]
    header = records[0]
    assert isinstance(header, SessionHeader)
    events: list[Event] = []
    for record in records[1:]:
        events += record if isinstance(record, list) else [record]  # type: ignore[list-item]
    kept = open_store("memory:")
    kept.append(header, events)
    tab = Tab(browser, write(kept, header.id, tmp_path / "page.html"))
    tab.view.click("#mode-log")
    tab.view.fill("#search", "the")
    tab.view.wait_for_selector("#hits:has-text('found')")
    for _ in range(20):
        tab.view.keyboard.press("PageDown")

    assert tab.seqs()
    tab.check()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_cut_off(
    browser: Any, store: EventStore, tmp_path: Path, scheme: str, width: int
) -> None:
    """
    The page fits narrow and wide windows, and text stands out in both schemes.
    """
    tab = Tab(browser, write(store, "s1", tmp_path / "page.html"))
    tab.view.emulate_media(color_scheme=scheme)
    tab.view.set_viewport_size({"width": width, "height": 800})

    assert tab.view.evaluate(
        "() => document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    )
    ground, ink = tab.view.evaluate(
        """() => [getComputedStyle(document.body).backgroundColor,
                  getComputedStyle(document.body).color]"""
    )
    assert ground != ink
    tab.check()


@pytest.mark.long
def test_a_hundred_thousand_events_open_fast(browser: Any, tmp_path: Path) -> None:
    """
    A session of 100,000 events of 1 kB opens in under 3 s and scrolls smoothly.
    """
    kept = open_store("memory:")
    for start in range(0, 100_000, 5_000):
        kept.append(
            make_header(), [message(seq, "lorem " * 160) for seq in range(start, start + 5_000)]
        )
    tab = Tab(browser, write(kept, "s1", tmp_path / "page.html"))
    opened_ms = float(tab.view.evaluate("() => document.documentElement.dataset.ready"))
    frames: list[float] = tab.view.evaluate(
        """async () => {
            const view = document.getElementById("list");
            view.scrollTop = 100000;
            const found = [];
            let last = performance.now();
            for (let step = 0; step < 120; step++) {
                view.scrollTop += 120;
                await new Promise((resolve) => requestAnimationFrame(resolve));
                found.push(performance.now() - last);
                last = performance.now();
            }
            return found.sort((a, b) => a - b);
        }"""
    )

    assert opened_ms < 3_000
    assert frames[60] < 34  # at least 30 frames a second for most of them
    tab.check()
