"""
Where commands write: plain text into a pipe, rich text on a terminal, JSON on request.

Every text passes :func:`~eventlog.query.text.visible` here, so that nothing a transcript
holds acts on a terminal; rich is given text and styles, never markup.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

from eventlog.errors import MissingExtra
from eventlog.model import Fault
from eventlog.query.text import escape_json, one_line, valid, visible

from .columns import cells_of, cut_to, fitted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

__all__ = [
    "FAULTS_SHOWN_MAX",
    "Part",
    "Screen",
    "complain",
    "complain_of_faults",
    "complain_of_more",
    "counted",
    "print_json",
    "print_json_line",
    "short_path",
    "shown_size",
]

Part: TypeAlias = str | tuple[str, str]
"""A text, or a text and its rich style."""


def prepare_streams() -> bool:
    """
    Let no character of an answer fail in a terminal's encoding, and put the null device in
    the place of a standard stream that is closed.

    Returns:
        Whether there is somebody to answer: standard output is open.
    """
    # A descriptor that is free goes to the next file opened, which may be the store's: what
    # is then said on standard error would be written into it.
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
    is_heard = sys.stdout is not None
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    return is_heard


def counted(count: int, noun: str, nouns: str = "") -> str:
    """Return a number of things in words: ``1 event``, ``1,204 events``."""
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"


def complain(line: str) -> None:
    """Say something about the answer on standard error, on one line."""
    try:
        sys.stdout.flush()
    except OSError:
        pass  # it fails again at the end of the command, and is told there
    print(f"eventlog: {one_line(line)}", file=sys.stderr)


FAULTS_SHOWN_MAX: Final = 20


def complain_of_faults(faults: Iterable[Fault]) -> int:
    """Name faults on standard error, the first twenty; returns how many there were."""
    held = list(faults)
    for fault in held[:FAULTS_SHOWN_MAX]:
        subject = fault.path or fault.session_id or "a session"
        about = fault.detail if subject in fault.detail else f"{subject}: {fault.detail}"
        complain(f"{fault.kind}: {about}")
    complain_of_more(len(held) - FAULTS_SHOWN_MAX)
    return len(held)


def complain_of_more(left: int) -> None:
    """Say that so many are not named one by one; nothing where none is left."""
    if left > 0:
        complain(f"… and {left:,} more; --json names all")


def print_json(record: object) -> None:
    """Print *record* as one JSON document with the fields of its class."""
    option = orjson.OPT_INDENT_2 if sys.stdout.isatty() else 0
    _write_json(orjson.dumps(as_json(record), option=option))


def print_json_line(record: object) -> None:
    """Print *record* as one line of JSON with the fields of its class."""
    _write_json(orjson.dumps(as_json(record)))


def _write_json(document: bytes) -> None:
    # JSON is UTF-8 whatever the terminal's encoding.
    sys.stdout.flush()
    sys.stdout.buffer.write(escape_json(document.decode()).encode() + b"\n")
    sys.stdout.buffer.flush()


def as_json(value: Any) -> Any:
    """
    Return *value* as JSON values: a record as an object of its public fields, by name.

    An event has ``data`` in the place of its payload; its surface op is ``"append"`` or
    ``{"op": "replace", "start": …, "end": …}``.
    """
    from eventlog.codec import op_to_wire
    from eventlog.model import Append, Event, Replace, SessionHeader

    kind = type(value)
    if value is None or kind in (bool, int, float):
        return value
    if isinstance(value, str):
        return valid(value)
    if kind is Append or kind is Replace:
        return op_to_wire(value)
    if kind is Event:
        # The data is as the log holds it: nothing in it needs a second look.
        return {
            "seq": value.seq,
            "time": value.time,
            "type": value.type,
            "surface_op": as_json(value.surface_op),
            "source_event_seqs": value.source_event_seqs,
            "ignorable": value.ignorable,
            "data": value.data,
        }
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {valid(key): as_json(member) for key, member in value.items()}
    if isinstance(value, Sequence):
        return [as_json(item) for item in value]
    fields = [field.name for field in kind.__attrs_attrs__]
    if kind is SessionHeader:
        fields[fields.index("extra_payload")] = "extra"
    return {name: as_json(getattr(value, name)) for name in fields}


class Screen:
    """
    Standard output, for people.

    Lines are given in parts; styles show on a terminal only, without colours where
    ``NO_COLOR`` is set.
    """

    @cached_property
    def terminal(self) -> bool:
        """Whether a person looks on."""
        return sys.stdout.isatty()

    @property
    def width(self) -> int:
        """Columns of the terminal; without one, more than any line has."""
        return self._console.width if self.terminal else 1_000_000

    def line(self, *parts: Part, indent: int = 0) -> None:
        """Print one line; what is too long goes on below, for a terminal to wrap."""
        self._print(parts, indent, wrap=False)

    def cut_line(self, *parts: Part) -> None:
        """Print one line; what is too long for the terminal is cut and marked with …."""
        flat = [(text.replace("\n", " "), style) for text, style in map(_pair, parts)]
        if self.terminal:
            text = self._text(flat)
            self._console.print(text, no_wrap=True, overflow="ellipsis", crop=True)
        else:
            self._print(flat, 0, wrap=False)

    def body(self, *parts: Part, indent: int = 4) -> None:
        """Print a text of many lines, indented, wrapped between words on a terminal."""
        self._print(parts, indent, wrap=True)

    def rule(self, title: str, style: str = "") -> None:
        """Print a line across with *title* in it."""
        width = min(self.width, 78)
        text = f"── {one_line(title)} "
        self.line((text + "─" * max(2, width - self.cells(text)), style))

    def table(
        self,
        heads: Sequence[str],
        rows: Iterable[Sequence[Part]],
        *,
        right: str = "",
        narrow: Sequence[tuple[str, int]] = (),
        tails: str = "",
    ) -> None:
        """
        Print rows in columns, the last one cut at the terminal's edge.

        Args:
            right: Heads of columns that are aligned to the right, separated by spaces.

            narrow: What gives way on a terminal where the last column has too little room,
                one after the other: a head, and the cells to which its column may be cut; 0
                leaves it out.

            tails: Heads of columns of whose texts the end is kept where they are cut.
        """
        lines = [[(one_line(text), style) for text, style in map(_pair, row)] for row in rows]
        if not lines:
            return
        aligned = right.split()
        widths = [
            max(self.cells(head), *(self.cells(row[column][0]) for row in lines))
            for column, head in enumerate(heads)
        ]
        least = widths[-1] if heads[-1] in aligned else min(widths[-1], LAST_CELLS_MIN)
        if self.terminal:
            widths = fitted(heads, widths, least, narrow, self.width)
        else:
            # One long text does not push the columns of all other rows out of sight.
            widths = [min(width, PIPED_CELLS_MAX) for width in widths]
        lines.insert(0, [(head, "dim") for head in heads])
        for row in lines:
            parts: list[Part] = []
            for column, (text, style) in enumerate(row):
                last = column == len(row) - 1
                if not widths[column]:
                    continue
                if not last and self.terminal:
                    tail = heads[column] in tails.split()
                    text = cut_to(text, widths[column], self.cells, tail=tail)
                space = " " * (widths[column] - self.cells(text))
                if heads[column] in aligned:
                    parts += [space, (text, style)]
                else:
                    parts += [(text, style), "" if last else space]
                parts.append("" if last else "  ")
            self.cut_line(*parts)

    def cells(self, text: str) -> int:
        """Return how many columns *text* takes."""
        if text.isascii():
            return len(text)
        if self.terminal:
            from rich.cells import cell_len

            return cell_len(text)
        return cells_of(text)

    def _print(self, parts: Sequence[Part], indent: int, *, wrap: bool) -> None:
        if not self.terminal:
            joined = "".join(visible(_pair(part)[0]) for part in parts)
            margin = " " * indent
            lines = [f"{margin}{line}".rstrip(" ") for line in joined.split("\n")]
            print("\n".join(lines))
            return
        text = self._text(parts)
        if wrap:
            shown = text.wrap(self._console, max(self.width - indent, WRAPPED_CELLS_MIN))
        else:
            shown = text.split("\n", allow_blank=True)
        for line in shown:
            line.rstrip()
            if line:
                line.pad_left(indent)
        self._console.print(type(text)("\n").join(shown), soft_wrap=True)

    def _text(self, parts: Sequence[Part]) -> Text:
        from rich.text import Text

        return Text.assemble(*((visible(text), style) for text, style in map(_pair, parts)))

    @cached_property
    def _console(self) -> Console:
        try:
            from rich.console import Console
        except ImportError as error:
            from . import INSTALL

            raise MissingExtra("cli", INSTALL) from error
        return Console(markup=False, emoji=False, highlight=False)


LAST_CELLS_MIN: Final = 24
"""What the last column of a table is given by those that can be narrower."""
WRAPPED_CELLS_MIN: Final = 20
PIPED_CELLS_MAX: Final = 60


def _pair(part: Part) -> tuple[str, str]:
    return (part, "") if isinstance(part, str) else part


def shown_size(size_bytes: int) -> str:
    """Return a size with its unit: ``812 B``, ``14.1 kB``, ``3.0 MB``."""
    size, unit = float(size_bytes), "B"
    for larger in ("kB", "MB", "GB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size_bytes} B" if unit == "B" else f"{size:.1f} {unit}"


def short_path(path: str, characters_max: int = 1_000) -> str:
    """Return *path* with the home folder as ``~``, its end where it is long."""
    home = os.path.expanduser("~")
    short = "~" + path[len(home) :] if path == home or path.startswith(home + "/") else path
    return short if len(short) <= characters_max else "…" + short[1 - characters_max :]
