"""
Every step of every change goes wrong in turn: only the legal states occur.

A step is a write, a sync, a truncation, a rename, a link, an unlink, a new folder. It
fails, falls short, or is where the process dies.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from eventlog import LiveSessions, Recorder
from eventlog.codec import encode_line
from eventlog.drivers.jsonl import JsonlStore
from eventlog.drivers.lmdb import LmdbStore
from eventlog.errors import EventLogError, SessionDeleted, StoreUnavailable
from eventlog.testing.faults import Fault, StepFaults, each_step
from eventlog.testing.preloading import build_shim, compiler, run_with_fault
from support import log_only, make_header, message, messages
from support.damage import DAMAGED, HEADER
from support.jsonl import files_in, plant

FAULTS: tuple[Fault, ...] = ("fail", "short", "die")
CODES = {"fail": errno.ENOSPC, "short": errno.ENOSPC, "die": 0}

BATCH = messages(3, start=10)
OPEN_TURN = [
    log_only(0, "turn/start", data={"turn": 1}),
    message(1),
    log_only(2, "step/start", data={"turn": 1, "step": 1}),
]


def stored(root: Path) -> list[int]:
    """The seqs of the session, each event proven to be what was sent."""
    with JsonlStore(root) as store:
        head = store.head("s1")
        if head is None:
            return []
        events = store.snapshot("s1").read(0, head.length)
        assert messages(head.length) == events
        return [event.seq for event in events]


def check_sound(root: Path, kinds: set[str]) -> None:
    """What verifying finds is of *kinds*; after a repair it is nothing."""
    with JsonlStore(root) as store:
        assert {finding.kind for finding in store.verify()} <= kinds
        store.repair(dry_run=False)
        assert [] == list(store.verify())


def ten_messages(root: Path) -> None:
    with JsonlStore(root) as store:
        store.append(make_header(), messages(10))


@pytest.mark.parametrize("fault", FAULTS)
def test_each_step_of_an_append(tmp_path: Path, fault: Fault) -> None:
    """
    An append that raised has stored nothing; one that died has stored a prefix of whole
    events; the retry completes either.
    """

    def check(root: Path, done: bool) -> None:
        length = len(stored(root))
        assert length == 13 if done else length == 10 if fault != "die" else 10 <= length <= 13
        with JsonlStore(root) as store:
            assert 13 == store.append(make_header(), BATCH)
        assert 13 == len(stored(root))
        check_sound(root, set())

    steps = each_step(
        lambda root: plant_torn(root),
        lambda root: JsonlStore(root).append(make_header(), BATCH),
        check,
        tmp_path,
        fault=fault,
        code=CODES[fault],
    )
    assert {"write", "fdatasync", "ftruncate", "fsync"} <= set(steps)


def plant_torn(root: Path) -> None:
    """Ten messages and a torn one, so that an append has to cut first."""
    ten_messages(root)
    with (root / "s1.jsonl").open("ab") as file:
        file.write(encode_line(message(10))[:40])


@pytest.mark.parametrize("fault", FAULTS)
def test_each_step_of_a_creation(tmp_path: Path, fault: Fault) -> None:
    """A session whose first append went wrong is there whole, or not at all."""

    def check(root: Path, done: bool) -> None:
        length = len(stored(root))
        assert length == 2 if done else length == 0 if fault != "die" else length in (0, 2)
        with JsonlStore(root) as store:
            assert 2 == store.append(make_header(), messages(2))
        check_sound(root, {"leftover"})

    each_step(
        lambda root: None,
        lambda root: JsonlStore(root).append(make_header(), messages(2)),
        check,
        tmp_path,
        fault=fault,
        code=CODES[fault],
    )


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", ["a1-torn", "a2-fused"])
def test_each_step_of_a_repair(tmp_path: Path, fault: Fault, name: str) -> None:
    """
    A repair that went wrong has mended the log, or left it; the old bytes are always there,
    and the next repair ends well.
    """
    data = DAMAGED[name]

    def prepare(root: Path) -> None:
        plant(root, data)

    def check(root: Path, done: bool) -> None:
        files = files_in(root)
        log = files.pop("s1.jsonl")
        kept = b"\n".join(files.values())
        assert log == data or data in (kept, log + kept.removesuffix(b"\n")) or data in kept
        with JsonlStore(root) as store:
            store.repair(dry_run=False)
            assert [] == list(store.verify())
            length = store.snapshot("s1").length
            events = store.snapshot("s1").read(0, length)
            assert list(range(length)) == [event.seq for event in events]

    steps = each_step(
        prepare,
        lambda root: JsonlStore(root).repair(dry_run=False),
        check,
        tmp_path,
        fault=fault,
        code=CODES[fault],
    )
    assert ("rename" if name == "a2-fused" else "ftruncate") in steps


@pytest.mark.parametrize("fault", FAULTS)
def test_each_step_of_an_archive(tmp_path: Path, fault: Fault) -> None:
    """A session whose archiving went wrong is read as before; the next one ends well."""

    def check(root: Path, done: bool) -> None:
        assert list(range(10)) == stored(root)
        with JsonlStore(root) as store:
            assert store.archive("s1")
        assert list(range(10)) == stored(root)
        check_sound(root, {"leftover"})
        assert list(range(10)) == stored(root)

    each_step(
        ten_messages,
        lambda root: JsonlStore(root).archive("s1"),
        check,
        tmp_path,
        fault=fault,
        code=CODES[fault],
    )


@pytest.mark.parametrize("fault", FAULTS)
def test_each_step_of_an_append_to_an_archive(tmp_path: Path, fault: Fault) -> None:
    """An archived session whose append went wrong has it, or is as it was."""

    def prepare(root: Path) -> None:
        ten_messages(root)
        with JsonlStore(root) as store:
            store.archive("s1")

    def check(root: Path, done: bool) -> None:
        length = len(stored(root))
        assert length == 13 if done else length == 10 if fault != "die" else length in (10, 13)
        with JsonlStore(root) as store:
            assert 13 == store.append(make_header(), BATCH)
        check_sound(root, {"leftover"})
        assert 13 == len(stored(root))

    each_step(
        prepare,
        lambda root: JsonlStore(root).append(make_header(), BATCH),
        check,
        tmp_path,
        fault=fault,
        code=CODES[fault],
    )


@pytest.mark.parametrize("fault", FAULTS)
def test_each_step_of_a_deletion(tmp_path: Path, fault: Fault) -> None:
    """
    A session whose deletion went wrong is whole, or is gone for good and never comes back
    with a late append; the next deletion takes away what is left.
    """

    def prepare(root: Path) -> None:
        plant_torn(root)
        JsonlStore(root).append(make_header(), [message(10)])

    def check(root: Path, done: bool) -> None:
        with JsonlStore(root) as store:
            if store.head("s1") is None:
                with pytest.raises(SessionDeleted):
                    store.append(make_header(), [message(11)])
            else:
                assert not done
                assert list(range(11)) == stored(root)
            store.delete("s1")
            assert store.head("s1") is None
        assert ["s1.deleted"] == list(files_in(root))

    each_step(
        prepare,
        lambda root: JsonlStore(root).delete("s1"),
        check,
        tmp_path,
        fault=fault,
        code=CODES[fault],
    )


@pytest.mark.parametrize("fault", FAULTS)
def test_each_step_of_a_resume(tmp_path: Path, fault: Fault) -> None:
    """
    A session whose resuming went wrong is resumed by the next one, and closed exactly once.
    """

    def prepare(root: Path) -> None:
        plant(root, HEADER + b"".join(map(encode_line, OPEN_TURN)))

    def resume(root: Path) -> None:
        with JsonlStore(root) as store:
            recorder = Recorder(LiveSessions(), store)
            recorder.resume("s1")
            recorder.close()

    def check(root: Path, done: bool) -> None:
        resume(root)
        with JsonlStore(root) as store:
            types = [event.type for event in store.snapshot("s1").read(0, 99)]
        assert ["turn/start", "user/message", "step/start", "step/end", "turn/end"] == types
        check_sound(root, set())

    each_step(prepare, resume, check, tmp_path, fault=fault, code=CODES[fault])


def test_lines_that_cannot_be_taken_back(tmp_path: Path) -> None:
    """
    Where the write, and then the cutting back of it, fails, the error says that lines may
    stay; no reader sees half of one, and the next writer goes on where the log ends.
    """
    ten_messages(tmp_path)
    store = JsonlStore(tmp_path)
    faults = StepFaults(tmp_path, 2, "fail", errno.ENOSPC, times=9)
    with faults.active(), pytest.raises(StoreUnavailable) as caught:
        store.append(make_header(), BATCH)
    assert ["write", "fdatasync", "ftruncate"] == faults.taken
    assert "may stay behind" in caught.value.detail
    assert 13 == JsonlStore(tmp_path).append(make_header(), BATCH)
    assert 13 == len(stored(tmp_path))


def test_eio_from_a_sync_refuses_writes_until_reopened(tmp_path: Path) -> None:
    """
    A sync that failed with an input or output error may have dropped what it was to keep, and
    says so once. The store refuses to write until it is opened anew; reads go on.
    """
    ten_messages(tmp_path)
    store = JsonlStore(tmp_path)
    with StepFaults(tmp_path, 2).active() as faults, pytest.raises(StoreUnavailable):
        store.append(make_header(), BATCH)
    assert "fdatasync" == faults.taken[1]
    writes: list[Callable[[], object]] = [
        lambda: store.append(make_header(), BATCH),
        lambda: store.append(make_header("s2"), messages(1)),
        lambda: store.delete("s1"),
    ]
    for write in writes:
        with pytest.raises(StoreUnavailable):
            write()
    assert messages(10) == store.snapshot("s1").read(0, 99)
    assert 13 == JsonlStore(tmp_path).append(make_header(), BATCH)


def test_a_log_replaced_under_an_open_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A tool put another file in the place of a log. An append that was on its way into the old
    file is not acknowledged; the next one is judged by the log that is there now.
    """
    ten_messages(tmp_path)
    path = tmp_path / "s1.jsonl"
    store = JsonlStore(tmp_path)
    store.snapshot("s1")
    real = os.fdatasync

    def replacing(fd: int) -> None:
        real(fd)
        monkeypatch.undo()
        (tmp_path / "copy").write_bytes(HEADER + b"".join(map(encode_line, messages(4))))
        os.rename(tmp_path / "copy", path)

    monkeypatch.setattr(os, "fdatasync", replacing)
    with pytest.raises(StoreUnavailable) as caught:
        store.append(make_header(), BATCH)
    assert "replaced" in caught.value.detail
    assert messages(4) == store.snapshot("s1").read(0, 99)
    with pytest.raises(EventLogError):
        store.append(make_header(), BATCH)
    assert 5 == store.append(make_header(), [message(4)])


