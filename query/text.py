"""
Text for people and for budgets: cutting without halves, and showing without harm.

A *cut* keeps whole characters, and does not part a letter from its accents or an emoji
from its parts. *Visible* text is safe on a terminal whatever it came from: what would
move the cursor, change colours, reorder a line or hide itself is shown as an escape.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from unicodedata import category

from eventlog.values import check_index

__all__ = ["Cut", "cut_bytes", "cut_characters", "escape_json", "one_line", "valid", "visible"]


class Cut(NamedTuple):
    """
    The front of a text.

    Attributes:
        text: As much as fits, without a mark of the cut; the whole text where it fits.

        truncated: Whether anything was left off.
    """

    text: str
    truncated: bool


def cut_characters(text: str, characters_max: int) -> Cut:
    """
    Return the longest front of *text* of at most *characters_max* characters (code points).

    A cluster that a reader takes for one character (a letter with its accents, an emoji
    with its modifiers or joined parts, a flag, a syllable of Hangul letters) stays whole
    or goes whole; one that alone is longer than the cap is cut between its code points.
    Clusters are told by the main rules of Unicode's UAX #29, without tables of our own.
    Lone surrogates become U+FFFD.

    Cost: O(characters_max).

    Raises:
        InvalidArgument: *characters_max* is no int ≥ 0.
    """
    check_index(characters_max, "characters_max")
    if len(text) <= characters_max:
        return Cut(valid(text), False)
    return Cut(valid(text[: _boundary(text, characters_max)]), True)


def cut_bytes(text: str, bytes_max: int) -> Cut:
    """
    Return the longest front of *text* whose UTF-8 is at most *bytes_max* bytes.

    Clusters and surrogates are treated as by :func:`cut_characters`.

    Cost: O(bytes_max).

    Raises:
        InvalidArgument: *bytes_max* is no int ≥ 0.
    """
    check_index(bytes_max, "bytes_max")
    # No character has less than one byte, so what lies behind cannot be in the answer.
    front = valid(text[: bytes_max + 1])
    encoded = front.encode()
    if len(encoded) <= bytes_max and len(front) == len(text):
        return Cut(front, False)
    # A cut inside a character leaves bytes that are no UTF-8 at the very end only.
    fitting = len(encoded[:bytes_max].decode(errors="ignore"))
    return Cut(front[: _boundary(front, fitting)], True)


# Longer clusters than this are made to be long; looking further back would make the cost
# of a cut depend on its text.
_CLUSTER_MAX: Final = 64

_ZERO_WIDTH_JOINER: Final = "\u200d"
_HANGUL: Final = re.compile(
    "[\u1100-\u115f\ua960-\ua97c][\u1100-\u11a7\uac00-\ud7a3\ud7b0-\ud7c6]"
    "|[\u1160-\u11a7\uac00-\ud7a3\ud7b0-\ud7c6][\u1160-\u11ff\ud7b0-\ud7fb]"
    "|[\u11a8-\u11ff\ud7cb-\ud7fb][\u11a8-\u11ff\ud7cb-\ud7fb]"
)


def _boundary(text: str, index: int) -> int:
    """Return the last cluster boundary of *text* at or before *index*, else *index*."""
    for place in range(index, max(index - _CLUSTER_MAX, 0), -1):
        if not _joined(text, place):
            return place
    return index


def _joined(text: str, place: int) -> bool:
    """Whether the characters before and behind *place* belong to one cluster."""
    before, behind = text[place - 1], text[place]
    if behind < "\u0300":
        return before == "\r" and behind == "\n"
    if _is_extension(behind):
        return not (before < " ")
    if before == _ZERO_WIDTH_JOINER:
        return True
    if _is_regional(behind) and _is_regional(before):
        # Flags are pairs: the place is inside one where an odd number stands before it.
        start = place
        while start and place - start <= _CLUSTER_MAX and _is_regional(text[start - 1]):
            start -= 1
        return (place - start) % 2 == 1
    return _HANGUL.fullmatch(before + behind) is not None


def _is_extension(character: str) -> bool:
    return (
        character == _ZERO_WIDTH_JOINER
        or "\U0001f3fb" <= character <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= character <= "\U000e007f"  # tags, as in the flag of Wales
        or category(character) in ("Mn", "Mc", "Me")
    )


def _is_regional(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


_SURROGATES: Final = re.compile("[\ud800-\udfff]")


def valid(text: str) -> str:
    """
    Return *text* with each lone surrogate replaced by U+FFFD, so that it has a UTF-8 form.

    Texts of a log never hold any; file names, arguments and foreign records may.
    """
    return _SURROGATES.sub("\ufffd", text)


# What acts on a terminal or hides on it: controls but LF and tab, C1, soft hyphen, marks
# and overrides of writing direction, line and paragraph separators, invisible operators,
# the byte order mark, interlinear annotation, tags. The joiners U+200C and U+200D stay:
# Persian and emoji need them.
_HARMFUL_RANGES: Final = (
    "\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f"
)
_HARMFUL: Final = re.compile(f"[\x00-\x08\x0b-\x1f{_HARMFUL_RANGES}]")
_HARMFUL_IN_JSON: Final = re.compile(f"[{_HARMFUL_RANGES}]")


def visible(text: str) -> str:
    """
    Return *text* as a terminal may show it: many lines, tabs, and nothing that acts.

    Line ends CR LF become LF. Every other control character, C1 character, direction
    mark or override, and invisible character is shown as ``\\x1b`` or ``\\u202e``; a lone
    surrogate as U+FFFD. Printable text stays as it is, backslashes too: this is for
    reading, not for parsing back. Applying it twice changes nothing more.

    Cost: O(characters).
    """
    return _HARMFUL.sub(_escape, valid(text).replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """
    Return *text* as :func:`visible` does, on one line: each run of white space, line
    ends and separators among them, becomes one space, and none is left at either end.
    """
    return visible(" ".join(valid(text).split()))


def escape_json(document: str) -> str:
    """
    Return a JSON text that means the same as *document* and is safe on a terminal.

    What :func:`visible` would show as an escape becomes a JSON escape. *document* must
    be JSON whose C0 controls are escaped already, as every encoder does.
    """
    return _HARMFUL_IN_JSON.sub(_escape_json, document)


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escape_json(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
