"""What lies in a tool's folder beside its files, and where these folders are."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest

from eventlog import open_store
from eventlog.sources import load_sources
from support import corpus
from support.processes import dropping_root, forked
from support.transcripts import imported, places_of

# Of each tool a name that its files have, and a session by itself.
NAMES = {
    "claude-code": "s.jsonl",
    "codex": "rollout-1.jsonl",
    "gemini-cli": "session-1.jsonl",
    "qwen-code": "s.jsonl",
    "pi": "s.jsonl",
    "dsh": "s.jsonl",
    "chat-completions": "s.jsonl",
    "responses": "s.jsonl",
    "swe-agent": "s.traj",
    "openhands": "s.json",
    "opencode": "ses_1.json",
}
SECRET = '{"id":"k","type":"user","sessionId":"s","role":"user","content":"secret"}\n'


def test_every_source_is_asked() -> None:
    """The table above has every tool."""
    assert load_sources().keys() == NAMES.keys()


@pytest.mark.parametrize("tool", NAMES)
def test_what_is_no_file_is_named_and_never_opened(tool: str, tmp_path: Path) -> None:
    """
    A pipe that nobody writes to was waited for without end. Pipes, sockets and links to
    devices with a transcript's name are refused, in a folder and by their own path.
    """
    folder = tmp_path / "here"
    for kind in ("pipe", "socket", "device"):
        (folder / kind).mkdir(parents=True)
    name = NAMES[tool]
    os.mkfifo(folder / "pipe" / name)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket" / name))
    (folder / "device" / name).symlink_to("/dev/zero")
    with open_store("memory:") as store:
        account = imported(store, tool, folder, refused=True)
        assert {"pipe": "special", "socket": "special", "device": "link"} == {
            Path(refused.path).parent.name: refused.kind for refused in account.refused
        }
        for kind in ("pipe", "device"):
            account = imported(store, tool, folder / kind / name, refused=True)
            assert ["special"] == [refused.kind for refused in account.refused]
        assert () == store.heads().items


@pytest.mark.parametrize("tool", NAMES)
def test_x8_a_link_out_of_the_folder_is_refused_unread(tool: str, tmp_path: Path) -> None:
    """
    A transcript that is a link to a file elsewhere is named with where it leads; links to
    nothing and to themselves are named too, links to folders are not followed.
    """
    outside = tmp_path / "outside"
    folder = tmp_path / "here"
    for path in (outside, folder / "a", folder / "b", folder / "c"):
        path.mkdir(parents=True)
    name = NAMES[tool]
    (outside / name).write_text(SECRET)
    (folder / "a" / name).symlink_to(outside / name)
    (folder / "b" / name).symlink_to("nothing")
    (folder / "c" / name).symlink_to(name)
    (folder / "linked").symlink_to(outside)
    (folder / "loop").symlink_to("..")
    with open_store("memory:") as store:
        account = imported(store, tool, folder, refused=True)

        assert {"a": "link", "b": "unavailable", "c": "unavailable"} == {
            Path(refused.path).parent.name: refused.kind for refused in account.refused
        }
        assert any(str(outside / name) in refused.reason for refused in account.refused)
        assert () == store.heads().items


def test_a_link_within_the_folder_and_a_folder_that_is_one_are_read(tmp_path: Path) -> None:
    """A place that is itself a link is where a person keeps it; inside, links may lead inside."""
    real = tmp_path / "real"
    real.mkdir()
    (real / "kept.txt").write_text('{"type":"note","uuid":"u","sessionId":"s"}\n')
    (real / "s.jsonl").symlink_to("kept.txt")
    (tmp_path / "place").symlink_to(real)
    with open_store("memory:") as store:
        assert 1 == imported(store, "claude-code", tmp_path / "place").new


@pytest.mark.parametrize("content", [b"", b" \n\t\r\n\n"], ids=["empty", "white space"])
@pytest.mark.parametrize("tool", NAMES)
def test_a6_a_file_without_a_record_is_refused(tool: str, content: bytes, tmp_path: Path) -> None:
    """It is no session that the store has: it was counted as the same in two tools."""
    (tmp_path / NAMES[tool]).write_bytes(content)
    with open_store("memory:") as store:
        account = imported(store, tool, tmp_path, refused=True)

    assert (1, 0, 1) == (account.found, account.same, len(account.refused))
    assert "CorruptLog" == account.refused[0].kind


@pytest.mark.parametrize("tool", ["gemini-cli", "qwen-code", "chat-completions"])
def test_j5_a_file_of_lines_that_are_no_records_is_refused(tool: str, tmp_path: Path) -> None:
    """Lists, texts and numbers are no records: each line is a fault, and there is no session."""
    (tmp_path / NAMES[tool]).write_bytes(b'[]\nnull\n"x"\n5\n')
    with open_store("memory:") as store:
        account = imported(store, tool, tmp_path, refused=True)

        assert (0, 1) == (account.new + account.same, len(account.refused))
        assert () == store.heads().items


def conversation(folder: Path) -> Path:
    """A copy of the recorded OpenHands conversation."""
    return Path(shutil.copytree(corpus("transcripts", "openhands/pwd-tool"), folder / "c"))


def test_j4_an_event_that_is_no_file_costs_no_other(tmp_path: Path) -> None:
    """
    Among the event files of a conversation a pipe, a folder, and links to nothing and to
    elsewhere: each is a refused record, every other event is imported, and once.
    """
    with open_store("memory:") as store:
        whole = imported(store, "openhands", conversation(tmp_path / "whole"))
    folder = conversation(tmp_path / "spoilt")
    events = folder / "events"
    os.mkfifo(events / "event-00100-a.json")
    (events / "event-00101-b.json").mkdir()
    (events / "event-00102-c.json").symlink_to("nothing")
    (events / "event-00103-d.json").symlink_to(tmp_path / "whole" / "c" / "base_state.json")
    with open_store("memory:") as store:
        account = imported(store, "openhands", folder, refused=True)
        again = imported(store, "openhands", folder, refused=True)

    assert [] == account.refused
    assert whole.records.found + 4 == account.records.found
    assert {100, 101, 102, 103} == {
        int(Path(fault.path).name.split("-")[1]) for fault in account.faults
    }
    assert (0, 4) == (again.events, again.records.refused)


def tree(root: Path) -> Path:
    """A session of opencode's older form, two messages with a part each."""
    for name, value in {
        "session/p/ses_1.json": '{"id":"ses_1","time":{"created":1}}',
        "message/ses_1/msg_1.json": '{"id":"msg_1","role":"user","time":{"created":1}}',
        "message/ses_1/msg_2.json": '{"id":"msg_2","role":"user","time":{"created":2}}',
        "part/msg_1/prt_1.json": '{"id":"prt_1","type":"text","text":"one"}',
        "part/msg_2/prt_2.json": '{"id":"prt_2","type":"text","text":"two"}',
    }.items():
        path = root / "storage" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value)
    return root / "storage" / "session" / "p" / "ses_1.json"


