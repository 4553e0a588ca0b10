"""
Session ids as file names, injective on every file system.

An id is its UTF-8 bytes; each byte outside ``[a-z0-9._-]`` is written ``%xx`` in lower-case
hexadecimal. So two ids never differ by case or by normalisation alone, and no name holds a
separator. The first character is escaped too where it is a dot (``.``, ``..`` and hidden
files) or where the name would be a device on Windows (``con``, ``nul.txt``). Where the
result is longer than :data:`STEM_CHARS_MAX`, its head is followed by ``%-`` and the
SHA-256 of the id; ``%-`` occurs in no other name. Behind the stem stands what the file is:

=============  ==================================================================
``.jsonl``     the log
``.deleted``   the tombstone of a deleted session
``.torn``      bytes that were cut off behind the last whole line of the log
``.N.backup``  the log as it was before its N-th repair
=============  ==================================================================

``.STEM.new`` is a log that is being created; after a crash it may stay behind, and means
nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from eventlog.errors import ValueRejected
from eventlog.values import check_session_id

__all__ = [
    "BACKUP_SUFFIX",
    "DIGEST_MARK",
    "LOG_SUFFIX",
    "STEM_CHARS_MAX",
    "TOMBSTONE_SUFFIX",
    "TORN_SUFFIX",
    "backup_name",
    "backups_of",
    "id_of",
    "log_name",
    "stem_of",
    "unfinished_name",
]

LOG_SUFFIX: Final = ".jsonl"
TOMBSTONE_SUFFIX: Final = ".deleted"
TORN_SUFFIX: Final = ".torn"
BACKUP_SUFFIX: Final = ".backup"

# Encrypting file systems allow 143 characters for a name, suffix included.
STEM_CHARS_MAX: Final = 128

DIGEST_MARK: Final = "%-"

_ESCAPED = re.compile(rb"[^a-z0-9._-]")
_ESCAPE = re.compile(rb"%([0-9a-f]{2})")
_DEVICES: Final = frozenset(
    ["con", "prn", "aux", "nul"]
    + [f"{port}{number}" for port in ("com", "lpt") for number in range(10)]
)


@lru_cache(maxsize=4096)
def stem_of(session_id: str) -> str:
    """Return the stem of *session_id*'s file names: ASCII, 1–128 characters. Cost: O(length)."""
    raw = session_id.encode()
    stem = _ESCAPED.sub(lambda match: b"%%%02x" % match[0][0], raw).decode()
    if stem[0] == "." or stem.partition(".")[0] in _DEVICES:
        stem = f"%{ord(stem[0]):02x}{stem[1:]}"
    if len(stem) > STEM_CHARS_MAX:
        digest = hashlib.sha256(raw).hexdigest()
        stem = stem[: STEM_CHARS_MAX - len(DIGEST_MARK) - len(digest)] + DIGEST_MARK + digest
    return stem


def log_name(session_id: str) -> str:
    """Return the name of *session_id*'s log."""
    return stem_of(session_id) + LOG_SUFFIX


def unfinished_name(session_id: str) -> str:
    """Return the name under which *session_id*'s log is created."""
    return f".{stem_of(session_id)}.new"


def backup_name(stem: str, number: int) -> str:
    """Return the name of the backup before the *number*-th repair of a log."""
    return f"{stem}.{number}{BACKUP_SUFFIX}"


def backups_of(stem: str, names: Iterable[str]) -> list[str]:
    """Return those of *names* that are backups of the log *stem*."""
    # The number has no dot, so that the backups of another stem are never among them.
    pattern = re.compile(re.escape(stem) + r"\.[0-9]+" + re.escape(BACKUP_SUFFIX))
    return [name for name in names if pattern.fullmatch(name)]


def id_of(stem: str) -> str | None:
    """
    Return the session id that *stem* spells.

    Null case: None for a stem that ends in a digest, and for one that :func:`stem_of`
    gives to no id.
    """
    try:
        raw = _ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), stem.encode())
        session_id = raw.decode()
        check_session_id(session_id)
    except (UnicodeError, ValueRejected):
        return None
    return session_id if stem_of(session_id) == stem else None
