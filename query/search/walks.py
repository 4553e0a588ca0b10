"""
Where a walk through the pages of a search stands.

Scores shift a little as the log grows, so a place in the order is no safe place to go on
from: an item could be given twice. A cursor therefore holds what was given since the last
coarse place that cannot shift, as numbers packed into a few bytes, and goes on with what
was not. It needs nothing kept in memory and works in any process.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Final

from eventlog.model import Fault
from eventlog.values import SEQ_MAX, JSONValue, is_seq

from ..cursors import CURSOR_CHARS_MAX, Cursors
from ..errors import Code, SessionQueryError
from .provider import Place

__all__ = [
    "index_from_json",
    "next_cursor",
    "packed",
    "place_from_json",
    "place_to_json",
    "score_from_text",
    "stale",
    "unpacked",
]

NUMBERS_MAX: Final = 1_000_000
NUMBER_BITS_MAX: Final = 63


def packed(numbers: Iterable[int]) -> str:
    """Return a set of numbers ≥ 0 as text: their gaps, seven bits a byte, compressed."""
    raw = bytearray()
    last = -1
    for number in sorted(set(numbers)):
        gap = number - last - 1
        last = number
        while gap >= 0x80:
            raw.append(gap & 0x7F | 0x80)
            gap >>= 7
        raw.append(gap)
    return b64encode(zlib.compress(bytes(raw), 9)).decode()


def unpacked(text: str) -> set[int]:
    """
    Return the numbers that :func:`packed` has packed.

    Raises:
        SessionQueryError: INVALID_CURSOR: it is none of ours.
    """
    decoder = zlib.decompressobj()
    try:
        raw = decoder.decompress(b64decode(text, validate=True), 8 * NUMBERS_MAX)
    except (ValueError, zlib.error):
        raise _invalid() from None
    if not decoder.eof:
        raise _invalid()
    numbers: set[int] = set()
    last, gap, shift = -1, 0, 0
    for byte in raw:
        gap |= (byte & 0x7F) << shift
        shift += 7
        if shift > NUMBER_BITS_MAX or len(numbers) == NUMBERS_MAX:
            raise _invalid()
        if byte < 0x80:
            last += gap + 1
            numbers.add(last)
            gap = shift = 0
    return numbers


def next_cursor(cursors: Cursors, faults: list[Fault], *position: JSONValue) -> str | None:
    """
    Return the cursor of *position*; None where it would be too long to be taken back, which
    is a fault.
    """
    cursor = cursors.encode(*position)
    if len(cursor) <= CURSOR_CHARS_MAX:
        return cursor
    faults.append(Fault(None, None, "walk", "more matches than one walk can give"))
    return None


def place_to_json(place: Place | None) -> list[int]:
    """Return a place as JSON; [] is the front."""
    if place is None:
        return []
    return [place.rank, place.window, -1 if place.below is None else place.below]


def place_from_json(values: Sequence[object]) -> Place | None:
    """
    Return the place that :func:`place_to_json` has written.

    Raises:
        SessionQueryError: INVALID_CURSOR: it is none of ours.
    """
    if not values:
        return None
    numbers = [value for value in values if type(value) is int and -1 <= value <= SEQ_MAX]
    if len(numbers) != len(values) or len(numbers) != 3:
        raise _invalid()
    rank, window, below = numbers
    return Place(rank, window, None if below < 0 else below)


def score_from_text(text: str) -> float:
    """
    Return the score that a cursor holds.

    Raises:
        SessionQueryError: INVALID_CURSOR: it is none.
    """
    try:
        score = float(text)
    except ValueError:
        raise _invalid() from None
    if not isfinite(score):
        raise _invalid()
    return score


def index_from_json(value: object) -> int:
    """
    Return a length or a mark that a cursor holds.

    Raises:
        SessionQueryError: INVALID_CURSOR: it is none.
    """
    if not is_seq(value):
        raise _invalid()
    assert type(value) is int
    return value


def stale(reason: str) -> SessionQueryError:
    """Return the error of a walk that cannot go on."""
    return SessionQueryError(Code.STALE_CURSOR, f"{reason}; begin the search anew")


def _invalid() -> SessionQueryError:
    return SessionQueryError(Code.INVALID_CURSOR, "the cursor is none of this call")
