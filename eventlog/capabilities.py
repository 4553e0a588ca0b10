"""
What a store says of itself, and of what changed in it.
"""

from __future__ import annotations

from attrs import frozen

__all__ = ["Capabilities", "ChangeSet"]


@frozen
class Capabilities:
    """
    What a store can do beyond the contract.

    Attributes:
        durable: What :meth:`EventStore.append` returned for survives a power cut.

        atomic_batches: After a crash an unacknowledged batch is there whole or not at
            all; otherwise a prefix of its events may be, and a retry completes it.

        multi_process_read: Other processes may read while one writes.

        multi_process_write: Several processes may write, one at a time for each session.

        bounded_surface: Surface reads cost what they return, in a fresh process too;
            otherwise each process folds a log once before its first.
    """

    durable: bool
    atomic_batches: bool
    multi_process_read: bool
    multi_process_write: bool
    bounded_surface: bool


@frozen
class ChangeSet:
    """
    Sessions that may have changed.

    Attributes:
        session_ids: Their ids, deleted ones included, each once. It may name more than
            needed, never less.

        token: What to give to the next call. Opaque; valid in other processes.
    """

    session_ids: tuple[str, ...]
    token: str

    def __repr__(self) -> str:
        return f"<ChangeSet of {len(self.session_ids)} sessions>"
