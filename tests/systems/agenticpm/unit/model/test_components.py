"""Tests of the components' rights, and of the declaration by the commands `check` and `retention`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp import Client

from agenticpm.domain.contents import ArtefactType
from agenticpm.model import artefacts, patterns
from agenticpm.model.entities import ActionType, EventType, Integration, Option
from agenticpm.model.events import build_event_writes, get_now
from agenticpm.model.patterns import ACTION_QUEUE
from agenticpm.system import SYSTEM
from agenticpm.workers import actions, escalations
from holdfast import Pattern, Stores
from holdfast.cli import main
from holdfast.core.errors import ComponentRefused
from holdfast.mcp import build_server
from tests.systems.agenticpm.unit.workers.loop_harness import Harness

COMPONENTS = ("loop", "executor", "api", "console", "agent")
ACTS = set(ACTION_QUEUE.executor.patterns)
KEEPS = {patterns.create_artefact, patterns.put_artefact}
REVIEWS = {ACTION_QUEUE.pattern_set.review}
SETTINGS = {patterns.put_config, patterns.put_integration, patterns.note_health}
PROJECTS = {patterns.create_project, patterns.change_project, patterns.change_status}


def list_writes(name: str) -> set[Pattern[..., Any]]:
    """Return the write patterns of a component."""
    return set(SYSTEM.get_component(name).writes)


def test_system_has_five_components() -> None:
    assert tuple(each.name for each in SYSTEM.components) == COMPONENTS


def test_only_the_executor_executes_actions_and_only_people_review_them() -> None:
    assert [name for name in COMPONENTS if ACTS & list_writes(name)] == ["executor"]
    assert [name for name in COMPONENTS if REVIEWS & list_writes(name)] == ["api", "console"]


def test_only_people_change_projects_settings_and_integrations() -> None:
    assert [name for name in COMPONENTS if (SETTINGS | PROJECTS) & list_writes(name)] == ["api"]


def test_executor_writes_no_artefact_and_holds_no_action() -> None:
    assert not (KEEPS | {ACTION_QUEUE.pattern_set.hold, patterns.create_escalation}) & list_writes("executor")


def test_agent_writes_nothing_and_reads_no_credentials() -> None:
    agent = SYSTEM.get_component("agent")
    assert agent.writes == ()
    assert patterns.integration_config not in agent.patterns


async def test_refuses_forbidden_operations_before_anything_happens(harness: Harness) -> None:
    """No item changes and no mail is sent."""
    project = await harness.create_project()
    stores = harness.stores
    await stores.transact(
        *actions.build_hold(
            stores,
            project.id,
            ActionType.email_sent,
            "Ask",
            {"kind": "mail", "to": ["a@example.com"], "subject": "s", "text": "t"},
            hold_s=0,
        )
    )
    (action,) = await harness.actions(project)
    loop, executor, agent = (stores.for_component(name) for name in ("loop", "executor", "agent"))
    before = await harness.items()
    with pytest.raises(ComponentRefused):
        await actions.execute(loop, harness.clients, action)
    with pytest.raises(ComponentRefused):
        await artefacts.update(executor, project.id, ArtefactType.raid_log, {"items": []}, 0)
    with pytest.raises(ComponentRefused):
        await agent.transact(*build_event_writes(agent, project.id, EventType.error, "x"))
    with pytest.raises(ComponentRefused):
        await agent.run(patterns.integration_config(Integration.jira))
    with pytest.raises(ComponentRefused):
        await escalations.expire_due(await _get_agent_stores(harness, project.id))
    after = await harness.items()
    assert {key: after[key] for key in before} == before
    assert harness.mailer.keys == []


async def _get_agent_stores(harness: Harness, project_id: Any) -> Stores:
    """Return the agent's stores, with an overdue question in them."""
    at = get_now(harness.clock)
    harness.clock.advance(-10)
    await harness.stores.transact(
        *await escalations.build_escalation(
            harness.stores, project_id, title="x", context={}, options=[Option(option="Yes")], expires_at=at
        )
    )
    harness.clock.advance(20)
    return harness.stores.for_component("agent")


async def test_agent_has_its_tools_and_none_of_them_writes(harness: Harness) -> None:
    async with Client(build_server([harness.stores])) as client:
        offered = (await client.list_tools()).tools
    names = {each.name for each in offered}
    assert {"project_state", "what_waits", "why", "agent_state"} <= names
    assert all(each.annotations is not None and each.annotations.read_only_hint for each in offered)
    assert not [name for name in names if "integration" in name]


def test_declaration_passes_the_check_command(capsys: pytest.CaptureFixture[str]) -> None:
    """The check runs the example of every pattern on the sample."""
    with pytest.raises(SystemExit) as exited:
        main(["check", "agenticpm"])
    output = capsys.readouterr().out
    assert exited.value.code == 0, output
    assert "agenticpm" in output.lower()


def test_items_expire_when_the_document_says(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["retention", "agenticpm", "--json"])
    assert exited.value.code == 0
    rows = json.loads(capsys.readouterr().out)
    days = {row["what"]: row["seconds"] / 86400 for row in rows if row["seconds"] is not None}
    assert (days["items: Event"], days["items: Action"]) == (30, 90)
    assert not {f"items: {name}" for name in ("Project", "Artefact", "Escalation")} & set(days)
    assert not [row for row in rows if row["problem"]]
