"""``list``, ``show``, ``read``, ``surface``, ``trace`` and ``lineage`` over real stores."""

import os
from pathlib import Path

import attrs
import pytest

from eventlog import Event, SessionHeader, open_store
from eventlog.query import (
    EventDocument,
    EventRecord,
    EventTrace,
    EventWindow,
    LineageTrace,
    Page,
    SessionRecord,
    SurfaceSnapshot,
)
from eventlog.query.cli import main
from support import log_only, make_header, messages, replacement
from support.cli import Run
from support.processes import need_other_users


def fill(url: str) -> None:
    """Three sessions: one compacted, one its child, one alone and newer."""
    with open_store(url) as store:
        store.append(
            make_header("s-one", created_at=1_000, cwd="/work"),
            [*messages(4), log_only(4), replacement(5, 0, 2, [0, 1, 2])],
        )
        store.append(
            make_header("s-two", created_at=2_000, parent_session="s-one", seed_length=2),
            messages(3),
        )
        store.append(make_header("other", created_at=3_000), messages(1))


def names(kind: type) -> set[str]:
    """The fields of a record's class."""
    return {field.name for field in attrs.fields(kind)}


HEADER_NAMES = {*names(SessionHeader), "extra"} - {"extra_payload"}
EVENT_NAMES = {*names(Event), "data"} - {"payload"}


def test_list_is_newest_first_with_titles(run: Run, url: str) -> None:
    """A person sees each session with what its user said first."""
    fill(url)

    result = run("list")

    assert 0 == result.code
    assert ["SESSION", "other", "s-two", "s-one"] == [
        line.split()[0] for line in result.out.splitlines()
    ]
    assert "text 0" in result.out


def test_list_prints_the_fields_of_the_records(run: Run, url: str) -> None:
    """The JSON of a list is one document with the names that Python has."""
    fill(url)

    page = run("list", "--json", "--limit", "2").json
    rest = run("list", "--json", "--cursor", page["next_cursor"]).json

    assert names(Page) == page.keys()
    assert names(SessionRecord) == page["items"][0].keys()
    assert HEADER_NAMES == page["items"][0]["header"].keys()
    ids = [item["header"]["id"] for item in page["items"] + rest["items"]]
    assert ["other", "s-two", "s-one"] == ids


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--cwd", "/work"], ["s-one"]),
        (["--roots"], ["other", "s-one"]),
        (["--parent", "s-one"], ["s-two"]),
        (["--since", "1970-01-01T00:00:02Z"], ["other", "s-two"]),
        (["--until", "1970-01-01T00:00:02+00:00"], ["s-two", "s-one"]),
        (["--since", "7d"], []),
    ],
)
def test_list_takes_filters(run: Run, url: str, options: list[str], expected: list[str]) -> None:
    """Each filter narrows the list; none left is exit code 1 and an empty document."""
    fill(url)

    result = run("list", "--json", *options)

    assert expected == [item["header"]["id"] for item in result.json["items"]]
    assert (0 if expected else 1) == result.code


def test_an_empty_store_is_said_and_not_created(run: Run, url: str, tmp_path: Path) -> None:
    """Looking creates nothing; the answer is one line and exit code 1."""
    for command in (["list"], ["show", "x"], ["read", "x", "0"], ["trace", "x", "0"]):
        result = run(*command)

        assert (1, "") == (result.code, result.out)
        assert 1 == result.err.count("\n")
    assert not (tmp_path / "store").exists()


def test_h12_a_front_of_an_id_is_taken_only_where_it_is_one(run: Run, url: str) -> None:
    """
    A lookup of an unknown id once returned another session, or began a new one. The front
    of an id is taken by the command line only, only where it is the front of one, and it
    says so; an exact id wins over longer ones.
    """
    with open_store(url) as store:
        for session_id in ("abcd", "abce", "abcdef", "zzz"):
            store.append(make_header(session_id), messages(1))

    exact, front = run("show", "abcd"), run("show", "abce")
    several, unknown = run("show", "abc"), run("show", "abcdx")
    short = run("show", "z")

    assert [0, 0, 2, 1, 0] == [r.code for r in (exact, front, several, unknown, short)]
    assert exact.out.startswith("abcd\n")
    assert "" == exact.err
    assert several.err == ("eventlog: several sessions begin with 'abc': abcd, abcdef, abce\n")
    assert short.out.startswith("zzz\n")
    assert "eventlog: 'z' is the front of session zzz\n" == short.err
    assert 4 == len(run("list", "--json").json["items"])


