"""Tests of the open clients of a process: opened from stored credentials and reopened when these change."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agenticpm.integrations.clients import IntegrationClients
from agenticpm.integrations.factory import build_sandbox_credentials
from agenticpm.integrations.jira.tracker import JiraTracker
from agenticpm.integrations.outlook.mailbox import OutlookMailbox
from agenticpm.integrations.resend.mailer import ResendMailer
from agenticpm.model import integration_settings
from agenticpm.model.entities import Integration, Source
from holdfast import Stores
from holdfast.core.errors import HoldfastError, NotFound
from holdfast.runtime import open_cipher

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_KEYS", f"file:{tmp_path / 'keys.json'}")


@pytest.fixture
async def clients(stores: Stores) -> AsyncIterator[IntegrationClients]:
    """The clients of an executor, with its rights."""
    async with IntegrationClients(stores.for_component("executor")) as clients:
        yield clients


async def put_credentials(stores: Stores, integration: Integration, address: str = NOWHERE) -> None:
    credentials = build_sandbox_credentials(integration, address)
    await integration_settings.put_credentials(stores, open_cipher(), integration, credentials)


async def test_opens_a_client_once_and_again_when_its_credentials_change(
    stores: Stores, clients: IntegrationClients
) -> None:
    await put_credentials(stores, Integration.jira)
    first = await clients.get_tracker(Source.jira)
    assert isinstance(first, JiraTracker)
    assert await clients.get_tracker(Source.jira) is first
    await put_credentials(stores, Integration.jira, "http://127.0.0.1:10")
    second = await clients.get_tracker(Source.jira)
    assert second is not first
    assert await clients.get_tracker(Source.jira) is second
    with pytest.raises(HoldfastError):
        await second.fetch_changes("MCU", None)


async def test_each_integration_has_a_client_of_its_kind(stores: Stores, clients: IntegrationClients) -> None:
    await put_credentials(stores, Integration.outlook)
    await put_credentials(stores, Integration.resend)
    assert isinstance(await clients.get_mailbox(), OutlookMailbox)
    assert isinstance(await clients.get_mailer(), ResendMailer)


async def test_unconfigured_or_deactivated_integration_has_no_client(
    stores: Stores, clients: IntegrationClients
) -> None:
    with pytest.raises(NotFound, match="integrations put jira"):
        await clients.get_tracker(Source.jira)
    await put_credentials(stores, Integration.jira)
    await clients.get_tracker(Source.jira)
    await integration_settings.deactivate(stores, Integration.jira)
    with pytest.raises(NotFound, match="switched off"):
        await clients.get_tracker(Source.jira)


async def test_uses_the_sandbox_only_without_stored_credentials(
    stores: Stores, clients: IntegrationClients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTICPM_JIRA_URL", NOWHERE)

    stand_in = await clients.get_tracker(Source.jira)
    assert await clients.get_tracker(Source.jira) is stand_in
    await put_credentials(stores, Integration.jira)
    assert await clients.get_tracker(Source.jira) is not stand_in
    await integration_settings.deactivate(stores, Integration.jira)
    with pytest.raises(NotFound):
        await clients.get_tracker(Source.jira)
