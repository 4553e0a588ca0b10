"""
Reading files line by line, whatever they hold.

A line ends with LF and nothing else: U+2028 and its like are text. A line is a record;
what cannot be one is given as a fault instead, with its line and offset. Memory is
bounded by the longest line that is accepted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Protocol

from eventlog.sources import RecordFault
from eventlog.values import PAYLOAD_BYTES_MAX

__all__ = ["LINE_BYTES_MAX", "Line", "Readable", "read_lines"]

LINE_BYTES_MAX: Final = PAYLOAD_BYTES_MAX
BOM: Final = b"\xef\xbb\xbf"


class Readable(Protocol):
    """What lines are read from: an open file, or one that decompresses."""

    def readline(self, size: int = -1, /) -> bytes:
        """Return the bytes up to the next LF, inclusive; at most *size*; b"" at the end."""


class Line(NamedTuple):
    """
    One line: a tuple, which is made in a third of the time that a frozen record takes.

    Attributes:
        number: Counted from 1.

        offset_bytes: Where it starts.

        text: Its bytes without the LF, and without a byte-order mark on the first line.

        complete: Whether an LF ends it.
    """

    number: int
    offset_bytes: int
    text: bytes
    complete: bool


def read_lines(
    stream: Readable | BinaryIO, path: Path, *, stop_bytes: int | None = None
) -> Iterator[Line | RecordFault]:
    """
    Yield every line of *stream*, and a fault for each one that is too long to hold.

    Args:
        path: What faults call the stream.

        stop_bytes: Read no further than this; None reads to the end.
    """
    number = offset = 0
    while stop_bytes is None or offset < stop_bytes:
        text = stream.readline(LINE_BYTES_MAX + 1)
        if not text:
            return
        number += 1
        size = len(text)
        if stop_bytes is not None and offset + size > stop_bytes:
            text = text[: stop_bytes - offset]
        complete = text.endswith(b"\n")
        if not complete and size > LINE_BYTES_MAX:
            size += _skip_line(stream)
            reason = f"a line of {size} bytes; at most {LINE_BYTES_MAX} are read"
            yield RecordFault(str(path), number, offset, "oversize", reason)
        else:
            if number == 1 and text.startswith(BOM):
                text = text[len(BOM) :]
            yield Line(number, offset, text[:-1] if complete else text, complete)
        offset += size


def _skip_line(stream: Readable | BinaryIO) -> int:
    skipped = 0
    while chunk := stream.readline(1 << 20):
        skipped += len(chunk)
        if chunk.endswith(b"\n"):
            break
    return skipped
