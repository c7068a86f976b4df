"""Tests of `why`, the MCP tools and the operator commands, each with its component's permissions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import ComponentRefused, InvalidRequest, NotFound
from holdfast.model.ulids import UlidGenerator
from tests.systems.tripcortex.unit.steps.booking_bench import EMPLOYEE, POLICY_FILE, Bench
from tests.systems.tripcortex.unit.steps.test_endings import OUT_OF_POLICY
from tripcortex.api import mcp_tools
from tripcortex.api.commands import COMMANDS
from tripcortex.model import patterns
from tripcortex.system import SYSTEM

QUESTION = "Which airlines are preferred?"


@pytest.mark.proves("TC-78")
async def test_why_shows_the_state_and_each_step_in_order(trip: Bench) -> None:
    assert SYSTEM.admin.why is not None
    support = trip.stores.for_component("support")
    booking = await trip.request_options()
    await trip.choose(booking)
    await trip.work()
    found = await SYSTEM.admin.why(support, booking.booking_id)
    booking = await trip.booking(booking)
    assert f"confirmed as {booking.confirmation_number}" in found.lines[0]
    steps = [line.split("  ")[1].split(" (")[0] for line in found.lines[1:]]
    assert steps == [
        "EmbedAndRetrieve",
        "ReasonAndPlan",
        "ValidatePlan",
        "ExecuteSearch",
        "Choice",
        "BeginBooking",
        "CompleteBooking",
    ]
    assert found.data["booking"]["booking_id"] == booking.booking_id
    assert json.dumps(found.data, default=str)
    assert len(found.data["trail"]) == 7

    ended = await trip.request_options(OUT_OF_POLICY)
    lines = (await SYSTEM.admin.why(support, ended.booking_id)).lines
    assert "(out_of_policy)" in lines[0] and "book economy" in lines[0]
    assert "out_of_policy: " in lines[-1]

    waiting = await trip.request_options()
    explanation = await SYSTEM.admin.why(support, waiting.booking_id)
    assert waiting.flow_token is not None and waiting.flow_token not in str(explanation)


async def test_why_rejects_an_unknown_booking(trip: Bench) -> None:
    assert SYSTEM.admin.why is not None
    for id in ("", "emp-42", "01JMQX7M2ABCD1234EFGH5678"):
        with pytest.raises(InvalidRequest):
            await SYSTEM.admin.why(trip.stores, id)
    with pytest.raises(NotFound):
        await SYSTEM.admin.why(trip.stores, UlidGenerator(trip.clock).new())


async def test_agent_can_read_explanations_and_policies_only(trip: Bench) -> None:
    agent = trip.stores.for_component("agent")
    booking = await trip.request_options()
    found = await mcp_tools.why(agent, booking.booking_id)
    assert found["booking"]["status"] == "options_presented" and len(found["lines"]) == 5
    says = await mcp_tools.policy_says(agent, QUESTION)
    assert says.confidence == "high"
    best = says.passages[0]
    assert (best["file_name"], best["source_page"], best["section_title"]) == (POLICY_FILE, 5, "Airlines")
    nothing = await mcp_tools.policy_says(agent, "zzzz qqqq")
    assert (nothing.confidence, nothing.passages) == ("none", [])
    with pytest.raises(ComponentRefused):
        await agent.run(patterns.leave_place(EMPLOYEE, booking.booking_id))


async def test_operator_commands_show_policies_answers_and_the_circuit(trip: Bench) -> None:
    """The commands `policies list` and `circuit`."""

    async def run(name: str, *given: Any) -> Any:
        command = COMMANDS[name]
        return await command(trip.stores.for_component(str(command.component)), *given)

    listed = await run("policies list")
    assert [(each["file_name"], each["status"], each["serves"]) for each in listed.page.items] == [
        (POLICY_FILE, "ready", True)
    ]
    assert (await run("circuit"))["state"] == "closed"


async def test_rejects_invalid_rules_before_uploading_the_policy(trip: Bench, tmp_path: Path) -> None:
    document, rules = tmp_path / "policy.md", tmp_path / "rules.json"
    document.write_text("# Travel\n\nEconomy class is required on all flights.\n")
    command = COMMANDS["policies upload"]
    stores = trip.stores.for_component(str(command.component))
    for text in ("{", "[]", "{}", '{"version": "1", "cabin": "economy"}'):
        rules.write_text(text)
        with pytest.raises(InvalidRequest, match="travel policy"):
            await command(stores, document, rules)
    with pytest.raises(InvalidRequest, match=r"Could not read .*none\.md"):
        await command(stores, tmp_path / "none.md")
