"""
What a user typed, as words to look for. A query is data: none of it is ever syntax.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from ..errors import Code, SessionQueryError
from .analyzer import analyze, is_unspaced

__all__ = ["FUZZY_CHARS_MAX", "FUZZY_CHARS_MIN", "QUERY_CHARS_MAX", "Phrase", "Query", "is_fuzzy"]

QUERY_CHARS_MAX: Final = 2_000

FUZZY_CHARS_MIN: Final = 4
FUZZY_CHARS_MAX: Final = 24


@frozen
class Phrase:
    """
    Words that stand side by side.

    Attributes:
        words: The words, at least one.

        open_ended: Whether the last one is only the beginning of a word: a single
            character of a script without spaces, which begins the pairs that it is in.
    """

    words: tuple[str, ...]
    open_ended: bool = False


@frozen(cache_hash=True)
class Query:
    """
    A search query.

    Attributes:
        text: What was typed, without white space at its ends.

        whole: All its words as one phrase; None where it has no word.

        parts: The phrases that it falls into, each once, in order: what was typed
            without a space between stays together, a run of a script without spaces
            falls into its pairs.
    """

    text: str
    whole: Phrase | None
    parts: tuple[Phrase, ...]

    @property
    def is_plain(self) -> bool:
        """Whether the words say all that *text* does: no case, accents or punctuation."""
        return self.whole is not None and self.text == " ".join(self.whole.words)


def parse(text: object) -> Query:
    """
    Return the query that *text* is.

    Null case: a blank text has no word, and neither has one of symbols only.

    Raises:
        SessionQueryError: INVALID_QUERY: it is no str, has more than 2,000 characters,
            or holds a lone surrogate.
    """
    if type(text) is not str:
        raise _refused(f"must be a str, not {type(text).__name__}")
    if len(text) > QUERY_CHARS_MAX:
        raise _refused(f"has {len(text)} characters; at most {QUERY_CHARS_MAX} are searched for")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _refused(f"holds a lone surrogate at character {error.start}") from None
    parts: dict[Phrase, None] = {}
    for piece in text.split():
        parts.update(dict.fromkeys(_parts(analyze(piece))))
    return Query(text.strip(), _phrase(analyze(text)), tuple(parts))


def is_fuzzy(phrase: Phrase) -> bool:
    """
    Tell whether *phrase* may be a misspelling: one word of 4–24 letters. Ids and numbers
    never are.
    """
    return len(phrase.words) == 1 and not phrase.open_ended and is_fuzzy_word(phrase.words[0])


def is_fuzzy_word(word: str) -> bool:
    return (
        FUZZY_CHARS_MIN <= len(word) <= FUZZY_CHARS_MAX
        and word.isalpha()
        and (word.isascii() or not is_unspaced(word))
    )


def _refused(reason: str) -> SessionQueryError:
    return SessionQueryError(Code.INVALID_QUERY, f"the query {reason}")


def _phrase(words: list[str]) -> Phrase | None:
    """The words as one phrase that matches wherever they stand inside a longer text."""
    if not words:
        return None
    last = words[-1]
    if len(last) == 1 and is_unspaced(last):
        if len(words) > 1 and len(words[-2]) == 2 and is_unspaced(words[-2]):
            # The last character of a run, which in the text may go on.
            return Phrase(tuple(words[:-1]))
        return Phrase(tuple(words), open_ended=True)
    return Phrase(tuple(words))


def _parts(words: list[str]) -> list[Phrase]:
    """The phrases of one piece of a query that was typed without a space."""
    parts = []
    spaced: list[str] = []
    for index, word in enumerate(words):
        if not is_unspaced(word):
            spaced.append(word)
            continue
        if spaced:
            parts.append(Phrase(tuple(spaced)))
            spaced = []
        after_pair = index > 0 and len(words[index - 1]) == 2 and is_unspaced(words[index - 1])
        if len(word) == 2:
            parts.append(Phrase((word,)))
        elif not after_pair:
            parts.append(Phrase((word,), open_ended=True))
    if spaced:
        parts.append(Phrase(tuple(spaced)))
    return parts
