"""The contract, held by the JSONL store."""

from __future__ import annotations

from pathlib import Path

from eventlog.drivers.jsonl import JsonlStore
from eventlog.drivers.jsonl.names import log_name
from eventlog.testing import StoreContract


class TestJsonlStore(StoreContract):
    raw_form = "text"

    def open_store(self, root: Path, *, read_only: bool = False) -> JsonlStore:
        return JsonlStore(root, read_only=read_only)

    def raw_read(self, root: Path, session_id: str) -> bytes | None:
        path = root / log_name(session_id)
        return path.read_bytes() if path.exists() else None

    def raw_write(self, root: Path, session_id: str, lines: bytes) -> None:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        (root / log_name(session_id)).write_bytes(lines)
