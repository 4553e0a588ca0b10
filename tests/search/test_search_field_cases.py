"""Faults that people met in search, by their number; the rest stands where it belongs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog import EventStore
from eventlog.query import ScanProvider, SessionQuery, SessionQueryErrorCode
from eventlog.query.search.excerpts import excerpt
from eventlog.query.search.parsing import parse
from eventlog.vocabulary import DEFAULT_VOCABULARY
from support import make_header, replacement
from support.query import event, raises, said
from support.searching import filled, found, sessions_found

Code = SessionQueryErrorCode


@pytest.fixture(params=["index", "scan"])
def query(request: pytest.FixtureRequest, memory: EventStore) -> SessionQuery:
    """Queries over *memory*, with an index and without."""
    provider = ScanProvider(DEFAULT_VOCABULARY) if request.param == "scan" else None
    return SessionQuery(store=memory, search=provider)


@pytest.mark.parametrize("typed", ["so du cuoi ky", "Số dư Cuối kỳ", "SỐ DƯ", "số dư"])
def test_b10_accents_and_normal_forms(memory: EventStore, query: SessionQuery, typed: str) -> None:
    """
    B10: half-remembered words with or without accents, or in another normal form, did not
    match. Case and accents are folded, for the search alone: the text stays as it is.
    """
    filled(memory, ["Số dư Cuối kỳ", "Cafe\u0301"])

    assert 0 == found(query, typed)[0]
    for cafe in ("café", "CAFÉ", "cafe", "Cafe\u0301", "cafe\u0301"):
        assert [1] == found(query, cafe)
    assert "Cafe\u0301" == query.search_events("s1", "café").items[0].excerpt


SIGNS = [
    "can't", "re-entrant", "lib/io.py", "key:value", "C++", "50%", "x^2", "NEAR(", "AND",
    'a"b', "*", "OR NOT", "body:x", "{a b}", "(", ")", '"', "'", ";--", "a*", "^a", "-a", "\\",
]  # fmt: skip


@pytest.mark.parametrize("typed", SIGNS)
def test_h1_what_a_user_types_is_no_syntax(
    memory: EventStore, query: SessionQuery, typed: str
) -> None:
    """
    H1: an apostrophe, a slash or a hyphen in the search text was a syntax error. Each finds
    its event, and none is read as a part of the engine's language.
    """
    filled(memory, [f"before {sign} behind" for sign in SIGNS])

    assert SIGNS.index(typed) in found(query, typed, limit=50)


@pytest.mark.parametrize("blank", ["", "   ", "\t\n"])
def test_h1_a_blank_query(memory: EventStore, query: SessionQuery, blank: str) -> None:
    """H1: a blank query lists the newest events of a session, and is refused for many."""
    filled(memory, ["a", "b"])

    assert [1, 0] == found(query, blank)
    with raises(Code.INVALID_QUERY):
        SessionQuery(store=memory).search_sessions(blank)


def test_h3_chinese_and_glued_identifiers(memory: EventStore, query: SessionQuery) -> None:
    """
    H3: a Chinese sentence was one word, and nothing inside it could be found. Every part
    of it is found, from one character on, and what does not stand there is not.
    """
    first, second = "昨天我们决定推迟上线日期", "先跑lint-check然后提交"
    filled(memory, [first, second])

    for start in range(len(first)):
        for stop in range(start + 1, min(start + 5, len(first) + 1)):
            assert [0] == [
                hit.seq
                for hit in query.search_events("s1", first[start:stop]).items
                if hit.score >= 5
            ]
    assert [] == found(query, "雨")
    assert [1] == found(query, "lint")
    assert [1] == found(query, "跑lint")
    assert [1] == found(query, "check然")


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("東京タワーへ行きました", "タワー"),
        ("東京タワーへ行きました", "行きま"),
        ("데이터베이스를 다시 만들었다", "베이스"),
        ("Tôi đã sửa lỗi đăng nhập", "dang nhap"),
        ("ｶﾀｶﾅ", "カタカナ"),
        ("full ｗｉｄｔｈ", "width"),
    ],
)
def test_h3_other_scripts(memory: EventStore, query: SessionQuery, text: str, typed: str) -> None:
    """H3: Japanese, Korean and Vietnamese are found by their parts, too."""
    filled(memory, [text, "something else"])

    assert [0] == found(query, typed)


def test_h4_control_characters_in_a_query(memory: EventStore, query: SessionQuery) -> None:
    """
    H4: a NUL in the query was no error for the engine, which quietly searched for what
    stood before it. It parts words like any sign; what is too long or no text is refused.
    """
    filled(memory, ["x a\x00b y", "a only", "other \uffff"])

    assert 0 == found(query, "a\x00b")[0]
    assert [2] == found(query, "\uffff")
    assert [] == found(query, "\x00\uffff")
    for typed in ("half \ud83d", "x" * 1_000_000):
        with raises(Code.INVALID_QUERY):
            query.search_events("s1", typed)


def test_b4_text_behind_a_nul_is_found(memory: EventStore, query: SessionQuery) -> None:
    """B4: output in UTF-16 left NULs in the text, and what stood behind them was not found."""
    filled(memory, ["D\x00i\x00r\x00 done"])

    assert [0] == found(query, "done")


def test_g5_progress_noise_is_not_ranked(memory: EventStore, query: SessionQuery) -> None:
    """
    G5: a dozen messages were hidden among 35,500 lines of progress. Events without text
    are not searched; the messages are found.
    """
    chunk = {"turn": 1, "step": 1, "chunk": {"type": "text-delta", "index": 0, "text": "needle"}}
    events = [event(seq, "assistant/chunk", chunk) for seq in range(3_000)]
    for seq in range(0, 3_000, 250):
        events[seq] = said(seq, "user", f"needle {seq}")
    memory.append(make_header("s1"), events)

    page = query.search_events("s1", "needle", limit=50)

    assert {*range(0, 3_000, 250)} == {hit.seq for hit in page.items}
    assert 12 == page.searched


def test_b8_an_excerpt_has_no_half_character() -> None:
    """
    B8: a label was cut in the middle of an emoji, and the whole history could not be
    loaded. Excerpts are cut between characters, within their cap, and say that they are.
    """
    text = "x" * 239 + "🔑🔑"
    assert not excerpt(text, parse("x")).truncated
    for cap in range(1, 21):
        part = excerpt("日本語🔑", parse("語"), bytes_max=cap)
        assert len(part.text.encode()) <= cap
        assert part.text in "日本語🔑"
        assert part.truncated == (part.text != "日本語🔑")
    cut = excerpt(text, parse("zz"), bytes_max=240)
    assert ("x" * 239, True) == (cut.text, cut.truncated)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from(["needle", "é", "日本", "🔑", "e\u0301", "word ", " ", "1,284"]))
    .map("".join)
    .filter(bool),
    st.sampled_from(["needle", "é word", "日本", "1284", "neddle", "🔑"]),
    st.integers(1, 60),
)
def test_b8_excerpts_of_any_text(text: str, typed: str, cap: int) -> None:
    """Any excerpt is a part of its text, within its cap, with its highlights inside."""
    part = excerpt(text, parse(typed), bytes_max=cap)

    assert text[part.start : part.start + len(part.text)] == part.text
    assert len(part.text.encode()) <= cap
    assert part.truncated == (len(part.text) < len(text))
    last = 0
    for start, stop in part.highlights:
        assert last <= start < stop <= len(part.text)
        last = stop


def test_an_excerpt_is_centred_on_the_match() -> None:
    """The match stands inside the excerpt, its words marked, however long the text is."""
    for place in (0, 500, 50_000, 99_000):
        text = ("filler word " * 10_000)[:place] + "the needle here " + "filler word " * 100
        part = excerpt(text, parse("needle here"), bytes_max=200)

        assert "needle here" in part.text
        marked = [part.text[start:stop] for start, stop in part.highlights]
        assert ["needle", "here"] == marked


def test_a_long_text_that_fits_is_marked_where_its_words_stand() -> None:
    """
    An excerpt that may hold all of a long text had its marks where the words stand in the
    part of it that was searched, not in the text.
    """
    text = "filler word " * 1_000 + "needle " + "filler word " * 100

    part = excerpt(text, parse("needle"), bytes_max=len(text))

    assert (text, False) == (part.text, part.truncated)
    assert ["needle"] == [part.text[start:stop] for start, stop in part.highlights]


def test_an_excerpt_shows_other_spellings() -> None:
    """What a misspelled word was taken for is marked like the word itself."""
    part = excerpt("a note on the database", parse("databse note"))

    assert ["note", "database"] == [part.text[start:stop] for start, stop in part.highlights]


def test_the_densest_part_is_shown() -> None:
    """Of two places the one with more of the words is shown."""
    text = "alpha " + "filler " * 300 + "alpha bravo charlie " + "filler " * 300
    part = excerpt(text, parse("charlie alpha bravo"), bytes_max=120)

    assert "alpha bravo charlie" in part.text


def test_f12_and_compaction_together(memory: EventStore) -> None:
    """F12: what a fork inherited and compacted is the parent's to show, the summary its own."""
    filled(memory, ["needle one", "needle two"], "p", created_at=1)
    inherited = memory.snapshot("p").read(0, 2)
    header = make_header("c", created_at=2, parent_session="p", seed_length=2)
    memory.append(header, [*inherited, replacement(2, 0, 1, [0, 1])])
    query = SessionQuery(store=memory)

    assert ["p"] == sessions_found(query, "needle")
    assert ["c"] == sessions_found(query, "summary")
