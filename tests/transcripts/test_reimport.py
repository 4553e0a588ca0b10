"""Importing a source again after it changed, by a source made for it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog import EventStore, fold_surface, open_store
from eventlog.importing import ImportAccount, Outcome, import_transcripts
from eventlog.importing.logs import MARK
from support.example_source import ExampleSource, surface_messages

# How much more thorough than in the default run.
THOROUGH = int(os.environ.get("EVENTLOG_THOROUGH", "1"))

Record = dict[str, Any]


def imported(store: EventStore, path: Path, records: list[Record]) -> ImportAccount:
    path.write_text(json.dumps(records))
    account = import_transcripts(store, ExampleSource(), [path])
    assert account.adds_up
    assert [] == account.refused, account.refused
    return account


def user(key: str, text: str = "") -> Record:
    return {"key": key, "kind": "user", "text": text or key}


def origins(store: EventStore) -> set[tuple[str, str]]:
    """Which records, in which form, have an event."""
    snapshot = store.snapshot("s")
    return {
        (data["origin"]["key"], data["origin"]["digest"])
        for event in snapshot.read(0, snapshot.length)
        if event.type != MARK and "origin" in (data := event.data)
    }


keys = st.sampled_from([f"k{number}" for number in range(12)])
kinds = st.sampled_from(["user", "assistant", "result", "note", "compact", "cut", "clear"])
records = st.builds(
    lambda key, kind, text, n: {"key": key, "kind": kind, "text": text, "n": n},
    keys,
    kinds,
    st.sampled_from(["a", "b", "c"]),
    st.integers(0, 6),
)
versions = st.lists(records, max_size=12, unique_by=lambda record: record["key"])


@settings(max_examples=60 * THOROUGH, deadline=None)
@given(st.lists(versions, min_size=2, max_size=5))
def test_any_history_of_a_source_ends_in_the_surface_of_its_last_state(
    history: list[list[Record]],
) -> None:
    """
    Whatever a tool does to its file between imports, the surface is that of one import
    of the last state, every record of it has an event, and nothing stored was rewritten.
    """
    with (
        TemporaryDirectory() as folder,
        open_store("memory:") as store,
        open_store("memory:") as once,
    ):
        path = Path(folder, "s.json")
        before: list[Any] = []
        for version in history:
            imported(store, path, version)
            if store.head("s") is not None:
                log = store.snapshot("s")
                events = log.read(0, log.length)
                assert before == events[: len(before)]
                assert fold_surface(events).nodes == log.nodes()
                before = events
        if store.head("s") is None:
            return
        imported(once, path, history[-1])
        if once.head("s") is not None:
            assert surface_messages(once, "s") == surface_messages(store, "s")
            if not any(record["kind"] in ("cut", "clear") for record in history[-1]):
                assert origins(once) <= origins(store)
        else:
            assert [] == surface_messages(store, "s")
        again = imported(store, path, history[-1])
        assert (1, 0) == (again.same, again.events)


def test_a_changed_message_takes_its_own_place(tmp_path: Path) -> None:
    """One message in the middle changed: one replacement, and the rest stays."""
    with open_store("memory:") as store:
        imported(store, tmp_path / "s.json", [user("a"), user("b"), user("c")])
        account = imported(store, tmp_path / "s.json", [user("a"), user("b", "new"), user("c")])
        log = store.snapshot("s")

        assert [0, 4, 2] == log.nodes()
        assert {1: 4} == log.replaced_by(0, log.length)
        assert (Outcome.GROWN, 1) == (account.sessions[0].outcome, account.sessions[0].rewritten)


def test_a_message_taken_back_leaves_a_gap(tmp_path: Path) -> None:
    """One message in the middle is gone: a node without a message stands for it."""
    with open_store("memory:") as store:
        imported(store, tmp_path / "s.json", [user("a"), user("b"), user("c")])
        imported(store, tmp_path / "s.json", [user("a"), user("c")])
        log = store.snapshot("s")

        assert [0, 4, 2] == log.nodes()
        assert "import/dropped" == log.read(4, 5)[0].type


def test_a_message_put_between_moves_what_follows(tmp_path: Path) -> None:
    """Nothing can be put between two nodes, so the newcomer and what follows come anew."""
    with open_store("memory:") as store:
        imported(store, tmp_path / "s.json", [user("a"), user("c"), user("d")])
        imported(store, tmp_path / "s.json", [user("a"), user("b"), user("c"), user("d")])

        texts = [content[0]["text"] for _, _, content in surface_messages(store, "s")]
        assert ["a", "b", "c", "d"] == texts
        assert [0, 4, 5, 6] == store.snapshot("s").nodes()


def test_a_changed_tool_result_is_kept_whole_and_gives_its_content(tmp_path: Path) -> None:
    """Only the content of a result may change on the surface; the rest is beside it."""
    result = {"key": "r", "kind": "result", "text": "old"}
    with open_store("memory:") as store:
        imported(store, tmp_path / "s.json", [user("a"), result, user("b")])
        imported(store, tmp_path / "s.json", [user("a"), {**result, "text": "new"}, user("b")])
        log = store.snapshot("s")
        events = log.read(0, log.length)

        assert ["import/revised", "tool/result"] == [event.type for event in events[4:6]]
        assert [0, 5, 2] == log.nodes()
        assert "new" == surface_messages(store, "s")[1][2][0]["content"][0]["text"]
        assert [1, 4] == list(events[5].source_event_seqs or ())
