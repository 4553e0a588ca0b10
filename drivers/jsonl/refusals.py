"""
What a system's refusal of a call means in the library's terms.
"""

from __future__ import annotations

import errno
from typing import Final

from eventlog.errors import EventLogError, StoreFull, StoreReadOnly, StoreUnavailable

__all__ = ["refusal"]

# EFBIG is the limit of the process or of the file system on one file.
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DENIED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def refusal(error: OSError, path: str, *, writing: bool = False) -> EventLogError:
    """Return what *error*, raised for *path*, means in the library's terms."""
    if error.errno in _FULL:
        return StoreFull(path)
    if writing and error.errno in _DENIED:
        return StoreReadOnly(path)
    return StoreUnavailable(path, error.strerror or str(error))
