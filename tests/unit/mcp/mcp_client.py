"""An in-process agent: the SDK's client in front of the MCP server, with in-memory stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

import mcp_types as types
from mcp import Client

from holdfast import Stores, System, open_memory_stores
from holdfast.mcp import build_server
from holdfast.operations.tables import Operation
from holdfast.runtime import create_tables
from holdfast.stores.tables.port import Tables
from tests.unit.mcp.harbour import SYSTEM

R = TypeVar("R")


def run_as_agent(story: Callable[[Client, Stores], Awaitable[R]], *systems: System) -> R:
    """Run a story with a client and the stores of the first system."""

    async def run() -> R:
        several = [open_memory_stores(system) for system in systems or (SYSTEM,)]
        for stores in several:
            assert stores.system is not None
            await create_tables(stores, stores.system.tables)
        try:
            async with Client(build_server(several)) as client:
                return await story(client, several[0])
        finally:
            for stores in several:
                await stores.close()

    return asyncio.run(run())


class BreakableTables:
    """Tables that work until `error` is set: every request then raises it."""

    def __init__(self, behind: Tables) -> None:
        self._behind = behind
        self.error: Exception | None = None

    async def run(self, operation: Operation[R]) -> R:
        if self.error is not None:
            raise self.error
        return await self._behind.run(operation)


@asynccontextmanager
async def open_agent(*systems: System, **options: Any) -> AsyncIterator[tuple[Client, Stores]]:
    """Yield a client of a server with these options over a real session, and the stores of the first system,
    whose tables are `BreakableTables`.
    """
    async with AsyncExitStack() as stack:
        several = [await stack.enter_async_context(open_memory_stores(each)) for each in systems or (SYSTEM,)]
        for stores in several:
            assert stores.system is not None
            await create_tables(stores, stores.system.tables)
            stores.tables = BreakableTables(stores.tables)
        # The older protocol has frames and cancellation in process too.
        client = Client(build_server(several, **options), mode="legacy")
        yield await stack.enter_async_context(client), several[0]


async def call_tool(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool that must succeed and return its structured result."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def get_refusal(client: Client, name: str, **arguments: Any) -> str:
    """Call a tool that must fail and return the text of its error."""
    result = await client.call_tool(name, arguments)
    assert result.is_error
    assert result.structured_content is None
    [content] = result.content
    assert isinstance(content, types.TextContent)
    return content.text
