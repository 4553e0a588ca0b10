"""
The contract of deleting: what goes, what is remembered, and what comes after.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from eventlog.errors import SessionDeleted, SessionNotFound
from eventlog.model import Batch, EventClass
from eventlog.store import EventStore
from eventlog.testing.contract.base import ContractBase, read_all, walk_heads
from eventlog.testing.samples import make_header, message, messages, note, summary

__all__ = ["DeleteContract"]


class DeleteContract(ContractBase):
    """What :meth:`~eventlog.EventStore.delete` promises."""

    def test_deleted_session_is_gone(self, store: EventStore) -> None:
        """
        A deleted session has no head, no snapshot, and is in no list.
        """
        store.append(make_header("p"), messages(1))
        store.append(make_header("s1", parent_session="p"), messages(3))

        assert store.delete("s1") is True

        assert store.head("s1") is None
        with pytest.raises(SessionNotFound):
            store.snapshot("s1")
        assert ["p"] == [head.header.id for head in walk_heads(store)]
        assert [] == walk_heads(store, parent="p")

    def test_deleting_twice(self, store: EventStore) -> None:
        """
        There is nothing to delete in a session that is deleted already.
        """
        store.append(make_header(), messages(1))

        assert [True, False] == [store.delete("s1"), store.delete("s1")]

    def test_deleting_an_unknown_session(self, store: EventStore, root: Path) -> None:
        """
        Deleting an unknown id is False, is not remembered, and creates nothing.
        """
        assert [False, False] == [store.delete("s1"), store.delete("s1", forget=True)]
        assert not root.exists()
        assert 1 == store.append(make_header(), messages(1))

    def test_deleting_leaves_the_others(self, store: EventStore) -> None:
        """
        Other sessions keep their events, surfaces and places.
        """
        for session_id in ("a", "ab", "b"):
            store.append(make_header(session_id), [*messages(3), summary(3, 0, 1, [0, 1])])
        store.delete("a")

        for session_id in ("ab", "b"):
            assert 4 == len(read_all(store, session_id))
            assert [3, 2] == store.snapshot(session_id).nodes()
        assert ["ab", "b"] == [head.header.id for head in walk_heads(store)]

    @pytest.mark.parametrize("count", [0, 1])
    def test_h9_append_to_a_deleted_session_is_refused(self, store: EventStore, count: int) -> None:
        """
        Nothing can be appended to a deleted session, with or without events.

        A buffered write that came after the deletion brought the session back.
        """
        store.append(make_header(), messages(2))
        store.delete("s1")

        for start in (0, 2):
            with pytest.raises(SessionDeleted) as caught:
                store.append(make_header(), messages(count, start=start))
            assert "s1" == caught.value.session_id
            (refused,) = store.append_many([Batch(make_header(), messages(count, start=start))])
            assert isinstance(refused, SessionDeleted)
        assert store.head("s1") is None

    def test_deletion_outlives_the_store(self, store: EventStore, root: Path) -> None:
        """
        A deleted session stays so for the next store that is opened.
        """
        store.append(make_header(), messages(2))
        store.append(make_header("s2"), messages(1))
        store.delete("s1")

        with self.reopened(store, root) as again:
            assert ["s2"] == [head.header.id for head in walk_heads(again)]
            with pytest.raises(SessionDeleted):
                again.append(make_header(), messages(1))
            assert again.delete("s1", forget=True) is True
        with self.reopened(again, root) as last:
            assert 1 == last.append(make_header(), messages(1))

    def test_forgetting_frees_the_id(self, store: EventStore) -> None:
        """
        With *forget* the id is free: at once, or after an earlier deletion.
        """
        store.append(make_header("a"), messages(2))
        store.append(make_header("b"), messages(2))
        store.delete("b")

        assert [True, True] == [store.delete("a", forget=True), store.delete("b", forget=True)]
        assert [False, False] == [store.delete("a", forget=True), store.delete("b", forget=True)]
        for session_id in ("a", "b"):
            assert 1 == store.append(make_header(session_id, cwd="/new"), messages(1))

    def test_new_session_inherits_nothing(self, store: EventStore) -> None:
        """
        A session under a forgotten id has its own header, events, surface and citations.
        """
        old = [*messages(3), summary(3, 0, 1, [0, 1]), *messages(2, start=4)]
        store.append(make_header(parent_session="p"), old)
        assert [3, 2, 4, 5] == store.snapshot("s1").nodes()
        store.delete("s1", forget=True)
        new = [message(0, "new"), note(1), message(2, "new"), note(3)]
        store.append(make_header(created_at=7), new)

        snapshot = store.snapshot("s1")
        assert (make_header(created_at=7), new) == (snapshot.header, read_all(store, "s1"))
        assert [0, 2] == snapshot.nodes()
        assert {} == snapshot.replaced_by(0, 4)
        assert [] == snapshot.replaced(3) == snapshot.citing(0)
        classes = [EventClass.CURRENT, EventClass.LOG_ONLY] * 2
        assert classes == [snapshot.classify(seq) for seq in range(4)]
        assert [] == walk_heads(store, parent="p")
        assert ["s1"] == [head.header.id for head in walk_heads(store)]

    def test_snapshot_of_a_deleted_session(self, store: EventStore) -> None:
        """
        A snapshot taken before the deletion has nothing to read any more.
        """
        store.append(make_header(), [*messages(3), summary(3, 0, 1, [0, 1])])
        snapshot = store.snapshot("s1")
        assert 4 == len(snapshot.read(0, 4))
        store.delete("s1")

        for answer in (
            lambda: snapshot.read(0, 4),
            lambda: snapshot.read(0, 0),
            lambda: snapshot.read(9, 12),
            lambda: snapshot.classify(0),
            lambda: snapshot.replaced_by(0, 4),
            lambda: snapshot.replaced(3),
            lambda: snapshot.stand_in(0),
            snapshot.nodes,
            lambda: snapshot.citing(0),
        ):
            with pytest.raises(SessionNotFound):
                answer()

    def test_snapshot_of_a_session_that_was_followed(self, store: EventStore) -> None:
        """
        A snapshot never answers for another session that took its id.
        """
        store.append(make_header(), messages(3))
        snapshot = store.snapshot("s1")
        store.delete("s1", forget=True)
        store.append(make_header(created_at=2_000), [message(n, "other") for n in range(5)])

        with pytest.raises(SessionNotFound):
            snapshot.read(0, 3)
        with pytest.raises(SessionNotFound):
            snapshot.nodes()
        assert 5 == store.snapshot("s1").length
