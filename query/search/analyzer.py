"""
The analyzer: how text becomes words to search for. One function for every provider.

Text is cut into *chunks* at every ASCII character that is neither letter nor digit.
A chunk is folded: NFKC, case folding, accents and invisible format characters taken
away, letters that are no accented ones but stand for them mapped (``đ`` ``ø`` ``ł`` ``æ``
…), then cut at every character that is no letter, digit or vowel sign. What is left are
the words, at most 64 characters of each. So ``acct_9931`` is the words ``acct`` and
``9931``; ``1,284`` is one, since a comma before each group of three digits is dropped.

Scripts that write no spaces (Chinese, Japanese, Korean, Thai, Lao, Khmer, Burmese) have
no words to cut at. A run of them becomes its overlapping pairs of characters and its last
character: ``昨天我`` is ``昨天 天我 我``. Every substring of the run is then a phrase of
pairs, or one character that begins a pair or ends the run.

Accents of Latin, Greek, Cyrillic, Hebrew and Arabic are taken away; the voicing marks of
kana are not, nor the vowel signs of other scripts: they tell words apart.

The text itself is never changed. Positions in it are given by :func:`analyze_spans`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import lru_cache
from typing import Final, NamedTuple
from unicodedata import category, normalize, unidata_version

__all__ = [
    "ANALYZER",
    "WORD_CHARS_MAX",
    "Span",
    "analyze",
    "analyze_spans",
    "find_spans",
    "is_unspaced",
]

# Part of an index's identity: raise the number whenever an answer changes. Unicode's
# version counts too, since Python's tables come with it.
ANALYZER: Final = f"1/{unidata_version}"

WORD_CHARS_MAX: Final = 64
CACHED_CHARS_MAX: Final = 32

_UNSPACED_RANGES: Final = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"  # Burmese
    "\u1780-\u17ff"  # Khmer
    "\u1100-\u11ff\ua960-\ua97f\uac00-\ud7ff\u3130-\u318f"  # Hangul
    "\u3005-\u3007\u3031-\u3035\u303b\u3041-\u30ff\u31f0-\u31ff"  # kana, iteration marks
    "\u3105-\u312f\u31a0-\u31bf"  # Bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)


def _combining_marks() -> str:
    """Every mark that folding may leave, as the inside of a regular expression's class."""
    blocks = [range(0x0300, 0x1E00), range(0x20D0, 0x2100), range(0x3099, 0x309B)]
    blocks += [range(0xA660, 0xABF0), range(0x10A00, 0x11FFF), range(0x1E000, 0x1E950)]
    return "".join(chr(code) for block in blocks for code in block if category(chr(code))[0] == "M")


_MARKS: Final = _combining_marks()
_CHUNK: Final = re.compile("[A-Za-z0-9\x80-\U0010ffff]+")
# What is not ASCII of a chunk, from there to its end.
_WIDE_END: Final = re.compile("[\x80-\U0010ffff][A-Za-z0-9\x80-\U0010ffff]*")
# No word of plain Han, kana and Hangul alone folds to ASCII.
_PLAIN_WIDE: Final = re.compile("[\u3041-\u3098\u309d-\u30fe\u4e00-\u9fff\uac00-\ud7a3]+")
_WORD: Final = re.compile(f"[{_UNSPACED_RANGES}]+|(?:(?![{_UNSPACED_RANGES}])[^\\W_]|[{_MARKS}])+")
_UNSPACED: Final = re.compile(f"[{_UNSPACED_RANGES}]")
_GROUP_COMMA: Final = re.compile(",(?=[0-9]{3}(?![0-9]))(?<=[0-9],)")

# Letters that NFD leaves whole although people type them without.
_LETTERS: Final = {
    "đ": "d", "ð": "d", "ø": "o", "ł": "l", "æ": "ae", "œ": "oe", "þ": "th", "ħ": "h",
    "ı": "i", "ŋ": "n", "ŧ": "t", "ƶ": "z", "ɨ": "i", "ʉ": "u", "ƀ": "b", "ǥ": "g", "ꝑ": "p",
}  # fmt: skip


