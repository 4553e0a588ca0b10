"""
The contract of a store's lifetime: reopening, closing, reading only.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from eventlog.errors import EventLogError, InvalidArgument, StoreClosed, StoreReadOnly
from eventlog.model import Batch
from eventlog.snapshot import LogSnapshot
from eventlog.store import Capabilities, EventStore
from eventlog.testing.contract.base import ContractBase, read_all, surface_facts, walk_heads
from eventlog.testing.samples import make_header, message, messages, summary

__all__ = ["LifetimeContract"]

STORE_CALLS: dict[str, Callable[[EventStore], Any]] = {
    "append": lambda store: store.append(make_header(), messages(1)),
    "append-bad": lambda store: store.append(None, 5),  # type: ignore[arg-type]
    "append_many": lambda store: store.append_many([Batch(make_header(), messages(1))]),
    "append_many-none": lambda store: store.append_many([]),
    "delete": lambda store: store.delete("s1"),
    "delete-bad": lambda store: store.delete(""),
    "head": lambda store: store.head("s1"),
    "head-unknown": lambda store: store.head("unknown"),
    "head-bad": lambda store: store.head(""),
    "snapshot": lambda store: store.snapshot("s1"),
    "snapshot-unknown": lambda store: store.snapshot("unknown"),
    "snapshot-bad": lambda store: store.snapshot("s1", at=-1),
    "heads": lambda store: store.heads(),
    "heads-bad": lambda store: store.heads(limit=0),
    "children": lambda store: store.children("s1"),
    "children-bad": lambda store: store.children("", limit=0),
    "changes": lambda store: store.changes(),
    "changes-bad": lambda store: store.changes("no token"),
    "verify": lambda store: list(store.verify()),
    "salvage": lambda store: list(store.salvage("s1")),
    "salvage-unknown": lambda store: list(store.salvage("unknown")),
    "repair": lambda store: store.repair(dry_run=False),
    "repair-dry": lambda store: store.repair(),
}

SNAPSHOT_CALLS: dict[str, Callable[[LogSnapshot], Any]] = {
    "read": lambda snapshot: snapshot.read(0, 2),
    "read-empty": lambda snapshot: snapshot.read(0, 0),
    "read-clipped": lambda snapshot: snapshot.read(9, 12),
    "classify": lambda snapshot: snapshot.classify(0),
    "replaced_by": lambda snapshot: snapshot.replaced_by(0, 2),
    "replaced": lambda snapshot: snapshot.replaced(1),
    "stand_in": lambda snapshot: snapshot.stand_in(0),
    "nodes": lambda snapshot: snapshot.nodes(),
    "citing": lambda snapshot: snapshot.citing(0),
}

BAD_SNAPSHOT_CALLS: dict[str, Callable[[LogSnapshot], Any]] = {
    "read": lambda snapshot: snapshot.read(-1, 2),
    "classify": lambda snapshot: snapshot.classify(-1),
    "replaced_by": lambda snapshot: snapshot.replaced_by(0, True),
    "replaced": lambda snapshot: snapshot.replaced(99),
    "stand_in": lambda snapshot: snapshot.stand_in(99),
    "nodes": lambda snapshot: snapshot.nodes(limit=-1),
    "citing": lambda snapshot: snapshot.citing(1.0),  # type: ignore[arg-type]
}

WRITES = (
    *("append", "append-bad", "append_many", "append_many-none"),
    *("delete", "delete-bad", "repair"),
)


class LifetimeContract(ContractBase):
    """What holds when a store is opened again, closed, or opened for reading."""

    def test_capabilities_are_told(self, store: EventStore) -> None:
        """
        A store says what it can do beyond the contract, and what it has touched.
        """
        assert isinstance(store.capabilities, Capabilities)
        store.meter.reset()
        assert 0 == store.meter.records

    def test_everything_is_there_after_reopening(self, store: EventStore, root: Path) -> None:
        """
        The next store has the sessions, events, lists and surfaces of the one before.
        """
        events = [*messages(4), summary(4, 1, 2, [1, 2])]
        store.append(make_header("p", created_at=5), events)
        store.append(make_header("c", parent_session="p", cwd="/w", extra={"k": [1]}), messages(2))
        listed = walk_heads(store)
        facts = surface_facts(store.snapshot("p"))

        with self.reopened(store, root) as again:
            assert listed == walk_heads(again)
            assert events == read_all(again, "p")
            assert facts == surface_facts(again.snapshot("p"))
            assert ["c"] == [head.header.id for head in walk_heads(again, parent="p")]
            assert 6 == again.append(make_header("p", created_at=5), [message(5)])

    def test_reopening_many_times(self, store: EventStore, root: Path) -> None:
        """
        A log may be written by one store after the other.
        """
        self.need_reopening()
        for seq in range(5):
            assert seq + 1 == store.append(make_header(), [message(seq)])
            store = self.reopened(store, root)
        assert messages(5) == read_all(store, "s1")
        store.close()

    def test_j7_resuming_makes_no_second_session(self, store: EventStore, root: Path) -> None:
        """
        Opening a store to go on with a session leaves one session and one header.

        A resume made a second file that held only a header.
        """
        store.append(make_header(), messages(1))
        with self.reopened(store, root) as again:
            again.append(make_header("empty"), [])
            again.append(make_header(), messages(1, start=1))
            assert ["s1"] == [head.header.id for head in walk_heads(again)]
            assert messages(2) == read_all(again, "s1")

    @pytest.mark.parametrize("name", STORE_CALLS)
    def test_closed_store_refuses(self, store: EventStore, name: str) -> None:
        """
        Every call on a closed store is refused, whatever its arguments.
        """
        store.append(make_header(), messages(1))
        store.close()

        with pytest.raises(StoreClosed):
            STORE_CALLS[name](store)

    @pytest.mark.parametrize("name", SNAPSHOT_CALLS)
    def test_snapshot_of_a_closed_store_refuses(self, store: EventStore, name: str) -> None:
        """
        A snapshot answers no more once its store is closed.
        """
        store.append(make_header(), [message(0), summary(1, 0, 0, [0])])
        snapshot = store.snapshot("s1")
        SNAPSHOT_CALLS[name](snapshot)
        store.close()

        with pytest.raises(StoreClosed):
            SNAPSHOT_CALLS[name](snapshot)

    @pytest.mark.parametrize("name", BAD_SNAPSHOT_CALLS)
    def test_snapshot_of_a_closed_store_refuses_bad_calls(
        self, store: EventStore, name: str
    ) -> None:
        """
        What an open store's snapshot refuses as an argument, a closed one's refuses as closed.
        """
        store.append(make_header(), [message(0), summary(1, 0, 0, [0])])
        snapshot = store.snapshot("s1")
        with pytest.raises(InvalidArgument):
            BAD_SNAPSHOT_CALLS[name](snapshot)
        store.close()

        with pytest.raises(StoreClosed):
            BAD_SNAPSHOT_CALLS[name](snapshot)

    @pytest.mark.parametrize("name", ["salvage", "verify"])
    def test_pass_over_a_closed_store_ends(self, store: EventStore, name: str) -> None:
        """
        A pass that was begun over an open store goes no further once it is closed.
        """
        store.append(make_header(), messages(3))
        ahead = iter(store.salvage("s1") if name == "salvage" else store.verify())
        store.close()

        with pytest.raises(StoreClosed):
            next(ahead)

    def test_closing_twice(self, store: EventStore) -> None:
        """
        Closing a closed store is harmless.
        """
        store.append(make_header(), messages(1))
        store.close()
        store.close()

    def test_leaving_the_context_closes(self, root: Path) -> None:
        """
        A store is a context manager of itself; leaving it closes it.
        """
        with self.open_store(root) as store:
            store.append(make_header(), messages(1))
            assert 1 == store.head("s1").length  # type: ignore[union-attr]

        with pytest.raises(StoreClosed):
            store.head("s1")

    def test_closing_one_store_leaves_the_other(self, store: EventStore, root: Path) -> None:
        """
        Two stores of one place are independent: closing one does not close the other.
        """
        self.need_reopening()
        store.append(make_header(), messages(1))
        other = self.open_store(root)
        assert messages(1) == read_all(other, "s1")
        other.close()

        store.append(make_header(), messages(1, start=1))
        assert messages(2) == read_all(store, "s1")

    def test_missing_place_is_an_empty_store(self, root: Path) -> None:
        """
        A store where nothing was ever written is empty, for writing and for reading.
        """
        for read_only in (False, True):
            with self.open_store(root, read_only=read_only) as store:
                run_all_reads(store)
                assert [] == walk_heads(store)
        assert not root.exists(), "reading creates nothing"

    @pytest.mark.parametrize("name", WRITES)
    def test_read_only_store_refuses_writes(self, root: Path, name: str) -> None:
        """
        A store opened for reading refuses every write, whatever its arguments.
        """
        with (
            self.open_store(root, read_only=True) as store,
            pytest.raises(StoreReadOnly),
        ):
            STORE_CALLS[name](store)
        assert not root.exists()

    def test_read_only_store_reads(self, store: EventStore, root: Path) -> None:
        """
        A store opened for reading reads everything that a writing one reads.
        """
        store.append(make_header(), [*messages(4), summary(4, 1, 2, [1, 2])])
        store.append(make_header("c", parent_session="s1"), messages(2))
        store.append(make_header("d"), messages(2))
        store.delete("d")
        facts, listed = surface_facts(store.snapshot("s1")), walk_heads(store)

        with self.reopened(store, root, read_only=True) as again:
            before = self.medium(root)
            assert listed == walk_heads(again)
            assert facts == surface_facts(again.snapshot("s1"))
            assert ["c"] == [head.header.id for head in walk_heads(again, parent="s1")]
            with pytest.raises(StoreReadOnly):
                again.append(make_header(), messages(1, start=5))
            with pytest.raises(StoreReadOnly):
                again.delete("s1")
            assert before == self.medium(root)

    def test_reads_never_write(self, store: EventStore, root: Path) -> None:
        """
        No read, and no refused call, changes what is stored.
        """
        store.append(make_header(), [*messages(4), summary(4, 1, 2, [1, 2])])
        store.append(make_header("c", parent_session="s1"), messages(2))
        store.append(make_header("d"), messages(2))
        store.delete("d")
        before = self._contents(store), self.medium(root)

        run_all_reads(store)
        for call in ("append-bad", "delete-bad", "head-bad", "heads-bad", "changes-bad"):
            with suppress(EventLogError):
                STORE_CALLS[call](store)

        assert before == (self._contents(store), self.medium(root))

    def test_store_says_where_it_is(self, store: EventStore) -> None:
        """
        A store's text names its place and its state, and holds nothing of its sessions.
        """
        store.append(make_header("secret-id"), messages(1))

        assert type(store).__name__ in repr(store)
        assert "secret-id" not in repr(store)
        store.close()
        assert "closed" in repr(store)

    def _contents(self, store: EventStore) -> object:
        """Everything that the store tells of its sessions."""
        contents = []
        for head in walk_heads(store):
            facts = surface_facts(store.snapshot(head.header.id))
            contents.append((head, read_all(store, head.header.id), facts))
        return contents


def run_all_reads(store: EventStore) -> None:
    """Read everything in every way, unknown sessions too."""
    for session_id in ("s1", "c", "d", "unknown"):
        head = store.head(session_id)
        store.children(session_id)
        if head is None:
            with suppress(KeyError):
                store.snapshot(session_id)
            continue
        for at in (None, 0, head.length):
            snapshot = store.snapshot(session_id, at=at)
            snapshot.read(0, head.length)
            surface_facts(snapshot)
    page = store.heads(limit=1)
    store.heads(after=page.next_key)
    token = store.changes().token
    store.changes(token)
    assert [] == list(store.verify()) == store.repair()
    for head in store.heads().items:
        assert head.length == len(list(store.salvage(head.header.id)))
