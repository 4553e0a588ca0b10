"""
Queries over live and stored sessions as one corpus: listings, windows, the surface,
traces, filters, full-text search and the model's own search tool, at a cost that depends on
the answer and never on the length of the log.

A name is imported when it is first asked for: search brings SQLite and more with it, and
who only lists and reads does not wait for that.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from .search.answers import SearchHit, SearchPage, SessionHit
    from .search.index import EmbeddedIndex, IndexStatus
    from .search.provider import SearchMode, SearchProvider, Sort
    from .search.scan import ScanProvider
    from .session_query import SessionQuery
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

_NAMES = {
    ".corpus": ("LiveSource",),
    ".errors": ("SessionQueryError", "SessionQueryErrorCode"),
    ".filters": (
        "Availability",
        "Classes",
        "CreatedAt",
        "Cwd",
        "EventFilter",
        "Ids",
        "Parent",
        "Seq",
        "SessionFilter",
        "Text",
        "Time",
        "Types",
    ),
    ".records": (
        "Descendant",
        "EventDocument",
        "EventRecord",
        "EventTrace",
        "EventWindow",
        "LineageTrace",
        "OnConflict",
        "Page",
        "SessionRecord",
        "SurfaceSnapshot",
    ),
    ".search.answers": ("SearchHit", "SearchPage", "SessionHit"),
    ".search.index": ("EmbeddedIndex", "IndexStatus"),
    ".search.provider": ("SearchMode", "SearchProvider", "Sort"),
    ".search.scan": ("ScanProvider",),
    ".session_query": ("SessionQuery",),
    ".tool": ("SessionQueryTool", "ToolText", "session_query_tool"),
    "eventlog.invariants": ("InvariantReport", "Violation", "check_invariants"),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

if not TYPE_CHECKING:  # else a type checker would take any name for one of ours

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            value = getattr(import_module(_HOMES[name], __name__), name)
        elif f".{name}" in _NAMES:
            value = import_module(f".{name}", __name__)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
