"""The outside parties as a process has them open: by what is stored, anew where that was changed, and closed at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agenticpm.integrations.clients import IntegrationClients
from agenticpm.integrations.factory import build_sandbox_credentials
from agenticpm.integrations.jira.tracker import JiraTracker
from agenticpm.integrations.outlook.mailbox import OutlookMailbox
from agenticpm.integrations.resend.mailer import ResendMailer
from agenticpm.model import integration_settings
from agenticpm.model.entities import Integration, Source
from agenticpm.system import SYSTEM
from holdfast import Stores, open_cipher, open_memory_stores, provision
from holdfast.core.errors import HoldfastError, NotFound
from tests.unit.agenticpm.loop_play import HandClock

NOWHERE = "http://127.0.0.1:9"

Story = Callable[[Stores, IntegrationClients], Awaitable[None]]


@pytest.fixture(autouse=True)
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_KEYS", f"file:{tmp_path / 'keys.json'}")


def told(story: Story) -> None:
    async def on_stores() -> None:
        clock = HandClock()
        async with open_memory_stores(SYSTEM, clock=clock) as stores:
            await provision(stores, SYSTEM)
            # With the rights of who executes: it needs no more.
            async with IntegrationClients(stores.for_component("executor")) as parties:
                await story(stores, parties)

    asyncio.run(on_stores())


async def put(stores: Stores, integration: Integration, address: str = NOWHERE) -> None:
    credentials = build_sandbox_credentials(integration, address)
    await integration_settings.put_credentials(stores, open_cipher(), integration, credentials)


def test_a_party_is_opened_once_and_anew_when_its_credentials_have_changed() -> None:
    async def story(stores: Stores, parties: IntegrationClients) -> None:
        await put(stores, Integration.jira)
        first = await parties.get_tracker(Source.jira)
        assert isinstance(first, JiraTracker)
        assert await parties.get_tracker(Source.jira) is first
        await put(stores, Integration.jira, "http://127.0.0.1:10")
        second = await parties.get_tracker(Source.jira)
        assert second is not first
        assert await parties.get_tracker(Source.jira) is second
        with pytest.raises(HoldfastError):
            await second.fetch_changes("MCU", None)

    told(story)


def test_each_integration_is_the_port_it_should_be() -> None:
    async def story(stores: Stores, parties: IntegrationClients) -> None:
        await put(stores, Integration.outlook)
        await put(stores, Integration.resend)
        assert isinstance(await parties.get_mailbox(), OutlookMailbox)
        assert isinstance(await parties.get_mailer(), ResendMailer)

    told(story)


def test_one_that_is_not_configured_or_was_switched_off_is_not_to_be_had() -> None:
    async def story(stores: Stores, parties: IntegrationClients) -> None:
        with pytest.raises(NotFound, match="integrations put jira"):
            await parties.get_tracker(Source.jira)
        await put(stores, Integration.jira)
        await parties.get_tracker(Source.jira)
        await integration_settings.deactivate(stores, Integration.jira)
        with pytest.raises(NotFound, match="switched off"):
            await parties.get_tracker(Source.jira)

    told(story)


def test_a_stand_in_is_used_only_where_nobody_has_put_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTICPM_JIRA_URL", NOWHERE)

    async def story(stores: Stores, parties: IntegrationClients) -> None:
        stand_in = await parties.get_tracker(Source.jira)
        assert await parties.get_tracker(Source.jira) is stand_in
        await put(stores, Integration.jira)
        assert await parties.get_tracker(Source.jira) is not stand_in
        await integration_settings.deactivate(stores, Integration.jira)
        with pytest.raises(NotFound):
            await parties.get_tracker(Source.jira)

    told(story)
