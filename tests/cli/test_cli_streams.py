"""``export``, ``follow`` and ``stats``."""

import subprocess
import sys
from collections import deque
from pathlib import Path
from queue import Queue
from threading import Thread

import orjson
import pytest

from eventlog import APPEND, Event, SessionHeader, open_store
from eventlog.codec import decode_line
from support import corpus, log_only, make_header, message, messages, replacement
from support.cli import Run


def fill(url: str) -> None:
    """One compacted session."""
    with open_store(url) as store:
        store.append(
            make_header("s", cwd="/work"),
            [*messages(4), log_only(4), replacement(5, 0, 2, [0, 1, 2])],
        )


def test_an_exported_log_is_the_log(run: Run, url: str) -> None:
    """JSON lines hold the header and every event, equal to what the store holds."""
    fill(url)

    lines = run("export", "s").out.encode().splitlines(keepends=True)

    header, *events = [decode_line(line) for line in lines]
    with open_store(url, read_only=True) as store:
        log = store.snapshot("s")
        assert log.header == header
        assert log.read(0, 6) == events


def test_exported_lines_keep_line_separators_inside(run: Run, url: str) -> None:
    """Characters that some readers take for line ends stay inside their record."""
    text = "a\u2028b\u2029c\u0085d\x0be\x1cf"
    with open_store(url) as store:
        store.append(make_header("s"), [message(0, text)])

    lines = run("export", "s").out.encode().split(b"\n")

    assert 3 == len(lines)
    event = decode_line(lines[1])
    assert isinstance(event, Event)
    assert text == event.data["content"][0]["text"]


def test_markdown_cannot_be_broken_out_of(run: Run, url: str) -> None:
    """What a tool answered stays in its fence, whatever runs of backticks it holds."""
    answer = "```\n# not a heading\n`````\x1b[31m"
    result = {
        "type": "tool-result",
        "toolCallId": "c",
        "content": [{"type": "text", "text": answer}],
    }
    with open_store(url) as store:
        store.append(
            make_header("s"),
            [
                message(0, "# a request\nof two lines"),
                Event(1, 1, "tool/result", {"message": {"content": [result]}}, surface_op=APPEND),
            ],
        )

    out = run("export", "s", "--format", "md").out

    assert out.startswith("# # a request of two lines\n")
    assert "\n``````\n```\n# not a heading\n`````\\x1b[31m\n``````\n" in out


def test_b2_an_exporter_meets_no_half_characters(run: Run, url: str, tmp_path: Path) -> None:
    """
    Bytes that were not UTF-8 once came in as lone surrogates and crashed the writer of a
    page. A log cannot hold them: import names what it altered, and both exports finish.
    """
    wire = (
        b'{"type":"session","version":0,"id":"latin","createdAt":1,"delegationDepth":0}\n'
        b'{"type":"user/message","seq":0,"time":1,"surfaceOp":"append","data":{"id":"m",'
        b'"role":"user","content":[{"type":"text","text":"m\\udcb2 file"}],'
        b'"source":{"kind":"user"}}}\n'
    )
    (tmp_path / "latin.jsonl").write_bytes(wire)

    imported = run("import", "dsh", str(tmp_path / "latin.jsonl"))

    assert imported.code in (0, 3)
    for form in ("jsonl", "md"):
        exported = run("export", "latin", "--format", form)
        assert 0 == exported.code
        assert "m\ufffd file" in exported.out


def test_file_names_that_are_no_text_are_shown(run: Run, tmp_path: Path) -> None:
    """A fault whose path has bytes that are no UTF-8 is named, in text and in JSON."""
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "bad\udcb2.jsonl").write_bytes(b"{\n")

    text = run("list", "--store", f"jsonl:{folder}")
    as_json = run("list", "--store", f"jsonl:{folder}", "--json")

    assert [3, 3] == [text.code, as_json.code]
    assert "bad\ufffd.jsonl" in text.err
    assert as_json.json["faults"][0]["path"].endswith("bad\ufffd.jsonl")


def test_stats_add_up(run: Run, url: str) -> None:
    """Counts by type sum to the log; nodes and shadowed ones to those that entered it."""
    fill(url)

    found = run("stats", "s", "--json").json
    text = run("stats", "s").out

    assert 6 == sum(count["events"] for count in found["types"])
    assert found["payload_bytes"] == sum(count["payload_bytes"] for count in found["types"])
    assert (2, 3, 1) == (found["nodes"], found["shadowed"], found["replacements"])
    assert found["tokens"] is None
    assert "user/message" in text
    assert "2 nodes; 3 shadowed by 1 replacement\n" in text


def test_stats_count_a_repeated_usage_report_once(run: Run, url: str) -> None:
    """A provider reports usage while streaming and again at the end of the same step."""
    usage = {"inputTokens": 10, "outputTokens": 5, "cacheReadTokens": 3}
    step = {"turn": 1, "step": 1}
    chunk = {"type": "usage", "usage": usage}
    with open_store(url) as store:
        store.append(
            make_header("s"),
            [
                Event(0, 1, "assistant/chunk", {**step, "chunk": chunk}),
                Event(1, 1, "assistant/message", {**step, "usage": usage}, surface_op=APPEND),
                Event(2, 1, "assistant/message", {"usage": usage}, surface_op=APPEND),
                Event(3, 1, "assistant/message", {"usage": "none"}, surface_op=APPEND),
            ],
        )

    tokens = run("stats", "s", "--json").json["tokens"]

    assert {"input": 20, "output": 10, "cache_read": 6, "cache_write": 0} == tokens


@pytest.mark.parametrize("scheme", ["lmdb", "jsonl"])
def test_follow_prints_events_as_they_arrive(tmp_path: Path, scheme: str) -> None:
    """Another process sees what is appended, in order and once, until the session goes."""
    url = f"{scheme}:{tmp_path / 'store'}"
    header = make_header("s")
    arrived: Queue[bytes] = Queue()
    with open_store(url) as store:
        store.append(header, messages(5))
        process = subprocess.Popen(
            [sys.executable, "-m", "eventlog", "follow", "s", "-n", "2", "--json", "--store", url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
        )
        out = process.stdout
        assert out is not None
        Thread(target=lambda: deque(map(arrived.put, out), 0), daemon=True).start()
        seqs = [orjson.loads(arrived.get(timeout=20))["seq"] for _ in range(2)]
        store.append(header, messages(2, start=5))
        seqs += [orjson.loads(arrived.get(timeout=20))["seq"] for _ in range(2)]
        store.append(header, messages(1, start=7))
        seqs += [orjson.loads(arrived.get(timeout=20))["seq"]]
        store.delete("s")
        code = process.wait(20)
        _, said = process.communicate()

    assert [3, 4, 5, 6, 7] == seqs
    assert (1, b"eventlog: session 's' was deleted\n") == (code, said)


def test_a_recorded_session_is_shown_and_exported(run: Run, url: str) -> None:
    """A real log of another harness goes through every look without a hitch."""
    path = corpus(
        "dsh", "examples__headless-agent__tests__snapshots__compaction-recovery__session.jsonl"
    )
    assert 0 == run("import", "dsh", str(path)).code
    (item,) = run("list", "--json").json["items"]
    session_id = item["header"]["id"]

    for command in (["show"], ["show", "--full", "--all"], ["surface"], ["stats"], ["export"]):
        assert 0 == run(command[0], session_id, *command[1:]).code
    assert "compacted: this took the place of 1 messages" in run("show", session_id).out
    header = decode_line(run("export", session_id).out.split("\n")[0].encode())
    assert isinstance(header, SessionHeader)
    assert session_id == header.id
