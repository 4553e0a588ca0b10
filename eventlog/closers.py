"""
Work that a crash left open at the end of a log, and the events that close it.

The rules are those of the reference harness: an interrupted turn gets an error result for
each call without one, then the ends of its step and turn. Events that happened are never
changed or dropped. One rule is added: where a log has no turns at all, the calls of its
last answer are closed, since no provider takes a conversation with an open call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from attrs import evolve, frozen

from eventlog.model import APPEND, Event
from eventlog.values import JSONValue
from eventlog.vocabulary import enveloped

__all__ = ["OpenCall", "OpenWork", "closers", "open_work"]

PAGE_EVENTS: Final = 256
BOUNDARIES: Final = frozenset({"turn/start", "turn/end"})

ReadEvents = Callable[[int, int], list[Event]]


@frozen
class OpenCall:
    """
    A tool call without a result.

    Attributes:
        call_id: Its id.

        step: The step of the answer that asked for it, None where that names none.

        seq: The event that recorded its start, None where it was never started.
    """

    call_id: str
    step: JSONValue
    seq: int | None


@frozen
class OpenWork:
    """
    What the end of a log leaves open.

    Attributes:
        turn_start: The seq of the ``turn/start`` of the open turn, None where none is open.

        turn: The turn's number, None where it has none.

        step_start: The seq of the ``step/start`` of the open step, None where none is open.

        step: The step's number, None where it has none.

        calls: Calls without a result, in the order in which they were asked for.
    """

    turn_start: int | None = None
    turn: JSONValue = None
    step_start: int | None = None
    step: JSONValue = None
    calls: tuple[OpenCall, ...] = ()


def open_work(read: ReadEvents, length: int) -> OpenWork:
    """
    Find what a log leaves open.

    Args:
        read: Gives the events of ``[start, stop)``.

        length: How many events the log has.

    Cost: the events from the last start or end of a turn on; all of them where there is
    none.
    """
    start = _last_boundary(read, length)
    if start is None:
        return OpenWork(calls=_calls_of_last_answer(read, length))
    tail = _Tail()
    for page in range(start, length, PAGE_EVENTS):
        for event in read(page, min(page + PAGE_EVENTS, length)):
            tail.follow(event)
    return tail.work()


def closers(work: OpenWork, last: Event) -> list[Event]:
    """
    Return the events that close *work* behind *last*, the last event of its log.

    They have the time of *last*, so the same log gets the same closers wherever it is
    closed. Null case: nothing is open, and there are none.
    """
    closing: list[Event] = []

    def add(event_type: str, data: dict[str, JSONValue], *, source: int | None = None) -> None:
        is_result = event_type == "tool/result"
        closing.append(
            Event(
                last.seq + 1 + len(closing),
                last.time,
                event_type,
                data,
                surface_op=APPEND if is_result else None,
                source_event_seqs=None if source is None else [source],
            )
        )

    for call in work.calls:
        seq = last.seq + 1 + len(closing)
        add("tool/result", _interrupted_result(work, call, seq), source=call.seq)
    if work.step_start is not None:
        add("step/end", _numbers(work.turn, work.step))
    if work.turn_start is not None:
        add("turn/end", {**_numbers(work.turn), "reason": {"kind": "interrupted"}})
    return closing


def _numbers(turn: JSONValue, step: JSONValue = None) -> dict[str, JSONValue]:
    """The numbers that are known, by the names that events have for them."""
    return {name: number for name, number in (("turn", turn), ("step", step)) if number is not None}


class _Tail:
    """What is open after each event of a turn."""

    def __init__(self) -> None:
        self._turn: Event | None = None
        self._step: Event | None = None
        self._calls: dict[str, OpenCall] = {}

    def follow(self, event: Event) -> None:
        match event.type:
            case "turn/start":
                self._turn, self._step, self._calls = event, None, {}
            case "turn/end":
                self._turn, self._step, self._calls = None, None, {}
            case "step/start":
                self._step = event
            case "step/end":
                self._step, self._calls = None, {}
            case "assistant/message":
                data = event.data
                for asked in _asked_for(data):
                    self._calls[asked] = OpenCall(asked, data.get("step"), None)
            case "tool/call":
                started = event.data.get("callId")
                if type(started) is str and started in self._calls:
                    self._calls[started] = evolve(self._calls[started], seq=event.seq)
            case "tool/result":
                self._calls.pop(_answered(event.data), None)
            case _:
                pass

    def work(self) -> OpenWork:
        if self._turn is None:
            # Outside turns nothing is closed where a log has turns.
            return OpenWork()
        turn, step = self._turn, self._step
        return OpenWork(
            turn.seq,
            turn.data.get("turn"),
            None if step is None else step.seq,
            None if step is None else step.data.get("step"),
            self.calls(),
        )

    def calls(self) -> tuple[OpenCall, ...]:
        return tuple(self._calls.values())


def _last_boundary(read: ReadEvents, length: int) -> int | None:
    for event in _backwards(read, length):
        if event.type in BOUNDARIES:
            return event.seq
    return None


def _calls_of_last_answer(read: ReadEvents, length: int) -> tuple[OpenCall, ...]:
    for event in _backwards(read, length):
        if event.type == "assistant/message":
            tail = _Tail()
            for later in read(event.seq, length):
                tail.follow(later)
            return tail.calls()
    return ()


def _backwards(read: ReadEvents, length: int) -> Iterator[Event]:
    stop = length
    while stop:
        start = max(0, stop - PAGE_EVENTS)
        yield from reversed(read(start, stop))
        stop = start


def _asked_for(data: dict[str, JSONValue]) -> Iterator[str]:
    """Yield the ids of the calls in an answer."""
    content = enveloped(data).get("content")
    for block in content if type(content) is list else ():
        if type(block) is dict and block.get("type") == "tool-call":
            call_id = block.get("id")
            if type(call_id) is str:
                yield call_id


def _answered(data: dict[str, JSONValue]) -> str:
    """The id of the call that a result answers; empty where it names none."""
    source = enveloped(data).get("source")
    found = source.get("callId") if type(source) is dict else data.get("callId")
    return found if type(found) is str else ""


def _interrupted_result(work: OpenWork, call: OpenCall, seq: int) -> dict[str, JSONValue]:
    started = call.seq is not None
    block = {
        "type": "tool-result",
        "toolCallId": call.call_id,
        "isError": True,
        "content": [{"type": "text", "text": OUTCOME_UNKNOWN if started else NOT_STARTED}],
    }
    return {
        **_numbers(work.turn, call.step),
        "message": {
            "id": f"interrupted-tool-result-{call.call_id}-{seq}",
            "role": "user",
            "source": {"kind": "tool", "callId": call.call_id},
            "content": [block],
        },
        "error": {"name": "ToolOutcomeUnknownError", "code": "TOOL_OUTCOME_UNKNOWN"}
        if started
        else {"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"},
    }


NOT_STARTED: Final = (
    "Interrupted: the session ended before this call was started, so it did nothing. "
    "Make it again if it is still wanted."
)
OUTCOME_UNKNOWN: Final = (
    "Interrupted: the session ended while this call was running, and its outcome is unknown. "
    "Make it again only if it merely reads or may safely run twice. Otherwise look first at "
    "what it has changed, or ask the user."
)
