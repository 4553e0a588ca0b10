"""
The contract of reopening: what the next store knows of what was there before.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from eventlog.model import APPEND, Event
from eventlog.store import EventStore
from eventlog.testing.contract.base import ContractBase, read_all, surface_facts, walk_heads
from eventlog.testing.naive import NaiveSurface
from eventlog.testing.samples import make_header, message, messages, note, random_log, summary

__all__ = ["ReopenContract"]


class ReopenContract(ContractBase):
    """What holds in a store that is opened where another one was."""

    def test_envelopes_are_the_same_after_reopening(self, store: EventStore, root: Path) -> None:
        """
        Flags, ops, sources, times that step back and a header's own keys are what they were.
        """
        header = make_header(cwd="", extra={"f": 1.0, "n": [None]})
        events = [
            Event(0, 2**53 - 1, "x/a", {}, ignorable=True),
            Event(1, 7, "assistant/message", {}, surface_op=APPEND, source_event_seqs=[]),
            Event(2, 7, "assistant/message", {}, surface_op=APPEND),
            Event(3, 5, "x/b", {}, surface_op=APPEND, source_event_seqs=[2, 0]),
        ]
        store.append(header, events)

        with self.reopened(store, root) as again:
            assert events == read_all(again, "s1")
            head = again.head("s1")
            assert head is not None
            assert (header, 4, 5) == (head.header, head.length, head.last_time)
            assert [head] == walk_heads(again)

    def test_past_is_the_same_after_reopening(self, store: EventStore, root: Path) -> None:
        """
        The surface as of any length is the fold of that many events in the next store too.
        """
        events = random_log(Random(11).randrange, 40)
        store.append(make_header(), events)

        with self.reopened(store, root) as again:
            for length in range(41):
                expected = surface_facts(NaiveSurface(events[:length]))
                assert expected == surface_facts(again.snapshot("s1", at=length)), length

    def test_d6_retry_after_reopening_adds_nothing(self, store: EventStore, root: Path) -> None:
        """
        What was stored before is known to the next store: a retry, whole or partial, is one.

        A client that came back after a restart sent its entries again; they were stored twice.
        """
        events = [*messages(4), summary(4, 0, 2, [0, 1, 2]), message(5)]
        store.append(make_header(), events[:5])

        with self.reopened(store, root) as again:
            assert 5 == again.append(make_header(), events[:5])
            assert 5 == again.append(make_header(), events[2:4])
            assert 6 == again.append(make_header(), events[3:])
            assert events == read_all(again, "s1")
            assert [4, 3, 5] == again.snapshot("s1").nodes()

    def test_deleted_child_is_of_no_parent_after_reopening(
        self, store: EventStore, root: Path
    ) -> None:
        """
        A session that was deleted is no child of its parent for the next store.
        """
        for session_id in ("kept", "gone", "forgotten"):
            store.append(make_header(session_id, parent_session="p"), messages(1))
        store.delete("gone")
        store.delete("forgotten", forget=True)

        with self.reopened(store, root) as again:
            assert ["kept"] == [head.header.id for head in walk_heads(again, parent="p")]
            assert ["kept"] == [head.header.id for head in walk_heads(again)]

    def test_changes_before_reopening_are_named(self, store: EventStore, root: Path) -> None:
        """
        What was appended to or deleted after a token is named to it by the next store.
        """
        for session_id in ("grown", "gone", "forgotten"):
            store.append(make_header(session_id), messages(1))
        token = store.changes().token
        store.append(make_header("grown"), [note(1)])
        store.delete("gone")
        store.delete("forgotten", forget=True)
        store.append(make_header("new"), messages(1))

        with self.reopened(store, root) as again:
            named = set(again.changes(token).session_ids)
            assert {"grown", "gone", "forgotten", "new"} <= named
