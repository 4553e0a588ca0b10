"""
What a driver's author fills in, and what all parts of the contract use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

import pytest

from eventlog.codec import encode_line
from eventlog.model import Batch, Event, EventClass, HeadKey, SessionHead, SessionHeader
from eventlog.snapshot import LogSnapshot
from eventlog.store import EventStore
from eventlog.testing.naive import NaiveSurface
from eventlog.testing.samples import make_header, messages

__all__ = ["ContractBase", "lines_of", "read_all", "surface_facts", "walk_heads"]


class ContractBase:
    """
    The part of :class:`~eventlog.testing.StoreContract` that a driver's author fills in.

    Attributes:
        reopens: Whether a store opened where another one was holds what that one held.
            False for stores that are gone with their object.

        raw_form: What the medium keeps of the lines that :meth:`raw_write` plants:
            ``"text"``, a file of these bytes, so that a torn line can be planted too;
            ``"lines"``, each record as its line, well-formed or not; ``"rows"``, each
            record in a form of the driver's own, so that only good ones can be planted.

        volatile_files: Names of files below the root that a read may change, such as a
            table of readers.

        scanned: Which of ``"children"`` and ``"changes"`` the driver answers by reading
            every head, as the defaults do; their cost is not held against it.

        storage_factor_max: What 1 MB of events may take on the medium, in MB.

        threads: How many threads append at once.

        appends_a_thread: How many events each of them appends.

        appends_in_a_row: How many single appends the tests with an odd clock make.

        short_log_events: The length of the shorter log of the cost bounds.

        long_log_events: The length of the longer one.

        crowd_sessions: How many sessions the larger listing has; at least 200.
    """

    reopens: ClassVar[bool] = True
    raw_form: ClassVar[Literal["text", "lines", "rows"]] = "rows"
    volatile_files: ClassVar[frozenset[str]] = frozenset()
    scanned: ClassVar[frozenset[str]] = frozenset()
    storage_factor_max: ClassVar[float] = 2.0
    threads: ClassVar[int] = 16
    appends_a_thread: ClassVar[int] = 10
    appends_in_a_row: ClassVar[int] = 100
    short_log_events: ClassVar[int] = 1_000
    long_log_events: ClassVar[int] = 10_000
    crowd_sessions: ClassVar[int] = 400

    def open_store(self, root: Path, *, read_only: bool = False) -> EventStore:
        """
        Open the store at *root*, a path where nothing is at first. Every driver's author
        writes this one.
        """
        raise NotImplementedError

    def raw_read(self, root: Path, session_id: str) -> bytes | None:
        """
        Return what the medium holds of a session, past the store: the lines of
        :mod:`eventlog.codec`, header first. None where it holds nothing.

        Not written: tests of the medium are skipped.
        """
        pytest.skip("the contract's subclass has no raw_read")

    def raw_write(self, root: Path, session_id: str, lines: bytes) -> None:
        """
        Plant a session on the medium, past the store, in the place of what it holds.

        *root* may be missing. The first of *lines* stands for the header, the next one
        for seq 0, and so on; what they may hold beside that is said by :attr:`raw_form`.
        Not written: tests of the medium are skipped.
        """
        pytest.skip("the contract's subclass has no raw_write")

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        """Where the store of a test is; nothing is there yet."""
        return tmp_path / "store"

    @pytest.fixture
    def store(self, root: Path) -> Iterator[EventStore]:
        """A new store."""
        with self.open_store(root) as store:
            yield store

    @pytest.fixture(scope="class")
    @classmethod
    def crowd(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EventStore]:
        """A store of many sessions of one millisecond, every tenth a child of the first."""
        headers = [
            make_header(f"c{number:06}", parent_session="c000000" if number % 10 == 1 else None)
            for number in range(cls.crowd_sessions)
        ]
        # Written out of order, so that the order of a listing is not that of writing.
        mixed = headers[1::2] + headers[0::2]
        with cls().open_store(tmp_path_factory.mktemp("crowd") / "store") as store:
            store.append_many([Batch(header, messages(1)) for header in mixed])
            yield store

    def reopened(self, store: EventStore, root: Path, *, read_only: bool = False) -> EventStore:
        """Close *store* and open what it left; the test is skipped where nothing stays."""
        self.need_reopening()
        store.close()
        return self.open_store(root, read_only=read_only)

    def need_reopening(self) -> None:
        """Skip the test where the store is gone with its object."""
        if not self.reopens:
            pytest.skip("reopens: this store is gone with its object")

    def need_capability(self, store: EventStore, name: str) -> None:
        """Skip the test where *store* does not claim a capability."""
        if not getattr(store.capabilities, name):
            pytest.skip(f"{name}: not a capability of this store")

    def need_lines(self) -> None:
        """Skip the test where the medium cannot be given malformed records."""
        if self.raw_form == "rows":
            pytest.skip("raw_form: this medium keeps no lines")

    def need_text(self) -> None:
        """Skip the test where the medium cannot be given torn lines."""
        if self.raw_form != "text":
            pytest.skip("raw_form: this medium keeps no text")

    def need_fold_of_lines(self, root: Path) -> None:
        """Skip the test where a planted log's surface would be in tables that were not."""
        self.need_lines()
        with self.open_store(root) as store:
            if store.capabilities.bounded_surface:
                pytest.skip("bounded_surface: this medium keeps tables beside the lines")

    def medium(self, root: Path) -> Mapping[str, object]:
        """
        Return each file of the medium with its mode, the time of its last change and its
        content; {} where there is none. Folders have neither of the last two.
        """
        found = {}
        for path in sorted(root.rglob("*")):
            if path.name not in self.volatile_files:
                facts, is_file = path.stat(), path.is_file()
                content = path.read_bytes() if is_file else b""
                changed_ns = facts.st_mtime_ns if is_file else 0
                found[str(path.relative_to(root))] = facts.st_mode, changed_ns, content
        return found

    def need_index(self, name: str) -> None:
        """Skip the test where the driver answers by reading every head."""
        if name in self.scanned:
            pytest.skip(f"{name}: answered by a scan in this store")


