"""
Group commit: appends that come while another one is being made durable share the next commit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock, RLock
from time import monotonic
from typing import Final

from eventlog.errors import EventLogError
from eventlog.locks import unowned
from eventlog.model import Batch

__all__ = ["GroupCommit", "Request"]

GROUP_EVENTS_MAX: Final = 8192

# Who waits is woken. An interrupt may tear a wake away, so one looks up as well.
LOOK_S: Final = 0.5


class Request:
    """
    Batches that one thread wants to have stored.

    Attributes:
        batches: The batches.

        results: For each batch the next free seq or its error, once it is done.

        asked_at: When it was made, in monotonic seconds.

        events: How many events it has in all.

        is_done: Whether it was stored or refused.

        is_abandoned: Whether nobody waits for it any more.

        wake: Locked while its thread sleeps. With one lock for all, each of them would
            be woken to find that most have to go on waiting.
    """

    __slots__ = ("asked_at", "batches", "events", "is_abandoned", "is_done", "results", "wake")

    def __init__(self, batches: Sequence[Batch]) -> None:
        self.batches = batches
        self.results: list[int | EventLogError] = []
        self.asked_at = monotonic()
        self.events = sum(len(batch.events) for batch in batches)
        self.is_done = False
        self.is_abandoned = False
        self.wake = Lock()


class GroupCommit:
    """
    The queue in front of the writer.

    A thread that finds the writer free leads: it commits its own request and all that
    are waiting by then. The others sleep until their request is done or the writer is
    free for one of them.

    An interrupt may strike between any two steps of Python, but not inside ``with`` on a
    lock. So the writer is such a lock, and all else can be done twice or left undone: a
    request that is stored a second time is a retry, and a sleeper looks up by itself.

    Args:
        writer: Held by the leader; and by whoever else writes.

        writing: Held with it, before it; reentrant.
    """

    def __init__(self, writer: Lock, writing: RLock) -> None:
        self._writer = writer
        self._writing = writing
        self._queue: deque[Request] = deque()

    def submit(self, request: Request, commit: Callable[[Request], None]) -> None:
        """
        Have *request* committed, here or by another thread.

        Args:
            commit: Commits the request that it gets with others from :meth:`take`, and
                hands all of them to :meth:`finish`. What it raises goes to this caller
                alone; it has put the others back.

        An interrupt is raised when it is certain whether *request* was stored.

        Raises:
            StoreBusy: This call interrupts a write of its own thread.
        """
        unowned(self._writing)
        leads = False
        request.wake.acquire()
        self._queue.append(request)
        try:
            while not request.is_done:
                if self._writer.locked():
                    request.wake.acquire(timeout=LOOK_S)
                    continue
                with self._writing, self._writer:
                    if not request.is_done:
                        leads = True
                        commit(request)
        except BaseException:
            request.is_abandoned = True
            if not leads:
                with self._writing, self._writer, suppress(ValueError):
                    self._queue.remove(request)
            raise
        finally:
            # After the writer was freed, not before: a thread that finds it taken until
            # then, and goes to sleep, is in the queue already.
            if self._queue and not self._writer.locked():
                with suppress(IndexError):
                    _wake(self._queue[0])

    def take(self, leader: Request) -> list[Request]:
        """Return the *leader*'s request and those that are waiting, as many as fit."""
        taken, events, queue = [leader], leader.events, self._queue
        with suppress(ValueError):
            queue.remove(leader)
        while queue and events + queue[0].events <= GROUP_EVENTS_MAX:
            request = queue.popleft()
            if not request.is_abandoned:
                taken.append(request)
                events += request.events
        return taken

    def finish(self, requests: Sequence[Request]) -> None:
        """Wake those whose *requests* are done."""
        for request in requests:
            request.is_done = True
            _wake(request)

    def put_back(self, requests: Sequence[Request]) -> None:
        """Queue those of *requests* that are not done again, in front."""
        self._queue.extendleft(request for request in reversed(requests) if not request.is_done)


def _wake(request: Request) -> None:
    # It may be awake already: by its own patience, or because it leads.
    with suppress(RuntimeError):
        request.wake.release()
