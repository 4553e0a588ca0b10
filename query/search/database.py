"""
SQLite, by whichever module there is: ``apsw`` where it is installed, which brings a newer
SQLite, else the standard library's. Both work on the same file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Literal, TypeAlias
from weakref import finalize

__all__ = ["CANTOPEN", "CORRUPT", "Database", "DatabaseFailure", "Engine"]

Engine: TypeAlias = Literal["apsw", "sqlite3"]
Row: TypeAlias = tuple[Any, ...]

# Result codes of SQLite, the same in both modules.
READONLY, IOERR, CORRUPT, CANTOPEN, CONSTRAINT, NOTADB = 8, 10, 11, 14, 19, 26
ERROR: Final = 1
IOERR_SHORT_READ: Final = IOERR | (2 << 8)


class DatabaseFailure(Exception):
    """
    SQLite failed.

    Attributes:
        code: Its extended result code.

        detail: Its message.
    """

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail

    @property
    def is_broken(self) -> bool:
        """
        Whether the file does not hold what it should. A statement that fails to compile
        is taken for it too: its table is gone; and so is one that breaks a constraint, as
        one writer at a time never does.
        """
        broken = (CORRUPT, NOTADB, ERROR, CONSTRAINT)
        return self.code & 0xFF in broken or self.code == IOERR_SHORT_READ

    @property
    def is_unwritable(self) -> bool:
        """Whether the place cannot be written."""
        return self.code & 0xFF in (READONLY, CANTOPEN)

    def __str__(self) -> str:
        return f"{self.detail} (SQLite {self.code})"


class Database:
    """
    One connection. Not thread-safe: the owner locks.

    Args:
        path: The file, created if missing; ``":memory:"`` is a database of its own.

        busy_ms: How long a statement waits for another process.

        engine: Which module; None is the best there is.

    Raises:
        DatabaseFailure: It cannot be opened.
    """

    def __init__(self, path: str, *, busy_ms: int = 2_000, engine: Engine | None = None) -> None:
        if engine is None:
            engine = "apsw" if find_spec("apsw") is not None else "sqlite3"
        self.engine = engine
        if engine == "apsw":
            apsw = import_module("apsw")
            self._errors: tuple[type[Exception], ...] = (apsw.Error,)
        else:
            self._errors = (sqlite3.Error,)
        with self._failures():
            if engine == "apsw":
                self._connection: Any = apsw.Connection(path, statementcachesize=256)
                self._connection.set_busy_timeout(busy_ms)
            else:
                self._connection = sqlite3.connect(
                    path,
                    timeout=busy_ms / 1000,
                    isolation_level=None,
                    check_same_thread=False,
                    cached_statements=256,
                )
        # A connection that is merely dropped is a warning in newer Pythons.
        self._finalizer = finalize(self, self._connection.close)

    def execute(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """Run one statement and return its rows."""
        try:
            return list(self._connection.execute(statement, values))
        except self._errors as error:
            raise _failure(error) from error

    def execute_many(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        """Run one statement for each of *rows*."""
        with self._failures():
            self._connection.cursor().executemany(statement, rows)

    def value(self, statement: str, values: Sequence[object] = ()) -> Any:
        """Return the first column of the first row, None where there is no row."""
        rows = self.execute(statement, values)
        return rows[0][0] if rows else None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what is written inside as one, or nothing of it if it raises."""
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            try:
                self.execute("ROLLBACK")
            except DatabaseFailure:
                pass  # a failed COMMIT may have ended it; the first error counts
            raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold one state of the database for several reads."""
        self.execute("BEGIN")
        try:
            yield
        finally:
            try:
                self.execute("COMMIT")
            except DatabaseFailure:
                pass  # nothing was written

    def close(self) -> None:
        """Close the connection. Closing twice is harmless."""
        if self._finalizer.alive:
            try:
                self._finalizer()
            except self._errors:
                pass  # what is committed is there; nothing else is worth an error

    def abandon(self) -> None:
        """Forget the connection without a word to SQLite: in a forked child."""
        self._finalizer.detach()
        _abandoned.append(self._connection)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            raise _failure(error) from error


def _failure(error: Exception) -> DatabaseFailure:
    code: object = getattr(error, "extendedresult", None)
    code = code or getattr(error, "sqlite_errorcode", None)
    return DatabaseFailure(code if isinstance(code, int) else ERROR, str(error))


# Connections of a parent process: closing one in the child would drop its locks.
_abandoned: list[object] = []
