"""
Reading a file of concatenated zstd frames as one text.

Tools append a frame for each batch, and a crash tears the last one. Frames are therefore
walked block by block (RFC 8878, section 3.1.1): where the file ends inside one is known
exactly, what a torn frame still holds is given, and a block never decompresses to more
than 128 KiB, however hostile it is.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from eventlog.errors import MissingExtra
from eventlog.sources import RecordFault

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["ZstdFrames"]

MAGIC: Final = b"\x28\xb5\x2f\xfd"
WINDOW_BYTES_MAX: Final = 128 << 20


class ZstdFrames(io.RawIOBase):
    """
    The text of a file of zstd frames, as far as it can be had.

    Args:
        raw: The compressed file, read from where it stands.

        path: What the fault calls it.

    Attributes:
        fault: What ended the text early: a torn or a damaged frame, with its offset in
            the compressed file. None while nothing did. Known at the end of the text.

    Raises:
        MissingExtra: The package ``zstandard`` is not installed.
    """

    def __init__(self, raw: BinaryIO, path: Path) -> None:
        super().__init__()
        self.fault: RecordFault | None = None
        self._path = path
        self._raw = raw
        self._zstandard = _load_zstandard()
        self._pieces = self._decompressed()
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        target = memoryview(buffer).cast("B")
        size = min(len(target), len(self._rest))
        target[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    def _decompressed(self) -> Iterator[bytes]:
        offset = 0
        while True:
            magic = self._raw.read(4)
            if not magic:
                return
            if magic != MAGIC and not MAGIC.startswith(magic):
                self._stop(offset, "malformed", "no zstd frame starts here")
                return
            parts = self._frame(magic)
            decoder = self._zstandard.ZstdDecompressor(
                max_window_size=WINDOW_BYTES_MAX
            ).decompressobj()
            try:
                for part in parts:
                    offset += len(part)
                    yield decoder.decompress(part)
            except _Torn:
                self._stop(offset, "torn", "the file ends inside the zstd frame before this")
                return
            except (_Damaged, self._zstandard.ZstdError) as error:
                self._stop(offset, "malformed", f"a damaged zstd frame: {error}")
                return

    def _frame(self, magic: bytes) -> Iterator[bytes]:
        """Yield the bytes of one frame, a block at a time."""
        if magic != MAGIC:
            raise _Torn
        descriptor = self._exactly(1)[0]
        if descriptor & 0x08:
            raise _Damaged("a reserved bit is set")
        single_segment = bool(descriptor & 0x20)
        size_bytes = (1 if single_segment else 0, 2, 4, 8)[descriptor >> 6]
        window_bytes = 0 if single_segment else 1
        dictionary_bytes = (0, 1, 2, 4)[descriptor & 0x03]
        header = self._exactly(window_bytes + dictionary_bytes + size_bytes)
        yield magic + bytes([descriptor]) + header
        last = False
        while not last:
            head = self._exactly(3)
            fields = int.from_bytes(head, "little")
            last = bool(fields & 1)
            kind, size = fields >> 1 & 3, fields >> 3
            if kind == 3:
                raise _Damaged("a block of the reserved type")
            yield head + self._exactly(1 if kind == 1 else size)
        if descriptor & 0x04:
            yield self._exactly(4)

    def _exactly(self, size: int) -> bytes:
        found = self._raw.read(size) if size else b""
        if len(found) < size:
            raise _Torn
        return found

    def _stop(self, offset: int, kind: str, reason: str) -> None:
        self.fault = RecordFault(str(self._path), None, offset, kind, reason)


class _Torn(Exception):
    """The file ends inside a frame."""


class _Damaged(Exception):
    """A frame that no encoder writes."""


def _load_zstandard() -> Any:
    try:
        import zstandard
    except ImportError:
        raise MissingExtra("zstd", 'pip install "agent-eventlog[zstd]"') from None
    return zstandard