# LMDB writes in C: its steps fail by a shim.

APPENDING = """
import sys
from eventlog.drivers.lmdb import LmdbStore
from eventlog.errors import StoreUnavailable, StoreFull
from support import make_header, messages

store = LmdbStore(sys.argv[1])
try:
    store.append(make_header(), messages(3, start=10))
except StoreUnavailable as error:
    try:
        store.append(make_header(), messages(3, start=10))
    except StoreUnavailable:
        print("refused")
        store.close()
        store = LmdbStore(sys.argv[1])
        assert messages(10) == store.snapshot("s1").read(0, 99)
        sys.exit(3)
except StoreFull:
    sys.exit(4)
"""
DELETING = """
import sys
from eventlog.drivers.lmdb import LmdbStore

LmdbStore(sys.argv[1]).delete("s1")
"""
REPAIRING = """
import sys
from eventlog.drivers.lmdb import LmdbStore

LmdbStore(sys.argv[1]).repair(dry_run=False)
"""


def lmdb_steps(
    tmp_path: Path,
    program: str,
    kind: str,
    check: Callable[[Path, int], None],
    *,
    damaged: bool = False,
) -> int:
    """Let each step of *program* go wrong; returns how many there are."""
    from support.lmdb_files import raw

    shim = build_shim(tmp_path)
    template = tmp_path / "template"
    with LmdbStore(template) as store:
        store.append(make_header(), messages(10))
    if damaged:
        with raw(template) as (transaction, database):
            cursor = transaction.cursor(database("rows"))
            assert cursor.first()
            cursor.delete()
    environ = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[1])}
    for at in range(1, 60):
        place = tmp_path / f"{kind}-{at}"
        shutil.copytree(template, place)
        done, steps = run_with_fault(
            shim,
            [sys.executable, "-c", program, str(place)],
            word=f"{place.name}/data.mdb",
            at=at,
            kind=kind,
            count=tmp_path / "count",
            environ=environ,
        )
        assert "Traceback" not in done.stderr or "StoreUnavailable" in done.stderr, done.stderr
        check(place, done.returncode)
        if steps < at:
            assert 0 == done.returncode
            return at - 1
    raise AssertionError("more steps than expected")


