"""
Which logs changed since a token: the names in the folder, and each file's status.

A token holds the fingerprint of every log and tombstone at its time, by session id; so it
needs no clock, and a log that was removed by hand is noticed too.
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

__all__ = ["changes_since"]

TOMBSTONE = "deleted"


def changes_since(
    since: str | None,
    listing: Listing,
    meter: ScanMeter,
    id_of_log: Callable[[str], str | None],
    id_of_tombstone: Callable[[str], str | None],
) -> ChangeSet:
    """
    Name the sessions whose files differ from what *since* says.

    Args:
        id_of_log, id_of_tombstone: Give the session id of a stem, None where it has none.

    Cost: a status for each log.

    Raises:
        InvalidArgument: *since* is no token of this driver.
    """
    before = {} if since is None else _prints_of(since)
    now: dict[str, str] = {}
    for stem in listing.tombstones:
        session_id = id_of_tombstone(stem)
        if session_id is not None:
            now[session_id] = TOMBSTONE
    for stem, entry in listing.logs.items():
        meter.probes += 1
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue  # removed since it was listed
        session_id = id_of_log(stem)
        if session_id is not None:
            facts = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            digest = hashlib.blake2b(repr(facts).encode(), digest_size=9).digest()
            now[session_id] = b64encode(digest).decode()
    changed = {
        session_id
        for session_id in before.keys() | now.keys()
        if before.get(session_id) != now.get(session_id)
    }
    return ChangeSet(tuple(sorted(changed)), orjson.dumps({"jsonl": now}).decode())


def _prints_of(token: str) -> dict[str, str]:
    try:
        record = orjson.loads(token)
    except (orjson.JSONDecodeError, TypeError):
        record = None
    prints = record.get("jsonl") if type(record) is dict else None
    if type(prints) is not dict or any(type(value) is not str for value in prints.values()):
        raise InvalidArgument("since", "is no token of this store")
    return prints
