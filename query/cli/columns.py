"""
Columns of a table: how wide texts are, and what gives way where there is too little room.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from unicodedata import category, east_asian_width

from eventlog.query.text import cut_characters

__all__ = ["cells_of", "cut_to", "fitted"]


def cells_of(text: str) -> int:
    """Return how many columns of a terminal *text* takes, as far as Unicode says."""
    return sum(map(_cells_of, text))


def _cells_of(character: str) -> int:
    if category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def fitted(
    heads: Sequence[str],
    widths: Sequence[int],
    last_min: int,
    narrow: Sequence[tuple[str, int]],
    room: int,
) -> list[int]:
    """
    Return the widths with which the last column gets *last_min* cells of *room*.

    Args:
        narrow: What gives way, one after the other: a head, and the cells to which its
            column may be cut; 0 leaves it out.

    Null case: where all of it is not enough, the last column gets less.
    """
    found = list(widths)
    wanted = sum(found[:-1]) + 2 * (len(found) - 1) + last_min
    for head, cells in narrow:
        over = wanted - room
        if over <= 0:
            break
        column = heads.index(head)
        if not cells:
            wanted -= found[column] + 2
            found[column] = 0
        elif found[column] > cells:
            given = min(over, found[column] - cells)
            wanted -= given
            found[column] -= given
    return found


def cut_to(text: str, cells: int, width: Callable[[str], int], *, tail: bool) -> str:
    """
    Return *text* in so many cells, with … where something was cut off.

    Args:
        width: How many cells a text takes.

        tail: Whether its end is kept, and not its beginning.
    """
    if width(text) <= cells:
        return text
    kept = text[-cells:] if tail else text[:cells]
    while width(kept) > cells - 1:
        kept = kept[1:] if tail else cut_characters(kept, len(kept) - 1).text
    return f"…{kept}" if tail else f"{kept}…"
