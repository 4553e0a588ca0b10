"""
Reading a log: a seq is found by interpolation, a window is proven, a fold streams.

The line of a seq is searched between two offsets whose seqs are known: the guess is where
the seq would be if all lines between were of one length; the next whole line there tells
how far off it was. Where a guess does not halve the stretch, the next one does, so that
no mixture of lengths costs more than twice the probes of bisection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from eventlog.errors import CorruptLog, InvalidSurface, ValueRejected
from eventlog.model import Event

from .envelope import (
    START_BYTES,
    events_of,
    first_seq,
    inert_seq,
    plain_seq,
    skeletons_of,
    start_seq,
)
from .layout import Layout
from .medium import LINE_BYTES_MAX, LogFile

__all__ = ["Scan", "check_start", "read_window"]

# A stretch this short is read at once instead of probed further.
STRETCH_BYTES: Final = 8 * 1024
# So many lines before the wanted one are skipped rather than searched.
SKIPPED_LINES: Final = 12
PROBE_BYTES: Final = 2048
CHUNK_BYTES_MAX: Final = 1 << 20
SCAN_BYTES: Final = 1 << 18


def read_window(file: LogFile, layout: Layout, start: int, stop: int) -> list[Event]:
    """
    Return exactly the events of ``[start, stop)``; [] where that is empty.

    They have the seqs that were asked for, one after the other, and each was parsed. Lines
    before them are only skipped, damaged ones too.

    Cost: the events returned, and O(log n) probes.

    Raises:
        CorruptLog: One of them is missing, out of place or malformed, or the log does not
            start at seq 0.
    """
    if start == stop:
        return []
    check_start(file, layout)
    offset, skipped = _locate(file, layout, max(start - 1, 0))
    mean = (layout.end - layout.facts.stop) // max(layout.length, 1)
    size = (stop - start + skipped) * (mean + mean // 4) + START_BYTES
    events: list[Event] = []
    # The last seq passed before the window, and the first thing wrong since, or at all.
    passed = -1
    damage: Callable[[], CorruptLog] | None = None
    any_damage: Callable[[], CorruptLog] | None = None
    for position, line in _read_lines(file, offset, layout.end, size):
        expected = start + len(events)
        first = last = plain_seq(line) if not events else None
        if first is None or last is None or last >= start:
            try:
                found = events_of(line)
            except (ValueRejected, InvalidSurface) as error:
                damage = damage or partial(_malformed, file, position, expected, error)
                any_damage = any_damage or damage
                if events:
                    raise damage() from None
                continue
            file.meter.records += len(found)
            first, last = found[0].seq, found[-1].seq
        if not events and last < start:
            if first > passed:
                damage = None
                passed = last
            else:
                damage = damage or partial(_out_of_place, file, position, passed + 1, first)
                any_damage = any_damage or damage
            continue
        if first != expected and (events or first > start):
            raise (damage or partial(_out_of_place, file, position, expected, first))()
        events += [event for event in found if start <= event.seq < stop]
        if last >= stop - 1:
            return events
    if any_damage is not None:
        raise any_damage()
    raise file.corrupt("truncated", seq=start + len(events), detail="the log ends before it")


class Scan:
    """
    The events of a log in order for folding: most without their data, and those left out
    that a fold may pass by.

    A scan is strict: it goes from the first line to the last, or on from where one like it
    ended, and every line between has its place. Each call reads on where the one before
    ended.

    Args:
        file: The log, open.

        layout: What was seen of it.

        position: Where an earlier scan of the log ended.

    Attributes:
        position: A seq, and the offset of the line where it stands or has to stand.

    Cost: one pass over the bytes, 256 KiB at a time.
    """

    def __init__(self, file: LogFile, layout: Layout, position: tuple[int, int] | None) -> None:
        self._file = file
        self._layout = layout
        self.position = position or (0, layout.facts.stop)
        self._stop = 0
        self._walk: Iterator[Event | None] | None = None

    def __call__(self, start: int, stop: int) -> Iterator[Event]:
        """
        Yield the events of ``[start, stop)``; what is left out was there too.

        Raises:
            CorruptLog: A line up to there is malformed or out of place.
        """
        if start != self.position[0]:
            self.position = (0, self._layout.facts.stop)
            self._walk = None
        if self._walk is None:
            self._walk = self._from(*self.position)
        self._stop = stop
        for event in self._walk:
            if event is None:
                return
            if event.seq >= start:
                yield event
        self._walk = None
        if self.position[0] < stop:
            raise self._file.corrupt("truncated", seq=stop - 1, detail="the log ends before it")

    def _from(self, expected: int, offset: int) -> Iterator[Event | None]:
        """
        Yield the events from *expected* on, and None before the one that is asked for last.

        Before, and not behind: so the next one is looked at only when it is asked for.
        """
        file, last_seq = self._file, self._layout.last_seq
        entered = offset
        for position, block in _read_blocks(file, offset, self._layout.end, SCAN_BYTES):
            lines = block.split(b"\n")
            lines.pop()  # what stands behind the last LF
            file.meter.records += len(lines)
            for index, line in enumerate(lines):
                if expected == self._stop or expected == last_seq:
                    self.position = expected, _place(position, lines, index)
                    if expected == last_seq and self.position[1] != self._layout.last_offset:
                        raise self._repetition()
                    if expected == self._stop:
                        yield None
                if inert_seq(line) == expected:
                    expected += 1
                    continue
                try:
                    events = skeletons_of(line)
                except (ValueRejected, InvalidSurface) as error:
                    self.position = expected, _place(position, lines, index)
                    raise _malformed(file, self.position[1], expected, error) from None
                file.meter.records += len(events) - 1
                for event in events:
                    if expected == self._stop and event is not events[0]:
                        self.position = expected, _place(position, lines, index)
                        yield None
                    if event.seq == expected:
                        expected += 1
                        yield event
                    elif event.seq > expected or _place(position, lines, index) != entered:
                        self.position = expected, _place(position, lines, index)
                        raise _out_of_place(file, self.position[1], expected, event.seq)
        self.position = expected, self._layout.end

    def _repetition(self) -> CorruptLog:
        """
        Build the error for a log that is longer than its last line says.

        Somewhere behind the place where that line should be, the seqs go back.
        """
        expected, offset = self.position
        for place, line in _read_lines(self._file, offset, self._layout.end, SCAN_BYTES):
            try:
                events = skeletons_of(line)
            except (ValueRejected, InvalidSurface) as error:
                return _malformed(self._file, place, expected, error)
            if events[0].seq != expected:
                return _out_of_place(self._file, place, expected, events[0].seq)
            expected = events[-1].seq + 1
        raise AssertionError("the last line has the seq of an earlier one")


def _place(position: int, lines: list[bytes], index: int) -> int:
    """Return the offset of a line of the block at *position*."""
    return position + index + sum(map(len, lines[:index]))


def check_start(file: LogFile, layout: Layout) -> None:
    """
    Refuse a log whose first event is another than 0: what came before was lost.

    Raises:
        CorruptLog: It is.
    """
    if layout.start:
        raise _out_of_place(file, layout.facts.stop, 0, layout.start)


def _malformed(file: LogFile, offset: int, seq: int, error: Exception) -> CorruptLog:
    return file.corrupt("malformed", offset=offset, seq=seq, detail=str(error))


def _out_of_place(file: LogFile, offset: int, expected: int, found: int) -> CorruptLog:
    first = "first " if expected == 0 else ""
    detail = f"{first}seq expected {expected}, found {found}"
    return file.corrupt("seq", offset=offset, seq=found, detail=detail)


def _locate(file: LogFile, layout: Layout, target: int) -> tuple[int, int]:
    """
    Return the offset of a line whose first seq is at most *target*, close before the last
    such, and about how many lines it is before it.

    Damaged lines are passed over.
    """
    low, low_seq = layout.facts.stop, 0
    high, high_seq = layout.last_offset, layout.last_seq
    if target >= high_seq:
        return high, 0
    halve = False
    # Every readable line from *high* on has a first seq greater than *target*.
    while high - low > STRETCH_BYTES:
        span, seqs, ahead = high - low, high_seq - low_seq, target - low_seq
        if ahead <= SKIPPED_LINES and ahead * span <= seqs * STRETCH_BYTES:
            break
        # A little before the place where it should be: lines are read forwards.
        guess = low + span // 2 if halve else low + span * max(ahead - 3, 0) // seqs
        guess = min(max(guess, low + 1), high - 1)
        found = _probe(file, guess, high, layout.end)
        if found is None:
            high = guess
        elif found[1] <= target:
            low, low_seq = found
        else:
            high, high_seq = guess, found[1]
        halve = 2 * (high - low) > span
    return low, target - low_seq


def _probe(file: LogFile, guess: int, high: int, end: int) -> tuple[int, int] | None:
    """
    Return offset and first seq of the first readable line that starts in ``[guess, high)``.

    Null case: None where none does.
    """
    file.meter.probes += 1
    size = PROBE_BYTES
    position = guess - 1
    while True:
        block = file.pread(min(size, end - position), position)
        found = block.find(b"\n") + 1
        if found:
            break
        position += len(block)
        if not block or position >= high:
            return None
        size = min(2 * size, CHUNK_BYTES_MAX)
    offset = position + found
    if offset >= high:
        return None
    start = block[found : found + START_BYTES]
    if len(start) < START_BYTES and b"\n" not in start:
        start = file.pread(START_BYTES, offset)
    seq = start_seq(start)
    if seq is not None:
        return offset, seq
    for place, line in _read_lines(file, offset, end, PROBE_BYTES):
        if place >= high:
            break
        seq = first_seq(line)
        if seq is not None:
            return place, seq
    return None


def _read_lines(file: LogFile, offset: int, end: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield offset and bytes of each line, without its LF, as :func:`_read_blocks` reads them."""
    for position, block in _read_blocks(file, offset, end, size):
        begin = 0
        while (stop := block.find(b"\n", begin)) >= 0:
            yield position + begin, block[begin:stop]
            begin = stop + 1


def _read_blocks(file: LogFile, offset: int, end: int, size: int) -> Iterator[tuple[int, bytes]]:
    """
    Yield offset and bytes of runs of lines from *offset* to *end*, bounds of lines.

    What stands behind a run's last LF comes again, as the start of the next run.

    Args:
        size: Bytes to read at first; later reads are larger, up to 1 MiB and as far as a
            longer line needs.

    Raises:
        CorruptLog: A line is longer than any that is written.
    """
    while offset < end:
        block = file.pread(min(size, end - offset), offset)
        whole = block.rfind(b"\n") + 1
        if whole:
            yield offset, block
            offset += whole
            size = min(2 * size, CHUNK_BYTES_MAX)
        elif size > LINE_BYTES_MAX:
            raise file.corrupt("malformed", offset=offset, detail="the line is too long")
        elif len(block) < min(size, end - offset):
            raise file.corrupt("truncated", offset=offset, detail="shrank while it was read")
        else:
            size *= 2
