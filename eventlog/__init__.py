"""
An append-only, event-sourced log of agent sessions.

A harness appends every event of a session once and never edits it. The surface fold says
which of them the model sees now; what a compaction replaced stays in the log, one query
away. Stores keep logs behind one contract; :mod:`eventlog.query` reads live and stored
sessions as one corpus.

A name is imported when it is first asked for: what only reads does not wait for what
writes, and a program that is interrupted while it starts can end as it wants.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_NAMES = {
    "errors": ("EventLogError",),
    "findings": ("Finding", "Gap"),
    "live": ("LiveSessions", "Session"),
    "model": (
        "APPEND",
        "Batch",
        "Event",
        "EventClass",
        "Fault",
        "HeadKey",
        "HeadPage",
        "Replace",
        "SessionHead",
        "SessionHeader",
    ),
    "opening": ("ReadOnlyStore", "open_store"),
    "pruning": ("PruneAccount", "PrunePolicy"),
    "recorder": ("Recorder",),
    "recording": ("RecordingHealth",),
    "resume": ("Inspection",),
    "snapshot": ("LogSnapshot", "ScanMeter"),
    "store": ("Capabilities", "ChangeSet", "EventStore"),
    "surface": ("Replacement", "Surface", "fold_surface"),
    "vocabulary": ("DEFAULT_VOCABULARY", "EventType", "Vocabulary", "load_vocabulary"),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

if not TYPE_CHECKING:  # else a type checker would take any name for one of ours

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        elif name in _NAMES:
            value = import_module(f"{__name__}.{name}")
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
