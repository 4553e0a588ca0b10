"""
The contract of the medium: what is written is there, and what is there is read or named.

These tests look at the medium past the store, and plant on it what the store must read
or refuse. They are skipped for a driver whose author gave no raw access.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given

from eventlog.codec import encode_line
from eventlog.errors import CorruptLog, EventLogError, InvalidSurface, SequenceConflict
from eventlog.store import EventStore
from eventlog.testing.contract.base import (
    ContractBase,
    lines_of,
    read_all,
    surface_facts,
    walk_heads,
)
from eventlog.testing.contract.values import KEPT, NUMBERS, quick
from eventlog.testing.naive import NaiveSurface
from eventlog.testing.samples import (
    make_header,
    message,
    messages,
    note,
    random_log,
    summary,
)
from eventlog.testing.strategies import malformed_records

__all__ = ["MediumContract"]


BARE = b'{"type":"x/note","seq":%b,"time":1,"data":{}}'
SEQS_OF_NO_KIND = (b'"1"', b"1.0", b"true", b"null", b"-1")


class MediumContract(ContractBase):
    """What stands on the medium, seen past the store."""

    def test_writes_are_on_the_medium(self, store: EventStore, root: Path) -> None:
        """
        When append has returned, header and events are on the medium as their lines.
        """
        header = make_header(cwd="/w", parent_session="p", extra={"k": [1.0, "é"]})
        events = [*random_log(Random(1).randrange, 30), note(30, NUMBERS)]
        assert self.raw_read(root, "s1") is None

        for end in (1, 2, 17, 31):
            store.append(header, events[:end])
            assert lines_of(header, events[:end]) == self.raw_read(root, "s1")

    def test_refused_writes_leave_the_medium(self, store: EventStore, root: Path) -> None:
        """
        A retry and every refused append leave each byte of the session as it was.
        """
        store.append(make_header(), messages(3))
        before = self.raw_read(root, "s1")

        store.append(make_header(), messages(3))
        store.append(make_header(), [])
        for header, events in (
            (make_header(cwd="/b"), messages(1, start=3)),
            (make_header(), messages(1, start=4)),
            (make_header(), [message(2, "other"), message(3)]),
            (make_header(), [message(3), summary(4, 0, 9, [0])]),
        ):
            with pytest.raises(EventLogError):
                store.append(header, events)
        assert before == self.raw_read(root, "s1")
        assert self.raw_read(root, "s2") is None

    def test_deleted_session_is_off_the_medium(self, store: EventStore, root: Path) -> None:
        """
        The events of a deleted session are taken off the medium.
        """
        store.append(make_header(), messages(3))
        assert self.raw_read(root, "s1")
        store.delete("s1")

        assert not self.raw_read(root, "s1")

    @pytest.mark.parametrize("data", KEPT)
    def test_a10_events_are_one_record_each(
        self, store: EventStore, root: Path, data: dict[str, Any]
    ) -> None:
        """
        An event is one record on the medium whatever its text holds.

        A tool's output was written with its line ends raw; one record was three lines.
        """
        events = [note(0, data), note(1)]
        store.append(make_header(), events)

        raw = self.raw_read(root, "s1")
        assert lines_of(make_header(), events) == raw
        assert raw is not None
        assert 3 == raw.count(b"\n")

    def test_planted_sessions_are_read(self, root: Path) -> None:
        """
        What stands on the medium is served, whoever wrote it.
        """
        header, events = make_header(cwd="/w", extra={"x": 1}), messages(5)
        self.raw_write(root, "s1", lines_of(header, events))
        self.raw_write(root, "s2", lines_of(make_header("s2"), [note(0)]))

        with self.open_store(root) as store:
            head = store.head("s1")
            assert head is not None
            assert (header, 5, 1_004) == (head.header, head.length, head.last_time)
            assert events == read_all(store, "s1")
            assert ["s1", "s2"] == [listed.header.id for listed in walk_heads(store)]
            assert {"s1", "s2"} <= set(store.changes().session_ids)

    def test_planted_surfaces_are_folded(self, root: Path) -> None:
        """
        The surface of a log that stands on the medium is the fold of its events.
        """
        self.need_fold_of_lines(root)
        events = random_log(Random(3).randrange, 50)
        self.raw_write(root, "s1", lines_of(make_header(), events))

        with self.open_store(root) as store:
            assert surface_facts(NaiveSurface(events)) == surface_facts(store.snapshot("s1"))
            assert 51 == store.append(make_header(), [message(50)])

    def test_planted_keys_in_any_order(self, root: Path) -> None:
        """
        A record is read whatever the order of its keys.
        """
        self.need_lines()
        line = (
            b'{"data":{"a":",\\"data\\":"},"time":7,"surfaceOp":"append","seq":0,'
            b'"sourceEventSeqs":[],"type":"assistant/message"}\n'
        )
        self.raw_write(root, "s1", lines_of(make_header(), []) + line)

        with self.open_store(root) as store:
            (event,) = read_all(store, "s1")
            assert ({"a": ',"data":'}, 7, ()) == (event.data, event.time, event.source_event_seqs)
            assert [0] == store.snapshot("s1").nodes()

    def test_malformed_records_are_damage(self, tmp_path: Path) -> None:
        """
        A record that is none is told as damage of its session, never skipped or guessed.

        One store read NaN, another took true for a seq, a third kept the last of two
        equal keys.
        """
        self.need_lines()
        taken = iter(range(10**6))

        @quick
        @given(malformed_records(seq=3))
        def check(bad: bytes) -> None:
            root = tmp_path / f"store-{next(taken)}"
            lines = lines_of(make_header(), messages(6)).splitlines(keepends=True)
            lines[4] = bad + b"\n"
            self.raw_write(root, "s1", b"".join(lines))
            with self.open_store(root) as store:
                with pytest.raises(CorruptLog) as caught:
                    store.snapshot("s1").read(2, 5)
                assert "s1" == caught.value.session_id
                assert messages(2) == store.snapshot("s1").read(0, 2)

        check()

    @pytest.mark.parametrize("token", [b"NaN", b"-Infinity", b"1e400"])
    def test_c3_numbers_that_are_no_json_are_damage(self, root: Path, token: bytes) -> None:
        """
        A token that only some parsers take for a number is damage.
        """
        self._check_damage(root, b'{"type":"x/note","seq":1,"time":1,"data":{"n":%b}}' % token)

    @pytest.mark.parametrize(
        "line",
        [b'{"seq":1}', b"[]", b"null", b'"x"', b'{"seq":"1"}', *map(BARE.__mod__, SEQS_OF_NO_KIND)],
    )
    def test_j5_wrong_shapes_are_damage(self, root: Path, line: bytes) -> None:
        """
        A line that is JSON and no record is damage; true and 1.0 are no seqs.

        Lines that lacked fields made the reader fail with a bare KeyError.
        """
        self._check_damage(root, line)

    def test_x1_thousands_of_digits_are_damage(self, root: Path) -> None:
        """
        A number too long for Python to convert is damage, and no ValueError.
        """
        self._check_damage(root, b'{"type":"x","seq":1,"time":1,"data":{"n":%b}}' % (b"1" * 5_000))

    def test_x2_deep_nesting_is_damage(self, root: Path) -> None:
        """
        A line nested beyond the limit is damage, and no RecursionError.
        """
        deep = b"[" * 200_000 + b"]" * 200_000
        self._check_damage(root, b'{"type":"x","seq":1,"time":1,"data":{"n":%b}}' % deep)

    def test_x3_equal_keys_are_damage(self, root: Path) -> None:
        """
        An envelope that says a thing twice is damage, even where both say the same.
        """
        self._check_damage(root, b'{"type":"x","seq":1,"seq":1,"time":1,"data":{}}')

    def _check_damage(self, root: Path, line: bytes) -> None:
        """Plant a line in the place of seq 1: it is refused, and the others are served."""
        self.need_lines()
        lines = lines_of(make_header(), messages(3)).splitlines(keepends=True)
        lines[2] = line + b"\n"
        self.raw_write(root, "s1", b"".join(lines))

        with self.open_store(root) as store:
            snapshot = store.snapshot("s1")
            with pytest.raises(CorruptLog) as caught:
                snapshot.read(1, 2)
            assert ("s1", 1) == (caught.value.session_id, caught.value.seq)
            assert [message(0)] == snapshot.read(0, 1)
            assert [message(2)] == snapshot.read(2, 3)

    @pytest.mark.parametrize("seqs", [(0, 1, 3, 4, 5), (0, 1, 1, 2, 3)], ids=["hole", "twice"])
    def test_seqs_out_of_order_are_damage(self, root: Path, seqs: tuple[int, ...]) -> None:
        """
        A log whose seqs do not run 0, 1, 2 … is never served as if they did.
        """
        self._check_disorder(root, seqs)

    def test_a9_log_that_starts_above_0_is_damage(self, root: Path) -> None:
        """
        A log whose first events are gone is not served as if it began later.

        A tool that moved logs dropped the first part of large ones.
        """
        self._check_disorder(root, (5, 6, 7, 8, 9))

    def test_d2_log_that_steps_back_is_damage(self, root: Path) -> None:
        """
        A log with a stretch written twice is neither renumbered nor cut.

        A small step back in the seqs made a whole session unreadable; a patch then
        shortened it in silence.
        """
        self._check_disorder(root, (0, 1, 2, 3, 2, 3, 4))

    def _check_disorder(self, root: Path, seqs: tuple[int, ...]) -> None:
        self.need_lines()
        self.raw_write(root, "s1", lines_of(make_header(), [note(seq) for seq in seqs]))
        self.raw_write(root, "s2", lines_of(make_header("s2"), [note(0)]))
        before = self.raw_read(root, "s1")

        with self.open_store(root) as store:
            with pytest.raises(CorruptLog):
                read_all(store, "s1")
            with pytest.raises(CorruptLog):
                store.snapshot("s1").nodes()
            assert [note(0)] == read_all(store, "s2")
        assert before == self.raw_read(root, "s1"), "reading repairs nothing"

    def test_damage_is_where_it_is(self, root: Path) -> None:
        """
        Windows beside damage are served; those that touch it are refused; so are writes.
        """
        self.need_lines()
        lines = lines_of(make_header(), messages(40)).splitlines(keepends=True)
        lines[21] = b'{"type":"x/note","seq":20,"time":1}\n'
        self.raw_write(root, "s1", b"".join(lines))

        with self.open_store(root) as store:
            snapshot = store.snapshot("s1")
            assert 40 == snapshot.length
            assert messages(20) == snapshot.read(0, 20)
            assert messages(19, start=21) == snapshot.read(21, 40)
            for start, stop in ((20, 21), (0, 40), (19, 22)):
                with pytest.raises(CorruptLog):
                    snapshot.read(start, stop)
            with pytest.raises((CorruptLog, SequenceConflict)):
                store.append(make_header(), messages(3, start=19))

    def test_f1_refused_fold_keeps_its_windows(self, root: Path) -> None:
        """
        A foreign log that the fold refuses has no surface, and keeps everything else.

        References to entries that were never written made most of a history unreachable.
        """
        self.need_fold_of_lines(root)
        events = [*messages(6), summary(6, 3, 5, [3, 4, 5, 7]), *messages(2, start=7)]
        self.raw_write(root, "s1", lines_of(make_header(), events))

        with self.open_store(root) as store:
            assert events == read_all(store, "s1")
            assert ["s1"] == [head.header.id for head in walk_heads(store)]
            snapshot = store.snapshot("s1")
            for ask in (snapshot.nodes, lambda: snapshot.classify(0), lambda: snapshot.citing(3)):
                with pytest.raises(InvalidSurface) as caught:
                    ask()
                assert 6 == caught.value.seq
            assert [0, 1, 2, 3, 4, 5] == store.snapshot("s1", at=6).nodes()
            with pytest.raises(InvalidSurface):
                store.append(make_header(), [message(9)])

    def test_a7_damaged_header_is_never_overwritten(self, root: Path) -> None:
        """
        A session whose header cannot be read is refused to all, and left as it is.

        An unreadable first line was taken for "no session"; the log was overwritten.
        """
        self.need_lines()
        self.raw_write(root, "s1", b"{broken header\n" + encode_line(message(0)))
        before = self.raw_read(root, "s1")

        with self.open_store(root) as store:
            for call in (
                lambda: store.head("s1"),
                lambda: store.snapshot("s1"),
                lambda: store.append(make_header(), messages(1)),
                lambda: store.append(make_header(), []),
            ):
                with pytest.raises(CorruptLog):
                    call()
        assert before == self.raw_read(root, "s1")

    def test_j4_damaged_session_is_a_fault_of_its_page(self, root: Path) -> None:
        """
        One session that cannot be read is a fault of the listing; the others are listed.

        One bad file was reported as an empty store, or blocked all behind it.
        """
        self.need_lines()
        for session_id in ("a", "b", "c"):
            header = make_header(session_id, parent_session="p")
            self.raw_write(root, session_id, lines_of(header, messages(1)))
        self.raw_write(root, "b", b"\x00\x00 no header\n")

        with self.open_store(root) as store:
            page = store.heads()
            assert ["a", "c"] == [head.header.id for head in page.items]
            assert 1 == len(page.faults)
            fault = page.faults[0]
            assert "b" in (fault.session_id, *Path(fault.path or "").stem.split("."))
            assert fault.kind
            assert ["a", "c"] == [head.header.id for head in walk_heads(store, limit=1)]
            assert ["a", "c"] == [head.header.id for head in walk_heads(store, parent="p")]
            assert 2 == store.append(make_header("a", parent_session="p"), messages(1, start=1))

    @pytest.mark.parametrize("cut", [1, 40, -1], ids=["one-byte", "stub", "all-but-the-end"])
    def test_a1_torn_tail_is_cut_by_the_next_writer(self, root: Path, cut: int) -> None:
        """
        A last line that a crash tore is invisible to readers and gone after an append.

        After a power cut in the middle of a line, a whole conversation was shown as empty.
        """
        self._check_torn(root, encode_line(message(10, "other"))[:cut])

    @pytest.mark.parametrize("end", [b"", b"\n"], ids=["bare", "with-line-end"])
    def test_a4_nul_padding_is_cut_by_the_next_writer(self, root: Path, end: bytes) -> None:
        """
        NULs at the end of a log are a torn tail.

        After a crash a log ended in a run of NULs; the session was not found any more.
        """
        self._check_torn(root, bytes(4_096) + end)

    def _check_torn(self, root: Path, torn: bytes) -> None:
        self.need_text()
        good = lines_of(make_header(), messages(10))
        self.raw_write(root, "s1", good + torn)

        with self.open_store(root, read_only=True) as reader:
            assert messages(10) == read_all(reader, "s1")
            assert list(range(10)) == reader.snapshot("s1").nodes()
            assert good + torn == self.raw_read(root, "s1"), "readers change no byte"
        with self.open_store(root) as store:
            assert messages(10) == read_all(store, "s1")
            assert 11 == store.append(make_header(), [message(10)])
            assert messages(11) == read_all(store, "s1")
        assert good + encode_line(message(10)) == self.raw_read(root, "s1")

    def test_torn_batch_is_completed_by_its_retry(self, root: Path) -> None:
        """
        Where a crash left a prefix of a batch, sending the batch again completes it.
        """
        self.need_text()
        batch = [*messages(3, start=2), summary(5, 0, 2, [0, 1, 2])]
        whole = lines_of(make_header(), [*messages(2), *batch])

        for cut in range(len(lines_of(make_header(), messages(2))), len(whole), 37):
            self.raw_write(root, "s1", whole[:cut])
            with self.open_store(root) as store:
                assert 6 == store.append(make_header(), batch)
                assert [5, 3, 4] == store.snapshot("s1").nodes()
            assert whole == self.raw_read(root, "s1")
