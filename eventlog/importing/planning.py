"""
How a stored surface becomes another one: the fewest replacements that do it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from attrs import frozen

from eventlog.drafts import TOOL_RESULT

__all__ = ["HeldNode", "SurfaceStep", "ToldNode", "plan_surface"]


@frozen
class HeldNode:
    """
    A node of the stored surface.

    Attributes:
        seq: Its event.

        key: What it came from.

        type: Its type.
    """

    seq: int
    key: str
    type: str


@frozen
class ToldNode:
    """
    A node of the surface that a source tells of.

    Attributes:
        entry: Its number.

        key: What it came from.

        type: Its type.

        seq: The stored event that is the same, -1 where none is.
    """

    entry: int
    key: str
    type: str
    seq: int


@frozen
class SurfaceStep:
    """
    One change of a stored surface.

    Attributes:
        entry: The entry that is put there; None where nothing is.

        first: The first node whose place it takes; None for an entry that is appended.

        last: The last one, inclusive.

        rewrites: Whether it is a tool result, which gives another one its content.
    """

    entry: int | None
    first: int | None = None
    last: int | None = None
    rewrites: bool = False


def plan_surface(told: Sequence[ToldNode], held: Sequence[HeldNode]) -> list[SurfaceStep]:
    """
    Return the steps that make *held* the surface that is *told*.

    The nodes that both have, by their keys and in the same order, stay where they are.
    Between them a stretch takes the place of a stretch. Where that is not possible, since
    nothing can be put between two nodes, all that follows is put anew.

    Cost: O(n log n).
    """
    steps: list[SurfaceStep] = []
    here = there = 0
    for position, place in _anchors(told, held):
        between = _stretch(told[here:position], held[there:place])
        new, old = told[position], held[place]
        changed = new.seq != old.seq
        rewrites = changed and new.type == TOOL_RESULT
        # A tool result takes no other place than that of a tool result.
        if between is None or (rewrites and old.type != TOOL_RESULT):
            break
        steps += between
        if changed:
            steps.append(SurfaceStep(new.entry, old.seq, old.seq, rewrites))
        here, there = position + 1, place + 1
    return [*steps, *_all_anew(told[here:], held[there:])]


def _anchors(told: Sequence[ToldNode], held: Sequence[HeldNode]) -> list[tuple[int, int]]:
    """Return the longest run of nodes that both surfaces have, as positions in both."""
    places: dict[str, int] = {}
    for place, node in enumerate(held):
        places.setdefault(node.key, place)
    # Of the pairs, in the order told, the longest sequence whose places ascend (patience
    # sorting): for each length the pair with the lowest place that ends one.
    pairs: list[tuple[int, int]] = []
    before: list[int] = []
    ends: list[int] = []
    end_places: list[int] = []
    for position, new in enumerate(told):
        found = places.get(new.key)
        if found is None:
            continue
        length = bisect_left(end_places, found)
        before.append(ends[length - 1] if length else -1)
        pairs.append((position, found))
        if length == len(ends):
            ends.append(-1)
            end_places.append(-1)
        ends[length], end_places[length] = len(pairs) - 1, found
    run = []
    index = ends[-1] if ends else -1
    while index >= 0:
        run.append(pairs[index])
        index = before[index]
    return run[::-1]


def _stretch(told: Sequence[ToldNode], held: Sequence[HeldNode]) -> list[SurfaceStep] | None:
    """Put *told* in the place of *held*; None where that is not possible."""
    if not told:
        return [SurfaceStep(None, held[0].seq, held[-1].seq)] if held else []
    if len(told) > len(held) or any(node.type == TOOL_RESULT for node in told):
        return None
    single = len(told) - 1
    steps = [
        SurfaceStep(new.entry, old.seq, old.seq)
        for new, old in zip(told[:single], held[:single], strict=True)
    ]
    return [*steps, SurfaceStep(told[-1].entry, held[single].seq, held[-1].seq)]


def _all_anew(told: Sequence[ToldNode], held: Sequence[HeldNode]) -> list[SurfaceStep]:
    """Put *told* at the end of the surface, in the place of all that is *held* there."""
    appended = [SurfaceStep(node.entry) for node in told]
    if not held:
        return appended
    first, last = held[0].seq, held[-1].seq
    if not told or told[0].type == TOOL_RESULT:
        return [SurfaceStep(None, first, last), *appended]
    return [SurfaceStep(told[0].entry, first, last), *appended[1:]]
