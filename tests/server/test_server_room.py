"""The caps of the history server's answers, whatever the sessions hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from eventlog import Event, EventStore, open_store
from eventlog.query import SessionQuery
from eventlog.query.server import HistoryTools, Scope
from support import make_header, message, messages
from support.damage import DAMAGED
from support.jsonl import plant

CAP_BYTES = 30_000
INVISIBLE = "\u200b"
"""Three bytes, shown as an escape of six."""
IDS = [f"{number:02}" + INVISIBLE * 84 for number in range(60)]
LONG_TYPE = "x/" + "\U000e0041" * 126


@pytest.fixture
def tools() -> HistoryTools:
    """Sixty sessions of which ids, folders, types and texts are as long as they may be."""
    store: EventStore = open_store("memory:")
    for number, session_id in enumerate(IDS):
        said = [message(seq, "needle " + INVISIBLE * 900) for seq in range(30)]
        other = [Event(30 + seq, 1, LONG_TYPE, {"t": INVISIBLE * 900}) for seq in range(30)]
        store.append(
            make_header(session_id, created_at=number, cwd="/" + INVISIBLE * 900), said + other
        )
    return HistoryTools(SessionQuery(store=store), Scope.from_text("all"))


@pytest.mark.parametrize("limit", [7, 30])
@pytest.mark.parametrize("query", ["needle", ""])
def test_i1_no_session_is_pushed_off_its_page(tools: HistoryTools, query: str, limit: int) -> None:
    """
    What a page could not hold was cut off at its end, while its cursor went on behind it: no
    page had those sessions. Excerpts give way, and each session is on one page.
    """
    found: list[str] = []
    cursor = None
    while True:
        answer = tools.call("session_search", {"query": query, "limit": limit, "cursor": cursor})
        assert not answer.is_error
        assert len(answer.text.encode()) <= CAP_BYTES
        assert "longer than is given" not in answer.text
        found += re.findall(r"^(\d\d)\\u200b", answer.text, re.M)
        more = re.search(r"^more: cursor=(\S+)$", answer.text, re.M)
        if more is None:
            break
        cursor = more[1]

    assert [f"{number:02}" for number in range(59, -1, -1)] == found


@pytest.mark.parametrize("seq", [0, 25, 45, 59])
def test_i1_neighbours_with_long_types(tools: HistoryTools, seq: int) -> None:
    """Forty neighbours with types of 500 bytes each took more than the answer may have."""
    answer = tools.call(
        "session_read", {"session_id": IDS[0], "seq": seq, "before": 20, "after": 20}
    )

    assert len(answer.text.encode()) <= CAP_BYTES
    told = [int(one) for one in re.findall(r"^\[seq (\d+), ", answer.text, re.M)]
    assert [*range(max(0, seq - 20), min(60, seq + 21))] == told


@pytest.mark.parametrize("value", ["+-5", "--5", "5_0", "1e3", float("inf"), 2.5, True])
def test_i2_a_number_that_is_none(tools: HistoryTools, value: object) -> None:
    """What is no whole number is an error that the model can mend."""
    answer = tools.call("session_search", {"limit": value})

    assert answer.is_error
    assert "limit must be a JSON integer" == answer.text


@pytest.mark.parametrize(
    ("scope", "told"), [("all", True), ("cwd:/w", False), ("session:sound", False)]
)
def test_i8_damage_is_told_within_the_scope(tmp_path: Path, scope: str, told: bool) -> None:
    """
    A store of which a part cannot be read looked like a whole one. How many sessions that
    are is said to who may see all of them, and to nobody else.
    """
    plant(tmp_path, DAMAGED["garbage"])
    with open_store(f"jsonl:{tmp_path}") as store:
        store.append(make_header("sound", cwd="/w"), messages(2))
        plant(tmp_path, b"no header\n", "lost")
        query = SessionQuery(store=store)
        tools = HistoryTools(query, Scope.from_text(scope))
        searched = tools.call("session_search", {"query": "absent"})
        listed = tools.call("session_search", {})
        query.engines.close()

    assert "no match" in searched.text
    assert told is ("cannot be read" in searched.text)
    assert told is ("cannot be read" in listed.text)
    assert str(tmp_path) not in searched.text + listed.text
