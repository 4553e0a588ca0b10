"""Every command by how it ends: the table of exit codes, for every state of a store."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from shutil import copyfile, copytree, ignore_patterns

import pytest

from eventlog import open_store
from eventlog.query.cli import main
from eventlog.query.cli.application import COMMANDS
from support import make_header, messages
from support.cli import Run
from support.damage import DAMAGED
from support.jsonl import log_bytes, plant
from support.processes import need_other_users, reachable_folder, started, wait_for

NOBODY = 65_534

SITUATIONS = "missing empty unknown damaged denied-file denied read-only closed-pipe full"

# 0 done, 1 none found, 2 wrong call, 3 damage found, 4 the store failed; 130 and 141 are
# what shells say of an interrupt, by which following ends, and of a closed pipe.
EXPECTED = """
list                                 1 1 0   3 3 4   0 141 4
show ID                              1 1 1   3 4 4   0 141 4
read ID 0                            1 1 1   0 4 4   0 141 4
surface ID                           1 1 1   3 4 4   0 141 4
search text                          1 1 0   3 3 4   0 141 4
search text --session ID             1 1 1   3 4 4   0 141 4
trace ID 0                           1 1 1   3 4 4   0 141 4
lineage ID                           1 1 1   0 4 4   0 141 4
stats ID                             1 1 1   3 4 4   0 141 4
follow ID                            1 1 1   3 4 4 130 141 4
export ID                            1 1 1   3 4 4   0 141 4
export ID --format md                1 1 1   3 4 4   0 141 4
export ID --format html              1 1 1   3 4 4   0 141 4
view ID --no-open -o OUT/page.html   1 1 1   3 4 4   0 141 4
copy URL jsonl:OUT/copy              1 1 0   3 3 4   0 141 4
import dsh OUT/log.jsonl             0 0 0   0 0 4   4 141 4
verify                               1 1 0   3 3 4   0 141 4
repair                               1 1 0   3 3 4   0 141 4
repair --apply                       1 1 0   0 3 4   0 141 4
archive ID                           1 1 1   0 4 4   4 141 4
archive ID --to jsonl:OUT/archive    1 1 1   3 4 4   0 141 4
prune --older-than 1h                1 1 0   0 3 4   0 141 4
prune --older-than 1h --apply        1 1 0   0 3 4   4 141 4
index status                         1 1 1   1 1 1   1   1 1
index rebuild                        1 1 0   3 3 4   0 141 4
"""
CASES = [
    (line[:37].split(), situation, int(code))
    for line in EXPECTED.strip().splitlines()
    for situation, code in zip(SITUATIONS.split(), line[37:].split(), strict=True)
]


class Place:
    """A folder with a store in some state, that a user without rights works in."""

    def __init__(self, root: Path, kind: str, situation: str, stores: Path) -> None:
        self.root = root
        self.out = root / "out"
        self.out.mkdir()
        self.store = root / "store"
        self.url = f"{kind}:{self.store}"
        self.session_id = "zzz" if situation == "unknown" else "s1"
        copyfile(stores / "jsonl-empty" / "log.jsonl", self.out / "log.jsonl")
        if situation == "empty":
            copytree(stores / f"{kind}-empty", self.store, ignore=ignore_patterns("log.jsonl"))
        elif situation != "missing":
            copytree(stores / kind, self.store)
        if situation == "damaged":
            plant(self.store, DAMAGED["garbage"])
        self._own()
        if situation == "denied":
            self.store.chmod(0)
        if situation == "denied-file":
            (self.store / "s1.jsonl").chmod(0)
        if situation == "read-only":
            for path in (*self.store.iterdir(), self.store):
                path.chmod(0o555)
                os.chown(path, os.getuid(), os.getgid())

    def _own(self) -> None:
        """Give all of it to the user, whose folders nobody else enters."""
        if os.getuid() != 0:
            return
        for path in (self.root, *self.root.rglob("*")):
            os.chown(path, NOBODY, NOBODY)

    def run(self, arguments: list[str], output: Callable[[], int]) -> tuple[int, str]:
        """Run a command; returns its exit code and what it said on standard error."""
        words = {"ID": self.session_id, "URL": self.url}
        command = [words.get(one, one).replace("OUT", str(self.out)) for one in arguments]
        said = self.root / "said"
        errors = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

        def interrupt(_: object) -> None:
            raise KeyboardInterrupt

        def body() -> None:
            os.dup2(output(), 1)
            os.dup2(errors, 2)
            sys.stdout, sys.stderr = open(1, "w"), open(2, "w")  # noqa: SIM115 - to its end
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            os.environ["EVENTLOG_STORE"] = self.url
            os.environ["EVENTLOG_CACHE"] = str(self.out / "cache")
            time.sleep = interrupt
            code = main(command)
            sys.stderr.flush()
            os._exit(code)

        code = wait_for(started(body))
        os.close(errors)
        return code, said.read_text()


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of each kind with three sessions, one with none, and a log to import."""
    folder = tmp_path_factory.mktemp("stores")
    for kind in ("jsonl", "lmdb"):
        with open_store(f"{kind}:{folder / kind}") as store:
            for number in range(3):
                store.append(make_header(f"s{number}"), messages(3))
        with open_store(f"{kind}:{folder / kind}-empty") as store:
            store.append(make_header("s0"), messages(1))
            store.delete("s0", forget=True)
    plant(folder / "jsonl-empty", log_bytes(make_header("log"), 2), "log")
    # The page's parts are found by modules of Python's own that others may not read.
    assert files("eventlog.query.page").joinpath("page.html").read_bytes()
    return folder


