"""
The history server as a host runs it: a child process, and the SDK's own client.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from eventlog import open_store
from support import corpus, make_header, message, replacement

mcp = pytest.importorskip("mcp", reason="needs the extra mcp")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with a compacted session and a foreign one."""
    named = f"lmdb:{tmp_path / 'store'}"
    with open_store(named) as store:
        store.append(
            make_header("ours", cwd="/work"),
            [
                message(0, "the server listens on port 8443"),
                message(1, "the second"),
                replacement(2, 0, 1, [0, 1]),
            ],
        )
        store.append(make_header("foreign", cwd="/secret"), [message(0, "port 1")])
    return named


def served(tmp_path: Path, *arguments: str) -> Any:
    """How the client starts the server."""
    environment = {
        **os.environ,
        "EVENTLOG_CACHE": str(tmp_path / "cache"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
    }
    return mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "eventlog", "mcp", *arguments], env=environment
    )


def talk(server: Any, conversation: Callable[[Any], Awaitable[None]]) -> None:
    """Run *conversation* with a client of *server*."""

    async def run() -> None:
        with anyio.fail_after(60):
            async with mcp.Client(server) as client:
                await conversation(client)

    anyio.run(run)


async def told(client: Any, name: str, **arguments: Any) -> str:
    result = await client.call_tool(name, arguments)
    return ("error: " if result.is_error else "") + str(result.content[0].text)


def test_a_client_walks_from_index_to_text(tmp_path: Path, url: str) -> None:
    """
    A real client lists the tools, searches, reads, traces, and is refused what is foreign.
    """

    async def conversation(client: Any) -> None:
        listed = await client.list_tools()
        assert ["session_query", "session_read", "session_search", "session_trace"] == sorted(
            tool.name for tool in listed.tools
        )
        assert all(tool.annotations.read_only_hint for tool in listed.tools)
        assert "ours" in await told(client, "session_search", query="port 8443")
        assert "seq 0" in await told(client, "session_query", session_id="ours", query="8443")
        assert "listens on port 8443" in await told(
            client, "session_read", session_id="ours", seq=0
        )
        assert "replaced by: 2" in await told(client, "session_trace", session_id="ours", seq=0)
        foreign = await told(client, "session_read", session_id="foreign", seq=0)
        missing = await told(client, "session_read", session_id="missing", seq=0)
        assert foreign.startswith("error: ")
        assert missing == foreign.replace("foreign", "missing")

    talk(served(tmp_path, "--store", url, "--scope", "cwd:/work"), conversation)


def test_paging_survives_a_restart(tmp_path: Path, url: str) -> None:
    """
    A cursor of one server is good for the next.
    """
    server = served(tmp_path, "--store", url, "--scope", "all")
    pages: list[str] = []

    async def first(client: Any) -> None:
        pages.append(await told(client, "session_search", limit=1))

    async def second(client: Any) -> None:
        cursor = pages[0].rpartition("more: cursor=")[2]
        pages.append(await told(client, "session_search", limit=1, cursor=cursor))

    talk(server, first)
    talk(server, second)

    assert {True} == {("ours" in page) != ("foreign" in page) for page in pages}
    assert ("ours" in pages[0]) != ("ours" in pages[1])


def test_a_broken_store_is_a_clean_error(tmp_path: Path) -> None:
    """
    A store that cannot be read is an answer; its path stays in the server's log.
    """
    place = tmp_path / "private"
    place.mkdir()
    (place / "data.mdb").write_bytes(b"no database" * 1_000)

    async def conversation(client: Any) -> None:
        for name, arguments in (
            ("session_search", {}),
            ("session_search", {"query": "x"}),
            ("session_read", {"session_id": "s", "seq": 0}),
        ):
            answer = await told(client, name, **arguments)
            assert answer.startswith("error: ")
            assert str(place) not in answer

    talk(served(tmp_path, "--store", f"lmdb:{place}", "--scope", "all"), conversation)


@pytest.mark.parametrize(
    ("tool", "sample"),
    [
        ("claude-code", "claude-code/auto-compact.jsonl"),
        ("codex", "codex/rollout-2026-01-02.tools.jsonl"),
    ],
)
def test_a_transcript_that_grows_is_found_by_the_next_call(
    tmp_path: Path, tool: str, sample: str
) -> None:
    """
    The server keeps a tool's own transcripts current while it runs.
    """
    lines = corpus("transcripts", sample).read_bytes().splitlines(keepends=True)
    transcript = tmp_path / "sessions" / Path(sample).name
    transcript.parent.mkdir()
    transcript.write_bytes(b"".join(lines[: len(lines) // 2]))

    async def entries(client: Any) -> int:
        line = (await told(client, "session_search")).split("\n")[2]
        return int(line.split(" entries")[0].rpartition(" ")[2])

    async def conversation(client: Any) -> None:
        before = await entries(client)
        with transcript.open("ab") as out:
            out.write(b"".join(lines[len(lines) // 2 :]))
        after = await entries(client)
        assert 0 < before < after

    server = served(
        tmp_path,
        "--store",
        f"lmdb:{tmp_path / 'store'}",
        "--scope",
        "all",
        "--import",
        tool,
        "--path",
        str(transcript.parent),
    )
    talk(server, conversation)
