"""
Stores with one fault each, for the conformance kit to find.
"""

from __future__ import annotations

from support.broken import appends, lists, reads, reopened
from support.broken.appends import BrokenMemory, BrokenSqlite

__all__ = ["BROKEN", "GOOD"]

BROKEN: dict[str, type[BrokenMemory] | type[BrokenSqlite]] = {
    name: found
    for module in (appends, reads, lists, reopened)
    for name, found in vars(module).items()
    if isinstance(found, type)
    and issubclass(found, BrokenMemory | BrokenSqlite)
    and "promise" in vars(found)
}
"""Every broken store, by name."""

GOOD: dict[str, type[BrokenMemory] | type[BrokenSqlite]] = {
    "BrokenMemory": BrokenMemory,
    "BrokenSqlite": BrokenSqlite,
}
"""What they are made of, without a fault."""
