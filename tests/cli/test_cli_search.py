"""``search`` and ``index`` over real stores."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from eventlog import open_store
from eventlog.query import IndexStatus, SearchHit, SearchPage, SessionHit
from support import log_only, make_header, replacement
from support.cli import Run
from support.query import said

TEXT = "first line\nthe database is slow\nlast line"
OTHER = "a good many other words of which the database is one, and more behind it"


def names(kind: type) -> set[str]:
    """The fields of a record's class."""
    return {field.name for field in attrs.fields(kind)}


@pytest.fixture
def filled(url: str) -> str:
    """Two sessions about a database, one of them compacted."""
    with open_store(url) as store:
        store.append(
            make_header("s-one", created_at=1_000, cwd="/work"),
            [
                said(0, "user", TEXT, time=1_764_500_000_000),
                said(1, "assistant", "an index helps", time=1_764_600_000_000),
                log_only(2, "tool/call", data={"name": "explain", "arguments": OTHER}),
                replacement(3, 0, 1, [0, 1]),
            ],
        )
        store.append(make_header("s-two", created_at=2_000), [said(0, "user", "a databse note")])
    return url


def test_search_shows_each_session_by_its_best_event(run: Run, filled: str) -> None:
    """A person sees the session, the event and the line that matches, the best first."""
    result = run("search", "database")

    assert 0 == result.code
    lines = result.out.splitlines()
    assert lines[0].startswith("s-one")
    assert "#0  user/message" in lines[1]
    assert "shadowed" in lines[1]
    assert "the database is slow" == lines[2].strip()
    assert "first line" not in result.out
    assert "a databse note" in result.out


def test_context_lines(run: Run, filled: str) -> None:
    """Lines around the match are shown on request."""
    out = run("search", "database slow", "-C", "1").out

    assert "first line" in out
    assert "last line" in out


def test_search_in_one_session(run: Run, filled: str) -> None:
    """With a session every event that matches is shown; the front of its id will do."""
    result = run("search", "database", "--session", "s-o")

    assert 0 == result.code
    assert ["#0", "#2"] == [
        line.split()[0] for line in result.out.splitlines() if line.startswith("  #")
    ]
    assert "'s-o' is the front of session s-one" in result.err


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--type", "tool/call"], [2]),
        (["--class", "shadowed"], [0]),
        (["--class", "log-only", "--class", "current"], [2]),
        (["--since", "2025-12-01"], []),
        (["--until", "2025-12-01"], [0, 2]),
    ],
)
def test_filters(run: Run, filled: str, options: list[str], expected: list[int]) -> None:
    """Filters by type, class and time narrow what is found."""
    result = run("search", "database", "--session", "s-one", "--json", *options)

    assert expected == sorted(hit["seq"] for hit in result.json["items"])
    assert (0 if expected else 1) == result.code


def test_a_folder_chooses_sessions(run: Run, filled: str) -> None:
    """Sessions of one working directory are searched on request."""
    items = run("search", "database", "--cwd", "/work", "--json").json["items"]

    assert ["s-one"] == [item["record"]["header"]["id"] for item in items]


def test_json_has_the_fields_of_the_records(run: Run, filled: str) -> None:
    """The JSON is one document with the names that Python has, and pages go on by cursor."""
    page = run("search", "database", "--json", "-n", "1").json
    rest = run("search", "database", "--json", "--cursor", page["next_cursor"]).json

    assert names(SearchPage) == page.keys()
    assert names(SessionHit) == page["items"][0].keys()
    assert names(SearchHit) == page["items"][0]["best_match"].keys()
    ids = [item["record"]["header"]["id"] for item in page["items"] + rest["items"]]
    assert ["s-one", "s-two"] == ids


def test_a_miss_says_how_many_entries_were_searched(run: Run, filled: str) -> None:
    """Nothing found is exit code 1 and a number on standard error."""
    result = run("search", "zebra")

    assert (1, "") == (result.code, result.out)
    assert "no match; searched 5 entries" in result.err

    # A store where filters left nothing was called empty.
    for option in ("--cwd", "--type"):
        nowhere = run("search", "retry", option, "nowhere")
        assert (1, "") == (nowhere.code, nowhere.out)
        assert nowhere.err.endswith("passes the filters\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", ""],
        ["search", "***"],
        ["search", "x", "--sort", "time"],
        ["search", "x", "--class", "nope"],
        ["search", "x", "--cursor", "nope"],
        ["search", "x", "--session", "s-one", "--cwd", "/work"],
        ["search", "x", "--since", "yesterday"],
        ["search"],
    ],
)
def test_wrong_use(run: Run, filled: str, arguments: list[str]) -> None:
    """What cannot be meant is exit code 2 and one line that says why."""
    result = run(*arguments)

    assert (2, "") == (result.code, result.out)
    assert 1 == len(result.err.splitlines())


def test_a_transcript_never_acts_on_the_terminal(run: Run, url: str) -> None:
    """Escape sequences in what is found are shown, not sent."""
    with open_store(url) as store:
        store.append(make_header("s"), [said(0, "user", "needle \x1b[2J\x1b]0;x\x07 \u202e end")])

    result = run("search", "needle")

    assert "\x1b" not in result.out
    assert "\u202e" not in result.out
    assert r"\x1b[2J" in result.out


def test_index_status_and_rebuild(run: Run, filled: str, tmp_path: Path) -> None:
    """The status writes nothing; building anew says what the index then holds."""
    before = run("index", "status")
    assert 1 == before.code
    assert not (tmp_path / "cache").exists()

    rebuilt = run("index", "rebuild", "--json")
    status = run("index", "status", "--json")

    assert names(IndexStatus) == rebuilt.json.keys()
    assert (2, 5, 0) == tuple(rebuilt.json[name] for name in ("sessions", "documents", "hidden"))
    assert rebuilt.json == status.json
    assert "sessions" in run("index", "status").out


def test_index_without_a_command_is_one_line(run: Run) -> None:
    """A group without its command was told in a whole page of help, folded into one line."""
    result = run("index")

    assert (2, "") == (result.code, result.out)
    assert result.err.startswith("eventlog: missing command")
    assert 1 == result.err.count("\n")
