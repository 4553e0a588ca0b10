"""The PostgreSQL store under faults, as the kit has them, and in ways of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from psycopg import sql

from eventlog.drivers.postgres import PostgresStore
from eventlog.errors import StoreFull, StoreReadOnly, StoreUnavailable
from eventlog.testing import FaultContract
from support import make_header, message, messages
from support.postgres import Server, need_server, owner, schema_of, store_at

TINY_BYTES = 4 * 1024 * 1024
BALLAST_BYTES = 1024 * 1024


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """The folder of a tablespace of its own, on a disk of 4 MB."""
    server = need_server()
    folder = server.folder / "tiny"
    folder.mkdir()
    user, group = owner()
    options = f"size={TINY_BYTES},mode=700,uid={user},gid={group}"
    mount = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        folder.rmdir()
        pytest.skip("needs the right to mount a small disk")
    try:
        server.query(f"CREATE TABLESPACE tiny LOCATION '{folder}'")
        yield folder
        with server.connect() as connection:
            name = sql.Identifier(schema_of(tmp_path / "store"))
            connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(name))
            connection.execute("CHECKPOINT")
            connection.execute("DROP TABLESPACE tiny")
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
        folder.rmdir()


@pytest.fixture
def role(root: Path) -> Iterator[str]:
    """A user who may do nothing yet."""
    server, name = need_server(), f"r_{schema_of(root)}"
    server.query(f"CREATE ROLE {name} LOGIN PASSWORD 'x'")
    yield name
    server.query(f"DROP OWNED BY {name}; DROP ROLE {name}")


def as_role(role: str, root: Path, *, read_only: bool = False) -> PostgresStore:
    """The store of a path, opened by a user."""
    url = need_server().tcp_url(role, "x")
    return PostgresStore(url, schema=schema_of(root), read_only=read_only)


class TestPostgresFaults(FaultContract):
    def open_store(self, root: Path, *, read_only: bool = False) -> PostgresStore:
        return store_at(root, read_only=read_only)

    def test_j1_full_disk_refuses_and_recovers(  # type: ignore[override]
        self, root: Path, tiny: Path
    ) -> None:
        """
        Where the server has no room an append stores nothing and says so; with room it
        goes on.
        """
        url = f"{need_server().url}&options=-c%20default_tablespace%3Dtiny"
        with PostgresStore(url, schema=schema_of(root)) as store:
            store.append(make_header(), messages(5))
            (tiny / "ballast").write_bytes(bytes(BALLAST_BYTES))
            length = 5
            # Not to be made small by compression.
            noise = [os.urandom(10_000).hex() for _ in range(4)]
            for _ in range(200):
                event = message(length, noise[length % 4] + str(length))
                try:
                    length = store.append(make_header(), [event])
                except StoreFull:
                    break
            else:
                raise AssertionError("the disk was never full")
            assert length == store.snapshot("s1").length == len(store.snapshot("s1").read(0, 999))
            with pytest.raises(StoreFull):
                store.append(make_header(), [message(length, noise[0] * 20)])

            (tiny / "ballast").unlink()
            assert length + 1 == store.append(make_header(), [message(length)])
            assert [] == list(store.verify())

    def test_j3_read_only_medium(  # type: ignore[override]
        self, root: Path, role: str
    ) -> None:
        """
        A user who may only read reads and verifies everything, and is told so by an append.
        """
        with self.open_store(root) as store:
            store.append(make_header(), messages(2))
        schema = schema_of(root)
        need_server().query(
            f"GRANT USAGE ON SCHEMA {schema} TO {role};"
            f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}"
        )
        for read_only in (False, True):
            with as_role(role, root, read_only=read_only) as store:
                assert messages(2) == store.snapshot("s1").read(0, 9)
                assert [0, 1] == store.snapshot("s1").nodes()
                assert [] == list(store.verify())
                for call in (
                    partial(store.append, make_header(), [message(2)]),
                    partial(store.append, make_header("s2"), messages(1)),
                    partial(store.delete, "s1"),
                ):
                    with pytest.raises(StoreReadOnly):
                        call()

    def test_j3_new_store_that_may_not_be_made(self, root: Path, role: str) -> None:
        """
        Where a user may not make the schema, a store that is not there is empty, and an
        append says that it cannot be written.
        """
        with as_role(role, root) as store:
            assert () == store.heads().items
            with pytest.raises(StoreReadOnly):
                store.append(make_header(), messages(1))
            assert () == store.heads().items

    def test_j3_server_that_refuses_writes(self, root: Path, role: str) -> None:
        """
        A server that lets this user read only, as a standby does all, is told as such.
        """
        with self.open_store(root) as store:
            store.append(make_header(), messages(2))
        server, schema = need_server(), schema_of(root)
        server.query(f"GRANT ALL ON SCHEMA {schema} TO {role}")
        server.query(f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}")
        server.query(f"ALTER ROLE {role} SET default_transaction_read_only = on")
        with as_role(role, root) as store:
            assert messages(2) == store.snapshot("s1").read(0, 9)
            assert 2 == store.append(make_header(), [])
            with pytest.raises(StoreReadOnly):
                store.append(make_header(), [message(2)])

    def test_schema_that_may_not_be_looked_into_is_not_empty(self, root: Path, role: str) -> None:
        """
        A store that a user may not read is unavailable, and never an empty one.
        """
        with self.open_store(root) as store:
            store.append(make_header(), messages(2))
        with as_role(role, root) as store:
            for call in (lambda: store.heads(), lambda: store.head("s1"), store.changes):
                with pytest.raises(StoreUnavailable, match="denied"):
                    call()


def test_server_is_there_for_every_test() -> None:
    """The server of this process answers."""
    server: Server = need_server()

    assert [(1,)] == server.query("SELECT 1")
