"""
``verify``, ``repair``, ``archive`` and ``prune``: keeping a store in order.

``repair`` and ``prune`` tell first what they would do, and do it with ``--apply``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click
from attrs import asdict

from eventlog import errors
from eventlog.findings import Finding
from eventlog.pruning import (
    PruneAccount,
    PrunePolicy,
    Spared,
    archive_session,
    can_archive,
    is_same,
    prune,
)
from eventlog.store import EventStore

from .failures import DAMAGED, DONE, FAILED, NONE_FOUND, UsageError, code_of
from .options import (
    complete_session,
    examples,
    find_session,
    folders,
    json_option,
    opened,
    store_option,
    whole,
)
from .output import Screen, complain, complain_of_faults, counted, print_json
from .times import shown_time

__all__ = ["register"]


def register(group: click.Group) -> None:
    for command in (verify_store, repair_store, archive_sessions, prune_store):
        group.add_command(command)


apply_option = click.option("--apply", "applied", is_flag=True, help="Do it, not only tell it.")


@click.command(
    "verify",
    short_help="Look for damage in a store.",
    epilog=examples(
        "eventlog verify",
        "eventlog verify --store jsonl:~/agent-logs --json",
        note="Exits with 3 where anything is found. --json prints one document: a list of "
        "Findings.",
    ),
)
@store_option
@json_option
def verify_store(store: str | None, as_json: bool) -> int:
    """
    Read every log of a store from end to end, and name what is wrong. Nothing is changed;
    the store may be in use.
    """
    with opened(store) as held:
        findings = list(held.verify())
        if as_json:
            print_json([_record(finding) for finding in findings])
        elif findings:
            _show(findings)
        if not findings and _is_empty(held):
            return NONE_FOUND
        if not findings and not as_json:
            Screen().line(f"nothing wrong in {held.location}")
    return DAMAGED if findings else DONE


def _is_empty(store: EventStore) -> bool:
    """Tell whether a store has no session at all, and say so: its path may be mistyped."""
    page = store.heads(limit=1)
    if page.items or page.faults:
        return False
    complain(f"no sessions in {store.location}")
    return True


@click.command(
    "repair",
    short_help="Mend what verify finds, after a backup.",
    epilog=examples(
        "eventlog repair",
        "eventlog repair --apply",
        note="Exits with 3 where something is left to do. --json prints one document: a list "
        "of Findings, each with its change.",
    ),
)
@store_option
@apply_option
@json_option
def repair_store(store: str | None, applied: bool, as_json: bool) -> int:
    """
    Mend what verify finds. Without --apply nothing is changed, and each change is told.

    What is taken out of a log is kept beside the store; an event that cannot be read is
    replaced by one that says so, so that no other event changes its number.
    """
    with opened(store, read_only=not applied) as held:
        findings = held.repair(dry_run=not applied)
        if as_json:
            print_json([_record(finding) for finding in findings])
        else:
            _show(findings, changes=True)
        if not findings and _is_empty(held):
            return NONE_FOUND
        if not findings and not as_json:
            Screen().line(f"nothing to mend in {held.location}")
    mended = [finding for finding in findings if finding.change is not None]
    if mended and not applied:
        complain(f"{len(mended)} of {len(findings)} can be mended: --apply does it")
    if len(mended) < len(findings):
        complain(f"left to you: {len(findings) - len(mended)}")
    return DONE if applied and len(mended) == len(findings) else DAMAGED if findings else DONE


def _record(finding: Finding) -> dict[str, Any]:
    """Return the fields of a finding, with what a change writes as text."""
    record = asdict(finding)
    if record["change"] is not None:
        record["change"]["inserted"] = record["change"]["inserted"].decode(errors="replace")
    return record


def _show(findings: Sequence[Finding], *, changes: bool = False) -> None:
    screen = Screen()
    for finding in findings:
        places = [
            f"{name} {value:,}"
            for name, value in (
                ("line", finding.line),
                ("byte", finding.offset_bytes),
                ("event", finding.seq),
            )
            if value is not None
        ]
        where = ", ".join([finding.path or finding.session_id or "the store", *places])
        screen.line(f"{finding.kind}: {where}: {finding.detail}")
        if changes:
            screen.line(f"  {_told(finding)}")


def _told(finding: Finding) -> str:
    """Say what a repair does about a finding."""
    change = finding.change
    if change is None:
        return "left to you"
    kept = "" if change.backup is None else f"; the old bytes are in {change.backup}"
    if change.action == "cut":
        return f"cut {change.removed_bytes:,} bytes off{kept}"
    if change.action == "edit":
        lines = change.inserted.count(b"\n")
        return f"take {change.removed_bytes:,} bytes out, put {counted(lines, 'line')} in{kept}"
    if change.action == "rename":
        return f"rename to {change.target}"
    verbs = {"set-aside": "set aside", "delete": "delete", "rebuild": "write anew from the log"}
    return f"{verbs[change.action]}{kept}"


@click.command(
    "archive",
    short_help="Compress sessions, here or in another store.",
    epilog=examples(
        "eventlog archive 3fd7 --store jsonl:~/agent-logs",
        "eventlog archive 3fd7 --to jsonl:~/archive",
        note="An archived session is listed, read and searched as before.",
    ),
)
@click.argument(
    "sessions", metavar="SESSION...", nargs=-1, required=True, shell_complete=complete_session
)
@store_option
@click.option("--to", "to", metavar="URL", help="Copy it into this store first: jsonl:PATH.")
@json_option
def archive_sessions(
    sessions: tuple[str, ...], store: str | None, to: str | None, as_json: bool
) -> int:
    """
    Compress sessions that are at rest: where they lie in a jsonl store, or with --to in a
    copy in another one. Nothing is deleted.
    """
    with opened(store, read_only=to is not None) as held:
        ids = [find_session(held, session) for session in sessions]
        if to is None:
            _check_archives(held, "--to jsonl:PATH copies a session into one that does")
            done = {session_id: held.archive(session_id) for session_id in ids}
        else:
            with opened(to, read_only=False) as target:
                _check_archives(target, "--to takes jsonl:PATH")
                done = {one: archive_session(held, one, target) for one in ids}
    if as_json:
        print_json([{"session_id": one, "compressed": done[one]} for one in done])
    else:
        for session_id in done:
            Screen().line(f"{session_id}: {'archived' if done[session_id] else 'not compressed'}")
    return DONE if all(done.values()) else FAILED


def _check_archives(store: EventStore, otherwise: str) -> None:
    if not can_archive(store):
        raise UsageError(f"{store.location} is no store that compresses: {otherwise}")


@click.command(
    "prune",
    short_help="Take old sessions out, by a rule that you give.",
    epilog=examples(
        "eventlog prune --older-than 90d",
        "eventlog prune --older-than 90d --archive jsonl:~/archive --apply",
        note="--json prints one document: a PruneAccount.",
    ),
)
@store_option
@click.option(
    "--older-than", "age", metavar="AGE", required=True, help="Unused for so long: 12h, 90d, 8w."
)
@click.option("--keep", metavar="N", type=whole(0), default=0, help="Spare the newest N.")
@click.option("--cwd", metavar="PATH", help="Only sessions of this working directory.")
@click.option("--archive", "to", metavar="URL", help="Keep each in this store: jsonl:PATH.")
@apply_option
@json_option
def prune_store(
    store: str | None,
    age: str,
    keep: int,
    cwd: str | None,
    to: str | None,
    applied: bool,
    as_json: bool,
) -> int:
    """
    Delete sessions that were not used for longer than AGE. Without --apply nothing is
    changed, and what would go is told. There is no default age.
    """
    if cwd is not None and not Path(cwd).is_absolute():
        cwd = folders(cwd)[0]
    policy = PrunePolicy(_milliseconds(age), keep_newest=keep, cwd=cwd)
    with opened(store, read_only=not applied) as held:
        if to is None:
            account = prune(held, policy, dry_run=not applied)
        else:
            with opened(to, read_only=not applied) as target:
                account = _pruned_into(held, target, policy, applied)
        if not account.found and not account.faults:
            complain(f"no sessions in {held.location}")
    if as_json:
        print_json(account)
    else:
        _show_account(account)
    codes = [DONE if account.pruned else NONE_FOUND, *_complain_of_spared(account.spared)]
    if complain_of_faults(account.faults):
        codes.append(DAMAGED)
    return max(codes)


def _complain_of_spared(spared: Sequence[Spared]) -> Iterator[int]:
    """Say what was left, a line a kind; yields the exit code of each kind."""
    kinds: dict[str, list[Spared]] = {}
    for one in spared:
        kinds.setdefault(one.kind, []).append(one)
    for kind, several in kinds.items():
        first = several[0]
        if len(several) == 1:
            complain(f"left {first.session_id}: {first.reason}")
        else:
            complain(
                f"left {len(several):,} sessions ({kind}), such as {first.session_id}: "
                f"{first.reason}; --json names all"
            )
        error = getattr(errors, kind, None)
        yield DONE if error is None else code_of(error)


def _pruned_into(
    store: EventStore, target: EventStore, policy: PrunePolicy, applied: bool
) -> PruneAccount:
    if is_same(store, target):
        _check_archives(store, "--archive takes another one")
    return prune(store, policy, dry_run=not applied, archive=target)


_UNITS_MS: Final = {"h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_AGE = re.compile(r"([0-9]{1,6})([hdw])")


def _milliseconds(age: str) -> int:
    found = _AGE.fullmatch(age)
    if found is None:
        raise UsageError(f"--older-than is a number with h, d or w, such as 90d, not {age!r}")
    return int(found[1]) * _UNITS_MS[found[2]]


def _show_account(account: PruneAccount) -> None:
    screen = Screen()
    screen.table(
        ["LAST USED", "EVENTS", "SESSION"],
        [
            (shown_time(one.last_ms), f"{one.events:,}", (one.session_id, "cyan"))
            for one in account.pruned
        ],
        right="EVENTS",
        narrow=[("EVENTS", 0)],
    )
    verb = "would be taken out" if account.dry_run else "taken out"
    screen.line(f"{len(account.pruned):,} of {counted(account.found, 'session')} {verb}")
    if account.dry_run and account.pruned:
        complain("nothing was changed: --apply does it")
