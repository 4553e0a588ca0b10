"""
Cursors: opaque, bound to their call, and never believed.
"""

from __future__ import annotations

import random
from string import ascii_letters, digits

import pytest

from eventlog.query import SessionQueryErrorCode
from eventlog.query.cursors import Cursors
from support.query import raises

Code = SessionQueryErrorCode


@pytest.mark.parametrize(
    "position", [(), (0,), (2**53 - 1, "é\U0001f511"), ("a\nb", -5, "x" * 255)]
)
def test_a_position_comes_back(position: tuple[int | str, ...]) -> None:
    """
    A cursor is a short text safe in addresses and shells, and gives its position again.
    """
    cursor = Cursors("call", "scope").encode(*position)

    assert [*position] == Cursors("call", "scope").decode(cursor, *map(type, position))
    assert cursor.replace("-", "").replace("_", "").isalnum()


def test_every_changed_character_is_seen() -> None:
    """
    A cursor that was cut, grown or changed anywhere is refused.
    """
    cursors = Cursors("call")
    cursor = cursors.encode(1_000, "s1")
    rng = random.Random(1)
    changed = {cursor[:cut] for cut in range(len(cursor))}
    for place in range(len(cursor)):
        letter = rng.choice([c for c in "ABCabc019-_" if c != cursor[place]])
        changed |= {cursor[:place] + letter + cursor[place + 1 :], cursor[:place] + letter}
    changed |= {cursor[:-1] + letter for letter in ascii_letters + digits + "-_"} - {cursor}
    changed |= {cursor + "A", cursor + "=", cursor + "!", " " + cursor, "\n".join(cursor)}

    for wrong in changed:
        with raises(Code.INVALID_CURSOR):
            cursors.decode(wrong, int, str)


def test_another_shape_is_refused() -> None:
    """
    A position of other types, as another release may have made it, is refused.
    """
    cursors = Cursors("call")

    for position in (
        (1,),
        ("s1", 1),
        (1, 2),
        (True, "s1"),
        (1, "s1", 2),
        (1.0, "s1"),
        (None, "s1"),
    ):
        with raises(Code.INVALID_CURSOR):
            cursors.decode(cursors.encode(*position), int, str)


def test_the_scope_binds() -> None:
    """
    A cursor of another call, or of one with other arguments, is refused.
    """
    cursor = Cursors("call", "s1", [["Seq", 1, 2]], None).encode(5)

    for other in (
        Cursors("other", "s1", [["Seq", 1, 2]], None),
        Cursors("call", "s2", [["Seq", 1, 2]], None),
        Cursors("call", "s1", [["Seq", 1, 3]], None),
        Cursors("call", "s1", [["Seq", 1, 2]], 0),
        Cursors("call", "s1"),
    ):
        with raises(Code.INVALID_CURSOR):
            other.decode(cursor, int)
