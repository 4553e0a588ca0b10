"""
The physical lines of a log, whatever is in them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from attrs import frozen

from eventlog.errors import CorruptLog

from .envelope import is_padding
from .medium import LINE_BYTES_MAX, LogFile

__all__ = ["Line", "Lines"]

BLOCK_BYTES: Final = 1 << 20


@frozen
class Line:
    """
    One physical line.

    Attributes:
        number: 1-based.

        offset: Where it begins.

        size: Its bytes, the LF included.

        data: Its bytes without the LF; None where it is longer than any record.

        is_whole: Whether it ends in an LF.

        is_padding: Whether it holds nothing but NUL and white space.
    """

    number: int
    offset: int
    size: int
    data: bytes | None
    is_whole: bool
    is_padding: bool

    @property
    def stop(self) -> int:
        """The offset behind it."""
        return self.offset + self.size


class Lines:
    """
    The lines of *file* up to the offset *stop*, one after the other, with a look ahead.

    Cost: one pass over the bytes, 1 MiB at a time, and no more memory than the longest
    record.
    """

    def __init__(self, file: LogFile, stop: int) -> None:
        self._lines = _read(file, stop)
        self._ahead: deque[Line] = deque()

    def __iter__(self) -> Iterator[Line]:
        return self

    def __next__(self) -> Line:
        if self._ahead:
            return self._ahead.popleft()
        return next(self._lines)

    def peek(self, index: int) -> Line | None:
        """Return the line *index* places after the next one; None behind the last."""
        while len(self._ahead) <= index:
            line = next(self._lines, None)
            if line is None:
                return None
            self._ahead.append(line)
        return self._ahead[index]


def _read(file: LogFile, stop: int) -> Iterator[Line]:
    number, offset = 1, 0
    parts: list[bytes] = []
    held = 0  # bytes in parts, or passed over where the line is too long
    padding, too_long = True, False
    position = 0
    while position < stop:
        try:
            block = file.read_block(min(BLOCK_BYTES, stop - position), position)
        except CorruptLog:
            # A part of an archive, which holds whole lines; nobody knows how many.
            behind = min(file.next_block(position), stop)
            yield Line(number, position, behind - position, None, True, False)
            number, offset, position = number + 1, behind, behind
            continue
        if not block:
            break
        position += len(block)
        begin = 0
        while True:
            found = block.find(b"\n", begin)
            piece = block[begin:] if found < 0 else block[begin:found]
            padding = padding and is_padding(piece)
            held += len(piece)
            too_long = too_long or held > LINE_BYTES_MAX
            if too_long:
                parts.clear()
            else:
                parts.append(piece)
            if found < 0:
                break
            data = None if too_long else b"".join(parts)
            yield Line(number, offset, held + 1, data, True, padding)
            number, offset = number + 1, offset + held + 1
            parts, held, padding, too_long = [], 0, True, False
            begin = found + 1
    if held:
        data = None if too_long else b"".join(parts)
        yield Line(number, offset, held, data, False, padding)
