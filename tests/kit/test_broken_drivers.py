"""The kit, held to find every fault of a store, by the promise that the fault breaks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from eventlog import EventLogError
from eventlog.testing import StoresAgree
from support import IN_MEMORY
from support.broken import BROKEN, GOOD
from support.broken.appends import BrokenMemory

CONTRACTS = Path(__file__).with_name("broken_contracts.py")
ROOT = CONTRACTS.parents[2]

# What each case of a promise came to, by the store's name and the promise: "passed",
# "skipped", or what it failed with.
Outcomes: TypeAlias = dict[tuple[str, str], list[str]]

# What a promise fails with: an assertion, an error that was missed, or one of the
# library's own in its place. Anything else is a slip in the broken store itself.
FAILURES = ("AssertionError", "assert", "Failed: DID NOT RAISE", "eventlog.errors.")

# Of the faults, those that a program of a few steps can run into.
FOUND_BY_PROGRAMS = (
    "TornBatchKept",
    "WrongConflictNumbers",
    "ConflictIgnored",
    "HeaderOverwritten",
    "LaterFieldNamed",
    "RetryDuplicates",
    "EmptyAppendCreates",
    "TombstoneForgotten",
    "TombstoneInMemory",
    "TextNormalised",
    "WindowOneTooLong",
    "OldSnapshotGrows",
    "ClassWrongWhenNested",
    "ReplacementAtTheEnd",
    "SurfaceLostOnReopening",
    "SnapshotOutlivesSession",
    "TiesAsTheyCame",
    "PageBoundaryRepeated",
    "OrphansMissing",
    "DeletionIsNoChange",
    "HeadRemembered",
    "ReadPrunes",
    "FlagsLostOnReopening",
    "EmptySourcesLostOnReopening",
    "NewestTimeOnReopening",
    "PastLostOnReopening",
    "RetryOnReopeningDoubles",
    "HeaderBySubset",
    "ExtraBySubset",
)

# What a fault was found by need not be made small.
PROGRAMS = settings(
    max_examples=2_000,  # most are found within fifty; it ends with the first
    stateful_step_count=25,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def outcomes() -> Outcomes:
    """Run each broken store's promise, and all of these over the good stores."""
    with TemporaryDirectory(prefix="broken-", dir=IN_MEMORY) as folder:
        report = Path(folder, "report.xml")
        options = [
            "-q",
            "-n0",
            "--tb=line",
            "-p",
            "no:cacheprovider",
            f"--basetemp={folder}/stores",
        ]
        subprocess.run(
            [sys.executable, "-m", "pytest", *options, f"--junitxml={report}", str(CONTRACTS)],
            cwd=ROOT,
            capture_output=True,
            check=False,
            timeout=120,
        )
        cases = list(ElementTree.parse(report).iter("testcase"))
    found: Outcomes = {}
    for case in cases:
        name = case.attrib["classname"].rpartition(".Test")[2]
        promise = case.attrib["name"].partition("[")[0]
        outcome = "passed"
        for told in case:
            skipped = told.tag == "skipped"
            outcome = "skipped" if skipped else told.attrib.get("message", told.tag)
        found.setdefault((name, promise), []).append(outcome)
    return found


@pytest.mark.parametrize("name", BROKEN)
def test_fault_is_found_by_its_promise(outcomes: Outcomes, name: str) -> None:
    """
    The promise that a fault breaks fails for the store that has it.
    """
    cases = outcomes[name, BROKEN[name].promise]
    failed = [case for case in cases if case not in ("passed", "skipped")]

    assert failed, f"{BROKEN[name].__doc__} goes unnoticed: {cases}"
    expected = (*FAILURES, BROKEN[name].fails_with)
    assert [] == [case for case in failed if not case.startswith(expected)]


@pytest.mark.parametrize("promise", sorted({kind.promise for kind in BROKEN.values()}))
def test_promise_is_kept_without_the_fault(outcomes: Outcomes, promise: str) -> None:
    """
    The stores that the broken ones are made of keep each of these promises.
    """
    cases = [case for name in GOOD for case in outcomes[name, promise]]

    assert "passed" in cases
    assert {"passed", "skipped"} >= set(cases)


@pytest.mark.parametrize("name", FOUND_BY_PROGRAMS)
def test_fault_is_found_by_programs(name: str) -> None:
    """
    A store with a fault of meaning disagrees with the model in some random program.
    """
    kind = BROKEN[name]
    volatile = frozenset({name} if issubclass(kind, BrokenMemory) else ())
    facts = {"factories": {name: kind}, "volatile": volatile, "folder": IN_MEMORY}
    machine = type(f"Agree{name}", (StoresAgree,), facts)

    with pytest.raises((AssertionError, EventLogError)):
        run_state_machine_as_test(machine, settings=PROGRAMS)
