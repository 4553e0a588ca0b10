"""Permissions, links, strays and replaced files: what may not be touched is named."""

from __future__ import annotations

import os
import pickle
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog import EventLogError, open_store
from eventlog.codec import encode_line
from eventlog.drivers.jsonl import JsonlStore
from eventlog.errors import (
    CorruptLog,
    InvalidArgument,
    SessionDeleted,
    SessionNotFound,
    StoreClosed,
    StoreReadOnly,
    StoreUnavailable,
)
from support import make_header, message, messages
from support.jsonl import files_in, in_child, log_bytes, plant
from support.processes import need_other_users

NOBODY = 65534


def as_nobody(work: Callable[[], Any]) -> Any:
    """What *work* returns in a process without the rights of root."""
    need_other_users()

    def child() -> Any:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        return work()

    return in_child(child)


def outcome(call: Callable[[], object]) -> object:
    """What *call* returns, or the class and path of the error it raises."""
    try:
        return call()
    except EventLogError as error:
        return type(error).__name__, getattr(error, "path", None)


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Path]:
    """A folder that every user may reach."""
    path = tmp_path / "shared"
    path.mkdir(mode=0o755)
    for parent in path.parents:
        if parent.stat().st_mode & 0o005 != 0o005 and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o011)
    path.chmod(0o755)
    yield path
    for folder in [path, *path.rglob("*")]:
        if folder.is_dir():
            folder.chmod(0o755)


def readable(root: Path) -> None:
    """Let every user read what root wrote, and nobody else write it."""
    root.chmod(0o555)
    for path in root.iterdir():
        path.chmod(0o444)


def test_files_are_private(tmp_path: Path) -> None:
    """Logs, tombstones and kept-aside bytes are for their owner alone, and so is the folder."""
    mask = os.umask(0)
    try:
        root = tmp_path / "a" / "root"
        store = JsonlStore(root)
        store.append(make_header(), messages(1))
        with (root / "s1.jsonl").open("ab") as file:
            file.write(b"torn")
        store.append(make_header(), messages(2))
        store.append(make_header("s2"), messages(1))
        store.delete("s2")
    finally:
        os.umask(mask)

    assert 0o700 == stat.S_IMODE(root.stat().st_mode)
    assert {"s1.jsonl": 0o600, "s1.torn": 0o600, "s2.deleted": 0o600} == {
        path.name: stat.S_IMODE(path.stat().st_mode) for path in root.iterdir()
    }


def test_j3_read_only_folder_of_another_owner(shared: Path) -> None:
    """
    A store that may not be written failed late and unclear. Reads work without a lock or a
    file; every write is refused at once, with the path, and leaves nothing.
    """
    root = shared / "root"
    JsonlStore(root).append(make_header(), messages(5))
    readable(root)
    before = files_in(root)

    def work() -> list[object]:
        store = JsonlStore(root)
        return [
            store.snapshot("s1").read(0, 9) == messages(5),
            store.snapshot("s1").nodes(),
            [head.length for head in store.heads().items],
            store.changes().session_ids,
            outcome(lambda: store.append(make_header("s2"), messages(1))),
            outcome(lambda: store.append(make_header(), [message(5)])),
            outcome(lambda: store.delete("s1")),
        ]

    refused = ("StoreReadOnly", str(root / "s1.jsonl"))
    assert [
        True,
        [0, 1, 2, 3, 4],
        [5],
        ("s1",),
        ("StoreReadOnly", str(root / "s2.jsonl")),
        refused,
        refused,
    ] == as_nobody(work)
    assert before == files_in(root)


def test_j3_folder_that_cannot_be_made(shared: Path) -> None:
    """Where the folder is missing and cannot be made, reads find an empty store."""
    shared.chmod(0o555)

    def work() -> list[object]:
        store = JsonlStore(shared / "root")
        return [
            store.heads().items,
            store.head("s1"),
            outcome(lambda: store.append(make_header(), messages(1))),
        ]

    assert [(), None, ("StoreReadOnly", str(shared / "root" / "s1.jsonl"))] == as_nobody(work)


@pytest.fixture
def read_only_disk(tmp_path: Path) -> Iterator[Path]:
    """A mounted file system that cannot be written, with one session in it."""
    source, path = tmp_path / "source", tmp_path / "disk"
    JsonlStore(source).append(make_header(), messages(5))
    with (source / "s1.jsonl").open("ab") as file:
        file.write(b'{"type":"torn')
    path.mkdir()
    commands = [
        ["mount", "--bind", str(source), str(path)],
        ["mount", "-o", "remount,bind,ro", str(path)],
    ]
    if os.geteuid() != 0 or any(
        subprocess.run(command, capture_output=True, check=False).returncode for command in commands
    ):
        pytest.skip("needs the right to mount a file system")
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


