"""The stand-ins for the outside parties, spoken to over real HTTP: payers, issuers of tokens and clients' servers.

Each keeps a ledger of every effect that reached it: that is what the tests believe.

    payer.py    a payer, known to the gateway as `PAYER_ID`
    issuer.py   who gives clients their tokens
    client.py   a client's server, which is called back

What joins them to a gateway is here: the secrets that both sides know, the variables that tell the gateway where they are
(`variables`), and the rows by which it knows the payer and the providers of the sample (`register`). All of it is for
trying things out: the secrets stand in this file, and are refused nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pagw.findable import KEY as LOOKUP_KEY
from pagw.model import PayerRow, Provider
from pagw.sample_bundles import DEFAULT_PAYER, PROVIDER_NPIS

if TYPE_CHECKING:
    from holdfast import Stores
    from holdfast.clock import Clock

PAYER_ID: Final = DEFAULT_PAYER
# The variable by which `holdfast up` tells where the payer is.
PAYER_VARIABLE: Final = "PAGW_PAYER_URL"
# Those of whose clients the gateway knows the secret.
TENANTS: Final = ("acme", "zenith")

CLIENT_ID: Final = "pagw"
CLIENT_SECRET: Final = "sandbox-secret-of-pagw-at-the-payer"
CREDENTIALS: Final = "pagw/payers/sandbox"
CALLBACKS: Final = "pagw/callbacks/sandbox"


# --- the parties -------------------------------------------------------------------------------------------------


def payer(clock: Clock, folder: Path) -> Any:
    from pagw.sandbox.payer import PayerSandbox, payer_app

    return payer_app(
        PayerSandbox(clock=clock, folder=folder, client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    )


def issuer(clock: Clock, folder: Path) -> Any:
    from pagw.sandbox.issuer import IssuerSandbox, issuer_app

    return issuer_app(IssuerSandbox(clock=clock, folder=folder))


def client(clock: Clock, folder: Path) -> Any:
    from pagw.sandbox.client import ClientSandbox, client_app

    return client_app(ClientSandbox(clock=clock, folder=folder))


# --- how a gateway goes with them --------------------------------------------------------------------------------


def variables(parties: Mapping[str, str], own: str) -> dict[str, str]:
    """What a gateway at the address `own` has to know of those that stand in: by name, where each of them is."""
    told: dict[str, str] = {}
    if "payer" in parties:
        told |= _of_payer(own)
    if "issuer" in parties:
        told |= _of_issuer(parties["issuer"])
    if "client" in parties:
        told |= _of_clients()
    return told


def _of_payer(own: str) -> dict[str, str]:
    from pagw.sandbox.payer import CALLBACK_SECRET

    return {
        "PAGW_PUBLIC_URL": own,
        secret_variable(CREDENTIALS): CLIENT_SECRET,
        secret_variable(CALLBACKS): CALLBACK_SECRET,
        secret_variable(LOOKUP_KEY): "sandbox-key-of-invented-patients",
    }


def _of_issuer(url: str) -> dict[str, str]:
    from pagw.sandbox.issuer import AUDIENCE, ISSUER

    return {
        "PAGW_JWKS_URL": f"{url}/.well-known/jwks.json",
        "PAGW_TOKEN_ISSUER": ISSUER,
        "PAGW_TOKEN_AUDIENCE": AUDIENCE,
    }


def _of_clients() -> dict[str, str]:
    """Their server is on this machine, which webhooks otherwise never reach."""
    from pagw.sandbox.client import SECRET

    secrets = {secret_variable(f"pagw/webhooks/{tenant}"): SECRET for tenant in TENANTS}
    return {"PAGW_PRIVATE_TARGETS": "on", **secrets}


def secret_variable(name: str) -> str:
    return "HOLDFAST_SECRET_" + re.sub(r"[/-]", "_", name).upper()


async def register(stores: Stores, payer_url: str) -> int:
    """Makes the payer at this address known, and the providers of the sample; gives how many rows that are."""
    from pagw import patterns
    from pagw.registries import PAYERS, PROVIDERS

    for provider in _providers():
        await stores.run(patterns.put_provider(provider))
        await PROVIDERS.forget(stores, npi=provider.npi)
    await stores.run(patterns.put_payer(payer_row(payer_url)))
    await PAYERS.forget(stores, payer_id=PAYER_ID)
    return 1 + len(PROVIDER_NPIS)


def payer_row(url: str) -> PayerRow:
    return PayerRow(
        payer_id=PAYER_ID,
        name="Acme Health (sandbox)",
        api_endpoint=url,
        auth_type="oauth2",
        credentials_arn=CREDENTIALS,
        format="json",
        client_id=CLIENT_ID,
        callback_secret=CALLBACKS,
    )


def _providers() -> list[Provider]:
    return [
        Provider(npi=npi, name=f"Sample Clinic {number}", type="clinic", endpoints={}, credentials_arn=None)
        for number, npi in enumerate(PROVIDER_NPIS, 1)
    ]
