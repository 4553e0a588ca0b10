"""
What is no argument: refused by its name, by a typed error, and in few words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from eventlog import (
    APPEND,
    DEFAULT_VOCABULARY,
    Event,
    HeadKey,
    HeadPage,
    LiveSessions,
    PruneAccount,
    PrunePolicy,
    ReadOnlyStore,
    Recorder,
    SessionHead,
    SessionHeader,
    Vocabulary,
    fold_surface,
    open_store,
)
from eventlog.drivers.lmdb import LmdbStore
from eventlog.drivers.memory import MemoryStore
from eventlog.errors import EventLogError, HeaderConflict, InvalidArgument, ValueRejected
from eventlog.pruning import Pruned
from eventlog.recording import RecordingHealth, SessionRecording
from eventlog.store import ChangeSet
from support import make_header, messages, replacement
from support.midst import struck


class Unprintable:
    """An object that cannot say what it is."""

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        raise RuntimeError("no")


ODD: list[Any] = [
    5,
    -1,
    True,
    1.5,
    10**5000,
    b"x",
    [],
    {},
    {1},
    [[]],
    object,
    Unprintable(),
    "x" * 10**6,
    "\ud800",
    (n for n in [1]),
]
ODD_IDS = [type(value).__name__ for value in ODD]

ID_CALLS: dict[str, Callable[[LiveSessions, Recorder, Any], object]] = {
    "get": lambda live, recorder, odd: live.get(odd),
    "head": lambda live, recorder, odd: live.head(odd),
    "snapshot": lambda live, recorder, odd: live.snapshot(odd),
    "children": lambda live, recorder, odd: live.children(odd),
    "dispose": lambda live, recorder, odd: live.dispose(odd),
    "fork": lambda live, recorder, odd: live.fork(odd),
    "fork-id": lambda live, recorder, odd: live.fork("s1", session_id=odd),
    "create": lambda live, recorder, odd: live.create(odd),
    "flush": lambda live, recorder, odd: recorder.flush(odd),
    "unstored": lambda live, recorder, odd: recorder.unstored(odd),
    "resume": lambda live, recorder, odd: recorder.resume(odd),
    "inspect": lambda live, recorder, odd: recorder.inspect(odd),
}


@pytest.mark.parametrize("odd", ODD, ids=ODD_IDS)
@pytest.mark.parametrize("name", ID_CALLS)
def test_e7_what_can_be_no_id_is_refused_alike(name: str, odd: Any) -> None:
    """
    Every call that takes a session or its id refuses what can be neither, by the error of
    ids, whose text is short. An unhashable one was a bare TypeError, and an id of a
    megabyte came back in the message.
    """
    live = LiveSessions()
    live.create("s1")
    with Recorder(live, MemoryStore()) as recorder:
        with pytest.raises(ValueRejected) as caught:
            ID_CALLS[name](live, recorder, odd)
        assert len(str(caught.value)) < 200
        assert odd not in live
        assert ["s1"] == [session.id for session in live]


LOG = messages(2)
SNAPSHOT_CALLS: dict[str, Callable[[Any], object]] = {
    "snapshot-at": lambda huge: live_session().snapshot(at=huge),
    "fork": lambda huge: LiveSessions().fork(live_session(), huge),
    "classify": lambda huge: live_session().snapshot().classify(huge),
    "replaced": lambda huge: live_session().snapshot().replaced(huge),
    "stand_in": lambda huge: live_session().snapshot().stand_in(huge),
    "citing": lambda huge: live_session().snapshot().citing(huge),
    "after": lambda huge: live_session().snapshot().nodes(after=huge),
    "store": lambda huge: filled_store().snapshot("s1", at=huge),
}


def live_session() -> Any:
    return LiveSessions().create("s1", seed=LOG)


def filled_store() -> MemoryStore:
    store = MemoryStore()
    store.append(make_header(), LOG)
    return store


@pytest.mark.parametrize("name", SNAPSHOT_CALLS)
def test_x1_seq_that_python_does_not_print_is_beyond_the_log(name: str) -> None:
    """
    An int of 5,000 digits was a bare ValueError of its own message.
    """
    with pytest.raises((InvalidArgument, KeyError)) as caught:
        SNAPSHOT_CALLS[name](10**5000)
    assert isinstance(caught.value, EventLogError)
    assert len(str(caught.value)) < 200


def test_x1_huge_bounds_of_a_window_are_clipped() -> None:
    """
    A bound or a limit beyond all logs reads what there is.
    """
    for snapshot in (live_session().snapshot(), filled_store().snapshot("s1")):
        assert LOG == snapshot.read(0, 10**5000)[:2]
        assert [] == snapshot.read(10**5000, 10**5001)
        assert [0, 1] == snapshot.nodes(limit=10**5000)
        assert {} == snapshot.replaced_by(10**5000, 10**5001)


REFUSED: dict[str, Callable[[], object]] = {
    "log": lambda: LiveSessions().adopt(make_header()),  # type: ignore[arg-type]
    "appended": lambda: LiveSessions().observe(5),  # type: ignore[arg-type]
    "created": lambda: LiveSessions().observe(created="x"),  # type: ignore[arg-type]
    "disposed": lambda: LiveSessions().observe(disposed=[]),  # type: ignore[arg-type]
    "events": lambda: fold_surface(5),  # type: ignore[arg-type]
    "events-2": lambda: fold_surface([{"seq": 0}]),  # type: ignore[list-item]
    "types": lambda: Vocabulary(5),  # type: ignore[arg-type]
    "types-2": lambda: Vocabulary("xy"),  # type: ignore[arg-type]
    "types-3": lambda: DEFAULT_VOCABULARY.with_types(None),  # type: ignore[arg-type]
    "types-4": lambda: DEFAULT_VOCABULARY.with_types({"x/a": 5}),  # type: ignore[dict-item]
    "inner": lambda: ReadOnlyStore("memory:"),  # type: ignore[arg-type]
    "read_only": lambda: open_store("memory:", read_only="no"),  # type: ignore[arg-type]
    "path": lambda: LmdbStore(5),  # type: ignore[arg-type]
    "path-2": lambda: LmdbStore(b"x"),  # type: ignore[arg-type]
    "older_than_ms": lambda: PrunePolicy(10**5000),
    "cwd": lambda: PrunePolicy(1, cwd=5),  # type: ignore[arg-type]
    "live": lambda: filled_store().prune(PrunePolicy(0), dry_run=False, live={"s1": 1}),  # type: ignore[arg-type]
    "archive": lambda: filled_store().prune(PrunePolicy(0), dry_run=False, archive=5),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_argument_is_refused_by_name(name: str) -> None:
    """
    The error says which argument it was, and what it must be.
    """
    with pytest.raises(InvalidArgument) as caught:
        REFUSED[name]()
    assert name.partition("-")[0] == caught.value.name
    assert "must" in caught.value.reason


@pytest.mark.parametrize(
    "odd", [None, 0, 1, "no", "", [], Unprintable()], ids=lambda odd: type(odd).__name__
)
def test_j8_what_takes_away_takes_no_near_bool(odd: Any) -> None:
    """
    A deletion, a pruning and a repair ask for a bool: None, 0 or "" given as *dry_run*
    would have done what a dry run is to show, and "no" as *forget* meant yes.
    """
    store = filled_store()
    for call in (
        lambda: store.delete("s1", forget=odd),
        lambda: store.repair(dry_run=odd),
        lambda: store.prune(PrunePolicy(0), dry_run=odd),
    ):
        with pytest.raises(InvalidArgument):
            call()
    assert LOG == store.snapshot("s1").read(0, 9)


@pytest.mark.parametrize(
    "extra", [5, True, "", "ab", [], [{}], [("a", 1)], ("a",), {1: 2}, {"a": {1}}, {"cwd": "/w"}]
)
def test_h15_extra_header_fields_are_an_object(extra: Any) -> None:
    """
    What is no JSON object was a bare TypeError, or was taken for none.
    """
    with pytest.raises(ValueRejected) as caught:
        SessionHeader("s1", 1, extra=extra)
    assert caught.value.path.startswith("extra")


def test_a_value_that_is_changed_meanwhile_is_refused_or_whole() -> None:
    """
    A dict that grew while it was walked was Python's own RuntimeError. Either the append
    takes it as it was at one moment, or it is ValueRejected, and uses no seq.
    """
    seen: set[bool] = set()
    at = 1
    while True:
        session = LiveSessions().create()
        data: dict[str, Any] = {"a": [1], "b": [2], "c": ("x",)}

        def change(data: dict[str, Any] = data) -> None:
            data["new"] = [3]

        was_refused = False
        with struck(change, at) as count:
            try:
                session.append("x/a", data)
            except ValueRejected:
                was_refused = True
        if count[0] < at:
            break
        seen.add(was_refused)
        assert was_refused == (session.length == 0)
        for event in session.read(0, 1):
            assert event.data in (
                {"a": [1], "b": [2], "c": ["x"]},
                {"a": [1], "b": [2], "c": ["x"], "new": [3]},
            )
        at += 1
    assert {True, False} == seen


def test_representations_are_short_whatever_they_hold() -> None:
    """
    No record prints what it holds at length: a debugger or a log line stays readable.
    """
    long = "x" * 10**6
    header = SessionHeader("s1", 1, cwd=long, origin=long, extra={"a": long})
    event = Event(0, 1, "x/a", {"a": long}, source_event_seqs=None)
    head = SessionHead(header, 1, 1)
    events = [*messages(2_000), replacement(2_000, 0, 1_999, list(range(2_000)))]
    surface = fold_surface(events)
    recording = SessionRecording("s1", 1, 0, None, False)
    live = LiveSessions()
    session = live.create("s2", seed=[event])
    session.append("user/message", {"role": "user", "content": long}, surface_op=APPEND)
    conflict = HeaderConflict("s1", "cwd", long, header.extra)
    held: list[object] = [
        header,
        event,
        head,
        HeadPage((head,) * 1_000, HeadKey(1, "s1")),
        ChangeSet((long,) * 100, long),
        RecordingHealth((recording,) * 1_000),
        PruneAccount(1_000, (Pruned("s1", 1, 1, False),) * 1_000, (), True),
        surface,
        surface.replacements,
        live,
        session,
        session.snapshot(),
    ]
    for value in held:
        assert len(repr(value)) < 1_000, type(value)
    assert len(str(conflict)) < 1_000
    assert "extra={'a': 'xxx" in repr(header)
