"""Integrations: how to reach an outside party. Its credentials come in, are sealed, and are seen by its connector alone.

What is kept is what the cipher leaves of them, bound to the integration and the environment: moved elsewhere it opens
nothing. No error, log, event or answer has a secret in it; what people are shown is `IntegrationState`.

Where nobody has put credentials, a sandbox may stand in: the one whose address stands in a variable of this process, as
`holdfast up` sets it for those it starts. The loop notes which do, so that other processes can tell.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Protocol
from urllib.parse import urlsplit
from uuid import uuid4

from pydantic import BaseModel, ConfigDict

from agenticpm import patterns
from agenticpm.configs import STAND_INS
from agenticpm.connectors import credentials as known
from agenticpm.connectors.opening import open_party, sandbox_credentials
from agenticpm.events import moment, recorded
from agenticpm.model import (
    AgentConfig,
    EventType,
    Integration,
    IntegrationConfig,
    IntegrationStatus,
    Severity,
)
from agenticpm.projects import one_of
from agenticpm.tickets import Health
from holdfast import Stores
from holdfast.errors import (
    ConditionFailed,
    HoldfastError,
    NotFound,
    PartyFailed,
    PartyRefused,
    TransactionCancelled,
    error_label,
)

TICK: Final = timedelta(milliseconds=1)
# The site of every sandbox that stands in, at whatever address it is today.
SANDBOX: Final = "the sandbox"


class Cipher(Protocol):
    """What `open_cipher` gives."""

    def encrypt(self, plaintext: bytes, context: Mapping[str, str]) -> bytes: ...

    def decrypt(self, ciphertext: bytes, context: Mapping[str, str]) -> bytes: ...

    def rewrap(self, ciphertext: bytes, context: Mapping[str, str]) -> bytes: ...


class Checkable(Protocol):
    """A tracker, a mailbox or a mailer."""

    async def health(self) -> Health: ...


class IntegrationState(BaseModel):
    """What people are shown of an integration: nothing of its credentials, sealed or not.

    `speaks_to` is what is in effect: a site, the sandbox that stands in, or nobody.
    """

    model_config = ConfigDict(frozen=True)

    integration: Integration
    is_configured: bool
    status: IntegrationStatus
    speaks_to: str
    says: str
    last_health_check: datetime | None = None
    updated_at: datetime | None = None

    @classmethod
    def of(
        cls, integration: Integration, config: IntegrationConfig | None, stand_in: str | None = None
    ) -> IntegrationState:
        if config is None:
            return cls._unconfigured(integration, stand_in)
        is_off = config.status is IntegrationStatus.inactive
        return cls(
            integration=integration,
            is_configured=True,
            status=config.status,
            speaks_to="nobody" if is_off else config.site or "the address in its credentials",
            says=_switched_off(integration) if is_off else "By the credentials that were put.",
            last_health_check=config.last_health_check,
            updated_at=config.updated_at,
        )

    @classmethod
    def _unconfigured(cls, integration: Integration, stand_in: str | None) -> IntegrationState:
        put = f"`holdfast agenticpm integrations put {integration}`"
        if stand_in is None:
            return cls(
                integration=integration,
                is_configured=False,
                status=IntegrationStatus.inactive,
                speaks_to="nobody",
                says=f"No credentials were put: {put} does.",
            )
        return cls(
            integration=integration,
            is_configured=False,
            status=IntegrationStatus.active,
            speaks_to=f"the sandbox at {stand_in}",
            says=f"A sandbox stands in, for as long as nobody puts credentials: {put} does.",
        )


def _switched_off(integration: Integration) -> str:
    return (
        "Switched off: nothing is read or done there, and no sandbox takes its place. "
        f"`holdfast agenticpm integrations put {integration}` with credentials switches it on again."
    )


class Checked(BaseModel):
    """What a health check found."""

    model_config = ConfigDict(frozen=True)

    state: IntegrationState
    health: Health


# --- reading -----------------------------------------------------------------------------------------------------


async def listed(stores: Stores) -> list[IntegrationState]:
    """All that there can be, also those that nobody has configured."""
    known = await stand_ins(stores)
    return [
        IntegrationState.of(each, await stores.run(patterns.integration_config(each)), known.get(each))
        for each in Integration
    ]


async def state_of(stores: Stores, integration: Integration | str) -> IntegrationState:
    name = one_of(Integration, integration, "integration")
    config = await stores.run(patterns.integration_config(name))
    return IntegrationState.of(name, config, (await stand_ins(stores)).get(name))


def stand_in(integration: Integration) -> str | None:
    """The address of the sandbox that stands in for it, as this process was told."""
    return os.environ.get(f"AGENTICPM_{integration.upper()}_URL") or None


async def stand_ins(stores: Stores) -> dict[str, str]:
    """Where the sandboxes are that would stand in: as the loop has noted, and as this process was told."""
    told = {str(each): address for each in Integration if (address := stand_in(each)) is not None}
    return await noted_stand_ins(stores) | told


async def noted_stand_ins(stores: Stores) -> dict[str, str]:
    """Those that stand in, as the loop has noted."""
    noted = await stores.run(patterns.agent_config(STAND_INS))
    return dict(noted.value) if noted is not None and isinstance(noted.value, dict) else {}


async def note_stand_ins(stores: Stores) -> None:
    """For other processes: which sandboxes this one speaks to. Written where it is another than before."""
    now = {
        str(each): address
        for each in Integration
        if (address := stand_in(each)) is not None
        and await stores.run(patterns.integration_config(each)) is None
    }
    seen = await stores.run(patterns.agent_config(STAND_INS))
    if now == ({} if seen is None else seen.value):
        return
    wanted = AgentConfig(key=STAND_INS, value=now, updated_at=moment(stores.clock))
    try:
        await stores.run(patterns.put_record(wanted, seen))
    except ConditionFailed:
        pass  # another instance has noted the same


async def site_in_effect(stores: Stores, integration: Integration) -> str | None:
    """Where the integration leads now; None where it leads nowhere, or nobody knows."""
    config = await stores.run(patterns.integration_config(integration))
    if config is None:
        return None if stand_in(integration) is None else SANDBOX
    return None if config.status is IntegrationStatus.inactive else config.site


def site_of(credentials: Mapping[str, Any]) -> str:
    """What credentials lead to: the origin of an address; of a mailer, also whom its mail is from."""
    parts = urlsplit(str(credentials["base_url"]))
    origin = f"{parts.scheme}://{parts.netloc}".lower()
    return f"{origin} as {credentials['sender']}" if "sender" in credentials else origin


async def credentials_of(stores: Stores, cipher: Cipher, integration: Integration | str) -> dict[str, Any]:
    """In plain: for the connector, and for nothing else."""
    return decrypted(stores, cipher, await _configured(stores, integration))


def decrypted(stores: Stores, cipher: Cipher, config: IntegrationConfig) -> dict[str, Any]:
    """The credentials of a configuration that was read. InvalidRequest if it was sealed for another place."""
    body = cipher.decrypt(b64decode(config.config_encrypted), _context(stores, config.integration))
    return dict(json.loads(body))


# --- changing ----------------------------------------------------------------------------------------------------


async def put_credentials(
    stores: Stores, cipher: Cipher, integration: Integration | str, credentials: Mapping[str, Any]
) -> IntegrationState:
    """Checks, seals and keeps them, and switches the integration on. What was there before is gone."""
    name = one_of(Integration, integration, "integration")
    seen = await stores.run(patterns.integration_config(name))
    plain = known.plain(known.checked(name, credentials))
    sealed, site = _sealed(stores, cipher, name, plain), site_of(plain)
    said = "has credentials now" if seen is None else "has new credentials"
    state = await _put(
        stores, seen, name, said, config_encrypted=sealed, site=site, status=IntegrationStatus.active
    )
    warning = (
        f"{state.says} Actions that were held for another site than {site} are refused when they are due."
    )
    return state.model_copy(update={"says": warning})


async def rotate(
    stores: Stores,
    cipher: Cipher,
    integration: Integration | str,
    credentials: Mapping[str, Any] | None = None,
) -> IntegrationState:
    """New credentials in place of those there are; without any, the same ones under the cipher's current key."""
    seen = await _configured(stores, integration)
    name = seen.integration
    if credentials is not None:
        plain = known.plain(known.checked(name, credentials))
        sealed, site = _sealed(stores, cipher, name, plain), site_of(plain)
        return await _put(stores, seen, name, "has new credentials", config_encrypted=sealed, site=site)
    wrapped = cipher.rewrap(b64decode(seen.config_encrypted), _context(stores, name))
    text = b64encode(wrapped).decode()
    if text == seen.config_encrypted:
        return IntegrationState.of(name, seen)
    return await _put(stores, seen, name, "is under the current key now", config_encrypted=text)


