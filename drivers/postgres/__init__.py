"""
The store in PostgreSQL: for sessions that many machines write and read.

- :mod:`~.url`: where a store is, and what may be said of that
- :mod:`~.schema`: the tables, how they come to be, and whose they are
- :mod:`~.connections`, :mod:`~.failures`: connections, and what goes wrong with them
- :mod:`~.records`: events and headers as rows
- :mod:`~.tables`: a session's surface as rows
- :mod:`~.logs`, :mod:`~.writing`: what appending and deleting write
- :mod:`~.verifying`, :mod:`~.repairing`: damage found and mended
- :mod:`~.store`: the store itself

Needs the extra ``postgres``; nothing else of the library imports this package.
"""

from eventlog.errors import MissingExtra

try:
    import psycopg  # noqa: F401 - asked for here, so that the error names the extra
except ImportError as error:
    raise MissingExtra("postgres", 'pip install "agent-eventlog[postgres]"') from error

from .store import PostgresStore, open_url

__all__ = ["PostgresStore", "open_url"]
