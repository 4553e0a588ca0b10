"""
The whole contract of a store, put together from its themes.
"""

from __future__ import annotations

from eventlog.testing.contract.appending import AppendContract
from eventlog.testing.contract.reading import ReadContract

__all__ = ["StoreContract"]


class StoreContract(AppendContract, ReadContract):
    """
    Every promise of :class:`~eventlog.EventStore`, one a test.
    """