def test_j3_read_only_disk(read_only_disk: Path) -> None:
    """On a medium that cannot be written a store is read, torn tail and all."""
    for store in (JsonlStore(read_only_disk), JsonlStore(read_only_disk, read_only=True)):
        assert messages(5) == store.snapshot("s1").read(0, 9)
        assert [0, 1, 2, 3, 4] == store.snapshot("s1").nodes()
        assert [5] == [head.length for head in store.heads().items]
        with pytest.raises(StoreReadOnly):
            store.append(make_header(), [message(5)])
        with pytest.raises(StoreReadOnly):
            store.append(make_header("s2"), messages(1))
        with pytest.raises(StoreReadOnly):
            store.delete("s1")


def test_j4_session_that_may_not_be_read(shared: Path) -> None:
    """
    One unreadable session was reported as an empty store. The others are listed; it, and a
    folder that may not be entered, are faults that say "permission denied" and where.
    """
    root = shared / "root"
    store = JsonlStore(root)
    for session_id in ("s1", "s2", "s3"):
        store.append(make_header(session_id), messages(2))
    (root / "closed").mkdir()
    readable(root)
    (root / "s2.jsonl").chmod(0)
    (root / "closed").chmod(0)

    def work() -> list[object]:
        store = JsonlStore(root)
        page = store.heads()
        return [
            [head.header.id for head in page.items],
            [(fault.session_id, fault.path, fault.kind, fault.detail) for fault in page.faults],
            outcome(lambda: store.head("s2")),
            outcome(lambda: store.snapshot("s2")),
            outcome(lambda: store.append(make_header("s2"), messages(3))),
            len(store.snapshot("s3").read(0, 9)),
        ]

    closed, denied = str(root / "closed"), str(root / "s2.jsonl")
    assert [
        ["s1", "s3"],
        [
            (None, closed, "denied", f"permission denied: {closed}"),
            ("s2", denied, "denied", f"permission denied: {denied}"),
        ],
        ("StoreUnavailable", denied),
        ("StoreUnavailable", denied),
        ("StoreReadOnly", denied),
        2,
    ] == as_nobody(work)


def test_folder_that_may_not_be_read(shared: Path) -> None:
    """A store that cannot be looked into says so, and is not empty."""
    root = shared / "root"
    JsonlStore(root).append(make_header(), messages(2))
    root.chmod(0)

    def work() -> list[object]:
        store = JsonlStore(root)
        return [
            outcome(store.heads),
            outcome(store.changes),
            outcome(lambda: store.head("s1")),
        ]

    assert [
        ("StoreUnavailable", str(root)),
        ("StoreUnavailable", str(root)),
        ("StoreUnavailable", str(root / "s1.jsonl")),
    ] == as_nobody(work)


def test_root_that_is_a_file(tmp_path: Path) -> None:
    """A path that is no folder is no empty store."""
    (tmp_path / "root").write_text("hello")
    store = JsonlStore(tmp_path / "root")

    for call in (
        store.heads,
        store.changes,
        lambda: store.head("s1"),
        lambda: store.append(make_header(), messages(1)),
        lambda: store.delete("s1"),
    ):
        with pytest.raises(StoreUnavailable):
            call()
    assert "hello" == (tmp_path / "root").read_text()


def test_h9_deletion_whose_removal_fails(shared: Path) -> None:
    """
    A deleted session whose file could not be removed came back. The error says that it is
    deleted and what is still there; it stays hidden, and a later deletion takes it away.
    """
    root = shared / "root"
    JsonlStore(root).append(make_header(), messages(2))
    root.chmod(0o1777)  # others may add files, and remove none but their own
    (root / "s1.jsonl").chmod(0o666)

    def work() -> list[object]:
        store = JsonlStore(root)
        return [
            outcome(lambda: store.delete("s1")),
            store.head("s1"),
            store.heads().items,
            store.changes().session_ids,
            outcome(lambda: store.append(make_header(), messages(3))),
            outcome(lambda: store.snapshot("s1")),
            outcome(lambda: store.delete("s1", forget=True)),
            store.head("s1"),
        ]

    partly = ("StoreUnavailable", str(root / "s1.jsonl"))
    assert [
        partly,
        None,
        (),
        ("s1",),
        ("SessionDeleted", None),
        ("SessionNotFound", None),
        partly,
        None,
    ] == as_nobody(work)
    store = JsonlStore(root)
    with pytest.raises(SessionDeleted):
        store.append(make_header(), messages(3))
    assert store.delete("s1")
    assert ["s1.deleted"] == list(files_in(root))


