"""
The surface's tables as rows of the database.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, LiteralString

from eventlog.snapshot import ScanMeter

from .connections import Connection

__all__ = ["RowTables", "RowWriter"]

# A walk reads ahead, further each time, so that it takes few questions for many rows.
AHEAD_FIRST: Final = 24
AHEAD_MAX: Final = 4096


class RowTables:
    """
    One session's tables, read inside a transaction and valid no longer than it.

    Cost: a question of O(log n) for each call, beside what it returns; a walk reads ahead
    three times as many rows as it has returned, and 24.

    Args:
        connection: In a transaction, which the caller ends.

        ordinal: The log.

        meter: Where each row that is looked at counts as a probe.
    """

    __slots__ = ("_connection", "_meter", "_ordinal")

    def __init__(self, connection: Connection, ordinal: int, meter: ScanMeter) -> None:
        self._connection = connection
        self._ordinal = ordinal
        self._meter = meter

    def node(self, label: int) -> int | None:
        return self._one("SELECT node FROM nodes WHERE ordinal = %s AND label = %s", label)

    def floor(self, label: int) -> int | None:
        return self._one(
            "SELECT label FROM nodes WHERE ordinal = %s AND label <= %s"
            " ORDER BY label DESC LIMIT 1",
            label,
        )

    def walk(self, start: int) -> Iterator[tuple[int, int]]:
        ahead = AHEAD_FIRST
        while True:
            rows = self._rows(
                "SELECT label, node FROM nodes WHERE ordinal = %s AND label >= %s"
                " ORDER BY label LIMIT %s",
                start,
                ahead,
            )
            yield from rows
            if len(rows) < ahead:
                return
            start = rows[-1][0] + 1
            ahead = min(4 * ahead, AHEAD_MAX)

    def span(self, first: int, last: int) -> list[tuple[int, int]]:
        return self._rows(
            "SELECT label, node FROM nodes WHERE ordinal = %s AND label BETWEEN %s AND %s"
            " ORDER BY label",
            first,
            last,
        )

    def label(self, seq: int) -> int | None:
        return self._one("SELECT label FROM replacements WHERE ordinal = %s AND seq = %s", seq)

    def replaced(self, seq: int) -> Sequence[int]:
        rows = self._rows("SELECT replaced FROM replacements WHERE ordinal = %s AND seq = %s", seq)
        if not rows:
            return ()
        found: list[int] = rows[0][0]
        self._meter.probes += len(found) - 1
        return found

    def replaced_by(self, start: int, stop: int) -> dict[int, int]:
        return dict(
            self._rows(
                "SELECT node, replacer FROM shadowed"
                " WHERE ordinal = %s AND node >= %s AND node < %s ORDER BY node",
                start,
                stop,
            )
        )

    def citing(self, source: int) -> Sequence[int]:
        rows = self._rows(
            "SELECT citing FROM citations WHERE ordinal = %s AND source = %s ORDER BY citing",
            source,
        )
        return [citing for (citing,) in rows]

    def _one(self, query: LiteralString, *arguments: int) -> int | None:
        rows = self._rows(query, *arguments)
        return rows[0][0] if rows else None

    def _rows(self, query: LiteralString, *arguments: int) -> list[Any]:
        rows = self._connection.ask(query, (self._ordinal, *arguments))
        self._meter.probes += max(1, len(rows))
        return rows


class RowWriter(RowTables):
    """
    The tables with what a batch of planned steps writes to them.

    Writes are collected and go to the server with :meth:`flush`, so that a node that is
    put and dropped by the same batch never becomes a row. Reads see the server's rows only.
    """

    __slots__ = ("_citations", "_dropped", "_nodes", "_replacements", "_shadowed")

    def __init__(self, connection: Connection, ordinal: int, meter: ScanMeter) -> None:
        super().__init__(connection, ordinal, meter)
        self._nodes: dict[int, int] = {}
        self._dropped: set[int] = set()
        self._replacements: list[tuple[int, int, str]] = []
        self._shadowed: list[tuple[int, int]] = []
        self._citations: list[tuple[int, int]] = []

    def put_node(self, label: int, seq: int) -> None:
        self._nodes[label] = seq

    def drop_node(self, label: int) -> None:
        if self._nodes.pop(label, None) is None:
            self._dropped.add(label)

    def put_replacement(self, seq: int, label: int, shadowed: Sequence[int]) -> None:
        # Arrays of arrays must be of one length; their texts need not be.
        self._replacements.append((seq, label, f"{{{','.join(map(str, shadowed))}}}"))

    def put_replaced_by(self, node: int, seq: int) -> None:
        self._shadowed.append((node, seq))

    def put_citation(self, source: int, seq: int) -> None:
        self._citations.append((source, seq))

    def flush(self) -> None:
        """Write what was collected."""
        dropped = sorted(self._dropped - self._nodes.keys())
        if dropped:
            self._connection.execute(
                "DELETE FROM nodes WHERE ordinal = %s AND label = ANY (%b::bigint[])",
                (self._ordinal, dropped),
            )
        self._put(
            "INSERT INTO nodes SELECT %s, * FROM unnest(%b::bigint[], %b::bigint[])"
            " ON CONFLICT (ordinal, label) DO UPDATE SET node = excluded.node",
            list(self._nodes.items()),
        )
        self._put(
            "INSERT INTO replacements SELECT %s, r.seq, r.label, r.replaced::bigint[]"
            " FROM unnest(%b::bigint[], %b::bigint[], %b::text[]) AS r(seq, label, replaced)",
            self._replacements,
        )
        self._put(
            "INSERT INTO shadowed SELECT %s, * FROM unnest(%b::bigint[], %b::bigint[])",
            self._shadowed,
        )
        self._put(
            "INSERT INTO citations SELECT %s, * FROM unnest(%b::bigint[], %b::bigint[])",
            self._citations,
        )

    def _put(self, query: LiteralString, rows: Sequence[tuple[Any, ...]]) -> None:
        if rows:
            columns = [list(column) for column in zip(*rows, strict=True)]
            self._connection.execute(query, (self._ordinal, *columns))
