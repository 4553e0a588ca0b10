"""
The surface's tables as rows of an environment.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import lmdb

from eventlog.snapshot import ScanMeter
from eventlog.tables import MemoryTables

from .layout import U64, Damaged

__all__ = ["RowTables", "RowWriter", "rows_of", "seq_of_row"]

_NODE, _LABEL, _REPLACED, _SHADOWED, _CITATION = b"n", b"l", b"r", b"s", b"c"
_KEY: Final = struct.Struct(">Q1sQ")
_SEQ_IN_KEY: Final = struct.Struct(">9xQ")
_CITATION_KEY: Final = struct.Struct(">Q1sQQ")
_CITING_IN_KEY: Final = struct.Struct(">17xQ")
_PREFIX_BYTES: Final = 9
_SEQ: Final = struct.Struct("<Q")

# A walk reads ahead, twice as far each time, so that it costs few calls for many rows.
AHEAD_FIRST: Final = 8
AHEAD_MAX: Final = 1024


class RowTables:
    """
    One session's tables, read inside a transaction and valid no longer than it.

    Cost: O(log n) for each call, beside what it returns; a walk reads ahead as many rows
    as it has returned, and 8.

    Args:
        transaction: The transaction, which the caller ends.

        rows: The database *rows*.

        ordinal: The session.

        meter: Where each row that is looked at counts as a probe.

    Raises:
        Damaged: By every method, for a row that cannot be what was written.
    """

    __slots__ = ("_meter", "_ordinal", "_rows", "_transaction")

    def __init__(
        self,
        transaction: lmdb.Transaction[bytes],
        rows: lmdb._Database,
        ordinal: int,
        meter: ScanMeter,
    ) -> None:
        self._transaction = transaction
        self._rows = rows
        self._ordinal = ordinal
        self._meter = meter

    def node(self, label: int) -> int | None:
        value = self._get(_NODE, label)
        return None if value is None else _at_least(label, _seq_in(value))

    def floor(self, label: int) -> int | None:
        if label < 0:
            return None
        self._meter.probes += 1
        key = _KEY.pack(self._ordinal, _NODE, label)
        with self._transaction.cursor(self._rows) as cursor:
            # The cursor stands at or behind *label*, or nowhere, behind the last row.
            if cursor.set_range(key) and cursor.key() == key:
                return label
            found = cursor.prev() if cursor.key() else cursor.last()
            if not found or not cursor.key().startswith(key[:_PREFIX_BYTES]):
                return None
            return _unpacked(_SEQ_IN_KEY, cursor.key())

    def walk(self, start: int) -> Iterator[tuple[int, int]]:
        return self._range(_NODE, start)

    def span(self, first: int, last: int) -> list[tuple[int, int]]:
        found = []
        for label, node in self._range(_NODE, first):
            if label > last:
                break
            found.append((label, node))
        return found

    def label(self, seq: int) -> int | None:
        value = self._get(_LABEL, seq)
        return None if value is None else _below(seq, _seq_in(value))

    def replaced(self, seq: int) -> Sequence[int]:
        value = self._get(_REPLACED, seq)
        if value is None:
            return ()
        if len(value) % 8 or not value:
            raise Damaged(None, f"a row of replaced events has {len(value)} bytes")
        found = struct.unpack(f"<{len(value) // 8}Q", value)
        self._meter.probes += len(found) - 1
        # An event replaces earlier ones; so whoever follows replacements comes to an end.
        _below(seq, max(found))
        return found

    def replaced_by(self, start: int, stop: int) -> dict[int, int]:
        found = {}
        if stop - start == 1:
            value = self._get(_SHADOWED, start)
            if value is not None:
                found[start] = _at_least(start + 1, _seq_in(value))
        else:
            for node, replacer in self._range(_SHADOWED, start):
                if node >= stop:
                    break
                found[node] = _at_least(node + 1, replacer)
        return found

    def citing(self, source: int) -> Sequence[int]:
        self._meter.probes += 1
        prefix = _KEY.pack(self._ordinal, _CITATION, source)
        found = []
        with self._transaction.cursor(self._rows) as cursor:
            if cursor.set_range(prefix):
                for key in cursor.iternext(True, False):
                    if not key.startswith(prefix):
                        break
                    self._meter.probes += 1
                    found.append(_unpacked(_CITING_IN_KEY, key))
        return found

    def _get(self, kind: bytes, seq: int) -> bytes | None:
        self._meter.probes += 1
        return self._transaction.get(_KEY.pack(self._ordinal, kind, seq), db=self._rows)

    def _range(self, kind: bytes, start: int) -> Iterator[tuple[int, int]]:
        """Yield (seq in the key, seq in the value) of a kind of rows, from *start* on."""
        key = _KEY.pack(self._ordinal, kind, start)
        prefix = key[:_PREFIX_BYTES]
        ahead = AHEAD_FIRST
        with self._transaction.cursor(self._rows) as cursor:
            rows = cursor.iternext(True, True) if cursor.set_range(key) else iter(())
            more = True
            while more:
                taken = list(islice(rows, ahead))
                self._meter.probes += len(taken)
                more = len(taken) == ahead
                while taken and not taken[-1][0].startswith(prefix):
                    more = False
                    taken.pop()
                try:
                    # Unpacked together: a row at a time takes three times as long.
                    keys = b"".join([key for key, _ in taken])
                    values = b"".join([value for _, value in taken])
                    yield from zip(
                        [seq for (seq,) in _SEQ_IN_KEY.iter_unpack(keys)],
                        struct.unpack(f"<{len(taken)}Q", values),
                        strict=True,
                    )
                except (struct.error, ValueError) as error:
                    raise Damaged(None, f"a row has the wrong shape: {error}") from error
                ahead = min(2 * ahead, AHEAD_MAX)


class RowWriter(RowTables):
    """
    The tables with what a batch of planned steps writes to them.

    Writes are collected and go to the medium with :meth:`flush`, so that a node that is
    put and dropped by the same batch never becomes a row. Reads see the medium only.
    """

    __slots__ = ("_dropped", "_nodes", "_rest")

    def __init__(
        self,
        transaction: lmdb.Transaction[bytes],
        rows: lmdb._Database,
        ordinal: int,
        meter: ScanMeter,
    ) -> None:
        super().__init__(transaction, rows, ordinal, meter)
        self._nodes: dict[int, int] = {}
        self._dropped: list[int] = []
        self._rest: list[tuple[bytes, bytes]] = []

    def put_node(self, label: int, seq: int) -> None:
        self._nodes[label] = seq

    def drop_node(self, label: int) -> None:
        if self._nodes.pop(label, None) is None:
            self._dropped.append(label)

    def put_replacement(self, seq: int, label: int, shadowed: Sequence[int]) -> None:
        ordinal = self._ordinal
        self._rest.append((_KEY.pack(ordinal, _LABEL, seq), _SEQ.pack(label)))
        value = struct.pack(f"<{len(shadowed)}Q", *shadowed)
        self._rest.append((_KEY.pack(ordinal, _REPLACED, seq), value))

    def put_replaced_by(self, node: int, seq: int) -> None:
        self._rest.append((_KEY.pack(self._ordinal, _SHADOWED, node), _SEQ.pack(seq)))

    def put_citation(self, source: int, seq: int) -> None:
        self._rest.append((_CITATION_KEY.pack(self._ordinal, _CITATION, source, seq), b""))

    def flush(self) -> None:
        """Write what was collected."""
        ordinal = self._ordinal
        for label in self._dropped:
            if label not in self._nodes:
                self._transaction.delete(_KEY.pack(ordinal, _NODE, label), db=self._rows)
        items = [
            (_KEY.pack(ordinal, _NODE, label), _SEQ.pack(node))
            for label, node in self._nodes.items()
        ]
        items += self._rest
        if items:
            with self._transaction.cursor(self._rows) as cursor:
                cursor.putmulti(items)


def rows_of(tables: MemoryTables, ordinal: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows that a session with these *tables* has, in the order of their keys."""
    for source, citing in tables.citation_rows():
        yield _CITATION_KEY.pack(ordinal, _CITATION, source, citing), b""
    for seq, label, _ in tables.replacement_rows():
        yield _KEY.pack(ordinal, _LABEL, seq), _SEQ.pack(label)
    for label, node in tables.walk(0):
        yield _KEY.pack(ordinal, _NODE, label), _SEQ.pack(node)
    for seq, _, shadowed in tables.replacement_rows():
        value = struct.pack(f"<{len(shadowed)}Q", *shadowed)
        yield _KEY.pack(ordinal, _REPLACED, seq), value
    for node, replacer in tables.shadowed_rows():
        yield _KEY.pack(ordinal, _SHADOWED, node), _SEQ.pack(replacer)


def seq_of_row(key: bytes) -> int | None:
    """Return the first seq in the key of a row; None where it has none."""
    return U64.unpack_from(key, _PREFIX_BYTES)[0] if len(key) >= _KEY.size else None


def _unpacked(form: struct.Struct, row: bytes) -> int:
    if len(row) != form.size:
        raise Damaged(None, f"a row has {len(row)} bytes instead of {form.size}")
    found: int = form.unpack(row)[0]
    return found


def _seq_in(value: bytes) -> int:
    return _unpacked(_SEQ, value)


def _at_least(least: int, seq: int) -> int:
    if seq < least:
        raise Damaged(None, f"a row holds seq {seq}, which cannot stand there")
    return seq


def _below(limit: int, seq: int) -> int:
    if seq >= limit:
        raise Damaged(None, f"a row holds seq {seq}, which cannot stand there")
    return seq
