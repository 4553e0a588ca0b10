"""
Which logs changed since a token: the names in the folder, and each file's status.

A token holds the fingerprint of every log and tombstone at its time, by stem; so it needs
no clock, and a log that was removed by hand is noticed too. Where the stem does not spell
the session's id, that stands behind the fingerprint.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable

import orjson

from eventlog.errors import InvalidArgument
from eventlog.snapshot import ScanMeter
from eventlog.store import ChangeSet

from .catalogue import Listing
from .names import DIGEST_MARK, id_of

__all__ = ["changes_since"]

TOMBSTONE = "deleted"


def changes_since(
    since: str | None, listing: Listing, meter: ScanMeter, look_up: Callable[[str], str | None]
) -> ChangeSet:
    """
    Name the sessions whose files differ from what *since* says.

    Args:
        look_up: Gives the session id of a stem that does not spell it; None where the
            files do not tell it either.

    Cost: a status for each log.

    Raises:
        InvalidArgument: *since* is no token of this driver.
    """
    before = {} if since is None else _prints_of(since)
    now = dict.fromkeys(listing.tombstones, TOMBSTONE)
    for stem, entry in listing.logs.items():
        meter.probes += 1
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue  # removed since it was listed
        facts = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        digest = hashlib.blake2b(repr(facts).encode(), digest_size=9).digest()
        now[stem] = b64encode(digest).decode()
    for stem in now:
        if DIGEST_MARK in stem:
            now[stem] += f" {look_up(stem) or ''}"
    changed = {
        session_id
        for stem in before.keys() | now.keys()
        if before.get(stem) != now.get(stem)
        and (session_id := _id_of(stem, now.get(stem) or before[stem])) is not None
    }
    return ChangeSet(tuple(sorted(changed)), orjson.dumps({"jsonl": now}).decode())


def _id_of(stem: str, print_of: str) -> str | None:
    _, _, session_id = print_of.partition(" ")
    return session_id or id_of(stem)


def _prints_of(token: str) -> dict[str, str]:
    try:
        record = orjson.loads(token)
    except (orjson.JSONDecodeError, TypeError):
        record = None
    prints = record.get("jsonl") if type(record) is dict else None
    if type(prints) is not dict or any(type(value) is not str for value in prints.values()):
        raise InvalidArgument("since", "is no token of this store")
    return prints
