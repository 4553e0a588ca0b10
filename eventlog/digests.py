"""
Telling whether a file has changed, at the cost of its bytes only where it may have, and
whether another file goes on with it.
"""

from __future__ import annotations

from hashlib import blake2b, file_digest
from io import FileIO
from os import fstat
from pathlib import Path
from time import time_ns
from typing import Final

__all__ = ["FileDigests", "begins_with"]

CHUNK_BYTES: Final = 1 << 18
SETTLING_NS: Final = 2_000_000_000


class FileDigests:
    """
    Digests of files, each remembered for as long as the file's status does not change.

    That of a file which was written to a moment ago is not remembered: the clock of file
    systems is coarse, and one more write might leave the status as it is.
    """

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[int, ...], str]] = {}

    def of(self, path: Path) -> str:
        """
        Return a digest of the bytes of a file, 32 hexadecimal digits.

        Cost: O(bytes of the file), O(1) where it is remembered.

        Raises:
            OSError: The system refuses to read it.
        """
        with path.open("rb", buffering=0) as file:
            status = _status(file)
            known = self._known.get(path)
            if known is not None and known[0] == status:
                return known[1]
            digest = file_digest(file, lambda: blake2b(digest_size=16)).hexdigest()
            *_, changed_ns = status
            if _status(file) == status and changed_ns < time_ns() - SETTLING_NS:
                self._known[path] = status, digest
            return digest


def begins_with(path: Path, earlier: Path) -> bool:
    """
    Tell whether the file *path* begins with all the bytes of *earlier*.

    Cost: O(bytes of the shorter one), in small pieces.

    Raises:
        OSError: The system refuses to read one of them.
    """
    with path.open("rb") as file, earlier.open("rb") as front:
        while chunk := front.read(CHUNK_BYTES):
            if file.read(len(chunk)) != chunk:
                return False
    return True


def _status(file: FileIO) -> tuple[int, ...]:
    found = fstat(file.fileno())
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
