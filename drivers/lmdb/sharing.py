"""
One environment a path and process, and what a fork does to it.
"""

from __future__ import annotations

import os
from threading import RLock
from weakref import WeakValueDictionary

from .environment import Environment
from .group import GroupCommit
from .handle import Settings

__all__ = ["SharedEnvironment", "acquire", "release"]


class SharedEnvironment(Environment):
    """
    An environment that counts its stores.

    Attributes:
        users: How many stores use it.

        group: Where their appends meet.
    """

    def __init__(self, settings: Settings) -> None:
        self.users = 0
        super().__init__(settings)

    def _begin_process(self) -> None:
        super()._begin_process()
        self.group = GroupCommit(self.writer, self.writing)


# Stores that are dropped without being closed take their environment with them.
_environments: WeakValueDictionary[str, SharedEnvironment] = WeakValueDictionary()
_lock = RLock()


def acquire(settings: Settings) -> SharedEnvironment:
    """
    Return the environment of a path, the same for all who ask.

    The first one's settings count. Give it back with :func:`release`.
    """
    with _lock:
        environment = _environments.get(settings.path)
        if environment is None:
            environment = _environments[settings.path] = SharedEnvironment(settings)
        environment.users += 1
        return environment


def release(environment: SharedEnvironment) -> None:
    """Give an environment back. The last one closes its files."""
    with _lock:
        environment.users -= 1
        if environment.users == 0:
            _environments.pop(environment.path, None)
            environment.close()


def _before_fork() -> None:
    _lock.acquire()
    for environment in list(_environments.values()):
        environment.before_fork()


def _after_fork_in_parent() -> None:
    for environment in list(_environments.values()):
        environment.after_fork_in_parent()
    _lock.release()


def _after_fork_in_child() -> None:
    global _lock
    _lock = RLock()
    for environment in list(_environments.values()):
        environment.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
