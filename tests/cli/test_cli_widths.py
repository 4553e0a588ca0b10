"""What terminals of every width show: the columns that matter, whole and in line."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import pytest
from rich.cells import cell_len

from eventlog import APPEND, Event, open_store
from eventlog.query.cli.columns import cells_of, cut_to, fitted
from support import make_header, message, messages
from support.cli import Run

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
IDS = [
    "ada8966c-9fa3-441b-8721-37ff1e795e6a",
    "96cf59c9-b347-48b9-b234-a5200913ad05",
    "019c0000-0000-7000-8000-0000000000a1",
    "short",
]

OnTerminal = Callable[..., list[str]]


@pytest.fixture
def on_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> OnTerminal:
    """Run a command on a terminal of so many columns; the lines it prints, without colours."""

    def shown(columns: int, *command: str) -> list[str]:
        with monkeypatch.context() as patch:
            patch.setattr(type(sys.stdout), "isatty", lambda self: True)
            patch.setenv("TERM", "xterm-256color")
            patch.setenv("COLUMNS", str(columns))
            result = run(*command)
        assert 0 == result.code
        return COLOURS.sub("", result.out).splitlines()

    return shown


@pytest.fixture
def filled(url: str) -> str:
    """Sessions as tools name them, in folders as people have them."""
    with open_store(url) as store:
        for number, session_id in enumerate(IDS):
            header = make_header(
                session_id, created_at=number, cwd=f"/home/someone/work/a-long-name-{number}"
            )
            store.append(header, [message(0, f"Title {number} is what one looks for"), *others()])
    return url


def others() -> list[Event]:
    return messages(3)[1:]


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 132, 200])
def test_a_list_shows_what_sessions_are_about(
    filled: str, run: Run, on_terminal: OnTerminal, columns: int
) -> None:
    """
    With ids of 36 characters, a terminal of 80 columns had no room left for the titles. The
    folder and the ids give way; an id as it is shown, with its …, is taken for a session.
    """
    head, *lines = on_terminal(columns, "list")

    assert ["SESSION", "TITLE"] == [head.split()[0], head.split()[-1]]
    assert len(IDS) == len(lines)
    for number, line in enumerate(reversed(lines)):
        assert cell_len(line) <= columns
        assert f"Title {number} is what" in line
        shown = line.split()[0]
        assert IDS[number].startswith(shown.removesuffix("…"))
        assert run("show", shown).out.startswith(IDS[number])


def test_a_wide_list_is_whole(filled: str, on_terminal: OnTerminal) -> None:
    """Where there is room, nothing is cut."""
    for number, line in enumerate(reversed(on_terminal(200, "list")[1:])):
        assert line.startswith(IDS[number])
        assert line.endswith("is what one looks for")


def test_ids_stay_apart(url: str, run: Run, on_terminal: OnTerminal) -> None:
    """Ids that begin alike are cut behind the place where they part."""
    ids = ["demo-20261201-044051-5eb5", "demo-20261201-044051-6ab0", "demo-20261201-120000-1111"]
    with open_store(url) as store:
        for session_id in ids:
            store.append(make_header(session_id), messages(1))
    shown = [line.split()[0] for line in on_terminal(44, "list")[1:]]

    assert ids == [run("show", one).out.split()[0] for one in shown]


def test_an_id_may_end_with_the_mark(url: str, run: Run) -> None:
    """The … is a mark only where no session is called so."""
    with open_store(url) as store:
        store.append(make_header("abc…"), messages(1))
        store.append(make_header("abcdef"), messages(1))

    assert run("show", "abc…").out.startswith("abc…\n")
    assert run("show", "abcd…").out.startswith("abcdef\n")
    assert 1 == run("show", "…").code


@pytest.mark.parametrize("columns", [None, 120, 70])
def test_wide_characters_stay_in_line(
    url: str, run: Run, on_terminal: OnTerminal, columns: int | None
) -> None:
    """Chinese, Korean, accents and emoji take the columns that a terminal gives them."""
    folders = ["/w/외주", "/w/日本語/プロジェクト", "/w/cafe\u0301", "/w/plain"]
    with open_store(url) as store:
        for number, folder in enumerate(folders):
            header = make_header(f"s{number}", created_at=number, cwd=folder)
            store.append(header, [message(0, "TITLE 推迟上线日期" * 3)])
    lines = run("list").out.splitlines() if columns is None else on_terminal(columns, "list")

    places = {cell_len(line[: line.index("TITLE")]) for line in lines}
    assert 1 == len(places)
    assert all(columns is None or cell_len(line) <= columns for line in lines)


def test_numbers_are_never_cut(filled: str, on_terminal: OnTerminal) -> None:
    """In a table of numbers the names give way."""
    lines = on_terminal(40, "stats", "short")

    assert lines[-1].split()[-3:-2] == ["B"]
    assert lines[-1].endswith("100.0 %")
    assert all(len(line) <= 50 for line in lines)


def test_json_is_indented_alike(filled: str, run: Run, on_terminal: OnTerminal) -> None:
    """
    On a terminal only the first line of an event's JSON was indented, and stood to the right
    of what it holds.
    """
    assert run("read", "short", "0").out.splitlines() == on_terminal(200, "read", "short", "0")


def test_wrapped_text_has_no_ends(url: str, on_terminal: OnTerminal) -> None:
    """Lines that are wrapped are indented, not filled up: what is copied has no spaces more."""
    text = "word " * 40 + "\n\n  an indented line\n" + "x" * 90
    said = {"role": "user", "content": [{"type": "text", "text": text}]}
    with open_store(url) as store:
        store.append(make_header("s1"), [Event(0, 1_000, "user/message", said, surface_op=APPEND)])
    lines = on_terminal(60, "show", "s1", "--full")[4:]

    assert lines == [line.rstrip() for line in lines]
    assert all(len(line) <= 60 for line in lines)
    assert "      an indented line" in lines
    assert "".join(text.split()) == "".join("".join(lines).split())


@pytest.mark.parametrize(
    ("text", "cells", "front", "end"),
    [
        ("abcdef", 6, "abcdef", "abcdef"),
        ("abcdef", 4, "abc…", "…def"),
        ("日本語", 6, "日本語", "日本語"),
        ("日本語", 5, "日本…", "…本語"),
        ("日本語", 4, "日…", "…語"),
        ("e\u0301e\u0301e\u0301", 2, "e\u0301…", "…e\u0301"),
        ("", 3, "", ""),
    ],
)
def test_cut_to(text: str, cells: int, front: str, end: str) -> None:
    """A text is cut by the cells that it takes, and never inside a character."""
    assert front == cut_to(text, cells, cells_of, tail=False)
    assert end == cut_to(text, cells, cells_of, tail=True)


def test_fitted() -> None:
    """Columns give way in the order that is given, no further than they may."""
    heads, narrow = ["A", "B", "C"], [("A", 4), ("B", 0), ("A", 2)]

    assert [10, 10, 9] == fitted(heads, [10, 10, 9], 5, narrow, 29)
    assert [8, 10, 9] == fitted(heads, [10, 10, 9], 5, narrow, 27)
    assert [4, 0, 9] == fitted(heads, [10, 10, 9], 5, narrow, 20)
    assert [2, 0, 9] == fitted(heads, [10, 10, 9], 5, narrow, 5)


def test_one_long_id_in_a_pipe(url: str, run: Run) -> None:
    """An id of 255 characters filled every line of a list up to its own length."""
    with open_store(url) as store:
        store.append(make_header("x" * 255), messages(1))
        store.append(make_header("short"), messages(1))
    lines = run("list").out.splitlines()

    assert any(line.startswith("x" * 255 + "  ") for line in lines)
    assert [True, True, False] == sorted((len(line) < 120 for line in lines), reverse=True)
