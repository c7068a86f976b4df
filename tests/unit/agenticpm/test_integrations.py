"""Integrations: what is kept of credentials is sealed, bound to its place, and shown to nobody."""

from __future__ import annotations

import asyncio
import json
import logging
from base64 import b64decode
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from agenticpm.domain.tickets import Health
from agenticpm.model import integration_settings, patterns
from agenticpm.model.entities import EventType, Integration, IntegrationConfig, IntegrationStatus
from agenticpm.model.integration_settings import Checked, IntegrationState
from agenticpm.system import SYSTEM
from holdfast import Stores, open_cipher, open_memory_stores, open_stores, provision
from holdfast.config.settings import Settings
from holdfast.core.errors import ConditionFailed, ExternalServiceFailed, InvalidRequest, NotFound
from holdfast.guarantees import scan_files
from holdfast.security.ciphers import Envelope, FileCipher, open_file_cipher

R = TypeVar("R")

TOKEN = "ATATT3xFfGF0-q7VbLr2nS8kJ-e9D1c4B5"
OTHER_TOKEN = "ATATT3xFfGF0-zz81Kd0pQwLmXv-77aa"
KEY = "re_8fJk2LmQ_4nTzXcVbNm1AsDfGh"
JIRA = {"base_url": "https://acme.atlassian.net", "email": "bot@acme.example", "api_token": TOKEN}
RESEND = {"base_url": "https://api.resend.com", "api_key": KEY, "sender": "agent@acme.example"}
SECRETS = (TOKEN, OTHER_TOKEN, KEY)


class Party:
    """An outside party that answers, or fails, as it is told."""

    def __init__(self, answer: Health | Exception) -> None:
        self.answer = answer

    async def check_health(self) -> Health:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def played(play: Callable[[Stores, FileCipher], Awaitable[R]], folder: Path) -> R:
    async def run() -> R:
        async with open_memory_stores(SYSTEM) as stores:
            await provision(stores, SYSTEM)
            return await play(stores, open_file_cipher(folder / "keys.json"))

    return asyncio.run(run())


async def kept(stores: Stores, integration: Integration = Integration.jira) -> IntegrationConfig:
    found = await stores.run(patterns.integration_config(integration))
    assert found is not None
    return found


async def told(stores: Stores) -> list[Any]:
    return [(each.event_type, each.detail) for each in await stores.all(patterns.recent_events())]


@pytest.mark.proves("AP-25")
@pytest.mark.proves("AP-42")
def test_credentials_come_back_as_they_were_put_and_are_kept_sealed(tmp_path: Path) -> None:
    async def play(stores: Stores, cipher: FileCipher) -> tuple[dict[str, Any], IntegrationConfig]:
        await integration_settings.put_credentials(stores, cipher, "jira", JIRA)
        return await integration_settings.load_credentials(stores, cipher, "jira"), await kept(stores)

    plain, config = played(play, tmp_path)
    assert plain == JIRA
    assert b64decode(config.config_encrypted, validate=True).startswith(b"HFC1")
    assert TOKEN not in config.config_encrypted
    assert config.status is IntegrationStatus.active
    assert config.last_health_check is None


