"""
``show``: a session as a conversation that one can read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import click
from attrs import define, field, frozen

from eventlog.model import EventClass, Replace
from eventlog.query.filters import Classes, EventFilter, Seq, Text, Time, Types
from eventlog.query.records import EventDocument, SessionRecord
from eventlog.query.session_query import SessionQuery
from eventlog.query.text import cut_characters, one_line
from eventlog.vocabulary import Vocabulary

from .entries import Entry, chosen, newest
from .failures import DONE, NONE_FOUND
from .options import (
    examples,
    find_session,
    json_option,
    querying,
    session_argument,
    store_option,
)
from .output import Screen, complain, print_json, short_path
from .times import clock, instant, shown_time

__all__ = ["register"]


def register(group: click.Group) -> None:
    group.add_command(show)


@click.command(
    epilog=examples(
        "eventlog show 3fd7",
        "eventlog show 3fd7 --all --full",
        "eventlog show 3fd7 --text 'permission denied' --class shadowed",
        "eventlog show 3fd7 --from 200 --to 260 --log",
        note="--json prints one document: the session's record and its EventDocuments.",
    ),
)
@session_argument
@store_option
@click.option(
    "-n",
    "--last",
    metavar="N",
    type=click.IntRange(min=1),
    default=100,
    help="The newest so many; 100 without it.",
)
@click.option("--all", "everything", is_flag=True, help="All of it, from the start.")
@click.option("--full", is_flag=True, help="Whole texts, and what tools answered.")
@click.option("--log", "log_only", is_flag=True, help="Also what the model never sees.")
@click.option("--from", "first", metavar="SEQ", type=click.IntRange(min=0), help="From here on.")
@click.option("--to", "final", metavar="SEQ", type=click.IntRange(min=0), help="Up to here.")
@click.option("--type", "types", metavar="TYPE", multiple=True, help="Only this type; repeatable.")
@click.option(
    "--class",
    "classes",
    type=click.Choice([str(kind) for kind in EventClass]),
    multiple=True,
    help="Only what stands so to the surface; repeatable.",
)
@click.option("--text", metavar="TEXT", help="Only what holds this text, in any case.")
@click.option("--since", metavar="WHEN", help="Only what is not older: a time, 3h, 7d.")
@click.option("--until", metavar="WHEN", help="Only what is not newer.")
@json_option
def show(
    session: str,
    store: str | None,
    last: int,
    everything: bool,
    full: bool,
    log_only: bool,
    first: int | None,
    final: int | None,
    types: tuple[str, ...],
    classes: tuple[str, ...],
    text: str | None,
    since: str | None,
    until: str | None,
    as_json: bool,
) -> int:
    """
    Show a session as a conversation: what was said, which tools were called, where
    context was compacted.

    Long texts and what tools answered are folded; --full unfolds them. What compaction
    took from the model's eyes is still shown, dimmed and marked. The newest 100 are
    shown, and only those are read, unless --all or --last say otherwise.
    """
    with querying(store) as (query, held):
        session_id = find_session(held, session)
        filters: list[EventFilter] = []
        if first is not None or final is not None:
            filters.append(Seq(first, final))
        if types:
            filters.append(Types(types))
        if classes:
            filters.append(Classes(classes))
        if since is not None or until is not None:
            filters.append(Time(instant(since, "--since"), instant(until, "--until")))
        if text is not None:
            filters.append(Text(text))
        log = query.corpus.snapshot(session_id)
        # Whoever asks for a type has it shown, whatever it is.
        wanted = _everything if log_only or types else _is_conversation
        earlier = False
        entries: Iterable[Entry]
        if everything:
            entries = chosen(log, query.vocabulary, filters, wanted)
        else:
            entries, earlier = newest(log, query.vocabulary, filters, wanted, last)
        record = _record(query, session_id)
        if as_json:
            documents = [entry.document(query.vocabulary) for entry in entries if entry.text]
            print_json(Shown(record, tuple(documents)))
            return DONE if documents else NONE_FOUND
        screen = Screen()
        _show_header(screen, record)
        if earlier:
            screen.line(("… earlier events: --all shows them, --last more of them", "dim"))
            screen.line()
        count = _Transcript(screen, query.vocabulary, full).write(entries)
    if not count:
        complain("nothing to show" + (": no event passes the filters" if filters else ""))
    return DONE if count else NONE_FOUND


@frozen
class Shown:
    """
    A session and what is shown of it.

    Attributes:
        session: Its record.

        documents: The events that have text, in seq order.
    """

    session: SessionRecord
    documents: tuple[EventDocument, ...]


def _record(query: SessionQuery, session_id: str) -> SessionRecord:
    from eventlog.query.filters import Ids

    return query.list_sessions(filters=[Ids([session_id])], limit=1).items[0]


def _show_header(screen: Screen, record: SessionRecord) -> None:
    header = record.header
    screen.line((header.id, "bold"))
    facts = [shown_time(header.created_at), f"{record.length:,} events"]
    if header.cwd is not None:
        facts.append(short_path(header.cwd))
    if header.parent_session is not None:
        inherited = f", {header.seed_length} events from it" if header.seed_length else ""
        facts.append(f"child of {header.parent_session}{inherited}")
    if header.origin is not None:
        facts.append(header.origin)
    screen.line((" · ".join(facts), "dim"))
    screen.line()


def _everything(entry: Entry) -> bool:
    return True


# Of log-only types with text: a call is in its message already, chunks are its pieces.
_FOLDED_TYPES: Final = ("tool/call", "assistant/chunk")
_MARKER_TYPES: Final = ("session/end-seed", "compaction/prune")


def _is_conversation(entry: Entry) -> bool:
    if entry.event.is_node:
        return True
    kind = entry.event.type
    return (bool(entry.text) and kind not in _FOLDED_TYPES) or kind in _MARKER_TYPES


_ROLE_STYLES: Final = {"user": "bold green", "assistant": "bold blue", "tool": "cyan"}
_LINES_MAX: Final = 16
_CHARACTERS_MAX: Final = 2_000


@define
class _Transcript:
    """
    Writes entries one after the other.

    Attributes:
        screen: Where to.

        vocabulary: What the events mean.

        full: Whether nothing is folded.

        tools: Names of the tools called so far, by the call's id.
    """

    screen: Screen
    vocabulary: Vocabulary
    full: bool
    tools: dict[str, str] = field(factory=dict)

    def write(self, entries: Iterable[Entry]) -> int:
        """Write all of them; returns how many there were."""
        count = 0
        for entry in entries:
            count += 1
            if entry.event.is_node:
                self._write_node(entry)
            else:
                self._write_marker(entry)
        return count

    def _write_marker(self, entry: Entry) -> None:
        event = entry.event
        if event.type == "session/end-seed":
            self.screen.rule("the events above were there before this session's own")
            return
        text = one_line(cut_characters(entry.text, _CHARACTERS_MAX).text)
        self.screen.cut_line((f"#{event.seq} {event.type}", "dim"), (f"  {text}", "dim"))

    def _write_node(self, entry: Entry) -> None:
        event = entry.event
        message = self.vocabulary.message(event)
        blocks = list(_blocks(message))
        dim = entry.record.event_class is EventClass.SHADOWED
        op = event.surface_op
        results = [block for block in blocks if block.get("type") == "tool-result"]
        if isinstance(op, Replace) and not results:
            gone = len(set(event.source_event_seqs or ()))
            self.screen.rule(f"compacted: this stands for {gone} events", "yellow")
        if results:
            speaker = "tool"
        else:
            role = None if message is None else message.get("role")
            speaker = role if type(role) is str else event.type
        marks = [f"#{event.seq}", clock(event.time)]
        if entry.replaced_by is not None:
            marks.append(f"replaced by #{entry.replaced_by}")
        if entry.record.inherited:
            marks.append("inherited")
        style = "dim" if dim else _ROLE_STYLES.get(speaker, "bold")
        self.screen.line((speaker, style), (f"  {'  '.join(marks)}", "dim"))
        for block in blocks:
            self._write_block(block, "dim" if dim else "")
        self.screen.line()

    def _write_block(self, block: dict[str, Any], style: str) -> None:
        kind = block.get("type")
        if kind == "text":
            self._write_text(block.get("text"), style)
        elif kind == "reasoning":
            self._write_folded("thinking", block.get("text"), "dim italic")
        elif kind == "tool-call":
            name, call_id = str(block.get("name")), str(block.get("id"))
            self.tools[call_id] = name
            arguments = block.get("arguments")
            shown = arguments if isinstance(arguments, str) else str(arguments)
            if self.full:
                self.screen.body((f"→ {name} ", style or "cyan"), (shown, style), indent=2)
            else:
                line = one_line(cut_characters(shown, _CHARACTERS_MAX).text)
                self.screen.cut_line((f"  → {name} ", style or "cyan"), (_folded(line), style))
        elif kind == "tool-result":
            name = self.tools.get(str(block.get("toolCallId")), "")
            failed = " failed" if block.get("isError") is True else ""
            texts = [str(inner.get("text")) for inner in _blocks(block) if "text" in inner]
            self._write_folded(f"← {name}{failed}".strip(), "\n".join(texts), style)
            for inner in _blocks(block):
                if "text" not in inner:
                    self.screen.line((f"[{inner.get('type')}]", "dim"), indent=4)
        else:
            self.screen.line((f"[{kind}]", "dim"), indent=4)

    def _write_text(self, text: object, style: str) -> None:
        if type(text) is not str or not text.strip():
            return
        text = text.strip("\n")
        if self.full:
            self.screen.body((text, style))
            return
        cut = cut_characters(text, _CHARACTERS_MAX)
        lines = cut.text.split("\n")
        self.screen.body(("\n".join(lines[:_LINES_MAX]), style))
        left = len(text) - len("\n".join(lines[:_LINES_MAX]))
        if left > 0:
            self.screen.line((f"… {left:,} more characters; --full shows them", "dim"), indent=4)

    def _write_folded(self, label: str, text: object, style: str) -> None:
        text = text if type(text) is str else ""
        if self.full:
            self.screen.line((label, style or "cyan"), indent=2)
            self._write_text(text, style)
            return
        lines = text.count("\n") + 1 if text else 0
        size = "nothing" if not text else f"{lines:,} lines" if lines > 1 else "1 line"
        start = one_line(cut_characters(text, _CHARACTERS_MAX).text)
        self.screen.cut_line(
            (f"  {label} ", style or "cyan"), (f"({size}) ", "dim"), (_folded(start), style)
        )


def _folded(line: str) -> str:
    """Cut a line of folded text; a terminal may cut it shorter."""
    cut = cut_characters(line, 100)
    return f"{cut.text}…" if cut.truncated else cut.text


def _blocks(message: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """Yield the content blocks of a message or a tool's result, whatever shape it has."""
    content = None if message is None else message.get("content")
    if type(content) is str:
        yield {"type": "text", "text": content}
    elif type(content) is list:
        for block in content:
            yield block if type(block) is dict else {"type": "text", "text": str(block)}