def test_show_reads_as_a_conversation(run: Run, url: str) -> None:
    """Roles, texts and compactions stand in order; what was replaced says by what."""
    fill(url)

    out = run("show", "s-one").out

    assert out.index("text 0") < out.index("compacted") < out.index("summary 5")
    assert "replaced by #5" in out
    assert "x/note" not in out
    assert "x/note" in run("show", "s-one", "--log").out
    assert "inherited" in run("show", "s-two").out


def test_show_prints_documents(run: Run, url: str) -> None:
    """The JSON is one document: the session's record, and documents of the query layer."""
    fill(url)

    shown = run("show", "s-one", "--json", "--class", "shadowed").json

    assert names(SessionRecord) == shown["session"].keys()
    assert names(EventDocument) == shown["documents"][0].keys()
    assert [0, 1, 2] == [document["seq"] for document in shown["documents"]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--last", "2"], [3, 5]),
        (["--all"], [0, 1, 2, 3, 5]),
        (["--from", "1", "--to", "3"], [1, 2, 3]),
        (["--text", "SUMMARY  5"], [5]),
        (["--class", "current"], [3, 5]),
        (["--class", "current", "--class", "shadowed", "--last", "4"], [1, 2, 3, 5]),
        (["--type", "user/message", "--to", "0"], [0]),
        (["--text", "nowhere"], []),
    ],
)
def test_show_takes_filters(run: Run, url: str, options: list[str], expected: list[int]) -> None:
    """Filters, the newest few and all of it: each gives the same as text and as JSON."""
    fill(url)

    result = run("show", "s-one", "--json", *options)

    assert expected == [document["seq"] for document in result.json["documents"]]
    assert (0 if expected else 1) == result.code
    text = run("show", "s-one", *options).out
    assert all(f"#{seq}  " in text for seq in expected)


def test_show_reads_only_the_newest(run: Run, url: str) -> None:
    """A long session is shown from its end, and says that there is more."""
    with open_store(url) as store:
        store.append(make_header("long"), messages(5_000))

    out = run("show", "long", "--last", "3").out

    assert ["text 4997", "text 4998", "text 4999"] == [
        line.strip() for line in out.splitlines() if "text" in line
    ]
    assert "earlier events" in out


def test_read_prints_a_window(run: Run, url: str) -> None:
    """One event comes whole with its neighbours, and its class."""
    fill(url)

    window = run("read", "s-one", "2", "--before", "1", "--after", "9", "--json").json
    text = run("read", "s-one", "2").out

    assert names(EventWindow) == window.keys()
    assert EVENT_NAMES == window["target"].keys()
    assert (1, 5) == (window["start_seq"], window["end_seq"])
    assert {"op": "replace", "start": 0, "end": 2} == window["events"][-1]["surface_op"]
    assert "text 2" in text
    assert "shadowed" in text


def test_an_event_that_is_not_there_is_exit_code_1(run: Run, url: str) -> None:
    """An unknown seq is told from an unknown session, in one line."""
    fill(url)

    for command in ("read", "trace"):
        result = run(command, "s-one", "6")
        assert (1, "") == (result.code, result.out)
        assert "has no event 6; it has 6" in result.err


def test_surface_is_what_the_model_sees(run: Run, url: str) -> None:
    """The nodes come in surface order, now or as of a length."""
    fill(url)

    now = run("surface", "s-one", "--json").json
    before = run("surface", "s-one", "--at", "3", "--json").json

    assert names(SurfaceSnapshot) == now.keys()
    assert [5, 3] == [event["seq"] for event in now["events"]]
    assert [0, 1, 2] == [event["seq"] for event in before["events"]]
    rows = run("surface", "s-one").out.splitlines()[1:]
    assert ["5", "3"] == [row.split()[0] for row in rows]
    assert 1 == run("surface", "s-one", "--at", "0").code
    assert 2 == run("surface", "s-one", "--at", "99").code


