"""The kit's strategies: what they make is what they say."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings

from eventlog import Event, SessionHeader, fold_surface
from eventlog.codec import decode_line, encode_line
from eventlog.errors import EventLogError, InvalidSurface, ValueRejected
from eventlog.testing import (
    NaiveSurface,
    event_data,
    event_types,
    headers,
    json_values,
    logs,
    malformed_records,
    rejected_values,
    session_ids,
)
from eventlog.testing.samples import busy_log, random_log, wild_event
from eventlog.values import decode, encode

fast = settings(max_examples=60, deadline=None)


@fast
@given(json_values())
def test_json_values_are_accepted(value: Any) -> None:
    """
    Each value passes the boundary and comes back with its types.
    """
    assert repr({"v": value}) == repr(decode(encode({"v": value})))


@fast
@given(event_data(), event_types(), session_ids())
def test_events_can_be_made(data: dict[str, Any], event_type: str, session_id: str) -> None:
    """
    Data, types and ids make events and headers.
    """
    event = Event(0, 0, event_type, data)

    assert event == decode_line(encode_line(event))
    assert session_id == SessionHeader(session_id, 0).id


@fast
@given(headers())
def test_headers_are_accepted(header: SessionHeader) -> None:
    """
    Each header comes back from its line.
    """
    assert header == decode_line(encode_line(header))


@fast
@given(logs())
def test_logs_fold_alike(log: list[Event]) -> None:
    """
    The fold and the naive model accept each log and give it one surface.
    """
    naive, folded = NaiveSurface(log), fold_surface(log)

    assert naive.nodes == folded.nodes
    assert naive.replaced == {r.seq: list(r.shadowed) for r in folded.replacements}
    for seq in range(len(log)):
        assert naive.classify(seq) is folded.classify(seq)
        assert naive.replaced_by.get(seq) == folded.replaced_by(seq)


def test_random_logs_have_everything() -> None:
    """
    A random log of moderate length has each kind of event that a fold knows.
    """
    log = random_log(Random(0).randrange, 300)
    naive = NaiveSurface(log)
    types = {event.type for event in log}

    assert {"user/message", "assistant/message", "tool/result", "x/note", "x/card"} <= types
    assert any(len(gone) > 2 for gone in naive.replaced.values())
    assert any(node in naive.replaced for node in naive.replaced_by), "replacements nest"
    assert any(event.source_event_seqs and not event.is_node for event in log)
    assert any(naive.events[seq].type == "tool/result" for seq in naive.replaced)


def test_wild_events_are_judged_alike() -> None:
    """
    The fold and the naive model refuse the same events, many of each verdict.
    """
    verdicts = []
    for seed in range(300):
        choose = Random(seed).randrange
        log = random_log(choose, 1 + seed % 20)
        event = wild_event(choose, len(log), NaiveSurface(log))
        verdict = refused_seq(lambda: NaiveSurface(log).add(event))  # noqa: B023
        assert verdict == refused_seq(lambda: fold_surface([*log, event]))  # noqa: B023
        verdicts.append(verdict is None)

    assert 30 < sum(verdicts) < 270


def test_busy_logs_have_small_surfaces() -> None:
    """
    However long a busy log is, its surface has at most eleven nodes.
    """
    naive = NaiveSurface()
    sizes = []
    for event in busy_log(5_000):
        naive.add(event)
        sizes.append(len(naive.nodes))

    assert (1, 11, 10) == (min(sizes), max(sizes), len(naive.replaced))


@fast
@given(rejected_values())
def test_rejected_values_are_rejected(data: dict[str, Any]) -> None:
    """
    Each value is refused by the boundary, with the place where it stands.
    """
    with pytest.raises(ValueRejected) as caught:
        encode(data)
    assert caught.value.path.startswith("data")


@fast
@given(malformed_records(seq=3))
def test_malformed_records_are_no_events(line: bytes) -> None:
    """
    No line is read as the event that it stands for.
    """
    with pytest.raises(EventLogError):
        decode_line(line)


def refused_seq(fold: Callable[[], object]) -> int | None:
    """The event that a fold refuses, None where it accepts all."""
    try:
        fold()
    except InvalidSurface as error:
        return error.seq
    return None
