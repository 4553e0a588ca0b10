"""
Contents as the Gemini API has them: parts of text, calls and responses.
"""

from __future__ import annotations

from eventlog.values import JSONValue

from .conversation import Object, arguments_text, call_block, text_block

__all__ = ["is_plain_response", "parts_of", "response_text"]


def parts_of(content: JSONValue) -> list[JSONValue]:
    """Return a content as blocks, whatever form it has."""
    if type(content) is str:
        return [text_block(content)] if content else []
    if content is None:
        return []
    return [_block(part) for part in (content if type(content) is list else [content])]


def response_text(response: JSONValue) -> Object:
    """Return what a call's response shows the model, as a block of text."""
    if type(response) is dict:
        said = response.get("output", response.get("error"))
        if type(said) is str:
            return text_block(said)
    return text_block(arguments_text(response))


def is_plain_response(part: JSONValue) -> bool:
    """Tell whether a part says nothing beyond a call's output, its id and its tool."""
    if type(part) is not dict or list(part) != ["functionResponse"]:
        return False
    response = part["functionResponse"]
    said = response.get("response") if type(response) is dict else None
    return (
        type(said) is dict
        and response.keys() <= {"id", "name", "response"}
        and list(said) in (["output"], ["error"])
        and all(type(text) is str for text in said.values())
    )


def _block(part: JSONValue) -> JSONValue:
    if type(part) is not dict:
        return text_block(arguments_text(part))
    call = part.get("functionCall")
    if type(call) is dict:
        rest = {name: item for name, item in part.items() if name != "functionCall"}
        more = {name: item for name, item in call.items() if name not in ("id", "name", "args")}
        block = call_block(str(call.get("id") or ""), call.get("name"), call.get("args"))
        return {**block, **more, **rest, "type": block["type"]}
    if type(part.get("text")) is str and "type" not in part:
        kind = "reasoning" if part.get("thought") is True else "text"
        return {"type": kind, **part}
    return part
