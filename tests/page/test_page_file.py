"""
The page as a file: what it holds, and what no transcript can make it hold.
"""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest

from eventlog import Event, EventStore, open_store
from eventlog.live import LiveSessions
from eventlog.query import SessionQuery, SessionQueryError
from eventlog.query.page import BLOCK_EVENTS, write_page
from support import log_only, make_header, message, messages, replacement

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "<img src=x onerror=alert(1)>",
    "javascript:alert(1)",
    "\u2028\u2029\u0000\u202e\ufeff",
]


def page(query: SessionQuery, session_id: str, **options: Any) -> str:
    out = io.BytesIO()
    write_page(query, session_id, out, **options)
    return out.getvalue().decode()


def blocks(text: str, kind: str) -> list[Any]:
    found = re.findall(rf'<script type="application/json" data-{kind}="[^>]*>(.*)</script>\n', text)
    return [json.loads(block) for block in found]


def stored(events: list[Event]) -> EventStore:
    store = open_store("memory:")
    store.append(make_header(), events)
    return store


def test_every_event_is_in_the_page() -> None:
    """
    The bodies of all blocks are the log's data, in order.
    """
    events = [*messages(BLOCK_EVENTS + 5), log_only(BLOCK_EVENTS + 5)]
    text = page(SessionQuery(store=stored(events)), "s1")

    bodies = [body for block in blocks(text, "body") for body in block]
    heads = blocks(text, "head")

    assert [event.data for event in events] == [body["data"] for body in bodies]
    assert [0, BLOCK_EVENTS] == [head["first"] for head in heads]


def test_the_head_has_what_the_surface_needs() -> None:
    """
    Places, replacers and sources stand in the heads.
    """
    text = page(
        SessionQuery(store=stored([*messages(2), replacement(2, 0, 1, [0, 1]), log_only(3)])), "s1"
    )
    (head,) = blocks(text, "head")

    assert [-1, -1, 0, None] == [event[3] for event in head["events"]]
    assert [[0, 2], [1, 2]] == head["by"]
    assert [[2, [0, 1]]] == head["sources"]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_transcript_adds_no_markup(text: str) -> None:
    """
    Whatever a transcript holds, the page has the elements that the program wrote.
    """
    harmless = page(SessionQuery(store=stored([message(0, "x")])), "s1")
    hostile = page(SessionQuery(store=stored([message(0, text)])), "s1")

    assert harmless.count("<") == hostile.count("<")
    assert text == blocks(hostile, "body")[0][0]["data"]["content"][0]["text"]


def test_a_session_id_adds_no_markup() -> None:
    """
    The title is the one place where text becomes markup, and it is escaped.
    """
    store = open_store("memory:")
    store.append(make_header("</title><script>alert(1)</script>"), [message(0)])

    text = page(SessionQuery(store=store), "</title><script>alert(1)</script>")

    assert "<script>alert" not in text
    assert "<title>&lt;/title&gt;" in text


def test_the_page_loads_nothing() -> None:
    """
    The policy admits the page's own script and style, and names no address.
    """
    text = page(SessionQuery(store=stored([message(0)])), "s1")

    assert "default-src 'none'" in text
    assert not re.search(r"https?://|src=|href=|@import|url\(", text)


def test_a_lineage_is_one_page() -> None:
    """
    Parents stand before children, each with its depth.
    """
    live = LiveSessions()
    root = live.create("root")
    root.append("x/note", {})
    live.fork(root, session_id="child")
    live.fork("child", session_id="grandchild")
    text = page(SessionQuery(live), "child", lineage=True)

    index = json.loads(re.search(r'id="index">(.*)</script>', text).group(1))  # type: ignore[union-attr]

    assert [("root", 0), ("child", 1), ("grandchild", 2)] == [
        (one["id"], one["depth"]) for one in index["sessions"]
    ]
    assert 1 == index["start"]


def test_an_empty_log_is_a_page() -> None:
    """
    A session without events has a page without events.
    """
    live = LiveSessions()
    live.create("empty")

    assert [] == blocks(page(SessionQuery(live), "empty"), "head")


def test_an_unknown_session_writes_nothing() -> None:
    """
    A page of nothing is an error before the first byte.
    """
    out = io.BytesIO()
    with pytest.raises(SessionQueryError):
        write_page(SessionQuery(store=stored([message(0)])), "other", out)

    assert b"" == out.getvalue()
