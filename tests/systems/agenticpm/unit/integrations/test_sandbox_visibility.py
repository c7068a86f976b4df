"""Tests of how people see a sandbox or a missing tracker: state, health check, agent state and events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agenticpm.api.agent_state import load_agent_state
from agenticpm.model import agent_settings, integration_settings
from agenticpm.model.entities import Integration, IntegrationStatus
from holdfast import Stores, web
from holdfast.core.errors import InvalidRequest
from holdfast.runtime import open_cipher
from holdfast_demo.agenticpm.sandbox.jira import JiraSandbox, build_jira_app
from tests.systems.agenticpm.unit.workers.loop_harness import Harness

VARIABLE = "AGENTICPM_JIRA_URL"
JIRA = {"base_url": "https://acme.atlassian.net/", "email": "bot@acme.example", "api_token": "secret-token"}


@pytest.fixture
async def url(stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """The address of a Jira sandbox that the loop recorded; this process does not have its variable."""
    monkeypatch.setenv("HOLDFAST_KEYS", f"file:{tmp_path / 'keys.json'}")
    with web.serve_in_thread(build_jira_app(JiraSandbox(clock=stores.clock))) as url:
        monkeypatch.setenv(VARIABLE, url)
        await agent_settings.seed(stores)
        await integration_settings.record_sandboxes(stores.for_component("loop"))
        monkeypatch.delenv(VARIABLE)
        yield url


@pytest.fixture
def api(stores: Stores, url: str) -> Stores:
    return stores.for_component("api")


async def test_another_process_sees_and_checks_the_sandbox_of_the_loop(api: Stores, url: str) -> None:
    state = await integration_settings.get_state(api, "jira")
    assert state.speaks_to == f"the sandbox at {url}"
    assert (state.is_configured, state.status) == (False, IntegrationStatus.active)
    assert {each.integration: each.speaks_to for each in await integration_settings.list_states(api)} == {
        Integration.jira: f"the sandbox at {url}",
        Integration.asana: "nobody",
        Integration.outlook: "nobody",
        Integration.resend: "nobody",
    }
    checked = await integration_settings.check(api, open_cipher(), "jira")
    assert checked.health.is_ok and checked.state == state
    assert (await load_agent_state(api)).stand_ins == {"jira": url}


async def test_stored_credentials_replace_the_sandbox_even_when_deactivated(api: Stores) -> None:
    """The state of a deactivated integration says how to switch it on."""
    put = await integration_settings.put_credentials(api, open_cipher(), "jira", JIRA)
    assert put.speaks_to == "https://acme.atlassian.net" and "refused when they are due" in put.says
    off = await integration_settings.deactivate(api, "jira")
    assert off.speaks_to == "nobody" and "integrations put jira" in off.says
    assert await integration_settings.get_state(api, "jira") == off


async def test_loop_removes_its_record_when_no_sandbox_is_used_any_more(stores: Stores, url: str) -> None:
    assert "jira" in await integration_settings.load_recorded_sandboxes(stores)
    loop = stores.for_component("loop")
    await integration_settings.record_sandboxes(loop)
    assert await integration_settings.load_recorded_sandboxes(loop) == {}
    with pytest.raises(InvalidRequest, match="Only the agent sets"):
        await agent_settings.put(stores, "stand_ins", {})
    listed = await agent_settings.list_settings(stores)
    assert sorted(each.key for each in listed) == sorted(agent_settings.PARSERS)


async def test_reports_a_deactivated_tracker_once_a_day_and_in_each_heartbeat(harness: Harness) -> None:
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
