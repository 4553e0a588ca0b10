"""
What a damaged line may still hold: a record behind a torn one, one broken over lines, one
behind padding.

Each is a guess, so whoever uses one says that it was recovered. The work is bounded,
however hostile a line is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from attrs import frozen

from eventlog.errors import InvalidSurface, ValueRejected
from eventlog.model import Event

from .envelope import events_of
from .layout import BOM
from .lines import Line, Lines

__all__ = ["Recovered", "readable", "recover"]

# Places in a line where a second record may begin, and bytes parsed to find out.
STARTS_MAX: Final = 32
PARSED_BYTES_MAX: Final = 64 << 20
# Lines over which one record may be broken.
LINES_MAX: Final = 64

_START = re.compile(
    rb'\{"(?:type|seq|seq0|time|sourceEventSeqs|surfaceOp|ignorable|data)":', re.ASCII
)


@frozen
class Recovered:
    """
    What was found in a damaged line.

    Attributes:
        kind: ``"fused"``, ``"broken-line"`` or ``"padding"``.

        events: The events; not empty.

        lines: How many physical lines they take.
    """

    kind: str
    events: tuple[Event, ...]
    lines: int = 1


def readable(line: bytes | None) -> list[Event] | str:
    """Return the events of a line, or why it has none."""
    if line is None:
        return "cannot be read, or is longer than any record"
    try:
        return events_of(line)
    except (ValueRejected, InvalidSurface) as error:
        return str(error)


def recover(line: Line, lines: Lines, expected: int) -> Recovered | None:
    """
    Look for records in a *line* that is none.

    Args:
        lines: What follows it; looked at, not taken.

        expected: No event with a smaller seq is taken for one of this place: it would be
            a record quoted in the data of another.
    """
    data = line.data
    if data is None or not data:
        return None
    stripped = data.lstrip(b"\x00 \t").removeprefix(BOM)
    if stripped != data:
        found = _records(stripped, expected)
        if found:
            return Recovered("padding", found)
    return _fused(data, expected) or _rejoined(data, lines, expected)


def _records(line: bytes, expected: int) -> tuple[Event, ...]:
    """Return the events of a whole line from *expected* on; empty where there are none."""
    found = readable(line)
    if isinstance(found, str) or found[0].seq < expected:
        return ()
    return tuple(found)


def _fused(data: bytes, expected: int) -> Recovered | None:
    """Find the record that begins inside *data* and ends with it."""
    parsed = 0
    for tried, start in enumerate(_START.finditer(data, 1)):
        parsed += len(data) - start.start()
        if tried == STARTS_MAX or parsed > PARSED_BYTES_MAX:
            break
        found = _records(data[start.start() :], expected)
        if not found:
            continue
        # Two whole records without the LF between them: the first one is there as well.
        before = _records(data[: start.start()], expected)
        if before and before[-1].seq < found[0].seq:
            return Recovered("fused", before + found)
        return Recovered("fused", found)
    return None


def _rejoined(data: bytes, lines: Lines, expected: int) -> Recovered | None:
    """Find the record that *data* begins and a later line ends, with raw LFs in its strings."""
    if not data.startswith(b"{"):
        return None
    parts: list[bytes] = [data]
    size = parsed = len(data)
    for index in range(LINES_MAX):
        following = lines.peek(index)
        if following is None or following.data is None or not following.is_whole:
            return None
        parts.append(following.data)
        size += len(following.data) + 2
        if following.data.rstrip(b"\r").endswith(b"}"):
            parsed += size
            if parsed > PARSED_BYTES_MAX:
                return None
            if isinstance(readable(following.data), list):
                return None  # a record of its own: what is broken ended before
            found = _records(_escaped(parts), expected)
            if found:
                return Recovered("broken-line", found, len(parts))
    return None


def _escaped(parts: Sequence[bytes]) -> bytes:
    """Join the pieces of a record, with the line breaks inside it as JSON has them."""
    joined = b"\\n".join(parts[:-1]) + b"\\n" + parts[-1].rstrip(b"\r")
    return joined.replace(b"\r\\n", b"\\r\\n").replace(b"\t", b"\\t")
