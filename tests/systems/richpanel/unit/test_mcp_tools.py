"""MCP tools of the middleware, on in-memory stores: an agent reads and explains, and changes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar

import pytest
from mcp import Client

from holdfast import Stores, open_memory_stores, provision
from holdfast.core.errors import ComponentRefused
from holdfast.mcp import build_server
from holdfast_demo.richpanel.sample import load_sample
from richpanel.model import patterns
from richpanel.model.entities import ConversationState, PendingFlow
from richpanel.system import SYSTEM
from tests.unit.mcp.mcp_client import call_tool, get_refusal

R = TypeVar("R")


async def run_as_agent(scenario: Callable[[Client, Stores], Awaitable[R]]) -> R:
    """Run the scenario with an MCP client and stores that hold the sample."""

    async with open_memory_stores(SYSTEM) as stores:
        await provision(stores, SYSTEM)
        await load_sample(stores, scale=0.01)
        async with Client(build_server([stores])) as client:
            return await scenario(client, stores)


@pytest.mark.proves("RP-31")
async def test_agent_can_ask_why_a_conversation_was_routed() -> None:
    async def scenario(agent: Client, _: Stores) -> tuple[dict[str, Any], dict[str, Any]]:
        return (
            await call_tool(agent, "why", id="c-1"),
            await call_tool(agent, "why", id="evt:rp:c-1:m-1"),
        )

    whole, one = await run_as_agent(scenario)
    assert "did route → orders, because order_status" in whole["lines"][0]
    assert whole["actions"] == len(whole["lines"]) == len(whole["last"])
    assert 0 < one["actions"] < whole["actions"]


async def test_agent_sees_the_state_without_the_customer_hash() -> None:
    async def scenario(agent: Client, _: Stores) -> dict[str, Any]:
        return await call_tool(agent, "conversation", conversation_id="c-1")

    state = await run_as_agent(scenario)
    assert state["conversation_id"] == "c-1"
    assert state["last_routed_team"]
    assert "customer_hash" not in state


@pytest.mark.proves("RP-X9")
async def test_expired_question_is_not_reported_as_pending() -> None:
    async def scenario(agent: Client, stores: Stores) -> list[bool]:
        now = stores.now()
        for name, ends in (("c-over", now - timedelta(days=1)), ("c-open", now + timedelta(days=1))):
            flow = PendingFlow(
                type="need_order_number", requested_at=now - timedelta(days=15), expires_at=ends
            )
            state = ConversationState(
                conversation_id=name, updated_at=now, expires_at=now + timedelta(days=90), pending_flow=flow
            )
            await stores.run(patterns.create_state(state))
        return [
            "pending_flow" in await call_tool(agent, "conversation", conversation_id=name)
            for name in ("c-over", "c-open")
        ]

    assert await run_as_agent(scenario) == [False, True]


async def test_unknown_ids_are_reported_as_unknown() -> None:
    async def scenario(agent: Client, _: Stores) -> tuple[str, str]:
        return (
            await get_refusal(agent, "why", id="nobody"),
            await get_refusal(agent, "conversation", conversation_id="nobody"),
        )

    why, state = await run_as_agent(scenario)
    assert "The audit has no entry for nobody" in why
    assert "Unknown conversation nobody" in state


async def test_agent_is_offered_only_reads_and_no_switch() -> None:
    async def scenario(agent: Client, stores: Stores) -> set[str]:
        offered = {tool.name for tool in (await agent.list_tools()).tools}
        with pytest.raises(ComponentRefused):
            await stores.for_component("agent").run(patterns.read_switches())
        return offered

    assert await run_as_agent(scenario) == {"why", "conversation", "action_audit_between"}
    assert not SYSTEM.get_component("agent").writes
