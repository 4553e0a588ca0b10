"""
Cursors: where a walk stands, in one opaque string that any process can continue.

A cursor holds a position, never a place in memory: what is added or deleted between two
pages leaves it valid. It is bound to its call by a digest of the arguments that shape the
order, so that a cursor of one listing cannot page another.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from hashlib import blake2b

import orjson

from eventlog.values import JSONValue

from .errors import Code, SessionQueryError

__all__ = ["Cursors"]

CHECK_BYTES = 6
# Above what any walk needs but one through tens of thousands of found sessions; a longer
# one is not worth decoding.
CURSOR_CHARS_MAX = 65_536


class Cursors:
    """
    The cursors of one call.

    Args:
        call: The method.

        scope: Its arguments that must be the same on every page, as JSON values.
    """

    __slots__ = ("_scope",)

    def __init__(self, call: str, *scope: JSONValue) -> None:
        # Not by orjson: a filter may hold a lone surrogate, though no event does.
        self._scope = json.dumps([call, *scope]).encode()

    def encode(self, *position: JSONValue) -> str:
        """Return the cursor of *position*, JSON values."""
        return self._sealed(orjson.dumps(position))

    def decode(self, cursor: object, *types: type) -> Sequence[JSONValue]:
        """
        Return the position that *cursor* holds.

        Args:
            types: The exact type of each of its values.

        Raises:
            SessionQueryError: INVALID_CURSOR: it is none of this call's.
        """
        if type(cursor) is str and len(cursor) <= CURSOR_CHARS_MAX:
            try:
                raw = urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4))
                body = raw[CHECK_BYTES:]
                # Encoded again, since base64 reads several texts as the same bytes.
                if cursor == self._sealed(body):
                    position: list[JSONValue] = orjson.loads(body)
                    if [type(value) for value in position] == [*types]:
                        return position
            except ValueError:
                pass  # not base64, not UTF-8 or not JSON: none of ours
        raise SessionQueryError(Code.INVALID_CURSOR, "the cursor is none of this call")

    def _sealed(self, body: bytes) -> str:
        key = blake2b(self._scope).digest()
        check = blake2b(body, key=key, digest_size=CHECK_BYTES).digest()
        return urlsafe_b64encode(check + body).rstrip(b"=").decode()
