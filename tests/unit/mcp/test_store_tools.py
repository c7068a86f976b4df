"""Queue and object patterns as tools: offered only if declared, described by store, returned as JSON."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from holdfast import Component, open_memory_stores
from holdfast.core.errors import DeclarationError
from holdfast.mcp.tools import AgentTool, build_agent_tools
from holdfast.runtime import create_buckets, create_queues, create_tables
from tests.unit.reports.post_room import (
    SYSTEM,
    file_scan,
    next_letters,
    scan_of,
    scans_of_day,
    take_in,
)

DAY = {"created_at": "2026-01-02T12:00:00Z"}
AGENT = Component("agent", uses=(scan_of, scans_of_day, take_in, next_letters, file_scan))


def call_tools(
    agent: Component, *calls: tuple[str, dict[str, Any]]
) -> tuple[dict[str, AgentTool], list[Any]]:
    """Build the tools of this agent in memory and call some of them. Return the tools and the results."""
    system = replace(SYSTEM, components=(agent,))

    async def run() -> tuple[dict[str, AgentTool], list[Any]]:
        async with open_memory_stores(system) as stores:
            await create_tables(stores, system.tables)
            await create_queues(stores, system.queues)
            await create_buckets(stores, system.buckets)
            tools = {tool.name: tool for tool in build_agent_tools(stores)}
            return tools, [await tools[name].call(arguments) for name, arguments in calls]

    return asyncio.run(run())


def test_agent_is_offered_only_its_declared_patterns() -> None:
    tools, _ = call_tools(Component("agent", uses=(scans_of_day,)))

    assert list(tools) == ["scans_of_day"]


def test_receiving_is_not_a_read() -> None:
    with pytest.raises(DeclarationError, match="is read-only, but L2 writes"):
        Component("agent", uses=(next_letters,), read_only=True)


def test_a_tool_says_which_queue_or_bucket_it_is_about() -> None:
    tools, _ = call_tools(AGENT)

    assert "SendMessage on letters of queues" in tools["take_in"].description
    assert "GetObject on letter-archive of objects" in tools["scan_of"].description


def test_sending_is_neither_destructive_nor_idempotent() -> None:
    tools, _ = call_tools(AGENT)

    assert (tools["take_in"].effects.destructive, tools["take_in"].effects.idempotent) == (False, False)
    assert tools["file_scan"].effects.destructive is False
    assert tools["scan_of"].effects.read_only is True


def test_returns_objects_as_json() -> None:
    scan = DAY | {"letter_id": "l1"}
    _, (put, got, listed) = call_tools(
        AGENT, ("file_scan", scan | {"body": "pdf"}), ("scan_of", scan), ("scans_of_day", DAY)
    )

    assert put["items"][0]["key"] == "scans/2026/01/02/l1.pdf"
    assert base64.b64decode(got["items"][0]["body"]) == b"pdf"
    assert [each["key"] for each in listed["items"]] == ["scans/2026/01/02/l1.pdf"]
    assert (listed["count"], listed["cursor"]) == (1, None)


def test_returns_messages_as_json() -> None:
    letter = {"id": "l1", "to": "ada"}
    receive = ("receive", {"count": 1, "wait_s": 0})
    _, (sent, received) = call_tools(AGENT, ("take_in", {"letter": letter}), receive)

    assert sent["count"] == 1
    assert json.loads(received["items"][0]["body"])["id"] == "l1"
