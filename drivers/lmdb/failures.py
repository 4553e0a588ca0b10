"""
What LMDB and the system say, in the terms of :mod:`eventlog.errors`.
"""

from __future__ import annotations

import errno
import os
from typing import Final

import lmdb

from eventlog.errors import (
    CorruptLog,
    EventLogError,
    StoreBusy,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)

from .layout import Damaged

__all__ = ["translated"]

PROBE_BYTES: Final = 2**20

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def translated(error: lmdb.Error | OSError | Damaged, path: str, *, writing: bool) -> EventLogError:
    """Return the error that the library raises for *error*, met while *writing* or reading."""
    if isinstance(error, Damaged):
        return CorruptLog(None, path, None, None, error.seq, "row", error.detail)
    code = error.errno if isinstance(error, OSError) else getattr(error, "code", None)
    if isinstance(error, lmdb.MapFullError) or code in _FULL:
        return StoreFull(path)
    # LMDB takes a write that a full disk cut short for a broken one.
    if writing and code == errno.EIO and _has_no_room(path):
        return StoreFull(path)
    if writing and (code in _REFUSED or isinstance(error, lmdb.ReadonlyError)):
        return StoreReadOnly(path)
    if isinstance(error, lmdb.ReadersFullError):
        return StoreBusy(None, 0.0)
    # LMDB names the path itself, once more.
    return StoreUnavailable(path, str(error).removeprefix(f"{path}: "))


def _has_no_room(path: str) -> bool:
    """Tell whether the data file cannot be made longer. Where it can, it is afterwards."""
    try:
        descriptor = os.open(os.path.join(path, "data.mdb"), os.O_RDWR)
        try:
            size = os.fstat(descriptor).st_size
            # Takes blocks and overwrites none, so that it may go wrong beside a writer.
            os.posix_fallocate(descriptor, size, PROBE_BYTES)
        finally:
            os.close(descriptor)
    except OSError as error:
        return error.errno in _FULL
    except AttributeError:  # a system without the call
        return False
    return False
