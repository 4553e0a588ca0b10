"""
Which engine searches what: an index for the store, one in memory for live sessions, and
reading where there is none.
"""

from __future__ import annotations

from threading import Lock
from weakref import WeakKeyDictionary

from eventlog.errors import MissingExtra
from eventlog.store import EventStore
from eventlog.vocabulary import Vocabulary

from ..errors import Code, SessionQueryError
from .index import EmbeddedIndex, index_identity
from .location import index_path
from .provider import SearchProvider
from .scan import ScanProvider

__all__ = ["Engines", "check_for_corpus", "store_index"]

INSTALL_SEARCH = 'pip install "agent-eventlog[search]"'


def store_index(
    store: EventStore, vocabulary: Vocabulary, *, wait_s: float = 10.0
) -> EmbeddedIndex:
    """
    Return the default index of a store: a file in the user's cache folder, in memory where
    the store itself is not durable or there is no such folder.
    """
    return EmbeddedIndex(index_path(store, index_identity(vocabulary)), vocabulary, wait_s=wait_s)


class Engines:
    """
    The engines of one :class:`~eventlog.query.SessionQuery`, made when they are first used.

    Args:
        vocabulary: What the text of an event is.

        provider: The engine of stored sessions; None is the default index of each store.
    """

    def __init__(self, vocabulary: Vocabulary, provider: SearchProvider | None) -> None:
        self._vocabulary = vocabulary
        self._provider = provider
        self._lock = Lock()
        self._live: EmbeddedIndex | None = None
        # Weakly, since a running search keeps a store that was unmounted meanwhile.
        self._stored: WeakKeyDictionary[EventStore, EmbeddedIndex] = WeakKeyDictionary()

    def scan(self) -> SearchProvider:
        """Return the engine that needs no index."""
        return ScanProvider(self._vocabulary)

    def in_session(self, *, is_live: bool, store: EventStore | None) -> SearchProvider:
        """Return the engine for one session."""
        if self._provider is not None and not self._provider.index_backed:
            return self._provider
        if is_live or store is None:
            return self.live()
        return self.stored(store)

    def live(self) -> EmbeddedIndex:
        """Return the index of live sessions, in memory."""
        with self._lock:
            if self._live is None:
                self._live = EmbeddedIndex(None, self._vocabulary)
            return self._live

    def stored(self, store: EventStore) -> SearchProvider:
        """Return the engine of a store."""
        if self._provider is not None:
            return self._provider
        with self._lock:
            index = self._stored.get(store)
            if index is None:
                index = self._stored[store] = store_index(store, self._vocabulary)
            return index

    def close(self) -> None:
        """Close the engines that were made here. They are made anew if used again."""
        with self._lock:
            if self._live is not None:
                self._live.close()
            for index in self._stored.values():
                index.close()
            self._live = None
            self._stored.clear()


def check_for_corpus(engine: SearchProvider) -> None:
    """
    Refuse an engine that cannot search many sessions well.

    Raises:
        SessionQueryError: INVALID_CONFIG: it has no index, or forgives no typos; the cause
            names the extra where one is missing.
    """
    if not engine.index_backed:
        raise SessionQueryError(
            Code.INVALID_CONFIG,
            "this search engine has no index: it would read every log; it searches one session",
        )
    if not engine.fuzzy:
        missing = MissingExtra("search", INSTALL_SEARCH)
        raise SessionQueryError(
            Code.INVALID_CONFIG, f"searching many sessions forgives typos: {missing}"
        ) from missing
