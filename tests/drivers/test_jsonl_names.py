"""File names: every id its own, on every file system, and none outside the folder."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.drivers.jsonl import JsonlStore
from eventlog.drivers.jsonl.names import STEM_CHARS_MAX, id_of, log_name, stem_of
from eventlog.errors import ValueRejected
from eventlog.values import check_session_id
from support import make_header, messages

UNSAFE_IDS = [
    "../../x",
    "/abs",
    "a/../b",
    "..",
    ".",
    "a\\b",
    "C:x",
    "con",
    "NUL.txt",
    "nul.txt",
    "a ",
    "a.",
    "a",
    "A",
    ".hidden",
    "a%2fb",
    "a/b",
    "a.jsonl",
    "a.deleted",
    "com1",
    "LPT9.log",
    "é",
    "e\u0301",
    "🔑" * 60,
    "x" * 255,
    "x" * 254 + "y",
    "日本" * 40,
]

ids = st.text(
    st.one_of(
        st.sampled_from("aAbB.%-_/\\: ~éÉßſıİ"),
        st.characters(exclude_categories=["Cs", "Cc"]),
    ),
    min_size=1,
    max_size=60,
).filter(lambda text: len(text.encode()) <= 255)


def folded(name: str) -> str:
    """What a file system that folds case and normalises makes of *name*, at its worst."""
    return unicodedata.normalize("NFKC", name).casefold()


@contextmanager
def opened_paths() -> Iterator[list[str]]:
    """Collect the path of every file that this process opens, renames, links or unlinks."""
    paths: list[str] = []
    active = True

    def hook(event: str, args: tuple[object, ...]) -> None:
        if active and event in ("open", "os.link", "os.rename", "os.remove", "os.mkdir"):
            paths.extend(os.fsdecode(arg) for arg in args[:2] if isinstance(arg, str | bytes))

    sys.addaudithook(hook)
    try:
        yield paths
    finally:
        active = False


@given(ids, ids)
def test_names_differ_where_ids_do(one: str, other: str) -> None:
    """Two ids share a name only if they are one, also where case and form are folded."""
    assert (one == other) == (folded(log_name(one)) == folded(log_name(other)))


@given(ids)
def test_names_are_plain(session_id: str) -> None:
    """A stem is short, of safe characters, never hidden, no device, and spells its id."""
    stem = stem_of(session_id)

    assert 1 <= len(stem) <= STEM_CHARS_MAX
    assert set(stem) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-%")
    assert not stem.startswith(".")
    assert stem.split(".")[0] not in {"con", "prn", "aux", "nul", "com1", "lpt1"}
    assert id_of(stem) == (None if "%-" in stem else session_id)


@given(st.text(st.sampled_from("abA%0123456789ef.-_"), min_size=1, max_size=12))
def test_names_of_no_id_spell_none(stem: str) -> None:
    """A stem spells an id only if it is that id's own stem."""
    session_id = id_of(stem)

    assert session_id is None or stem == stem_of(session_id)


@pytest.mark.parametrize("session_id", ["con", "nul.txt", "aux.", "com1.x.y", "lpt9"])
def test_devices_are_escaped(session_id: str) -> None:
    """The names of Windows devices are no name here, with any suffix."""
    assert f"%{ord(session_id[0]):02x}{session_id[1:]}.jsonl" == log_name(session_id)


def test_uuids_are_their_own_names() -> None:
    """The ids that most harnesses give are file names as they are."""
    session_id = "0198c6a1-2f6e-7c3b-9d51-4f3a0c9b7e21"

    assert f"{session_id}.jsonl" == log_name(session_id)


def test_i3_unsafe_ids_stay_in_the_folder(tmp_path: Path) -> None:
    """
    A session id used in a path wrote outside the store. Every id, however made, is a file
    of its own below the root, and listing gives back exactly that id.
    """
    root = tmp_path / "root"
    store = JsonlStore(root)
    with opened_paths() as paths:
        for number, session_id in enumerate(UNSAFE_IDS):
            store.append(make_header(session_id, created_at=number), messages(1 + number % 3))
        listed = [head.header.id for head in store.heads(limit=100).items]
        for number, session_id in enumerate(UNSAFE_IDS):
            assert 1 + number % 3 == len(store.snapshot(session_id).read(0, 9))
        for session_id in UNSAFE_IDS:
            assert store.delete(session_id)

    assert UNSAFE_IDS[::-1] == listed
    inside = [
        path for path in paths if not path.startswith(("/proc/", sys.prefix, sys.base_prefix))
    ]
    assert len(inside) > 5 * len(UNSAFE_IDS)
    for path in inside:
        real = os.path.realpath(path)
        assert real == str(tmp_path) or real == str(root) or os.path.dirname(real) == str(root)


@pytest.mark.parametrize("session_id", ["", "a\x00b", "a\nb", "x" * 256, "日" * 86])
def test_i3_impossible_ids_are_refused(tmp_path: Path, session_id: str) -> None:
    """What is no session id is refused before any path is made of it."""
    store = JsonlStore(tmp_path / "root")

    for call in (
        lambda: make_header(session_id),
        lambda: store.head(session_id),
        lambda: store.delete(session_id),
    ):
        with pytest.raises(ValueRejected):
            call()
    assert not (tmp_path / "root").exists()


def test_deleted_unsafe_ids_are_named_by_changes(tmp_path: Path) -> None:
    """A deletion is told with the exact id, also where the name holds only its digest."""
    store = JsonlStore(tmp_path)
    token = store.changes().token
    for session_id in UNSAFE_IDS:
        check_session_id(session_id)
        store.append(make_header(session_id), messages(1))
        store.delete(session_id)

    assert sorted(UNSAFE_IDS) == list(JsonlStore(tmp_path).changes(token).session_ids)