async def deactivate(stores: Stores, integration: Integration | str) -> IntegrationState:
    """Switched off until credentials are put again. A health check leaves it so."""
    seen = await _configured(stores, integration)
    if seen.status is IntegrationStatus.inactive:
        return IntegrationState.of(seen.integration, seen)
    return await _put(stores, seen, seen.integration, "is switched off", status=IntegrationStatus.inactive)


async def check(stores: Stores, cipher: Cipher, integration: Integration | str) -> Checked:
    """Opens the party that is in effect, by the credentials that are kept or as the sandbox that stands in, and asks it."""
    name = one_of(Integration, integration, "integration")
    address = (await stand_ins(stores)).get(name)
    if address is not None and await stores.run(patterns.integration_config(name)) is None:
        async with open_party(name, sandbox_credentials(name, address), clock=stores.clock) as party:
            return Checked(state=IntegrationState.of(name, None, address), health=await _asked(party))
    config = await _configured(stores, name)
    plain = decrypted(stores, cipher, config)
    async with open_party(config.integration, plain, clock=stores.clock) as party:
        return await check_health(stores, config.integration, party)


async def check_health(stores: Stores, integration: Integration | str, party: Checkable) -> Checked:
    """Asks the party how it is, and keeps what it found with its event. One that is switched off stays so."""
    seen = await _configured(stores, integration)
    health = await _asked(party)
    status = IntegrationStatus.active if health.is_ok else IntegrationStatus.error
    if seen.status is IntegrationStatus.inactive:
        status = seen.status
    at = moment(stores.clock)
    event = recorded(
        stores,
        None,
        EventType.integration_checked,
        f"{seen.integration} {'answers' if health.is_ok else 'does not answer as it must'}",
        {"integration": seen.integration, "status": status, "is_ok": health.is_ok, "detail": health.detail},
        severity=Severity.info if health.is_ok else Severity.error,
        at=at,
    )
    try:
        await stores.transact(patterns.note_health(seen, status, at), *event)
    except TransactionCancelled as error:
        raise _changed_meanwhile(seen.integration) from error
    found = seen.model_copy(update={"status": status, "last_health_check": at})
    return Checked(state=IntegrationState.of(seen.integration, found), health=health)


