"""What a spawned process runs; it must be found by its module's name, which a test's is not."""

from __future__ import annotations

from random import Random

from eventlog import open_store
from eventlog.errors import SequenceConflict
from support import make_header, message

__all__ = ["append_shared"]


def append_shared(url: str, number: int, appends: int, told: object) -> None:
    """Append to the shared sessions and to an own one; tell each (session, seq, text)."""
    random = Random(number)
    acknowledged = []
    with open_store(url) as store:
        for count in range(appends):
            session_id = f"own{number}" if count % 2 else f"shared{random.randrange(4)}"
            while True:
                head = store.head(session_id)
                seq = 0 if head is None else head.length
                text = f"{number}-{count}"
                try:
                    store.append(make_header(session_id), [message(seq, text)])
                except SequenceConflict:
                    continue
                acknowledged.append((session_id, seq, text))
                break
    told.put(acknowledged)  # type: ignore[attr-defined]
