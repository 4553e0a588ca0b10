"""
The life of an index's file: opening it, holding it for one process to write, noticing
that it is broken or was replaced, and making it anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import RLock
from typing import Any, Final, TypeVar

from eventlog.vocabulary import Vocabulary

from ..errors import Code, SessionQueryError
from .database import CANTOPEN, Database, DatabaseFailure, Engine
from .layout import ForeignDatabase, check_whole, clear, ensure, generation
from .location import FileLock, make_private
from .writing import IndexWriter

__all__ = ["IndexFile", "failed"]

OPEN_WAIT_S: Final = 10.0

T = TypeVar("T")


class IndexFile:
    """
    One index's database, opened when it is first used. Every method may be called from
    any thread.

    Args:
        path: The file; None, and a place that cannot be written, is memory.

        identity: What it must have been built with.

        vocabulary: What writes into it.

        wait_s: How long to wait for another process that writes, seconds.

        engine: Which module of SQLite; None is the best there is.

    Attributes:
        path: The file, None once it is memory.

        builds: How often the database was made or replaced under this object.
    """

    def __init__(
        self,
        path: Path | None,
        identity: str,
        vocabulary: Vocabulary,
        *,
        wait_s: float,
        engine: Engine | None,
    ) -> None:
        self.path = path
        self.wait_s = wait_s
        self.builds = 0
        self._identity = identity
        self._vocabulary = vocabulary
        self._engine = engine
        self._lock = RLock()
        self._db: Database | None = None
        self._writer: IndexWriter | None = None
        self._pid = 0
        self._file_key: tuple[int, int] | None = None
        self._seen_version = 0
        self._is_broken = False
        self._is_closed = False

    def run(self, work: Callable[[Database, IndexWriter], T]) -> T:
        """
        Do *work* on the database, alone among the threads of this process. Where it turns
        out to be broken, it is made anew and *work* is done once more.

        Raises:
            SessionQueryError: INDEX_FAILED. What *work* raises otherwise passes through.
        """
        with self._lock:
            try:
                return work(*self._opened())
            except DatabaseFailure as failure:
                self._given_up(failure)
                if not failure.is_broken and not failure.is_unwritable:
                    raise failed(str(failure)) from failure
            try:
                return work(*self._opened())
            except DatabaseFailure as failure:
                self._given_up(failure)
                raise failed(str(failure)) from failure

    @contextmanager
    def writing(self) -> Iterator[bool]:
        """
        Hold the index against every other writer, inside :meth:`run`.

        What was not committed when the block raises is forgotten.

        Yields:
            Whether it is held: not where another process went on writing.
        """
        db, writer = self._opened()
        if self.path is None:
            with _committed(writer):
                yield True
            return
        with self._locked("lock", self.wait_s) as held:
            if not held:
                yield False
                return
            version = db.value("PRAGMA data_version")
            if version != self._seen_version:
                check_whole(db)
                writer.forget()
                self._seen_version = version
            with _committed(writer):
                yield True

    def discard(self) -> bool:
        """
        Take the file away, so that nothing of what it held is left, and begin anew. Tell
        whether that could be done: not where another process went on writing.

        Raises:
            SessionQueryError: INDEX_FAILED: it cannot be taken away.
        """
        with self._lock:
            self.run(lambda *_: None)
            if not self._remove():
                return False
            self.run(lambda *_: None)
            return True

    def clear(self) -> None:
        """Take out everything, inside :meth:`writing`."""
        db, writer = self._opened()
        writer.abort()
        with db.transaction():
            clear(db, self._identity)
        self.builds += 1

    def read(self, statement: str, values: Sequence[object], *, build: str) -> list[Any]:
        """
        Return rows for a match that is drawn long after :meth:`run`.

        Args:
            build: The generation of then.

        Raises:
            SessionQueryError: INDEX_FAILED: it broke, or was made anew since, be it by
                another process: numbers mean other sessions then.
        """
        with self._lock:
            if self._db is not None and self._pid == os.getpid():
                try:
                    rows = self._db.execute(statement, values)
                    if generation(self._db) == build:
                        return rows
                except DatabaseFailure as failure:
                    self._given_up(failure)
                    raise failed(str(failure)) from failure
            raise failed("it was built anew meanwhile")

    def close(self) -> None:
        """Close the database. Closing twice is harmless."""
        with self._lock:
            self._is_closed = True
            self._shut()

    def _opened(self) -> tuple[Database, IndexWriter]:
        if self._is_closed:
            raise failed("it is closed")
        if self._db is not None and self._pid != os.getpid():
            self._db.abandon()
            self._db = None
        if self._is_broken:
            self._is_broken = False
            self._remove()
        if self._db is not None and self.path is not None and _key(self.path) != self._file_key:
            self._shut()  # deleted or replaced under us
        if self._db is None:
            self._open()
        assert self._db is not None
        assert self._writer is not None
        return self._db, self._writer

    def _open(self) -> None:
        if self.path is not None and not make_private(self.path):
            self.path = None
        if self.path is None:
            self._start(Database(":memory:", engine=self._engine))
            return
        # Under a lock, so that nobody opens what another process is just taking away.
        with self._locked("open", OPEN_WAIT_S):
            make_private(self.path)
            self._start(Database(os.fspath(self.path), engine=self._engine))
            self._file_key = _key(self.path)

    def _start(self, db: Database) -> None:
        try:
            ensure(db, self._identity)
        except ForeignDatabase:
            db.close()
            raise failed(f"{self.path} is a database of something else; it is left alone") from None
        except DatabaseFailure:
            # Kept open under its key, so that it is known which file is broken.
            self._file_key = None if self.path is None else _key(self.path)
            db.close()
            raise
        self._db = db
        self._writer = IndexWriter(db, self._vocabulary)
        self._pid = os.getpid()
        self._seen_version = db.value("PRAGMA data_version")
        self.builds += 1

    def _given_up(self, failure: DatabaseFailure) -> None:
        """Close after a failure, and note what to do about it when it is next opened."""
        self._is_broken = failure.is_broken
        if failure.is_unwritable:
            self.path = None
        if failure.is_broken or failure.is_unwritable:
            self._shut()
        elif self._writer is not None:
            _abort(self._writer)

    def _remove(self) -> bool:
        """
        Take the file away, unless somebody else has made it anew already. Tell whether it
        is another one now.
        """
        self._shut()
        if self.path is None:
            return True
        try:
            with (
                self._locked("lock", self.wait_s) as held,
                self._locked("open", OPEN_WAIT_S) as alone,
            ):
                if held and alone and _key(self.path) == self._file_key:
                    for name in (f"{self.path}-wal", f"{self.path}-shm", self.path):
                        if os.path.exists(name):
                            os.unlink(name)
                return held and alone
        except (OSError, DatabaseFailure) as error:
            raise failed(f"{self.path} cannot be replaced: {error}") from error

    def _shut(self) -> None:
        if self._writer is not None:
            _abort(self._writer)
        if self._db is not None:
            self._db.close()
        self._db = self._writer = None

    @contextmanager
    def _locked(self, ending: str, wait_s: float) -> Iterator[bool]:
        """
        Hold the lock beside the file, or go on without it.

        Raises:
            DatabaseFailure: There can be none, so the file cannot be written either.
        """
        assert self.path is not None
        path = self.path.with_suffix(f".{ending}")
        with ExitStack() as stack:
            try:
                held = stack.enter_context(FileLock(path).held(wait_s=wait_s))
            except OSError as error:
                raise DatabaseFailure(CANTOPEN, f"{path} cannot be locked: {error}") from error
            yield held


def failed(reason: str) -> SessionQueryError:
    """Return the error of an index that cannot answer."""
    return SessionQueryError(Code.INDEX_FAILED, f"the search index failed: {reason}")


@contextmanager
def _committed(writer: IndexWriter) -> Iterator[None]:
    try:
        yield
        writer.commit()
    except BaseException:
        _abort(writer)
        raise


def _abort(writer: IndexWriter) -> None:
    try:
        writer.abort()
    except DatabaseFailure:
        pass  # the database is gone, and what was not committed with it


def _key(path: Path) -> tuple[int, int] | None:
    """What tells a file from another one at its path; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
