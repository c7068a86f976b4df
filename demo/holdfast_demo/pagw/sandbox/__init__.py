"""Sandboxes of the external services over real HTTP: a payer, a token issuer and a client's server.

Each keeps a ledger of every effect that reached it, which the tests verify.

    payer.py    a payer with the gateway's own JSON, known to the gateway as `PAYER_ID`
    pas_payer.py  a payer that speaks Da Vinci PAS, known as `PAS_PAYER_ID`
    issuer.py   the issuer of clients' tokens
    client.py   a client's server, which receives webhooks

This module connects them to a gateway: the shared secrets, the environment variables with their addresses
(`build_variables`) and the rows of the payer and the sample's providers (`register`). It is for demos only:
the secrets are in this file, and no environment refuses them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from holdfast_demo.pagw.sample.bundles import DEFAULT_PAYER, PROVIDER_NPIS
from pagw.model.entities import PayerRow, Provider
from pagw.model.lookup import KEY_SECRET as LOOKUP_KEY

if TYPE_CHECKING:
    from holdfast import Stores
    from holdfast.core.clock import Clock

PAYER_ID: Final = DEFAULT_PAYER
# The environment variable in which `holdfast up` passes the payer's address.
PAYER_VARIABLE: Final = "PAGW_PAYER_URL"
PAS_PAYER_ID: Final = "UNITED-PAS"
PAS_PAYER_VARIABLE: Final = "PAGW_PAS_PAYER_URL"
# Tenants whose webhook secret the gateway has.
TENANTS: Final = ("acme", "zenith")

CLIENT_ID: Final = "pagw"
CLIENT_SECRET: Final = "sandbox-secret-of-pagw-at-the-payer"
CREDENTIALS_NAME: Final = "pagw/payers/sandbox"
CALLBACK_SECRET_NAME: Final = "pagw/callbacks/sandbox"
PAS_CREDENTIALS_NAME: Final = "pagw/payers/pas-sandbox"
PAS_CALLBACK_SECRET_NAME: Final = "pagw/callbacks/pas-sandbox"
PAS_CALLBACK_SECRET: Final = "sandbox-pas-payer-notifications"


# --- apps ---------------------------------------------------------------------------------------------------


def make_payer(clock: Clock, folder: Path) -> Any:
    """Build the payer's app."""
    from holdfast_demo.pagw.sandbox.payer import PayerSandbox, build_payer_app

    return build_payer_app(
        PayerSandbox(clock=clock, folder=folder, client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    )


def make_pas_payer(clock: Clock, folder: Path) -> Any:
    """Build the app of the payer that speaks PAS."""
    from holdfast_demo.pagw.sandbox.pas_payer import PasPayerSandbox, build_pas_payer_app

    return build_pas_payer_app(
        PasPayerSandbox(clock=clock, folder=folder, client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    )


def make_issuer(clock: Clock, folder: Path) -> Any:
    """Build the token issuer's app."""
    from holdfast_demo.pagw.sandbox.issuer import IssuerSandbox, build_issuer_app

    return build_issuer_app(IssuerSandbox(clock=clock, folder=folder))


def make_client(clock: Clock, folder: Path) -> Any:
    """Build the app of the client's server."""
    from holdfast_demo.pagw.sandbox.client import ClientSandbox, build_client_app

    return build_client_app(ClientSandbox(clock=clock, folder=folder))


# --- a gateway's configuration ------------------------------------------------------------------------------


def build_variables(services: Mapping[str, str], gateway_url: str) -> dict[str, str]:
    """Return the environment variables of a gateway at the address `gateway_url`. `services` maps the name of
    each running sandbox to its address.
    """
    found: dict[str, str] = {}
    if "payer" in services:
        found |= _build_payer_variables(gateway_url)
    if "pas-payer" in services:
        found |= {
            get_secret_variable(PAS_CREDENTIALS_NAME): CLIENT_SECRET,
            get_secret_variable(PAS_CALLBACK_SECRET_NAME): PAS_CALLBACK_SECRET,
        }
    if "issuer" in services:
        found |= _build_issuer_variables(services["issuer"])
    if "client" in services:
        found |= _build_client_variables()
    return found


def _build_payer_variables(gateway_url: str) -> dict[str, str]:
    """Return the gateway's public address and the secrets it shares with the sandbox payer."""
    from holdfast_demo.pagw.sandbox.payer import CALLBACK_SECRET

    return {
        "PAGW_PUBLIC_URL": gateway_url,
        get_secret_variable(CREDENTIALS_NAME): CLIENT_SECRET,
        get_secret_variable(CALLBACK_SECRET_NAME): CALLBACK_SECRET,
        get_secret_variable(LOOKUP_KEY): "sandbox-key-of-invented-patients",
    }


def _build_issuer_variables(url: str) -> dict[str, str]:
    """Return the settings of the token issuer at `url`."""
    from holdfast_demo.pagw.sandbox.issuer import AUDIENCE, ISSUER

    return {
        "PAGW_JWKS_URL": f"{url}/.well-known/jwks.json",
        "PAGW_TOKEN_ISSUER": ISSUER,
        "PAGW_TOKEN_URL": f"{url}/token",
        "PAGW_TOKEN_AUDIENCE": AUDIENCE,
    }


def _build_client_variables() -> dict[str, str]:
    """Return the webhook secrets, and allow webhooks to this machine, which the gateway otherwise refuses."""
    from holdfast_demo.pagw.sandbox.client import SECRET

    secrets = {get_secret_variable(f"pagw/webhooks/{tenant}"): SECRET for tenant in TENANTS}
    return {"PAGW_PRIVATE_TARGETS": "on", **secrets}


def get_secret_variable(name: str) -> str:
    """Return the name of the environment variable that has a secret."""
    return "HOLDFAST_SECRET_" + re.sub(r"[/-]", "_", name).upper()


async def register(stores: Stores, payer_url: str) -> int:
    """Register the payer at this address and the sample's providers; return the number of rows."""
    from pagw.model import patterns
    from pagw.model.registries import PAYERS, PROVIDERS

    for provider in _build_providers():
        await stores.run(patterns.put_provider(provider))
        await PROVIDERS.invalidate(stores, npi=provider.npi)
    await stores.run(patterns.put_payer(build_payer_row(payer_url)))
    await PAYERS.invalidate(stores, payer_id=PAYER_ID)
    return 1 + len(PROVIDER_NPIS)


async def register_pas_payer(stores: Stores, url: str) -> None:
    """Register the payer that speaks PAS at this address."""
    from pagw.model import patterns
    from pagw.model.registries import PAYERS

    await stores.run(patterns.put_payer(build_pas_payer_row(url)))
    await PAYERS.invalidate(stores, payer_id=PAS_PAYER_ID)


def build_pas_payer_row(url: str) -> PayerRow:
    """Return the configuration row of the payer that speaks PAS."""
    return PayerRow(
        payer_id=PAS_PAYER_ID,
        name="United PAS (sandbox)",
        api_endpoint=url,
        auth_type="oauth2",
        credentials_arn=PAS_CREDENTIALS_NAME,
        format="fhir-pas",
        client_id=CLIENT_ID,
        callback_secret=PAS_CALLBACK_SECRET_NAME,
    )


def build_payer_row(url: str) -> PayerRow:
    """Return the configuration row of the payer."""
    return PayerRow(
        payer_id=PAYER_ID,
        name="Acme Health (sandbox)",
        api_endpoint=url,
        auth_type="oauth2",
        credentials_arn=CREDENTIALS_NAME,
        format="json",
        client_id=CLIENT_ID,
        callback_secret=CALLBACK_SECRET_NAME,
    )


def _build_providers() -> list[Provider]:
    """Build the registry rows of the sample's providers."""
    return [
        Provider(npi=npi, name=f"Sample Clinic {number}", type="clinic", endpoints={}, credentials_arn=None)
        for number, npi in enumerate(PROVIDER_NPIS, 1)
    ]
