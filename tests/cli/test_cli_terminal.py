"""Nothing that a transcript holds acts on a terminal, and colours stay off elsewhere."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from unicodedata import category

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eventlog import APPEND, Event, open_store
from support import make_header
from support.cli import Run

HOSTILE = (
    "\x1b[2J\x1b]0;title\x07 \x9b31m \x08\r\x00 \u202eabc\u2066 [bold red]x[/] [link=x]y[/link]"
    " :boom: \U000e0041 \ufeff日本語 \x7f\u2028end"
)
HARMFUL_CATEGORIES = ("Cc", "Cs", "Zl", "Zp")
DIRECTIONS = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
COMMANDS = (
    ["list"],
    ["show", "s", "--full", "--log"],
    ["show", "s"],
    ["read", "s", "1", "--before", "9", "--after", "9"],
    ["surface", "s"],
    ["trace", "s", "2"],
    ["lineage", "s"],
)


def fill(url: str, texts: list[str]) -> None:
    """A session that holds *texts* wherever a log holds text."""
    a, b, c, d = texts
    block = {"type": "text", "text": a}
    call = {"type": "tool-call", "id": b, "name": c, "arguments": d}
    result = {"type": "tool-result", "toolCallId": b, "content": [block], "isError": True}
    with open_store(url) as store:
        header = make_header("s", cwd=a, origin=b, agent_preset=c, parent_session="gone\u202e")
        events = [
            Event(0, 1, "session/title", {"title": a}),
            Event(
                1,
                2,
                "user/message",
                {"role": b, "content": [block, {"type": d}], "source": {"kind": "user"}},
                surface_op=APPEND,
            ),
            Event(
                2,
                3,
                "assistant/message",
                {
                    "message": {
                        "role": "assistant",
                        "content": [block, call, {"type": "reasoning", "text": c}],
                    }
                },
                surface_op=APPEND,
            ),
            Event(3, 4, "tool/result", {"message": {"content": [result]}}, surface_op=APPEND),
            Event(4, 5, "turn/end", {"reason": {"kind": "error", "error": {"message": d}}}),
            Event(5, 6, "x/\u202e", {a: {b: [c]}, "content": d}),
        ]
        store.append(header, events)


def harm(text: str) -> list[str]:
    """The characters of *text* that act on a terminal."""
    return [
        c
        for c in text
        if (category(c) in HARMFUL_CATEGORIES and c not in "\n\t") or c in DIRECTIONS
    ]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_escape_sequences_are_shown_not_obeyed(run: Run, url: str, command: list[str]) -> None:
    """A pipe gets no control character, whatever the session holds; JSON escapes them."""
    fill(url, [HOSTILE] * 4)

    text, as_json = run(*command), run(*command, "--json") if "read" not in command else None

    assert 0 == text.code
    assert [] == harm(text.out)
    assert [] == harm(text.err)
    if as_json is not None:
        assert [] == harm(as_json.out)
        orjson.loads(as_json.out)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    texts=st.lists(
        st.text(
            st.characters(exclude_categories=["Cs"])
            | st.sampled_from("\x00\x07\x08\r\x1b\x7f\x9b\x9d[]\u202e\u2066\u200b\ufeff"),
            max_size=30,
        ),
        min_size=4,
        max_size=4,
    )
)
def test_no_transcript_acts_on_a_terminal(
    run: Run, tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    """On a terminal too, colours are the only sequences, and markup in a text is text."""
    url = f"lmdb:{tmp_path_factory.mktemp('hostile')}"
    fill(url, texts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(sys.stdout), "isatty", lambda self: True)
        patch.setenv("TERM", "xterm-256color")
        patch.setenv("COLUMNS", "100")
        for command in COMMANDS:
            result = run(*command, "--store", url)

            assert 0 == result.code
            assert COLOURS.search(result.out)
            assert [] == harm(COLOURS.sub("", result.out))
            assert [] == harm(result.err)


def on_a_terminal(url: str, *arguments: str, **environment: str) -> str:
    """What a real terminal gets from one command."""
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "eventlog", *arguments, "--store", url],
        stdout=child,
        stderr=child,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **environment},
        cwd=Path(url.partition(":")[2]).parent,
    )
    os.close(child)
    received = b""
    while True:
        try:
            piece = os.read(parent, 65_536)
        except OSError:  # the way Linux says that the other end is closed
            break
        if not piece:
            break
        received += piece
    os.close(parent)
    assert 0 == process.wait()
    return received.decode().replace("\r\n", "\n")


def test_a_terminal_gets_colours_and_a_pipe_none(tmp_path: Path, run: Run) -> None:
    """Colours appear on a terminal, not with NO_COLOR, and never in a pipe."""
    url = f"lmdb:{tmp_path / 'store'}"
    fill(url, [HOSTILE] * 4)

    coloured = on_a_terminal(url, "show", "s")
    plain = on_a_terminal(url, "show", "s", NO_COLOR="1")
    piped = run("show", "s", "--store", url).out

    assert re.search(r"\x1b\[[0-9;]*3[0-9]m", coloured)
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", plain)
    assert "\x1b" not in piped
    assert [] == harm(COLOURS.sub("", coloured))
    assert "[bold red]x[/]" in coloured
    assert ":boom:" in coloured
