"""Damaged and hostile transcripts: what is sound is imported, what is not is named."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eventlog import EventStore, open_store
from eventlog.importing import ImportAccount
from eventlog.sources import load_sources
from support.processes import dropping_root, forked, output, script
from support.samples import SAMPLES, Sample
from support.transcripts import imported, places_of, whole_log

LINES = [sample for sample in SAMPLES if sample.kind == "lines" and sample.tool != "dsh"]
DOCUMENTS = [sample for sample in SAMPLES if sample.kind == "document"]
# How much more thorough than in the default run.
THOROUGH = int(os.environ.get("EVENTLOG_THOROUGH", "1"))
WRONG: list[Any] = [None, True, 5, 1.5, "", "x", [], {}, [None], {"a": 1}, ["x", 1], -(2**63)]


def checked(store: EventStore, sample: Sample, path: Path) -> ImportAccount:
    """Import what may be damaged: the account adds up, and every log is whole and folds."""
    account = imported(store, sample.tool, path, refused=True)
    for head in store.heads(limit=1000).items:
        assert head.length == len(whole_log(store, head.header.id))
    return account


@pytest.mark.parametrize("sample", LINES, ids=str)
def test_a_file_cut_anywhere_gives_its_whole_lines(sample: Sample, tmp_path: Path) -> None:
    """
    Cut at every 200th byte: all lines before the cut are imported, and the torn one is a
    fault with its line and offset.
    """
    content = sample.path.read_bytes()
    path = tmp_path / sample.path.name
    step = max(200, len(content) // (30 * THOROUGH) // 200 * 200)
    for size in range(0, len(content), step):
        path.write_bytes(content[:size])
        with open_store("memory:") as store:
            account = checked(store, sample, path)
            whole, torn = content[:size].count(b"\n"), not content[:size].endswith(b"\n")
            if account.refused:
                continue  # nothing in it names a session yet
            assert account.records.found == whole + (torn and size > 0)
            assert set(range(1, whole + 1)) <= places_of(store)
            for fault in account.faults:
                assert ("torn", whole + 1) == (fault.kind, fault.line)
                assert content[:size].rfind(b"\n") + 1 == fault.offset_bytes


@pytest.mark.parametrize("sample", DOCUMENTS, ids=str)
def test_a_document_cut_anywhere_gives_what_stands_before(sample: Sample, tmp_path: Path) -> None:
    """Cut at every 200th byte: the records before the cut are imported, the cut is named."""
    content = sample.path.read_bytes()
    path = tmp_path / sample.path.name
    records = len(sample.records())
    most = 0
    step = max(200, len(content) // (40 * THOROUGH) // 200 * 200)
    for size in [*range(0, len(content), step), len(content) - 3]:
        path.write_bytes(content[:size])
        with open_store("memory:") as store:
            account = checked(store, sample, path)
            assert account.refused or account.faults
            assert account.records.mapped + account.records.kept >= most or account.refused
            if not account.refused:
                most = account.records.mapped + account.records.kept
                assert {"torn"} == {fault.kind for fault in account.faults}
    assert most >= records - 2


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "torn": lambda line: line[: len(line) // 2] + b"\n",
    "not JSON": lambda _: b"{nope}\n",
    "list": lambda _: b"[1,2]\n",
    "null": lambda _: b"null\n",
    "text": lambda _: b'"x"\n',
    "NUL": lambda _: b"\0" * 4096 + b"\n",
    "not UTF-8": lambda line: line.replace(b'"', b'"\xff\xfe', 1),
    "empty object": lambda _: b"{}\n",
    "raw newline": lambda line: line.replace(b":", b":\n", 1),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("sample", LINES, ids=str)
def test_one_damaged_line_costs_no_other(sample: Sample, damage: str, tmp_path: Path) -> None:
    """Each line in turn is damaged: every other one is imported."""
    lines = sample.records()
    for number in range(0, len(lines), max(1, len(lines) // (3 * THOROUGH))):
        spoilt = [*lines]
        spoilt[number] = DAMAGES[damage](lines[number])
        path = sample.write(tmp_path, spoilt)
        with open_store("memory:") as store:
            account = checked(store, sample, path)
            if account.refused:
                continue  # it was the line that names the session
            extra = damage == "raw newline"
            lost = {number + 1, number + 2} if extra else {number + 1}
            expected = set(range(1, len(lines) + 1 + extra)) - lost
            assert expected <= places_of(store) | {
                place for place in expected if place > number + 1 and extra
            }
            for fault in account.faults:
                assert fault.kind in ("malformed", "torn")
                assert fault.line in lost


@pytest.mark.parametrize("sample", LINES, ids=str)
def test_doubled_and_reordered_lines_lose_nothing(sample: Sample, tmp_path: Path) -> None:
    """Every line twice, the lines backwards, or shuffled: each has its event."""
    lines = [line if line.endswith(b"\n") else line + b"\n" for line in sample.records()]
    shuffled = random.Random(5).sample(lines, len(lines))
    for spoilt in ([x for line in lines for x in (line, line)], lines[::-1], shuffled):
        with open_store("memory:") as store:
            account = checked(store, sample, sample.write(tmp_path, spoilt))
            if not account.refused:
                assert set(range(1, len(spoilt) + 1)) == places_of(store)
                assert [] == account.faults


def spoilt_values(value: Any, chance: random.Random) -> Iterator[Any]:
    """The value with one of its members, at any depth, of a wrong type, or taken away."""
    if isinstance(value, dict):
        for key in value:
            rest = {name: item for name, item in value.items() if name != key}
            yield rest
            yield {**value, key: chance.choice(WRONG)}
            for inner in spoilt_values(value[key], chance):
                yield {**value, key: inner}
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield [*value[:place], chance.choice(WRONG), *value[place + 1 :]]
            for inner in spoilt_values(item, chance):
                yield [*value[:place], inner, *value[place + 1 :]]


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_wrong_types_anywhere_are_survived(sample: Sample, tmp_path: Path) -> None:
    """Any member of any record missing or of a wrong type: every record is accounted for."""
    chance = random.Random(7)
    records = sample.records()
    if sample.kind == "folder":
        decoded = [json.loads(path.read_bytes()) for path in records]
    elif sample.kind == "lines":
        decoded = [json.loads(line) for line in records]
    else:
        decoded = records
    for _ in range(12 * THOROUGH):
        place = chance.randrange(len(decoded))
        variants = list(spoilt_values(decoded[place], chance))
        if not variants:
            continue
        path = write_with(sample, tmp_path, records, place, chance.choice(variants))
        with open_store("memory:") as store:
            account = checked(store, sample, path)
            assert account.records.found >= 1 or account.refused


def write_with(sample: Sample, folder: Path, records: list[Any], place: int, value: Any) -> Path:
    """Write a sample with another value in the place of one record."""
    if sample.kind == "folder":
        path = sample.write(folder, records)
        (path / "events" / records[place].name).write_text(json.dumps(value))
        return path
    if sample.kind == "rows":
        if not (isinstance(value, dict) and isinstance(value.get("row"), dict)):
            return sample.write(folder, records)
        row = {**records[place]["row"], **value["row"]}
        changed = {"table": records[place]["table"], "row": row}
        return sample.write(folder, [*records[:place], changed, *records[place + 1 :]])
    spoilt: Any = json.dumps(value).encode() + b"\n" if sample.kind == "lines" else value
    return sample.write(folder, [*records[:place], spoilt, *records[place + 1 :]])


UNHOLDABLE = {
    "lone surrogate": ('"half \\ud83d of it"', "half � of it"),
    "NUL": ('"D\\u0000i\\u0000r"', "D\0i\0r"),
    "separators": ('"a\u2028b\u2029c\u0085d\\u000be\\u001cf"', "a\u2028b\u2029c\u0085d\x0be\x1cf"),
    "surrogateescape": ('"m\\udcb2 file"', "m� file"),
}


@pytest.mark.parametrize("case", UNHOLDABLE)
def test_b1_b2_b3_b4_texts_that_other_programs_choke_on(case: str, tmp_path: Path) -> None:
    """
    Half an emoji, NULs, line separators and bytes that were no UTF-8: the message is
    imported; what no log can hold becomes U+FFFD and its exact text stays beside it.
    """
    written, read = UNHOLDABLE[case]
    line = (
        '{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s","timestamp":'
        '"2026-01-01T00:00:00Z","message":{"role":"user","content":'
        f"{written}}}}}\n"
    )
    path = tmp_path / "s.jsonl"
    path.write_text(line, "utf-8")
    for url in ("memory:", f"lmdb:{tmp_path}/l", f"jsonl:{tmp_path}/j"):
        with open_store(url) as store:
            account = imported(store, "claude-code", path)
            data = next(e.data for e in whole_log(store, "s") if e.type == "user/message")

        assert read == data["content"][0]["text"]
        assert account.records.altered == ("raw" in data["origin"])
        assert ("�" in read) == ("raw" in data["origin"])
        if "raw" in data["origin"]:
            assert line.rstrip("\n") == data["origin"]["raw"]


@pytest.mark.parametrize(
    "number", ["NaN", "-Infinity", "1e400", "18446744073709551616", "1" * 5000]
)
def test_numbers_that_no_log_can_hold_stay_as_texts(number: str, tmp_path: Path) -> None:
    """What JSON has no number for is kept as it was written, and the record with it."""
    path = tmp_path / "s.jsonl"
    line = f'{{"type":"note","uuid":"u1","sessionId":"s","n":{number}}}'
    path.write_text(line + "\n")
    with open_store("memory:") as store:
        account = imported(store, "claude-code", path)
        data = whole_log(store, "s")[0].data

    assert (1, 1) == (account.records.kept, account.records.altered)
    assert number == data["record"]["n"]
    assert line == data["origin"]["raw"]


def test_nesting_beyond_any_depth_is_a_fault_of_its_line(tmp_path: Path) -> None:
    """Two hundred levels are kept as a text; two hundred thousand are refused, alone."""
    good = '{"type":"note","uuid":"u%d","sessionId":"s"%s}'
    deep = [',"x":' + "[" * depth + "]" * depth for depth in (200, 200_000)]
    path = tmp_path / "s.jsonl"
    path.write_text(
        "\n".join([good % (1, ""), good % (2, deep[0]), good % (3, deep[1]), good % (4, "")])
    )
    with open_store("memory:") as store:
        account = imported(store, "claude-code", path, refused=True)

        assert (3, 1, 1) == (account.records.kept, account.records.refused, account.records.altered)
        assert [(3, "malformed")] == [(fault.line, fault.kind) for fault in account.faults]
        assert {1, 2, 4} == places_of(store)


def test_nesting_beyond_any_depth_is_a_fault_of_its_record(tmp_path: Path) -> None:
    """
    A message of a document with a thousand levels, which can be read, and on some Pythons
    not be written again: it cost the whole document. The others are imported; where it can
    be written it is kept as a text.
    """
    message = '{"id":"m%d","type":"user","content":%s}'
    contents = ('"one"', "[" * 1000 + "]" * 1000, '"three"')
    messages = ",".join(message % (number, text) for number, text in enumerate(contents))
    path = tmp_path / "session-1.json"
    path.write_text(f'{{"sessionId":"s","messages":[{messages}]}}')
    with open_store("memory:") as store:
        account = imported(store, "gemini-cli", path, refused=True)

        refused, altered = account.records.refused, account.records.altered
        assert refused + altered == 1
        assert ["malformed"] * refused == [fault.kind for fault in account.faults]
        kept = {"messages/1"} if altered else set()
        assert {"messages/0", "messages/2", "/"} | kept == places_of(store)


def test_b6_a_byte_order_mark_is_no_part_of_the_first_record(tmp_path: Path) -> None:
    """A mark before the first brace is skipped; one before a later line is a fault."""
    line = b'{"type":"note","uuid":"u%d","sessionId":"s"}\n'
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b"".join(line % n for n in range(10)))
    with open_store("memory:") as store:
        assert 10 == imported(store, "claude-code", path).records.kept

    path.write_bytes(line % 0 + line % 1 + b"\xef\xbb\xbf" + line % 2 + line % 3)
    with open_store("memory:") as store:
        account = imported(store, "claude-code", path, refused=True)
        assert [(3, "malformed")] == [(fault.line, fault.kind) for fault in account.faults]
        assert {1, 2, 4} == places_of(store)


def test_j4_one_unreadable_file_among_many(tmp_path: Path) -> None:
    """A file and a folder that nobody may open: both are named, and the rest is imported."""
    line = b'{"type":"note","uuid":"u","sessionId":"s%d"}\n'
    for n in range(3):
        (tmp_path / f"{n}.jsonl").write_bytes(line % n)
    (tmp_path / "closed").mkdir()
    (tmp_path / "0.jsonl").chmod(0)
    (tmp_path / "closed").chmod(0)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and folder.stat().st_mode & 0o005 != 5:
            folder.chmod(folder.stat().st_mode | 0o055)
    source = load_sources()["claude-code"]

    def body() -> None:
        with open_store("memory:") as store:
            account = imported(store, source, tmp_path, refused=True)
        kinds = {Path(refused.path).name: refused.kind for refused in account.refused}
        assert {"0.jsonl": "denied", "closed": "denied"} == kinds
        assert 2 == account.new

    try:
        assert 0 == forked(dropping_root(body))
    finally:
        (tmp_path / "closed").chmod(0o755)
        (tmp_path / "0.jsonl").chmod(0o644)


def test_a6_empty_files_are_named_one_by_one(tmp_path: Path) -> None:
    """Three empty files and an empty folder beside a good session."""
    (tmp_path / "orphan").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.jsonl").write_bytes(b"")
    (tmp_path / "good.jsonl").write_bytes(b'{"type":"note","uuid":"u","sessionId":"s"}\n')
    (tmp_path / ".DS_Store").write_bytes(b"\0")
    with open_store("memory:") as store:
        account = imported(store, "claude-code", tmp_path, refused=True)

    assert (4, 1, 3) == (account.found, account.new, len(account.refused))


def big_line(tool: str, number: int, size: int) -> str:
    text = "x" * size
    if tool == "claude-code":
        message: Any = {"role": "user", "content": text}
        return json.dumps(
            {"type": "user", "uuid": f"u{number}", "sessionId": "s", "message": message}
        )
    content = [{"type": "input_text", "text": f"{number}{text}"}]
    payload = {"type": "message", "role": "user", "content": content}
    return json.dumps({"type": "response_item", "payload": payload})


@pytest.mark.parametrize("tool", ["claude-code", pytest.param("codex", marks=pytest.mark.long)])
def test_a_line_of_50_mb_is_one_record_in_bounded_memory(tool: str, tmp_path: Path) -> None:
    """A line of 50 MB between small ones is imported; one of 80 MB is a fault."""
    path = tmp_path / "s.jsonl"
    with path.open("w") as file:
        for number, size in enumerate((1, 50_000_000, 1, 80_000_000, 1)):
            file.write(big_line(tool, number, size) + "\n")
    child = script(
        """
        import sys, resource
        from pathlib import Path
        from eventlog import open_store
        from eventlog.importing import import_transcripts
        from eventlog.sources import load_sources
        source = load_sources()[sys.argv[1]]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with open_store(sys.argv[3]) as store:
            account = import_transcripts(store, source, [Path(sys.argv[2])])
            faults = [(fault.line, fault.kind) for fault in account.faults]
            print(account.records.found, account.records.mapped, faults, account.adds_up)
            print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
        """,
        tool,
        path,
        f"jsonl:{tmp_path}/store",
    )
    summary, memory_mib = output(child).splitlines()

    assert "5 4 [(4, 'oversize')] True" == summary
    assert int(memory_mib) < 500
