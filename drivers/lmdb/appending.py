"""
Appending: batches of many threads are judged and stored in one commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic

import lmdb

from eventlog.admission import AbsentLog, Admission, ReadableLog, WritableLog, admit
from eventlog.errors import EventLogError
from eventlog.locks import unowned
from eventlog.model import Batch

from .group import Request
from .handle import Databases
from .layout import Damaged
from .logs import Feed, Log, corrupt
from .sharing import SharedEnvironment

__all__ = ["Appender"]

Outcome = int | EventLogError


class Appender:
    """
    Stores batches, together with those of other threads.

    Args:
        environment: Where to.

        wait_s: How long to wait for another process.
    """

    def __init__(self, environment: SharedEnvironment, *, wait_s: float) -> None:
        self._environment = environment
        self._wait_s = wait_s

    def append(self, batches: Sequence[Batch]) -> list[Outcome]:
        """
        Store each batch or refuse it, in the order given, all in one commit.

        Returns:
            For each the next free seq, or why it was refused.

        Raises:
            EventLogError: The medium failed, and nothing was stored.
        """
        if any(batch.events for batch in batches):
            # A refused batch must not leave an empty store behind.
            if self._environment.is_there() or _any_is_new(batches):
                request = Request(batches)
                self._environment.group.submit(request, self._commit)
                return request.results
            return [_outcome(judged(AbsentLog(), batch)) for batch in batches]
        with self._environment.reading() as reading:
            if reading.databases is None:
                return [_outcome(judged(AbsentLog(), batch)) for batch in batches]
            return [_judged_in(reading.transaction, reading.databases, batch) for batch in batches]

    @contextmanager
    def held(self, session_id: str) -> Iterator[WritableLog]:
        """
        Hold one session against every other writer. What is written is stored at the end.

        Raises:
            StoreBusy: Another process has been writing for too long.
        """
        environment, admissions = self._environment, list[Admission]()

        def store(transaction: lmdb.Transaction[bytes], databases: Databases) -> None:
            feed = Feed(transaction, databases)
            for admission in admissions:
                Log(transaction, databases, session_id).write(admission, feed)

        with (
            unowned(environment.writing),
            environment.writer,
            environment.held(wait_s=self._wait_s),
        ):
            with environment.reading() as reading:
                if reading.databases is None:
                    log: ReadableLog = AbsentLog()
                else:
                    log = Log(reading.transaction, reading.databases, session_id)
                yield _Held(log, admissions)
            if admissions:
                environment.write(store, wait_s=0)

    def _commit(self, leader: Request) -> None:
        group = self._environment.group
        taken: list[Request] = []
        try:
            try:
                self._store(leader, taken)
            except Exception:
                if len(taken) < 2:
                    raise
                # One of them was too much for the medium. The others may not be.
                group.put_back(taken[1:])
                taken = [leader]
                self._store(leader, taken)
            group.finish(taken)
        except BaseException:
            group.put_back(taken[1:])
            raise

    def _store(self, leader: Request, taken: list[Request]) -> None:
        """Store *taken*; where nothing is taken yet, what is waiting when all is ready."""

        def store(
            transaction: lmdb.Transaction[bytes], databases: Databases
        ) -> list[list[Outcome]]:
            if not taken:
                taken.extend(self._environment.group.take(leader))
            feed = Feed(transaction, databases)
            return [
                [_stored(transaction, databases, feed, batch) for batch in request.batches]
                for request in taken
            ]

        waited_s = monotonic() - leader.asked_at
        outcomes = self._environment.write(store, wait_s=self._wait_s - waited_s)
        for request, results in zip(taken, outcomes, strict=True):
            request.results = results


def _stored(
    transaction: lmdb.Transaction[bytes], databases: Databases, feed: Feed, batch: Batch
) -> Outcome:
    # Judged before anything is put, so that a refused batch leaves the others alone.
    try:
        log = Log(transaction, databases, batch.header.id)
    except EventLogError as error:
        return error
    admission = judged(log, batch)
    if isinstance(admission, Admission) and admission.events:
        log.write(admission, feed)
    return _outcome(admission)


def _judged_in(transaction: lmdb.Transaction[bytes], databases: Databases, batch: Batch) -> Outcome:
    try:
        return _outcome(judged(Log(transaction, databases, batch.header.id), batch))
    except EventLogError as error:
        return error


def judged(log: ReadableLog, batch: Batch) -> Admission | EventLogError:
    """Return what *batch* adds to *log*, or why it is refused."""
    try:
        return admit(log, batch)
    except EventLogError as error:
        return error
    except Damaged as damage:
        return corrupt(batch.header.id, "row", damage)


def _outcome(admission: Admission | EventLogError) -> Outcome:
    return admission.length if isinstance(admission, Admission) else admission


def _any_is_new(batches: Sequence[Batch]) -> bool:
    """Tell whether an empty store would take any of *batches*."""
    return any(
        isinstance(admission, Admission) and admission.events
        for admission in (judged(AbsentLog(), batch) for batch in batches)
    )


class _Held:
    """A log that is read at once and written later."""

    def __init__(self, log: ReadableLog, admissions: list[Admission]) -> None:
        self.header = log.header
        self.length = log.length
        self.deleted = log.deleted
        self.tables = log.tables
        self.read = log.read
        self.write = admissions.append
