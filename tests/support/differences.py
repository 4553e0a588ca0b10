"""
Where this library answers otherwise than the system that recorded the corpus, on purpose.

Each difference has its reason and how many recorded cases it concerns; the tests count
them, so that no other difference hides behind one of these.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["Difference"]


class Difference(Enum):
    """One intended difference: how many cases it concerns, and why."""

    UNKNOWN_TYPE_CITES = (
        1,
        (
            "fuzz/surface: an unregistered type may cite sources without being on the surface; "
            "no process needs a vocabulary to fold, so only known types are held to a rule"
        ),
    )

    GOES_ON_BEHIND_DAMAGE = (
        50,
        (
            "fuzz/scanlog: lines behind a bad one that continue the log are kept; the recorder "
            "drops everything behind the first bad line in silence"
        ),
    )

    REPORTS_DAMAGE = (
        333,
        "fuzz/scanlog: what the recorder drops in silence is named with line and offset",
    )

    READS_PREFIX_OF_DAMAGED = (
        54,
        (
            "fuzz/scanlog: a log with damage before its last turn's end is read up to it, and the "
            "damage reported; the recorder refuses the log"
        ),
    )

    HEADER_FIELD_TYPES = (
        4,
        (
            "fuzz/scanlog: a header whose cwd is a number is refused at once; the recorder lists "
            "such a log and refuses it later"
        ),
    )

    HEADER_RETIRED_KEYS = (
        16,
        (
            "fuzz/scanlog: unknown header keys are kept, among them the retired sandboxMode and "
            "approvalPolicy"
        ),
    )

    FRACTIONAL_TIME = (
        21,
        "fuzz/chunkrows: a time of 1.5 is malformed; times are whole milliseconds",
    )

    HEADER_ORIGIN = (
        9,
        "fuzz/scanlog: any origin is kept; the recorder knows only 'subagent'",
    )

    SIBLING_ORDER = (
        7,
        (
            "fuzz/misc: sessions of one millisecond come by the code points of their ids, "
            "everywhere and in every locale; the recorder sorts siblings by its locale's alphabet"
        ),
    )

    HEADER_EQUALITY = (
        29,
        (
            "fuzz/misc: headers that differ in origin or agentPreset are another session's; the "
            "recorder compares neither"
        ),
    )

    SEARCH_WITHOUT_WORD = (
        15,
        (
            "dsh-search: a query of signs only is refused across sessions, where the recorder "
            "answers with nothing; within one session it is looked for to the letter"
        ),
    )

    SEARCH_LONG_WORD = (
        4,
        "dsh-search: a word is known by its first 64 characters, so a longer one is found by them",
    )

    def __init__(self, cases: int, reason: str) -> None:
        self.cases = cases
        self.reason = reason
