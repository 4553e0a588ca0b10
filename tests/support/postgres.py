"""
A PostgreSQL server for tests: one for each process that runs them, gone at its end.

What is tested is the driver, so the server syncs nothing and lies in memory where there
is room; a test that needs another one starts its own.
"""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from eventlog.drivers.postgres import PostgresStore
from eventlog.drivers.postgres.connections import Connection
from support import IN_MEMORY

__all__ = ["PASSWORD", "Server", "need_programs", "need_server", "owner", "schema_of", "store_at"]

PASSWORD = "s3cret p%s'w/rd"
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "16MB",
    "max_connections": "100",
    "autovacuum": "off",
    "listen_addresses": "127.0.0.1",
    "deadlock_timeout": "200ms",
    "wal_level": "minimal",
    "max_wal_senders": "0",
}


class Server:
    """
    A server in a folder of its own, reached by a socket there, and by TCP with a password.

    Attributes:
        folder: Where its socket is.

        port: Its port.

    Args:
        programs: The folder of a server's programs.

        settings: What is other than in :data:`SETTINGS`.

        primary: The server whose standby it is to be, None for one of its own.
    """

    def __init__(
        self,
        programs: Path,
        *,
        settings: Mapping[str, str] | None = None,
        primary: Server | None = None,
    ) -> None:
        self._programs = programs
        self._settings = {**SETTINGS, **(settings or {})}
        # Not below pytest's own folder, which is closed to other users; and short, since
        # the path of a socket is.
        self.folder = Path(tempfile.mkdtemp(prefix="eventlog-pg-", dir=IN_MEMORY))
        self.folder.chmod(0o755)
        self._process = os.getpid()
        if os.getuid() == 0:
            shutil.chown(self.folder, *owner())
        # However this process ends, its end of the guard's input is closed then.
        self._guard = subprocess.Popen(
            [
                *("sh", "-c", 'read _; "$0" stop -s -m immediate -D "$1/data"; rm -rf "$1"'),
                *(str(programs / "pg_ctl"), str(self.folder)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **self._as_user(),
        )
        if primary is None:
            self._create()
        else:
            self._run(
                "pg_basebackup",
                "--write-recovery-conf",
                "--checkpoint=fast",
                "--no-sync",
                f"--dbname=host={primary.folder} port={primary.port} user=postgres",
                f"--pgdata={self._data}",
            )
        self.start()

    def _create(self) -> None:
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._run(
            "initdb",
            "--no-sync",
            "--username=postgres",
            f"--pwfile={secret}",
            "--auth-local=trust",
            "--auth-host=scram-sha-256",
            "--encoding=SQL_ASCII",
            "--locale=C",
            f"--pgdata={self._data}",
        )

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def start(self, *, environment: Mapping[str, str] | None = None) -> None:
        """Start it, on another port each time where the last one is taken."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            # The socket's name has the port in it, so it stays what it was.
            self.port: int = getattr(self, "port", probe.getsockname()[1])
        settings = {**self._settings, "port": self.port, "unix_socket_directories": self.folder}
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        self._run(
            "pg_ctl",
            "start",
            "--wait",
            f"--pgdata={self._data}",
            f"--log={self.folder / 'log'}",
            f"--options={options}",
            environment=environment,
        )

    def stop(self, mode: str = "immediate") -> None:
        """Stop it: "immediate" is a crash, "fast" ends all connections in order."""
        self._run("pg_ctl", "stop", "--wait", f"--mode={mode}", f"--pgdata={self._data}")

    def remove(self) -> None:
        """Stop it and remove its folder. A forked child leaves it alone."""
        if os.getpid() == self._process:
            self._guard.communicate()

    @property
    def url(self) -> str:
        """The URL by its socket, without a password."""
        return f"postgresql://postgres@/postgres?host={quote(str(self.folder))}&port={self.port}"

    def tcp_url(self, user: str = "postgres", password: str = PASSWORD) -> str:
        """The URL by TCP, with a password."""
        secret = quote(password, safe="")
        return f"postgresql://{user}:{secret}@127.0.0.1:{self.port}/postgres"

    def connect(self) -> Connection:
        """A connection past every store, for the tests' own hands."""
        return Connection.connect(self.url, autocommit=True, client_encoding="utf8")

    def query(self, query: str, arguments: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """What a statement answers, [] where it answers nothing."""
        with self.connect() as connection:
            cursor = connection.execute(query.encode(), arguments or None)
            return cursor.fetchall() if cursor.description else []

    def _run(
        self, program: str, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> None:
        # Its output goes to a file: a server that was started keeps a pipe open.
        with tempfile.TemporaryFile() as told:
            done = subprocess.run(
                self._command(program, *arguments),
                stdin=subprocess.DEVNULL,
                stdout=told,
                stderr=told,
                check=False,
                env={**os.environ, **(environment or {}), "LC_ALL": "C"},
                **self._as_user(),
            )
            told.seek(0)
            assert done.returncode == 0, told.read().decode(errors="replace")

    def _command(self, program: str, *arguments: str) -> list[str]:
        return [str(self._programs / program), *arguments]

    def _as_user(self) -> dict[str, Any]:
        if os.getuid() != 0:
            return {}
        user, group = owner()
        return {"user": user, "group": group, "extra_groups": [], "cwd": "/"}


def owner() -> tuple[int, int]:
    """A user who may run a server; root may not."""
    import pwd

    for name in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return found.pw_uid, found.pw_gid
    return 65_534, 65_534


def programs() -> Path | None:
    """The folder of a server's programs, None where none is installed."""
    found = shutil.which("initdb")
    places = [] if found is None else [Path(os.path.realpath(found)).parent]
    places += sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parts[-2], reverse=True
    )
    for place in places:
        if (place / "initdb").exists() and (place / "pg_ctl").exists():
            return place
    return None


@cache
def _server() -> Server:
    server = Server(need_programs())
    atexit.register(server.remove)
    return server


def need_programs() -> Path:
    """The folder of a server's programs; the test is skipped where there is none."""
    found = programs()
    if found is None:
        pytest.skip("needs PostgreSQL's initdb and pg_ctl, in PATH or /usr/lib/postgresql")
    return found


def need_server() -> Server:
    """The server of this process; the test is skipped where none is installed."""
    need_programs()
    return _server()


def schema_of(root: Path) -> str:
    """The schema that stands for a path of the contract's tests."""
    return f"t_{blake2b(str(root).encode(), digest_size=12).hexdigest()}"


def store_at(root: Path, *, read_only: bool = False, **options: float) -> PostgresStore:
    """The store that stands for a path, on the server of this process."""
    server = need_server()
    return PostgresStore(
        server.url,
        schema=schema_of(root),
        read_only=read_only,
        **options,  # type: ignore[arg-type]
    )
