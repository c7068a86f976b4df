"""What an agent can find out about the middleware, over the protocol it speaks; and that it can change nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest
from mcp import Client

from holdfast import Stores, open_memory_stores, provision
from holdfast.core.errors import ComponentRefused
from holdfast.mcp import build_server
from richpanel.demo.sample import load_sample
from richpanel.model import patterns
from richpanel.model.entities import ConversationState, PendingFlow
from richpanel.system import SYSTEM
from tests.unit.mcp.calling import answer, refusal

R = TypeVar("R")


def as_agent(play: Callable[[Client, Stores], Awaitable[R]]) -> R:
    async def played() -> R:
        async with open_memory_stores(SYSTEM) as stores:
            await provision(stores, SYSTEM)
            await load_sample(stores, scale=0.01)
            async with Client(build_server([stores])) as client:
                return await play(client, stores)

    return asyncio.run(played())


@pytest.mark.proves("RP-31")
def test_an_agent_can_ask_why_a_conversation_was_routed() -> None:
    async def play(agent: Client, _: Stores) -> tuple[dict[str, Any], dict[str, Any]]:
        return (
            await answer(agent, "why", id="c-1"),
            await answer(agent, "why", id="evt:rp:c-1:m-1"),
        )

    whole, one = as_agent(play)
    assert "did route → orders, because order_status" in whole["lines"][0]
    assert whole["actions"] == len(whole["lines"]) == len(whole["last"])
    assert 0 < one["actions"] < whole["actions"]


def test_an_agent_can_ask_where_a_conversation_stands_and_is_told_no_hash_of_an_address() -> None:
    async def play(agent: Client, _: Stores) -> dict[str, Any]:
        return await answer(agent, "conversation", conversation_id="c-1")

    state = as_agent(play)
    assert state["conversation_id"] == "c-1"
    assert state["last_routed_team"]
    assert "customer_hash" not in state


@pytest.mark.proves("RP-X9")
def test_a_question_whose_time_is_over_is_not_told_as_pending() -> None:
    async def play(agent: Client, stores: Stores) -> list[bool]:
        now = datetime.fromtimestamp(stores.clock.now(), UTC)
        for name, ends in (("c-over", now - timedelta(days=1)), ("c-open", now + timedelta(days=1))):
            flow = PendingFlow(
                type="need_order_number", requested_at=now - timedelta(days=15), expires_at=ends
            )
            state = ConversationState(
                conversation_id=name, updated_at=now, expires_at=now + timedelta(days=90), pending_flow=flow
            )
            await stores.run(patterns.create_state(state))
        return [
            "pending_flow" in await answer(agent, "conversation", conversation_id=name)
            for name in ("c-over", "c-open")
        ]

    assert as_agent(play) == [False, True]


def test_what_is_not_known_is_said_so() -> None:
    async def play(agent: Client, _: Stores) -> tuple[str, str]:
        return (
            await refusal(agent, "why", id="nobody"),
            await refusal(agent, "conversation", conversation_id="nobody"),
        )

    why, state = as_agent(play)
    assert "The audit has no entry for nobody" in why
    assert "Unknown conversation nobody" in state


def test_an_agent_is_offered_reads_alone_and_may_turn_no_switch() -> None:
    async def play(agent: Client, stores: Stores) -> set[str]:
        offered = {tool.name for tool in (await agent.list_tools()).tools}
        with pytest.raises(ComponentRefused):
            await stores.for_component("agent").run(patterns.read_switches())
        return offered

    assert as_agent(play) == {"why", "conversation", "action_audit_between"}
    assert not SYSTEM.get_component("agent").writes
