"""Lineages, headers, traces and documents that DeepSeek Harness recorded, through queries."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from eventlog import LiveSessions, SessionHeader
from eventlog.codec import event_from_wire, header_from_wire
from eventlog.drivers.memory import MemoryStore
from eventlog.query import (
    Page,
    SessionQuery,
    SessionQueryError,
    SessionQueryErrorCode,
    SessionRecord,
)
from support import corpus, make_header, message
from support.differences import Difference
from support.query import RewritingStore, pages

Code = SessionQueryErrorCode


def recorded(name: str) -> Iterator[dict[str, Any]]:
    """The lines of a recorded file, by LF only: their texts hold U+2028 and its like."""
    with corpus("fuzz", name).open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            yield json.loads(line)


def header_of(record: dict[str, Any]) -> SessionHeader:
    """The header of a recorded one, which may leave out what is 0."""
    return header_from_wire({"type": "session", "delegationDepth": 0} | record)


def revived(live: LiveSessions, header: SessionHeader) -> None:
    live.create(
        header.id,
        created_at=header.created_at,
        cwd=header.cwd,
        parent_session=header.parent_session,
        delegation_depth=header.delegation_depth,
    )


def lineage(query: SessionQuery, target: str) -> dict[str, Any]:
    """A lineage in the form in which it was recorded, ids only, or its error's code."""
    try:
        trace = query.trace_session(target)
    except SessionQueryError as error:
        return {"error": str(error.code)}
    return {
        "complete": trace.complete,
        "root": None if trace.root is None else trace.root.header.id,
        "unresolvedParentId": trace.unresolved_parent_id,
        "ancestors": [record.header.id for record in trace.ancestors],
        "descendants": [
            (d.depth, d.parent_id, d.record.header.id, d.record.live) for d in trace.descendants
        ],
    }


def flattened(
    children: list[dict[str, Any]], parent: str, depth: int = 1
) -> Iterator[tuple[int, str, str, bool]]:
    """Recorded descendants, nested there, as we give them."""
    for child in children:
        record = child.get("session", child)
        name = record["header"]["id"] if "header" in record else record["id"]
        yield depth, parent, name, record.get("live", False)
        yield from flattened(child["descendants"], name, depth + 1)


def id_of(record: dict[str, Any] | str | None) -> str | None:
    if isinstance(record, dict):
        return str(record["header"]["id"])
    return record


def expected(result: dict[str, Any], target: str) -> dict[str, Any]:
    return {
        "complete": result["complete"],
        "root": id_of(result.get("root")),
        "unresolvedParentId": result.get("unresolvedParentId"),
        "ancestors": [id_of(record) for record in result["ancestors"]],
        "descendants": list(flattened(result["descendants"], target)),
    }


def test_generated_lineages_agree() -> None:
    """
    800 generated families give the recorded lineage or error; siblings of one millisecond
    come by code point here, and by the recorder's alphabet there.
    """
    count = reordered = 0
    for case in recorded("misc.jsonl"):
        if case["kind"] != "lineage":
            continue
        count += 1
        live = LiveSessions()
        with MemoryStore() as store:
            for record in case["records"]:
                header = header_of(record["header"])
                if record["live"]:
                    revived(live, header)
                if record["persisted"]:
                    store.append(header, [message(0)])
            ours = lineage(SessionQuery(live, store), case["target"])
        result = case["result"]
        if not result["ok"]:
            assert {"error": result["error"]["code"]} == ours, case["id"]
            continue
        theirs = expected(result["value"], case["target"])
        if theirs != ours:
            reordered += 1
            for answer in (theirs, ours):
                answer["descendants"].sort()
        assert theirs == ours, case["id"]

    assert 800 == count
    assert Difference.SIBLING_ORDER.cases == reordered


def readable(name: str, value: Any) -> Any:
    """A recorded header's value; where its type is another one, some other value of the field."""
    is_number = name in ("version", "createdAt", "seedLength", "delegationDepth")
    if is_number is (type(value) is int):
        return value
    return 77 if is_number else str(value)


def code_of(query: SessionQuery) -> SessionQueryErrorCode | None:
    """How a read fails, None where it does not."""
    try:
        query.read_event("s", 0)
    except SessionQueryError as error:
        return error.code
    return None


def test_headers_agree() -> None:
    """
    300 pairs of headers are told to be one session, or a conflict, as recorded; origin and
    preset count here too. A field of another type there is another value here.
    """
    count = stricter = 0
    for case in recorded("misc.jsonl"):
        if case["kind"] != "headers":
            continue
        count += 1
        one, other = case["a"], case["b"]
        with MemoryStore() as store:
            store.append(header_of(one), [message(0)])
            loaded = header_of({name: readable(name, value) for name, value in other.items()})
            query = SessionQuery(None, RewritingStore(store, loaded))
            code = code_of(query)
        ok = code is None
        assert code in (None, Code.SOURCE_CONFLICT)
        if ok is not case["result"]["ok"]:
            stricter += 1
            assert not ok
            assert any(one.get(name) != other.get(name) for name in ("origin", "agentPreset"))

    assert 300 == count
    assert Difference.HEADER_EQUALITY.cases == stricter


@pytest.fixture(scope="module")
def searched() -> dict[str, Any]:
    answers: dict[str, Any] = json.loads(corpus("dsh-search", "_search.json").read_bytes())
    return answers


def listing(query: SessionQuery) -> Iterator[Page[SessionRecord]]:
    return pages(lambda cursor: query.list_sessions(limit=20, cursor=cursor))


def test_recorded_lists_and_lineages_agree(searched: dict[str, Any]) -> None:
    """
    137 recorded sessions are listed in the recorded order, and each has its lineage.
    """
    with MemoryStore() as store:
        for record in searched["listSessions"]:
            store.append(header_of(record), [message(0)])
        query = SessionQuery(None, store)
        listed = [r.header.id for page in listing(query) for r in page.items]

        assert [record["id"] for record in searched["listSessions"]] == listed
        assert 137 == len(searched["lineage"])
        for case in searched["lineage"]:
            assert expected(case["result"], case["id"]) == lineage(query, case["id"])


def test_generated_logs_agree() -> None:
    """
    Each of the 1,400 generated logs that has a surface has the recorded classes, documents
    and traces through a query.
    """
    compared = 0
    for case in recorded("surface.jsonl"):
        if not case["fold"]["ok"]:
            continue
        live = LiveSessions()
        with MemoryStore() as store:
            store.append(make_header(), [event_from_wire(record) for record in case["events"]])
            query = SessionQuery(live, store)
            listed = query.list_events("s1").items
            found = query.filter_events("s1", limit=1_000).items
            traces = [query.trace_event("s1", record.seq) for record in listed]
        compared += 1

        assert case["surface"] == [record.event_class for record in listed]
        assert case["documents"] == [
            {"seq": d.seq, "type": d.type, "surface": d.event_class, "text": d.text} for d in found
        ]
        for theirs, ours in zip(case["traces"], traces, strict=True):
            assert theirs == {
                **({} if ours.replaced_by is None else {"replacedBy": ours.replaced_by}),
                "replacementChain": list(ours.replacement_chain),
                "replacedEventSeqs": list(ours.replaced_event_seqs),
                "sourceEventSeqs": list(ours.source_event_seqs),
                "derivedEventSeqs": list(ours.derived_event_seqs),
            }

    assert 875 == compared
