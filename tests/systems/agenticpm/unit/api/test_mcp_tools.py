"""Tests of the MCP tools through an in-process MCP client, and of the explanations that `why` returns."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from mcp import Client

from agenticpm.api import action_reviews, explain
from agenticpm.domain.contents import ArtefactType
from agenticpm.model import artefacts, patterns, projects
from agenticpm.model.entities import EventType, Severity
from agenticpm.model.events import build_event_writes, get_now
from agenticpm.workers import escalations
from holdfast import Stores
from holdfast.core.errors import InvalidRequest, NotFound
from holdfast.mcp import build_server
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


async def test_agent_reads_a_project_what_waits_and_why(stores: Stores) -> None:
    project = await create_project(stores)
    grave = make_risk("R001", severity="critical"), make_risk("R002", severity="low")
    await artefacts.update(stores, project.id, ArtefactType.raid_log, make_raid_log(*grave), 0)
    await create_escalation(stores, project)
    action = await hold_comment(stores, project)
    async with Client(build_server([stores])) as agent:
        state = await call_tool(agent, "project_state", project_id=project.id)
        waits = await call_tool(agent, "what_waits")
        why = await call_tool(agent, "why", id=action.id)
        liveness = (await call_tool(agent, "agent_state"))["liveness"]
        refused = await get_refusal(agent, "project_state", project_id=str(uuid4()))
    assert state["project"]["name"] == "Member profile"
    assert state["delivery"] == "not known yet"
    assert state["grave_risks"] == ["R001 critical: The vendor may be late"]
    assert state["waits_for_a_person"] == ["Beta launch is at risk"]
    assert any("Beta launch is at risk" in each for each in state["last_news"])
    assert [each["options"] for each in waits["questions"]] == [["Delay", "Rush"]]
    held = [(each["id"], each["goes_out_at"]) for each in waits["held"]]
    assert held == [(action.id, "2026-02-04T01:30:00.000Z")]
    assert waits["there_is_more"] is False
    assert any("MCU-142 status: In Progress → Blocked" in each for each in why["lines"])
    assert liveness == "waiting"
    assert "not found" in refused


async def test_why_of_an_action_reports_signal_evidence_confidence_and_approver(stores: Stores) -> None:
    project = await create_project(stores)
    action = await hold_mail(stores, project)
    before = await explain.explain(stores, action.id)
    await action_reviews.approve(stores, project.id, action.id, by="ada")
    after = await explain.explain(stores, f"{project.id}/{action.id}")
    assert before.lines[1:] == [
        "Because of blocked (MCU-142): MCU-142 is blocked",
        "  MCU-142 status: In Progress → Blocked",
        "Confidence: source_agreement 1, boundary_compliance 1, schema_validity 1, precedent_match 0.5.",
        "It is held; it is executed at 2026-02-04 01:30:00 UTC unless it is cancelled.",
    ]
    assert "2026-02-04 01:00:00 reviewed by ada: approved." in after.lines
    assert after.data["action"]["reviewedBy"] == "ada"


async def test_why_of_a_cancelled_action_reports_the_cancellation(stores: Stores) -> None:
    action = await hold_mail(stores, None)
    await action_reviews.cancel(stores, None, action.id, by="bo", reason="Not now")
    lines = (await explain.explain(stores, action.id)).lines
    assert lines[-2:] == [
        "2026-02-04 01:00:00 reviewed by bo: Not now.",
        "It was cancelled and is never executed.",
    ]


async def test_why_of_an_event_reports_its_subject(stores: Stores) -> None:
    project = await create_project(stores)
    action, question = await hold_mail(stores, project), await create_escalation(stores, project)
    await stores.transact(
        *build_event_writes(
            stores, project.id, EventType.signal_detected, "Blocked", BECAUSE, severity=Severity.warning
        )
    )
    await escalations.decide(stores, project.id, question.id, "Delay", "Safer", "ada")
    events = {each.event_type: each.id for each in await stores.all(patterns.project_events(project.id))}
    assert {"action_held", "signal_detected", "escalation_decided"} <= set(events)
    found = [
        await explain.explain(stores, events[type])
        for type in ("action_held", "signal_detected", "escalation_decided")
    ]
    assert found[0].data["action"]["id"] == action.id
    held, signal, decided = found
    assert any("In Progress → Blocked" in each for each in held.lines)
    assert signal.lines[-1] == "  MCU-142 status: In Progress → Blocked"
    assert decided.lines[-1] == "2026-02-04 01:00:00 decided: Delay (Safer)."
    assert any("pros: Nothing is cut; cons: Later" in each for each in decided.lines)


async def test_why_finds_an_escalation_in_any_status_with_and_without_its_project(stores: Stores) -> None:
    project = await create_project(stores)
    first, second = (
        await create_escalation(stores, project),
        await create_escalation(stores, project, "Another question"),
    )
    await escalations.decide(stores, project.id, first.id, "Rush")
    with_client = [
        await explain.explain(stores, id) for id in (first.id, second.id, f"{project.id}/{second.id.upper()}")
    ]
    decided, pending, named = [each.lines[-1] for each in with_client]
    assert decided == "2026-02-04 01:00:00 decided: Rush."
    assert pending == named == "It waits for a person's decision."


async def test_finds_an_action_without_events_by_its_project_until_it_expires(
    stores: Stores, clock: ManualClock
) -> None:
    project = await create_project(stores)
    action = await hold_mail(stores, project)
    clock.seconds += timedelta(days=31).total_seconds()
    with pytest.raises(NotFound, match="as PROJECT/ID"):
        await explain.explain(stores, action.id)
    found = await explain.explain(stores, f"{project.id}/{action.id}")
    clock.seconds += timedelta(days=60).total_seconds()
    with pytest.raises(NotFound):
        await explain.explain(stores, f"{project.id}/{action.id}")
    assert "MCU-142 is blocked" in (found).lines[1]


async def test_why_reads_by_keys_and_never_scans(stores: Stores) -> None:
    project = await create_project(stores)
    for each in range(30):
        await projects.change(stores, project.id, name=f"Name {each}")
    action = await hold_mail(stores, project)
    with stores.meter_usage() as meter:
        await explain.explain(stores.for_component("agent"), action.id)
    operations, requests = {each.operation for each in meter.usages}, len(meter.usages)
    assert operations == {"Query"}
    assert requests <= 3


async def test_finds_an_event_at_midnight_on_both_sides(stores: Stores, clock: ManualClock) -> None:
    clock.seconds += 23 * 3600 - 0.001  # the last millisecond of the day, in UTC
    project = await create_project(stores)
    late = next(iter(await stores.all(patterns.project_events(project.id))))
    clock.seconds += 0.001
    await projects.change_status(stores, project.id, "paused")
    early = (await stores.run(patterns.project_events(project.id, 1))).items[0]
    assert late.day != early.day
    before, after = [(await explain.explain(stores, each.id)).lines[0] for each in (late, early)]
    assert before.startswith("2026-02-04 23:59:59 project_changed")
    assert after.startswith("2026-02-05 00:00:00 project_changed")


async def test_why_rejects_an_invalid_or_unknown_id(stores: Stores, clock: ManualClock) -> None:
    for wrong in ("MCU-142", "", f"MCU/{uuid4()}"):
        with pytest.raises(InvalidRequest):
            await explain.explain(stores, wrong)
    for unknown in (UlidGenerator(clock).new(), str(uuid4()), f"{uuid4()}/{uuid4()}"):
        with pytest.raises(NotFound):
            await explain.explain(stores, unknown)


def test_ulid_contains_its_creation_time() -> None:
    clock = ManualClock()
    clock.seconds += 0.125
    assert action_reviews.parse_ulid_time(UlidGenerator(clock).new()) == get_now(clock)
