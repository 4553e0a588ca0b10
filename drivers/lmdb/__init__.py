"""
The store in LMDB: one memory-mapped environment, many readers, one writer at a time.

- :mod:`~.layout`: the databases, byte by byte
- :mod:`~.handle`, :mod:`~.environment`, :mod:`~.sharing`: the files, their growth, and forks
- :mod:`~.reading`: a read transaction
- :mod:`~.gate`, :mod:`~.writer_lock`: who may enter when
- :mod:`~.group`, :mod:`~.appending`, :mod:`~.removal`: what writes
- :mod:`~.logs`, :mod:`~.tables`: one session's rows
- :mod:`~.verifying`, :mod:`~.repairing`, :mod:`~.salvaging`: damage found, mended, avoided
- :mod:`~.store`: the store itself
"""

from .store import LmdbStore, open_url

__all__ = ["LmdbStore", "open_url"]
