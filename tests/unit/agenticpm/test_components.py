"""Who may do what: each component runs with its own rights and no others, and the declaration passes its own checks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp import Client

from agenticpm.domain.contents import ArtefactType
from agenticpm.model import artefacts, escalations, patterns
from agenticpm.model.entities import ActionType, EventType, Integration, Option
from agenticpm.model.events import build_event_writes, get_now
from agenticpm.model.patterns import ACTION_QUEUE
from agenticpm.system import SYSTEM
from agenticpm.workers import actions
from holdfast import Pattern, Stores
from holdfast.cli import main
from holdfast.core.errors import ComponentRefused
from holdfast.mcp import build_server
from tests.unit.agenticpm.loop_play import Play, played

COMPONENTS = ("loop", "executor", "api", "agent")
ACTS = set(ACTION_QUEUE.patterns.execute_patterns)
KEEPS = {patterns.create_artefact, patterns.put_artefact}
REVIEWS = {ACTION_QUEUE.patterns.review}
SETTINGS = {patterns.put_config, patterns.put_integration, patterns.note_health}
PROJECTS = {patterns.create_project, patterns.change_project, patterns.change_status}


def writes_of(name: str) -> set[Pattern[..., Any]]:
    return set(SYSTEM.get_component(name).writes)


def test_the_components_are_these() -> None:
    assert tuple(each.name for each in SYSTEM.components) == COMPONENTS


def test_only_the_executor_does_what_was_held_and_only_people_review_it() -> None:
    assert [name for name in COMPONENTS if ACTS & writes_of(name)] == ["executor"]
    assert [name for name in COMPONENTS if REVIEWS & writes_of(name)] == ["api"]


def test_only_people_change_projects_settings_and_integrations() -> None:
    assert [name for name in COMPONENTS if (SETTINGS | PROJECTS) & writes_of(name)] == ["api"]


def test_the_executor_keeps_no_artefact_and_puts_nothing_into_the_queue() -> None:
    assert not (KEEPS | {ACTION_QUEUE.patterns.hold, patterns.create_escalation}) & writes_of("executor")


def test_the_agent_writes_nothing_and_sees_no_credentials() -> None:
    agent = SYSTEM.get_component("agent")
    assert agent.writes == ()
    assert patterns.integration_config not in agent.patterns


def test_what_a_component_may_not_is_refused_before_anything_happens() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        stores = play.stores
        await stores.transact(
            *actions.hold(
                stores,
                project.id,
                ActionType.email_sent,
                "Ask",
                {"kind": "mail", "to": ["a@example.com"], "subject": "s", "text": "t"},
                hold_s=0,
            )
        )
        (action,) = await play.actions(project)
        loop, executor, agent = (stores.for_component(name) for name in ("loop", "executor", "agent"))
        before = await play.items()
        with pytest.raises(ComponentRefused):
            await actions.execute(loop, play.parties, action)
        with pytest.raises(ComponentRefused):
            await artefacts.update(executor, project.id, ArtefactType.raid_log, {"items": []}, 0)
        with pytest.raises(ComponentRefused):
            await agent.transact(*build_event_writes(agent, project.id, EventType.error, "x"))
        with pytest.raises(ComponentRefused):
            await agent.run(patterns.integration_config(Integration.jira))
        with pytest.raises(ComponentRefused):
            await escalations.expire_due(await _with_question(play, project.id))
        after = await play.items()
        assert {key: after[key] for key in before} == before
        assert play.mailer.asked == []

    played(story)


async def _with_question(play: Play, project_id: Any) -> Stores:
    """The agent's stores, with a question that is past its time."""
    at = get_now(play.clock)
    play.clock.advance(-10)
    await play.stores.transact(
        *await escalations.build_escalation(
            play.stores, project_id, title="x", context={}, options=[Option(option="Yes")], expires_at=at
        )
    )
    play.clock.advance(20)
    return play.stores.for_component("agent")


def test_the_tools_of_the_agent_are_there_and_none_of_them_writes() -> None:
    async def story(play: Play) -> None:
        async with Client(build_server([play.stores])) as client:
            offered = (await client.list_tools()).tools
        names = {each.name for each in offered}
        assert {"project_state", "what_waits", "why", "agent_state"} <= names
        assert all(each.annotations is not None and each.annotations.read_only_hint for each in offered)
        assert not [name for name in names if "integration" in name]

    played(story)


@pytest.mark.parametrize("command", [["check", "agenticpm"], ["retention", "agenticpm"]])
def test_the_declaration_passes_the_commands_that_check_it(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        main(command)
    told = capsys.readouterr().out
    assert exited.value.code == 0, told
    assert "agenticpm" in told.lower()


def test_what_is_kept_ends_when_the_document_says(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["retention", "agenticpm", "--json"])
    rows = json.loads(capsys.readouterr().out)
    days = {row["what"]: row["seconds"] / 86400 for row in rows if row["seconds"] is not None}
    assert (days["items: Event"], days["items: Action"]) == (30, 90)
    assert not {f"items: {name}" for name in ("Project", "Artefact", "Escalation")} & set(days)
    assert not [row for row in rows if row["problem"]]
