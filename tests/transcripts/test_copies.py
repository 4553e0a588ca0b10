"""Several files of one session, in one import and in later ones."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from eventlog import EventStore, open_store
from eventlog.importing import Outcome
from support.samples import SAMPLES, Sample
from support.transcripts import imported, messages_of, places_of, whole_log

APPENDING = [sample for sample in SAMPLES if sample.kind in ("lines", "folder")]
LINES = [sample for sample in APPENDING if sample.kind == "lines"]


def shown(store: EventStore) -> dict[str, Any]:
    """What the model sees of every session."""
    heads = store.heads(limit=1000).items
    return {head.header.id: messages_of(store, head.header.id) for head in heads}


def note(uuid: str) -> bytes:
    return b'{"type":"note","uuid":"%s","sessionId":"s"}\n' % uuid.encode()


def files(folder: Path, *contents: list[bytes]) -> list[Path]:
    """Files of one session, of which each line is a note."""
    paths = []
    for number, content in enumerate(contents):
        path = folder / str(number) / "s.jsonl"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"".join(content))
        paths.append(path)
    return paths


def notes(store: EventStore) -> list[str]:
    """The names of the notes that are stored, in order."""
    events = whole_log(store, "s")
    return [e.data["origin"]["key"] for e in events if e.type == "claude-code/note"]


@pytest.mark.parametrize("sample", APPENDING, ids=str)
def test_h8_of_two_copies_the_longer_is_stored(sample: Sample, tmp_path: Path) -> None:
    """
    A copy that was made earlier in another folder, cut at any record: whichever is found
    first, the store ends with all of the longer one, which counts once, and a second run
    adds nothing. The first by path was stored, and the other refused whole.
    """
    records = sample.records()
    with open_store("memory:") as once:
        imported(once, sample.tool, sample.whole(tmp_path / "once"))
        expected, places = shown(once), places_of(once)
    for count in range(1, len(records) + 1, max(1, len(records) // 10)):
        folder = tmp_path / str(count)
        short = sample.write(folder / "a", records[:count])
        whole = sample.write(folder / "b", records)
        for paths in permutations((short, whole)):
            with open_store("memory:") as store:
                # The first lines of a file may not name a session yet.
                account = imported(store, sample.tool, *paths, refused=True)
                assert expected == shown(store), count
                assert places == places_of(store), count
                own = next(s for s in account.sessions if s.session_id in expected)
                assert Outcome.NEW is own.outcome
                again = imported(store, sample.tool, *paths, refused=True)
                assert (0, account.found) == (again.events, again.found)


@pytest.mark.parametrize("sample", LINES, ids=str)
def test_h8_a_copy_that_ends_inside_a_record(sample: Sample, tmp_path: Path) -> None:
    """A copy that was made while the tool wrote a line: the rest of it is in the other."""
    text = sample.path.read_bytes()
    with open_store("memory:") as once:
        imported(once, sample.tool, sample.whole(tmp_path / "once"))
        expected = shown(once)
    for number, size in enumerate(range(len(text) // 2, len(text), len(text) // 8 + 1)):
        short = sample.write(tmp_path / f"a{number}", [text[:size]])
        whole = sample.write(tmp_path / f"b{number}", [text])
        for paths in permutations((short, whole)):
            with open_store("memory:") as store:
                imported(store, sample.tool, *paths, refused=True)
                assert expected == shown(store), size


@pytest.mark.parametrize("sample", LINES, ids=str)
def test_h8_every_record_of_a_copy_that_differs_is_refused(sample: Sample, tmp_path: Path) -> None:
    """
    Two copies of which each has a line that the other lacks: the first by path stays, the
    refusal of the second names both, and the account says of no record of it that it is in
    the store.
    """
    records = sample.records()
    ends = [[*records[:-1], b'{"type":"own","data":{"n":%d}}\n' % number] for number in range(2)]
    paths = [sample.write(tmp_path / str(number), end) for number, end in enumerate(ends)]
    with open_store("memory:") as store:
        first = imported(store, sample.tool, paths[0])
        before = shown(store)
        both = imported(store, sample.tool, tmp_path, refused=True)
        assert before == shown(store)

    assert "duplicate" in {refused.kind for refused in both.refused}
    assert str(paths[1]) == both.refused[0].path
    assert str(paths[0]) in both.refused[0].reason
    assert first.records.found == both.records.refused
    assert first.records.mapped + first.records.kept == both.records.mapped + both.records.kept


def test_a_third_copy_is_compared_with_the_longest(tmp_path: Path) -> None:
    """
    One copy goes on with the first, and another one does so in another way: whatever their
    order, one of the two is stored, the other refused, and nothing of a stored one is
    taken back.
    """
    common = [note("u1"), note("u2")]
    contents = [common, [*common, note("u3")], [*common, note("v3")]]
    for number, order in enumerate(permutations(contents)):
        paths = files(tmp_path / str(number), *order)
        with open_store("memory:") as store:
            account = imported(store, "claude-code", *paths, refused=True)
            kept = order[1] if order[0] is common else order[0]

            assert ["duplicate"] == [refused.kind for refused in account.refused]
            assert [json.loads(line)["uuid"] for line in kept] == notes(store)


def test_a_sound_copy_of_one_that_cannot_be_read(tmp_path: Path) -> None:
    """
    The first of two copies was refused for what it holds; the second was refused as a copy
    of it, and nothing of the session was stored.
    """
    header = b'{"type":"session","version":0,"id":"s","createdAt":1,"delegationDepth":0}\n'
    node = b'{"type":"user/message","seq":0,"time":1,"surfaceOp":%s,"data":{}}\n'
    paths = []
    for name, op in (("a", b'{"op":"replace","start":5,"end":5}'), ("b", b'"append"')):
        paths.append(tmp_path / name / "session.jsonl")
        paths[-1].parent.mkdir()
        paths[-1].write_bytes(header + node % op)
    with open_store("memory:") as store:
        account = imported(store, "dsh", tmp_path, refused=True)

        assert [("InvalidSurface", str(paths[0]))] == [(r.kind, r.path) for r in account.refused]
        assert 1 == len(whole_log(store, "s"))


@pytest.mark.parametrize("stays", [True, False])
def test_an_older_copy_of_a_file_that_grew_since_its_import(tmp_path: Path, stays: bool) -> None:
    """
    In a later run: a copy that begins the file which was imported, and has more of it than
    was imported then, is brought in as far as it goes, whether the file is there or not.
    """
    path, copy = files(tmp_path, [note("u1")], [note("u1"), note("u2")])
    with open_store("memory:") as store:
        imported(store, "claude-code", path)
        path.write_bytes(b"".join(map(note, ("u1", "u2", "u3"))))
        if not stays:
            path.unlink()
        assert 1 == imported(store, "claude-code", copy).grown
        assert ["u1", "u2"] == notes(store)


def test_two_snapshots_of_which_neither_has_more(tmp_path: Path) -> None:
    """
    Two files of a tool that rewrites its own, with one message in two forms: each import
    put the one in the place of the other, and the log grew by both every time. The second
    is refused; where only its time of last use is another, it is the same.
    """
    for last, kind in (("changed", ["duplicate"]), ("b", [])):
        for name, text in (("a", "b"), ("b", last)):
            folder = tmp_path / last / name
            folder.mkdir(parents=True)
            messages = [
                {"id": "m1", "type": "user", "content": "a"},
                {"id": "m2", "type": "gemini", "content": text},
            ]
            document = {"sessionId": "s", "lastUpdated": name, "messages": messages}
            (folder / "session-1.json").write_text(json.dumps(document))
        with open_store("memory:") as store:
            for _ in range(2):
                account = imported(store, "gemini-cli", tmp_path / last, refused=True)
                assert kind == [refused.kind for refused in account.refused]
            assert 0 == account.events
            assert [{"type": "text", "text": "b"}] == messages_of(store, "s")[1][2]


def test_a_log_in_both_encodings(tmp_path: Path) -> None:
    """Beside ``session.jsonl`` its compressed copy, one event longer, which was not looked at."""
    zstandard = pytest.importorskip("zstandard")
    header = b'{"type":"session","version":0,"id":"s","createdAt":1,"delegationDepth":0}\n'
    event = b'{"type":"turn/start","seq":%d,"time":1,"data":{"turn":1}}\n'
    (tmp_path / "session.jsonl").write_bytes(header + event % 0)
    whole = zstandard.compress(header + event % 0 + event % 1)
    (tmp_path / "session.jsonl.zstd").write_bytes(whole)
    with open_store("memory:") as store:
        account = imported(store, "dsh", tmp_path)

        assert (1, 2) == (account.new, account.events)
        assert 2 == len(whole_log(store, "s"))