@pytest.mark.proves("AP-25")
@pytest.mark.proves("AP-28")
@pytest.mark.parametrize(
    ("integration", "credentials", "said"),
    [
        ("trello", JIRA, "Invalid integration 'trello': expected one of jira, asana, outlook, resend."),
        ("jira", {**JIRA, "base_url": "http://acme.example"}, "base_url: must be HTTPS"),
        ("jira", {**JIRA, "api_token": TOKEN + "\n"}, "api_token: "),
        ("jira", {**JIRA, TOKEN: "x"}, "unknown field"),
        ("jira", {"api_token": TOKEN}, "base_url: Field required"),
        ("jira", {**JIRA, "email": {"secret": TOKEN}}, "email: "),
    ],
)
def test_refuses_credentials_that_cannot_be_without_repeating_them(
    integration: str,
    credentials: dict[str, Any],
    said: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def play(stores: Stores, cipher: FileCipher) -> tuple[BaseException, list[Any]]:
        with caplog.at_level(logging.DEBUG), pytest.raises(InvalidRequest, match=said) as refused:
            await integration_settings.put_credentials(stores, cipher, integration, credentials)
        return refused.value, await told(stores)

    error, events = played(play, tmp_path)
    assert TOKEN not in str(error) + repr(error) + caplog.text
    assert error.__suppress_context__ or error.__context__ is None
    assert events == []


@pytest.mark.proves("AP-25")
def test_what_people_are_shown_has_nothing_of_the_credentials(tmp_path: Path) -> None:
    async def play(stores: Stores, cipher: FileCipher) -> tuple[list[IntegrationState], str, list[Any]]:
        await integration_settings.put_credentials(stores, cipher, "jira", JIRA)
        await integration_settings.put_credentials(stores, cipher, "resend", RESEND)
        return (
            await integration_settings.list_states(stores),
            (await kept(stores)).config_encrypted,
            await told(stores),
        )

    states, sealed, events = played(play, tmp_path)
    assert [(each.integration, each.is_configured) for each in states] == [
        ("jira", True),
        ("asana", False),
        ("outlook", False),
        ("resend", True),
    ]
    shown = json.dumps([each.model_dump(mode="json") for each in states]) + repr(events)
    assert not [each for each in (*SECRETS, sealed, "bot@acme.example") if each in shown]
    assert [type for type, _ in events] == [EventType.config_changed] * 2


def test_a_sealed_configuration_opens_nowhere_else(tmp_path: Path) -> None:
    async def play(stores: Stores, cipher: FileCipher) -> None:
        await integration_settings.put_credentials(stores, cipher, "jira", JIRA)
        config = await kept(stores)
        moved = config.model_copy(update={"integration": Integration.asana})
        with pytest.raises(InvalidRequest, match="encrypted for another context"):
            integration_settings.decrypt(stores, cipher, moved)
        stores.environment = "prod"
        with pytest.raises(InvalidRequest, match="encrypted for another context"):
            integration_settings.decrypt(stores, cipher, config)

    played(play, tmp_path)


def test_rotation_puts_the_same_credentials_under_the_current_key(tmp_path: Path) -> None:
    async def play(stores: Stores, cipher: FileCipher) -> tuple[str, str, dict[str, Any], int]:
        await integration_settings.put_credentials(stores, cipher, "jira", JIRA)
        before = await kept(stores)
        await integration_settings.rotate(stores, cipher, "jira")
        assert await kept(stores) == before  # it was under the current key already
        current = cipher.rotate()
        await integration_settings.rotate(stores, cipher, "jira")
        after = await kept(stores)
        assert after.updated_at > before.updated_at
        wrapped_by = Envelope.parse(b64decode(after.config_encrypted)).key_id
        events = await told(stores)
        return (
            current,
            wrapped_by,
            await integration_settings.load_credentials(stores, cipher, "jira"),
            len(events),
        )

    current, wrapped_by, plain, events = played(play, tmp_path)
    assert wrapped_by == current
    assert plain == JIRA
    assert events == 2


def test_rotation_takes_new_credentials_only_where_there_are_some(tmp_path: Path) -> None:
    async def play(stores: Stores, cipher: FileCipher) -> dict[str, Any]:
        with pytest.raises(NotFound, match="jira is not configured"):
            await integration_settings.rotate(stores, cipher, "jira", JIRA)
        await integration_settings.put_credentials(stores, cipher, "jira", JIRA)
        await integration_settings.rotate(stores, cipher, "jira", {**JIRA, "api_token": OTHER_TOKEN})
        return await integration_settings.load_credentials(stores, cipher, "jira")

    assert played(play, tmp_path)["api_token"] == OTHER_TOKEN


@pytest.mark.proves("AP-25")
@pytest.mark.parametrize(
    ("answer", "status", "severity"),
    [
        (Health(is_ok=True, detail="acme"), IntegrationStatus.active, "info"),
        (Health(is_ok=False, detail="slow"), IntegrationStatus.error, "error"),
        (ExternalServiceFailed("jira did not answer", may_be_done=False), IntegrationStatus.error, "error"),
    ],
)
def test_a_health_check_keeps_what_it_found_with_its_event(
    answer: Health | Exception, status: IntegrationStatus, severity: str, tmp_path: Path
) -> None:
    async def play(stores: Stores, cipher: FileCipher) -> tuple[Checked, IntegrationConfig, Any]:
        await integration_settings.put_credentials(stores, cipher, "jira", JIRA)
        checked = await integration_settings.check_health(stores, "jira", Party(answer))
        event = (await stores.run(patterns.recent_events(1))).items[0]
        return checked, await kept(stores), event

    checked, config, event = played(play, tmp_path)
    assert checked.state.status is config.status is status
    assert checked.state.last_health_check == config.last_health_check == event.created_at
    assert (event.event_type, event.severity) == ("integration_checked", severity)


def test_a_health_check_does_not_switch_on_what_was_switched_off(tmp_path: Path) -> None:
    async def play(stores: Stores, cipher: FileCipher) -> list[IntegrationStatus]:
        await integration_settings.put_credentials(stores, cipher, "jira", JIRA)
        off = await integration_settings.deactivate(stores, "jira")
        checked = await integration_settings.check_health(stores, "jira", Party(Health(is_ok=True)))
        on = await integration_settings.put_credentials(stores, cipher, "jira", JIRA)
        return [off.status, checked.state.status, on.status]

    off, checked, on = played(play, tmp_path)
    assert off is checked is IntegrationStatus.inactive
    assert on is IntegrationStatus.active


def test_a_check_of_credentials_that_were_changed_meanwhile_is_not_kept(tmp_path: Path) -> None:
    async def play(stores: Stores, cipher: FileCipher) -> IntegrationConfig:
        await integration_settings.put_credentials(stores, cipher, "jira", JIRA)

        class Slow(Party):
            async def check_health(self) -> Health:
                await integration_settings.rotate(stores, cipher, "jira", {**JIRA, "api_token": OTHER_TOKEN})
                return await super().check_health()

        with pytest.raises(ConditionFailed, match="Another writer changed the configuration"):
            await integration_settings.check_health(stores, "jira", Slow(Health(is_ok=False)))
        return await kept(stores)

    config = played(play, tmp_path)
    assert config.status is IntegrationStatus.active
    assert config.last_health_check is None


@pytest.mark.proves("AP-25")
def test_no_file_has_a_secret_in_plain_and_a_planted_one_is_found(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "data"
    settings = Settings(
        tables=f"sqlite:{data}/tables.db",
        queues=f"sqlite:{data}/queues.db",
        objects=f"file:{data}/objects",
        keys=f"file:{data}/keys.json",
    )

    async def play() -> tuple[int, int]:
        async with open_stores(SYSTEM, settings) as stores:
            await provision(stores, SYSTEM)
            cipher = open_cipher(settings)
            await integration_settings.put_credentials(stores, cipher, "jira", JIRA)
            await integration_settings.put_credentials(stores, cipher, "resend", RESEND)
            await integration_settings.rotate(stores, cipher, "jira", {**JIRA, "api_token": OTHER_TOKEN})
            await integration_settings.check_health(stores, "jira", Party(Health(is_ok=True)))
            with pytest.raises(InvalidRequest):
                await integration_settings.put_credentials(stores, cipher, "resend", {**RESEND, "sender": ""})
            await integration_settings.load_credentials(stores, cipher, "resend")
            (data / "log.txt").write_text(caplog.text)
            # While the store is open, its log of writes is there too.
            found = len(scan_files([data], needles=SECRETS, kinds=()))
            config = (await kept(stores)).model_copy(update={"id": "0f6d9a11-2f1a-4a55-8c3e-8b1c6f1c7f5e"})
            planted = config.model_copy(update={"config_encrypted": f"plain {TOKEN}"})
            await stores.run(patterns.put_integration(planted, config.updated_at))
            return found, len(scan_files([data], needles=SECRETS, kinds=()))

    with caplog.at_level(logging.DEBUG):
        found, planted = asyncio.run(play())
    assert found == 0
    assert planted > 0
