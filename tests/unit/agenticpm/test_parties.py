"""The outside parties as a process has them open: by what is stored, anew where that was changed, and closed at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agenticpm import SYSTEM, integrations
from agenticpm.connectors.jira import JiraTracker
from agenticpm.connectors.opening import sandbox_credentials
from agenticpm.connectors.outlook import OutlookMailbox
from agenticpm.connectors.resend import ResendMailer
from agenticpm.model import Integration, Source
from agenticpm.parties import Parties
from holdfast import Stores, open_cipher, prepare, stores_in_memory
from holdfast.errors import HoldfastError, NotFound
from tests.unit.agenticpm.loop_play import HandClock

NOWHERE = "http://127.0.0.1:9"

Story = Callable[[Stores, Parties], Awaitable[None]]


@pytest.fixture(autouse=True)
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_KEYS", f"file:{tmp_path / 'keys.json'}")


def told(story: Story) -> None:
    async def on_stores() -> None:
        clock = HandClock()
        async with stores_in_memory(SYSTEM, clock=clock) as stores:
            await prepare(stores, SYSTEM)
            # With the rights of who executes: it needs no more.
            async with Parties(stores.for_component("executor")) as parties:
                await story(stores, parties)

    asyncio.run(on_stores())


async def put(stores: Stores, integration: Integration, address: str = NOWHERE) -> None:
    credentials = sandbox_credentials(integration, address)
    await integrations.put_credentials(stores, open_cipher(), integration, credentials)


def test_a_party_is_opened_once_and_anew_when_its_credentials_have_changed() -> None:
    async def story(stores: Stores, parties: Parties) -> None:
        await put(stores, Integration.jira)
        first = await parties.tracker(Source.jira)
        assert isinstance(first, JiraTracker)
        assert await parties.tracker(Source.jira) is first
        await put(stores, Integration.jira, "http://127.0.0.1:10")
        second = await parties.tracker(Source.jira)
        assert second is not first
        assert await parties.tracker(Source.jira) is second
        with pytest.raises(HoldfastError):
            await second.changes("MCU", None)

    told(story)


def test_each_integration_is_the_port_it_should_be() -> None:
    async def story(stores: Stores, parties: Parties) -> None:
        await put(stores, Integration.outlook)
        await put(stores, Integration.resend)
        assert isinstance(await parties.mailbox(), OutlookMailbox)
        assert isinstance(await parties.mailer(), ResendMailer)

    told(story)


def test_one_that_is_not_configured_or_was_switched_off_is_not_to_be_had() -> None:
    async def story(stores: Stores, parties: Parties) -> None:
        with pytest.raises(NotFound, match="integrations put jira"):
            await parties.tracker(Source.jira)
        await put(stores, Integration.jira)
        await parties.tracker(Source.jira)
        await integrations.deactivate(stores, Integration.jira)
        with pytest.raises(NotFound, match="switched off"):
            await parties.tracker(Source.jira)

    told(story)


def test_a_stand_in_is_used_only_where_nobody_has_put_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTICPM_JIRA_URL", NOWHERE)

    async def story(stores: Stores, parties: Parties) -> None:
        stand_in = await parties.tracker(Source.jira)
        assert await parties.tracker(Source.jira) is stand_in
        await put(stores, Integration.jira)
        assert await parties.tracker(Source.jira) is not stand_in
        await integrations.deactivate(stores, Integration.jira)
        with pytest.raises(NotFound):
            await parties.tracker(Source.jira)

    told(story)
