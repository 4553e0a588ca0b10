"""
A page to look at a session: one HTML file that needs nothing else.

The page shows the surface or the whole log as of any length, opens what a compaction
replaced, follows citations, and searches. It loads nothing and sends nothing: its own
script and style are the only ones that its policy admits, and whatever comes out of a
transcript stands in it as JSON with every ``<`` escaped, and becomes text nodes.

The log stands in blocks, each in two parts: a *head* with what the surface needs (type,
time, place, replacer, sources), read when the page opens, and the *bodies*, read when
their events come into view. So the writer holds one block in memory, and the reader's
browser parses what it shows.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import BinaryIO, Final

import orjson
from attrs import asdict, define, frozen

from eventlog.model import Event, Fault, Replace
from eventlog.vocabulary import Vocabulary

from ..corpus import CorpusSnapshot
from ..errors import SessionQueryError
from ..session_query import SessionQuery

__all__ = ["write_page"]

BLOCK_EVENTS: Final = 250
BLOCK_BYTES: Final = 1 << 20
COLUMNS: Final = 90
"""Characters of a line, to guess how high an event will stand."""


@frozen
class _Member:
    """One session of the page and its depth in the lineage."""

    session_id: str
    depth: int


@define
class _Facts:
    """What the page's index says of a session; some of it is found while it is written."""

    id: str
    created_at: int
    cwd: str | None
    parent: str | None
    depth: int
    length: int = 0
    title: str | None = None
    fault: str | None = None


def write_page(
    query: SessionQuery,
    session_id: str,
    out: BinaryIO,
    *,
    lineage: bool = False,
    progress: Callable[[int], object] | None = None,
) -> tuple[Fault, ...]:
    """
    Write the page of a session.

    A log that is damaged is shown up to there, and one whose fold fails without its
    surface; the page says so.

    Args:
        session_id: The session that is shown first.

        out: Where the file's bytes go, UTF-8.

        lineage: Show its ancestors and descendants too.

        progress: Called with the number of events written since the last call.

    Cost: every event of the sessions shown; one block of them in memory.

    Returns:
        What could not be shown; empty where everything was.

    Raises:
        SessionQueryError: The session, or with *lineage* its lineage, cannot be read at
            all. Nothing was written.

        OSError: *out* takes no more.
    """
    members = _lineage(query, session_id) if lineage else [_Member(session_id, 0)]
    query.corpus.snapshot(session_id)
    script, style = _asset("page.js"), _asset("page.css")
    head, tail = _asset("page.html").split("{data}\n")
    out.write(
        head.replace("{script_hash}", _hash(script))
        .replace("{style_hash}", _hash(style))
        .replace("{title}", html.escape(_printable(session_id)))
        .replace("{style}", style)
        .encode()
    )
    written: list[_Facts] = []
    faults: list[Fault] = []
    for member in members:
        try:
            log = query.corpus.snapshot(member.session_id)
        except SessionQueryError as error:
            faults.append(Fault(member.session_id, None, error.code, str(error)))
            continue
        facts = _facts(log, member.depth)
        _write_log(out, len(written), log, facts, query.vocabulary, progress)
        written.append(facts)
        if facts.fault is not None:
            faults.append(Fault(member.session_id, None, "damaged", facts.fault))
    start = next(n for n, facts in enumerate(written) if facts.id == session_id)
    index = {"start": start, "sessions": [asdict(facts) for facts in written]}
    out.write(b'<script type="application/json" id="index">' + _json(index) + b"</script>\n")
    out.write(tail.replace("{script}", script).encode())
    return tuple(faults)


def _lineage(query: SessionQuery, session_id: str) -> list[_Member]:
    """The ancestors from the root on, the session, and its descendants in pre-order."""
    trace = query.trace_session(session_id)
    ancestors = [record.header.id for record in reversed(trace.ancestors)]
    members = [_Member(one, depth) for depth, one in enumerate(ancestors)]
    members.append(_Member(session_id, len(ancestors)))
    return members + [
        _Member(found.record.header.id, len(ancestors) + found.depth) for found in trace.descendants
    ]


