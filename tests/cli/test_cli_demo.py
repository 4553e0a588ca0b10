"""The demo: a real log, two compactions, and a detail recovered from behind them."""

import json
import re
from pathlib import Path

import attrs
import pytest

from eventlog import EventClass, open_store
from eventlog.invariants import check_invariants
from eventlog.query.cli.demo_story import DemoReport
from support.cli import Run


def test_the_demo_recovers_what_compaction_dropped(run: Run, url: str) -> None:
    """Its report says so, and the store and the file on disk bear it out."""
    report = run("demo", "--json").json

    assert {field.name for field in attrs.fields(DemoReport)} == report.keys()
    assert 2 == len(report["compactions"])
    assert not report["on_surface"]
    assert report["confirmed"]
    assert report["detail"] in Path(json.__file__).with_name("scanner.py").read_text("utf-8")
    with open_store(url, read_only=True) as store:
        log = store.snapshot(report["session"]["header"]["id"])
        events = log.read(0, log.length)
        assert log.length == report["session"]["length"]
        assert sum(len(e.payload) for e in events) == report["payload_bytes"]
        assert EventClass.SHADOWED is log.classify(report["found_seq"])
        found = events[report["found_seq"]].data["message"]["content"][0]["content"][0]
        assert report["detail"] in found["text"]
        chain = report["trace"]["replacement_chain"]
        assert [c["checkpoint_seq"] for c in report["compactions"]] == chain


def test_the_log_of_the_demo_keeps_the_rules(run: Run, url: str) -> None:
    """Turns, steps, calls and results pair; nothing is left open."""
    session_id = run("demo", "--json").json["session"]["header"]["id"]

    with open_store(url, read_only=True) as store:
        log = store.snapshot(session_id)
        report = check_invariants(log.read(0, log.length))
    assert ((), None, ()) == (report.violations, report.open_turn, report.open_calls)


def test_reads_touch_what_they_answer_with(run: Run, url: str) -> None:
    """The table of reads shows bounded ones beside the one that read the log to index it."""
    report = run("demo", "--json").json
    touched = {read["read"]: read["records"] for read in report["reads"]}
    found = report["found_seq"]

    assert touched[f"read event {found}"] <= 1 + 2
    assert touched[f"read event {found} and 5 on each side"] <= 11 + 2
    assert touched[f"trace event {found}"] <= 1 + 2
    assert touched["search it again"] < touched["search the log, indexing it first"] / 10


def test_the_demo_is_a_new_session_each_time(run: Run, data_folder: Path) -> None:
    """Run twice without a store, both are in the data folder; the shape is the same."""
    first, second = run("demo"), run("demo")

    def shape(out: str) -> str:
        return re.sub(r"demo-[0-9a-f-]+|\d[\d.,]*", "N", out)

    assert [0, 0] == [first.code, second.code]
    assert shape(first.out) == shape(second.out)
    assert 2 == len(run("list", "--json").json["items"])
    assert ["eventlog"] == [path.name for path in data_folder.iterdir()]


@pytest.mark.parametrize("scheme", ["lmdb", "jsonl", "memory"])
def test_the_demo_works_on_any_store(run: Run, tmp_path: Path, scheme: str) -> None:
    """It needs nothing of a store but the contract."""
    place = "" if scheme == "memory" else str(tmp_path / "elsewhere")

    result = run("demo", "--store", f"{scheme}:{place}")

    assert 0 == result.code
    assert "NUMBER_RE" in result.out
    assert "says the same" in result.out


def test_without_source_code_the_demo_says_so(
    run: Run, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Python that ships no source leaves nothing to look at: one line, no session."""
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))

    result = run("demo")

    assert (1, "") == (result.code, result.out)
    assert "source" in result.err
    assert 1 == run("list").code
