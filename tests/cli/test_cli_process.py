"""The command line as a process: what it imports, and how it ends."""

import json
import os
import subprocess
import sys

import pytest

from eventlog import open_store
from support import make_header, messages

HEAVY = "rich rapidfuzz sqlite3 mcp pydantic zstandard cattrs unittest asyncio".split()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with a long session and a short one, only read here."""
    named = f"lmdb:{tmp_path_factory.mktemp('process') / 'store'}"
    with open_store(named) as store:
        store.append(make_header("s"), messages(20_000))
        store.append(make_header("t"), messages(1))
    return named


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run *code* in a fresh interpreter."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("command", [["list"], ["show", "s"], ["list", "--json"]], ids=" ".join)
def test_looking_imports_nothing_heavy(url: str, command: list[str]) -> None:
    """
    Start-up is most of what a look costs, so what it does not need is not imported.
    """
    code = (
        "import sys; from eventlog.query.cli import main; code = main(sys.argv[1:]);"
        f"print([name for name in {HEAVY!r} if name in sys.modules], code, file=sys.stderr)"
    )

    result = python(code, *command, "--store", url)

    assert "[] 0\n" == result.stderr


@pytest.mark.parametrize("missing", ["click", "platformdirs"])
def test_without_its_extra_it_says_how_to_install_it(missing: str) -> None:
    """On the base install the command is one line with the install command, exit code 2."""
    code = (
        f"import sys; sys.modules[{missing!r}] = None;"
        "from eventlog.query.cli import main; sys.exit(main(['list']))"
    )

    result = python(code)

    assert (2, "") == (result.returncode, result.stdout)
    assert 'pip install "agent-eventlog[cli]"' in result.stderr
    assert 1 == result.stderr.count("\n")


def test_a_reader_that_has_enough_is_no_error(url: str) -> None:
    """Piped into head, a long answer ends quietly, with the code that shells give to that."""
    script = 'set -o pipefail; "$0" -m eventlog show s --all --store "$1" | head -1'
    result = subprocess.run(
        ["bash", "-c", script, sys.executable, url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ("s\n", "", 141) == (result.stdout, result.stderr, result.returncode)


def closed(url: str, redirection: str, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f'"$0" -m eventlog "$@" {redirection}', sys.executable, *command],
        env={**os.environ, "EVENTLOG_STORE": url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_closed_output_is_one_line(url: str) -> None:
    """
    Without a standard output there was a traceback. Nobody can be answered, and that is
    said on standard error.
    """
    result = closed(url, ">&-", "list")

    assert (4, "eventlog: standard output is closed\n") == (result.returncode, result.stderr)


@pytest.mark.parametrize("redirection", ["2>&-", "<&-", "<&- 2>&-"])
def test_closed_streams_leave_the_answer_alone(url: str, redirection: str) -> None:
    """
    Without a standard error what is said about an answer was printed into it; and a free
    descriptor goes to the next file opened, which may be the store's.
    """
    result = closed(url, redirection, "list", "--json", "--limit", "1")

    assert 0 == result.returncode
    assert 1 == len(json.loads(result.stdout)["items"])


def test_an_interrupt_is_one_line(url: str) -> None:
    """Ctrl-C ends a command without a traceback, below the ^C, with the shell's code for it."""
    code = (
        "import sys; from eventlog.query.cli import browsing, main\n"
        "def strike(*_): raise KeyboardInterrupt\n"
        "browsing.querying = strike\n"
        "sys.exit(main(['list']))"
    )

    result = python(code)

    assert (130, "", "\neventlog: interrupted\n") == (
        result.returncode,
        result.stdout,
        result.stderr,
    )


@pytest.mark.parametrize(
    ("module", "call"),
    [
        ("click", "from eventlog.query.cli import main"),
        ("eventlog.query.cli.application", "from eventlog.query.cli import main"),
        ("eventlog.query.cli.browsing", "from eventlog.query.cli import main"),
        ("importlib.metadata", "from eventlog.__main__ import main"),
        ("eventlog.query", "from eventlog.__main__ import main"),
    ],
)
def test_an_interrupt_while_python_imports_is_quiet(module: str, call: str) -> None:
    """
    Ctrl-C while a command was still being imported, which is most of its time, printed a
    traceback from wherever the import was. It ends with the shell's code for it.
    """
    code = (
        "import sys\n"
        "class Struck:\n"
        "    @staticmethod\n"
        "    def find_spec(name, path, target=None):\n"
        f"        if name == {module!r}: raise KeyboardInterrupt\n"
        f"{call}\n"
        f"sys.modules.pop({module!r}, None)\n"
        "sys.meta_path.insert(0, Struck)\n"
        "sys.argv = ['eventlog', 'list']\n"
        "sys.exit(main())"
    )

    result = python(code)

    assert 130 == result.returncode
    assert (result.stdout, result.stderr.strip()) in [("", ""), ("", "eventlog: interrupted")]


def test_the_version_is_printed() -> None:
    """--version names the release that is installed."""
    result = python(
        "import sys; from eventlog.query.cli import main; sys.exit(main(['--version']))"
    )

    assert 0 == result.returncode
    assert result.stdout.startswith("eventlog, version ")
