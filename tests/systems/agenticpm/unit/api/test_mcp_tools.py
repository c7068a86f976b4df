"""Tests of the MCP tools through an in-process MCP client, and of the explanations that `why` returns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from mcp import Client

from agenticpm.api import action_reviews, explain
from agenticpm.domain.contents import ArtefactType
from agenticpm.model import artefacts, patterns, projects
from agenticpm.model.entities import EventType, Severity
from agenticpm.model.events import build_event_writes, get_now
from agenticpm.system import SYSTEM
from agenticpm.workers import escalations
from holdfast import Stores, open_memory_stores, provision
from holdfast.core.errors import InvalidRequest, NotFound
from holdfast.mcp import build_server
from holdfast.model.system import Explanation
from holdfast.model.ulids import UlidGenerator
from tests.systems.agenticpm.unit.samples import (
    BECAUSE,
    ManualClock,
    create_escalation,
    create_project,
    hold_comment,
    hold_mail,
    make_raid_log,
    make_risk,
)
from tests.unit.mcp.mcp_client import call_tool, get_refusal

R = TypeVar("R")


async def run_story(story: Callable[[Stores, ManualClock], Awaitable[R]]) -> R:
    """Run the story with stores in memory and a manual clock, and return its result."""

    clock = ManualClock()
    async with open_memory_stores(SYSTEM, clock=clock) as stores:
        await provision(stores, SYSTEM)
        return await story(stores, clock)


async def run_as_agent(story: Callable[[Client, Stores], Awaitable[R]]) -> R:
    """Run the story with an MCP client of AgenticPM's server, and return its result."""

    async def with_client(stores: Stores, _: ManualClock) -> R:
        async with Client(build_server([stores])) as client:
            return await story(client, stores)

    return await run_story(with_client)


# --- tools --------------------------------------------------------------------------------------------------


async def test_agent_reads_the_state_of_a_project() -> None:
    async def story(agent: Client, stores: Stores) -> dict[str, Any]:
        project = await create_project(stores)
        grave = make_risk("R001", severity="critical"), make_risk("R002", severity="low")
        await artefacts.update(stores, project.id, ArtefactType.raid_log, make_raid_log(*grave), 0)
        await create_escalation(stores, project)
        return await call_tool(agent, "project_state", project_id=project.id)

    state = await run_as_agent(story)
    assert state["project"]["name"] == "Member profile"
    assert state["delivery"] == "not known yet"
    assert state["grave_risks"] == ["R001 critical: The vendor may be late"]
    assert state["waits_for_a_person"] == ["Beta launch is at risk"]
    assert any("Beta launch is at risk" in each for each in state["last_news"])


async def test_agent_reads_what_waits_for_a_person() -> None:
    async def story(agent: Client, stores: Stores) -> tuple[dict[str, Any], str]:
        project = await create_project(stores)
        await create_escalation(stores, project)
        action = await hold_mail(stores, project)
        return await call_tool(agent, "what_waits"), action.id

    waits, id = await run_as_agent(story)
    assert [each["options"] for each in waits["questions"]] == [["Delay", "Rush"]]
    assert [(each["id"], each["goes_out_at"]) for each in waits["held"]] == [(id, "2026-02-04T01:30:00.000Z")]
    assert waits["there_is_more"] is False


async def test_agent_calls_why_and_agent_state_and_gets_a_not_found_error() -> None:
    async def story(agent: Client, stores: Stores) -> tuple[dict[str, Any], dict[str, Any], str]:
        action = await hold_comment(stores, await create_project(stores))
        return (
            await call_tool(agent, "why", id=action.id),
            await call_tool(agent, "agent_state"),
            await get_refusal(agent, "project_state", project_id=str(uuid4())),
        )

    why, state, refused = await run_as_agent(story)
    assert any("MCU-142 status: In Progress → Blocked" in each for each in why["lines"])
    assert state["liveness"] == "waiting"
    assert "not found" in refused


async def test_agent_is_offered_only_reads_and_no_credentials() -> None:
    async def story(agent: Client, _: Stores) -> set[str]:
        return {tool.name for tool in (await agent.list_tools()).tools}

    offered = await run_as_agent(story)
    assert {"project_state", "what_waits", "why", "agent_state"} <= offered
    assert "integration_config" not in offered
    assert not SYSTEM.get_component("agent").writes
    assert patterns.integration_config not in SYSTEM.get_component("agent").reads


# --- why ----------------------------------------------------------------------------------------------------


async def test_why_of_an_action_reports_signal_evidence_confidence_and_approver() -> None:
    async def story(stores: Stores, _: ManualClock) -> tuple[Explanation, Explanation]:
        project = await create_project(stores)
        action = await hold_mail(stores, project)
        before = await explain.explain(stores, action.id)
        await action_reviews.approve(stores, project.id, action.id, by="ada")
        return before, await explain.explain(stores, f"{project.id}/{action.id}")

    before, after = await run_story(story)
    assert before.lines[1:] == [
        "Because of blocked (MCU-142): MCU-142 is blocked",
        "  MCU-142 status: In Progress → Blocked",
        "Confidence: source_agreement 1, boundary_compliance 1, schema_validity 1, precedent_match 0.5.",
        "It is held; it is executed at 2026-02-04 01:30:00 UTC unless it is cancelled.",
    ]
    assert "2026-02-04 01:00:00 reviewed by ada: approved." in after.lines
    assert after.data["action"]["reviewedBy"] == "ada"


