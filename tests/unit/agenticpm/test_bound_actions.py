"""An action is for the site it was held for: where the integration leads elsewhere when it is due, nothing goes out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agenticpm.api.serializers import format_outcome
from agenticpm.demo.sandbox.jira import JiraSandbox, build_jira_app
from agenticpm.demo.sandbox.resend import ResendSandbox, build_resend_app
from agenticpm.domain.autonomy import COMMENT, MAIL
from agenticpm.integrations.clients import IntegrationClients
from agenticpm.integrations.factory import build_sandbox_credentials
from agenticpm.model import agent_settings, escalations, integration_settings, patterns, projects
from agenticpm.model.entities import Action, ActionType, Integration, Project
from agenticpm.system import SYSTEM
from agenticpm.workers import actions
from holdfast import Stores, open_cipher, open_memory_stores, provision, web
from tests.unit.agenticpm.loop_play import HandClock, Play, played

COMMENT_DETAIL: dict[str, Any] = {"kind": COMMENT, "ticket": "MCU-122", "text": "Any news?"}
MAIL_DETAIL: dict[str, Any] = {
    "kind": MAIL,
    "to": ["a@example.com"],
    "subject": "Late",
    "text": "It is late.",
}


@dataclass
class Sites:
    """Two trackers and a mailer, each a sandbox at an address of its own."""

    stores: Stores
    parties: IntegrationClients
    clock: HandClock
    one: JiraSandbox
    other: JiraSandbox
    mailer: ResendSandbox
    urls: dict[str, str]
    project: Project

    async def put(self, integration: Integration, url: str, **more: str) -> None:
        credentials = build_sandbox_credentials(integration, self.urls[url]) | more
        await integration_settings.put_credentials(self.stores, open_cipher(), integration, credentials)

    async def held(self, detail: dict[str, Any]) -> Action:
        integration = actions.get_integration(detail["kind"], self.project.source)
        party = await self.parties.get_site(integration)
        type = ActionType.email_sent if detail["kind"] == MAIL else ActionType.jira_update
        held = actions.hold(self.stores, self.project.id, type, "Ask", detail, hold_s=0, site=party)
        await self.stores.transact(*held)
        return (await self.stores.all(patterns.project_actions(self.project.id))).items[0]

    async def executed(self) -> actions.ExecutionReport:
        return await actions.execute_due(self.stores.for_component("executor"), self.parties)

    async def now(self) -> Action:
        return (await self.stores.all(patterns.project_actions(self.project.id))).items[0]

    async def errors(self) -> list[Any]:
        events = await self.stores.all(patterns.project_events(self.project.id))
        return [each.detail for each in events if each.event_type == "error"]


def at_sites(
    story: Callable[[Sites], Awaitable[None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_KEYS", f"file:{tmp_path / 'keys.json'}")

    async def on_stores(stack: ExitStack) -> None:
        clock = HandClock()
        one, other, mailer = JiraSandbox(clock=clock), JiraSandbox(clock=clock), ResendSandbox(clock=clock)
        apps = {
            "one": build_jira_app(one),
            "other": build_jira_app(other),
            "mailer": build_resend_app(mailer),
        }
        urls = {name: stack.enter_context(web.serve_in_thread(app)) for name, app in apps.items()}
        monkeypatch.setenv("AGENTICPM_JIRA_URL", urls["one"])
        async with open_memory_stores(SYSTEM, clock=clock) as stores:
            await provision(stores, SYSTEM)
            project = await projects.create(
                stores,
                name="Member profile",
                source="jira",
                source_project_key="MCU",
                autonomy_level="tactical",
            )
            async with IntegrationClients(stores.for_component("executor")) as parties:
                await story(Sites(stores, parties, clock, one, other, mailer, urls, project))

    with ExitStack() as stack:
        asyncio.run(on_stores(stack))


def test_what_was_held_for_the_sandbox_never_goes_to_a_tracker_that_was_put_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(sites: Sites) -> None:
        action = await sites.held(COMMENT_DETAIL)
        await sites.put(Integration.jira, "other")
        assert (await sites.executed()).refused == [action.id]
        assert sites.one.ledger == [] and sites.other.ledger == []
        refused = await sites.now()
        assert (refused.refused, refused.queue) == ("another_party", None)
        assert "points to another site" in format_outcome(refused)
        (error,) = await sites.errors()
        assert error["code"] == "another_party" and sites.urls["other"] in error["reason"]

    at_sites(story, tmp_path, monkeypatch)


def test_other_credentials_for_the_same_site_make_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(sites: Sites) -> None:
        await sites.put(Integration.jira, "other")
        action = await sites.held(COMMENT_DETAIL)
        await sites.put(Integration.jira, "other", api_token="another")
        assert (await sites.executed()).done == [action.id]
        assert [each["what"] for each in sites.other.ledger] == ["comment"]

    at_sites(story, tmp_path, monkeypatch)


def test_a_mail_is_also_for_the_sender_it_was_held_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(sites: Sites) -> None:
        await sites.put(Integration.resend, "mailer")
        action = await sites.held(MAIL_DETAIL)
        await sites.put(Integration.resend, "mailer", sender="boss@example.com")
        assert (await sites.executed()).refused == [action.id]
        assert sites.mailer.ledger == []

    at_sites(story, tmp_path, monkeypatch)


def test_the_loop_notes_for_which_site_it_holds_an_action_also_where_a_person_allows_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AGENTICPM_JIRA_URL", "http://127.0.0.1:9")

    async def story(play: Play) -> None:
        one = await play.project()
        asks = await play.project(name="Asks", source_project_key="A", config={"allowed_actions": []})
        play.tracker.block("MCU-1")
        await play.turn()
        (question,) = await play.escalations(asks)
        # Who decides sits elsewhere, and knows nothing of the sandbox.
        monkeypatch.delenv("AGENTICPM_JIRA_URL")
        await escalations.decide(play.stores, asks.id, question.id, "Do it")
        held = [*await play.actions(one), *await play.actions(asks)]
        assert [(each.detail or {})["party"] for each in held] == ["the sandbox", "the sandbox"]

    played(story)


def test_the_digest_is_held_for_the_mailer_in_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTICPM_RESEND_URL", "http://127.0.0.1:9")

    async def story(play: Play) -> None:
        from agenticpm.workers import digest

        await agent_settings.put(play.stores, "digest_recipients", "a@example.com")
        await digest.make_daily_digest(play.stores.for_component("loop"))
        (mail,) = await play.actions(None)
        assert (mail.detail or {})["party"] == "the sandbox"

    played(story)


def test_why_an_action_is_not_done_is_logged_once_and_again_after_an_hour(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        play.tracker.block("MCU-1")
        await play.cycle()
        del play.parties.there[Integration.jira]
        play.clock.advance(30 * 60)
        (action,) = await play.actions(project)
        with caplog.at_level(logging.INFO, logger="agenticpm.workers.actions"):
            for _ in range(3):
                assert (await play.execute()).waiting == [action.id]
                play.clock.advance(5)
            assert len([each for each in caplog.records if action.id in each.message]) == 1
            play.clock.advance(actions.LOG_INTERVAL_S)
            await play.execute()
        assert len([each for each in caplog.records if action.id in each.message]) == 2

    played(story)