UNREACHED = ("missing", "empty", "unknown", "denied")


def nowhere() -> int:
    return os.open(os.devnull, os.O_WRONLY)


def closed_pipe() -> int:
    read, write = os.pipe()
    os.close(read)
    return write


def full_disk() -> int:
    return os.open("/dev/full", os.O_WRONLY)


OUTPUTS = {"closed-pipe": closed_pipe, "full": full_disk}


def kinds(situation: str) -> list[str]:
    """The stores that can be in this state by means of a file system."""
    return ["jsonl"] if situation in ("damaged", "denied-file") else ["jsonl", "lmdb"]


@pytest.mark.parametrize(
    ("command", "situation", "code"),
    CASES,
    ids=[f"{c[0]}-{'-'.join(c[1:])}-{s}" for c, s, _ in CASES],
)
def test_exit_codes(command: list[str], situation: str, code: int, stores: Path) -> None:
    """
    A script can go by the code: it is the same in every store, what went wrong is one line
    for each thing, and no command ends in a traceback.
    """
    need_other_users()
    for kind in kinds(situation):
        with reachable_folder() as root:
            place = Place(root, kind, situation, stores)
            found, said = place.run(command, OUTPUTS.get(situation, nowhere))
            if place.store.exists():
                place.store.chmod(0o755)

        expected = code
        if kind == "lmdb" and command == ["index", "status"] and situation == "denied":
            expected = 4  # it cannot even be opened
        if kind == "lmdb" and command == ["archive", "ID"] and situation not in UNREACHED:
            expected = 2  # it has no such form
        assert (expected, []) == (
            found,
            [line for line in said.splitlines() if line and not line.startswith("eventlog: ")],
        ), said


def test_every_command_is_in_the_table() -> None:
    """What is not: the server, which has tests of its own, and what needs no store of yours."""
    assert set(COMMANDS) - {"mcp", "completion", "demo"} == {case[0][0] for case in CASES}


@pytest.mark.parametrize(
    "command",
    [
        "",
        "lst",
        "list extra",
        "list --nonsense",
        "list --limit 0",
        "list --limit many",
        "list --limit 2.5",
        "list --limit",
        "list --since yesterday-ish",
        "list --cursor nonsense",
        "list --store nonsense",
        "list --store lmdb:x?nonsense=1",
        "show",
        "show ''",
        "read s1",
        "read s1 first",
        "read s1 0 --before 51",
        "trace s1 -1",
        "surface s1 --at 99",
        "search ''",
        "search !!",
        "search text --sort time",
        "search text --session s1 --cwd .",
        "export s1 --format pdf",
        "export s1 --lineage",
        "copy lmdb:a",
        "import",
        "import nonsense",
        "import dsh /nonsense/absent",
        "import all /tmp",
        "archive",
        "archive s1 --to memory:",
        "prune",
        "prune --older-than 90",
        "prune --older-than 1h --keep -1",
        "index",
        "mcp",
        "mcp --scope nonsense",
        "completion tcsh",
    ],
)
def test_a_wrong_call_is_2(run: Run, url: str, command: str) -> None:
    """A call that no store could answer says what is wrong, on one line, and changes nothing."""
    with open_store(url) as store:
        store.append(make_header("s1"), messages(3))
    result = run(*(word.strip("'") for word in command.split()))

    assert (2, "") == (result.code, result.out)
    if command:
        assert result.err.startswith("eventlog: ")
        assert 1 == result.err.count("\n")
    with open_store(url) as store:
        assert 3 == store.snapshot("s1").length
