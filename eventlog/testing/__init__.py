"""
The conformance kit: what every store promises, as tests that a driver's author inherits.

A driver is held to the contract by one subclass with one factory::

    class TestMyStore(StoreContract):
        def open_store(self, root, *, read_only=False):
            return MyStore(root, read_only=read_only)

:class:`StoresAgree` runs random programs over several stores and a naive model at once.
:class:`FaultyStore` fails on purpose, for the tests of whoever uses a store. The rest
makes what they store: strategies for Hypothesis, and samples for tests that name their
input. :func:`check_invariants` judges a log that a harness wrote.

Needs the extra ``testing``; importing :mod:`eventlog` does not import it.
"""

from eventlog.errors import MissingExtra

try:
    import hypothesis  # noqa: F401 - asked for here, so that the error names the extra
    import pytest
except ImportError as error:
    raise MissingExtra("testing", 'pip install "agent-eventlog[testing]"') from error

# The promises are in plain asserts; pytest explains them only in modules named to it.
for part in ("contract", "crashing", "fault_contract", "agreed_writes", "agreement"):
    pytest.register_assert_rewrite(f"eventlog.testing.{part}")

from eventlog.invariants import check_invariants  # noqa: E402
from eventlog.testing.agreement import StoresAgree  # noqa: E402
from eventlog.testing.contract import StoreContract  # noqa: E402
from eventlog.testing.crashing import CrashAccount, CrashPlan, crash_campaign  # noqa: E402
from eventlog.testing.fault_contract import FaultContract  # noqa: E402
from eventlog.testing.faults import StepFaults, each_step  # noqa: E402
from eventlog.testing.faulty import FaultyStore  # noqa: E402
from eventlog.testing.naive import NaiveLog, NaiveStore, NaiveSurface  # noqa: E402
from eventlog.testing.samples import (  # noqa: E402
    busy_log,
    make_header,
    message,
    messages,
    note,
    random_log,
    summary,
    tool_result,
)
from eventlog.testing.strategies import (  # noqa: E402
    event_data,
    event_types,
    headers,
    json_values,
    logs,
    malformed_records,
    rejected_values,
    session_ids,
)

__all__ = [
    "CrashAccount",
    "CrashPlan",
    "FaultContract",
    "FaultyStore",
    "NaiveLog",
    "NaiveStore",
    "NaiveSurface",
    "StepFaults",
    "StoreContract",
    "StoresAgree",
    "busy_log",
    "check_invariants",
    "crash_campaign",
    "each_step",
    "event_data",
    "event_types",
    "headers",
    "json_values",
    "logs",
    "make_header",
    "malformed_records",
    "message",
    "messages",
    "note",
    "random_log",
    "rejected_values",
    "session_ids",
    "summary",
    "tool_result",
]
