"""Words: what the analyzer makes of text, and where each stands."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.query.search.analyzer import analyze, analyze_spans, find_spans, is_unspaced

CASES = {
    "Hello, World": ["hello", "world"],
    "acct_9931": ["acct", "9931"],
    "re-entrant lib/io.py key:value": ["re", "entrant", "lib", "io", "py", "key", "value"],
    "total 1,284 or 12,345,678": ["total", "1284", "or", "12345678"],
    "1,28 and 1,2845": ["1", "28", "and", "1", "2845"],
    "€1,284": ["1284"],
    "Số dư Cuối kỳ": ["so", "du", "cuoi", "ky"],
    "đồng Łódź smørrebrød Ærø": ["dong", "lodz", "smorrebrod", "aero"],
    "Straße ΣΊΣΥΦΟΣ İstanbul": ["strasse", "σισυφοσ", "istanbul"],
    "昨天我们": ["昨天", "天我", "我们", "们"],
    "先跑lint-check然后": ["先跑", "跑", "lint", "check", "然后", "后"],
    "한국어": ["한국", "국어", "어"],
    "ガギ ｶﾞｷﾞ カキ": ["ガギ", "ギ", "ガギ", "ギ", "カキ", "キ"],
    "ﬁne soft\u00adhyphen": ["fine", "softhyphen"],
    "हिन्दी": ["हिन्दी"],
    "ภาษา": ["ภา", "าษ", "ษา", "า"],
    "a\x00b\tc": ["a", "b", "c"],
    "🔑 ** — …": [],
    "": [],
    "x" * 70: ["x" * 64],
}


@pytest.mark.parametrize("text", CASES)
def test_words_of_a_text(text: str) -> None:
    """Text is folded and cut as the analyzer's documentation says."""
    assert CASES[text] == analyze(text)


@pytest.mark.parametrize("text", CASES)
def test_a_word_knows_where_it_stands(text: str) -> None:
    """Each word's place holds characters that give this word."""
    spans = list(analyze_spans(text))

    assert CASES[text] == [span.word for span in spans]
    for span in spans:
        assert span.word in analyze(text[span.start : span.stop]) or "," in text


def test_voiced_and_plain_kana_differ() -> None:
    """The voicing mark of kana tells words apart, unlike an accent."""
    assert analyze("がき") != analyze("かき")


def test_scripts_without_spaces() -> None:
    """Han, kana, Hangul and Thai are unspaced; Latin, Cyrillic and Devanagari are not."""
    assert [True] * 4 == [is_unspaced(word) for word in ("漢", "かな", "한국", "ไทย")]
    assert [False] * 3 == [is_unspaced(word) for word in ("word", "слово", "शब्द")]


any_text = st.text(max_size=40) | st.text(
    st.sampled_from("aé\u0301đ漢字かが\u3099ガｶﾞ한ᄒ\u1161\u11ab1,234_-.ß\u0345İﬁ½\u200d\u00adไทย"),
    max_size=20,
)


@settings(max_examples=150, deadline=None)
@given(any_text)
def test_words_and_spans_agree_on_any_text(text: str) -> None:
    """The words with places are the words without, for any text."""
    spans = list(analyze_spans(text))

    assert analyze(text) == [span.word for span in spans]
    assert all(0 <= span.start < span.stop <= len(text) for span in spans)


@settings(max_examples=300, deadline=None)
@given(
    any_text
    | st.lists(st.sampled_from(["word ", "Café", "1,284 ", "上线", "x9-", "a" * 70])).map("".join),
    st.sets(
        st.sampled_from(["word", "cafe", "1284", "284", "上线", "x9", "a", "a" * 64, "e", "1"])
    ),
    st.sampled_from([(), ("上",), ("か", "w")]),
)
def test_words_are_found_the_quick_way(
    text: str, words: set[str], beginnings: tuple[str, ...]
) -> None:
    """Looking for some words finds the very spans that a look at all words would."""
    expected = [
        span
        for span in analyze_spans(text)
        if span.word in words or span.word.startswith(beginnings)
    ]

    assert expected == find_spans(text, words, beginnings)


@settings(max_examples=150, deadline=None)
@given(any_text)
def test_normal_forms_give_the_same_words(text: str) -> None:
    """Composed and decomposed forms of any text have the same words."""
    forms = {tuple(analyze(unicodedata.normalize(form, text))) for form in ("NFC", "NFD")}

    assert 1 == len(forms)


@settings(max_examples=150, deadline=None)
@given(any_text)
def test_words_hold_nothing_that_is_syntax(text: str) -> None:
    """A word has no space, quote, control character or surrogate, for any text."""
    for word in analyze(text):
        assert word.strip('" \x00\n') == word
        assert not any(char.isspace() or char in '"*()^:+-' for char in word)
        word.encode()
