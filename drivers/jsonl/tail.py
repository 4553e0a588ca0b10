"""
The end of a log, read backwards: its last whole line, and what does not count.
"""

from __future__ import annotations

from typing import Final

from eventlog.errors import InvalidSurface, ValueRejected
from eventlog.model import Event

from .envelope import is_padding, skeletons_of
from .medium import LINE_BYTES_MAX, LogFile

__all__ = ["MARK_BYTES", "Tail"]

BLOCK_BYTES: Final = 4096
BLOCK_BYTES_MAX: Final = 1 << 20

# Bytes before the end of a log by which it is known again.
MARK_BYTES: Final = 4096

# Damaged lines at the end of a log that are looked behind.
DAMAGED_LINES_MAX: Final = 1024


class Tail:
    """
    The end of *file*, read backwards from *size* and no further than the header.

    Lines of nothing but NUL and white space at the very end are no lines: a crash leaves
    such where a file system had given room and no bytes. A last line whose seq is not
    above that of the line before it counts as damaged.

    Attributes:
        end, last_offset, last_seq, length, last_time, mark: As in
            :class:`~eventlog.drivers.jsonl.layout.Layout`.

    Cost: the last line and the one before it, and all behind them.

    Raises:
        CorruptLog: The file ends in more damaged lines than are looked behind.
    """

    def __init__(self, file: LogFile, header_stop: int, size: int) -> None:
        self._file = file
        self._header_stop = header_stop
        self._base, self._block = size, b""
        file.meter.probes += 1
        self.end = stop = self._line_start(size)
        while stop > header_stop:
            start = self._line_start(stop - 1)
            if not self._is_padding(start, stop):
                break
            self.end = stop = start
        start = max(header_stop, self.end - MARK_BYTES)
        self.mark = (start, self.end - start, hash(self._slice(start, self.end)))
        self.last_offset, self.last_seq = header_stop, -1
        self.last_time: int | None = None
        self.length = damaged = 0
        while stop > header_stop:
            start = self._line_start(stop - 1)
            events = self._events(start, stop)
            if events and events[0].seq > self._seq_before(start):
                self.last_offset, self.last_seq = start, events[0].seq
                self.last_time, self.length = events[-1].time, events[-1].seq + 1
                break
            damaged += 1
            if damaged > DAMAGED_LINES_MAX:
                raise file.corrupt("malformed", offset=start, detail="so is all behind it")
            stop = start
        self.length += damaged

    def has(self, mark: tuple[int, int, int]) -> bool:
        """Tell whether the log still holds what was seen at its end before."""
        start, size, digest = mark
        return start + size <= self.end and hash(self._slice(start, start + size)) == digest

    def _seq_before(self, start: int) -> int:
        """Return the last seq of the line that ends at *start*; −1 where it has none."""
        if start == self._header_stop:
            return -1
        events = self._events(self._line_start(start - 1), start)
        return events[-1].seq if events else -1

    def _line_start(self, position: int) -> int:
        """Return the offset behind the last LF before *position*; the header has one."""
        size = BLOCK_BYTES
        while True:
            if position > self._base:
                found = self._block.rfind(b"\n", 0, position - self._base)
                if found >= 0:
                    return self._base + found + 1
                position = self._base
            if position < self._header_stop:
                raise self._file.corrupt("truncated", offset=0, detail="shrank while it was read")
            self._base = max(self._header_stop - 1, position - size)
            self._block = self._file.pread(position - self._base, self._base)
            size = min(2 * size, BLOCK_BYTES_MAX)

    def _slice(self, start: int, stop: int) -> bytes:
        if start >= self._base and stop <= self._base + len(self._block):
            return self._block[start - self._base : stop - self._base]
        return self._file.pread(stop - start, start)

    def _is_padding(self, start: int, stop: int) -> bool:
        while start < stop:
            step = min(stop - start, BLOCK_BYTES)
            if not is_padding(self._slice(start, start + step)):
                return False
            start += step
        return True

    def _events(self, start: int, stop: int) -> list[Event]:
        """Return the events of one line; none where it cannot be read."""
        if stop - start > LINE_BYTES_MAX:
            return []
        try:
            return skeletons_of(self._slice(start, stop - 1))
        except (ValueRejected, InvalidSurface):
            return []