def _translations() -> dict[int, str | None]:
    table: dict[int, str | None] = {ord(letter): plain for letter, plain in _LETTERS.items()}
    dropped = [range(0x0300, 0x0370), range(0x1AB0, 0x1B00), range(0x1DC0, 0x1E00)]
    dropped += [range(0x20D0, 0x2100), range(0xFE20, 0xFE30), range(0x0483, 0x048A)]
    dropped += [range(0x0591, 0x05C8), range(0x0610, 0x061B), range(0x064B, 0x0660)]
    dropped += [range(0x0670, 0x0671), range(0x06D6, 0x06EE), range(0xFE00, 0xFE10)]
    for block in dropped:
        table.update((code, None) for code in block if category(chr(code))[0] == "M")
    # Format characters stand inside words and are not seen: soft hyphen, joiners,
    # direction marks, byte order mark, tatweel. A zero width space parts words.
    table.update(dict.fromkeys(map(ord, "\u00ad\u061c\u0640\ufeff")))
    for block in (range(0x200C, 0x2010), range(0x202A, 0x202F), range(0x2060, 0x2070)):
        table.update((code, None) for code in block)
    return table


_TRANSLATIONS: Final = _translations()


class Span(NamedTuple):
    """
    One word where it stands.

    Attributes:
        word: The word.

        start: Where it begins in the text, in characters.

        stop: Where it ends, exclusive.
    """

    word: str
    start: int
    stop: int


def analyze(text: str) -> list[str]:
    """
    Return the words of *text*, in order; [] where it has none.

    Cost: O(characters), about 10 MB/s of ASCII.
    """
    if "," in text:
        text = _GROUP_COMMA.sub("", text)
    if text.isascii():
        words = _CHUNK.findall(text.lower())
        return words if len(text) <= WORD_CHARS_MAX else _cut(words)
    words = []
    for chunk in _CHUNK.findall(text):
        if chunk.isascii():
            words.append(chunk.lower())
        else:
            words += _wide_words(chunk)
    return _cut(words)


def analyze_spans(text: str) -> Iterator[Span]:
    """
    Yield the words that :func:`analyze` returns, each with its place in *text*.

    Cost: O(characters), about five times that of :func:`analyze`.
    """
    bare, places = text, None
    if "," in text and _GROUP_COMMA.search(text):
        commas = {match.start() for match in _GROUP_COMMA.finditer(text)}
        places = [index for index in range(len(text)) if index not in commas]
        bare = _GROUP_COMMA.sub("", text)
    for match in _CHUNK.finditer(bare):
        for word, start, stop in _spans(match.group(), match.start()):
            if places is not None:
                start, stop = places[start], places[stop - 1] + 1
            yield Span(word, start, stop)


def find_spans(text: str, words: Set[str], beginnings: tuple[str, ...] = ()) -> list[Span]:
    """
    Return those words of *text* that are among *words* or begin with one of *beginnings*,
    each with its place, in order: a part of what :func:`analyze_spans` yields.

    Cost: O(characters), little more than that of :func:`analyze`.
    """
    if not words and not beginnings:
        return []
    # Where digits are parted by commas or a word was cut, and for beginnings of ASCII,
    # which no query has, every word is looked at.
    if (
        any(len(word) == WORD_CHARS_MAX for word in words)
        or any(map(str.isascii, beginnings))
        or ("," in text and _GROUP_COMMA.search(text) is not None)
    ):
        return [
            span
            for span in analyze_spans(text)
            if span.word in words or span.word.startswith(beginnings)
        ]
    ascii_words = [word for word in words if word.isascii()]
    spans = _ascii_spans(text, ascii_words)
    if not text.isascii():
        folding_only = not beginnings and len(ascii_words) == len(words)
        for chunk, base in _wide_chunks(text):
            if folding_only and _PLAIN_WIDE.fullmatch(chunk):
                continue
            held = _wide_words(chunk)
            if not words.isdisjoint(held) or (
                beginnings and any(word.startswith(beginnings) for word in held)
            ):
                spans += [
                    Span(*span)
                    for span in _spans(chunk, base)
                    if span[0] in words or span[0].startswith(beginnings)
                ]
    return sorted(spans, key=lambda span: span.start)


