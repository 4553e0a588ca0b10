"""
The surface's tables as rows of an environment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final

import lmdb

from .layout import U64, Damaged

__all__ = ["RowTables", "RowWriter"]

_NODE, _REPLACEMENT, _SHADOWED, _CITATION = b"n", b"r", b"s", b"c"
_KIND_KEY: Final = Struct(">Q1sQ")
_CITATION_KEY: Final = Struct(">Q1sQQ")
_PREFIX_BYTES: Final = 9
_SEQ: Final = Struct("<Q")
_SEQ_AT: Final = 9
_CITING_AT: Final = 17


class RowTables:
    """
    One session's tables, read inside a transaction and valid no longer than it.

    Cost: O(log n) for each call, beside what it returns.

    Args:
        transaction: The transaction, which the caller ends.

        rows: The database *rows*.

        ordinal: The session.

    Every method raises :class:`~.layout.Damaged` for a row of the wrong shape.
    """

    __slots__ = ("_ordinal", "_rows", "_transaction")

    def __init__(
        self, transaction: lmdb.Transaction[bytes], rows: lmdb._Database, ordinal: int
    ) -> None:
        self._transaction = transaction
        self._rows = rows
        self._ordinal = ordinal

    def node(self, label: int) -> int | None:
        value = self._get(_NODE, label)
        return None if value is None else _seq_in(value)

    def floor(self, label: int) -> int | None:
        if label < 0:
            return None
        key = _KIND_KEY.pack(self._ordinal, _NODE, label)
        with self._transaction.cursor(self._rows) as cursor:
            # The cursor stands at or behind *label*, or at the end of the database.
            if cursor.set_range(key) and cursor.key() == key:
                return label
            found = cursor.prev() if cursor.key() else cursor.last()
            if not found or not cursor.key().startswith(key[:_PREFIX_BYTES]):
                return None
            return _seq_at(cursor.key(), _SEQ_AT)

    def walk(self, start: int) -> Iterator[tuple[int, int]]:
        for key, value in self._from(_NODE, start):
            yield _seq_at(key, _SEQ_AT), _seq_in(value)

    def span(self, first: int, last: int) -> list[tuple[int, int]]:
        found = []
        for label, node in self.walk(first):
            if label > last:
                break
            found.append((label, node))
        return found

    def label(self, seq: int) -> int | None:
        value = self._get(_REPLACEMENT, seq)
        return None if value is None else _seqs_in(value)[0]

    def replaced(self, seq: int) -> Sequence[int]:
        value = self._get(_REPLACEMENT, seq)
        return () if value is None else _seqs_in(value)[1:]

    def replaced_by(self, start: int, stop: int) -> dict[int, int]:
        if stop - start == 1:
            value = self._get(_SHADOWED, start)
            return {} if value is None else {start: _seq_in(value)}
        found = {}
        for key, value in self._from(_SHADOWED, start):
            node = _seq_at(key, _SEQ_AT)
            if node >= stop:
                break
            found[node] = _seq_in(value)
        return found

    def citing(self, source: int) -> Sequence[int]:
        prefix = _KIND_KEY.pack(self._ordinal, _CITATION, source)
        found = []
        with self._transaction.cursor(self._rows) as cursor:
            if cursor.set_range(prefix):
                for key in cursor.iternext(True, False):
                    if not key.startswith(prefix):
                        break
                    found.append(_seq_at(key, _CITING_AT))
        return found

    def _get(self, kind: bytes, seq: int) -> bytes | None:
        return self._transaction.get(_KIND_KEY.pack(self._ordinal, kind, seq), db=self._rows)

    def _from(self, kind: bytes, start: int) -> Iterator[tuple[bytes, bytes]]:
        key = _KIND_KEY.pack(self._ordinal, kind, start)
        prefix = key[:_PREFIX_BYTES]
        with self._transaction.cursor(self._rows) as cursor:
            if cursor.set_range(key):
                for item in cursor.iternext(True, True):
                    if not item[0].startswith(prefix):
                        break
                    yield item


class RowWriter(RowTables):
    """
    The tables with what a batch of planned steps writes to them.

    Writes are collected and go to the medium with :meth:`flush`, so that a node that is
    put and dropped by the same batch never becomes a row. Reads see the medium only.
    """

    __slots__ = ("_dropped", "_nodes", "_rest")

    def __init__(
        self, transaction: lmdb.Transaction[bytes], rows: lmdb._Database, ordinal: int
    ) -> None:
        super().__init__(transaction, rows, ordinal)
        self._nodes: dict[int, int] = {}
        self._dropped: list[int] = []
        self._rest: list[tuple[bytes, bytes]] = []

    def put_node(self, label: int, seq: int) -> None:
        self._nodes[label] = seq

    def drop_node(self, label: int) -> None:
        if self._nodes.pop(label, None) is None:
            self._dropped.append(label)

    def put_replacement(self, seq: int, label: int, shadowed: Sequence[int]) -> None:
        value = Struct(f"<{1 + len(shadowed)}Q").pack(label, *shadowed)
        self._rest.append((_KIND_KEY.pack(self._ordinal, _REPLACEMENT, seq), value))

    def put_replaced_by(self, node: int, seq: int) -> None:
        key = _KIND_KEY.pack(self._ordinal, _SHADOWED, node)
        self._rest.append((key, _SEQ.pack(seq)))

    def put_citation(self, source: int, seq: int) -> None:
        self._rest.append((_CITATION_KEY.pack(self._ordinal, _CITATION, source, seq), b""))

    def flush(self) -> None:
        """Write what was collected."""
        ordinal = self._ordinal
        for label in self._dropped:
            if label not in self._nodes:
                self._transaction.delete(_KIND_KEY.pack(ordinal, _NODE, label), db=self._rows)
        items = [
            (_KIND_KEY.pack(ordinal, _NODE, label), _SEQ.pack(node))
            for label, node in self._nodes.items()
        ]
        items += self._rest
        if items:
            with self._transaction.cursor(self._rows) as cursor:
                cursor.putmulti(items)


def _seq_at(key: bytes, at: int) -> int:
    if len(key) < at + 8:
        raise Damaged(None, f"a row's key has {len(key)} bytes")
    found: int = U64.unpack_from(key, at)[0]
    return found


def _seq_in(value: bytes) -> int:
    if len(value) != 8:
        raise Damaged(None, f"a row has {len(value)} bytes instead of 8")
    found: int = _SEQ.unpack(value)[0]
    return found


def _seqs_in(value: bytes) -> tuple[int, ...]:
    if len(value) % 8 or not value:
        raise Damaged(None, f"a replacement's row has {len(value)} bytes")
    return Struct(f"<{len(value) // 8}Q").unpack(value)
