"""
The contract of listing: pages of heads, children, and the feed of changes.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from eventlog.errors import InvalidArgument
from eventlog.model import Batch, HeadKey
from eventlog.store import EventStore
from eventlog.testing.contract.base import ContractBase, walk_heads
from eventlog.testing.samples import make_header, messages
from eventlog.values import shown

__all__ = ["ListContract"]

# In the order of their code points, which is neither that of UTF-16 nor of any language.
TIED_IDS = ("-", "A", "B", "a", "a ", "a.", "aa", "ab", "b", "é", "日", "\uff5e", "\U0001f511")

BAD_KEYS: tuple[Any, ...] = (
    "s1",
    3,
    (1_000, "s1"),
    b"x",
    HeadKey("1000", "s1"),  # type: ignore[arg-type]
    HeadKey(1_000.0, "s1"),  # type: ignore[arg-type]
    HeadKey(True, "s1"),
    HeadKey(2**70, "s1"),
    HeadKey(1_000, None),  # type: ignore[arg-type]
    HeadKey(1_000, "\ud800"),
)
BAD_TOKENS: tuple[Any, ...] = (
    *("no token", "", "[1,2]", "\x00", "-1 ", 5, b"0", True),
    *("9" * 5_000, "9" * 5_000 + ".", "[" * 10_000, "\u0661", "\u00b2", "\ud800", "{}", "1e5"),
)
BAD_LIMITS: tuple[Any, ...] = (0, -1, True, False, 1.5, "5", None)


class ListContract(ContractBase):
    """What ``heads``, ``children`` and ``changes`` promise."""

    def test_heads_are_newest_first(self, store: EventStore) -> None:
        """
        Sessions are listed by creation time, newest first, whatever was written last.
        """
        for session_id, created_at in (("b", 5), ("a", 2**53 - 1), ("c", 0), ("d", 1_000)):
            store.append(make_header(session_id, created_at=created_at), messages(1))
        store.append(make_header("c", created_at=0), messages(3, start=1))

        assert ["a", "d", "b", "c"] == ids(walk_heads(store))

    def test_ties_are_in_code_point_order(self, store: EventStore) -> None:
        """
        Sessions of one millisecond are listed by the code points of their ids, and so are
        the children of one session.
        """
        for session_id in (*TIED_IDS[1::2], *TIED_IDS[0::2]):
            store.append(make_header(session_id, parent_session="p"), messages(1))

        for parent in (None, "p"):
            assert list(TIED_IDS) == ids(walk_heads(store, parent=parent))
            assert list(TIED_IDS) == ids(walk_heads(store, parent=parent, limit=1))

    def test_heads_are_those_of_head(self, store: EventStore) -> None:
        """
        A listing says of each session what its own head says.
        """
        for number in range(5):
            header = make_header(f"s{number}", created_at=number, cwd="/w", extra={"n": number})
            store.append(header, messages(number + 1))
        store.append(make_header("s2", created_at=2, cwd="/w", extra={"n": 2}), messages(5))

        assert [store.head(f"s{number}") for number in (4, 3, 2, 1, 0)] == walk_heads(store)

    @pytest.mark.parametrize("limit", [1, 2, 3, 6, 7, 8, 100, 2**31, 2**63, 2**100])
    def test_pages_hold_each_session_once(self, store: EventStore, limit: int) -> None:
        """
        Pages of any size together give each session exactly once, in order; also of one
        that no integer of the medium can hold.
        """
        for number in range(7):
            header = make_header(f"s{number}", created_at=number // 2, parent_session="p")
            store.append(header, messages(1))

        for parent in (None, "p"):
            found = ids(walk_heads(store, limit=limit, parent=parent))
            assert ["s6", "s4", "s5", "s2", "s3", "s0", "s1"] == found

    def test_page_is_as_long_as_its_limit(self, store: EventStore) -> None:
        """
        A page has *limit* sessions while there are so many; the last one has no next key.
        """
        for number in range(4):
            store.append(make_header(f"s{number}"), messages(1))

        first = store.heads(limit=2)
        last = store.heads(after=first.next_key, limit=2)

        assert (["s0", "s1"], HeadKey(1_000, "s1")) == (ids(first.items), first.next_key)
        assert (["s2", "s3"], None) == (ids(last.items), last.next_key)
        assert (4, None) == (len(store.heads(limit=4).items), store.heads(limit=4).next_key)

    def test_pages_of_an_empty_store(self, store: EventStore) -> None:
        """
        A store without sessions has one page, empty and without a next key.
        """
        for page in (store.heads(), store.heads(after=HeadKey(5, "x")), store.children("p")):
            assert ((), None, ()) == (page.items, page.next_key, page.faults)

    @pytest.mark.parametrize("limit", BAD_LIMITS, ids=repr)
    def test_limits_are_ints_from_1(self, store: EventStore, limit: Any) -> None:
        """
        A limit that is below 1, a bool or no int is refused by name.
        """
        for call in (store.heads, lambda **named: store.children("p", **named)):
            with pytest.raises(InvalidArgument) as caught:
                call(limit=limit)
            assert "limit" == caught.value.name

    @pytest.mark.parametrize("after", BAD_KEYS, ids=repr)
    def test_keys_are_head_keys(self, store: EventStore, after: Any) -> None:
        """
        A page's start that is no key is refused by name.
        """
        for call in (store.heads, lambda **named: store.children("p", **named)):
            with pytest.raises(InvalidArgument) as caught:
                call(after=after)
            assert "after" == caught.value.name

    def test_key_of_a_session_that_is_gone(self, store: EventStore) -> None:
        """
        A listing goes on behind its key, whether that session exists, went or never was.
        """
        for number in range(6):
            store.append(make_header(f"s{number}"), messages(1))
        key = store.heads(limit=3).next_key
        store.delete("s2")
        store.delete("s3")

        assert ["s4", "s5"] == ids(store.heads(after=key).items)
        assert ["s4", "s5"] == ids(store.heads(after=HeadKey(1_000, "s33")).items)
        assert ["s0", "s1", "s4", "s5"] == ids(store.heads(after=HeadKey(1_001, "zz")).items)
        assert [] == ids(store.heads(after=HeadKey(0, "a")).items)

    def test_sessions_made_while_paging(self, store: EventStore) -> None:
        """
        A session made between two pages repeats and hides none of the others.
        """
        for number in range(6):
            store.append(make_header(f"s{number}", created_at=100 - number), messages(1))
        first = store.heads(limit=3)
        store.append(make_header("newest", created_at=500), messages(1))
        store.append(make_header("between", created_at=96, cwd="/w"), messages(1))

        rest = store.heads(after=first.next_key)

        assert ["s0", "s1", "s2"] == ids(first.items)
        assert ["s3", "between", "s4", "s5"] == ids(rest.items)

    def test_k4_ties_over_many_pages(self, crowd: EventStore) -> None:
        """
        Of hundreds of sessions of one millisecond, pages of 10 show each exactly once.
        """
        expected = [f"c{number:06}" for number in range(self.crowd_sessions)]

        assert expected == ids(walk_heads(crowd, limit=10))

    def test_children_name_their_parent(self, store: EventStore) -> None:
        """
        The children of a session are those whose header names it, in listing order.
        """
        store.append(make_header("p", created_at=1), messages(1))
        for number in range(5):
            header = make_header(f"c{number}", created_at=number // 2, parent_session="p")
            store.append(header, messages(1))
        store.append(make_header("grandchild", parent_session="c1"), messages(1))
        store.append(make_header("other"), messages(1))

        assert ["c4", "c2", "c3", "c0", "c1"] == ids(walk_heads(store, parent="p"))
        assert ["c4", "c2", "c3", "c0", "c1"] == ids(walk_heads(store, parent="p", limit=1))
        assert ["grandchild"] == ids(walk_heads(store, parent="c1"))
        assert [store.head("grandchild")] == walk_heads(store, parent="c1")
        assert [] == walk_heads(store, parent="c0")

    def test_children_page_goes_on_behind_its_key(self, store: EventStore) -> None:
        """
        Pages of children have their limit, their next key and their end.
        """
        for number in range(4):
            store.append(make_header(f"c{number}", parent_session="p"), messages(1))
            store.append(make_header(f"x{number}", parent_session="q"), messages(1))

        first = store.children("p", limit=2)
        last = store.children("p", after=first.next_key, limit=2)

        assert (["c0", "c1"], HeadKey(1_000, "c1")) == (ids(first.items), first.next_key)
        assert (["c2", "c3"], None) == (ids(last.items), last.next_key)

    def test_children_of_ids_that_resemble(self, store: EventStore) -> None:
        """
        Parents whose ids begin alike have their own children.
        """
        parents = ("p", "pp", "p!", "P", "p" * 255, "é", "e\u0301")
        for number, parent in enumerate(parents):
            store.append(make_header(f"c{number}", parent_session=parent), messages(1))

        for number, parent in enumerate(parents):
            assert [f"c{number}"] == ids(walk_heads(store, parent=parent))

    def test_f5_parent_need_not_exist(self, store: EventStore) -> None:
        """
        A child whose parent is unknown or was deleted is whole, and listed as its child.

        Resuming a fork crashed because the session it came from had been deleted.
        """
        store.append(make_header("p1"), messages(1))
        store.append(make_header("c", parent_session="p1", seed_length=4), messages(4))
        store.append(make_header("d", parent_session="never"), messages(1))
        store.delete("p1")

        assert ["c"] == ids(walk_heads(store, parent="p1"))
        assert ["d"] == ids(walk_heads(store, parent="never"))
        assert [0, 1, 2, 3] == store.snapshot("c").nodes()

    def test_l3_cycles_are_listed(self, store: EventStore) -> None:
        """
        Sessions that are their own parent, or each other's, are listed like all.
        """
        store.append(make_header("s1", parent_session="s2"), messages(1))
        store.append(make_header("s2", parent_session="s1"), messages(1))
        store.append(make_header("s3", parent_session="s3"), messages(1))

        assert ["s1", "s2", "s3"] == ids(walk_heads(store))
        assert [["s2"], ["s1"], ["s3"]] == [
            ids(walk_heads(store, parent=parent)) for parent in ("s1", "s2", "s3")
        ]

    def test_changes_name_all_sessions_at_first(self, store: EventStore) -> None:
        """
        Without a token every session is named, each once.
        """
        assert () == store.changes().session_ids
        for number in range(3):
            store.append(make_header(f"s{number}"), messages(1))
            store.append(make_header(f"s{number}"), messages(1, start=1))

        assert ["s0", "s1", "s2"] == sorted(store.changes().session_ids)

    def test_changes_name_what_was_appended_to(self, store: EventStore) -> None:
        """
        After an append the session is named, new or old, to every earlier token.
        """
        store.append(make_header("old"), messages(1))
        first = store.changes().token
        store.append(make_header("new"), messages(1))
        second = store.changes(first)
        store.append(make_header("old"), messages(1, start=1))
        third = store.changes(second.token)

        assert "new" in second.session_ids
        assert "old" in third.session_ids
        assert {"new", "old"} <= set(store.changes(first).session_ids)
        assert len(set(third.session_ids)) == len(third.session_ids)

    def test_changes_name_what_append_many_wrote(self, store: EventStore) -> None:
        """
        Each session of one call is named.
        """
        token = store.changes().token
        store.append_many([Batch(make_header(f"s{n}"), messages(1)) for n in range(5)])

        assert {f"s{n}" for n in range(5)} <= set(store.changes(token).session_ids)

    def test_changes_name_deleted_sessions(self, store: EventStore) -> None:
        """
        A deleted session is named to a token that knew it.
        """
        store.append(make_header("s1"), messages(1))
        store.append(make_header("s2"), messages(1))
        token = store.changes().token
        store.delete("s1")
        after = store.changes(token)

        assert "s1" in after.session_ids
        store.delete("s2", forget=True)
        assert "s2" in store.changes(after.token).session_ids
        assert {"s1", "s2"} <= set(store.changes(token).session_ids)

    def test_changes_name_a_session_that_came_back(self, store: EventStore) -> None:
        """
        A new session under a forgotten id is named.
        """
        store.append(make_header("s1"), messages(1))
        store.delete("s1", forget=True)
        token = store.changes().token
        store.append(make_header("s1", created_at=2_000), messages(1))

        assert "s1" in store.changes(token).session_ids

    def test_changes_tokens_work_in_another_store(self, store: EventStore, root: Path) -> None:
        """
        A token stays good after the store was opened anew.
        """
        store.append(make_header("s1"), messages(1))
        store.append(make_header("s2"), messages(1))
        token = store.changes().token
        store.append(make_header("s1"), messages(1, start=1))

        with self.reopened(store, root) as again:
            assert "s1" in again.changes(token).session_ids
            later = again.changes(token).token
            again.delete("s2")
            again.append(make_header("s3"), messages(1))
            assert {"s2", "s3"} <= set(again.changes(later).session_ids)

    def test_tokens_of_another_store_hide_nothing(self, store: EventStore, root: Path) -> None:
        """
        A token of another store is refused, or taken for one that knows nothing.
        """
        with self.open_store(root.with_name("other")) as other:
            for number in range(9):
                other.append(make_header(f"o{number}"), messages(1))
            token = other.changes().token
        # While the store has changed less often than the other, and more often.
        for number in range(12):
            store.append(make_header(f"s{number}"), messages(1))
            if number in (0, 11):
                with suppress(InvalidArgument):
                    assert "s0" in store.changes(token).session_ids

    def test_changes_cost_what_changed(self, store: EventStore) -> None:
        """
        A store with a feed names to a fresh token only what came after it.
        """
        self.need_index("changes")
        for number in range(20):
            store.append(make_header(f"s{number}"), messages(1))
        token = store.changes().token
        store.append(make_header("s7"), messages(1, start=1))

        assert ("s7",) == store.changes(token).session_ids

    @pytest.mark.parametrize("bad", BAD_TOKENS, ids=shown)
    def test_bad_tokens_are_refused(self, store: EventStore, bad: Any) -> None:
        """
        What is no token of the store is refused by name.
        """
        with pytest.raises(InvalidArgument) as caught:
            store.changes(bad)

        assert "since" == caught.value.name
        assert len(str(caught.value)) < 200


def ids(heads: Any) -> list[str]:
    return [head.header.id for head in heads]
