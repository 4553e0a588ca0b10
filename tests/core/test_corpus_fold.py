"""The fold against 1,400 generated logs and what the recording system said of each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from eventlog import Event, SessionHeader, Surface, fold_surface
from eventlog.codec import event_from_wire
from eventlog.errors import InvalidSurface, ValueRejected
from eventlog.log import MemoryLog
from eventlog.snapshot import LogSnapshot
from support import corpus
from support.differences import Difference


def cases() -> Iterator[dict[str, Any]]:
    # By LF only: the texts hold U+2028 and its like.
    with corpus("fuzz", "surface.jsonl").open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            yield json.loads(line)


def folded(case: dict[str, Any]) -> tuple[list[Event], Surface] | None:
    """The events of a case and their surface; None where either is refused."""
    try:
        events = [event_from_wire(record) for record in case["events"]]
        return events, fold_surface(events)
    except (ValueRejected, InvalidSurface):
        return None


def trace(log: LogSnapshot, events: list[Event], seq: int) -> dict[str, Any]:
    """One event's trace, in the form in which the recorder gave it."""
    chain: list[int] = []
    replacer = log.replaced_by(seq, seq + 1).get(seq)
    found: dict[str, Any] = {} if replacer is None else {"replacedBy": replacer}
    while replacer is not None:
        chain.append(replacer)
        replacer = log.replaced_by(replacer, replacer + 1).get(replacer)
    return found | {
        "replacementChain": chain,
        "replacedEventSeqs": log.replaced(seq),
        "sourceEventSeqs": list(events[seq].source_event_seqs or ()),
        "derivedEventSeqs": log.citing(seq),
    }


@pytest.fixture(scope="module")
def recorded() -> list[dict[str, Any]]:
    return list(cases())


def test_verdicts_agree(recorded: list[dict[str, Any]]) -> None:
    """A log is accepted exactly where the recorder accepts it, one intended case aside."""
    differing = [case["id"] for case in recorded if case["fold"]["ok"] is (folded(case) is None)]

    assert 1_400 == len(recorded)
    assert Difference.UNKNOWN_TYPE_CITES.cases == len(differing)
    for case in recorded:
        if case["id"] in differing:
            assert "srcOnNon" == case["mutation"]
            assert folded(case) is not None


def test_nodes_and_replacements_agree(recorded: list[dict[str, Any]]) -> None:
    """Every accepted log has the recorder's surface and replacements."""
    compared = 0
    for case in recorded:
        ours = folded(case)
        if ours is None or not case["fold"]["ok"]:
            continue
        surface = ours[1]
        assert case["fold"]["nodes"] == surface.nodes
        assert case["fold"]["replacements"] == [
            {"seq": r.seq, "start": r.start, "end": r.end, "shadowedSeqs": list(r.shadowed)}
            for r in surface.replacements
        ]
        compared += 1

    assert compared == sum(case["fold"]["ok"] for case in recorded)


def test_classes_and_traces_agree(recorded: list[dict[str, Any]]) -> None:
    """Every event of every accepted log has the recorder's class and trace."""
    compared: Counter[str] = Counter()
    for case in recorded:
        ours = folded(case)
        if ours is None or not case["fold"]["ok"]:
            continue
        events, surface = ours
        log = MemoryLog(SessionHeader("s", 0))
        log.extend(events)
        snapshot = log.snapshot()
        assert case["surface"] == [str(surface.classify(event.seq)) for event in events]
        for event, expected in zip(events, case["traces"], strict=True):
            assert expected == trace(snapshot, events, event.seq), (case["id"], event.seq)
            compared["events"] += 1
            compared["replaced"] += "replacedBy" in expected

    assert compared["events"] > 9_000
    assert compared["replaced"] > 500
