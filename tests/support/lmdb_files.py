"""The files of an LMDB store, past the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb

from eventlog.drivers.lmdb import LmdbStore

from . import make_header, messages, replacement

__all__ = ["make_store", "raw"]


@contextmanager
def raw(path: Path) -> Iterator[tuple[lmdb.Transaction[bytes], Callable[[str], lmdb._Database]]]:
    """A write transaction past the store, and its databases by name."""
    with (
        lmdb.open(str(path), max_dbs=16, map_size=2**30, lib_version=0) as env,
        env.begin(write=True) as transaction,
    ):
        yield transaction, lambda name: env.open_db(name.encode(), txn=transaction)


def make_store(path: Path) -> Path:
    """A store with two sessions; the surface of the first has a replacement."""
    with LmdbStore(path) as store:
        store.append(make_header(), [*messages(10), replacement(10, 2, 4, [2, 3, 4])])
        store.append(make_header("s2"), messages(3))
    return path
