"""
The wire format: one JSON object a line, UTF-8, lines ended by LF.

This text is the specification. Version 0 is read and written, and is that of DeepSeek
Harness session logs.

**Header**, the first line::

    {"type":"session","version":0,"id":ID,"createdAt":MS,"cwd":PATH?,
     "parentSession":ID?,"seedLength":N?,"origin":NAME?,"delegationDepth":N,
     "agentPreset":NAME?, …}

``version``, ``id``, ``createdAt`` and ``delegationDepth`` are required. A key marked
``?`` is left out where there is nothing to say, never null. Unknown keys are kept in
:attr:`SessionHeader.extra`, and written behind the known ones.

**Event**, every further line::

    {"type":TYPE,"seq":N,"time":MS,"sourceEventSeqs":[N…]?,
     "surfaceOp":("append" | {"op":"replace","start":N,"end":N})?,
     "ignorable":true?,"data":OBJECT}

Keys stand in this order when we write, ``data`` last; any order is read. Absent sources
and ``[]`` differ. Unknown keys, nulls, duplicate keys, floats or booleans in the place
of an int, and everything that :mod:`eventlog.values` refuses make a line malformed.

**Packed row**, read but never written: a run of ``assistant/chunk`` events::

    {"type":"text-chunks" | "reasoning-chunks","seq0":N,"time0":MS,
     "data":{"turn":N,"step":N,"index":N,"dt":[MS…],"texts":[TEXT…]}}
    {"type":"tool-call-chunks","seq0":N,"time0":MS,
     "data":{"turn":N,"step":N,"index":N,"id":ID,"name":NAME?,"dt":[MS…],"args":[TEXT…]}}

Member *k* has the seq ``seq0 + k`` and the time ``time0`` plus the first *k* of ``dt``,
which has one entry less than there are members. Its data is
``{"turn":…,"step":…,"chunk":{"type":"text-delta","index":…,"text":texts[k]}}``, with
``reasoning-delta`` for reasoning, and for calls
``{"type":"tool-call-delta","index":…,"id":…,"name":…?,"argumentsDelta":args[k]}``.

**Strings** in memory are those of the wire: decoded once, never normalised.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import orjson

from eventlog import values
from eventlog.errors import ValueRejected
from eventlog.model import APPEND, Append, Event, Replace, SessionHeader, SurfaceOp, check_time
from eventlog.values import JSONValue

if TYPE_CHECKING:
    import cattrs

__all__ = [
    "converter",
    "decode_line",
    "encode_line",
    "event_from_wire",
    "event_to_wire",
    "header_from_wire",
    "header_to_wire",
]

# Wire names of header fields, in the order in which they are written.
HEADER_FIELDS: Final = {
    "version": "version",
    "id": "id",
    "createdAt": "created_at",
    "cwd": "cwd",
    "parentSession": "parent_session",
    "seedLength": "seed_length",
    "origin": "origin",
    "delegationDepth": "delegation_depth",
    "agentPreset": "agent_preset",
}
HEADER_REQUIRED: Final = ("version", "id", "createdAt", "delegationDepth")
EVENT_REQUIRED: Final = ("type", "seq", "time", "data")
EVENT_KEYS: Final = frozenset({*EVENT_REQUIRED, "sourceEventSeqs", "surfaceOp", "ignorable"})


def header_from_wire(record: Mapping[str, JSONValue]) -> SessionHeader:
    """
    Build a header from a decoded header record.

    Any version whose header has the known shape is read.

    Raises:
        ValueRejected: The record is no header; *path* is the wire name concerned.
    """
    _check_object(record)
    if record.get("type") != "session":
        raise ValueRejected("type", f"must be 'session', not {values.shown(record.get('type'))}")
    for name in HEADER_REQUIRED:
        if name not in record:
            raise ValueRejected(name, "is missing")
    known: dict[str, Any] = {}
    for name, attribute in HEADER_FIELDS.items():
        if name in record:
            if record[name] is None:
                raise ValueRejected(name, "must not be null")
            known[attribute] = record[name]
    extra = {name: v for name, v in record.items() if name != "type" and name not in HEADER_FIELDS}
    try:
        return SessionHeader(extra=extra, **known)
    except ValueRejected as error:
        raise ValueRejected(_wire_path(error.path), error.reason) from None


def _wire_path(path: str) -> str:
    """Return what a path in a header is called in its record."""
    for name, attribute in HEADER_FIELDS.items():
        if path == attribute:
            return name
    return path.removeprefix("extra.")


def header_to_wire(header: SessionHeader) -> dict[str, JSONValue]:
    """Return the header record of *header*, its keys in the order of the format."""
    record: dict[str, JSONValue] = {"type": "session"}
    for name, attribute in HEADER_FIELDS.items():
        value = getattr(header, attribute)
        if value is not None:
            record[name] = value
    record.update(header.extra)
    return record


def event_from_wire(record: Mapping[str, JSONValue]) -> Event:
    """
    Build an event from a decoded event record.

    Raises:
        ValueRejected: The record is no event; *path* is the wire name concerned.

        InvalidSurface: Its sources are no list of seqs.
    """
    _check_object(record)
    for name in EVENT_REQUIRED:
        if name not in record:
            raise ValueRejected(name, "is missing")
    if not record.keys() <= EVENT_KEYS:
        unknown = next(name for name in record if name not in EVENT_KEYS)
        path = unknown[:60] if type(unknown) is str else values.shown(unknown)
        raise ValueRejected(path, "is no key of an event")
    if "ignorable" in record and record["ignorable"] is not True:
        raise ValueRejected("ignorable", "must be true where it is given")
    if "sourceEventSeqs" in record and record["sourceEventSeqs"] is None:
        raise ValueRejected("sourceEventSeqs", "must not be null")
    return Event(
        record["seq"],
        record["time"],
        record["type"],
        record["data"],
        surface_op=op_from_wire(record["surfaceOp"]) if "surfaceOp" in record else None,
        source_event_seqs=record.get("sourceEventSeqs"),
        ignorable="ignorable" in record,
    )


def _check_object(record: object) -> None:
    if not isinstance(record, Mapping):
        raise ValueRejected("record", f"must be a JSON object, not {type(record).__name__}")


def event_to_wire(event: Event) -> dict[str, JSONValue]:
    """Return the event record of *event*, its keys in the order of the format."""
    record: dict[str, JSONValue] = {"type": event.type, "seq": event.seq, "time": event.time}
    if event.source_event_seqs is not None:
        record["sourceEventSeqs"] = list(event.source_event_seqs)
    if event.surface_op is not None:
        record["surfaceOp"] = op_to_wire(event.surface_op)
    if event.ignorable:
        record["ignorable"] = True
    record["data"] = event.data
    return record


def op_from_wire(value: JSONValue) -> SurfaceOp:
    """
    Read the value of ``surfaceOp``.

    Raises:
        ValueRejected: It is no surface op.
    """
    if value == "append":
        return APPEND
    if type(value) is dict and value.keys() == {"op", "start", "end"} and value["op"] == "replace":
        for name in ("start", "end"):
            values.check_int(value[name], f"surfaceOp.{name}")
        return Replace(value["start"], value["end"])
    raise ValueRejected("surfaceOp", 'must be "append" or {"op":"replace","start":…,"end":…}')


def op_to_wire(op: SurfaceOp) -> JSONValue:
    """Return the value of ``surfaceOp`` for *op*."""
    if type(op) is Append:
        return "append"
    return {"op": "replace", "start": op.start, "end": op.end}  # type: ignore[union-attr]


def encode_line(record: SessionHeader | Event) -> bytes:
    """
    Return the line of a header or an event, LF included. It holds exactly one LF.

    Cost: O(bytes); the payload is copied, not decoded.
    """
    if type(record) is SessionHeader:
        return orjson.dumps(header_to_wire(record)) + b"\n"
    assert isinstance(record, Event)
    more, op = b"", record.surface_op
    if record.source_event_seqs is not None:
        more = b',"sourceEventSeqs":' + orjson.dumps(record.source_event_seqs)
    if type(op) is Append:
        more += b',"surfaceOp":"append"'
    elif op is not None:
        more += b',"surfaceOp":' + orjson.dumps(op_to_wire(op))
    if record.ignorable:
        more += b',"ignorable":true'
    # Formatted at once: a long batch spends much of its time here.
    head = orjson.dumps(record.type), record.seq, record.time
    return b'{"type":%b,"seq":%d,"time":%d%b,"data":%b}\n' % (*head, more, record.payload)


def decode_line(line: bytes) -> SessionHeader | Event | list[Event]:
    """
    Read one line: a header, an event, or the events of a packed row.

    Args:
        line: The line with or without its LF.

    Cost: O(bytes): one parse, and one encoding of the payload.

    Raises:
        ValueRejected: The line is malformed; *path* and *reason* say how.

        InvalidSurface: An event's sources are no list of seqs.
    """
    record = values.parse(line[:-1] if line.endswith(b"\n") else line, levels_above=1)
    tag = record.get("type")
    if tag == "session":
        return header_from_wire(record)
    if type(tag) is str and tag in _PACKED:
        return _unpack(record, *_PACKED[tag])
    return event_from_wire(record)


# Tag of a packed row → the type of its members' chunk, the key of their texts there, and
# in the row.
_PACKED: Final = {
    "text-chunks": ("text-delta", "text", "texts"),
    "reasoning-chunks": ("reasoning-delta", "text", "texts"),
    "tool-call-chunks": ("tool-call-delta", "argumentsDelta", "args"),
}


def _unpack(
    record: Mapping[str, JSONValue], chunk_type: str, text_key: str, texts_key: str
) -> list[Event]:
    if record.keys() != {"type", "seq0", "time0", "data"}:
        raise ValueRejected("record", "a packed row has the keys type, seq0, time0 and data")
    data = record["data"]
    required = {"turn", "step", "index", "dt", texts_key}
    optional = set()
    if chunk_type == "tool-call-delta":
        required.add("id")
        optional.add("name")
    if type(data) is not dict or not required <= data.keys() <= required | optional:
        raise ValueRejected("data", f"a packed row has the keys {', '.join(sorted(required))}")
    for name in ("turn", "step", "index"):
        values.check_int(data[name], f"data.{name}", minimum=-values.TIME_MAX)
    named = {name: data[name] for name in ("id", "name") if name in data}
    for name, text in named.items():
        values.check_text(text, f"data.{name}")
    texts, steps = data[texts_key], data["dt"]
    if type(texts) is not list or not texts or any(type(text) is not str for text in texts):
        raise ValueRejected(f"data.{texts_key}", "must be a list of strings, not empty")
    if type(steps) is not list or len(steps) != len(texts) - 1:
        raise ValueRejected("data.dt", f"must have {len(texts) - 1} entries")
    seq, time = record["seq0"], record["time0"]
    events = []
    for position, text in enumerate(texts):
        if position:
            check_time(steps[position - 1], path="data.dt")
            time += steps[position - 1]
        values.check_int(seq, "seq0")
        chunk = {"type": chunk_type, "index": data["index"], **named, text_key: text}
        events.append(
            Event(
                seq,
                time,
                "assistant/chunk",
                {"turn": data["turn"], "step": data["step"], "chunk": chunk},
            )
        )
        seq += 1
    return events


def _make_converter() -> cattrs.Converter:
    """
    Build the converter for headers and the small records around them.

    Its hooks for ``int``, ``str``, ``bool`` and ``float`` take exactly that type; cattrs
    would turn ``"3"``, ``True`` and ``5`` into each other. Events have their own path
    above, since they are the hot one.
    """
    import cattrs

    built = cattrs.Converter(forbid_extra_keys=True)

    def exactly(kind: type) -> Any:
        def structure(value: object, _: object) -> object:
            if type(value) is not kind:
                raise ValueRejected("value", f"must be {kind.__name__}, not {values.shown(value)}")
            return value

        return structure

    for kind in (int, str, bool, float):
        built.register_structure_hook(kind, exactly(kind))
    built.register_structure_hook(SessionHeader, lambda record, _: header_from_wire(record))
    built.register_unstructure_hook(SessionHeader, header_to_wire)
    built.register_structure_hook(Event, lambda record, _: event_from_wire(record))
    built.register_unstructure_hook(Event, event_to_wire)
    return built


if TYPE_CHECKING:
    converter: Final[cattrs.Converter] = _make_converter()
else:

    def __getattr__(name: str) -> Any:
        # Made when it is first asked for: nothing in the library is read or written by it,
        # and importing cattrs would be a tenth of a command's start.
        if name != "converter":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return globals().setdefault(name, _make_converter())