def test_trace_names_what_became_of_an_event(run: Run, url: str) -> None:
    """Sources, replacer and stand-in are named."""
    fill(url)

    trace = run("trace", "s-one", "1", "--json").json
    text = run("trace", "s-one", "1").out

    assert names(EventTrace) == trace.keys()
    assert names(EventRecord) == trace["target"].keys()
    assert (5, 5, [5]) == (
        trace["replaced_by"],
        trace["current_seq"],
        trace["derived_event_seqs"],
    )
    assert "replaced by #5 user/message  summary 5" in text
    assert "replaced    #0, #1, #2" in run("trace", "s-one", "5").out


def test_lineage_is_drawn(run: Run, url: str) -> None:
    """Ancestors stand above, descendants below, siblings on one stem."""
    with open_store(url) as store:
        for number, (name, parent) in enumerate(
            [("a", "gone"), ("b", "a"), ("c", "b"), ("d", "c"), ("e", "b"), ("f", "e")]
        ):
            header = make_header(name, created_at=number, parent_session=parent)
            store.append(header, messages(1))

    lineage = run("lineage", "b", "--json").json
    drawn = [line.split("  1970")[0] for line in run("lineage", "b").out.splitlines()]

    assert names(LineageTrace) == lineage.keys()
    assert {"record", "parent_id", "depth"} == lineage["descendants"][0].keys()
    assert [
        "gone is not in the store",
        "└─ a",
        "   └─ b",
        "      ├─ c",
        "      │  └─ d",
        "      └─ e",
        "         └─ f",
    ] == drawn