def check_lmdb_append(place: Path, code: int) -> None:
    """All of the batch is there or nothing; the store is sound, and takes the retry."""
    with LmdbStore(place) as store:
        length = store.snapshot("s1").length
        assert length == 13 if code == 0 else length in (10, 13)
        assert messages(length) == store.snapshot("s1").read(0, 99)
        assert [] == list(store.verify())
        assert 13 == store.append(make_header(), BATCH)


needs_compiler = pytest.mark.skipif(compiler() is None, reason="needs a C compiler on Linux")


@needs_compiler
def test_each_step_of_an_lmdb_append(tmp_path: Path) -> None:
    """
    Each write and sync of a commit fails in turn. The append raises, the store refuses writes
    until it is opened anew, and then holds all of the batch or nothing.
    """
    codes = []

    def check(place: Path, code: int) -> None:
        codes.append(code)
        check_lmdb_append(place, code)

    assert lmdb_steps(tmp_path, APPENDING, "fail", check) >= 2
    assert 3 in codes


@needs_compiler
@pytest.mark.long
@pytest.mark.parametrize("kind", ["short", "die"])
def test_each_step_of_an_lmdb_append_falls_short_or_is_the_last(tmp_path: Path, kind: str) -> None:
    """A commit whose write fell short, or whose process died in it, is all there or not."""
    assert lmdb_steps(tmp_path, APPENDING, kind, check_lmdb_append) >= 2


