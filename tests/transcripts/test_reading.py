"""Finding files, and reading lines, documents and frames, whatever they hold."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog import values
from eventlog.drivers.transcripts.documents import read_document, record_of
from eventlog.drivers.transcripts.finding import find_files, id_from_name
from eventlog.drivers.transcripts.json_text import read_object
from eventlog.drivers.transcripts.records import read_records
from eventlog.drivers.transcripts.times import iso_ms
from eventlog.errors import CorruptLog, ValueRejected
from eventlog.sources import RecordTally, Transcript, load_sources
from support.processes import output, script


def names(path: Path) -> list[str]:
    found = find_files(path, lambda _folder, _names, name: name.endswith(".jsonl"))
    return [entry.path.name for entry in found if isinstance(entry, Transcript)]


def test_files_are_found_in_an_order_of_their_own(tmp_path: Path) -> None:
    """By path, files before folders, however they were made; links to folders are not followed."""
    for name in ("b/2", "a/3", "z", "b/1", "A"):
        path = tmp_path / f"{name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (tmp_path / "b" / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "folder.jsonl").mkdir()

    assert ["A.jsonl", "z.jsonl", "3.jsonl", "1.jsonl", "2.jsonl"] == names(tmp_path)
    assert ["z.jsonl"] == names(tmp_path / "z.jsonl")
    assert [] == names(tmp_path / "absent")


def test_a_link_to_nothing_is_named(tmp_path: Path) -> None:
    """A dangling link is unreadable, and the walk goes on."""
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    (tmp_path / "here.jsonl").touch()
    found = list(find_files(tmp_path, lambda _folder, _names, _name: True))

    assert ["unavailable", None] == [getattr(entry, "kind", None) for entry in found]


@pytest.mark.parametrize(
    "name", ["s", "with space", "é", "a" * 400, "日" * 200, "x\x1b[31m", "", "\udcff"]
)
def test_any_file_name_gives_a_session_id(name: str) -> None:
    """What no id can hold is replaced, and what is too long is cut at a character."""
    values.check_session_id(id_from_name(name))


def lines_of(path: Path) -> tuple[list[object], RecordTally]:
    tally = RecordTally()
    found = [record.value.get("n") for record in read_records(path, tally)]
    return found, tally


def test_lines_end_at_line_feeds_only(tmp_path: Path) -> None:
    """U+2028, U+0085, form feeds and carriage returns are text, or white space."""
    text = "a\u2028b\u2029c\u0085d\x0be\x0cf"
    content = json.dumps({"n": text}, ensure_ascii=False) + "\r\n"
    path = tmp_path / "s.jsonl"
    path.write_bytes(content.encode() + b"\n  \n" + b'{"n":2}')
    found, tally = lines_of(path)

    assert [text, 2] == found
    assert (2, 0) == (tally.found, tally.refused)


def test_a_last_line_without_its_newline_counts_if_it_is_whole(tmp_path: Path) -> None:
    """A tool may be writing it: a whole object is a record, a part of one is torn."""
    path = tmp_path / "s.jsonl"
    whole = b'{"n":{"deep":[1,2,{"x":"}"}]}}'
    for size in range(1, len(whole) + 1):
        path.write_bytes(b'{"n":1}\n' + whole[:size])
        found, tally = lines_of(path)
        if size == len(whole):
            assert (2, 0) == (len(found), tally.refused)
        else:
            assert (1, ["torn"]) == (len(found), [fault.kind for fault in tally.faults])


def containers(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters())


@given(st.recursive(scalars, containers, max_leaves=12))
def test_what_is_read_is_what_every_store_takes(value: object) -> None:
    """Whatever a program wrote as JSON comes back acceptable, the exact text beside it."""
    text = json.dumps({"value": value})
    parsed = read_object(text.encode())
    values.encode(parsed.value)

    assert parsed.raw in (None, text)
    if parsed.raw is None:
        assert values.parse(text.encode()) == parsed.value == {"value": value}
    else:
        with pytest.raises(ValueRejected):
            values.parse(text.encode())


def test_a_key_that_stands_twice_counts_as_its_last(tmp_path: Path) -> None:
    """The programs that wrote it read it so; the exact text is kept."""
    parsed = read_object(b'{"a":1,"b":{"c":1,"c":2},"a":3}')

    assert ({"a": 3, "b": {"c": 2}}, "a") == (parsed.value, parsed.doubled_key)
    assert '{"a":1,"b":{"c":1,"c":2},"a":3}' == parsed.raw


@pytest.mark.parametrize("content", [b"", b"  \n", b"\0\0\0", b"nope", b"7", b'"text"', b"{"])
def test_a_document_of_nothing_is_refused(content: bytes, tmp_path: Path) -> None:
    """Empty files, NULs and bare values hold no records; one that only begins holds none yet."""
    path = tmp_path / "s.json"
    path.write_bytes(content)
    if content == b"{":
        document = read_document(path)
        assert ({}, "torn") == (document.value, document.fault and document.fault.kind)
        return
    with pytest.raises(CorruptLog):
        read_document(path)


def test_a_damaged_document_gives_what_stands_before(tmp_path: Path) -> None:
    """Elements before the damage are read, the fault has its offset."""
    text = '{"id":"x","messages":[{"n":1},{"n":2},{"n":oops},{"n":4}],"more":1}'
    path = tmp_path / "s.json"
    path.write_text(text)
    document = read_document(path)

    assert {"id": "x", "messages": [{"n": 1}, {"n": 2}]} == document.value
    assert document.fault is not None
    assert ("malformed", text.index('{"n":oops')) == (
        document.fault.kind,
        document.fault.offset_bytes,
    )


def test_a_record_of_a_document_is_cleaned_alone(tmp_path: Path) -> None:
    """One element holds what no log can: its exact value is kept as JSON, the other stays."""
    path = tmp_path / "s.json"
    path.write_text('[{"t":"\\ud83d","n":NaN,"big":18446744073709551616},{"t":"fine"}]')
    tally = RecordTally()
    value = read_document(path).value
    records = [record_of(item, str(place), path, tally) for place, item in enumerate(value)]

    assert [{"t": "�", "n": "NaN", "big": "18446744073709551616"}, {"t": "fine"}] == [
        record.value for record in records if record is not None
    ]
    assert (2, 1) == (tally.found, tally.altered)
    assert records[0] is not None
    assert '{"t": "\\ud83d", "n": NaN, "big": 18446744073709551616}' == records[0].raw
    assert records[1] is not None
    assert records[1].raw is None


def test_a_zstd_bomb_is_read_in_bounded_memory(tmp_path: Path) -> None:
    """A gigabyte of one letter in a small file: its line is too long, and memory stays small."""
    zstandard = pytest.importorskip("zstandard")
    compressor = zstandard.ZstdCompressor().compressobj()
    path = tmp_path / "s.jsonl.zst"
    with path.open("wb") as file:
        file.write(compressor.compress(b'{"n":1}\n'))
        for _ in range(1_000):
            file.write(compressor.compress(b"x" * 1_000_000))
        file.write(compressor.compress(b'\n{"n":2}\n') + compressor.flush())
    assert path.stat().st_size < 200_000
    child = script(
        """
        import resource, sys
        from pathlib import Path
        from eventlog.drivers.transcripts.records import read_records
        from eventlog.sources import RecordTally
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        tally = RecordTally()
        print([record.value for record in read_records(Path(sys.argv[1]), tally)])
        print([(fault.kind, fault.line) for fault in tally.faults])
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
        """,
        path,
    )
    records, faults, memory_mib = output(child).splitlines()

    assert ("[{'n': 1}, {'n': 2}]", "[('oversize', 2)]") == (records, faults)
    assert int(memory_mib) < 250


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-02-05T11:24:45.292853", 1770290685292),
        ("2026-02-05T11:24:45.292+02:00", 1770283485292),
        ("1969-12-31T23:59:59.999Z", -1),
        ("yesterday", None),
        (5, None),
        (None, None),
    ],
)
def test_times(text: object, time: int | None) -> None:
    """ISO texts of every kind, to the millisecond; what is none gives none."""
    assert time == iso_ms(text)


def test_every_source_has_a_name_a_title_and_places() -> None:
    """Sources are found by their entry points; their places follow the home folder."""
    sources = load_sources()

    assert {
        "claude-code", "codex", "gemini-cli", "openhands", "swe-agent", "opencode", "pi",
        "qwen-code", "dsh", "chat-completions", "responses",
    } <= set(sources)  # fmt: skip
    for name, source in sources.items():
        assert name == source.name
        assert source.title
        for place in source.usual_places({"HOME": os.sep + "home"}):
            assert place.is_relative_to(os.sep + "home")
