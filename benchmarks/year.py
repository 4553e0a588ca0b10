"""
A year of use: the import of 2,000 generated sessions, and how fast commands then answer.

    python benchmarks/year.py [--sessions 2000] [--megabytes 1000] [--store lmdb]

The sessions are Claude Code transcripts of the usual make: prompts, answers with tool
calls, results of very different sizes, now and then a compaction. Seeded. Commands are
timed as processes: user plus system time, start-up included, the median of five runs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from common import print_machine, print_table

WORDS = 20_000
RUNS = 5


def vocabulary(rng: random.Random) -> list[str]:
    letters = "etaoinshrdlucmfwypvbgk"
    return ["".join(rng.choices(letters, k=rng.randint(3, 11))) for _ in range(WORDS)]


def transcript(rng: random.Random, words: list[str], number: int, size: int) -> Iterator[str]:
    """Yield the lines of one session of about *size* bytes."""
    session = f"{number:08x}-0000-4000-8000-000000000000"
    parent: str | None = None
    written = turn = 0
    second = 1_770_000_000 + number * 15_000

    def text(count: int) -> str:
        # A few words are common and most are rare.
        return " ".join(words[min(int(rng.paretovariate(0.6)), WORDS) - 1] for _ in range(count))

    def line(kind: str, **fields: Any) -> str:
        nonlocal parent, second
        second += 2
        own = f"{number:08x}-{second:012x}"
        record = {
            "parentUuid": parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": f"/home/user/project-{number % 40}",
            "sessionId": session,
            "version": "2.1.0",
            "type": kind,
            "uuid": own,
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(second)),
            **fields,
        }
        parent = own
        return json.dumps(record, separators=(",", ":")) + "\n"

    def assistant(*content: dict[str, Any]) -> str:
        return line(
            "assistant",
            message={
                "id": f"msg_{number}_{turn}_{second}",
                "type": "message",
                "role": "assistant",
                "model": "model-1",
                "content": list(content),
                "usage": {"input_tokens": 900, "output_tokens": 120},
            },
        )

    while written < size:
        turn += 1
        lines = [line("user", message={"role": "user", "content": text(rng.randint(5, 60))})]
        for call in range(rng.randint(1, 5)):
            name = f"toolu_{number}_{turn}_{call}"
            lines.append(
                assistant(
                    {"type": "text", "text": text(rng.randint(5, 80))},
                    {"type": "tool_use", "id": name, "name": "Read",
                     "input": {"file_path": f"/src/{text(1)}.py"}},
                )
            )  # fmt: skip
            result = text(int(min(rng.paretovariate(0.9) * 40, 8_000)))
            lines.append(
                line(
                    "user",
                    message={
                        "role": "user",
                        "content": [
                            {"type": "tool_result", "tool_use_id": name, "content": result}
                        ],
                    },
                    toolUseResult={"type": "text", "file": {"numLines": len(result) // 60}},
                )
            )
        lines.append(assistant({"type": "text", "text": text(rng.randint(20, 200))}))
        for one in lines:
            written += len(one)
            yield one


def generate(folder: Path, sessions: int, megabytes: int) -> tuple[int, str]:
    """Write the transcripts below *folder*; returns their bytes, and a rare word of them."""
    rng = random.Random(11)
    words = vocabulary(rng)
    sizes = [rng.lognormvariate(0, 1.2) for _ in range(sessions)]
    scale = megabytes * 1e6 / sum(sizes)
    total = 0
    for number, size in enumerate(sizes):
        path = folder / f"-home-user-project-{number % 40}" / f"{number:08x}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8") as out:
            for line in transcript(rng, words, number, int(size * scale)):
                total += out.write(line)
    return total, words[WORDS // 4]


class Own:
    """The most memory of its own that a process has had; mapped pages of files are not."""

    def __init__(self, pid: int) -> None:
        self.bytes_max = 0
        self._status = Path(f"/proc/{pid}/status")
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while True:
            try:
                found = re.search(r"RssAnon:\s+(\d+) kB", self._status.read_text())
            except OSError:
                return
            if found is None:
                return
            self.bytes_max = max(self.bytes_max, int(found.group(1)) * 1024)
            time.sleep(0.02)


class Ran(NamedTuple):
    """What one command took: seconds, and bytes of memory at the peak, mapped pages included."""

    wall: float
    cpu: float
    memory: int
    own_memory: int


def command(environment: dict[str, str], *arguments: str) -> Ran:
    """Run one command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "eventlog", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        own = Own(process.pid)
        _, errors = process.communicate()
    wall = time.perf_counter() - began
    assert process.returncode in (0, 1), (arguments, errors[-2_000:])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Ran(wall, cpu, after.ru_maxrss * 1024, own.bytes_max)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=2_000)
    parser.add_argument("--megabytes", type=int, default=1_000)
    parser.add_argument("--store", choices=["lmdb", "jsonl"], default="lmdb")
    options = parser.parse_args()
    print_machine()
    root = Path(tempfile.mkdtemp())
    try:
        transcripts = root / "projects"
        size, word = generate(transcripts, options.sessions, options.megabytes)
        environment = {
            **os.environ,
            "EVENTLOG_STORE": f"{options.store}:{root / 'store'}",
            "EVENTLOG_CACHE": str(root / "cache"),
        }
        rows = []
        for name in ("first import", "again, nothing new"):
            ran = command(environment, "import", "claude-code", str(transcripts))
            rows.append(
                [
                    name,
                    f"{ran.wall:.1f} s",
                    f"{ran.cpu:.1f} s",
                    f"{size / 1e6 / ran.wall:.0f} MB/s",
                    f"{size / 1e6 / ran.cpu:.0f} MB/s",
                    f"{ran.memory / 2**20:.0f} MB",
                    f"{ran.own_memory / 2**20:.0f} MB",
                ]
            )
        stored = sum(path.stat().st_blocks * 512 for path in (root / "store").rglob("*"))
        print_table(
            f"Import of {options.sessions:,} sessions, {size / 1e6:,.0f} MB, into "
            f"{options.store} ({stored / size:.2f} of the size on disk)",
            ["", "time", "processor", "a second", "a processor second", "peak memory", "its own"],
            rows,
        )
        first = command(environment, "search", word)
        print(
            f"The first search, which indexes all: {first.wall:.1f} s, "
            f"{first.cpu:.1f} s of processor\n"
        )
        session = f"{7:08x}"
        timed = {
            "list": ("list",),
            "show": ("show", session),
            "read": ("read", session, "10"),
            "search": ("search", word),
            "search in one session": ("search", word, "--session", session),
        }
        rows = []
        for name, arguments in timed.items():
            runs = [command(environment, *arguments) for _ in range(RUNS)]
            rows.append(
                [
                    name,
                    f"{statistics.median(run.cpu for run in runs) * 1e3:.0f} ms",
                    f"{statistics.median(run.wall for run in runs) * 1e3:.0f} ms",
                ]
            )
        print_table("Commands as processes", ["command", "processor", "wall"], rows)
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
