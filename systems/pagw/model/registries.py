"""Cached reads of providers, payers and payers' access tokens, and clients of payers with these tokens.

A lost cache costs a query or a new token. Absences are cached for half a minute, so that many requests for an
unknown payer do not reach the database.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import httpx2

from holdfast import Pattern, Rate, Stores
from holdfast.core.errors import SettingsError
from holdfast.guarantees import ReadThrough
from holdfast.runtime import Secrets
from pagw.integrations.payers.client import PayerClient
from pagw.integrations.payers.config import AuthType, FormatName, PayerConfig, parse_payer_config
from pagw.integrations.payers.http_clients import PayerHttpClients
from pagw.integrations.payers.json_client import JsonPayerClient
from pagw.integrations.payers.oauth import AccessToken, fetch_token, get_api_key
from pagw.integrations.payers.pas_client import PasPayerClient
from pagw.model import entities, patterns
from pagw.model.entities import PayerRow, Provider

PER_STAGE: Final = Rate(per="stage of a request")

PROVIDERS: Final = ReadThrough(entities.providers, prefix="CP", rate=PER_STAGE, example={"npi": "1234567893"})
PAYERS: Final = ReadThrough(
    entities.payers, prefix="CY", rate=PER_STAGE, example={"payer_id": "sandbox-payer"}
)
TOKENS: Final = ReadThrough(
    entities.tokens,
    prefix="CT",
    rate=Rate(per="request"),
    example={"payer_id": "sandbox-payer"},
    lifetime=lambda token, now: token.get_usable_s(now),
    absent_s=0.0,
)

CLIENTS: Final[Mapping[FormatName, type[JsonPayerClient] | type[PasPayerClient]]] = {
    FormatName.json: JsonPayerClient,
    FormatName.fhir_pas: PasPayerClient,
}

# A component that reads the registries needs these reads of rows and this use of the cache.
REGISTRIES: Final[tuple[Pattern[..., Any], ...]] = (
    patterns.provider,
    patterns.payer,
    *PROVIDERS.patterns,
    *PAYERS.patterns,
)


async def get_provider(stores: Stores, npi: str) -> Provider | None:
    """Return the provider with this NPI from the cache or the registry, or None."""
    return await PROVIDERS.get(stores, lambda: stores.run(patterns.provider(npi)), npi=npi)


async def get_payer(stores: Stores, payer_id: str) -> PayerRow | None:
    """Return the payer with this id from the cache or its configuration row, or None."""
    return await PAYERS.get(stores, lambda: stores.run(patterns.payer(payer_id)), payer_id=payer_id)


def build_payer_client(
    stores: Stores, clients: PayerHttpClients, row: PayerRow, secrets: Secrets
) -> PayerClient:
    """Return a client of the payer. All processes share its access token through the cache. Raise
    `SettingsError` for an invalid row or certificate, or an unsupported format.
    """
    config = parse_payer_config(row.model_dump())
    made = CLIENTS.get(config.format)
    if made is None:
        raise SettingsError(
            f"The payer {config.payer_id} has the format {config.format}, which is not supported. Set its "
            f"format to one of {', '.join(CLIENTS)}."
        )
    http = clients.get(config, secrets)

    async def token() -> str:
        secret = secrets.get(config.credentials_name)
        if config.auth_type is AuthType.api_key:
            return get_api_key(config, secret)
        return (await _get_token(stores, http, config, secrets)).access_token

    async def forget(refused: str) -> None:
        known = await _get_token(stores, http, config, secrets)
        if known.access_token == refused:
            await TOKENS.invalidate(stores, known, payer_id=config.payer_id)

    return made(http, config, token, forget, stores.clock)


async def _get_token(
    stores: Stores, http: httpx2.AsyncClient, config: PayerConfig, secrets: Secrets
) -> AccessToken:
    """Return the payer's token from the cache, or fetch a new one."""

    async def load() -> AccessToken:
        return await fetch_token(http, config, secrets.get(config.credentials_name), clock=stores.clock)

    found = await TOKENS.get(stores, load, payer_id=config.payer_id)
    return found if found is not None else await load()