def read_all(store: EventStore, session_id: str) -> list[Event]:
    """Return every event of a session; [] where there is no such session."""
    head = store.head(session_id)
    return [] if head is None else store.snapshot(session_id).read(0, head.length)


def walk_heads(
    store: EventStore, *, limit: int = 50, parent: str | None = None
) -> list[SessionHead]:
    """Return every head, or every child of *parent*, page by page."""
    found: list[SessionHead] = []
    key: HeadKey | None = None
    while True:
        if parent is None:
            page = store.heads(after=key, limit=limit)
        else:
            page = store.children(parent, after=key, limit=limit)
        assert len(page.items) <= limit
        found += page.items
        if page.next_key is None:
            return found
        assert page.items, "a page with a next key has at least one item"
        key = page.next_key


def lines_of(header: SessionHeader, events: Sequence[Event]) -> bytes:
    """Return the lines of a whole session."""
    return b"".join([encode_line(header), *map(encode_line, events)])


def surface_facts(log: LogSnapshot | NaiveSurface) -> dict[str, object]:
    """Return everything that a snapshot, or the naive fold, says of a surface."""
    seqs = range(log.length)
    classes: list[EventClass] = [log.classify(seq) for seq in seqs]
    if isinstance(log, NaiveSurface):
        nodes, replaced_by = log.nodes, log.replaced_by
        replaced = [log.replaced.get(seq, []) for seq in seqs]
    else:
        nodes, replaced_by = log.nodes(), log.replaced_by(0, log.length)
        replaced = [log.replaced(seq) for seq in seqs]
    return {
        "classes": classes,
        "nodes": nodes,
        "replaced_by": replaced_by,
        "replaced": replaced,
        "stand_ins": [log.stand_in(seq) for seq in seqs],
        "citing": [log.citing(seq) for seq in seqs],
    }
