"""How a store is named, what of that is shown, and what it takes to open one."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eventlog import LiveSessions, PrunePolicy, Recorder, open_store
from eventlog.drivers.postgres import PostgresStore
from eventlog.drivers.postgres.url import Address
from eventlog.errors import InvalidArgument, StoreUnavailable, UnsupportedFormat
from eventlog.pruning import is_same
from eventlog.query import SessionQuery
from eventlog.query.cli import main
from eventlog.testing import make_header, message, messages
from support.postgres import PASSWORD, need_server, schema_of, store_at

SECRET = "Zx9!hidden"
QUOTED = "Zx9%21hidden"


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("postgresql://h/d", "postgresql://h:5432/d?schema=eventlog"),
        ("postgres://h/d", "postgresql://h:5432/d?schema=eventlog"),
        (f"postgresql://u:{QUOTED}@h/d", "postgresql://h:5432/d?schema=eventlog"),
        (f"postgresql://h/d?user=u&password={QUOTED}", "postgresql://h:5432/d?schema=eventlog"),
        ("postgresql://u@h", "postgresql://h:5432/u?schema=eventlog"),
        ("postgresql://h:1/d?schema=S%20x", "postgresql://h:1/d?schema=S%20x"),
        ("postgresql://[::1]:7/d", "postgresql://[::1]:7/d?schema=eventlog"),
        ("postgresql://a:1,b:2/d", "postgresql://a:1,b:2/d?schema=eventlog"),
        ("postgresql:///d?host=/run/x&port=9", "postgresql://%2Frun%2Fx:9/d?schema=eventlog"),
        ("postgresql://h/d?sslmode=require", "postgresql://h:5432/d?schema=eventlog"),
        ("postgresql://h/a%2Fb", "postgresql://h:5432/a%2Fb?schema=eventlog"),
    ],
)
def test_location_says_where_and_no_more(url: str, location: str) -> None:
    """
    Where a store is reads the same however it was named, and holds neither user nor secret.
    """
    with open_store(url) as store:
        assert type(store) is PostgresStore
        assert location == store.location
        assert f"<PostgresStore {location}>" == repr(store)


def test_location_has_what_the_environment_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A URL that leaves host and database to the environment names another store in another one.
    """
    monkeypatch.setenv("PGHOST", "db.example")
    monkeypatch.setenv("PGDATABASE", "agents")
    monkeypatch.setenv("PGPASSWORD", SECRET)
    with open_store("postgresql://?user=u") as store:
        assert "postgresql://db.example:5432/agents?schema=eventlog" == store.location


@pytest.mark.parametrize(
    "url",
    [
        "postgresql:",
        "postgresql:db",
        f"postgresql://u:{SECRET} x@h/d",
        f"postgresql://u:{SECRET}@h:x:y/d",
        f"postgresql://u:a@{SECRET}@h/d",
        f"postgresql://u:1/{SECRET}@h/d",
        f"postgresql://u:1?{SECRET}=1@h/d",
        f"postgresql://u:1?{SECRET[:3]}=@h/d",
        f"host=h password={SECRET}",
        f"postgresql://u:{SECRET}@h/d?nosuch=1",
        f"postgresql://u@h/d?nosuch={SECRET}",
        f"postgresql://u@h/d?password={SECRET}&password={SECRET}",
        f"postgresql://u:{SECRET}@h/d?sslmode",
        f"postgresql://u:{SECRET}?@h/d",
        f"postgresql://u:{SECRET}@h/d?replication=database",
        f"postgresql://u:{SECRET}@h/d\0",
        f"postgresql://u:{SECRET}@h/d\ud800",
        f"postgresql://u:{SECRET}@h/d%00",
        f"postgresql://u:{SECRET}@h/d?schema=",
        f"postgresql://u:{SECRET}@h/d?schema=pg_x",
        f"postgresql://u:{SECRET}@h/d?schema={'x' * 64}",
        f"postgresql://u:{SECRET}@h/d?lock_wait_s=x",
        f"postgresql://u:{SECRET}@h/d?lock_wait_s=-1",
        f"postgresql://u:{SECRET}@h/d?lock_wait_s=nan",
        f"postgresql://u:{SECRET}@h/d?connections_max=0",
        f"postgresql://u:{SECRET}@h/d?connections_max=1e3",
        f"postgresq://u:{SECRET}@h/d",
    ],
    ids=repr,
)
def test_url_that_names_no_store_is_refused(url: str) -> None:
    """
    Whatever is wrong with a URL is one class of error, which does not quote its password.
    """
    with pytest.raises(InvalidArgument) as caught:
        open_store(url)

    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET[:3] not in f"{error}{error!r}{error.args}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


@pytest.mark.parametrize(
    "options",
    [
        {"schema": 1},
        {"schema": ""},
        {"schema": "a\0"},
        {"schema": "\ud800"},
        {"lock_wait_s": "1"},
        {"lock_wait_s": True},
        {"lock_wait_s": float("inf")},
        {"connections_max": 1.0},
        {"connections_max": 10**6},
    ],
    ids=repr,
)
def test_options_of_another_type_are_refused(options: Any) -> None:
    """An option that is out of range or of another type is a bad argument."""
    with pytest.raises(InvalidArgument):
        PostgresStore("postgresql://h/d", **options)


