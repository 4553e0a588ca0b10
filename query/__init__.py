"""
Queries over live and stored sessions as one corpus: listings, windows, the surface,
traces, filters and full-text search, at a cost that depends on the answer and never on the length of the log.
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
from .search.answers import SearchHit, SearchPage, SessionHit
from .search.index import EmbeddedIndex, IndexStatus
from .search.provider import SearchMode, SearchProvider, Sort
from .search.scan import ScanProvider
from .session_query import SessionQuery

__all__ = [
    "Availability",
    "Classes",
    "CreatedAt",
    "Cwd",
    "Descendant",
    "EmbeddedIndex",
    "EventDocument",
    "EventFilter",
    "EventRecord",
    "EventTrace",
    "EventWindow",
    "Ids",
    "IndexStatus",
    "LineageTrace",
    "LiveSource",
    "OnConflict",
    "Page",
    "Parent",
    "ScanProvider",
    "SearchHit",
    "SearchMode",
    "SearchPage",
    "SearchProvider",
    "Seq",
    "SessionFilter",
    "SessionHit",
    "SessionQuery",
    "SessionQueryError",
    "SessionQueryErrorCode",
    "SessionRecord",
    "Sort",
    "SurfaceSnapshot",
    "Text",
    "Time",
    "Types",
]
