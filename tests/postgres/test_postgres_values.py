"""What is stored comes back as it was, whatever the database thinks of text and numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventlog.drivers.memory import MemoryStore
from eventlog.drivers.postgres import PostgresStore
from eventlog.errors import SequenceConflict, ValueRejected
from eventlog.query import SessionQuery
from eventlog.testing import make_header, message, messages, note
from support.postgres import need_server, schema_of, store_at

ODD = "D\x00i\x00r\x00 done \u2028 \x85 \U0001f511 e\u0301 \uffff ' \\ %s {} \\x00"


def test_b4_nul_and_odd_characters_stay(tmp_path: Path) -> None:
    """
    NUL, separators and unpaired accents come back as they were, in payload, type, id and
    header, and the word behind them is found.

    Field report b4: a NUL in a tool's output made the whole session impossible to store.
    """
    header = make_header("日/é'; --", cwd="/w/%s/日", extra={"k\x00": [ODD]})
    events = [note(0, {"text": ODD, ODD: None}), message(1, ODD)]
    with store_at(tmp_path) as store:
        store.append(header, events)
        snapshot = store.snapshot(header.id)

        assert header == snapshot.header
        assert events == snapshot.read(0, 9)
        assert [ODD, ODD] == [
            snapshot.read(0, 1)[0].data["text"],
            snapshot.read(1, 2)[0].data["content"][0]["text"],
        ]
        hits = SessionQuery(store=store, search=None).search_events(header.id, "done")
        assert [1] == [hit.seq for hit in hits.items]


def test_c1_c2_numbers_keep_value_sign_and_type(tmp_path: Path) -> None:
    """
    Large ints stay exact; -0.0, 1.0 and 1 stay apart.

    Field reports c1 and c2: numbers were rounded and normalised on their way.
    """
    data = {
        "a": 9007199254740993,
        "b": 9223372036854775807,
        "c": 18446744073709551615,
        "m": -(2**63),
        "z": -0.0,
        "f": 1.0,
        "i": 1,
        "t": True,
        "d": 0.1 + 0.2,
        "e": 1e22,
        "s": 5e-324,
    }
    with store_at(tmp_path) as store:
        store.append(make_header(), [note(0, data)])
        found = store.snapshot("s1").read(0, 1)[0].data

    assert [(key, type(value), repr(value)) for key, value in data.items()] == [
        (key, type(value), repr(value)) for key, value in found.items()
    ]
    assert list(data) == list(found)


def test_payload_on_the_server_is_the_canonical_encoding(tmp_path: Path) -> None:
    """
    The server holds the bytes of the payload and nothing made of them.
    """
    event = note(0, {"b": 1.0, "a": [ODD, -0.0]})
    with store_at(tmp_path) as store:
        store.append(make_header(), [event])

    query = f"SELECT payload FROM {schema_of(tmp_path)}.events"
    assert [(event.payload,)] == need_server().query(query)


def test_d3_clock_decides_nothing(tmp_path: Path) -> None:
    """
    Appends with a clock that stands still, steps back or is before 1970 all go in.

    Field report d3: an append was stale because two times were equal.
    """
    times = [5, 5, 5, 4, -(2**53) + 1, 2**53 - 1, 0]
    with store_at(tmp_path) as store:
        for seq, time in enumerate(times):
            assert seq + 1 == store.append(make_header(), [note(seq, time=time)])

        assert times == [event.time for event in store.snapshot("s1").read(0, 99)]
        assert 0 == store.head("s1").last_time  # type: ignore[union-attr]
        assert [] == list(store.verify())


def test_d6_retry_adds_nothing(tmp_path: Path) -> None:
    """
    The same append again is taken as done, whole or in part; another one in its place is
    a conflict.

    Field report d6: an entry whose acknowledgement was lost was stored four times.
    """
    with store_at(tmp_path) as store:
        for _ in range(3):
            assert 3 == store.append(make_header(), messages(3))
        assert 5 == store.append(make_header(), messages(3, start=2))
        with pytest.raises(SequenceConflict) as caught:
            store.append(make_header(), [message(1, "other")])

        assert (5, 1) == (caught.value.expected, caught.value.actual)
        assert messages(5) == store.snapshot("s1").read(0, 99)


@pytest.mark.parametrize(
    "session_id", ["", "a" * 255, "a" * 256, "日" * 85, "日" * 86, "a\x00b", "\ud800", "a'b\"c"]
)
def test_e7_ids_are_those_of_every_driver(tmp_path: Path, session_id: str) -> None:
    """
    The ids that are taken, and those that are refused, are the same as in memory.

    Field report e7: an id that one medium accepts failed in another.
    """

    def told(store: PostgresStore | MemoryStore) -> object:
        try:
            store.append(make_header(session_id), messages(1))
        except ValueRejected as error:
            return error.path, error.reason
        return [head.header.id for head in store.heads().items]

    with store_at(tmp_path) as store, MemoryStore() as memory:
        assert told(memory) == told(store)


def test_long_batches_and_large_events(tmp_path: Path) -> None:
    """
    A batch of many events, and one of some megabytes, are stored like any other.
    """
    many = [note(seq) for seq in range(10_000)]
    large = [note(10_000 + seq, {"text": "x" * 9_000_000}) for seq in range(3)]
    with store_at(tmp_path) as store:
        assert 10_003 == store.append(make_header(), many + large)
        assert many[9_990:] + large == store.snapshot("s1").read(9_990, 99_999)
        assert [] == list(store.verify())


def test_sessions_are_listed_by_code_point(tmp_path: Path) -> None:
    """
    Sessions of one time are listed by code point, in whatever locale the server is.
    """
    ids = ["a", "B", "é", "z", "日", "\uff5e", "\U0001f511", "a/b", "A"]
    with store_at(tmp_path) as store:
        for session_id in ids:
            store.append(make_header(session_id, parent_session="p"), messages(1))

        assert sorted(ids) == [head.header.id for head in store.heads().items]
        assert sorted(ids) == [head.header.id for head in store.children("p").items]
