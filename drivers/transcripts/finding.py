"""
Finding transcripts in folders, in an order of their own.

What a tool's folder holds beside its files is no transcript, whatever its name: a pipe or
a device is never opened, and a link that leads out of the folder is not followed, so that
nothing is brought in which is not there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from errno import EINVAL
from hashlib import blake2b
from pathlib import Path

from eventlog.sources import Transcript, Unreadable
from eventlog.values import SESSION_ID_BYTES_MAX

__all__ = [
    "denied",
    "digest_of_files",
    "expanded",
    "find_files",
    "id_from_name",
    "listed",
    "read_regular",
    "usual_place",
]


def usual_place(environ: Mapping[str, str], variable: str, *below_home: str) -> Path:
    """
    Return where a tool keeps its files: what *variable* says, else, or where that has no
    name, a folder below the person's home.
    """
    configured = environ.get(variable)
    if configured:
        return expanded(configured)
    home = environ.get("HOME") or os.path.expanduser("~")
    # Somebody without a home, as in many a container, has the root for one.
    return Path(home if os.path.isabs(home) else os.sep, *below_home)


def expanded(name: str) -> Path:
    """Return the path that *name* is, its ``~`` the home; one of nobody known stays."""
    return Path(os.path.expanduser(name))


def find_files(
    path: Path, is_wanted: Callable[[Path, list[str], str], bool]
) -> Iterator[Transcript | Unreadable]:
    """
    Yield *path* itself if it is a file, else every wanted file below it, sorted by path.

    Links to folders are not followed, so that no link makes a walk endless. Unreadable is
    a folder that cannot be listed, a link to nothing or out of *path*, and what has a
    wanted name and is no file. Nothing at *path* gives nothing.

    Args:
        is_wanted: Gets a folder, the names of all files in it, and one of these.
    """
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:
        if path.is_symlink():
            yield Unreadable(path, "unavailable", f"a link to nothing: {error}")
        return
    except OSError as error:
        yield denied(path, error)
        return
    if stat.S_ISDIR(status.st_mode):
        yield from _walk(path, is_wanted)
    else:
        yield _transcript(path)


def _walk(
    root: Path, is_wanted: Callable[[Path, list[str], str], bool]
) -> Iterator[Transcript | Unreadable]:
    pending = [root]
    while pending:
        current = pending.pop()
        try:
            with os.scandir(current) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            yield denied(current, error)
            continue
        folders = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
        files = [entry for entry in entries if not entry.is_dir(follow_symlinks=False)]
        names = [entry.name for entry in files]
        for entry in files:
            if is_wanted(current, names, entry.name):
                path = current / entry.name
                if not entry.is_symlink():
                    yield _transcript(path)
                elif not path.is_dir():
                    yield _linked(path, root)
        pending += [current / entry.name for entry in reversed(folders)]


def _linked(path: Path, root: Path) -> Transcript | Unreadable:
    if _leads_out(path, root):
        target = os.path.realpath(path)
        reason = f"it leads out of {root}, to {target}; name that as a PATH to import it"
        return Unreadable(path, "link", reason)
    return _transcript(path)


def _leads_out(path: Path, root: Path) -> bool:
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))


def _transcript(path: Path) -> Transcript | Unreadable:
    try:
        status = os.stat(path)
    except OSError as error:
        return denied(path, error)
    if not stat.S_ISREG(status.st_mode):
        return Unreadable(path, "special", "it is no file")
    return Transcript(path, size_bytes=status.st_size)


def denied(path: Path, error: OSError) -> Unreadable:
    """Return what is reported of a path that the system refuses."""
    kind = "denied" if isinstance(error, PermissionError) else "unavailable"
    return Unreadable(path, kind, error.strerror or str(error))


def listed(folder: Path, suffix: str) -> list[Path]:
    """
    Return what in *folder* has a name that ends so, sorted. Nothing there gives none.

    Raises:
        OSError: The system refuses to list it.
    """
    try:
        return [folder / name for name in sorted(os.listdir(folder)) if name.endswith(suffix)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def read_regular(path: Path, root: Path) -> bytes:
    """
    Return the bytes of a small file that was found by its name in a tool's folder *root*.

    Raises:
        OSError: The system refuses to read it, it is no file, or it leads out of *root*.
    """
    if path.is_symlink() and _leads_out(path, root):
        raise OSError(EINVAL, f"it leads out of {root}", str(path))
    # A pipe that nobody writes to would be waited for without this.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(EINVAL, "it is no file", str(path))
        return file.read()


def digest_of_files(paths: Iterable[Path], root: Path) -> str:
    """
    Return what is equal for equal files of equal names, those that cannot be read included.

    Args:
        root: The folder that they belong to.
    """
    digest = blake2b(digest_size=16)
    for path in paths:
        try:
            content = blake2b(read_regular(path, root), digest_size=16).digest()
        except OSError as error:
            content = str(error.errno).encode()
        digest.update(path.relative_to(root).as_posix().encode("utf-8", "replace") + b"\0")
        digest.update(content)
    return digest.hexdigest()


def id_from_name(name: str) -> str:
    """Return a file's name as a session id: what no id can hold is replaced, and cut off."""
    text = "".join(char if char.isprintable() else "_" for char in name)
    # Names that are no UTF-8 hold lone surrogates.
    whole = text.encode("utf-8", "replace")[:SESSION_ID_BYTES_MAX]
    return whole.decode("utf-8", "ignore") or "_"
