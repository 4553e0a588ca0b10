"""
The invariants of a well-kept log: turns and steps enclose what belongs to them, and every
result answers a call.

They are facts about a harness, not rules of the log: a store keeps an event that breaks
them, and a reader serves it. The rules are those of DeepSeek Harness logs. Turns are
numbered 1, 2, 3 … over the whole log, steps likewise within their turn; one of each is
open at most. Chunks, assistant messages, calls and appended results name the open turn
and step. A result answers a call of its own step, once; one that says that its call never
started needs none. A rewritten result, a to-do list and a request's header and context
need some open turn. Messages of users, the end of a seed and all other types are free.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final, overload

from attrs import frozen

from eventlog.model import Event, Replace
from eventlog.values import JSONValue

__all__ = ["Invariant", "InvariantReport", "Violation", "check_invariants"]


class Invariant(StrEnum):
    """What a log is expected to keep."""

    SEQ = "seq"
    """Seqs run 0, 1, 2 … without gaps."""

    TURN = "turn"
    """One open turn at most, numbered in order; what belongs to a turn stands in one."""

    STEP = "step"
    """One open step at most, numbered in order within its turn; likewise."""

    CALL = "call"
    """A result answers a call of its own step that has no result yet."""


@frozen
class Violation:
    """
    One event that breaks an invariant.

    Attributes:
        seq: The event.

        invariant: What it breaks.

        detail: How, for a person.
    """

    seq: int
    invariant: Invariant
    detail: str


@frozen(repr=False)
class InvariantReport(Sequence[Violation]):
    """
    What a check found: a sequence of the violations, empty for a well-kept log.

    What is open at the end is no violation. It is how a running log looks, and one whose
    harness was interrupted.

    Attributes:
        violations: In log order.

        open_turn: The number of the turn that has not ended, None where all have.

        open_step: The same for its step.

        open_calls: The ids of the calls of that step without a result, in the order of
            the log, whether the call itself was logged or only asked for by the model.
    """

    violations: tuple[Violation, ...]
    open_turn: int | None
    open_step: int | None
    open_calls: tuple[str, ...]

    @overload
    def __getitem__(self, index: int) -> Violation: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Violation]: ...

    def __getitem__(self, index: int | slice) -> Violation | Sequence[Violation]:
        return self.violations[index]

    def __len__(self) -> int:
        return len(self.violations)

    def __repr__(self) -> str:
        parts = [f"{len(self.violations)} violations"]
        if self.open_turn is not None:
            parts.append(f"turn {self.open_turn} open")
        if self.open_calls:
            parts.append(f"{len(self.open_calls)} calls open")
        return f"<InvariantReport: {', '.join(parts)}>"


def check_invariants(events: Iterable[Event]) -> InvariantReport:
    """
    Report where a log breaks the invariants. Never raises because of what a log holds.

    An event that is out of place does not make those behind it so: the check goes on from
    the turn or step that it names.

    Args:
        events: The events of one session from seq 0, in order.

    Cost: O(n); the data of the types concerned is decoded.

    Null case: an empty log is well kept.
    """
    check = _Check()
    for event in events:
        check.take(event)
    return InvariantReport(
        tuple(check.violations),
        check.turn,
        check.step,
        tuple(call for call, open_ in check.calls.items() if open_),
    )


IN_STEP: Final = frozenset({"assistant/chunk", "assistant/message", "tool/call", "tool/result"})
IN_TURN: Final = frozenset({"todo/write", "request/header", "request/context"})


class _Check:
    """A walk over one log."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.turn: int | None = None
        self.step: int | None = None
        # The calls of the open step, with whether a result is still missing.
        self.calls: dict[str, bool] = {}
        self._logged: set[str] = set()
        self._turns = 0
        self._steps = 0
        self._seq = 0
        self._at = 0

    def take(self, event: Event) -> None:
        self._at = event.seq
        if event.seq != self._seq:
            self._report(Invariant.SEQ, f"expected seq {self._seq}")
        self._seq = event.seq + 1
        kind = event.type
        if kind == "turn/start":
            self._start_turn(event.data)
        elif kind == "turn/end":
            self._end_turn(event.data)
        elif kind == "step/start":
            self._start_step(event.data)
        elif kind == "step/end":
            self._end_step(event.data)
        elif kind in IN_TURN or (kind == "tool/result" and type(event.surface_op) is Replace):
            if self.turn is None:
                self._report(Invariant.TURN, f"{kind} outside a turn")
        elif kind in IN_STEP:
            self._inside_step(event)

    def _start_turn(self, data: JSONValue) -> None:
        if self.turn is not None:
            self._report(Invariant.TURN, f"turn {self.turn} has not ended")
        self.turn = self._turns = self._numbered(data, "turn", self._turns + 1, Invariant.TURN)
        self._close_step()
        self._steps = 0

    def _end_turn(self, data: JSONValue) -> None:
        self._named(data, "turn", self.turn, Invariant.TURN)
        if self.step is not None:
            self._report(Invariant.STEP, f"step {self.step} has not ended")
        self.turn = None
        self._close_step()

    def _start_step(self, data: JSONValue) -> None:
        self._named(data, "turn", self.turn, Invariant.TURN)
        if self.step is not None:
            self._report(Invariant.STEP, f"step {self.step} has not ended")
        self._close_step()
        self.step = self._steps = self._numbered(data, "step", self._steps + 1, Invariant.STEP)

    def _end_step(self, data: JSONValue) -> None:
        self._place(data)
        self._close_step()

    def _close_step(self) -> None:
        self.step = None
        self.calls = {}
        self._logged = set()

    def _inside_step(self, event: Event) -> None:
        data = event.data
        self._place(data)
        if event.type == "assistant/message":
            for call in _calls_asked(data):
                self.calls.setdefault(call, True)
        elif event.type == "tool/call":
            call_id = data.get("callId")
            if type(call_id) is not str:
                self._report(Invariant.CALL, "a call without an id")
            else:
                self.calls[call_id] = True
                self._logged.add(call_id)
        elif event.type == "tool/result":
            self._answer(data)

    def _answer(self, data: dict[str, JSONValue]) -> None:
        call_id = _call_answered(data)
        if call_id is None:
            self._report(Invariant.CALL, "a result that names no call")
            return
        is_open = self.calls.get(call_id, False)
        self.calls[call_id] = False
        if _never_started(data):
            return
        if call_id not in self._logged:
            self._report(Invariant.CALL, f"no call {call_id!r:.60} in this step")
        elif not is_open:
            self._report(Invariant.CALL, f"call {call_id!r:.60} has a result already")

    def _place(self, data: JSONValue) -> None:
        """Report data that does not name the open turn and step."""
        self._named(data, "turn", self.turn, Invariant.TURN)
        if self.turn is not None:  # a step outside a turn would say the same twice
            self._named(data, "step", self.step, Invariant.STEP)

    def _numbered(self, data: JSONValue, name: str, expected: int, invariant: Invariant) -> int:
        found = data.get(name)
        if type(found) is int and found == expected:
            return expected
        self._report(invariant, f"expected {name} {expected}, found {_shown(found)}")
        return found if type(found) is int and found > 0 else expected

    def _named(self, data: JSONValue, name: str, is_open: int | None, invariant: Invariant) -> None:
        found = data.get(name)
        if is_open is None:
            self._report(invariant, f"no {name} is open, but it names {_shown(found)}")
        elif type(found) is not int or found != is_open:
            self._report(invariant, f"{name} {is_open} is open, but it names {_shown(found)}")

    def _report(self, invariant: Invariant, detail: str) -> None:
        self.violations.append(Violation(self._at, invariant, detail))


# Old logs have messages without an envelope, their fields in the data itself.


def _content(data: JSONValue) -> list[JSONValue]:
    message = _member(data, "message")
    blocks = _member(data if message is None else message, "content")
    return blocks if type(blocks) is list else []


def _calls_asked(data: JSONValue) -> Iterator[str]:
    """Yield the ids of the calls that an assistant's message asks for."""
    for block in _content(data):
        call_id = _member(block, "id")
        if _member(block, "type") == "tool-call" and type(call_id) is str:
            yield call_id


def _call_answered(data: JSONValue) -> str | None:
    message = _member(data, "message")
    call_id = _member(data if message is None else _member(message, "source"), "callId")
    return call_id if type(call_id) is str else None


def _never_started(data: JSONValue) -> bool:
    blocks = _content(data)
    flagged = data if _member(data, "message") is None else blocks[0] if blocks else None
    return (
        _member(flagged, "isError") is True
        and _member(_member(data, "error"), "code") == "TOOL_NOT_STARTED"
    )


def _member(value: JSONValue, name: str) -> JSONValue:
    return value.get(name) if type(value) is dict else None


def _shown(value: JSONValue) -> str:
    return "none" if value is None else f"{value!r:.60}"
