"""
Telling observers what happens to live sessions: in order, and without being harmed by them.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from os import getpid
from typing import TYPE_CHECKING, Final

from attrs import frozen

from eventlog.locks import forkable_lock
from eventlog.model import Event

if TYPE_CHECKING:
    from eventlog.session import Session

__all__ = ["Observers", "Outbox"]

logger = logging.getLogger("eventlog.live")


@frozen(eq=False)
class Observer:
    """What one subscription wants to be told."""

    appended: Callable[[Session, Event], object] | None
    created: Callable[[Session], object] | None
    disposed: Callable[[Session], object] | None


class Observers:
    """
    The subscriptions of a :class:`~eventlog.live.LiveSessions`. Thread-safe.

    Attributes:
        current: The subscriptions, in the order in which they were made.
    """

    __slots__ = ("current",)

    def __init__(self) -> None:
        # Adding and taking away are one step each, which needs no lock.
        self.current: dict[Observer, None] = {}

    def add(self, observer: Observer) -> Callable[[], None]:
        """Subscribe, and return what ends the subscription; ending twice is harmless."""
        self.current[observer] = None

        def unsubscribe() -> None:
            self.current.pop(observer, None)

        return unsubscribe


@frozen
class Milestone:
    """Something that happens to a session as a whole."""

    name: str


CREATED: Final = Milestone("created")
DISPOSED: Final = Milestone("disposed")


class Outbox:
    """
    What happened to one session and was not told yet.

    Entries are put under the session's lock, so they are in log order. They are told
    outside it, by one thread at a time: whoever finds another thread telling leaves its
    entry to that one. An observer that appends to the session it is told about is such
    a case, which makes that safe, and ordered for every observer.
    """

    __slots__ = ("_guard", "_observers", "_pending", "_session", "_telling")

    def __init__(self, session: Session, observers: Observers) -> None:
        self._session = session
        self._observers = observers
        self._pending: deque[Event | Milestone] = deque()
        # The process in which a thread is telling: a forked child does not have that thread.
        self._telling: int | None = None
        self._guard = forkable_lock()

    def put(self, entry: Event | Milestone) -> None:
        """Add an entry to be told. Nobody listening, nothing is kept."""
        if self._observers.current:
            self._pending.append(entry)

    def tell(self) -> None:
        """
        Tell all entries, unless another thread is at it or an observer up the stack.

        Exceptions of observers are logged. One that is no :class:`Exception`, such as
        Ctrl-C, is raised once every observer has been told of the entry in hand; the
        rest is told by the next call.
        """
        # After the flag falls the queue is looked at again: an entry may have come from
        # a thread that saw the flag still up.
        while self._pending:
            ours = False
            try:
                process = getpid()
                with self._guard:
                    if self._telling != process:
                        # No signal handler runs between the two stores.
                        self._telling, ours = process, True
                if not ours:
                    return
                while self._pending:
                    self._tell_one(self._pending.popleft())
            finally:
                if ours:
                    self._telling = None

    def _tell_one(self, entry: Event | Milestone) -> None:
        interrupt: BaseException | None = None
        session = self._session
        for observer in list(self._observers.current):
            try:
                if type(entry) is Event:
                    if observer.appended is not None:
                        observer.appended(session, entry)
                elif entry is CREATED:
                    if observer.created is not None:
                        observer.created(session)
                elif observer.disposed is not None:
                    observer.disposed(session)
            except Exception:
                logger.exception("an observer failed on %r of session %r", entry, session.id)
            except BaseException as raised:
                interrupt = raised
        if interrupt is not None:
            raise interrupt