async def test_why_of_a_cancelled_action_reports_the_cancellation() -> None:
    async def story(stores: Stores, _: ManualClock) -> Explanation:
        action = await hold_mail(stores, None)
        await action_reviews.cancel(stores, None, action.id, by="bo", reason="Not now")
        return await explain.explain(stores, action.id)

    lines = (await run_story(story)).lines
    assert lines[-2:] == [
        "2026-02-04 01:00:00 reviewed by bo: Not now.",
        "It was cancelled and is never executed.",
    ]


async def test_why_of_an_event_reports_its_subject() -> None:
    async def story(stores: Stores, _: ManualClock) -> list[Explanation]:
        project = await create_project(stores)
        action, question = await hold_mail(stores, project), await create_escalation(stores, project)
        signal = build_event_writes(
            stores, project.id, EventType.signal_detected, "Blocked", BECAUSE, severity=Severity.warning
        )
        await stores.transact(*signal)
        await escalations.decide(stores, project.id, question.id, "Delay", "Safer", "ada")
        events = {each.event_type: each.id for each in await stores.all(patterns.project_events(project.id))}
        assert {"action_held", "signal_detected", "escalation_decided"} <= set(events)
        found = [
            await explain.explain(stores, events[type])
            for type in ("action_held", "signal_detected", "escalation_decided")
        ]
        assert found[0].data["action"]["id"] == action.id
        return found

    held, signal, decided = await run_story(story)
    assert any("In Progress → Blocked" in each for each in held.lines)
    assert signal.lines[-1] == "  MCU-142 status: In Progress → Blocked"
    assert decided.lines[-1] == "2026-02-04 01:00:00 decided: Delay (Safer)."
    assert any("pros: Nothing is cut; cons: Later" in each for each in decided.lines)


async def test_why_finds_an_escalation_in_any_status_with_and_without_its_project() -> None:
    async def story(stores: Stores, _: ManualClock) -> list[str]:
        project = await create_project(stores)
        first, second = (
            await create_escalation(stores, project),
            await create_escalation(stores, project, "Another question"),
        )
        await escalations.decide(stores, project.id, first.id, "Rush")
        with_client = [
            await explain.explain(stores, id)
            for id in (first.id, second.id, f"{project.id}/{second.id.upper()}")
        ]
        return [each.lines[-1] for each in with_client]

    decided, pending, named = await run_story(story)
    assert decided == "2026-02-04 01:00:00 decided: Rush."
    assert pending == named == "It waits for a person's decision."


async def test_finds_an_action_without_events_by_its_project_until_it_expires() -> None:
    async def story(stores: Stores, clock: ManualClock) -> Explanation:
        project = await create_project(stores)
        action = await hold_mail(stores, project)
        clock.moment += timedelta(days=31).total_seconds()
        with pytest.raises(NotFound, match="as PROJECT/ID"):
            await explain.explain(stores, action.id)
        found = await explain.explain(stores, f"{project.id}/{action.id}")
        clock.moment += timedelta(days=60).total_seconds()
        with pytest.raises(NotFound):
            await explain.explain(stores, f"{project.id}/{action.id}")
        return found

    assert "MCU-142 is blocked" in (await run_story(story)).lines[1]


async def test_why_reads_by_keys_and_never_scans() -> None:
    async def story(stores: Stores, _: ManualClock) -> tuple[set[str], int]:
        project = await create_project(stores)
        for each in range(30):
            await projects.change(stores, project.id, name=f"Name {each}")
        action = await hold_mail(stores, project)
        with stores.meter_usage() as meter:
            await explain.explain(stores.for_component("agent"), action.id)
        return {each.operation for each in meter.usages}, len(meter.usages)

    operations, requests = await run_story(story)
    assert operations == {"Query"}
    assert requests <= 3


async def test_finds_an_event_at_midnight_on_both_sides() -> None:
    async def story(stores: Stores, clock: ManualClock) -> list[str]:
        clock.moment += 23 * 3600 - 0.001  # the last millisecond of the day, in UTC
        project = await create_project(stores)
        late = next(iter(await stores.all(patterns.project_events(project.id))))
        clock.moment += 0.001
        await projects.change_status(stores, project.id, "paused")
        early = (await stores.run(patterns.project_events(project.id, 1))).items[0]
        assert late.day != early.day
        return [(await explain.explain(stores, each.id)).lines[0] for each in (late, early)]

    late, early = await run_story(story)
    assert late.startswith("2026-02-04 23:59:59 project_changed")
    assert early.startswith("2026-02-05 00:00:00 project_changed")


async def test_why_rejects_an_invalid_or_unknown_id() -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        for wrong in ("MCU-142", "", f"MCU/{uuid4()}"):
            with pytest.raises(InvalidRequest):
                await explain.explain(stores, wrong)
        for unknown in (UlidGenerator(clock).new(), str(uuid4()), f"{uuid4()}/{uuid4()}"):
            with pytest.raises(NotFound):
                await explain.explain(stores, unknown)

    await run_story(story)


def test_ulid_contains_its_creation_time() -> None:
    clock = ManualClock()
    clock.moment += 0.125
    assert action_reviews.parse_ulid_time(UlidGenerator(clock).new()) == get_now(clock)
