"""Providers, payers and the tokens of payers: from the cache, else from the registries or the payer itself.

A cache that is lost costs a query, or a new token, and nothing else. Absences are remembered for half a minute, so that a
flood of requests for an unknown payer does not reach the database.
"""

from __future__ import annotations

from typing import Any, Final

import httpx2

from holdfast import Pattern, Rate, Secrets, Stores
from holdfast.guarantees import ReadThrough
from pagw import model, patterns
from pagw.model import PayerRow, Provider
from pagw.payers.client import Payer
from pagw.payers.config import AuthType, PayerConfig, payer_config
from pagw.payers.oauth import AccessToken, api_key, fetch_token

LOOK: Final = Rate(per="stage of a request")

PROVIDERS: Final = ReadThrough(model.providers, "CP", rate=LOOK, example={"npi": "1234567893"})
PAYERS: Final = ReadThrough(model.payers, "CY", rate=LOOK, example={"payer_id": "sandbox-payer"})
TOKENS: Final = ReadThrough(
    model.tokens,
    "CT",
    rate=Rate(per="request"),
    example={"payer_id": "sandbox-payer"},
    lifetime=lambda token, now: token.usable_s(now),
    absent_s=0.0,
)

# What a component needs that looks something up: reads of the rows, and the use of the cache.
REGISTRY_READS: Final[tuple[Pattern[..., Any], ...]] = (
    patterns.provider,
    patterns.payer,
    *PROVIDERS.reads,
    *PAYERS.reads,
)
REGISTRY_WRITES: Final[tuple[Pattern[..., Any], ...]] = (*PROVIDERS.writes, *PAYERS.writes)


async def provider_of(stores: Stores, npi: str) -> Provider | None:
    return await PROVIDERS.get(stores, lambda: stores.run(patterns.provider(npi)), npi=npi)


async def payer_of(stores: Stores, payer_id: str) -> PayerRow | None:
    return await PAYERS.get(stores, lambda: stores.run(patterns.payer(payer_id)), payer_id=payer_id)


def payer_client(stores: Stores, http: httpx2.AsyncClient, row: PayerRow, secrets: Secrets) -> Payer:
    """The payer as it is asked, with a token that is shared by all who ask it."""
    config = payer_config(row.model_dump())

    async def token() -> str:
        secret = secrets.get(config.credentials_name)
        if config.auth_type is AuthType.api_key:
            return api_key(config, secret)
        return (await _token(stores, http, config, secrets)).access_token

    async def forget(refused: str) -> None:
        known = await _token(stores, http, config, secrets)
        if known.access_token == refused:
            await TOKENS.forget(stores, known, payer_id=config.payer_id)

    return Payer(http, config, token, forget, stores.clock)


async def _token(
    stores: Stores, http: httpx2.AsyncClient, config: PayerConfig, secrets: Secrets
) -> AccessToken:
    async def load() -> AccessToken:
        return await fetch_token(http, config, secrets.get(config.credentials_name), clock=stores.clock)

    found = await TOKENS.get(stores, load, payer_id=config.payer_id)
    return found if found is not None else await load()