def test_x8_links_are_not_followed(tmp_path: Path) -> None:
    """
    A log that is a link to a file outside the folder is refused by every call, and what it
    leads to is neither read nor written.
    """
    outside = tmp_path / "outside.jsonl"
    outside.write_bytes(log_bytes())
    root = tmp_path / "root"
    store = JsonlStore(root)
    store.append(make_header("good"), messages(1))
    (root / "s1.jsonl").symlink_to(outside)
    (root / "s2.jsonl").symlink_to(root / "missing")
    (root / "loop").symlink_to(root / "loop")
    (root / "s3.torn").symlink_to(outside)
    before = outside.stat()

    page = store.heads()
    assert ["good"] == [head.header.id for head in page.items]
    assert [(None, "loop"), ("s1", "s1.jsonl"), ("s2", "s2.jsonl"), (None, "s3.torn")] == [
        (fault.session_id, Path(fault.path or "").name) for fault in page.faults
    ]
    assert {"symlink"} == {fault.kind for fault in page.faults}
    for session_id in ("s1", "s2"):
        for call in (
            lambda: store.head(session_id),  # noqa: B023
            lambda: store.snapshot(session_id),  # noqa: B023
            lambda: store.append(make_header(session_id), []),  # noqa: B023
            lambda: store.append(make_header(session_id), messages(11)),  # noqa: B023
            lambda: store.delete(session_id),  # noqa: B023
        ):
            with pytest.raises(CorruptLog) as caught:
                call()
            assert (session_id, "symlink") == (caught.value.session_id, caught.value.kind)
    plant(root, log_bytes(make_header("s3"), 2) + b"torn", "s3")
    with pytest.raises(StoreUnavailable):
        store.append(make_header("s3"), messages(3))
    after = outside.stat()
    assert (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    assert not (root / "missing").exists()


def test_store_behind_a_link_works(tmp_path: Path) -> None:
    """The folder itself may be reached through a link."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    JsonlStore(tmp_path / "link").append(make_header(), messages(2))

    assert messages(2) == JsonlStore(tmp_path / "real").snapshot("s1").read(0, 9)


@pytest.mark.parametrize("kind", ["directory", "special"])
def test_logs_that_are_no_files(tmp_path: Path, kind: str) -> None:
    """A folder or a pipe under a log's name is refused, at once, and is a fault."""
    path = tmp_path / "s1.jsonl"
    if kind == "directory":
        path.mkdir()
    else:
        os.mkfifo(path)
    store = JsonlStore(tmp_path)

    for call in (
        lambda: store.head("s1"),
        lambda: store.append(make_header(), messages(1)),
        lambda: store.delete("s1"),
    ):
        with pytest.raises(CorruptLog) as caught:
            call()
        assert kind == caught.value.kind
    assert [("s1", kind)] == [(fault.session_id, fault.kind) for fault in store.heads().faults]


def test_misnamed_logs_are_faults(tmp_path: Path) -> None:
    """A copy of a log under another name is no session, and not mistaken for either."""
    store = JsonlStore(tmp_path)
    store.append(make_header(), messages(2))
    shutil.copy(tmp_path / "s1.jsonl", tmp_path / "s2.jsonl")
    shutil.copy(tmp_path / "s1.jsonl", tmp_path / "S1.jsonl")
    shutil.copy(tmp_path / "s1.jsonl", tmp_path / "s%31.jsonl")

    page = store.heads()
    assert ["s1"] == [head.header.id for head in page.items]
    assert [
        ("S1.jsonl", None, "misnamed"),
        ("s%31.jsonl", None, "misnamed"),
        ("s2.jsonl", "s2", "misnamed"),
    ] == [(Path(fault.path or "").name, fault.session_id, fault.kind) for fault in page.faults]
    assert all("'s1'" in fault.detail for fault in page.faults)
    for call in (
        lambda: store.head("s2"),
        lambda: store.append(make_header("s2"), messages(1)),
    ):
        with pytest.raises(CorruptLog) as caught:
            call()
        assert "misnamed" == caught.value.kind
    assert store.head("S1") is None


def test_stray_files_are_faults(tmp_path: Path) -> None:
    """Files that are no part of the store are named, and never in the way."""
    store = JsonlStore(tmp_path)
    store.append(make_header(), messages(1))
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "s9.torn").write_text("x")

    page = store.heads()
    assert [("notes.txt", "stray")] == [
        (Path(fault.path or "").name, fault.kind) for fault in page.faults
    ]


