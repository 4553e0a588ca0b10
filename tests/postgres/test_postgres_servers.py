"""Servers that are stopped, started, crash, and lose what they were about to say."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from eventlog import APPEND, Batch, LiveSessions, Recorder
from eventlog.admission import admit
from eventlog.drivers.postgres import PostgresStore, connections
from eventlog.errors import EventLogError, StoreUnavailable
from eventlog.testing import make_header, message, messages
from support.postgres import PASSWORD, need_server, schema_of, store_at


def end_connections() -> None:
    """End every connection of the server but the own one, as an administrator would."""
    need_server().query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )


def test_idle_connection_that_was_ended_is_replaced(tmp_path: Path) -> None:
    """
    Connections that the server ended while they lay idle are opened anew without a word.
    """
    with store_at(tmp_path) as store:
        store.append(make_header(), messages(1))
        end_connections()
        time.sleep(0.05)
        assert messages(1) == store.snapshot("s1").read(0, 9)
        end_connections()
        time.sleep(0.05)
        assert 2 == store.append(make_header(), [message(1)])


@pytest.mark.parametrize("mode", ["immediate", "fast"])
def test_server_that_was_started_anew(tmp_path: Path, mode: str) -> None:
    """
    While the server is away every call says so; when it is back, the same store goes on.
    """
    server = need_server()
    with store_at(tmp_path) as store:
        store.append(make_header(), messages(3))
        snapshot, token = store.snapshot("s1"), store.changes().token
        server.stop(mode)
        try:
            for call in (
                lambda: store.append(make_header(), [message(3)]),
                lambda: store.head("s1"),
                lambda: snapshot.read(0, 3),
                snapshot.nodes,
                lambda: store.delete("s1"),
                lambda: list(store.verify()),
            ):
                with pytest.raises(StoreUnavailable) as caught:
                    call()
                assert caught.value.path == store.location
        finally:
            server.start()

        assert messages(3) == snapshot.read(0, 3)
        assert () == store.changes(token).session_ids
        assert 4 == store.append(make_header(), [message(3)])
        assert ("s1",) == store.changes(token).session_ids


def test_recorder_goes_on_by_itself(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """
    What a recorder could not store while the server was away is stored when it is back,
    in order and once.
    """
    caplog.set_level(logging.CRITICAL, "eventlog.recorder")
    server, live = need_server(), LiveSessions()
    with store_at(tmp_path) as store, Recorder(live, store, window_ms=10) as recorder:
        session = live.create(cwd="/w")
        session.append("x/note", {"n": 0}, surface_op=APPEND)
        recorder.flush(session)
        server.stop()
        try:
            for number in range(1, 4):
                session.append("x/note", {"n": number}, surface_op=APPEND)
            with pytest.raises(StoreUnavailable):
                recorder.flush(session)
        finally:
            server.start()
        session.append("x/note", {"n": 4}, surface_op=APPEND)

        until = time.monotonic() + 20
        while recorder.health().pending and time.monotonic() < until:
            time.sleep(0.02)
        found = store.snapshot(session.id).read(0, 99)
        assert [0, 1, 2, 3, 4] == [event.data["n"] for event in found]


def test_transaction_that_was_ended_stored_nothing(tmp_path: Path) -> None:
    """
    An append whose connection is ended in the middle stored nothing, and the next one goes on.
    """
    with store_at(tmp_path) as store:
        store.append(make_header(), messages(1))

        def be_ended() -> None:
            with store._writing("s1") as log:
                log.write(admit(log, Batch(make_header(), [message(1, "lost")])))
                assert [message(0)] == log.read(0, 1)
                end_connections()
                time.sleep(0.05)

        with pytest.raises(StoreUnavailable):
            be_ended()

        assert messages(1) == store.snapshot("s1").read(0, 9)
        assert 2 == store.append(make_header(), [message(1)])
        assert [] == list(store.verify())


def test_writer_that_stops_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A writer that does nothing in the middle of an append is ended by the server after a
    while, and keeps others waiting no longer.
    """
    monkeypatch.setattr(connections, "IDLE_IN_TRANSACTION_MS", 200)
    with store_at(tmp_path) as holder, store_at(tmp_path) as store:
        store.append(make_header(), messages(1))

        def stop_in_the_middle() -> None:
            with holder._writing("s1") as log:
                assert [message(0)] == log.read(0, 1)
                assert 2 == store.append(make_header(), [message(1)])
                log.write(admit(log, Batch(make_header(), [message(1, "lost")])))

        with pytest.raises(StoreUnavailable):
            stop_in_the_middle()
        assert messages(2) == store.snapshot("s1").read(0, 9)
        assert 3 == holder.append(make_header(), [message(2)])


