"""
The store in LMDB: one memory-mapped environment, many readers, one writer at a time.

- :mod:`~.layout`: the databases, byte by byte
- :mod:`~.handle`, :mod:`~.environment`, :mod:`~.sharing`: the files, transactions, growth, forks
- :mod:`~.gate`, :mod:`~.writer_lock`: who may enter when
- :mod:`~.group`, :mod:`~.appending`, :mod:`~.removal`: what writes
- :mod:`~.logs`, :mod:`~.tables`: one session's rows
- :mod:`~.store`: the store itself
"""

from .store import LmdbStore, open_url

__all__ = ["LmdbStore", "open_url"]
