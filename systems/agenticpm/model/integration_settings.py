"""Integration settings: store, rotate and decrypt the credentials of each service, and check its health.

The stored ciphertext is bound to the integration and the environment: moved elsewhere it does not decrypt. No
error, log, event or response contains a secret; people see `IntegrationState`.

Without credentials, a sandbox may simulate the service: its address is in an environment variable, which
`holdfast up` sets for the processes it starts. The loop records the sandboxes in use for other processes.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict

from agenticpm.domain.tickets import Health
from agenticpm.integrations import credentials as known
from agenticpm.integrations.factory import build_sandbox_credentials, open_client
from agenticpm.model import patterns
from agenticpm.model.agent_settings import SANDBOXES
from agenticpm.model.entities import (
    AgentConfig,
    EventType,
    Integration,
    IntegrationConfig,
    IntegrationStatus,
    Severity,
)
from agenticpm.model.events import build_event_writes, get_now
from agenticpm.model.projects import parse_choice
from holdfast import Stores
from holdfast.core.errors import (
    ConditionFailed,
    ExternalServiceFailed,
    ExternalServiceRefused,
    HoldfastError,
    NotFound,
    TransactionCancelled,
    error_label,
)
from holdfast.core.rng import make_uuid

MIN_STEP: Final = timedelta(milliseconds=1)
# The site of every sandbox, independent of its current address.
SANDBOX_SITE: Final = "the sandbox"


class Cipher(Protocol):
    """The cipher that `open_cipher` returns."""

    def encrypt(self, plaintext: bytes, context: Mapping[str, str]) -> bytes: ...

    def decrypt(self, ciphertext: bytes, context: Mapping[str, str]) -> bytes: ...

    def rewrap(self, ciphertext: bytes, context: Mapping[str, str]) -> bytes: ...


class HealthSource(Protocol):
    """A tracker, a mailbox or a mailer."""

    async def check_health(self) -> Health: ...


class IntegrationState(BaseModel):
    """The public state of an integration, without its credentials.

    `speaks_to` is the current target: a site, the address of a sandbox, or "nobody" if there is none. `says`
    explains the state to a person.
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
    def from_config(
        cls, integration: Integration, config: IntegrationConfig | None, sandbox_address: str | None = None
    ) -> IntegrationState:
        """Build the state from the stored configuration; without one, from the sandbox address."""
        if config is None:
            return cls._build_unconfigured(integration, sandbox_address)
        is_off = config.status is IntegrationStatus.inactive
        return cls(
            integration=integration,
            is_configured=True,
            status=config.status,
            speaks_to="nobody" if is_off else config.site or "the address in its credentials",
            says=_format_switched_off(integration) if is_off else "Uses the stored credentials.",
            last_health_check=config.last_health_check,
            updated_at=config.updated_at,
        )

    @classmethod
    def _build_unconfigured(cls, integration: Integration, sandbox_address: str | None) -> IntegrationState:
        put = f"`holdfast agenticpm integrations put {integration}`"
        if sandbox_address is None:
            return cls(
                integration=integration,
                is_configured=False,
                status=IntegrationStatus.inactive,
                speaks_to="nobody",
                says=f"No credentials. Store them with {put}.",
            )
        return cls(
            integration=integration,
            is_configured=False,
            status=IntegrationStatus.active,
            speaks_to=f"the sandbox at {sandbox_address}",
            says=f"Uses a sandbox until credentials are stored with {put}.",
        )


def _format_switched_off(integration: Integration) -> str:
    return (
        "Switched off: nothing is read or done there, and no sandbox replaces it. "
        f"Switch it on with `holdfast agenticpm integrations put {integration}`."
    )


class Checked(BaseModel):
    """The result of a health check, with the state of the integration after it."""

    model_config = ConfigDict(frozen=True)

    state: IntegrationState
    health: Health


# --- read ---------------------------------------------------------------------------------------------------


async def list_states(stores: Stores) -> list[IntegrationState]:
    """List the states of all integrations, also of those without credentials."""
    known = await load_sandbox_addresses(stores)
    return [
        IntegrationState.from_config(
            each, await stores.run(patterns.integration_config(each)), known.get(each)
        )
        for each in Integration
    ]


async def get_state(stores: Stores, integration: Integration | str) -> IntegrationState:
    """Return the state of one integration. Raise InvalidRequest if the name is unknown."""
    name = parse_choice(Integration, integration, "integration")
    config = await stores.run(patterns.integration_config(name))
    return IntegrationState.from_config(name, config, (await load_sandbox_addresses(stores)).get(name))


def get_sandbox_address(integration: Integration) -> str | None:
    """Return the address of the integration's sandbox from this process's environment, or None."""
    return os.environ.get(get_sandbox_variable(integration)) or None


def get_sandbox_variable(integration: Integration) -> str:
    """Return the variable with the address of an integration's sandbox."""
    return f"AGENTICPM_{integration.upper()}_URL"


