"""
Headers and events to store in tests, with everything filled in that a test does not
care about, and random logs that the fold accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eventlog.model import APPEND, Event, Replace, SessionHeader, SurfaceOp
from eventlog.testing.naive import NaiveSurface

__all__ = [
    "busy_log",
    "make_header",
    "message",
    "messages",
    "note",
    "random_event",
    "random_log",
    "summary",
    "tool_result",
    "wild_event",
]

# Some that a medium or a codec has choked on.
TEXTS = ("plain", "", "\x00", "line\nend\r", "\u2028", "e\u0301", "\U0001f511", '"\\,"data":{')

# A source of choices: gives an int in [0, n) for each n > 0.
Choose = Callable[[int], int]


def make_header(session_id: str = "s1", *, created_at: int = 1_000, **fields: Any) -> SessionHeader:
    """Return a header; *fields* are those of :class:`~eventlog.SessionHeader`."""
    return SessionHeader(session_id, created_at, **fields)


def message(
    seq: int,
    text: str | None = None,
    *,
    time: int | None = None,
    surface_op: SurfaceOp = APPEND,
    source_event_seqs: Sequence[int] | None = None,
) -> Event:
    """Return a ``user/message``, a node at the end of the surface by default."""
    return Event(
        seq,
        1_000 + seq if time is None else time,
        "user/message",
        {
            "id": f"m{seq}",
            "role": "user",
            "content": [{"type": "text", "text": f"text {seq}" if text is None else text}],
            "source": {"kind": "user"},
        },
        surface_op=surface_op,
        source_event_seqs=source_event_seqs,
    )


def messages(count: int, *, start: int = 0) -> list[Event]:
    """Return *count* consecutive messages from seq *start* on; [] for 0."""
    return [message(seq) for seq in range(start, start + count)]


def summary(seq: int, start: int, end: int, shadowed: Sequence[int]) -> Event:
    """Return a message that replaces the nodes from *start* to *end* and cites *shadowed*."""
    return message(
        seq,
        f"summary {seq}",
        surface_op=Replace(start, end),
        source_event_seqs=shadowed,
    )


def note(seq: int, data: dict[str, Any] | None = None, *, time: int | None = None) -> Event:
    """Return an event of a foreign type that never is on the surface."""
    return Event(
        seq,
        1_000 + seq if time is None else time,
        "x/note",
        {"note": seq} if data is None else data,
    )


def tool_result(
    seq: int, call_id: str, text: str = "output", *, replaces: int | None = None
) -> Event:
    """Return the result of a call; with *replaces*, the rewrite of an earlier result."""
    return Event(
        seq,
        1_000 + seq,
        "tool/result",
        {
            "turn": 1,
            "step": 1,
            "message": {
                "id": f"result-{call_id}",
                "role": "user",
                "content": [
                    {
                        "type": "tool-result",
                        "toolCallId": call_id,
                        "content": [{"type": "text", "text": text}],
                    }
                ],
                "source": {"kind": "tool", "callId": call_id},
            },
        },
        surface_op=APPEND if replaces is None else Replace(replaces, replaces),
        source_event_seqs=None if replaces is None else [replaces],
    )


def busy_log(length: int) -> list[Event]:
    """
    Return a log of mostly log-only events whose surface stays small however long it is.

    Every 50th event is a message and every 500th a summary of the whole surface, which
    therefore never has more than 11 nodes; each summary stands in the place of the one
    before, so that the chain of replacements has a length of *length* / 500.
    """
    events = []
    surface: list[int] = []
    for seq in range(length):
        if seq % 500 == 499:
            events.append(summary(seq, surface[0], surface[-1], surface))
            surface = [seq]
        elif seq % 50 == 0:
            events.append(message(seq))
            surface.append(seq)
        else:
            events.append(note(seq))
    return events


def random_log(choose: Choose, length: int) -> list[Event]:
    """
    Return a log of *length* events that the fold accepts.

    It has messages, results and their rewrites, log-only events, citations, and
    replacements of ranges that hold earlier replacements. Times may step back.

    Args:
        choose: Where the choices come from, such as ``random.Random(7).randrange``.
    """
    surface = NaiveSurface()
    events: list[Event] = []
    for _ in range(length):
        event = random_event(choose, surface)
        surface.add(event)
        events.append(event)
    return events


def random_event(choose: Choose, surface: NaiveSurface) -> Event:
    """Return an event that may follow the log that *surface* has taken in."""
    kind = _KINDS[choose(len(_KINDS))]
    return kind(choose, surface)


def wild_event(choose: Choose, seq: int, surface: NaiveSurface) -> Event:
    """
    Return an event with any op and any sources, which the fold may accept or refuse.

    Args:
        seq: Its seq; *surface* may be shorter.
    """
    bound = surface.length + 2
    types = ("user/message", "assistant/message", "tool/result", "x/card", "x/note", "turn/start")
    start, end = choose(bound), choose(bound)
    op = (None, APPEND, Replace(start, end), Replace(start, end))[choose(4)]
    sources = (
        None,
        [],
        [choose(bound) for _ in range(choose(4))],
        list(range(min(start, end), max(start, end) + 1)),
        surface.nodes,
    )[choose(5)]
    return Event(
        seq, seq, types[choose(len(types))], {"n": seq}, surface_op=op, source_event_seqs=sources
    )


def _appended(choose: Choose, surface: NaiveSurface) -> Event:
    seq = surface.length
    return message(seq, TEXTS[choose(len(TEXTS))], time=1_000 + seq - 7 * choose(3))


def _reply(choose: Choose, surface: NaiveSurface) -> Event:
    seq = surface.length
    cited: list[int] | None = None
    if choose(2):
        cited = _some(choose, list(range(max(0, seq - 6), seq)))
    return Event(
        seq,
        1_000 + seq,
        "assistant/message",
        {"message": {"role": "assistant", "content": []}, "n": seq},
        surface_op=APPEND,
        source_event_seqs=cited,
    )


def _log_only(choose: Choose, surface: NaiveSurface) -> Event:
    seq = surface.length
    cited = _some(choose, list(range(max(0, seq - 6), seq))) if choose(2) else []
    return Event(
        seq,
        1_000 + seq,
        ("x/note", "x/progress", "todo/write", "turn/start")[choose(4)] if not cited else "x/cites",
        {"n": seq},
        source_event_seqs=cited or None,
        ignorable=choose(4) == 0,
    )


def _foreign_node(choose: Choose, surface: NaiveSurface) -> Event:
    seq = surface.length
    return Event(seq, 1_000 + seq, "x/card", {"n": seq}, surface_op=APPEND)


def _result(choose: Choose, surface: NaiveSurface) -> Event:
    seq = surface.length
    return tool_result(seq, f"call-{seq}", f"output {seq}")


def _rewrite(choose: Choose, surface: NaiveSurface) -> Event:
    # A program may hold results of any data; only those of the usual shape name their call.
    results = [
        seq
        for seq in surface.nodes
        if surface.events[seq].type == "tool/result" and "message" in surface.events[seq].data
    ]
    if not results:
        return _result(choose, surface)
    target = results[choose(len(results))]
    call_id = surface.events[target].data["message"]["source"]["callId"]
    return tool_result(surface.length, call_id, "(pruned)", replaces=target)


def _replacement(choose: Choose, surface: NaiveSurface) -> Event:
    nodes = surface.nodes
    if not nodes:
        return _appended(choose, surface)
    first = choose(len(nodes))
    last = min(first + choose(5), len(nodes) - 1)
    shadowed = nodes[first : last + 1]
    also = [seq for seq in _some(choose, list(range(surface.length))) if seq not in shadowed]
    event_type = ("user/message", "assistant/message", "x/card")[choose(3)]
    return Event(
        surface.length,
        1_000 + surface.length,
        event_type,
        {"n": surface.length},
        surface_op=Replace(nodes[first], nodes[last]),
        source_event_seqs=[*shadowed, *also[:2]],
    )


def _some(choose: Choose, seqs: list[int]) -> list[int]:
    """Return some of *seqs*, at most three, in any order and each once."""
    return list(dict.fromkeys(seqs[choose(len(seqs))] for _ in range(choose(4)) if seqs))


# Replacements are named twice so that surfaces stay small and replacements nest.
_KINDS = (
    _appended,
    _appended,
    _reply,
    _log_only,
    _foreign_node,
    _result,
    _rewrite,
    _replacement,
    _replacement,
)
