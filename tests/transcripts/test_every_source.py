"""What holds for every tool: nothing is lost, nothing comes twice, nothing is rewritten."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog import Event, EventStore, SessionHeader, open_store
from eventlog.drivers.memory import MemoryStore
from eventlog.importing import logs
from eventlog.vocabulary import DEFAULT_VOCABULARY
from support.samples import SAMPLES, Sample
from support.transcripts import imported, messages_of, places_of, whole_log

# How much more thorough than in the default run.
THOROUGH = int(os.environ.get("EVENTLOG_THOROUGH", "1"))
MAPPED = [sample for sample in SAMPLES if sample.tool != "dsh"]


def sessions_of(store: EventStore) -> list[str]:
    return sorted(head.header.id for head in store.heads(limit=1000).items)


def shown(store: EventStore) -> dict[str, object]:
    """What the model sees of every session."""
    return {session_id: messages_of(store, session_id) for session_id in sessions_of(store)}


def expected_places(sample: Sample) -> set[object]:
    """The place of each record of a sample, as its origin names it."""
    records = sample.records()
    if sample.kind == "lines":
        return {number for number, line in enumerate(records, 1) if line.strip()}
    if sample.kind == "folder":
        return {"base_state.json", *(f"events/{path.name}" for path in records)}
    if sample.kind == "rows":
        return {f"{row['table']}/{row['row']['id']}" for row in records}
    prefix = f"{sample.key}/" if sample.key else ""
    places: set[object] = {f"{prefix}{number}" for number in range(len(records))}
    return places | ({"/"} if sample.tool == "gemini-cli" else set())


@pytest.mark.parametrize("url", ["lmdb:{}/store", "jsonl:{}/store"])
@pytest.mark.parametrize("sample", MAPPED, ids=str)
def test_every_record_is_found_again_from_its_event(
    sample: Sample, url: str, tmp_path: Path
) -> None:
    """Imported into either store, every record has an event that names its place."""
    with open_store(url.format(tmp_path)) as store:
        account = imported(store, sample.tool, sample.whole(tmp_path))
        places = places_of(store)
        stored = sum(head.length for head in store.heads().items)

    assert expected_places(sample) == places
    assert len(places) == account.records.found
    assert stored == account.events


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_importing_twice_adds_nothing(sample: Sample, tmp_path: Path) -> None:
    """A second import finds every session the same, and every record again."""
    path = sample.whole(tmp_path)
    with open_store("memory:") as store:
        first = imported(store, sample.tool, path)
        before = {session: whole_log(store, session) for session in sessions_of(store)}
        second = imported(store, sample.tool, path)
        after = {session: whole_log(store, session) for session in sessions_of(store)}

    assert first.found == first.new == second.found == second.same
    assert (0, before) == (second.events, after)
    assert (first.records.found, first.records.mapped, first.records.kept) == (
        second.records.found,
        second.records.mapped,
        second.records.kept,
    )


@pytest.mark.parametrize("sample", MAPPED, ids=str)
def test_a_part_and_then_the_whole_end_like_the_whole_at_once(
    sample: Sample, tmp_path: Path
) -> None:
    """
    Wherever the first import ends, the second gives the same sessions, messages and
    records as one import of everything; what was stored before stays as it was.
    """
    records = sample.records()
    whole = sample.whole(tmp_path / "whole")
    with open_store("memory:") as once:
        imported(once, sample.tool, whole)
        expected, places = shown(once), places_of(once)
    for count in range(1, len(records), max(1, len(records) // (12 * THOROUGH))):
        with open_store("memory:") as store:
            path = sample.write(tmp_path / "growing", records[:count])
            # The first lines of a file may not name a session yet.
            imported(store, sample.tool, path, refused=True)
            before = {session: whole_log(store, session) for session in sessions_of(store)}
            sample.write(tmp_path / "growing", records)
            imported(store, sample.tool, path)
            for session, events in before.items():
                assert events == whole_log(store, session)[: len(events)]
            assert expected == shown(store), count
            assert places == places_of(store), count
            assert 0 == imported(store, sample.tool, path).events


@pytest.mark.parametrize("sample", MAPPED, ids=str)
def test_growing_record_by_record_ends_like_the_whole_at_once(
    sample: Sample, tmp_path: Path
) -> None:
    """An import after every record ends with the messages of one import of everything."""
    records = sample.records()
    with open_store("memory:") as once:
        imported(once, sample.tool, sample.whole(tmp_path / "whole"))
        expected = shown(once)
    with open_store("memory:") as store:
        for count in range(1, len(records) + 1, max(1, len(records) // (8 * THOROUGH))):
            path = sample.write(tmp_path / "growing", records[:count])
            imported(store, sample.tool, path, refused=True)
        imported(store, sample.tool, sample.write(tmp_path / "growing", records))
        assert expected == shown(store)


class Killed(BaseException):
    """What no import catches."""


class KillingStore(MemoryStore):
    """A store in whose n-th append the process ends, before or after it is durable."""

    def __init__(self, inner: MemoryStore, survives: int, *, durable: bool) -> None:
        super().__init__()
        self.__dict__.update(inner.__dict__)
        self.survives = survives
        self.durable = durable

    def append(self, header: SessionHeader, events: list[Event]) -> int:  # type: ignore[override]
        self.survives -= 1
        if self.survives < 0:
            if self.durable:
                super().append(header, events)
            raise Killed
        return super().append(header, events)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Batches so small that there are many points between them."""
    monkeypatch.setattr(logs, "BATCH_EVENTS_MAX", 2)
    return iter(())