def test_password_is_nowhere_to_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """
    A password shows in no text of the store, of what is made of it, or of its address, in
    no log, and in no name of a file; nor does a user.
    """
    caplog.set_level(logging.DEBUG)
    cache = tmp_path / "cache"
    monkeypatch.setenv("EVENTLOG_CACHE", str(cache))
    url = need_server().tcp_url()
    address = Address.from_url(url, "eventlog")
    with PostgresStore(url, schema=schema_of(tmp_path)) as store:
        live = LiveSessions()
        with Recorder(live, store, window_ms=5) as recorder:
            session = live.create()
            session.append("x/note", {"text": "found"})
            recorder.flush()
            shown = [repr(store), str(store), repr(recorder), repr(address), str(address)]
        query = SessionQuery(store=store)
        query.search_sessions("found")
        shown += [repr(query), repr(store.snapshot(session.id)), repr(store._database._connections)]
        query.engines.close()
    files = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")]
    assert any(name.endswith(".sqlite3") for name in files)
    for text in (*shown, *files, caplog.text):
        for word in (PASSWORD, url.split("@")[0].rsplit(":", 1)[1], "postgres:"):
            assert word not in text


def test_index_is_that_of_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The search index of a store is one file, however its URL is written and whoever opens
    it; another schema has another. It finds what other processes append, and forgets what
    they delete.
    """
    cache = tmp_path / "cache"
    monkeypatch.setenv("EVENTLOG_CACHE", str(cache))
    server = need_server()

    def found(store: PostgresStore, words: str) -> list[tuple[str, int]]:
        query = SessionQuery(store=store)
        try:
            hits = query.search_sessions(words).items
            return [(hit.record.header.id, hit.best_match.seq) for hit in hits]
        finally:
            query.engines.close()

    with store_at(tmp_path / "a") as store, store_at(tmp_path / "a") as other:
        store.append(make_header(), [message(0, "the port is 8443")])
        assert [("s1", 0)] == found(store, "prot 8443")
        (first,) = cache.glob("*.sqlite3")

        other.append(make_header(), [message(1, "a late word: zebra")])
        other.append(make_header("s2"), [message(0, "zebra crossing")])
        assert {("s1", 1), ("s2", 0)} == set(found(store, "zebra"))
        other.delete("s2")
        assert [("s1", 1)] == found(store, "zebra")

        again = f"{server.url}&schema={schema_of(tmp_path / 'a')}&application_name=x"
        with open_store(again, read_only=True) as reader:
            assert [("s1", 1)] == found(reader, "zebra")  # type: ignore[arg-type]
        assert [first] == list(cache.glob("*.sqlite3"))
        with store_at(tmp_path / "b") as store:
            store.append(make_header(), messages(1))
            assert [] == found(store, "zebra")
        assert 2 == len(list(cache.glob("*.sqlite3")))


def test_a_store_is_not_pruned_into_itself(tmp_path: Path) -> None:
    """
    A server has many names. Under another one a store is no archive to delete for.
    """
    server = need_server()
    schema = f"schema={schema_of(tmp_path)}"
    with (
        open_store(f"{server.url}&{schema}") as store,
        open_store(f"{server.tcp_url()}?{schema}") as again,
        store_at(tmp_path / "other") as other,
    ):
        assert not is_same(store, other)
        store.append(make_header(created_at=1), messages(2))
        account = store.prune(PrunePolicy(1), dry_run=False, archive=again)

        assert store.location != again.location
        assert is_same(store, again)
        assert not is_same(store, other)
        assert [("s1", "no archive")] == [(one.session_id, one.kind) for one in account.spared]
        assert 2 == len(store.snapshot("s1").read(0, 9))
        assert 1 == len(store.prune(PrunePolicy(1), dry_run=False, archive=other).pruned)
        assert 2 == len(other.snapshot("s1").read(0, 9))


def test_opening_connects_nowhere_and_imports_late() -> None:
    """
    A store is opened without a server; and psycopg is imported by a URL of PostgreSQL only.
    """
    code = (
        "import sys, eventlog; eventlog.open_store('memory:'); before = 'psycopg' in sys.modules;"
        "eventlog.open_store('postgresql://u@no-such-host.invalid/d').close();"
        "print(before, 'psycopg' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert "False True\n" == done.stdout


def test_missing_package_is_a_missing_extra() -> None:
    """
    Without psycopg, opening such a URL says what to install, and other stores open.
    """
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "import eventlog\n"
        "from eventlog.errors import MissingExtra\n"
        "eventlog.open_store('memory:')\n"
        "try: eventlog.open_store('postgresql://u@h/d')\n"
        "except MissingExtra as error: print(error.extra, error.install)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert 'postgres pip install "agent-eventlog[postgres]"\n' == done.stdout


# Whose tables


def schema_with(tmp_path: Path, *statements: str) -> None:
    """Make the schema that stands for a path, past the store."""
    with need_server().connect() as connection:
        schema = schema_of(tmp_path)
        connection.execute(f"CREATE SCHEMA {schema}".encode())
        connection.execute(f"SET search_path = {schema}".encode())
        for statement in statements:
            connection.execute(statement.encode())


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE users (id int)"],
        ["CREATE TABLE sessions (id int, header text)", "CREATE TABLE events (id int)"],
        ["CREATE TABLE about (text text)"],
        ["CREATE VIEW about AS SELECT 1 AS one"],
        ["CREATE TABLE about (eventlog_layout int, store uuid)"],
    ],
    ids=["other", "same-names", "about", "view", "empty-about"],
)
def test_tables_of_something_else_are_refused(tmp_path: Path, statements: list[str]) -> None:
    """
    A schema that holds something else is neither read nor written, and stays as it is.
    """
    schema_with(tmp_path, *statements)
    query = "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace ORDER BY 1"
    before = need_server().query(query, (schema_of(tmp_path),))
    with store_at(tmp_path) as store:
        for call in (
            lambda: store.heads(),
            lambda: store.head("s1"),
            lambda: store.append(make_header(), messages(1)),
            lambda: store.delete("s1"),
            lambda: list(store.verify()),
        ):
            with pytest.raises(StoreUnavailable):
                call()
    assert before == need_server().query(query, (schema_of(tmp_path),))


def test_tables_of_a_newer_release_are_refused(tmp_path: Path) -> None:
    """
    Tables with another version of the layout are told with both versions.
    """
    with store_at(tmp_path) as store:
        store.append(make_header(), messages(1))
    need_server().query(f"UPDATE {schema_of(tmp_path)}.about SET eventlog_layout = 2")
    with store_at(tmp_path) as store:
        with pytest.raises(UnsupportedFormat) as caught:
            store.heads()
        assert (2, [1]) == (caught.value.found, caught.value.supported)


def test_schema_that_is_there_and_empty_is_an_empty_store(tmp_path: Path) -> None:
    """
    A schema that an administrator has made is used as it is; reading makes nothing in it.
    """
    schema_with(tmp_path)
    with store_at(tmp_path) as store:
        assert () == store.heads().items
        count = "SELECT count(*) FROM pg_class WHERE relnamespace = %s::regnamespace"
        assert [(0,)] == need_server().query(count, (schema_of(tmp_path),))
        assert 1 == store.append(make_header(), messages(1))


def test_schema_with_an_odd_name(tmp_path: Path) -> None:
    """
    A schema's name is a name, whatever characters it has.
    """
    name = f'Odd "{tmp_path.name}"; -- %s'[:63]
    with PostgresStore(need_server().url, schema=name) as store:
        store.append(make_header(), messages(2))
        assert [0, 1] == store.snapshot("s1").nodes()
        store.delete("s1")
    assert [(1,)] == need_server().query(
        "SELECT count(*)::int FROM pg_namespace WHERE nspname = %s", (name,)
    )


def test_schema_that_is_dropped_while_in_use(tmp_path: Path) -> None:
    """
    A store whose tables somebody drops says so once, and is an empty one from then on.
    """
    with store_at(tmp_path) as store:
        store.append(make_header(), messages(2))
        token = store.changes().token
        need_server().query(f"DROP SCHEMA {schema_of(tmp_path)} CASCADE")
        with pytest.raises(StoreUnavailable):
            store.head("s1")
        assert store.head("s1") is None
        with pytest.raises(InvalidArgument):
            store.changes(token)
        assert 2 == store.append(make_header(), messages(2))
        with pytest.raises(InvalidArgument):
            store.changes(token)


def test_commits_wait_for_the_disk(tmp_path: Path) -> None:
    """
    A user whose commits are not waited for has them waited for by the store, for all else
    the server's settings hold.
    """
    url = f"{need_server().url}&options=-c%20synchronous_commit%3Doff"
    with PostgresStore(url, schema=schema_of(tmp_path)) as store:
        shown = store._database._connections.use(
            lambda connection: connection.execute("SHOW synchronous_commit").fetchone()
        )
    assert ("on",) == shown


def test_command_line_shows_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """
    Commands read the store that a URL names, and what they say of it has no password.
    """
    monkeypatch.setenv("EVENTLOG_CACHE", str(tmp_path / "cache"))
    schema = schema_of(tmp_path)
    right = f"{need_server().tcp_url()}?schema={schema}"
    wrong = f"{need_server().tcp_url(password=SECRET)}?schema={schema}"
    with open_store(right) as store:
        store.append(make_header("seen"), [message(0, "zebra")])

    shown = []
    for url, *command in (
        (right, "list"),
        (right, "search", "zebra"),
        (right, "verify"),
        (wrong, "list"),
        (wrong, "search", "zebra"),
        (wrong + "&nosuch=1", "list"),
    ):
        code = main([*command, "--store", url])
        out, err = capfd.readouterr()
        shown.append((code, "seen" in out))
        assert SECRET[:3] not in out + err
        assert PASSWORD[:3] not in out + err
    assert [(0, True), (0, True), (0, False), (4, False), (4, False), (2, False)] == shown
