"""The node that stands for an event, against a walk along the chain of replacements."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from eventlog import Event, fold_surface
from eventlog.errors import InvalidArgument
from eventlog.log import MemoryLog
from eventlog.snapshot import ScanMeter
from support import log_only, make_header, message, replacement


def compacted(seed: int, length: int) -> Iterator[Event]:
    """A random log in which ranges of nodes are replaced again and again."""
    rng = random.Random(seed)
    nodes: list[int] = []
    for seq in range(length):
        kind = rng.random()
        if kind < 0.3 and nodes:
            first = rng.randrange(len(nodes))
            last = min(len(nodes) - 1, first + rng.randrange(4))
            shadowed = nodes[first : last + 1]
            nodes[first : last + 1] = [seq]
            yield replacement(seq, shadowed[0], shadowed[-1], shadowed)
        elif kind < 0.4:
            yield log_only(seq)
        else:
            nodes.append(seq)
            yield message(seq)


@pytest.mark.parametrize("seed", range(8))
def test_every_event_at_every_length_has_the_stand_in_of_its_chain(seed: int) -> None:
    """
    Also in a view of the past, the stand-in is the last of the event's replacers.
    """
    events = list(compacted(seed, 60))
    log = MemoryLog(make_header())
    log.extend(events)
    for length in range(1, len(events) + 1):
        surface = fold_surface(events[:length])
        snapshot = log.snapshot(at=length)
        for seq in range(length):
            expected = seq if events[seq].is_node else None
            while expected is not None and (replacer := surface.replaced_by(expected)) is not None:
                expected = replacer

            assert expected == snapshot.stand_in(seq)


def test_a_long_chain_costs_no_more_than_a_short_one() -> None:
    """
    After 5,000 replacements of one node its stand-in is found in a handful of rows.
    """
    log = MemoryLog(make_header())
    log.append(message(0))
    for seq in range(1, 5_001):
        log.append(replacement(seq, seq - 1, seq - 1, [seq - 1]))
    meter = ScanMeter()

    assert log.snapshot(meter=meter).stand_in(0) == 5_000
    assert meter.records == 0
    assert meter.probes <= 5


def test_an_event_beyond_the_length_has_no_stand_in() -> None:
    """
    A view knows of no event at or beyond its length.
    """
    log = MemoryLog(make_header())
    log.extend([message(0), message(1)])

    with pytest.raises(InvalidArgument) as caught:
        log.snapshot(at=1).stand_in(1)

    assert caught.value.name == "seq"
