"""Cutting text without halves, and showing it without harm."""

import json
from unicodedata import bidirectional, category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.errors import InvalidArgument
from eventlog.query.text import Cut, cut_bytes, cut_characters, escape_json, one_line, visible

# Every code point, lone surrogates too, with those that do harm drawn often.
HARMFUL = "\x00\x07\x08\r\x1b\x7f\x80\x9b\x9d\u202e\u2066\u200b\ufeff\ud800\udcb2\U000e0041"
ANY_TEXT = st.text(st.characters() | st.sampled_from(HARMFUL), max_size=60)
OVERRIDES = "LRE RLE LRO RLO PDF LRI RLI FSI PDI".split()
FAMILY = "👩\u200d👩\u200d👧"


def test_b8_no_half_character_at_any_byte_cap() -> None:
    """
    A title cut in the middle of an emoji once made a whole history unloadable. At every
    cap the front is whole characters, as many as fit, and says whether it was cut.
    """
    text = "日本語🔑"
    expected = {1: "", 2: "", 3: "日", 6: "日本", 9: "日本語", 13: "日本語🔑"}

    for cap in range(1, 21):
        fitting = expected[max(known for known in expected if known <= cap)]
        assert Cut(fitting, cap < 13) == cut_bytes(text, cap)


def test_b8_a_snippet_of_240_characters_ends_at_a_character() -> None:
    """A cap counted in characters keeps the emoji that ends on it, whole."""
    text = "x" * 239 + "🔑🔑"

    assert Cut("x" * 239 + "🔑", True) == cut_characters(text, 240)
    assert Cut(text, False) == cut_characters(text, 241)
    assert Cut("x" * 239, True) == cut_bytes(text, 240)
    assert Cut("x" * 239 + "🔑", True) == cut_bytes(text, 243)


@pytest.mark.parametrize(
    "cluster",
    ["e\u0301", "👍🏽", FAMILY, "🇯🇵", "각", "\u1112\u1161\u11ab", "❤\ufe0f", "நி", "\r\n"],
    ids=ascii,
)
def test_a_cluster_stays_whole_or_goes_whole(cluster: str) -> None:
    """What a reader takes for one character is never parted while something else fits."""
    text = f"ab{cluster}c"

    for cap in range(2, 2 + len(cluster)):
        assert Cut("ab", True) == cut_characters(text, cap)
    assert Cut(f"ab{cluster}", True) == cut_characters(text, 2 + len(cluster))


def test_flags_are_cut_between_pairs() -> None:
    """A row of flags is cut between flags, not between the letters of one."""
    assert Cut("🇯🇵🇩🇪", True) == cut_characters("🇯🇵🇩🇪🇫🇷", 5)


def test_a_cluster_longer_than_the_cap_is_cut_inside() -> None:
    """A cap below the first cluster still gives something, and whole code points."""
    assert Cut("👩", True) == cut_bytes(FAMILY, 4)
    assert Cut("e" + "\u0301" * 9, True) == cut_characters("e" + "\u0301" * 5_000, 10)


@given(ANY_TEXT, st.integers(0, 70))
def test_a_cut_is_the_front_within_its_cap(text: str, cap: int) -> None:
    """Every cut is valid UTF-8, a front of the text, within the cap, and whole if it fits."""
    clean = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    for cut, size in (
        (cut_characters(clean, cap), len(clean)),
        (cut_bytes(clean, cap), len(clean.encode())),
    ):
        assert clean.startswith(cut.text)
        assert (size > cap) == cut.truncated
    assert len(cut_characters(text, cap).text) <= cap
    assert len(cut_bytes(text, cap).text.encode()) <= cap


@pytest.mark.parametrize("cap", [-1, 1.0, True, None])
def test_a_cap_is_an_int(cap: object) -> None:
    """A cap that counts nothing is refused."""
    for cut in (cut_characters, cut_bytes):
        with pytest.raises(InvalidArgument):
            cut("text", cap)  # type: ignore[arg-type]


def test_what_acts_is_shown() -> None:
    """Colours, cursor moves, titles, C1 and overrides appear as escapes, text stays."""
    text = "\x1b[31mred\x9b2J\x07 \u202eevil\r\n日本語\tтекст \\x1b end\r"

    assert "\\x1b[31mred\\x9b2J\\x07 \\u202eevil\n日本語\tтекст \\x1b end\\x0d" == visible(text)


def test_emoji_and_persian_keep_their_joiners() -> None:
    """The joiners that scripts and emoji need are not taken for hidden characters."""
    text = f"{FAMILY} می\u200cخواهم"

    assert text == visible(text)


def test_hidden_instructions_are_shown() -> None:
    """Text spelt in invisible tag characters can be seen."""
    assert "ok\\U000e0068\\U000e0069" == visible("ok\U000e0068\U000e0069")


@given(ANY_TEXT)
def test_visible_text_holds_nothing_that_acts(text: str) -> None:
    """No control, no direction override and no surrogate is left, and twice is once."""
    shown = visible(text)

    assert not [c for c in shown if category(c) in ("Cc", "Cs", "Zl", "Zp") and c not in "\n\t"]
    assert not [
        c for c in shown if bidirectional(c) in "LRE RLE LRO RLO PDF LRI RLI FSI PDI".split()
    ]
    assert shown == visible(shown)
    shown.encode()


@given(ANY_TEXT)
def test_one_line_is_one_line(text: str) -> None:
    """Whatever stands in a text, its one line has no line end, tab or outer space."""
    line = one_line(text)

    assert [line] == (line.splitlines() or [""])
    assert "\t" not in line
    assert line.strip() == line


@given(st.recursive(ANY_TEXT, lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner)))
def test_escaped_json_means_the_same(value: object) -> None:
    """JSON on a terminal is as safe as text, and parses to the same value."""
    document = json.dumps(value, ensure_ascii=False)
    shown = escape_json(document)

    assert value == json.loads(shown)
    assert visible(shown) == shown or any(0xD800 <= ord(c) <= 0xDFFF for c in shown)
