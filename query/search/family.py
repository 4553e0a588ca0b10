"""
Which events of forks are shown elsewhere: a search over many sessions gives an inherited
event once, under the session that it came from where that is searched too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import frozen

from .narrowing import SessionScope

__all__ = ["Relative", "hidden_below", "relatives"]


@frozen
class Relative:
    """
    A fork, or a session that a fork came from.

    Attributes:
        session_id: Its id.

        parent_id: The session that it names as its parent, None where it names none.

        seed_length: How many of its first events are the parent's; 0 for no fork.

        created_at: Unix milliseconds.

        shared: How many of them the parent really has alike; None where nobody looked.

        in_scope: Whether it is searched.
    """

    session_id: str
    parent_id: str | None
    seed_length: int
    created_at: int
    shared: int | None
    in_scope: bool


def relatives(
    rows: Callable[[str, tuple[object, ...]], list[Any]],
    scope: SessionScope,
    session_ids: Iterable[str] = (),
) -> list[Relative]:
    """
    Return the forks of an index, *session_ids* and what all of these come from, as far as
    its tables have them.
    """
    columns = (
        "s.id, s.parent, s.seed, s.created_at, s.cwd,"
        " CASE WHEN s.shared_sid = p.sid THEN s.shared END"
        " FROM session s LEFT JOIN session p ON p.id = s.parent"
    )
    found = {row[0]: row for row in rows(f"SELECT {columns} WHERE s.seed > 0", ())}
    wanted = {row[1] for row in found.values()} | set(session_ids)
    wanted -= found.keys() | {None}
    while wanted:
        parents = [
            row
            for session_id in wanted
            for row in rows(f"SELECT {columns} WHERE s.id = ?", (session_id,))
        ]
        found.update((row[0], row) for row in parents)
        wanted = {row[1] for row in parents if row[2]} - found.keys() - {None}
    return [
        Relative(
            session_id,
            parent,
            seed,
            created_at,
            shared,
            scope.admits_facts(session_id, cwd, parent, created_at),
        )
        for session_id, parent, seed, created_at, cwd, shared in found.values()
    ]


def hidden_below(
    family: Iterable[Relative], alike: Callable[[Relative, Relative, int], int]
) -> Mapping[str, int]:
    """
    Return for each fork in scope the seq below which its events are shown under another
    session; forks that show all their events are left out.

    That is the nearest ancestor in scope, or where there is none the eldest of the forks
    that inherit the same.

    Args:
        alike: Tells of two sessions how many of the first *n* events they have alike.

    Cost: the forks, times how many ancestors out of scope they have.
    """
    members = {member.session_id: member for member in family}
    # Of a session that is not searched itself: how much of it which fork shows already.
    shown: dict[str, tuple[int, Relative]] = {}
    hidden: dict[str, int] = {}
    for member in sorted(members.values(), key=lambda m: (m.created_at, m.session_id)):
        if not member.in_scope:
            continue
        below, reach, child = 0, member.seed_length, member
        visited = {member.session_id}
        while child.seed_length and child.parent_id not in visited | {None}:
            assert child.parent_id is not None
            visited.add(child.parent_id)
            parent = members.get(child.parent_id)
            reach = min(reach, child.seed_length)
            if parent is not None:
                reach = alike(child, parent, reach)
                if parent.in_scope:
                    below = max(below, reach)
                    break
            elsewhere, shower = shown.get(child.parent_id, (0, member))
            if elsewhere:
                below = max(below, alike(member, shower, min(reach, elsewhere)))
            if reach > elsewhere:
                shown[child.parent_id] = (reach, member)
            if parent is None:
                break
            child = parent
        if below:
            hidden[member.session_id] = below
    return hidden
