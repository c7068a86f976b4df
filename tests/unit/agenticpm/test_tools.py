"""What an agent can find out over the protocol it speaks, that it can change nothing, and why something happened."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from mcp import Client

from agenticpm.api import action_reviews, explain
from agenticpm.domain.contents import ArtefactType
from agenticpm.model import artefacts, escalations, patterns, projects
from agenticpm.model.entities import EventType, Severity
from agenticpm.model.events import build_event_writes, get_now
from agenticpm.system import SYSTEM
from holdfast import Explanation, Stores, UlidGenerator, open_memory_stores, provision
from holdfast.core.errors import InvalidRequest, NotFound
from holdfast.mcp import build_server
from tests.unit.agenticpm.samples import (
    BECAUSE,
    HandClock,
    asked,
    held_comment,
    held_mail,
    made_project,
    raid_log,
    risk,
)
from tests.unit.mcp.calling import answer, refusal

R = TypeVar("R")


def played(play: Callable[[Stores, HandClock], Awaitable[R]]) -> R:
    async def run() -> R:
        clock = HandClock()
        async with open_memory_stores(SYSTEM, clock=clock) as stores:
            await provision(stores, SYSTEM)
            return await play(stores, clock)

    return asyncio.run(run())


def as_agent(play: Callable[[Client, Stores], Awaitable[R]]) -> R:
    async def told(stores: Stores, _: HandClock) -> R:
        async with Client(build_server([stores])) as client:
            return await play(client, stores)

    return played(told)


# --- tools --------------------------------------------------------------------------------------------------


def test_an_agent_is_told_how_a_project_stands() -> None:
    async def play(agent: Client, stores: Stores) -> dict[str, Any]:
        project = await made_project(stores)
        grave = risk("R001", severity="critical"), risk("R002", severity="low")
        await artefacts.update(stores, project.id, ArtefactType.raid_log, raid_log(*grave), 0)
        await asked(stores, project)
        return await answer(agent, "project_state", project_id=project.id)

    state = as_agent(play)
    assert state["project"]["name"] == "Member profile"
    assert state["delivery"] == "not known yet"
    assert state["grave_risks"] == ["R001 critical: The vendor may be late"]
    assert state["waits_for_a_person"] == ["Beta launch is at risk"]
    assert any("Beta launch is at risk" in each for each in state["last_news"])


def test_an_agent_is_told_what_waits_for_a_person() -> None:
    async def play(agent: Client, stores: Stores) -> tuple[dict[str, Any], str]:
        project = await made_project(stores)
        await asked(stores, project)
        action = await held_mail(stores, project)
        return await answer(agent, "what_waits"), action.id

    waits, id = as_agent(play)
    assert [each["options"] for each in waits["questions"]] == [["Delay", "Rush"]]
    assert [(each["id"], each["goes_out_at"]) for each in waits["held"]] == [(id, "2026-02-04T01:30:00.000Z")]
    assert waits["there_is_more"] is False


def test_an_agent_can_ask_why_and_how_the_agent_is() -> None:
    async def play(agent: Client, stores: Stores) -> tuple[dict[str, Any], dict[str, Any], str]:
        action = await held_comment(stores, await made_project(stores))
        return (
            await answer(agent, "why", id=action.id),
            await answer(agent, "agent_state"),
            await refusal(agent, "project_state", project_id=str(uuid4())),
        )

    why, state, refused = as_agent(play)
    assert any("MCU-142 status: In Progress → Blocked" in each for each in why["lines"])
    assert state["liveness"] == "waiting"
    assert "not found" in refused


def test_an_agent_is_offered_reads_alone_and_no_credentials() -> None:
    async def play(agent: Client, _: Stores) -> set[str]:
        return {tool.name for tool in (await agent.list_tools()).tools}

    offered = as_agent(play)
    assert {"project_state", "what_waits", "why", "agent_state"} <= offered
    assert "integration_config" not in offered
    assert not SYSTEM.get_component("agent").writes
    assert patterns.integration_config not in SYSTEM.get_component("agent").reads


# --- why ----------------------------------------------------------------------------------------------------


def test_why_of_an_action_tells_signal_evidence_confidence_and_who_approved() -> None:
    async def play(stores: Stores, _: HandClock) -> tuple[Explanation, Explanation]:
        project = await made_project(stores)
        action = await held_mail(stores, project)
        before = await explain.explain(stores, action.id)
        await action_reviews.approve(stores, project.id, action.id, by="ada")
        return before, await explain.explain(stores, f"{project.id}/{action.id}")

    before, after = played(play)
    assert before.lines[1:] == [
        "Because of blocked (MCU-142): MCU-142 is blocked",
        "  MCU-142 status: In Progress → Blocked",
        "Confidence: source_agreement 1, boundary_compliance 1, schema_validity 1, precedent_match 0.5.",
        "It is held; it is executed at 2026-02-04 01:30:00 UTC unless it is cancelled.",
    ]
    assert "2026-02-04 01:00:00 reviewed by ada: approved." in after.lines
    assert after.data["action"]["reviewedBy"] == "ada"


def test_why_of_a_cancelled_action_says_so() -> None:
    async def play(stores: Stores, _: HandClock) -> Explanation:
        action = await held_mail(stores, None)
        await action_reviews.cancel(stores, None, action.id, by="bo", reason="Not now")
        return await explain.explain(stores, action.id)

    lines = played(play).lines
    assert lines[-2:] == [
        "2026-02-04 01:00:00 reviewed by bo: Not now.",
        "It was cancelled and is never executed.",
    ]


def test_why_of_an_event_tells_of_what_it_is_about() -> None:
    async def play(stores: Stores, _: HandClock) -> list[Explanation]:
        project = await made_project(stores)
        action, question = await held_mail(stores, project), await asked(stores, project)
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

    held, signal, decided = played(play)
    assert any("In Progress → Blocked" in each for each in held.lines)
    assert signal.lines[-1] == "  MCU-142 status: In Progress → Blocked"
    assert decided.lines[-1] == "2026-02-04 01:00:00 decided: Delay (Safer)."
    assert any("for it Nothing is cut; against it Later" in each for each in decided.lines)


def test_why_finds_an_escalation_in_any_status_with_its_project_and_without() -> None:
    async def play(stores: Stores, _: HandClock) -> list[str]:
        project = await made_project(stores)
        first, second = await asked(stores, project), await asked(stores, project, "Another question")
        await escalations.decide(stores, project.id, first.id, "Rush")
        told = [
            await explain.explain(stores, id)
            for id in (first.id, second.id, f"{project.id}/{second.id.upper()}")
        ]
        return [each.lines[-1] for each in told]

    decided, pending, named = played(play)
    assert decided == "2026-02-04 01:00:00 decided: Rush."
    assert pending == named == "It waits for a person."


def test_an_action_whose_events_are_gone_is_found_by_its_project_until_it_is_gone_too() -> None:
    async def play(stores: Stores, clock: HandClock) -> Explanation:
        project = await made_project(stores)
        action = await held_mail(stores, project)
        clock.moment += timedelta(days=31).total_seconds()
        with pytest.raises(NotFound, match="as PROJECT/ID"):
            await explain.explain(stores, action.id)
        found = await explain.explain(stores, f"{project.id}/{action.id}")
        clock.moment += timedelta(days=60).total_seconds()
        with pytest.raises(NotFound):
            await explain.explain(stores, f"{project.id}/{action.id}")
        return found

    assert "MCU-142 is blocked" in played(play).lines[1]


def test_why_reads_by_keys_and_never_scans() -> None:
    async def play(stores: Stores, _: HandClock) -> tuple[set[str], int]:
        project = await made_project(stores)
        for each in range(30):
            await projects.change(stores, project.id, name=f"Name {each}")
        action = await held_mail(stores, project)
        with stores.meter_usage() as meter:
            await explain.explain(stores.for_component("agent"), action.id)
        return {each.operation for each in meter.usages}, len(meter.usages)

    operations, requests = played(play)
    assert operations == {"Query"}
    assert requests <= 3


def test_an_event_at_midnight_is_found_on_both_sides_of_it() -> None:
    async def play(stores: Stores, clock: HandClock) -> list[str]:
        clock.moment += 23 * 3600 - 0.001  # the last thousandth of the day, in UTC
        project = await made_project(stores)
        late = next(iter(await stores.all(patterns.project_events(project.id))))
        clock.moment += 0.001
        await projects.change_status(stores, project.id, "paused")
        early = (await stores.run(patterns.project_events(project.id, 1))).items[0]
        assert late.day != early.day
        return [(await explain.explain(stores, each.id)).lines[0] for each in (late, early)]

    late, early = played(play)
    assert late.startswith("2026-02-04 23:59:59 project_changed")
    assert early.startswith("2026-02-05 00:00:00 project_changed")


def test_what_is_no_id_or_nobodys_is_said_so() -> None:
    async def play(stores: Stores, clock: HandClock) -> None:
        for wrong in ("MCU-142", "", f"MCU/{uuid4()}"):
            with pytest.raises(InvalidRequest):
                await explain.explain(stores, wrong)
        for nobody in (UlidGenerator(clock).new(), str(uuid4()), f"{uuid4()}/{uuid4()}"):
            with pytest.raises(NotFound):
                await explain.explain(stores, nobody)

    played(play)


def test_a_ulid_tells_when_it_was_made() -> None:
    clock = HandClock()
    clock.moment += 0.125
    assert action_reviews.parse_ulid_time(UlidGenerator(clock).new()) == get_now(clock)
