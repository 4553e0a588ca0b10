"""
The whole contract of a store, put together from its themes.
"""

from __future__ import annotations

from eventlog.testing.contract.appending import AppendContract
from eventlog.testing.contract.deleting import DeleteContract
from eventlog.testing.contract.listing import ListContract
from eventlog.testing.contract.reading import ReadContract
from eventlog.testing.contract.surfaces import SurfaceContract

__all__ = ["StoreContract"]


class StoreContract(AppendContract, ReadContract, SurfaceContract, ListContract, DeleteContract):
    """
    Every promise of :class:`~eventlog.EventStore`, one a test.
    """