async def _asked(party: Checkable) -> Health:
    try:
        return await party.health()
    except (PartyFailed, PartyRefused) as error:
        return Health(is_ok=False, detail=error.message)
    except HoldfastError as error:
        return Health(is_ok=False, detail=f"{error_label(error)}: {error.message}")


async def _configured(stores: Stores, integration: Integration | str) -> IntegrationConfig:
    name = one_of(Integration, integration, "integration")
    found = await stores.run(patterns.integration_config(name))
    if found is None:
        raise NotFound(f"{name} is not configured: put its credentials first (`integrations put {name}`).")
    return found


def _sealed(stores: Stores, cipher: Cipher, integration: Integration, plain: Mapping[str, Any]) -> str:
    body = json.dumps(dict(plain), sort_keys=True, separators=(",", ":")).encode()
    return b64encode(cipher.encrypt(body, _context(stores, integration))).decode()


def _context(stores: Stores, integration: Integration) -> dict[str, str]:
    return {"system": "agenticpm", "integration": str(integration), "environment": stores.environment}


async def _put(
    stores: Stores, seen: IntegrationConfig | None, integration: Integration, said: str, **changes: Any
) -> IntegrationState:
    """The configuration with its event, over what was seen. `updatedAt` grows: connectors are opened anew by it."""
    now = moment(stores.clock)
    if seen is None:
        wanted = IntegrationConfig(
            id=str(uuid4()), integration=integration, created_at=now, updated_at=now, **changes
        )
    else:
        at = max(now, seen.updated_at + TICK)
        wanted = IntegrationConfig(**{**dict(seen), **changes, "updated_at": at})
    write = patterns.put_integration(wanted, None if seen is None else seen.updated_at)
    told = {"integration": integration, "status": wanted.status}
    event = recorded(stores, None, EventType.config_changed, f"{integration} {said}", told, at=now)
    try:
        await stores.transact(write, *event)
    except TransactionCancelled as error:
        raise _changed_meanwhile(integration) from error
    return IntegrationState.of(integration, wanted)


def _changed_meanwhile(integration: Integration) -> ConditionFailed:
    return ConditionFailed(
        f"The configuration of {integration} was changed by somebody else meanwhile: look at it, and do it again."
    )
