"""What tests ask of imported transcripts, whichever tool they came from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import frozen

from eventlog import Event, EventStore, Replace, fold_surface
from eventlog.importing import ImportAccount, import_transcripts
from eventlog.sources import TranscriptSource, load_sources

__all__ = ["Table", "imported", "messages_of", "origins_of", "places_of", "table_of", "whole_log"]


def imported(
    store: EventStore, tool: str | TranscriptSource, *paths: Path, refused: bool = False
) -> ImportAccount:
    """
    Import *paths*; the account adds up, no source failed at what it did not expect, and
    unless *refused* nothing was refused.
    """
    source = load_sources()[tool] if isinstance(tool, str) else tool
    account = import_transcripts(store, source, paths)
    assert account.adds_up, account
    assert not any("is not read further" in entry.reason for entry in account.refused), account
    if not refused:
        assert ([], []) == (account.refused, account.faults)
    return account


def whole_log(store: EventStore, session_id: str) -> list[Event]:
    """All events of a session: their fold is the store's, and their data is canonical."""
    snapshot = store.snapshot(session_id)
    events = snapshot.read(0, snapshot.length)
    for event in events:
        assert event == Event(
            event.seq,
            event.time,
            event.type,
            event.data,
            surface_op=event.surface_op,
            source_event_seqs=event.source_event_seqs,
            ignorable=event.ignorable,
        )
    assert fold_surface(events).nodes == snapshot.nodes()
    return events


@frozen
class Table:
    """
    One session in numbers.

    Attributes:
        types: How many events of each type, marks left out.

        pairs: Results that answer a call.

        open_calls: Ids of calls without a result, in order.

        compactions: Summaries that took the place of something.

        rewinds: Prompts that took the place of something.

        rewrites: Results that were given another content.

        parent: The parent session.

        inherited: Events copied from it.

        surface: Nodes at the end.
    """

    types: dict[str, int]
    pairs: int = 0
    open_calls: tuple[str, ...] = ()
    compactions: int = 0
    rewinds: int = 0
    rewrites: int = 0
    parent: str | None = None
    inherited: int | None = None
    surface: int = 0


def table_of(store: EventStore, session_id: str) -> Table:
    """Count one session."""
    events = whole_log(store, session_id)
    header = store.snapshot(session_id).header
    types: Counter[str] = Counter()
    calls: dict[str, list[int]] = {}
    pairs = compactions = rewinds = rewrites = 0
    for event in events:
        if event.type == "import/mark":
            continue
        types[event.type] += 1
        replaces = type(event.surface_op) is Replace
        data = event.data
        if event.type == "tool/call":
            calls.setdefault(data["callId"], []).append(event.seq)
        elif event.type == "tool/result" and replaces:
            rewrites += 1
        elif event.type == "tool/result":
            waiting = calls.get(data["message"]["source"]["callId"])
            if waiting:
                answered = waiting.pop()
                assert (answered,) == event.source_event_seqs
                pairs += 1
        elif replaces and data.get("source", {}).get("plugin") == "compact":
            compactions += 1
        elif replaces:
            rewinds += 1
    return Table(
        dict(types),
        pairs,
        tuple(call_id for call_id, waiting in calls.items() for _ in waiting),
        compactions,
        rewinds,
        rewrites,
        header.parent_session,
        header.seed_length,
        len(store.snapshot(session_id).nodes()),
    )


def messages_of(store: EventStore, session_id: str) -> list[Any]:
    """What the model sees of a session: type, role and content, in order."""
    snapshot = store.snapshot(session_id)
    shown = []
    for seq in snapshot.nodes():
        event = snapshot.read(seq, seq + 1)[0]
        data = event.data
        if not event.type.startswith("import/"):
            message = data.get("message", data)
            shown.append((event.type, message["role"], message["content"]))
    return shown


def origins_of(store: EventStore) -> Iterator[tuple[str, dict[str, Any]]]:
    """The session and the origin of every event of every session, those within one included."""
    for head in store.heads(limit=1000).items:
        for event in whole_log(store, head.header.id):
            origin = event.data.get("origin")
            if origin is not None:
                yield head.header.id, origin
                for more in origin.get("more", ()):
                    yield head.header.id, more


def places_of(store: EventStore) -> set[Any]:
    """The place of every record that some event came from, in whichever session."""
    return {origin.get("line", origin.get("at")) for _, origin in origins_of(store)} - {None}
