"""
Killing writers: a process that appends is killed at a random moment, again and again, and
what it leaves is held to what it acknowledged.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from attrs import define, field

from eventlog.errors import StoreBusy
from eventlog.model import APPEND, Event, SessionHeader
from eventlog.store import EventStore

__all__ = ["CrashAccount", "CrashPlan", "crash_campaign"]

SESSION: Final = "crashed"
SEQ_BYTES: Final = 8
START_WAIT_S: Final = 30.0


@define
class CrashPlan:
    """
    What the writer that is killed does.

    Attributes:
        kills: How often it is killed.

        batch: How many events each append has.

        payload_bytes: The sizes of payloads, one of which is drawn for each event.

        kills_a_store: After so many kills a new store is begun, so that none grows
            without bound.

        run_ms_max: The writer runs for up to so long, once its store is open or, in half
            of the runs, once it has acknowledged something.

        seed: What the moments and the sizes are drawn from.
    """

    kills: int
    batch: int = 1
    payload_bytes: tuple[int, ...] = (50, 500, 5_000)
    kills_a_store: int = 50
    run_ms_max: float = 20.0
    seed: int = 0


@define
class CrashAccount:
    """
    What a campaign saw.

    Attributes:
        kills: How often the writer was killed.

        acknowledged: How many events it had acknowledged, over all.

        unacknowledged: How many more were found whole.

        torn: After how many kills there was an unfinished end.

        before_first: How many kills came before anything was acknowledged in that run.

        seconds: How long it took.
    """

    kills: int = 0
    acknowledged: int = 0
    unacknowledged: int = 0
    torn: int = 0
    before_first: int = 0
    seconds: float = field(default=0.0)


def crash_campaign(
    open_store: Callable[[Path], EventStore], root: Path, plan: CrashPlan
) -> CrashAccount:
    """
    Run *plan* and assert after each kill what every durable store promises.

    Every acknowledged event is there, whole and equal; so is every other event that is
    there; of a batch that was not acknowledged all or nothing is there, or a prefix where
    the store claims no ``atomic_batches``; :meth:`~eventlog.store.EventStore.verify` finds
    nothing but a torn end; the next append, the batch again, goes on where the log ends.

    Args:
        open_store: Opens the store at a path, in this process and in forked ones.

        root: A folder for the stores; each is removed when the next one begins.

    Raises:
        AssertionError: A promise was broken; the store that shows it is left.
    """
    random, account = Random(plan.seed), CrashAccount()
    began = time.monotonic()
    while account.kills < plan.kills:
        place = root / f"store-{account.kills}"
        _one_store(open_store, place, plan, random, account)
        shutil.rmtree(place, ignore_errors=True)
    account.seconds = time.monotonic() - began
    return account


def _one_store(
    open_store: Callable[[Path], EventStore],
    place: Path,
    plan: CrashPlan,
    random: Random,
    account: CrashAccount,
) -> None:
    held = 0
    with open_store(place) as store:
        # So that a kill never falls into the creation of the session.
        held = store.append(_header(), [_event(seq, plan) for seq in range(plan.batch)])
    for _ in range(min(plan.kills_a_store, plan.kills - account.kills)):
        acknowledged = _killed(open_store, place, plan, random, account)
        account.kills += 1
        acknowledged = max(acknowledged, held)
        with open_store(place) as store:
            kinds = {finding.kind for finding in store.verify()}
            assert kinds <= {"torn"}, f"verify finds {kinds}"
            account.torn += bool(kinds)
            length = _check_events(store, held, acknowledged, plan)
            account.acknowledged += acknowledged - held
            account.unacknowledged += length - acknowledged
            start = length - length % plan.batch
            retry = [_event(seq, plan) for seq in range(start, start + plan.batch)]
            held = store.append(_header(), retry)
            assert held == start + plan.batch
            assert [] == list(store.verify())
    with open_store(place) as store:
        _check_events(store, 0, held, plan)


def _check_events(store: EventStore, start: int, acknowledged: int, plan: CrashPlan) -> int:
    """Hold the events from *start* on to what was sent; returns the log's length."""
    snapshot = store.snapshot(SESSION)
    assert snapshot.length >= acknowledged, f"{acknowledged} acknowledged, {snapshot.length} there"
    if store.capabilities.atomic_batches:
        assert 0 == snapshot.length % plan.batch, "a part of a batch is there"
    for seq in range(start, snapshot.length, 16):
        found = snapshot.read(seq, min(seq + 16, snapshot.length))
        assert found == [_event(one, plan) for one in range(seq, seq + len(found))]
    return snapshot.length


def _header() -> SessionHeader:
    return SessionHeader(SESSION, 1_000)


def _event(seq: int, plan: CrashPlan) -> Event:
    """The event that every run of *plan* has at *seq*."""
    random = Random(plan.seed * 1_000_003 + seq)
    size = random.choice(plan.payload_bytes)
    text = f"{seq}:" + chr(random.randrange(97, 123)) * max(size - 20, 0)
    return Event(seq, 1_000 + seq, "x/crash", {"text": text}, surface_op=APPEND)


def _killed(
    open_store: Callable[[Path], EventStore],
    place: Path,
    plan: CrashPlan,
    random: Random,
    account: CrashAccount,
) -> int:
    """Run the writer in a process of its own, kill it; returns what it acknowledged."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reader)
            _write_for_ever(open_store, place, plan, writer)
        except BrokenPipeError:
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    try:
        # The first report says that the store is open.
        told = os.read(reader, SEQ_BYTES)
        # Some stores prepare long for a first append, so half of the kills await it.
        if told and random.random() < 0.5:
            told += os.read(reader, SEQ_BYTES)
        assert told, "the writer ended by itself"
        time.sleep(random.random() * plan.run_ms_max / 1_000)
        os.kill(child, signal.SIGKILL)
        while block := os.read(reader, 65_536):
            told += block
    finally:
        os.close(reader)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, "the writer failed"
    # The last report may be cut by the kill.
    whole = len(told) // SEQ_BYTES
    account.before_first += whole == 1
    return int.from_bytes(told[(whole - 1) * SEQ_BYTES : whole * SEQ_BYTES], "big")


def _write_for_ever(
    open_store: Callable[[Path], EventStore], place: Path, plan: CrashPlan, report: int
) -> None:
    with open_store(place) as store:
        head = store.head(SESSION)
        assert head is not None
        length = head.length
        os.write(report, length.to_bytes(SEQ_BYTES, "big"))
        until = time.monotonic() + START_WAIT_S
        while time.monotonic() < until:
            start = length - length % plan.batch
            batch = [_event(seq, plan) for seq in range(start, start + plan.batch)]
            try:
                length = store.append(_header(), batch)
            except StoreBusy:
                continue
            os.write(report, length.to_bytes(SEQ_BYTES, "big"))
