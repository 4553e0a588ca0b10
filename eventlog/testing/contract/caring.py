"""
The contract of care: verifying names every problem, salvaging gives what can be read,
and repairing changes nothing that is sound.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from eventlog.codec import encode_line
from eventlog.errors import CorruptLog, SessionNotFound
from eventlog.findings import Gap
from eventlog.model import Event
from eventlog.store import EventStore
from eventlog.testing.contract.base import ContractBase, lines_of, read_all, walk_heads
from eventlog.testing.samples import make_header, messages, note, random_log, summary

__all__ = ["CareContract"]


class CareContract(ContractBase):
    """What ``verify``, ``salvage`` and ``repair`` promise."""

    def test_sound_store_has_no_findings(self, store: EventStore, root: Path) -> None:
        """
        Nothing is wrong with what was appended and deleted, and a repair changes nothing.
        """
        logs = {name: random_log(Random(name).randrange, 60) for name in ("a", "b")}
        for name, events in logs.items():
            store.append(make_header(name, parent_session="c"), events[:20])
            store.append(make_header(name, parent_session="c"), events[20:])
        store.append(make_header("gone"), messages(3))
        store.delete("gone")
        listed, before = walk_heads(store), self.medium(root)

        assert [] == list(store.verify()) == store.repair() == store.repair(dry_run=False)

        assert before == self.medium(root)
        assert listed == walk_heads(store)
        assert logs == {name: read_all(store, name) for name in logs}

    def test_missing_place_has_no_findings(self, store: EventStore, root: Path) -> None:
        """
        Nothing is wrong where nothing is, and looking creates nothing.
        """
        assert [] == list(store.verify()) == store.repair() == store.repair(dry_run=False)
        assert not root.exists()

    def test_sound_log_is_salvaged_whole(self, store: EventStore) -> None:
        """
        Salvaging a sound log gives its events and no gap.
        """
        events = [*random_log(Random(3).randrange, 700), *(note(seq) for seq in range(700, 2_100))]
        store.append(make_header(), events)

        assert events == list(store.salvage("s1"))

    def test_unknown_session_is_not_salvaged(self, store: EventStore) -> None:
        """
        There is nothing to salvage of an unknown session, or of a deleted one.
        """
        store.append(make_header("gone"), messages(1))
        store.delete("gone")

        for session_id in ("unknown", "gone"):
            with pytest.raises(SessionNotFound):
                list(store.salvage(session_id))

    @pytest.mark.parametrize("taken", [0, 1], ids=["before-the-first", "behind-the-first"])
    def test_h9_what_is_deleted_meanwhile_is_no_gap(self, store: EventStore, taken: int) -> None:
        """
        A log that is deleted, and begun anew, while it is salvaged is given whole or is gone.
        """
        events = [note(seq) for seq in range(3_000)]
        store.append(make_header(), events)
        pieces = store.salvage("s1")
        found = [*islice(pieces, taken)]
        store.delete("s1", forget=True)
        if taken:
            store.append(make_header(created_at=2), messages(2))

        with suppress(SessionNotFound):
            found += pieces
            assert events == found
        assert found == events[: len(found)]

    def test_damage_is_found_and_salvaged_around(self, root: Path) -> None:
        """
        A damaged record is named with its session; all the others are salvaged.
        """
        self._plant_damage(root)
        before = self.medium(root)

        with self.open_store(root) as store:
            findings = list(store.verify())
            assert {"bad"} == {finding.session_id for finding in findings}
            assert 20 in {finding.seq for finding in findings}
            pieces = list(store.salvage("bad"))
            gaps = [piece for piece in pieces if isinstance(piece, Gap)]
            assert [(20, 21)] == [(gap.start_seq, gap.next_seq) for gap in gaps]
            assert 20 == pieces.index(gaps[0])
            events = [piece for piece in pieces if isinstance(piece, Event)]
            assert [*messages(20), *messages(19, start=21)] == events
            assert messages(3) == list(store.salvage("good"))
        assert before == self.medium(root), "looking at damage changes nothing"

    def test_j10_repair_is_asked_for_tried_and_done_once(self, root: Path) -> None:
        """
        A dry run changes no byte; a repair mends what it said, once, and loses no event.

        A supervisor tried the same damaged session for ever; users repaired it by hand.
        """
        self._plant_damage(root)
        before = self.medium(root)
        with self.open_store(root) as store:
            planned = store.repair()
            assert before == self.medium(root)
            done = store.repair(dry_run=False)

            assert [finding.seq for finding in planned] == [finding.seq for finding in done]
            kept = [*messages(20), *messages(19, start=21)]
            assert kept == [event for event in store.salvage("bad") if event in kept]
            assert messages(3) == read_all(store, "good")
            if any(finding.change is None for finding in done):
                with pytest.raises(CorruptLog):
                    read_all(store, "bad")
            else:
                assert 40 == len(read_all(store, "bad"))
                assert 41 == store.append(make_header("bad"), messages(1, start=40))
                assert [] == [finding for finding in store.verify() if finding.seq is not None]
            mended = self.medium(root)
            store.repair(dry_run=False)
            assert mended == self.medium(root), "a second repair changes nothing"

    def test_refused_fold_is_found(self, root: Path) -> None:
        """
        A log that the fold refuses is named with the event that it refuses.
        """
        self.need_fold_of_lines(root)
        events = [*messages(3), summary(3, 0, 9, [0]), note(4)]
        self.raw_write(root, "s1", lines_of(make_header(), events))

        with self.open_store(root) as store:
            found = [(finding.kind, finding.session_id, finding.seq) for finding in store.verify()]
            assert [("surface", "s1", 3)] == found
            assert events == list(store.salvage("s1"))

    def _plant_damage(self, root: Path) -> None:
        """Plant a good log of 3 events, and one of 40 whose event 20 cannot be read."""
        self.need_lines()
        lines = [encode_line(make_header("bad")), *map(encode_line, messages(40))]
        lines[21] = b'{"type":"x/note","seq":20,"time":1}\n'
        self.raw_write(root, "bad", b"".join(lines))
        self.raw_write(root, "good", lines_of(make_header("good"), messages(3)))