def _write_log(
    out: BinaryIO,
    number: int,
    log: CorpusSnapshot,
    facts: _Facts,
    vocabulary: Vocabulary,
    progress: Callable[[int], object] | None,
) -> None:
    """Write the blocks of one session, and into *facts* what was found on the way."""
    has_surface = True
    try:
        log.replaced_by(0, 1)
    except SessionQueryError as error:
        has_surface = False
        facts.fault = str(error)
    try:
        for first, events in _blocks(log):
            replaced = log.replaced_by(first, first + len(events)) if has_surface else None
            _write_block(out, number, first, events, replaced, vocabulary)
            facts.length += len(events)
            facts.title = _title(events) or facts.title
            if progress is not None:
                progress(len(events))
    except SessionQueryError as error:
        facts.fault = str(error)


def _blocks(log: CorpusSnapshot) -> Iterator[tuple[int, list[Event]]]:
    """Yield the log in blocks that are bounded in events and, but for one event, in bytes."""
    block: list[Event] = []
    size = 0
    for start in range(0, log.length, BLOCK_EVENTS):
        for event in log.read(start, min(start + BLOCK_EVENTS, log.length)):
            if block and size + len(event.payload) > BLOCK_BYTES:
                yield block[0].seq, block
                block, size = [], 0
            block.append(event)
            size += len(event.payload)
        if block:
            yield block[0].seq, block
            block, size = [], 0


def _write_block(
    out: BinaryIO,
    number: int,
    first: int,
    events: Sequence[Event],
    replaced: Mapping[int, int] | None,
    vocabulary: Vocabulary,
) -> None:
    """Write a head and its bodies; *replaced* is None for a log without a surface."""
    types: dict[str, int] = {}
    columns, bodies, sources = [], [], []
    for event in events:
        text = vocabulary.text(event)
        body = b'{"data":' + event.payload
        if text and not _has_blocks(event):
            body += b',"text":' + orjson.dumps(text)
        bodies.append(body + b"}")
        columns.append(
            [
                types.setdefault(event.type, len(types)),
                event.time,
                _lines(text),
                None if replaced is None else _place(event),
            ]
        )
        if event.source_event_seqs:
            sources.append([event.seq, event.source_event_seqs])
    head = {
        "first": first,
        "types": list(types),
        "events": columns,
        "by": list((replaced or {}).items()),
        "sources": sources,
    }
    out.write(
        b'<script type="application/json" data-head="%d">%b</script>\n'
        b'<script type="application/json" data-body="%d" data-first="%d">[%b]</script>\n'
        % (number, _json(head), number, first, b",".join(map(_escaped, bodies)))
    )


def _place(event: Event) -> int | None:
    """Where an event enters the surface: None nowhere, −1 at the end, else a range's start."""
    op = event.surface_op
    if op is None:
        return None
    return op.start if isinstance(op, Replace) else -1


def _has_blocks(event: Event) -> bool:
    """Whether the page finds the text in the data by itself, as a message's blocks."""
    data = event.data
    message = data.get("message")
    holder = data if "content" in data or not isinstance(message, dict) else message
    return isinstance(holder.get("content"), list)


def _lines(text: str) -> int:
    return sum(1 + len(line) // COLUMNS for line in text.split("\n")) if text else 1


def _title(events: Sequence[Event]) -> str | None:
    """The last title that a block gives its session."""
    for event in reversed(events):
        if event.type == "session/title":
            title = event.data.get("title")
            return title if isinstance(title, str) else None
    return None


def _facts(log: CorpusSnapshot, depth: int) -> _Facts:
    header = log.header
    return _Facts(header.id, header.created_at, header.cwd, header.parent_session, depth)


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"sha256-{digest}"


def _json(value: object) -> bytes:
    return _escaped(orjson.dumps(value))


def _escaped(text: bytes) -> bytes:
    """JSON that is safe inside a script element: ``<`` stands in strings only."""
    return text.replace(b"<", rb"\u003c")


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "�" for char in text)
