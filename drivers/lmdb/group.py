"""
Group commit: appends that come while another one is being made durable share the next commit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from threading import Lock
from time import monotonic
from typing import Final

from eventlog.errors import EventLogError
from eventlog.model import Batch

__all__ = ["GroupCommit", "Request"]

GROUP_EVENTS_MAX: Final = 8192


class Request:
    """
    Batches that one thread wants to have stored.

    Attributes:
        batches: The batches.

        results: For each batch the next free seq or its error, once it is stored.

        asked_at: When it was made, in monotonic seconds.
    """

    __slots__ = ("asked_at", "batches", "events", "is_done", "leads", "results", "wake")

    def __init__(self, batches: Sequence[Batch]) -> None:
        self.batches = batches
        self.results: list[int | EventLogError] = []
        self.asked_at = monotonic()
        self.events = sum(len(batch.events) for batch in batches)
        self.is_done = False
        self.leads = False
        # Each waiter sleeps on a lock of its own: with a shared one, all of them would
        # be woken to find that most have to go on waiting.
        self.wake = Lock()


class GroupCommit:
    """
    The queue in front of the writer.

    A thread that finds no other one at work leads: it commits its own request with all
    that are waiting by then. The others sleep until their request is done, or until the
    leader before them hands over.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._queue: deque[Request] = deque()
        self._is_led = False

    def submit(self, request: Request, commit: Callable[[Request], None]) -> None:
        """
        Have *request* committed, here or by another thread.

        Args:
            commit: Commits the request that it gets with others from :meth:`take`, and
                hands all of them to :meth:`finish`. What it raises goes to this caller
                alone; the others that it took are led anew.
        """
        # An interrupt may come between any two steps; _leave sorts out how far it got.
        try:
            with self._lock:
                if self._is_led:
                    request.wake.acquire()
                    self._queue.append(request)
                else:
                    request.leads = True
                    self._is_led = True
            if not request.leads:
                request.wake.acquire()
            if request.leads:
                commit(request)
        finally:
            self._leave(request)

    def take(self, request: Request) -> list[Request]:
        """Return the leader's *request* and those that are waiting, as many as fit."""
        taken = [request]
        events = request.events
        with self._lock:
            while self._queue and events + self._queue[0].events <= GROUP_EVENTS_MAX:
                taken.append(self._queue.popleft())
                events += taken[-1].events
        return taken

    def finish(self, requests: Sequence[Request]) -> None:
        """Wake those whose *requests* are done."""
        for request in requests:
            if request.wake.locked():
                request.wake.release()
            request.is_done = True

    def put_back(self, requests: Sequence[Request]) -> None:
        """Queue those of *requests* that are not done again, in front: their leader gave up."""
        left = [request for request in requests if not request.is_done]
        with self._lock:
            self._queue.extendleft(reversed(left))

    def _leave(self, request: Request) -> None:
        """Hand over to the next, also where an interrupt ended the wait of *request*."""
        with self._lock:
            if not request.leads:
                if not request.is_done and request in self._queue:
                    self._queue.remove(request)
                return
            request.leads = False
            if self._queue:
                heir = self._queue.popleft()
                heir.leads = True
                if heir.wake.locked():
                    heir.wake.release()
            else:
                self._is_led = False
