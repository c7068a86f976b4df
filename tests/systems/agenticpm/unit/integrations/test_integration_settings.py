"""Tests of integration settings on stores in memory: credentials are encrypted, bound, and never shown."""

from __future__ import annotations

import json
import logging
from base64 import b64decode
from pathlib import Path
from typing import Any, TypeVar

import pytest

from agenticpm.domain.tickets import Health
from agenticpm.model import integration_settings, patterns
from agenticpm.model.entities import EventType, Integration, IntegrationConfig, IntegrationStatus
from agenticpm.system import SYSTEM
from holdfast import Stores, open_stores, provision
from holdfast.config.settings import Settings
from holdfast.core.errors import ConditionFailed, ExternalServiceFailed, InvalidRequest, NotFound
from holdfast.guarantees import scan_files
from holdfast.runtime import open_cipher
from holdfast.security.ciphers import Envelope, FileCipher, open_file_cipher

R = TypeVar("R")

TOKEN = "ATATT3xFfGF0-q7VbLr2nS8kJ-e9D1c4B5"
OTHER_TOKEN = "ATATT3xFfGF0-zz81Kd0pQwLmXv-77aa"
KEY = "re_8fJk2LmQ_4nTzXcVbNm1AsDfGh"
JIRA = {"base_url": "https://acme.atlassian.net", "email": "bot@acme.example", "api_token": TOKEN}
RESEND = {"base_url": "https://api.resend.com", "api_key": KEY, "sender": "agent@acme.example"}
SECRETS = (TOKEN, OTHER_TOKEN, KEY)


class FakeService:
    """External service that answers, or fails, as configured."""

    def __init__(self, answer: Health | Exception) -> None:
        self.answer = answer

    async def check_health(self) -> Health:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def cipher(tmp_path: Path) -> FileCipher:
    return open_file_cipher(tmp_path / "keys.json")


async def get_config(stores: Stores, integration: Integration = Integration.jira) -> IntegrationConfig:
    found = await stores.run(patterns.integration_config(integration))
    assert found is not None
    return found


async def list_events(stores: Stores) -> list[Any]:
    """Return the type and detail of all events, newest first."""
    return [(each.event_type, each.detail) for each in await stores.all(patterns.recent_events())]


@pytest.mark.proves("AP-25", "AP-42")
async def test_credentials_round_trip_and_are_stored_encrypted(stores: Stores, cipher: FileCipher) -> None:
    await integration_settings.put_credentials(stores, cipher, "jira", JIRA)
    plain, config = (
        await integration_settings.load_credentials(stores, cipher, "jira"),
        await get_config(stores),
    )
    assert plain == JIRA
    assert b64decode(config.config_encrypted, validate=True).startswith(b"HFC1")
    assert TOKEN not in config.config_encrypted
    assert config.status is IntegrationStatus.active
    assert config.last_health_check is None