def test_j4_a_part_that_is_no_file_costs_no_other(tmp_path: Path) -> None:
    """A pipe and a link to elsewhere among the parts of a message: refused, the rest is there."""
    session = tree(tmp_path)
    parts = tmp_path / "storage" / "part" / "msg_1"
    os.mkfifo(parts / "prt_8.json")
    (tmp_path / "elsewhere.json").write_text(SECRET)
    (parts / "prt_9.json").symlink_to(tmp_path / "elsewhere.json")
    with open_store("memory:") as store:
        account = imported(store, "opencode", session, refused=True)

        assert {"prt_8.json", "prt_9.json"} == {Path(fault.path).name for fault in account.faults}
        assert {"message/ses_1/msg_1.json", "message/ses_1/msg_2.json"} <= places_of(store)


def test_j4_parts_that_nobody_may_list_are_named(tmp_path: Path) -> None:
    """A folder of parts without rights was taken for one without parts."""
    session = tree(tmp_path)
    closed = tmp_path / "storage" / "part" / "msg_1"
    closed.chmod(0)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and folder.stat().st_mode & 0o005 != 5:
            folder.chmod(folder.stat().st_mode | 0o055)
    source = load_sources()["opencode"]

    def body() -> None:
        with open_store("memory:") as store:
            account = imported(store, source, session, refused=True)
        assert [("denied", str(closed))] == [(fault.kind, fault.path) for fault in account.faults]
        assert 2 == account.records.mapped

    try:
        assert 0 == forked(dropping_root(body))
    finally:
        closed.chmod(0o755)


@pytest.mark.parametrize(
    "environ", [{}, {"HOME": ""}, {"CLAUDE_CONFIG_DIR": ", ,"}, {"CODEX_HOME": "", "HOME": "/h"}]
)
def test_no_usual_place_is_in_the_current_directory(environ: dict[str, str]) -> None:
    """Without a home, or with a variable that names nothing, it is the person's home."""
    for source in load_sources().values():
        for place in source.usual_places(environ):
            assert place.is_absolute(), (source.name, place)


def test_somebody_without_a_home_or_with_a_strange_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container there may be no home at all; nobody's home is a name like any other."""
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    for source in load_sources().values():
        for place in source.usual_places({}):
            assert place.is_absolute(), (source.name, place)
    environ = {"CODEX_HOME": "~nobody-known/x"}
    assert "~nobody-known/x/sessions" == str(load_sources()["codex"].usual_places(environ)[0])


def test_a_variable_may_name_several_folders_and_the_home() -> None:
    """Empty names between commas are none, and ``~`` is the home."""
    environ = {"CLAUDE_CONFIG_DIR": "~/a,, /b ,", "HOME": "/unused"}
    places = load_sources()["claude-code"].usual_places(environ)

    assert [Path("~/a/projects").expanduser(), Path("/b/projects")] == places