class Cutter:
    """
    A stretch of the network between a store and the server, which can be cut.

    Attributes:
        word: What a client must say for its connection to be cut; b"" is nothing.

        says_it: Whether the server still hears it, and answers nobody.
    """

    def __init__(self) -> None:
        self.word = b""
        self.says_it = True
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = [self._listener]
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def close(self) -> None:
        for one in list(self._sockets):
            # What ends a thread that waits for it.
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join(10)
        for one in self._sockets:
            one.close()

    def _start(self, body: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=body, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._sockets.append(client)
                server = socket.create_connection(("127.0.0.1", need_server().port))
                self._sockets.append(server)
                self._start(self._pass, client, server, True)
                self._start(self._pass, server, client, False)

    def _pass(self, source: socket.socket, target: socket.socket, watched: bool) -> None:
        with suppress(OSError):
            while block := source.recv(65_536):
                if watched and self.word and self.word in block:
                    self.word = b""
                    # Both directions: the answer gets no further than here.
                    source.shutdown(socket.SHUT_RDWR)
                    if self.says_it:
                        target.sendall(block)
                    break
                target.sendall(block)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


@contextmanager
def cut_store(root: Path) -> Iterator[tuple[PostgresStore, Cutter]]:
    """A store behind a cutter."""
    cutter = Cutter()
    url = need_server().tcp_url().replace(f":{need_server().port}/", f":{cutter.port}/")
    try:
        with PostgresStore(url, schema=schema_of(root)) as store:
            yield store, cutter
    finally:
        cutter.close()


@pytest.mark.parametrize("says_it", [True, False], ids=["stored", "not-stored"])
@pytest.mark.parametrize("length", [0, 2], ids=["new", "known"])
def test_d6_lost_answer_to_a_commit(tmp_path: Path, says_it: bool, length: int) -> None:
    """
    Of an append whose connection ends at its commit nobody knows; the same one again
    completes it, and stores nothing twice.

    Field report d6: an entry whose acknowledgement was lost was stored four times.
    """
    with cut_store(tmp_path) as (store, cutter):
        store.append(make_header("other"), messages(1))
        if length:
            store.append(make_header(), messages(length))
        cutter.says_it = says_it
        cutter.word = b"COMMIT"
        batch = messages(3, start=length)
        with pytest.raises(StoreUnavailable):
            store.append(make_header(), batch)

        for _ in range(2):
            assert length + 3 == store.append(make_header(), batch)
        assert messages(length + 3) == store.snapshot("s1").read(0, 99)
        assert [] == list(store.verify())


def test_connections_that_cannot_be_made(tmp_path: Path) -> None:
    """
    A wrong password, a host that nobody knows, a closed port and a missing database are
    told with host and database, and without the password.
    """
    server, secret = need_server(), "hunter2-%-secret"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        closed = probe.getsockname()[1]
    urls = [
        server.tcp_url(password=secret),
        f"postgresql://u:{secret.replace('%', '%25')}@no-such-host.invalid/db",
        f"postgresql://u:{secret.replace('%', '%25')}@127.0.0.1:{closed}/db",
        server.tcp_url().replace("/postgres", "/no_such_database"),
    ]
    for url in urls:
        with PostgresStore(url) as store:
            for call in (
                partial(store.head, "s1"),
                partial(store.append, make_header(), messages(1)),
            ):
                with pytest.raises(StoreUnavailable) as caught:
                    call()
                error: BaseException | None = caught.value
                host, database = url.rsplit("@", 1)[1].split("/")
                assert f"//{host}" in str(error)
                assert f"/{database}?" in str(error)
                while error is not None:
                    for text in (str(error), repr(error), repr(error.args)):
                        assert secret not in text
                        assert PASSWORD not in text
                    error = error.__cause__


def test_server_that_does_not_answer(tmp_path: Path) -> None:
    """
    Connecting to who accepts and says nothing is given up after the time that was given.
    """
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        with PostgresStore(f"postgresql://u@127.0.0.1:{port}/db?connect_timeout=2") as store:
            began = time.monotonic()
            with pytest.raises(StoreUnavailable):
                store.head("s1")
            assert 1 <= time.monotonic() - began < 20


def test_old_connections_do_not_pile_up(tmp_path: Path) -> None:
    """
    A store holds no more connections than it may, and none once it is closed or dropped.
    """
    name = f"count-{os.getpid()}-{tmp_path.name}"

    def held() -> int:
        query = "SELECT count(*)::int FROM pg_stat_activity WHERE application_name = %s"
        count: int = need_server().query(query, (name,))[0][0]
        return count

    url = f"{need_server().url}&application_name={name}"
    for drop in (False, True):
        store = PostgresStore(url, schema=schema_of(tmp_path), connections_max=3)

        def use(number: int, store: PostgresStore = store) -> None:
            for seq in range(5):
                with suppress(EventLogError):
                    store.append(make_header(f"s{number}"), [message(seq)])
                    store.heads()

        threads = [threading.Thread(target=use, args=(number,)) for number in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert 1 <= held() <= 3
        if not drop:
            store.close()
        del use, store, threads, thread
        # The server takes a moment to see that one has gone.
        until = time.monotonic() + 10
        while held() and time.monotonic() < until:
            time.sleep(0.01)
        assert 0 == held()