@pytest.mark.proves("AP-25", "AP-28")
@pytest.mark.parametrize(
    ("integration", "credentials", "message"),
    [
        ("trello", JIRA, "Invalid integration 'trello': expected one of jira, asana, outlook, resend."),
        ("jira", {**JIRA, "base_url": "http://acme.example"}, "base_url: must be HTTPS"),
        ("jira", {**JIRA, "api_token": TOKEN + "\n"}, "api_token: "),
        ("jira", {**JIRA, TOKEN: "x"}, "unknown field"),
        ("jira", {"api_token": TOKEN}, "base_url: Field required"),
        ("jira", {**JIRA, "email": {"secret": TOKEN}}, "email: "),
    ],
)
async def test_rejects_invalid_credentials_without_repeating_them(
    stores: Stores,
    cipher: FileCipher,
    integration: str,
    credentials: dict[str, Any],
    message: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(InvalidRequest, match=message) as refused:
        await integration_settings.put_credentials(stores, cipher, integration, credentials)
    error, events = refused.value, await list_events(stores)
    assert TOKEN not in str(error) + repr(error) + caplog.text
    assert error.__suppress_context__ or error.__context__ is None
    assert events == []


@pytest.mark.proves("AP-25")
async def test_state_contains_nothing_of_the_credentials(stores: Stores, cipher: FileCipher) -> None:
    await integration_settings.put_credentials(stores, cipher, "jira", JIRA)
    await integration_settings.put_credentials(stores, cipher, "resend", RESEND)
    states, sealed, events = (
        await integration_settings.list_states(stores),
        (await get_config(stores)).config_encrypted,
        await list_events(stores),
    )
    assert [(each.integration, each.is_configured) for each in states] == [
        ("jira", True),
        ("asana", False),
        ("outlook", False),
        ("resend", True),
    ]
    shown = json.dumps([each.model_dump(mode="json") for each in states]) + repr(events)
    assert not [each for each in (*SECRETS, sealed, "bot@acme.example") if each in shown]
    assert [type for type, _ in events] == [EventType.config_changed] * 2


async def test_encrypted_credentials_cannot_be_decrypted_for_another_integration(
    stores: Stores, cipher: FileCipher
) -> None:
    await integration_settings.put_credentials(stores, cipher, "jira", JIRA)
    config = await get_config(stores)
    moved = config.model_copy(update={"integration": Integration.asana})
    with pytest.raises(InvalidRequest, match="encrypted for another context"):
        integration_settings.decrypt(stores, cipher, moved)
    stores.environment = "prod"
    with pytest.raises(InvalidRequest, match="encrypted for another context"):
        integration_settings.decrypt(stores, cipher, config)


async def test_rotation_encrypts_the_same_credentials_with_the_current_key(
    stores: Stores, cipher: FileCipher
) -> None:
    await integration_settings.put_credentials(stores, cipher, "jira", JIRA)
    before = await get_config(stores)
    await integration_settings.rotate(stores, cipher, "jira")
    assert await get_config(stores) == before  # it already used the current key
    current = cipher.rotate()
    await integration_settings.rotate(stores, cipher, "jira")
    after = await get_config(stores)
    assert after.updated_at > before.updated_at
    wrapped_by = Envelope.parse(b64decode(after.config_encrypted)).key_id
    assert wrapped_by == current
    assert await integration_settings.load_credentials(stores, cipher, "jira") == JIRA
    assert len(await list_events(stores)) == 2


async def test_rotation_accepts_new_credentials_only_for_a_configured_integration(
    stores: Stores, cipher: FileCipher
) -> None:
    with pytest.raises(NotFound, match="jira is not configured"):
        await integration_settings.rotate(stores, cipher, "jira", JIRA)
    await integration_settings.put_credentials(stores, cipher, "jira", JIRA)
    await integration_settings.rotate(stores, cipher, "jira", {**JIRA, "api_token": OTHER_TOKEN})
    assert (await integration_settings.load_credentials(stores, cipher, "jira"))["api_token"] == OTHER_TOKEN


@pytest.mark.proves("AP-25")
@pytest.mark.parametrize(
    ("answer", "status", "severity"),
    [
        (Health(is_ok=True, detail="acme"), IntegrationStatus.active, "info"),
        (Health(is_ok=False, detail="slow"), IntegrationStatus.error, "error"),
        (ExternalServiceFailed("jira did not answer", may_be_done=False), IntegrationStatus.error, "error"),
    ],
)
async def test_stores_a_health_check_with_its_event(
    stores: Stores, cipher: FileCipher, answer: Health | Exception, status: IntegrationStatus, severity: str
) -> None:
    await integration_settings.put_credentials(stores, cipher, "jira", JIRA)
    checked = await integration_settings.check_health(stores, "jira", FakeService(answer))
    event = (await stores.run(patterns.recent_events(1))).items[0]
    config = await get_config(stores)
    assert checked.state.status is config.status is status
    assert checked.state.last_health_check == config.last_health_check == event.created_at
    assert (event.event_type, event.severity) == ("integration_checked", severity)


async def test_health_check_does_not_reactivate_an_integration(stores: Stores, cipher: FileCipher) -> None:
    await integration_settings.put_credentials(stores, cipher, "jira", JIRA)
    off = await integration_settings.deactivate(stores, "jira")
    checked = await integration_settings.check_health(stores, "jira", FakeService(Health(is_ok=True)))
    on = await integration_settings.put_credentials(stores, cipher, "jira", JIRA)
    assert off.status is checked.state.status is IntegrationStatus.inactive
    assert on.status is IntegrationStatus.active


async def test_discards_a_health_check_of_replaced_credentials(stores: Stores, cipher: FileCipher) -> None:
    await integration_settings.put_credentials(stores, cipher, "jira", JIRA)

    class Slow(FakeService):
        async def check_health(self) -> Health:
            await integration_settings.rotate(stores, cipher, "jira", {**JIRA, "api_token": OTHER_TOKEN})
            return await super().check_health()

    with pytest.raises(ConditionFailed, match="Another writer changed the configuration"):
        await integration_settings.check_health(stores, "jira", Slow(Health(is_ok=False)))
    config = await get_config(stores)
    assert config.status is IntegrationStatus.active
    assert config.last_health_check is None


@pytest.mark.proves("AP-25")
async def test_no_file_contains_a_plaintext_secret_and_a_planted_one_is_found(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "data"
    settings = Settings(
        tables=f"sqlite:{data}/tables.db",
        queues=f"sqlite:{data}/queues.db",
        objects=f"file:{data}/objects",
        keys=f"file:{data}/keys.json",
    )

    async def story() -> tuple[int, int]:
        async with open_stores(SYSTEM, settings) as stores:
            await provision(stores, SYSTEM)
            cipher = open_cipher(settings)
            await integration_settings.put_credentials(stores, cipher, "jira", JIRA)
            await integration_settings.put_credentials(stores, cipher, "resend", RESEND)
            await integration_settings.rotate(stores, cipher, "jira", {**JIRA, "api_token": OTHER_TOKEN})
            await integration_settings.check_health(stores, "jira", FakeService(Health(is_ok=True)))
            with pytest.raises(InvalidRequest):
                await integration_settings.put_credentials(stores, cipher, "resend", {**RESEND, "sender": ""})
            await integration_settings.load_credentials(stores, cipher, "resend")
            (data / "log.txt").write_text(caplog.text)
            # While the store is open, its write-ahead log exists too.
            found = len(scan_files([data], needles=SECRETS, kinds=()))
            config = (await get_config(stores)).model_copy(
                update={"id": "0f6d9a11-2f1a-4a55-8c3e-8b1c6f1c7f5e"}
            )
            planted = config.model_copy(update={"config_encrypted": f"plain {TOKEN}"})
            await stores.run(patterns.put_integration(planted, config.updated_at))
            return found, len(scan_files([data], needles=SECRETS, kinds=()))

    with caplog.at_level(logging.DEBUG):
        found, planted = await story()
    assert found == 0
    assert planted > 0
