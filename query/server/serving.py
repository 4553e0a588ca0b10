"""
Serving the tools over the Model Context Protocol, on standard input and output.
"""

from __future__ import annotations

from importlib.metadata import version

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from .tools import HistoryTools

__all__ = ["make_server", "serve"]

INSTRUCTIONS = (
    "The history of agent sessions, kept whole: also what compaction dropped from the "
    "context. session_search finds sessions, session_query entries in one, session_read "
    "gives an entry in full, session_trace says what replaced it."
)


def make_server(tools: HistoryTools) -> Server[object]:
    """Return a server of the SDK that answers with *tools*."""

    async def list_tools(context: object, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(
            tools=[
                Tool(
                    name=spec.name,
                    description=spec.description,
                    input_schema=spec.input_schema,
                    annotations=ToolAnnotations(
                        read_only_hint=True, idempotent_hint=True, open_world_hint=False
                    ),
                )
                for spec in tools.specs
            ]
        )

    async def call_tool(context: object, params: CallToolRequestParams) -> CallToolResult:
        # Queries block; the protocol goes on meanwhile.
        answer = await anyio.to_thread.run_sync(tools.call, params.name, params.arguments)
        return CallToolResult(
            content=[TextContent(type="text", text=answer.text)], is_error=answer.is_error
        )

    return Server(
        "eventlog",
        version=version("agent-eventlog"),
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def serve(tools: HistoryTools) -> None:
    """Serve on standard input and output until the client goes."""

    async def run() -> None:
        server = make_server(tools)
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(run)
