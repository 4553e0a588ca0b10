"""What tests of the JSONL store share: planted files, and work done in other processes."""

from __future__ import annotations

import os
import pickle
import signal
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from eventlog import Event, SessionHeader
from eventlog.codec import encode_line
from eventlog.drivers.jsonl.names import log_name

from . import make_header, messages

__all__ = ["Child", "files_in", "forked", "in_child", "log_bytes", "plant", "wire"]


def log_bytes(header: SessionHeader | None = None, events: Sequence[Event] | int = 10) -> bytes:
    """The file of a log; of so many messages, where a count is given."""
    held = messages(events) if isinstance(events, int) else events
    return encode_line(header or make_header()) + b"".join(encode_line(event) for event in held)


def wire(seq: int, text: str = "text") -> bytes:
    """The line of a message of a few bytes."""
    return encode_line(Event(seq, 1_000 + seq, "x/note", {"text": text}))


def plant(root: Path, data: bytes, session_id: str = "s1") -> Path:
    """Write a log's file past the store."""
    root.mkdir(exist_ok=True)
    path = root / log_name(session_id)
    path.write_bytes(data)
    return path


def files_in(root: Path) -> dict[str, bytes]:
    """Name and bytes of every file in a folder."""
    return {path.name: path.read_bytes() for path in sorted(root.iterdir()) if path.is_file()}


def forked() -> int:
    """Fork as :func:`os.fork` does, also where other threads run."""
    with warnings.catch_warnings():
        # Newer Pythons warn that such a child may hang; these do little, and are killed.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


class Child:
    """
    A forked process that runs *work*; *work* gets a function that tells the parent something.

    Leaving the context kills it, if it still runs.
    """

    def __init__(self, work: Callable[[Callable[[Any], None]], None]) -> None:
        self._reader, writer = os.pipe()
        self.pid = forked()
        if self.pid == 0:
            os.close(self._reader)

            def tell(value: Any) -> None:
                data = pickle.dumps(value)
                os.write(writer, len(data).to_bytes(4, "big") + data)

            try:
                work(tell)
                os._exit(0)
            except BaseException as error:
                tell(error)
                os._exit(1)
        os.close(writer)
        self._status: int | None = None

    def told(self) -> Any:
        """Wait for the next thing it tells; raises EOFError where it ended without."""
        size = int.from_bytes(self._read(4), "big")
        value = pickle.loads(self._read(size))
        if isinstance(value, BaseException):
            raise value
        return value

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            block = os.read(self._reader, size - len(data))
            if not block:
                raise EOFError(f"process {self.pid} ended")
            data += block
        return data

    def kill(self) -> None:
        """End it as a crash does, and wait until it is gone."""
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        """Wait for its end. Returns its exit code, negative for a signal."""
        if self._status is None:
            _, status = os.waitpid(self.pid, 0)
            self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *unused: object) -> None:
        with suppress(ProcessLookupError):
            self.kill()
        os.close(self._reader)


def in_child(work: Callable[[], Any]) -> Any:
    """What *work* returns or raises in a forked process."""
    with Child(lambda tell: tell(work())) as child:
        return child.told()
