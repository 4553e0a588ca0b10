"""
What LMDB and the system say, in the terms of :mod:`eventlog.errors`.
"""

from __future__ import annotations

import errno

import lmdb

from eventlog.errors import EventLogError, StoreBusy, StoreFull, StoreReadOnly, StoreUnavailable

__all__ = ["is_refusal", "translated"]

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def code_of(error: BaseException) -> int | None:
    """Return the system's or LMDB's number of an error, None where it has none."""
    if isinstance(error, OSError):
        return error.errno
    code = getattr(error, "code", None)
    return code if type(code) is int else None


def is_refusal(error: BaseException) -> bool:
    """Tell whether the system refused access, as on a read-only medium."""
    return isinstance(error, lmdb.ReadonlyError) or code_of(error) in _REFUSED


def translated(error: lmdb.Error | OSError, path: str, *, writing: bool) -> EventLogError:
    """Return the error that the library raises for *error*, met while *writing* or reading."""
    if isinstance(error, lmdb.MapFullError) or code_of(error) in _FULL:
        return StoreFull(path)
    if writing and is_refusal(error):
        return StoreReadOnly(path)
    if isinstance(error, lmdb.ReadersFullError):
        return StoreBusy(None, 0.0)
    return StoreUnavailable(path, str(error))
