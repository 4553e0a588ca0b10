"""
Reading files that are one JSON document: an object or a list that holds the records.

A document that ends too early, or breaks off in a fault, gives what stands before it, down
to the elements of a list in an object; the fault is named. What no log can hold is cleaned
record by record (:mod:`eventlog.drivers.transcripts.json_text`); the exact value of a
record that was cleaned is kept as JSON, which has lone surrogates as escapes. Of a key that
stands twice in an object the last value counts, as for the tools that wrote it.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Final

import orjson
from attrs import frozen

from eventlog import values
from eventlog.errors import CorruptLog, ValueRejected
from eventlog.sources import RecordFault, RecordTally
from eventlog.values import JSONValue

from .json_text import DEPTH_MAX, clean
from .records import Record, digest_of

__all__ = ["DOCUMENT_BYTES_MAX", "Document", "read_document", "record_of"]

DOCUMENT_BYTES_MAX: Final = 256 << 20
SPACE: Final = re.compile(r"[ \t\r\n]*")


@frozen
class Document:
    """
    A document.

    Attributes:
        value: What it says, as far as it can be read; records of it are to be had by
            :func:`record_of`.

        fault: What ended it early, None where nothing did.
    """

    value: JSONValue
    fault: RecordFault | None


def read_document(path: Path) -> Document:
    """
    Read a whole document.

    Raises:
        CorruptLog: It is empty, too large to hold, or nothing of it can be read.

        OSError: The system refuses to read it.
    """
    size = os.stat(path).st_size
    if size > DOCUMENT_BYTES_MAX:
        raise _corrupt(path, "oversize", f"{size} bytes; at most {DOCUMENT_BYTES_MAX} are read")
    text = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    if not text.strip(b" \t\r\n\0"):
        raise _corrupt(path, "empty", f"a file of {len(text)} bytes without a document")
    try:
        value = orjson.loads(text) if _is_exact(text) else None
    except orjson.JSONDecodeError:
        value = None
    if type(value) is dict or type(value) is list:
        return Document(value, None)
    return _lenient(text, path)


def record_of(value: JSONValue, at: str, path: Path, tally: RecordTally) -> Record | None:
    """
    Return an element of a document as a record, counted as found.

    None where it is no object, or is nested too deeply to be written as JSON: it was
    refused, and the fault names *at*.
    """
    tally.found += 1
    try:
        return _record(value, at, tally)
    except ValueRejected as error:
        tally.refuse(RecordFault(str(path), None, None, "malformed", str(error)))
        return None


def _record(value: JSONValue, at: str, tally: RecordTally) -> Record:
    if type(value) is not dict:
        raise ValueRejected(at, f"must be an object, not {type(value).__name__}")
    try:
        text = values.encode(value)
        if text.count(b"{") + text.count(b"[") <= DEPTH_MAX:
            return Record(value, digest_of(text), {"at": at})
        reason = f"is nested deeper than {DEPTH_MAX} levels"
    except ValueRejected as error:
        reason = error.reason
    try:
        cleaned = clean(value)
        raw = json.dumps(value)
    except RecursionError:
        raise ValueRejected(at, "is nested too deeply") from None
    if raw == json.dumps(cleaned):
        return Record(value, digest_of(raw.encode()), {"at": at})  # many brackets, none deep
    tally.altered += 1
    return Record(cleaned, digest_of(raw.encode()), {"at": at}, raw, reason)


def _is_exact(text: bytes) -> bool:
    """Tell whether orjson reads *text* without changing a number in silence."""
    # Seventeen digits in a row, or an exponent, may be a number beyond 64 bits.
    return LONG_NUMBER.search(text) is None


LONG_NUMBER: Final = re.compile(rb"[0-9]{17}")


def _lenient(text: bytes, path: Path) -> Document:
    characters = text.decode("utf-8", "replace")
    reader = _Reader(characters)
    try:
        value = reader.read()
    except _Damage as damage:
        offset = len(characters[: damage.position].encode())
        torn = not characters[damage.position :].strip(" \t\r\n\0")
        kind = "torn" if torn or damage.at_end else "malformed"
        fault = RecordFault(str(path), None, offset, kind, damage.reason)
        if reader.partial is None:
            raise _corrupt(path, kind, f"at byte {offset}: {damage.reason}") from None
        return Document(reader.partial, fault)
    return Document(value, None)


def _corrupt(path: Path, kind: str, detail: str) -> CorruptLog:
    return CorruptLog(None, str(path), None, None, None, kind, detail)


class _Damage(Exception):
    """Where a text stops being JSON."""

    def __init__(self, position: int, reason: str, *, at_end: bool) -> None:
        super().__init__(position, reason)
        self.position = position
        self.reason = reason
        self.at_end = at_end


class _Reader:
    """Reads a document member by member, two levels deep, and keeps what it has read."""

    def __init__(self, text: str) -> None:
        self.partial: JSONValue = None
        self._text = text
        self._decoder = json.JSONDecoder(parse_int=_read_int)

    def read(self) -> JSONValue:
        """
        Return the whole document.

        Raises:
            _Damage: It is none; *partial* is what was read.
        """
        start = self._space(0)
        if self._text[start : start + 1] == "{":
            self.partial = {}
            stop = self._object(start, self.partial)
        elif self._text[start : start + 1] == "[":
            self.partial = []
            stop = self._list(start, self.partial)
        else:
            raise self._damage(start, "it is no object and no list")
        stop = self._space(stop)
        if self._text[stop:].strip("\0"):
            raise self._damage(stop, "something follows the document")
        return self.partial

    def _object(self, start: int, into: dict[str, JSONValue]) -> int:
        position = self._space(start + 1)
        if self._text[position : position + 1] == "}":
            return position + 1
        while True:
            key, position = self._value(position)
            if type(key) is not str:
                raise self._damage(position, "a key must be a string")
            position = self._expect(position, ":")
            position = self._space(position)
            if self._text[position : position + 1] == "[":
                # The records stand in such a list; some of them may be sound.
                held: list[JSONValue] = []
                into[key] = held
                position = self._list(position, held)
            else:
                into[key], position = self._value(position)
            position = self._space(position)
            if self._text[position : position + 1] == "}":
                return position + 1
            position = self._space(self._expect(position, ","))

    def _list(self, start: int, into: list[JSONValue]) -> int:
        position = self._space(start + 1)
        if self._text[position : position + 1] == "]":
            return position + 1
        while True:
            value, position = self._value(position)
            into.append(value)
            position = self._space(position)
            if self._text[position : position + 1] == "]":
                return position + 1
            position = self._space(self._expect(position, ","))

    def _value(self, position: int) -> tuple[JSONValue, int]:
        try:
            return self._decoder.raw_decode(self._text, position)
        except json.JSONDecodeError as error:
            raise self._damage(position, f"no value: {error.msg}", seen=error.pos) from None
        except RecursionError:
            raise self._damage(position, "it is nested too deeply") from None

    def _expect(self, position: int, sign: str) -> int:
        position = self._space(position)
        if self._text[position : position + 1] != sign:
            raise self._damage(position, f"expected {sign!r}")
        return position + 1

    def _space(self, position: int) -> int:
        match = SPACE.match(self._text, position)
        assert match is not None
        return match.end()

    def _damage(self, position: int, reason: str, *, seen: int | None = None) -> _Damage:
        end = len(self._text.rstrip(" \t\r\n\0"))
        # An unterminated string is told by its start; then the end is where it broke off.
        at_end = (seen or position) >= end or "Unterminated" in reason
        return _Damage(position, reason, at_end=at_end)


def _read_int(digits: str) -> int | str:
    # Python refuses to convert more than 4,300 digits; 20 hold every accepted int.
    return int(digits) if len(digits) <= 4_000 else digits
