"""
What every durable store promises where things go wrong around it: killed writers, forks,
several processes, a full disk, a medium that refuses writes.

Apart from :class:`~eventlog.testing.StoreContract`, since it forks processes.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import ClassVar

import pytest

from eventlog.errors import (
    EventLogError,
    SequenceConflict,
    SessionDeleted,
    StoreFull,
    StoreReadOnly,
)
from eventlog.model import Batch
from eventlog.testing.contract.base import ContractBase, read_all, walk_heads
from eventlog.testing.crashing import CrashPlan, crash_campaign
from eventlog.testing.samples import make_header, message, messages, summary

__all__ = ["FaultContract"]

NOBODY = 65_534
CHILD_WAIT_S = 60.0
DELETING_S = 0.004


class FaultContract(ContractBase):
    """
    Hold a durable store to its promises under faults; a driver's author fills in the factory.

    Attributes:
        crash_plans: The campaigns of kills.

        full_bytes: What any file may have in the test of the full disk.

        deletion_kills: How many processes are killed while they delete.
    """

    crash_plans: ClassVar[tuple[CrashPlan, ...]] = (
        CrashPlan(10, 1, (50, 2_000), seed=1),
        CrashPlan(10, 7, (50, 20_000), seed=2),
    )
    full_bytes: ClassVar[int] = 300_000
    deletion_kills: ClassVar[int] = 8

    @pytest.fixture(autouse=True)
    def _needs(self, tmp_path: Path) -> None:
        if not hasattr(os, "fork"):
            pytest.skip("needs fork")
        with self.open_store(tmp_path / "probe") as store:
            self.need_capability(store, "durable")

    def test_d5_killed_writers_lose_nothing(self, root: Path) -> None:
        """
        A writer that is killed loses nothing that it acknowledged, and leaves no half event.
        """
        for number, plan in enumerate(self.crash_plans):
            account = crash_campaign(self.open_store, root / str(number), plan)
            assert plan.kills == account.kills

    def test_h9_killed_deletions_are_whole(self, root: Path) -> None:
        """
        A deletion that is killed has taken all of its session away, or nothing.
        """
        random = Random(3)
        events = [*messages(3), summary(3, 0, 1, [0, 1])]
        ids = [f"s{number:02}" for number in range(30)]
        for number in range(self.deletion_kills):
            place, forget = root / str(number), number % 2 == 1
            with self.open_store(place) as store:
                store.append_many(
                    [Batch(make_header(one, parent_session="p"), events) for one in ids]
                )
            deleted = self._killed_while_deleting(place, ids, forget, random.random())
            with self.open_store(place) as store:
                assert {finding.kind for finding in store.verify()} <= {"leftover"}
                left = [head.header.id for head in walk_heads(store)]
                assert len(ids) - len(left) in (deleted, deleted + 1)
                assert ids[len(ids) - len(left) :] == left
                assert left == [head.header.id for head in walk_heads(store, parent="p")]
                for one in left:
                    assert events == read_all(store, one)
                    assert [3, 2] == store.snapshot(one).nodes()
                gone = ids[: len(ids) - len(left)]
                # One that was to be forgotten may still be remembered.
                for one in gone[:deleted] if forget else gone:
                    (answer,) = store.append_many([Batch(make_header(one), messages(1))])
                    assert answer == 1 if forget else isinstance(answer, SessionDeleted)

    def _killed_while_deleting(
        self, place: Path, ids: Sequence[str], forget: bool, share: float
    ) -> int:
        """Delete in a process that is killed; returns how many deletions had come back."""
        reader, writer = os.pipe()

        def delete() -> None:
            os.close(reader)
            with self.open_store(place) as store:
                for one in ids:
                    store.delete(one, forget=forget)
                    os.write(writer, b".")

        child = forked(delete)
        os.close(writer)
        with open(reader, "rb", buffering=0) as told:
            count = len(told.read(1))
            time.sleep(share * DELETING_S)
            os.kill(child, signal.SIGKILL)
            ended(child)
            return count + len(told.read())

    def test_d5_writers_of_several_processes_take_turns(self, root: Path) -> None:
        """
        Processes that append to one session have all their events in it, once and in order.
        """
        with self.open_store(root) as store:
            self.need_capability(store, "multi_process_write")

        # Nobody begins before all are there: a fast store would be done with each in turn.
        gate, opener = os.pipe()

        def append(number: int) -> None:
            os.close(opener)
            os.read(gate, 1)
            with self.open_store(root) as store:
                for count in range(15):
                    while True:
                        head = store.head("s1")
                        seq = 0 if head is None else head.length
                        try:
                            store.append(make_header(), [message(seq, f"{number}-{count}")])
                            break
                        except SequenceConflict:
                            continue

        children = [forked(partial(append, number)) for number in range(3)]
        os.close(opener)
        os.close(gate)
        assert [0, 0, 0] == [ended(child) for child in children]
        with self.open_store(root) as store:
            found = read_all(store, "s1")
            texts = [event.data["content"][0]["text"] for event in found]
            assert sorted(f"{n}-{count}" for n in range(3) for count in range(15)) == sorted(texts)
            assert [] == list(store.verify())

    def test_readers_beside_a_writer_of_another_process(self, root: Path) -> None:
        """
        Readers see a prefix of what is written, which only grows, and never a half event.
        """
        with self.open_store(root) as store:
            self.need_capability(store, "multi_process_read")
            store.append(make_header(), messages(1))

        def append() -> None:
            with self.open_store(root) as store:
                for seq in range(1, 120, 3):
                    store.append(make_header(), messages(3, start=seq))

        child = forked(append)
        seen = 0
        with self.open_store(root, read_only=True) as reader:
            until = time.monotonic() + CHILD_WAIT_S
            while seen < 121 and time.monotonic() < until:
                snapshot = reader.snapshot("s1")
                assert snapshot.length >= seen
                seen = snapshot.length
                assert messages(seen) == snapshot.read(0, seen)
                assert list(range(seen)) == snapshot.nodes()
        assert 0 == ended(child)
        assert 121 == seen

    def test_e3_store_on_both_sides_of_a_fork(self, root: Path) -> None:
        """
        A store that was open before a fork works in the parent, and in the child or is refused.
        """
        with self.open_store(root) as store:
            store.append(make_header(), messages(2))
            assert messages(2) == read_all(store, "s1")

            def use() -> None:
                try:
                    assert messages(2) == read_all(store, "s1")
                    store.append(make_header(), [message(2)])
                except EventLogError:
                    pass

            assert 0 == ended(forked(use))
            length = len(read_all(store, "s1"))
            assert length in (2, 3)
            assert length + 1 == store.append(make_header(), [message(length)])

    def test_j1_full_disk_refuses_and_recovers(self, root: Path) -> None:
        """
        Where there is no room an append stores nothing and says so; with room it goes on.
        """
        with self.open_store(root) as store:
            store.append(make_header(), messages(5))

        def fill() -> None:
            import resource  # not on every system, nor is fork

            # A write beyond the limit is a signal, unless that is ignored.
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.full_bytes, resource.RLIM_INFINITY))
            with self.open_store(root) as store:
                length = 5
                for _ in range(200):
                    try:
                        length = store.append(make_header(), [message(length, "x" * 10_000)])
                    except StoreFull:
                        break
                else:
                    raise AssertionError("the disk was never full")
                assert length == len(read_all(store, "s1"))
                resource.setrlimit(
                    resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
                )
                assert length + 1 == store.append(make_header(), [message(length)])

        assert 0 == ended(forked(fill))
        with self.open_store(root) as store:
            found = read_all(store, "s1")
            assert list(range(len(found))) == [event.seq for event in found]
            assert [] == list(store.verify())

    def test_j3_read_only_medium(self, root: Path) -> None:
        """
        Where nothing may be written, reads work and an append says why it does not.
        """
        with self.open_store(root) as store:
            store.append(make_header(), messages(2))
        paths = [root, *root.rglob("*")]
        for path in paths:
            path.chmod(0o555 if path.is_dir() else 0o444)

        def use() -> None:
            if os.getuid() == 0:
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            with self.open_store(root) as store:
                assert messages(2) == read_all(store, "s1")
                assert [] == list(store.verify())
                with pytest.raises(StoreReadOnly):
                    store.append(make_header(), [message(2)])
                with pytest.raises(StoreReadOnly):
                    store.append(make_header("s2"), messages(1))

        try:
            # The other user must get there: through the folders that the test made.
            for folder in root.parents:
                if os.getuid() != 0 or folder == Path(tempfile.gettempdir()):
                    break
                folder.chmod(folder.stat().st_mode | 0o055)
            assert 0 == ended(forked(use))
        finally:
            for path in paths:
                path.chmod(0o755 if path.is_dir() else 0o644)


def forked(body: Callable[[], object]) -> int:
    """Run *body* in a forked process; returns its id."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            body()
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    return child


def ended(child: int) -> int:
    """Wait for a process, kill it where it hangs; returns its exit code."""
    until = time.monotonic() + CHILD_WAIT_S
    while time.monotonic() < until:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