@needs_compiler
@pytest.mark.long
@pytest.mark.parametrize("kind", ["fail", "die"])
def test_each_step_of_an_lmdb_deletion(tmp_path: Path, kind: str) -> None:
    """A session whose deletion went wrong is whole or gone; the next one takes it away."""

    def check(place: Path, code: int) -> None:
        with LmdbStore(place) as store:
            if store.head("s1") is None:
                with pytest.raises(SessionDeleted):
                    store.append(make_header(), BATCH)
            else:
                assert messages(10) == store.snapshot("s1").read(0, 99)
            assert [] == list(store.verify())
            store.delete("s1")
            assert store.head("s1") is None

    assert lmdb_steps(tmp_path, DELETING, kind, check) >= 2


@needs_compiler
@pytest.mark.long
@pytest.mark.parametrize("kind", ["fail", "die"])
def test_each_step_of_an_lmdb_repair(tmp_path: Path, kind: str) -> None:
    """A repair that went wrong has mended all or nothing; the next one ends well."""

    def check(place: Path, code: int) -> None:
        with LmdbStore(place) as store:
            assert messages(10) == store.snapshot("s1").read(0, 99)
            store.repair(dry_run=False)
            assert [] == list(store.verify())

    assert lmdb_steps(tmp_path, REPAIRING, kind, check, damaged=True) >= 2
