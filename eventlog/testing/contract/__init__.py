"""
The whole contract of a store, put together from its themes.
"""

from __future__ import annotations

from eventlog.testing.contract.appending import AppendContract
from eventlog.testing.contract.caring import CareContract
from eventlog.testing.contract.cost import CostContract
from eventlog.testing.contract.deleting import DeleteContract
from eventlog.testing.contract.lifetimes import LifetimeContract
from eventlog.testing.contract.listing import ListContract
from eventlog.testing.contract.medium import MediumContract
from eventlog.testing.contract.names import NameContract
from eventlog.testing.contract.reading import ReadContract
from eventlog.testing.contract.refusing import RefuseContract
from eventlog.testing.contract.reopening import ReopenContract
from eventlog.testing.contract.sharing import SharingContract
from eventlog.testing.contract.surfaces import SurfaceContract
from eventlog.testing.contract.values import ValueContract

__all__ = ["StoreContract"]


class StoreContract(
    AppendContract,
    RefuseContract,
    ReadContract,
    SurfaceContract,
    CostContract,
    ListContract,
    DeleteContract,
    ValueContract,
    NameContract,
    LifetimeContract,
    ReopenContract,
    SharingContract,
    MediumContract,
    CareContract,
):
    """
    Every promise of :class:`~eventlog.EventStore`, one a test.

    Subclass it, write :meth:`open_store`, and set what differs for your driver; the
    attributes and the two hooks to the medium are those of
    :class:`~eventlog.testing.contract.base.ContractBase`. Tests of what a store does not
    claim are skipped, and say which claim is missing.
    """