ONE_OF_EACH_TOOL = list({sample.tool: sample for sample in SAMPLES}.values())


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("sample", SAMPLES if THOROUGH > 1 else ONE_OF_EACH_TOOL, ids=str)
def test_killed_at_any_point_the_next_run_ends_equal(sample: Sample, tmp_path: Path) -> None:
    """
    Killed in each of the first 20 appends, before or after it became durable, of a first
    import and of one of a grown file: the next run leaves the log of a run in peace.
    """
    records = sample.records()
    path = sample.whole(tmp_path / "whole")
    with open_store("memory:") as once:
        imported(once, sample.tool, path)
        logs_once = {session: whole_log(once, session) for session in sessions_of(once)}
        expected = shown(once)
    for point in range(20):
        store = MemoryStore()
        killing = KillingStore(store, point // 2, durable=bool(point % 2))
        try:
            imported(killing, sample.tool, path)
        except Killed:
            imported(store, sample.tool, path)
        else:
            store.__dict__.update(killing.__dict__)
        assert logs_once == {session: whole_log(store, session) for session in sessions_of(store)}
    half = records[: len(records) // 2]
    if sample.tool == "dsh" or not half:
        return
    for point in range(20):
        store = MemoryStore()
        growing = sample.write(tmp_path / "growing", half)
        imported(store, sample.tool, growing)
        sample.write(tmp_path / "growing", records)
        try:
            imported(KillingStore(store, point // 2, durable=bool(point % 2)), sample.tool, growing)
        except Killed:
            imported(store, sample.tool, growing)
        assert expected == shown(store), point


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_the_source_is_never_touched(sample: Sample, tmp_path: Path) -> None:
    """Files, their contents and their times are after an import as they were before."""
    path = sample.whole(tmp_path / "source")

    def state() -> dict[str, tuple[int, bytes]]:
        files = [file for file in sorted((tmp_path / "source").rglob("*")) if file.is_file()]
        return {str(file): (file.stat().st_mtime_ns, file.read_bytes()) for file in files}

    before = state()
    with open_store("memory:") as store:
        imported(store, sample.tool, path)
    assert before == state()


def test_an_import_needs_no_vocabulary_to_be_resumed(tmp_path: Path) -> None:
    """Every event of a type that a harness may not know is one that it may ignore."""
    for number, sample in enumerate(MAPPED):
        with open_store("memory:") as store:
            imported(store, sample.tool, sample.whole(tmp_path / str(number)))
            for session in sessions_of(store):
                for event in whole_log(store, session):
                    assert event.ignorable is not DEFAULT_VOCABULARY.knows(event.type)
