"""
The embedded index: SQLite's FTS5 in a cache file, or in memory.

An answer is never silently stale: a search first brings the index up to what it is asked
about. The file is derived and may be lost: a broken one is built anew, and one that is a
database of something else is refused. One process writes at a time; the others wait for
it, and then read what there is and say what is missing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from weakref import ref

from attrs import frozen

from eventlog.model import Fault
from eventlog.store import EventStore
from eventlog.vocabulary import Vocabulary

from ..corpus import LiveSource
from ..corpus_snapshot import CorpusSnapshot
from ..errors import SessionQueryError, check_cancel, told
from .analyzer import ANALYZER
from .catching_up import CatchUp
from .database import Database, DatabaseFailure, Engine
from .family import Relative, relatives
from .index_file import IndexFile, failed
from .index_tables import IndexTables
from .layout import LAYOUT, generation
from .lexicon import IndexLexicon
from .limits import Narrowing, narrowing
from .narrowing import SessionScope
from .provider import Answer, CorpusRequest, Match, SearchProvider, SessionRequest, Sort
from .ranking import Read, newest, ranked, ranked_by_time
from .spelling import Spelling
from .typos import HAS_RAPIDFUZZ
from .writing import IndexWriter

__all__ = ["EmbeddedIndex", "IndexStatus", "index_identity"]

GONE_MIN: Final = 1_000
"""Fewer hidden documents than that are no reason to build an index anew."""

FACETED_SESSIONS_MAX: Final = 200

Cancel = Callable[[], bool] | None


def index_identity(vocabulary: Vocabulary) -> str:
    """Return what an index depends on besides its store."""
    return f"layout {LAYOUT}, analyzer {ANALYZER}, vocabulary {vocabulary.fingerprint}"


@frozen
class IndexStatus:
    """
    What an index holds.

    Attributes:
        path: Its file, None for one in memory.

        size_bytes: The size of the file, 0 in memory.

        sessions: How many sessions are indexed.

        documents: How many documents.

        hidden: How many more the file holds that are gone from the store.

        faults: What could not be read.
    """

    path: str | None
    size_bytes: int
    sessions: int
    documents: int
    hidden: int
    faults: tuple[Fault, ...]


class EmbeddedIndex(SearchProvider):
    """
    Full-text search in one SQLite file, or in memory.

    Args:
        path: The file, made with mode 0600 in a folder with mode 0700. None, and a place
            that cannot be written, is memory.

        vocabulary: What the text of an event is.

        wait_s: How long to wait for another process that writes, seconds.

        engine: Which module of SQLite; None is the best there is.
    """

    index_backed = True

    def __init__(
        self,
        path: Path | None,
        vocabulary: Vocabulary,
        *,
        wait_s: float = 10.0,
        engine: Engine | None = None,
    ) -> None:
        self.fuzzy = HAS_RAPIDFUZZ
        identity = index_identity(vocabulary)
        self._file = IndexFile(path, identity, vocabulary, wait_s=wait_s, engine=engine)
        # The store that the present build of the file was compared with as a whole.
        self._verified: tuple[int, ref[EventStore]] | None = None

    def search_session(
        self, open_log: Callable[[], CorpusSnapshot], request: SessionRequest
    ) -> Answer:
        def answer(db: Database, writer: IndexWriter) -> Answer:
            log = open_log()
            known = writer.find(log.session_id)
            if known is None or known.length != log.length or not writer.continues(known, log):
                with self._file.writing() as held:
                    if not held:
                        raise failed("another process is writing it")
                    # Opened again: what another process has indexed meanwhile is in it.
                    log = open_log()
                    with _told(log.session_id):
                        CatchUp(db, writer, _ticking(request.cancel)).session(log)
            build = generation(db)  # before the numbers that it gives a meaning to
            known = writer.find(log.session_id)
            if known is None:
                raise failed("the session was taken out meanwhile")
            tables = IndexTables(db)
            kinds = tables.kinds(request.documents.types)
            length = log.length if request.length is None else request.length
            limits = narrowing(request.documents, as_of=length, sid=known.sid, kinds=kinds)
            read = self._reader(build)
            searched = tables.session_documents(known.sid, kinds, request.documents.below(length))
            lexicon = IndexLexicon(read, limits, searched=searched, hidden=tables.hidden > 0)
            spelling = Spelling(lexicon, request.spelling)
            return Answer(
                self._session_matches(read, request, limits, spelling),
                searched,
                min(known.length, length),
                tables.faults(log.session_id),
                lambda: limits.windowed,
                lambda: spelling.facts,
            )

        return self._file.run(answer)

    def search_corpus(self, source: EventStore | LiveSource, request: CorpusRequest) -> Answer:
        def answer(db: Database, writer: IndexWriter) -> Answer:
            covered = self._catch_up(db, writer, source, request.cancel)
            build = generation(db)
            tables = IndexTables(db)
            mark = tables.state("position") if request.mark is None else request.mark
            kinds = tables.kinds(request.documents.types)
            sids = tables.sids(request.sessions)
            few = sids is not None and len(sids) <= FACETED_SESSIONS_MAX
            limits = narrowing(
                request.documents, as_of=mark, sids=sids if few else None, kinds=kinds
            )
            if sids is not None and not few:
                limits.condition += " AND d.sid IN (SELECT value FROM json_each(?))"
                limits.values.append(json.dumps(sorted(sids)))
            excluded = frozenset(tables.numbers(request.excluded).values())
            read = self._reader(build)
            searched = tables.documents(sids, kinds, excluded)
            lexicon = IndexLexicon(read, limits, searched=searched, hidden=tables.hidden > 0)
            spelling = Spelling(lexicon, request.spelling)
            faults = tables.faults()
            if not covered and isinstance(source, EventStore):
                with _told():
                    catch_up = CatchUp(db, writer, _ticking(request.cancel))
                    faults = (*faults, *catch_up.missing(source, verify=self._is_new(source)))
            return Answer(
                self._corpus_matches(read, request, limits, excluded, spelling),
                searched,
                mark,
                faults,
                lambda: limits.windowed,
                lambda: spelling.facts,
                build,
                lambda: self._file.run(lambda db, _: IndexTables(db).frequencies(request.query)),
            )

        return self._file.run(answer)

    def family(self, scope: SessionScope, session_ids: Collection[str] = ()) -> list[Relative]:
        return self._file.run(lambda db, _: relatives(db.execute, scope, session_ids))

    def sessions_before(self, mark: int) -> set[str]:
        """Return the sessions that had a document before *mark*."""
        statement = (
            "SELECT s.id FROM session s"
            " WHERE EXISTS (SELECT 1 FROM doc d WHERE d.sid = s.sid AND d.id < ?)"
        )
        rows = self._file.run(lambda db, _: db.execute(statement, (mark,)))
        return {session_id for (session_id,) in rows}

    def update(self, source: EventStore | LiveSource, *, cancel: Cancel = None) -> bool:
        """
        Bring the index up to *source*; tell whether that could be done, or another
        process was writing it all the while.

        Raises:
            SessionQueryError: INDEX_FAILED; ABORTED; what the source raises, by its code.
        """
        return self._file.run(lambda db, writer: self._catch_up(db, writer, source, cancel))

    def rebuild(self, source: EventStore | LiveSource, *, cancel: Cancel = None) -> bool:
        """
        Build the index anew, in a new file: nothing of what is gone from the source is left.

        Returns and raises as :meth:`update` does.
        """
        if not self._file.discard() or not self.update(source, cancel=cancel):
            return False
        self._file.run(lambda db, _: db.execute("PRAGMA wal_checkpoint(TRUNCATE)"))
        return True

    def status(self) -> IndexStatus:
        """Return what the index holds, as it is: it is not brought up first."""

        def status(db: Database, _: IndexWriter) -> IndexStatus:
            tables = IndexTables(db)
            path = self._file.path
            names = () if path is None else (os.fspath(path), f"{path}-wal")
            return IndexStatus(
                None if path is None else os.fspath(path),
                sum(os.path.getsize(name) for name in names if os.path.exists(name)),
                db.value("SELECT count(*) FROM session"),
                tables.state("docs"),
                tables.hidden,
                tables.faults(),
            )

        return self._file.run(status)

    def close(self) -> None:
        self._file.close()

    def _catch_up(
        self, db: Database, writer: IndexWriter, source: EventStore | LiveSource, cancel: Cancel
    ) -> bool:
        """Bring the index up to *source*, as far as nobody else is writing it."""
        with self._file.writing() as held, _told():
            if not held:
                return False
            tables = IndexTables(db)
            if tables.hidden > max(GONE_MIN, tables.state("docs")):
                self._file.clear()
            catch_up = CatchUp(db, writer, _ticking(cancel))
            if isinstance(source, EventStore):
                catch_up.store(source, verify=self._is_new(source))
                self._verified = (self._file.builds, ref(source))
            else:
                catch_up.live(source)
            return True

    def _is_new(self, store: EventStore) -> bool:
        return self._verified != (self._file.builds, ref(store))

    def _reader(self, build: str) -> Read:
        def read(statement: str, values: Sequence[object]) -> list[Any]:
            return self._file.read(statement, values, build=build)

        return read

    def _session_matches(
        self, read: Read, request: SessionRequest, limits: Narrowing, spelling: Spelling
    ) -> Iterator[Match]:
        if request.documents.is_empty:
            return iter(())
        if request.query.whole is None:
            return newest(read, limits, request.place)
        rank = ranked if request.sort is Sort.RELEVANCE else ranked_by_time
        return rank(read, request.query, limits, spelling, request.place)

    def _corpus_matches(
        self,
        read: Read,
        request: CorpusRequest,
        limits: Narrowing,
        excluded: frozenset[int],
        spelling: Spelling,
    ) -> Iterator[Match]:
        """The best match of each session that is still wanted."""
        if request.documents.is_empty:
            return
        done = limits.done = {*excluded, *request.given}
        limits.scale = request.scale()
        seqs = request.limits()
        numbers = self._file.run(lambda db, _: IndexTables(db).numbers(seqs))
        limits.limits = {sid: seqs[session_id] for session_id, sid in numbers.items()}
        for match in ranked(read, request.query, limits, spelling, request.place):
            if match.number not in done and (request.accept is None or request.accept(match)):
                done.add(match.number)
                check_cancel(request.cancel)
                yield match


@contextmanager
def _told(session_id: str | None = None) -> Iterator[None]:
    """Tell what a source raises in codes; the index's own failures pass through."""
    try:
        yield
    except (DatabaseFailure, SessionQueryError):
        raise
    except Exception as error:
        raise told(error, session_id) from error


def _ticking(cancel: Cancel) -> Callable[[], None]:
    return lambda: check_cancel(cancel)
