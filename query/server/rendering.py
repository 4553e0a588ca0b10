"""
What the history server's tools say, within their caps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

import orjson

from eventlog.model import Event, SessionHeader

from ..records import EventTrace, EventWindow, LineageTrace, SessionRecord
from ..search.answers import SearchHit
from ..session_query import SessionQuery
from ..text import cut_bytes, one_line

__all__ = ["render_event_trace", "render_lineage", "render_sessions", "render_window"]

BYTES_MAX: Final = 30_000
"""The most that one answer has, in bytes of UTF-8."""

NEIGHBOUR_BYTES_MAX: Final = 600
EXCERPT_BYTES_MAX: Final = 300
CWD_BYTES_MAX: Final = 150
LABEL_BYTES_MAX: Final = 150
CURSOR_BYTES_MAX: Final = 6_000
SEQS_MAX: Final = 200
MEMBERS_MAX: Final = 200
# Room for what is said around the parts that are cut to fit.
FRAME_BYTES: Final = 2_000


def render_sessions(
    hits: Sequence[tuple[SessionRecord, SearchHit | None]],
    cursor: str | None,
    searched: int | None,
    faults: int = 0,
) -> str:
    """
    Name sessions, each with the entry that matches best, where there is one.

    Args:
        cursor: How to go on, None at the end.

        searched: How many entries were searched, None for a listing.

        faults: How many sessions could not be read, as far as the client may know.
    """
    if searched is None:
        head = f"{len(hits)} newest sessions:" if hits else "there are no sessions"
    elif hits:
        head = f"{len(hits)} sessions match (searched {searched} entries):"
    else:
        head = f"no match in {searched} entries"
    last = [] if cursor is None else ["", f"more: cursor={cursor}"]
    if cursor is not None and len(cursor) > CURSOR_BYTES_MAX:
        last = ["", "there are more than can be walked through: search for something rarer"]
    if faults:
        last.append(f"({faults} sessions cannot be read, or not to their end)")
    frames = [
        "\n" + _session_line(record)
        if hit is None
        else f"\n{_session_line(record)}\n"
        f"  [seq {hit.seq}, {_label(hit.role or hit.type)}] score {hit.score:.1f}"
        for record, hit in hits
    ]
    # The page is given whole, since its cursor goes on behind it: excerpts share the room.
    room = BYTES_MAX - FRAME_BYTES - len(head) - _bytes(last) - _bytes(frames)
    excerpt_bytes = min(max(room // max(len(hits), 1) - 20, 0), EXCERPT_BYTES_MAX)
    lines = [head]
    for frame, (_, hit) in zip(frames, hits, strict=True):
        lines.append(frame)
        if hit is not None:
            cut = cut_bytes(one_line(hit.excerpt), excerpt_bytes)
            more = " … (truncated)" if cut.truncated or hit.truncated else ""
            lines.append(f"  {cut.text}{more}")
    return "\n".join(lines + last)


def render_window(query: SessionQuery, window: EventWindow, *, offset: int) -> str:
    """
    Give an entry's text from *offset* on, as much as fits, and its neighbours in brief.
    """
    target = window.target
    text = event_text(query, target)
    lines = [f"session {one_line(window.header.id)}"]
    others = [event for event in window.events if event is not target]
    # Types may be long: what they take, the texts of the neighbours have less.
    left = BYTES_MAX - FRAME_BYTES - NEIGHBOUR_BYTES_MAX - _bytes(map(_place, others))
    each = min(max(left // max(len(others), 1) - len(CUT_MARK.encode()), 0), NEIGHBOUR_BYTES_MAX)
    brief = {event.seq: _neighbour(query, event, each) for event in others}
    room = BYTES_MAX - FRAME_BYTES - _bytes(brief.values())
    part = cut_bytes(text[offset:], max(room, NEIGHBOUR_BYTES_MAX))
    lines += [told for seq, told in brief.items() if seq < target.seq]
    lines.append(_place(target))
    lines.append(part.text)
    if part.truncated or offset:
        stop = min(offset, len(text)) + len(part.text)
        lines.append(f"(truncated: characters {min(offset, len(text))} to {stop} of {len(text)})")
    if part.truncated:
        lines.append(f"(go on with offset={offset + len(part.text)})")
    lines += [told for seq, told in brief.items() if seq > target.seq]
    return "\n".join(lines)


def render_event_trace(trace: EventTrace) -> str:
    """Tell what became of an entry, and what it came from."""
    target = trace.target
    chain = _seqs(trace.replacement_chain) + ("" if trace.chain_complete else ", and more")
    stands = f"{target.event_class.value}{', inherited' if target.inherited else ''}"
    lines = [
        f"session {one_line(trace.header.id)}, entry {target.seq} ({target.type}), {stands}",
        f"replaced by: {chain}",
        f"stands for it now: {'none' if trace.current_seq is None else trace.current_seq}",
        f"replaces: {_seqs(trace.replaced_event_seqs)}",
        f"cites: {_seqs(trace.source_event_seqs)}",
        f"cited by: {_seqs(trace.derived_event_seqs)}",
    ]
    return _capped(lines)


def render_lineage(trace: LineageTrace, allows: Callable[[SessionHeader], bool]) -> str:
    """
    Tell where a session came from and what came of it, as far as *allows* lets it be seen.

    What lies behind a session that may not be seen is not told either, and no id of it.
    """
    lines = [f"session {_session_line(trace.target)}", "", "ancestors, nearest first:"]
    hidden = not trace.complete
    shown = 0
    for record in trace.ancestors:
        if not allows(record.header):
            hidden = True
            break
        lines.append("  " + _session_line(record))
        shown += 1
    if hidden:
        lines.append("  (further ancestors are not available here)")
    elif not shown:
        lines.append("  none")
    lines += ["", "descendants:"]
    told = len(lines)
    skip_below: int | None = None
    for number, member in enumerate(trace.descendants):
        if skip_below is not None and member.depth > skip_below:
            continue
        skip_below = None
        if not allows(member.record.header):
            skip_below = member.depth
            lines.append("  " * member.depth + "(a session that is not available here)")
        else:
            lines.append("  " * member.depth + _session_line(member.record))
        if len(lines) - told >= MEMBERS_MAX and number + 1 < len(trace.descendants):
            lines.append("(truncated: there are more; trace one of these to see its own)")
            break
    if len(lines) == told:
        lines.append("  none")
    return _capped(lines)


def event_text(query: SessionQuery, event: Event) -> str:
    """The text of an event; its data as JSON where its type has none."""
    return query.vocabulary.text(event) or orjson.dumps(event.data).decode()


CUT_MARK: Final = " … (truncated: read it by its seq)"


def _neighbour(query: SessionQuery, event: Event, bytes_max: int) -> str:
    cut = cut_bytes(event_text(query, event), bytes_max)
    return f"{_place(event)}\n{cut.text}{CUT_MARK if cut.truncated else ''}"


def _place(event: Event) -> str:
    return f"[seq {event.seq}, {_label(event.type)}, {_when(event.time)}]"


def _label(text: str) -> str:
    """A type or a role, which may be anything."""
    return cut_bytes(one_line(text), LABEL_BYTES_MAX).text


def _bytes(texts: Iterable[str]) -> int:
    """Bytes of lines, with their ends."""
    return sum(len(text.encode()) + 1 for text in texts)


def _session_line(record: SessionRecord) -> str:
    header = record.header
    parts = [one_line(header.id), _when(header.created_at), f"{record.length} entries"]
    if header.cwd is not None:
        cut = cut_bytes(one_line(header.cwd), CWD_BYTES_MAX)
        parts.append(cut.text + (" …" if cut.truncated else ""))
    return ", ".join(parts)


def _when(time_ms: int) -> str:
    try:
        moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"
    return moment.strftime("%Y-%m-%d %H:%M:%SZ")


def _seqs(seqs: Sequence[int]) -> str:
    if not seqs:
        return "none"
    told = ", ".join(str(seq) for seq in seqs[:SEQS_MAX])
    rest = len(seqs) - SEQS_MAX
    return told + (f", … (truncated: {rest} more)" if rest > 0 else "")


def _capped(lines: Sequence[str]) -> str:
    """Join *lines* within the cap."""
    room = BYTES_MAX - FRAME_BYTES
    kept: list[str] = []
    for line in lines:
        room -= len(line.encode()) + 1
        if room < 0:
            kept.append("(truncated: the answer is longer than is given at once)")
            break
        kept.append(line)
    return "\n".join(kept)
