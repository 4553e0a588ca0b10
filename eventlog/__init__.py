"""
An append-only, event-sourced log of agent sessions.

A harness appends every event of a session once and never edits it. The surface fold says
which of them the model sees now; what a compaction replaced stays in the log, one query
away. Stores keep logs behind one contract; :mod:`eventlog.query` reads live and stored
sessions as one corpus.
"""

from eventlog.errors import EventLogError
from eventlog.findings import Finding, Gap
from eventlog.live import LiveSessions, Session
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
from eventlog.pruning import PruneAccount, PrunePolicy
from eventlog.recorder import Recorder
from eventlog.recording import RecordingHealth
from eventlog.resume import Inspection
from eventlog.snapshot import LogSnapshot, ScanMeter
from eventlog.store import Capabilities, ChangeSet, EventStore
from eventlog.surface import Replacement, Surface, fold_surface
from eventlog.vocabulary import DEFAULT_VOCABULARY, EventType, Vocabulary, load_vocabulary

__all__ = [
    "APPEND",
    "DEFAULT_VOCABULARY",
    "Batch",
    "Capabilities",
    "ChangeSet",
    "Event",
    "EventClass",
    "EventLogError",
    "EventStore",
    "EventType",
    "Fault",
    "Finding",
    "Gap",
    "HeadKey",
    "HeadPage",
    "Inspection",
    "LiveSessions",
    "LogSnapshot",
    "PruneAccount",
    "PrunePolicy",
    "ReadOnlyStore",
    "Recorder",
    "RecordingHealth",
    "Replace",
    "Replacement",
    "ScanMeter",
    "Session",
    "SessionHead",
    "SessionHeader",
    "Surface",
    "Vocabulary",
    "fold_surface",
    "load_vocabulary",
    "open_store",
]