def _ascii_spans(text: str, words: Iterable[str]) -> list[Span]:
    """Where *words* stand in chunks that are ASCII."""
    # Of all letters one has a longer form in lower case, and it is not ASCII either way.
    lowered = text.replace("\u0130", "\u0131").lower()
    spans = []
    for word in words:
        start = lowered.find(word)
        while start >= 0:
            stop = start + len(word)
            if (
                not _is_of_chunk(text[start - 1 : start])
                and not _is_of_chunk(text[stop : stop + 1])
                and text[start:stop].isascii()
            ):
                spans.append(Span(word, start, stop))
            start = lowered.find(word, start + 1)
    return spans


def _is_of_chunk(char: str) -> bool:
    return char >= "\x80" or char.isalnum()


def _wide_chunks(text: str) -> Iterator[tuple[str, int]]:
    """Yield the chunks that are not ASCII, each with its place."""
    for match in _WIDE_END.finditer(text):
        start, stop = match.span()
        while start and text[start - 1].isalnum() and text[start - 1] < "\x80":
            start -= 1
        yield text[start:stop], start


def is_unspaced(word: str) -> bool:
    """Tell whether *word*, one of :func:`analyze`, is of a script without spaces."""
    return _UNSPACED.match(word) is not None


def fold(chunk: str) -> str:
    """Return *chunk* without case, accents, format characters and compatibility forms."""
    plain = normalize("NFD", normalize("NFKC", chunk).casefold())
    return normalize("NFKC", plain.translate(_TRANSLATIONS)).casefold()


def _words(folded: str) -> list[str]:
    words = []
    for word in _WORD.findall(folded):
        if _UNSPACED.match(word):
            words += [word[index : index + 2] for index in range(len(word))]
        else:
            words.append(word)
    return words


def _wide_words(chunk: str) -> Sequence[str]:
    """The words of a chunk that is not ASCII."""
    # Short ones recur, being words; long ones are whole sentences.
    return _folded_words(chunk) if len(chunk) <= CACHED_CHARS_MAX else _words(fold(chunk))


# Words of natural language recur; folding one costs more than looking it up.
@lru_cache(maxsize=65_536)
def _folded_words(chunk: str) -> tuple[str, ...]:
    return tuple(_words(fold(chunk)))


def _cut(words: list[str]) -> list[str]:
    if words and len(max(words, key=len)) > WORD_CHARS_MAX:
        return [word[:WORD_CHARS_MAX] for word in words]
    return words


def _spans(chunk: str, base: int) -> Iterator[tuple[str, int, int]]:
    """The words of the chunk that begins at *base*, each with its place in the text."""
    if chunk.isascii():
        yield chunk.lower()[:WORD_CHARS_MAX], base, base + len(chunk)
        return
    for word, start, stop in _chunk_spans(chunk):
        yield word[:WORD_CHARS_MAX], base + start, base + stop


def _chunk_spans(chunk: str) -> list[tuple[str, int, int]]:
    """The words of a chunk that is not ASCII, each with its place in it."""
    # Folding is done piece by piece, each a character with what composes with it, so that
    # every folded character knows where it came from.
    pieces = []
    start = 0
    for index in range(1, len(chunk) + 1):
        if index == len(chunk) or not _composes(chunk[index]):
            pieces.append((start, index))
            start = index
    folded, origins = "", []
    for piece_start, piece_stop in pieces:
        part = fold(chunk[piece_start:piece_stop])
        folded += part
        origins += [(piece_start, piece_stop)] * len(part)
    if folded != fold(chunk):
        # A composition across pieces: the words are right, their places the whole chunk.
        return [(word, 0, len(chunk)) for word in _words(fold(chunk))]
    spans = []
    for match in _WORD.finditer(folded):
        first, last = match.span()
        if _UNSPACED.match(match.group()):
            for index in range(first, last):
                stop = min(index + 2, last)
                spans.append((folded[index:stop], origins[index][0], origins[stop - 1][1]))
        else:
            spans.append((match.group(), origins[first][0], origins[last - 1][1]))
    return spans


def _composes(char: str) -> bool:
    """Whether *char* may compose with what stands before it."""
    return (
        (char >= "\u0300" and category(char)[0] == "M")
        or "\u1160" <= char <= "\u11ff"  # Hangul vowels and finals
        or char in "\uff9e\uff9f"  # halfwidth voicing marks
    )
