"""
The contract of names and envelopes: session ids, event types, headers, seqs and times.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from eventlog.errors import InvalidSurface, ValueRejected
from eventlog.model import APPEND, Event, SessionHeader
from eventlog.store import EventStore
from eventlog.testing.contract.base import ContractBase, read_all, walk_heads
from eventlog.testing.contract.values import quick
from eventlog.testing.samples import make_header, note
from eventlog.testing.strategies import headers

__all__ = ["NameContract"]

BAD_IDS: dict[str, Any] = {
    "empty": "",
    "256-bytes": "a" * 256,
    "511-bytes": "a" * 511,
    "512-bytes": "a" * 512,
    "600-bytes-of-utf-8": "日" * 200,
    "nul": "a\x00b",
    "line-feed": "a\nb",
    "delete": "a\x7f",
    "c1-control": "a\x85",
    "lone-surrogate": "a\ud800",
    "int": 5,
    "bytes": b"a",
    "none": None,
}

BAD_TYPES = ("", "a\nb", "a b", "x" * 10_000, "session", "text-chunks", "a\x00", None, 5)

# Ids that are paths, devices, patterns or case variants somewhere; each is its own session.
GOOD_IDS = (
    *("../../x", "/abs", "a/../b", "..", ".", "a\\b", "C:x", "con", "NUL.txt", "a ", " a", "a."),
    *("a", "A", "a" * 255, "日" * 85, "é", "e\u0301", "%41", "a%", "*", "~", "-rf", "x.jsonl"),
    *("a" * 254 + "b", "a" * 254 + "B", "🔑", "\u202e", "_", "a_b", "a-b", "con.jsonl", "'\";--"),
)


class NameContract(ContractBase):
    """Which ids, types and envelopes are kept exactly, and which are refused."""

    def test_headers_of_any_shape(self, store: EventStore) -> None:
        """
        Any header that is accepted comes back equal, from heads and from snapshots.
        """

        @quick
        @given(headers())
        def check(header: SessionHeader) -> None:
            store.delete(header.id, forget=True)
            store.append(header, [note(0)])
            head = store.head(header.id)
            assert head is not None
            assert header == head.header == store.snapshot(header.id).header
            assert header in [listed.header for listed in walk_heads(store)]

        check()

    @pytest.mark.parametrize("name", BAD_IDS)
    def test_e7_ids_that_are_refused(self, store: EventStore, root: Path, name: str) -> None:
        """
        An id that some medium could not hold is refused for all of them, before a write.
        """
        bad = BAD_IDS[name]
        with pytest.raises(ValueRejected) as caught:
            store.append(SessionHeader(bad, 0), [note(0)])
        assert "id" == caught.value.path
        for call in (store.head, store.snapshot, store.children, store.delete):
            with pytest.raises(ValueRejected):
                call(bad)
        assert [] == walk_heads(store)
        assert not root.exists()

    def test_i3_ids_that_are_kept(self, store: EventStore, root: Path) -> None:
        """
        Ids that look like paths, devices or each other are each a session of their own.

        A session id was used in a path, and wrote outside the store.
        """
        before = everything_in(root.parent) - {root}
        for number, session_id in enumerate(GOOD_IDS):
            store.append(make_header(session_id), [note(0, {"n": number})])
        for session_id in GOOD_IDS:
            store.append(make_header(session_id), [note(1)])

        assert sorted(GOOD_IDS) == [head.header.id for head in walk_heads(store, limit=7)]
        for number, session_id in enumerate(GOOD_IDS):
            assert [note(0, {"n": number}), note(1)] == read_all(store, session_id)
        outside = {path for path in everything_in(root.parent) if root not in path.parents}
        assert before == outside - {root}

    @pytest.mark.parametrize(
        "bad",
        ["", "a\nb", "a b", "x" * 10_000, "session", "text-chunks", "a\x00", None, 5],
        ids=repr,
    )
    def test_x10_types_that_are_refused(self, store: EventStore, bad: Any) -> None:
        """
        A type that is empty, too long, has spaces or is a tag of the format is refused.
        """
        with pytest.raises(ValueRejected) as caught:
            store.append(make_header(), [Event(0, 0, bad, {})])

        assert "type" == caught.value.path
        assert store.head("s1") is None

    def test_x10_types_that_are_kept(self, store: EventStore) -> None:
        """
        Any other type, known or not, is stored and served as it is.
        """
        types = ["x", "a.b/c:d", "__proto__", "日本", "x" * 128, "Session", "üñ🔑", "%s", "a,b"]
        events = [Event(seq, 0, name, {}) for seq, name in enumerate(types)]
        store.append(make_header(), events)

        assert types == [event.type for event in read_all(store, "s1")]

    @pytest.mark.parametrize(
        "fields",
        [
            {"seq": -1},
            {"seq": True},
            {"seq": 1.0},
            {"seq": "1"},
            {"seq": 2**53},
            {"time": True},
            {"time": 1.5},
            {"time": 2**53},
            {"time": -(2**53)},
            {"ignorable": 1},
            {"surface_op": "append"},
            {"source_event_seqs": "0"},
            {"source_event_seqs": [True]},
            {"source_event_seqs": [-1]},
        ],
        ids=repr,
    )
    def test_envelopes_that_are_refused(self, store: EventStore, fields: dict[str, Any]) -> None:
        """
        A seq, time, flag, op or source of another kind or range is refused.
        """
        facts: dict[str, Any] = {"seq": 0, "time": 0, "type": "x/note", "data": {}, **fields}
        with pytest.raises((ValueRejected, InvalidSurface)):
            store.append(make_header(), [Event(**facts)])

        assert store.head("s1") is None

    def test_envelopes_come_back_exactly(self, store: EventStore) -> None:
        """
        The extremes of time, flags, ops and sources are read as they were given.
        """
        events = [
            Event(0, 2**53 - 1, "x/a", {}, ignorable=True),
            Event(1, -(2**53) + 1, "x/b", {}, surface_op=APPEND, source_event_seqs=[0]),
            Event(2, 0, "x/c", {}, source_event_seqs=[1, 0]),
        ]
        store.append(make_header(), events)

        assert events == read_all(store, "s1")
        assert [(), (0,), (1, 0)] == [
            event.source_event_seqs or () for event in read_all(store, "s1")
        ]


def everything_in(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))
