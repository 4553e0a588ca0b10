"""
One log line by line, damage and all: what verifying, repairing and salvaging share.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from eventlog.model import Event

from .lines import Line, Lines
from .recovery import readable, recover

__all__ = ["Piece", "pieces_of"]


@frozen
class Piece:
    """
    A line behind the header, or several that belong together.

    Attributes:
        line, offset, size: Where it stands: its 1-based number, and its bytes with the LF.

        events: What it holds, in order. Empty where nothing can be read.

        fault: What is wrong with it; None where it is whole. ``"torn"`` is the end of the
            file that does not count.

        detail: The same for a person.
    """

    line: int
    offset: int
    size: int
    events: tuple[Event, ...]
    fault: str | None = None
    detail: str = ""

    @property
    def stop(self) -> int:
        """The offset behind it."""
        return self.offset + self.size


def pieces_of(lines: Lines) -> Iterator[Piece]:
    """
    Yield what follows the header, up to the end; the header was taken from *lines*.

    Seqs are not judged here: a whole line may be out of place.
    """
    expected = 0
    padding: list[Line] = []
    for line in lines:
        if line.is_padding or not line.is_whole:
            padding.append(line)
            continue
        if padding:
            yield _padding(padding)
            padding = []
        found = readable(line.data)
        if isinstance(found, list):
            yield Piece(line.number, line.offset, line.size, tuple(found))
            expected = found[-1].seq + 1
            continue
        recovered = recover(line, lines, expected)
        if recovered is None:
            yield Piece(line.number, line.offset, line.size, (), "malformed", found)
            continue
        size = line.size + sum(next(lines).size for _ in range(recovered.lines - 1))
        events = recovered.events
        detail = {
            "fused": "a whole record stands behind a torn one",
            "broken-line": f"one record is broken over {recovered.lines} lines",
            "padding": "a record stands behind bytes that are none",
        }[recovered.kind]
        yield Piece(line.number, line.offset, size, events, recovered.kind, detail)
        expected = events[-1].seq + 1
    if padding:
        yield _torn(padding)


def _padding(lines: list[Line]) -> Piece:
    first = lines[0]
    size = lines[-1].stop - first.offset
    return Piece(first.number, first.offset, size, (), "padding", "NUL and white space only")


def _torn(lines: list[Line]) -> Piece:
    """Build the piece for the end of the file, from behind the last whole line."""
    first = lines[0]
    size = lines[-1].stop - first.offset
    detail = f"{size} bytes behind the last whole line"
    return Piece(first.number, first.offset, size, (), "torn", detail)
