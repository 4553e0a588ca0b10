"""Stores are opened by their URL, and a URL that names none is refused in words."""

from __future__ import annotations

import copy
import os
import pickle
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from eventlog import ReadOnlyStore, open_store
from eventlog.drivers.jsonl import JsonlStore
from eventlog.drivers.lmdb import LmdbStore
from eventlog.drivers.memory import MemoryStore
from eventlog.errors import InvalidArgument, StoreReadOnly
from eventlog.testing import FaultyStore, make_header, messages
from support.processes import output, script

ON_DISK = [("lmdb", LmdbStore), ("jsonl", JsonlStore)]


def test_scheme_names_the_driver(tmp_path: Path) -> None:
    """Each scheme opens its own class of store."""
    assert type(open_store("memory:")) is MemoryStore
    for scheme, kind in ON_DISK:
        with open_store(f"{scheme}:{tmp_path}/{scheme}") as store:
            assert type(store) is kind


@pytest.mark.parametrize(
    "url",
    [
        None,
        b"memory:",
        "",
        "memory",
        "/work/log",
        "nosuch:x",
        "LMDB:x",
        "memory:x",
        "memory:?a=1",
        "lmdb:",
        "jsonl:",
        "lmdb:x?nosuch=1",
        "jsonl:x?map_bytes=1",
        "lmdb:x?map_bytes",
        "lmdb:x?map_bytes=",
        "lmdb:x?map_bytes=1e6",
        "lmdb:x?map_bytes=0",
        "lmdb:x?map_bytes=-1",
        "lmdb:x?readers_max=0",
        "lmdb:x?readers_max=99999999999999999999",
        "lmdb:x?map_bytes=1048576&map_bytes=2097152",
        "lmdb:a\0b",
        "jsonl:a\0b",
        "lmdb:\ud800",
        "jsonl:\ud800",
    ],
    ids=repr,
)
def test_url_that_names_no_store_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: Any
) -> None:
    """
    An option without a value, a NUL and a lone surrogate once came out as exceptions of
    the standard library; whatever is wrong with a URL is one class, and nothing is made.
    """
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InvalidArgument):
        open_store(url)

    assert [] == os.listdir(tmp_path)


def test_more_address_space_than_there_is(tmp_path: Path) -> None:
    """
    An address space beyond what a machine has is as much of it as the process may have;
    one beyond 64 bits failed at the first append with an OverflowError.
    """
    for map_bytes in (2**48, 2**64, 10**30):
        with open_store(f"lmdb:{tmp_path}/{map_bytes}?map_bytes={map_bytes}") as store:
            assert 2 == store.append(make_header(), messages(2))


@pytest.mark.parametrize("scheme", ["lmdb", "jsonl"])
def test_tilde_is_the_home_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """A path that starts with ``~`` lies in the user's home; nothing is made on opening."""
    monkeypatch.setenv("HOME", str(tmp_path))

    with open_store(f"{scheme}:~/deep/er/log") as store:
        assert [] == os.listdir(tmp_path)
        store.append(make_header(), messages(1))

    assert (tmp_path / "deep" / "er" / "log").is_dir()


@pytest.mark.parametrize("scheme", ["lmdb", "jsonl"])
def test_relative_path_is_fixed_when_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """
    A pickled store with a relative path was another store for whoever unpickled it in
    another folder; what a relative path means is decided once.
    """
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    with open_store(f"{scheme}:log") as store:
        monkeypatch.chdir(there)
        store.append(make_header(), messages(2))
        with pickle.loads(pickle.dumps(store)) as again:
            assert str(here / "log") == again.location == store.location
            assert messages(2) == again.snapshot("s1").read(0, 9)

    assert [] == os.listdir(there)


@pytest.mark.parametrize("scheme", ["lmdb", "jsonl"])
def test_missing_path_is_an_empty_store(tmp_path: Path, scheme: str) -> None:
    """Where nothing is, a store opened for reading is empty, and stays unmade."""
    with open_store(f"{scheme}:{tmp_path}/none", read_only=True) as store:
        assert ((), None) == (store.heads().items, store.head("s1"))
        assert () == store.changes().session_ids
        with pytest.raises(StoreReadOnly):
            store.append(make_header(), [])

    assert [] == os.listdir(tmp_path)


def test_x11_store_without_an_address_says_so() -> None:
    """
    A store of one process was refused by pickle for some lock inside it; it says in words
    that it cannot leave the process, wrapped or not.
    """
    store = MemoryStore()
    for held in (store, ReadOnlyStore(store), FaultyStore(store, OSError())):
        for leave in (pickle.dumps, copy.deepcopy):
            with pytest.raises(InvalidArgument) as caught:
                leave(held)
            assert "store" == caught.value.name


def test_x11_wrapper_goes_where_its_store_goes(tmp_path: Path) -> None:
    """A read-only wrapper is pickled with the store that it reads."""
    with JsonlStore(tmp_path) as store:
        store.append(make_header(), messages(2))
        again = pickle.loads(pickle.dumps(ReadOnlyStore(store)))

    assert messages(2) == again.snapshot("s1").read(0, 9)
    with pytest.raises(StoreReadOnly):
        again.append(make_header(), messages(1, start=2))


def no_store(path: str, options: dict[str, str], *, read_only: bool) -> object:
    """A driver that gives something else."""
    return path


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["support.no_such_module:open"], "cannot be loaded"),
        (["support:no_such_name"], "cannot be loaded"),
        (["support:corpus", "support:message"], "several drivers: 'support:corpus' and"),
        ([f"{__name__}:no_store"], "gave a str"),
    ],
)
def test_driver_that_is_none_is_told_by_name(
    monkeypatch: pytest.MonkeyPatch, values: list[str], said: str
) -> None:
    """
    A driver that cannot be imported was an ImportError of something the caller never named;
    of two drivers for one scheme the one that was found last was taken.
    """
    points = [EntryPoint("odd", value, "eventlog.drivers") for value in values]
    monkeypatch.setattr("eventlog.opening.entry_points", lambda group: [*points, points[0]])

    with pytest.raises(InvalidArgument) as caught:
        open_store("odd:x")

    assert ("url", True) == (caught.value.name, said in caught.value.reason)


def test_no_driver_at_all_is_no_fault_of_the_url(tmp_path: Path) -> None:
    """
    Where no file can be opened no driver is found, and the URL was blamed: it must start
    with one of nothing.
    """
    program = """
        import os, resource
        from eventlog import errors, open_store

        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
        try:
            while True:
                os.open(os.devnull, os.O_RDONLY)
        except OSError:
            pass
        try:
            open_store("memory:")
        except errors.StoreUnavailable as error:
            print(error)
    """
    out = output(script(program))
    assert out.startswith("agent-eventlog is not available: no drivers are found")
