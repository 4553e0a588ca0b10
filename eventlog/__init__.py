"""
An append-only, event-sourced log of agent sessions.

A harness appends every event of a session once and never edits it. The surface fold says
which of them the model sees now; what a compaction replaced stays in the log, one query
away. Stores keep logs behind one contract; :mod:`eventlog.query` reads live and stored
sessions as one corpus.
"""

from eventlog.errors import EventLogError
from eventlog.model import (
    APPEND,
    Batch,
    Event,
    EventClass,
    Fault,
    HeadKey,
    HeadPage,
    Replace,
    SessionHead,
    SessionHeader,
)
from eventlog.opening import ReadOnlyStore, open_store
from eventlog.snapshot import LogSnapshot, ScanMeter
from eventlog.store import Capabilities, ChangeSet, EventStore
from eventlog.surface import Replacement, Surface, fold_surface

__all__ = [
    "APPEND",
    "Batch",
    "Capabilities",
    "ChangeSet",
    "Event",
    "EventClass",
    "EventLogError",
    "EventStore",
    "Fault",
    "HeadKey",
    "HeadPage",
    "LogSnapshot",
    "ReadOnlyStore",
    "Replace",
    "Replacement",
    "ScanMeter",
    "SessionHead",
    "SessionHeader",
    "Surface",
    "fold_surface",
    "open_store",
]
