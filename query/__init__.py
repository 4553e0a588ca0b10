"""
Queries over live and stored sessions as one corpus: listings, windows, the surface,
traces and filters, at a cost that depends on the answer and never on the length of the log.
"""

from .corpus import LiveSource
from .errors import SessionQueryError, SessionQueryErrorCode
from .filters import (
    Availability,
    Classes,
    CreatedAt,
    Cwd,
    EventFilter,
    Ids,
    Parent,
    Seq,
    SessionFilter,
    Text,
    Time,
    Types,
)
from .records import (
    Descendant,
    EventDocument,
    EventRecord,
    EventTrace,
    EventWindow,
    LineageTrace,
    OnConflict,
    Page,
    SessionRecord,
    SurfaceSnapshot,
)
from .session_query import SessionQuery

__all__ = [
    "Availability",
    "Classes",
    "CreatedAt",
    "Cwd",
    "Descendant",
    "EventDocument",
    "EventFilter",
    "EventRecord",
    "EventTrace",
    "EventWindow",
    "Ids",
    "LineageTrace",
    "LiveSource",
    "OnConflict",
    "Page",
    "Parent",
    "Seq",
    "SessionFilter",
    "SessionQuery",
    "SessionQueryError",
    "SessionQueryErrorCode",
    "SessionRecord",
    "SurfaceSnapshot",
    "Text",
    "Time",
    "Types",
]