@pytest.mark.parametrize("way", ["renamed", "in place", "deleted and made anew"])
def test_replaced_file_is_noticed(tmp_path: Path, way: str) -> None:
    """
    A log that is replaced under an open store is read as what it is now; a snapshot of the
    one before says that its session is gone.
    """
    store = JsonlStore(tmp_path)
    store.append(make_header(), messages(10))
    old = store.snapshot("s1")
    assert list(range(10)) == old.nodes()
    events = [message(seq, f"new {seq}") for seq in range(12)]
    data = log_bytes(events=events)
    if way == "renamed":
        (tmp_path / "new").write_bytes(data)
        (tmp_path / "new").rename(tmp_path / "s1.jsonl")
    elif way == "in place":
        (tmp_path / "s1.jsonl").write_bytes(data)
    else:
        other = JsonlStore(tmp_path)
        other.delete("s1", forget=True)
        other.append(make_header(), events)

    new = store.snapshot("s1")
    assert events == new.read(0, 99)
    assert list(range(12)) == new.nodes()
    with pytest.raises(SessionNotFound):
        old.read(0, 1)
    with pytest.raises(SessionNotFound):
        old.nodes()
    assert 13 == store.append(make_header(), [message(12)])


def test_replaced_header_is_noticed(tmp_path: Path) -> None:
    """A header that is rewritten in place is seen by heads, lists and appends."""
    store = JsonlStore(tmp_path)
    for number in range(3):
        store.append(make_header(f"s{number}", created_at=number), messages(1))
    assert ["s2", "s1", "s0"] == [head.header.id for head in store.heads().items]
    (tmp_path / "s0.jsonl").write_bytes(log_bytes(make_header("s0", created_at=9), 1))

    found = store.head("s0")
    assert found is not None
    assert 9 == found.header.created_at
    assert ["s0", "s2", "s1"] == [head.header.id for head in store.heads().items]
    with pytest.raises(EventLogError):
        store.append(make_header("s0", created_at=0), messages(2))


def test_session_made_anew_by_another_store_is_listed(tmp_path: Path) -> None:
    """
    A session was deleted and made anew with another header, and its file got the inode of
    the one before: a store that had listed it left it out. It stands at its new place.
    """
    store, other = JsonlStore(tmp_path), JsonlStore(tmp_path)
    for number in range(5):
        store.append(make_header(f"s{number}", created_at=10 + number), messages(1))
    assert ["s4", "s3", "s2", "s1", "s0"] == [head.header.id for head in store.heads().items]
    for created_at, order in ((99, "04321"), (11, "43201"), (0, "43210"), (13, "40321")):
        other.delete("s0", forget=True)
        header = make_header("s0", created_at=created_at, parent_session=f"p{created_at}")
        other.append(header, messages(2))
        for limit in (1, 2, 5):
            page = store.heads(limit=limit)
            assert [f"s{name}" for name in order[:limit]] == [head.header.id for head in page.items]
        assert [header] == [head.header for head in store.children(f"p{created_at}").items]


def test_stores_are_opened_by_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL names the folder; ``~`` expands; unknown options are refused."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with open_store("jsonl:~/logs?lock_wait_s=0.5") as store:
        store.append(make_header(), messages(1))
    assert (tmp_path / "logs" / "s1.jsonl").exists()
    with open_store(f"jsonl:{tmp_path}/logs", read_only=True) as reader:
        assert messages(1) == reader.snapshot("s1").read(0, 9)
        with pytest.raises(StoreReadOnly):
            reader.append(make_header(), messages(2))
    with pytest.raises(StoreClosed):
        reader.heads()
    for url in ("jsonl:", "jsonl:x?mode=1", "jsonl:x?lock_wait_s=soon", "jsonl:x?lock_wait_s=-1"):
        with pytest.raises(InvalidArgument):
            open_store(url)


def test_x11_stores_cross_processes(tmp_path: Path) -> None:
    """A pickled store opens the same folder where it is unpickled."""
    store = JsonlStore(tmp_path, read_only=True, lock_wait_s=3)
    JsonlStore(tmp_path).append(make_header(), messages(2))

    copy = pickle.loads(pickle.dumps(store))

    assert (store.root, True) == (copy.root, copy.read_only)
    assert messages(2) == copy.snapshot("s1").read(0, 9)


def test_torn_header_of_a_foreign_file(tmp_path: Path) -> None:
    """A file that ends within its first line is damage, not a session that begins."""
    data = encode_line(make_header())[:-1]
    path = plant(tmp_path, data)
    store = JsonlStore(tmp_path)

    with pytest.raises(CorruptLog) as caught:
        store.append(make_header(), messages(1))
    assert ("header", 1) == (caught.value.kind, caught.value.line)
    assert data == path.read_bytes()
    assert ["header"] == [fault.kind for fault in store.heads().faults]
