"""The contract, held by the smallest driver worth having."""

from __future__ import annotations

from support.sqlite_contract import SqliteContract


class TestSqliteStore(SqliteContract):
    pass
