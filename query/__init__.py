"""
Queries over live and stored sessions as one corpus: listings, windows, the surface,
traces, filters, full-text search and the model's own search tool, at a cost that depends on
the answer and never on the length of the log.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from eventlog.invariants import InvariantReport, Violation, check_invariants

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

if TYPE_CHECKING:
    from .search.answers import SearchHit, SearchPage, SessionHit
    from .search.index import EmbeddedIndex, IndexStatus
    from .search.provider import SearchMode, SearchProvider, Sort
    from .search.scan import ScanProvider
    from .tool import SessionQueryTool, ToolText, session_query_tool

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
    "InvariantReport",
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
    "SessionQueryTool",
    "SessionRecord",
    "Sort",
    "SurfaceSnapshot",
    "Text",
    "Time",
    "ToolText",
    "Types",
    "Violation",
    "check_invariants",
    "session_query_tool",
]

# Search brings SQLite and more with it; who only lists and reads does not wait for them.
_SEARCH = {
    "EmbeddedIndex": ".search.index",
    "IndexStatus": ".search.index",
    "ScanProvider": ".search.scan",
    "SearchHit": ".search.answers",
    "SearchMode": ".search.provider",
    "SearchPage": ".search.answers",
    "SearchProvider": ".search.provider",
    "SessionHit": ".search.answers",
    "SessionQueryTool": ".tool",
    "Sort": ".search.provider",
    "ToolText": ".tool",
    "session_query_tool": ".tool",
}


def __getattr__(name: str) -> Any:
    if name not in _SEARCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_SEARCH[name], __name__), name)
