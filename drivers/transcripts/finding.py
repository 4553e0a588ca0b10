"""
Finding transcripts in folders, in an order of their own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from eventlog.sources import Transcript, Unreadable
from eventlog.values import SESSION_ID_BYTES_MAX

__all__ = ["denied", "find_files", "id_from_name"]


def find_files(
    path: Path, is_wanted: Callable[[Path, list[str], str], bool]
) -> Iterator[Transcript | Unreadable]:
    """
    Yield *path* itself if it is a file, else every wanted file below it, sorted by path.

    Links to folders are not followed, so that no link makes a walk endless. A folder that
    cannot be listed, and a link to nothing, is unreadable; nothing at *path* gives
    nothing.

    Args:
        is_wanted: Gets a folder, the names of all files in it, and one of these.
    """
    if path.is_dir():
        yield from _walk(path, is_wanted)
    elif path.exists() or path.is_symlink():
        yield _transcript(path)


def _walk(
    folder: Path, is_wanted: Callable[[Path, list[str], str], bool]
) -> Iterator[Transcript | Unreadable]:
    pending = [folder]
    while pending:
        current = pending.pop()
        try:
            with os.scandir(current) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            yield denied(current, error)
            continue
        names = [entry.name for entry in entries if not entry.is_dir(follow_symlinks=False)]
        folders = [current / entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        for name in names:
            if is_wanted(current, names, name) and not (current / name).is_dir():
                yield _transcript(current / name)
        pending += reversed(folders)


def _transcript(path: Path) -> Transcript | Unreadable:
    try:
        status = os.stat(path)
    except OSError as error:
        return denied(path, error)
    return Transcript(path, size_bytes=status.st_size)


def denied(path: Path, error: OSError) -> Unreadable:
    """Return what is reported of a path that the system refuses."""
    kind = "denied" if isinstance(error, PermissionError) else "unavailable"
    return Unreadable(path, kind, error.strerror or str(error))


def id_from_name(name: str) -> str:
    """Return a file's name as a session id: what no id can hold is replaced, and cut off."""
    text = "".join(char if char.isprintable() else "_" for char in name)
    # Names that are no UTF-8 hold lone surrogates.
    whole = text.encode("utf-8", "replace")[:SESSION_ID_BYTES_MAX]
    return whole.decode("utf-8", "ignore") or "_"
