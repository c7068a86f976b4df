"""Tests of actions bound to a site, against sandboxes over HTTP: nothing is sent to another site."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agenticpm.api.serializers import format_outcome
from agenticpm.domain.autonomy import COMMENT, MAIL
from agenticpm.integrations.clients import IntegrationClients
from agenticpm.integrations.factory import build_sandbox_credentials
from agenticpm.model import agent_settings, integration_settings, patterns
from agenticpm.model.entities import Action, ActionType, Integration, Project
from agenticpm.workers import actions, digest, escalations
from holdfast import Stores, web
from holdfast.runtime import open_cipher
from holdfast_demo.agenticpm.sandbox.jira import JiraSandbox, build_jira_app
from holdfast_demo.agenticpm.sandbox.resend import ResendSandbox, build_resend_app
from tests.systems.agenticpm.unit.samples import ManualClock, create_project
from tests.systems.agenticpm.unit.workers.loop_harness import Harness

COMMENT_DETAIL: dict[str, Any] = {"kind": COMMENT, "ticket": "MCU-122", "text": "Any news?"}
MAIL_DETAIL: dict[str, Any] = {
    "kind": MAIL,
    "to": ["a@example.com"],
    "subject": "Late",
    "text": "It is late.",
}


@dataclass
class Sites:
    """Two trackers and a mailer, each a sandbox with its own address, and a project."""

    stores: Stores
    clients: IntegrationClients
    clock: ManualClock
    one: JiraSandbox
    other: JiraSandbox
    mailer: ResendSandbox
    urls: dict[str, str]
    project: Project

    async def put(self, integration: Integration, url: str, **more: str) -> None:
        """Store credentials for the sandbox with this name."""
        credentials = build_sandbox_credentials(integration, self.urls[url]) | more
        await integration_settings.put_credentials(self.stores, open_cipher(), integration, credentials)

    async def hold_action(self, detail: dict[str, Any]) -> Action:
        """Hold an action for the current site, due at once."""
        integration = actions.get_integration(detail["kind"], self.project.source)
        site = await self.clients.get_site(integration)
        type = ActionType.email_sent if detail["kind"] == MAIL else ActionType.jira_update
        held = actions.build_hold(self.stores, self.project.id, type, "Ask", detail, hold_s=0, site=site)
        await self.stores.transact(*held)
        return (await self.stores.all(patterns.project_actions(self.project.id))).items[0]

    async def execute(self) -> actions.ExecutionReport:
        return await actions.execute_due(self.stores.for_component("executor"), self.clients)

    async def reload_action(self) -> Action:
        return (await self.stores.all(patterns.project_actions(self.project.id))).items[0]

    async def list_errors(self) -> list[Any]:
        events = await self.stores.all(patterns.project_events(self.project.id))
        return [each.detail for each in events if each.event_type == "error"]


@pytest.fixture
async def sites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: ManualClock, stores: Stores
) -> AsyncIterator[Sites]:
    """Stores in memory and sandboxes over HTTP; `one` is the configured Jira sandbox."""
    monkeypatch.setenv("HOLDFAST_KEYS", f"file:{tmp_path / 'keys.json'}")
    one, other, mailer = JiraSandbox(clock=clock), JiraSandbox(clock=clock), ResendSandbox(clock=clock)
    apps = {"one": build_jira_app(one), "other": build_jira_app(other), "mailer": build_resend_app(mailer)}
    with ExitStack() as stack:
        urls = {name: stack.enter_context(web.serve_in_thread(app)) for name, app in apps.items()}
        monkeypatch.setenv("AGENTICPM_JIRA_URL", urls["one"])
        project = await create_project(stores, autonomy_level="tactical")
        async with IntegrationClients(stores.for_component("executor")) as clients:
            yield Sites(stores, clients, clock, one, other, mailer, urls, project)


async def test_action_held_for_the_sandbox_never_goes_to_a_tracker_configured_later(sites: Sites) -> None:
    action = await sites.hold_action(COMMENT_DETAIL)
    await sites.put(Integration.jira, "other")
    assert (await sites.execute()).refused == [action.id]
    assert sites.one.ledger == [] and sites.other.ledger == []
    refused = await sites.reload_action()
    assert (refused.refused, refused.queue) == ("another_party", None)
    assert "points to another site" in format_outcome(refused)
    (error,) = await sites.list_errors()
    assert error["code"] == "another_party" and sites.urls["other"] in error["reason"]


async def test_executes_an_action_after_new_credentials_for_the_same_site(sites: Sites) -> None:
    await sites.put(Integration.jira, "other")
    action = await sites.hold_action(COMMENT_DETAIL)
    await sites.put(Integration.jira, "other", api_token="another")
    assert (await sites.execute()).done == [action.id]
    assert [each["what"] for each in sites.other.ledger] == ["comment"]


async def test_mail_is_bound_to_its_sender_too(sites: Sites) -> None:
    await sites.put(Integration.resend, "mailer")
    action = await sites.hold_action(MAIL_DETAIL)
    await sites.put(Integration.resend, "mailer", sender="boss@example.com")
    assert (await sites.execute()).refused == [action.id]
    assert sites.mailer.ledger == []


async def test_loop_records_the_site_of_an_action_also_when_a_person_allows_it(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTICPM_JIRA_URL", "http://127.0.0.1:9")

    one = await harness.create_project()
    asks = await harness.create_project(name="Asks", source_project_key="A", config={"allowed_actions": []})
    harness.tracker.block("MCU-1")
    await harness.run_turn()
    (question,) = await harness.escalations(asks)
    # The person who decides uses another process that does not know the sandbox.
    monkeypatch.delenv("AGENTICPM_JIRA_URL")
    await escalations.decide(harness.stores, asks.id, question.id, "Do it")
    held = [*await harness.actions(one), *await harness.actions(asks)]
    assert [(each.detail or {})["party"] for each in held] == ["the sandbox", "the sandbox"]


async def test_digest_is_held_for_the_current_mailer(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTICPM_RESEND_URL", "http://127.0.0.1:9")
    await agent_settings.put(harness.stores, "digest_recipients", "a@example.com")
    await digest.make_daily_digest(harness.stores.for_component("loop"))
    (mail,) = await harness.actions(None)
    assert (mail.detail or {})["party"] == "the sandbox"


async def test_logs_why_an_action_waits_once_and_again_after_an_hour(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    project = await harness.create_project()
    harness.tracker.block("MCU-1")
    await harness.run_cycle()
    del harness.clients.configured[Integration.jira]
    harness.clock.advance(30 * 60)
    (action,) = await harness.actions(project)
    with caplog.at_level(logging.INFO, logger="agenticpm.workers.actions"):
        for _ in range(3):
            assert (await harness.execute()).waiting == [action.id]
            harness.clock.advance(5)
        assert len([each for each in caplog.records if action.id in each.message]) == 1
        harness.clock.advance(actions.LOG_INTERVAL_S)
        await harness.execute()
    assert len([each for each in caplog.records if action.id in each.message]) == 2