async def load_sandbox_addresses(stores: Stores) -> dict[str, str]:
    """Return the sandbox addresses by integration, from the environment or else from the loop's record."""
    own = {str(each): address for each in Integration if (address := get_sandbox_address(each)) is not None}
    return await load_recorded_sandboxes(stores) | own


async def load_recorded_sandboxes(stores: Stores) -> dict[str, str]:
    """Return the addresses of the sandboxes in use that the loop recorded, by integration."""
    noted = await stores.run(patterns.agent_config(SANDBOXES))
    return dict(noted.value) if noted is not None and isinstance(noted.value, dict) else {}


async def record_sandboxes(stores: Stores) -> None:
    """Record which sandboxes this process uses, for other processes. Write only if they changed.

    A sandbox is in use if its address is set and the integration has no credentials.
    """
    now = {
        str(each): address
        for each in Integration
        if (address := get_sandbox_address(each)) is not None
        and await stores.run(patterns.integration_config(each)) is None
    }
    seen = await stores.run(patterns.agent_config(SANDBOXES))
    if now == ({} if seen is None else seen.value):
        return
    wanted = AgentConfig(key=SANDBOXES, value=now, updated_at=get_now(stores.clock))
    try:
        await stores.run(patterns.put_record(wanted, seen))
    except ConditionFailed:
        pass  # another instance recorded the same


async def get_current_site(stores: Stores, integration: Integration) -> str | None:
    """Return the site that the integration points to now.

    Return None if it is not configured, is switched off, or its site is unknown.
    """
    config = await stores.run(patterns.integration_config(integration))
    if config is None:
        return None if get_sandbox_address(integration) is None else SANDBOX_SITE
    return None if config.status is IntegrationStatus.inactive else config.site


def compute_site(credentials: Mapping[str, Any]) -> str:
    """Return the site of credentials: the origin of the address; for a mailer also the sender."""
    parts = urlsplit(str(credentials["base_url"]))
    origin = f"{parts.scheme}://{parts.netloc}".lower()
    return f"{origin} as {credentials['sender']}" if "sender" in credentials else origin


async def load_credentials(stores: Stores, cipher: Cipher, integration: Integration | str) -> dict[str, Any]:
    """Return the decrypted credentials, for the client only. Raise NotFound if there are none."""
    return decrypt(stores, cipher, await _load_configured(stores, integration))


def decrypt(stores: Stores, cipher: Cipher, config: IntegrationConfig) -> dict[str, Any]:
    """Decrypt the credentials of a configuration.

    Raise InvalidRequest if they were encrypted for another context.
    """
    body = cipher.decrypt(b64decode(config.config_encrypted), _build_context(stores, config.integration))
    return dict(json.loads(body))


# --- change -------------------------------------------------------------------------------------------------


async def put_credentials(
    stores: Stores, cipher: Cipher, integration: Integration | str, credentials: Mapping[str, Any]
) -> IntegrationState:
    """Validate, encrypt and store credentials in place of the previous ones. Switch the integration on.

    Raise InvalidRequest if they are invalid, ConditionFailed if another writer was first.
    """
    name = parse_choice(Integration, integration, "integration")
    seen = await stores.run(patterns.integration_config(name))
    plain = known.to_plain(known.parse_credentials(name, credentials))
    sealed, site = _encrypt(stores, cipher, name, plain), compute_site(plain)
    change = "has credentials now" if seen is None else "has new credentials"
    state = await _put_config(
        stores, seen, name, change, config_encrypted=sealed, site=site, status=IntegrationStatus.active
    )
    warning = f"{state.says} Held actions for another site than {site} are refused when they are due."
    return state.model_copy(update={"says": warning})


async def rotate(
    stores: Stores,
    cipher: Cipher,
    integration: Integration | str,
    credentials: Mapping[str, Any] | None = None,
) -> IntegrationState:
    """Replace the credentials; without new ones, re-encrypt the present ones with the current key.

    Write nothing if the key is current. An inactive integration stays off. Raise NotFound without
    credentials.
    """
    seen = await _load_configured(stores, integration)
    name = seen.integration
    if credentials is not None:
        plain = known.to_plain(known.parse_credentials(name, credentials))
        sealed, site = _encrypt(stores, cipher, name, plain), compute_site(plain)
        return await _put_config(
            stores, seen, name, "has new credentials", config_encrypted=sealed, site=site
        )
    wrapped = cipher.rewrap(b64decode(seen.config_encrypted), _build_context(stores, name))
    text = b64encode(wrapped).decode()
    if text == seen.config_encrypted:
        return IntegrationState.from_config(name, seen)
    return await _put_config(stores, seen, name, "is under the current key now", config_encrypted=text)


