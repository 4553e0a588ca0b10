"""
The items of the Responses API, as Codex and the Agents SDK keep them.
"""

from __future__ import annotations

from typing import Final

from eventlog.values import JSONValue

from .conversation import Object, arguments_text, text_block

__all__ = ["call_of", "content_of", "is_result", "joined_text", "output_of", "reasoning_of"]

# Of a call of a kind of its own, the field that is its arguments.
OTHER_CALLS: Final = {
    "local_shell_call": "action",
    "web_search_call": "action",
    "tool_search_call": "arguments",
    "image_generation_call": "prompt",
    "computer_call": "action",
    "file_search_call": "queries",
    "code_interpreter_call": "code",
    "mcp_call": "arguments",
}


def is_result(item: Object) -> bool:
    """Tell whether an item answers a call."""
    kind = item.get("type")
    return type(kind) is str and kind.endswith("_output")


def call_of(item: Object, key: str) -> tuple[str, str, str] | None:
    """Return a call's id, tool and arguments; None for an item that is no call."""
    kind = item.get("type")
    if kind == "function_call":
        name, arguments = item.get("name"), item.get("arguments")
    elif kind == "custom_tool_call":
        name, arguments = item.get("name"), item.get("input")
    elif type(kind) is str and kind in OTHER_CALLS:
        name, arguments = kind.removesuffix("_call"), item.get(OTHER_CALLS[kind])
    else:
        return None
    call_id = item.get("call_id") or item.get("id") or key
    return str(call_id), name if type(name) is str else "", arguments_text(arguments)


def reasoning_of(item: Object) -> Object:
    """Return what a model thought as a block; what is encrypted stays so."""
    parts = [*_texts(item.get("summary")), *_texts(item.get("content"))]
    block: Object = {"type": "reasoning", "text": "\n\n".join(parts)}
    for name in ("encrypted_content", "content", "summary"):
        if item.get(name) is not None and (name == "encrypted_content" or not parts):
            block[name] = item[name]
    return block


def _texts(parts: JSONValue) -> list[str]:
    if type(parts) is not list:
        return []
    return [part["text"] for part in parts if type(part) is dict and type(part.get("text")) is str]


def content_of(content: JSONValue) -> list[JSONValue] | None:
    """Return an item's content as blocks; None where it has none."""
    if type(content) is str:
        return [text_block(content)]
    if type(content) is not list:
        return None
    return [_block(part) for part in content]


def _block(part: JSONValue) -> JSONValue:
    if type(part) is not dict:
        return text_block(arguments_text(part))
    if part.get("type") in ("input_text", "output_text", "text") and type(part.get("text")) is str:
        rest = {name: item for name, item in part.items() if name not in ("type", "text")}
        return {**text_block(part["text"]), **rest}
    return part


def joined_text(content: list[JSONValue]) -> str:
    """Return the text of a content's blocks, joined."""
    return "".join(
        block["text"]
        for block in content
        if type(block) is dict and block.get("type") == "text" and type(block.get("text")) is str
    )


def output_of(output: JSONValue) -> tuple[list[JSONValue], bool]:
    """Return a result's content, and whether it is an error."""
    if type(output) is dict and "content" in output:
        content = content_of(output["content"])
        return content or [text_block(arguments_text(output["content"]))], (
            output.get("success") is False
        )
    content = content_of(output)
    if content is None:
        content = [] if output is None else [text_block(arguments_text(output))]
    return content, False