def test_the_store_is_found(
    run: Run, data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--store wins over EVENTLOG_STORE, which wins over the store in the data folder."""
    places = [f"lmdb:{data_folder / 'eventlog' / 'store'}", f"jsonl:{tmp_path / 'b'}"]
    for number, place in enumerate(places):
        with open_store(place) as store:
            store.append(make_header(f"s{number}"), messages(1))

    def listed(*options: str) -> list[str]:
        return [item["header"]["id"] for item in run("list", "--json", *options).json["items"]]

    assert ["s0"] == listed()
    monkeypatch.setenv("EVENTLOG_STORE", places[1])
    assert ["s1"] == listed()
    assert ["s0"] == listed("--store", places[0])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["list", "--store", "nonsense"], 2),
        (["list", "--store", "nosuch:/x"], 2),
        (["list", "--limit", "0"], 2),
        (["list", "--cursor", "none of ours"], 2),
        (["list", "--since", "yesterday"], 2),
        (["show"], 2),
        (["show", ""], 2),
        (["show", "a\nb"], 1),
        (["read", "s-one", "-1"], 2),
        (["read", "s-one", "x"], 2),
        (["read", "s-one", "0", "--before", "51"], 2),
        (["surface", "s-one", "--at", "-1"], 2),
        (["show", "s-one", "--from", "3", "--to", "1"], 2),
        (["show", "s-one", "--text", " "], 2),
        (["unknown"], 2),
        (["list", "--unknown"], 2),
        (["copy", "lmdb:/nowhere"], 2),
    ],
)
def test_a_wrong_call_is_one_line(run: Run, url: str, arguments: list[str], code: int) -> None:
    """Whatever is wrong with a call, it ends in one clear line and no answer."""
    fill(url)

    result = run(*arguments)

    assert (code, "") == (result.code, result.out)
    assert result.err.startswith("eventlog: ")
    assert 1 == result.err.count("\n")


def test_a_store_that_cannot_be_read_is_exit_code_4(run: Run, tmp_path: Path) -> None:
    """A path that is no store is neither empty nor damaged, and says what it is."""
    (tmp_path / "file").write_text("not a folder")

    for scheme in ("lmdb", "jsonl"):
        result = run("list", "--store", f"{scheme}:{tmp_path / 'file'}")

        assert (4, "") == (result.code, result.out)
        assert "file" in result.err
        assert 1 == result.err.count("\n")


def test_j4_damage_is_exit_code_3_and_the_rest_is_listed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    One bad file once made a whole store look empty. The sound sessions are listed, the
    others named with what is wrong, and the exit code says that there is damage.
    """
    monkeypatch.setenv("EVENTLOG_STORE", f"jsonl:{tmp_path / 'logs'}")
    with open_store(os.environ["EVENTLOG_STORE"]) as store:
        for name in ("good", "header", "middle"):
            store.append(make_header(name), messages(40))
    (tmp_path / "logs" / "header.jsonl").write_bytes(b"{broken\n")
    damaged = (tmp_path / "logs" / "middle.jsonl").read_bytes().splitlines(keepends=True)
    damaged[5] = b"\x00" * (len(damaged[5]) - 1) + b"\n"
    (tmp_path / "logs" / "middle.jsonl").write_bytes(b"".join(damaged))

    listed, as_json = run("list"), run("list", "--json")

    assert [3, 3] == [listed.code, as_json.code]
    assert "good" in listed.out
    assert "header.jsonl" in listed.err
    assert ["good", "middle"] == [item["header"]["id"] for item in as_json.json["items"]]
    assert 1 == len(as_json.json["faults"])
    assert [0, 3, 3] == [run("show", name).code for name in ("good", "header", "middle")]
    assert 0 == run("read", "middle", "30").code
    assert 3 == run("read", "middle", "4").code
    assert "line 6" in run("read", "middle", "4").err


def test_j4_a_denied_file_is_named_and_the_rest_is_listed(
    data_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """
    One file of another owner once stopped every list. Seen by a user who may not read it,
    the other sessions are listed, the path is named, and the exit code says so.
    """
    need_other_users()
    logs = tmp_path / "logs"
    with open_store(f"jsonl:{logs}") as store:
        for name in ("a", "b", "c"):
            store.append(make_header(name), messages(1))
    (logs / "b.jsonl").chmod(0)
    for path in (*logs.glob("[ac].jsonl"), logs, *list(logs.parents)[:-1]):
        if os.geteuid() == 0:
            path.chmod(path.stat().st_mode | 0o055)
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgid(65_534)
                os.setuid(65_534)
            os._exit(main(["list", "--store", f"jsonl:{logs}"]))
        finally:
            os._exit(99)

    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    out, err = capfd.readouterr()
    assert 3 == code
    assert f"eventlog: denied: permission denied: {logs / 'b.jsonl'}\n" == err
    assert ["a", "c"] == [line.split()[0] for line in out.splitlines() if "text 0" in line]


def test_help_has_examples(run: Run) -> None:
    """Every command says what it does and shows how it is called."""
    root = run("--help")
    commands = [line.split()[0] for line in root.out.split("Commands:")[1].splitlines()[1:11]]

    assert 0 == root.code
    assert "list" in commands
    for command in commands:
        result = run(command, "--help")
        assert 0 == result.code
        assert "Examples:\n" in result.out
        assert f"eventlog {command}" in result.out.split("Examples:")[1]


def test_no_command_is_answered_with_help(run: Run) -> None:
    """Called bare, it says what there is, on standard error, as a wrong call."""
    result = run()

    assert (2, "") == (result.code, result.out)
    assert "Commands:\n  list " in result.err


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("lst", "is it list?"),
        ("serach text", "is it search?"),
        ("--store memory: list", "options stand behind it"),
        ("--json list", "options stand behind it"),
        ("read s1 first", "must be a whole number, 0 or more, not 'first'"),
        ("read s1 0 --before 51", "must be a whole number, 0 to 50, not 51"),
        ("read s1 1_0", "must be a whole number"),
        ("show -dash", "an argument that begins with - stands behind --"),
    ],
)
def test_a_wrong_call_is_told_how_it_goes(run: Run, url: str, command: str, hint: str) -> None:
    """What a person most likely meant is said, on one line."""
    result = run(*command.split())

    assert (2, "", 1) == (result.code, result.out, result.err.count("\n"))
    assert hint in result.err


def test_a_session_without_a_conversation(run: Run, url: str) -> None:
    """Where there is nothing to show, show says what there is."""
    with open_store(url) as store:
        store.append(make_header("s1"), [log_only(0)])
        store.append(make_header("-dash"), messages(1))
    result = run("show", "s1")

    assert 1 == result.code
    assert "--log shows its events" in result.err
    assert 0 == run("show", "s1", "--log").code
    assert 0 == run("show", "--", "-dash").code