async def deactivate(stores: Stores, integration: Integration | str) -> IntegrationState:
    """Switch the integration off until credentials are stored again. A health check does not change that.

    Raise NotFound if it has no credentials.
    """
    seen = await _load_configured(stores, integration)
    if seen.status is IntegrationStatus.inactive:
        return IntegrationState.from_config(seen.integration, seen)
    return await _put_config(
        stores, seen, seen.integration, "is switched off", status=IntegrationStatus.inactive
    )


async def check(stores: Stores, cipher: Cipher, integration: Integration | str) -> Checked:
    """Open the current client, with the stored credentials or for the sandbox, and check its health.

    The result for stored credentials is stored; that of a sandbox is not.
    """
    name = parse_choice(Integration, integration, "integration")
    address = (await load_sandbox_addresses(stores)).get(name)
    if address is not None and await stores.run(patterns.integration_config(name)) is None:
        async with open_client(name, build_sandbox_credentials(name, address), clock=stores.clock) as client:
            return Checked(
                state=IntegrationState.from_config(name, None, address), health=await _ask_health(client)
            )
    config = await _load_configured(stores, name)
    plain = decrypt(stores, cipher, config)
    async with open_client(config.integration, plain, clock=stores.clock) as client:
        return await check_health(stores, config.integration, client)


async def check_health(stores: Stores, integration: Integration | str, client: HealthSource) -> Checked:
    """Check the health of a client and store the result with its event.

    A switched-off integration stays off.
    """
    seen = await _load_configured(stores, integration)
    health = await _ask_health(client)
    status = IntegrationStatus.active if health.is_ok else IntegrationStatus.error
    if seen.status is IntegrationStatus.inactive:
        status = seen.status
    at = get_now(stores.clock)
    event = build_event_writes(
        stores,
        None,
        EventType.integration_checked,
        f"{seen.integration} {'is healthy' if health.is_ok else 'is not healthy'}",
        {"integration": seen.integration, "status": status, "is_ok": health.is_ok, "detail": health.detail},
        severity=Severity.info if health.is_ok else Severity.error,
        at=at,
    )
    try:
        await stores.transact(patterns.note_health(seen, status, at), *event)
    except TransactionCancelled as error:
        raise _build_conflict(seen.integration) from error
    found = seen.model_copy(update={"status": status, "last_health_check": at})
    return Checked(state=IntegrationState.from_config(seen.integration, found), health=health)


async def _ask_health(client: HealthSource) -> Health:
    """Return the client's health; an error becomes an unhealthy result."""
    try:
        return await client.check_health()
    except (ExternalServiceFailed, ExternalServiceRefused) as error:
        return Health(is_ok=False, detail=error.message)
    except HoldfastError as error:
        return Health(is_ok=False, detail=f"{error_label(error)}: {error.message}")


async def _load_configured(stores: Stores, integration: Integration | str) -> IntegrationConfig:
    """Load the stored configuration. Raise NotFound if there is none."""
    name = parse_choice(Integration, integration, "integration")
    found = await stores.run(patterns.integration_config(name))
    if found is None:
        raise NotFound(f"{name} is not configured. Store its credentials first (`integrations put {name}`).")
    return found


def _encrypt(stores: Stores, cipher: Cipher, integration: Integration, plain: Mapping[str, Any]) -> str:
    """Return the credentials encrypted for this integration and environment, in Base64."""
    body = json.dumps(dict(plain), sort_keys=True, separators=(",", ":")).encode()
    return b64encode(cipher.encrypt(body, _build_context(stores, integration))).decode()


def _build_context(stores: Stores, integration: Integration) -> dict[str, str]:
    """Return the encryption context that binds a ciphertext to its integration and environment."""
    return {"system": "agenticpm", "integration": str(integration), "environment": stores.environment}


async def _put_config(
    stores: Stores, seen: IntegrationConfig | None, integration: Integration, change: str, **changes: Any
) -> IntegrationState:
    """Write the configuration with its event, if it is still the one read (`seen`).

    `change` is the end of the event's summary, `changes` are the new field values. `updatedAt` always
    increases: clients are reopened by it. Raise ConditionFailed if another writer was first.
    """
    now = get_now(stores.clock)
    if seen is None:
        wanted = IntegrationConfig(
            id=str(make_uuid()), integration=integration, created_at=now, updated_at=now, **changes
        )
    else:
        at = max(now, seen.updated_at + MIN_STEP)
        wanted = IntegrationConfig(**{**dict(seen), **changes, "updated_at": at})
    write = patterns.put_integration(wanted, None if seen is None else seen.updated_at)
    detail = {"integration": integration, "status": wanted.status}
    event = build_event_writes(
        stores, None, EventType.config_changed, f"{integration} {change}", detail, at=now
    )
    try:
        await stores.transact(write, *event)
    except TransactionCancelled as error:
        raise _build_conflict(integration) from error
    return IntegrationState.from_config(integration, wanted)


def _build_conflict(integration: Integration) -> ConditionFailed:
    return ConditionFailed(
        f"Another writer changed the configuration of {integration}: read it again and retry."
    )
