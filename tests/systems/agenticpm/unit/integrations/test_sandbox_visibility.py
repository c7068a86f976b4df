"""Tests of how people see a sandbox or a missing tracker: state, health check, agent state and events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agenticpm.api.agent_state import load_agent_state
from agenticpm.model import agent_settings, integration_settings
from agenticpm.model.entities import Integration, IntegrationStatus
from agenticpm.system import SYSTEM
from holdfast import Stores, open_memory_stores, provision, web
from holdfast.core.errors import InvalidRequest
from holdfast.runtime import open_cipher
from holdfast_demo.agenticpm.sandbox.jira import JiraSandbox, build_jira_app
from tests.systems.agenticpm.unit.workers.loop_harness import Harness, ManualClock, run_story

VARIABLE = "AGENTICPM_JIRA_URL"
JIRA = {"base_url": "https://acme.atlassian.net/", "email": "bot@acme.example", "api_token": "secret-token"}


async def run_with_sandbox(
    story: Callable[[Stores, str], Awaitable[None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Record a Jira sandbox as the loop does, then run the story as another process with `api`'s rights."""
    monkeypatch.setenv("HOLDFAST_KEYS", f"file:{tmp_path / 'keys.json'}")

    with web.serve_in_thread(build_jira_app(JiraSandbox(clock=ManualClock()))) as url:
        monkeypatch.setenv(VARIABLE, url)
        async with open_memory_stores(SYSTEM, clock=ManualClock()) as stores:
            await provision(stores, SYSTEM)
            await agent_settings.seed(stores)
            await integration_settings.record_sandboxes(stores.for_component("loop"))
            # From here on another process, without the variable.
            monkeypatch.delenv(VARIABLE)
            await story(stores.for_component("api"), url)


async def test_another_process_sees_and_checks_the_sandbox_of_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(stores: Stores, url: str) -> None:
        state = await integration_settings.get_state(stores, "jira")
        assert state.speaks_to == f"the sandbox at {url}"
        assert (state.is_configured, state.status) == (False, IntegrationStatus.active)
        assert {
            each.integration: each.speaks_to for each in await integration_settings.list_states(stores)
        } == {
            Integration.jira: f"the sandbox at {url}",
            Integration.asana: "nobody",
            Integration.outlook: "nobody",
            Integration.resend: "nobody",
        }
        checked = await integration_settings.check(stores, open_cipher(), "jira")
        assert checked.health.is_ok and checked.state == state
        assert (await load_agent_state(stores)).stand_ins == {"jira": url}

    await run_with_sandbox(story, tmp_path, monkeypatch)


async def test_stored_credentials_replace_the_sandbox_even_when_deactivated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state of a deactivated integration says how to switch it on."""

    async def story(stores: Stores, _: str) -> None:
        put = await integration_settings.put_credentials(stores, open_cipher(), "jira", JIRA)
        assert put.speaks_to == "https://acme.atlassian.net" and "refused when they are due" in put.says
        off = await integration_settings.deactivate(stores, "jira")
        assert off.speaks_to == "nobody" and "integrations put jira" in off.says
        assert await integration_settings.get_state(stores, "jira") == off

    await run_with_sandbox(story, tmp_path, monkeypatch)


async def test_loop_removes_its_record_when_no_sandbox_is_used_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(stores: Stores, _: str) -> None:
        assert "jira" in await integration_settings.load_recorded_sandboxes(stores)

    await run_with_sandbox(story, tmp_path, monkeypatch)
    monkeypatch.setenv(VARIABLE, "http://127.0.0.1:9")

    async def later(harness: Harness) -> None:
        loop = harness.stores.for_component("loop")
        await integration_settings.record_sandboxes(loop)
        monkeypatch.delenv(VARIABLE)
        await integration_settings.record_sandboxes(loop)
        assert await integration_settings.load_recorded_sandboxes(loop) == {}
        with pytest.raises(InvalidRequest, match="Only the agent sets"):
            await agent_settings.put(harness.stores, "stand_ins", {})
        assert sorted(each.key for each in await agent_settings.list_settings(harness.stores)) == sorted(
            agent_settings.PARSERS
        )

    await run_story(later)


async def test_reports_a_deactivated_tracker_once_a_day_and_in_each_heartbeat() -> None:
    async def story(harness: Harness) -> None:
        project = await harness.create_project()
        await harness.run_cycle()
        del harness.clients.configured[Integration.jira]
        for _ in range(3):
            assert (await harness.run_cycle()).errors == ["tracker"]
        assert len(await harness.events(project, "error")) == 1
        good, *bad = await harness.events(project, "heartbeat")
        assert good.severity == "info"
        assert {each.severity for each in bad} == {"warning"}
        assert all(each.summary.endswith("failed: tracker") for each in bad)
        assert "tracker of Member profile" in (await load_agent_state(harness.stores)).says
        harness.clock.advance(24 * 3600)
        await harness.run_cycle()
        assert len(await harness.events(project, "error")) == 2

    await run_story(story)
