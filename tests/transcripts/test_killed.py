"""An import that the system kills: the next run ends where an undisturbed one does."""

from __future__ import annotations

import json
import shutil
import signal
import time
from pathlib import Path

import pytest

from eventlog import Event, EventStore, open_store
from support.processes import running
from support.transcripts import imported, messages_of, whole_log

PROGRAM = """
import sys
from pathlib import Path
from eventlog import open_store
from eventlog.importing import import_transcripts
from eventlog.sources import load_sources
source = load_sources()["claude-code"]
with open_store(sys.argv[1]) as store:
    print("ready", flush=True)
    import_transcripts(store, source, [Path(sys.argv[2])])
    print("done", flush=True)
"""


def write_sessions(folder: Path, count: int, turns: int) -> None:
    """Write sessions with long answers, a call in each turn, and a rewind now and then."""
    folder.mkdir(exist_ok=True)
    for number in range(count):
        parent: str | None = None
        with (folder / f"s{number}.jsonl").open("w") as file:
            for turn in range(turns):
                for kind, text in (("user", "go"), ("assistant", "word " * 300)):
                    uuid = f"{number}-{turn}-{kind}"
                    message = {"role": kind, "content": text, "id": uuid}
                    record = {"type": kind, "uuid": uuid, "parentUuid": parent, "message": message}
                    file.write(json.dumps({**record, "sessionId": f"s{number}"}) + "\n")
                    parent = uuid if turn % 7 or kind == "user" else parent


def logs_of(store: EventStore) -> dict[str, list[Event]]:
    return {head.header.id: whole_log(store, head.header.id) for head in store.heads().items}


@pytest.mark.long
@pytest.mark.parametrize("url", ["lmdb:{}", "jsonl:{}"])
@pytest.mark.parametrize("grown", [False, True])
def test_killed_at_twenty_moments_the_next_run_ends_equal(
    url: str, grown: bool, tmp_path: Path
) -> None:
    """Killed by the system at 20 moments of a first import, or of one of grown files."""
    source = tmp_path / "source"
    write_sessions(source, 6, 700)
    with open_store("memory:") as once:
        imported(once, "claude-code", source)
        expected = logs_of(once)
        shown = {session: messages_of(once, session) for session in expected}
    killed = 0
    for moment in range(20):
        store_path = tmp_path / f"store{moment}"
        if grown:
            write_sessions(source, 6, 350)
            with open_store(url.format(store_path)) as store:
                imported(store, "claude-code", source)
            write_sessions(source, 6, 700)
        with running(PROGRAM, url.format(store_path), source) as child:
            time.sleep(0.04 * moment)
            child.send_signal(signal.SIGKILL)
            killed += child.wait() == -signal.SIGKILL
        with open_store(url.format(store_path)) as store:
            imported(store, "claude-code", source)
            if grown:
                assert shown == {session: messages_of(store, session) for session in expected}
            else:
                assert expected == logs_of(store)
        shutil.rmtree(store_path)
    assert killed >= 10
