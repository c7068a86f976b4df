"""The stand-ins for the outside parties, spoken to over real HTTP: the travel portal and the issuer of employees' tokens.

    portal.py   a travel portal, with a ledger of every order that reached it: that is what the tests believe
    issuer.py   who gives employees their tokens

What joins them to the system is here: the secrets that both sides know, and the variables that tell the system where they are.
All of it is for trying things out: the secrets stand in this file, and are refused nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from holdfast.clock import Clock

PORTAL_KEY: Final = "sandbox-key-of-the-portal"
# Who answers for the roles of the sample policy.
APPROVERS: Final = "line-manager=emp-7,travel-desk=emp-9"
_SECRETS: Final = {
    "tripcortex/flow-token": "sandbox-secret-of-waits",
    "tripcortex/connections": "sandbox-secret-between-processes",
}


def portal(clock: Clock, folder: Path) -> Any:
    from tripcortex.sandbox.portal import PortalSandbox, portal_app

    return portal_app(PortalSandbox(clock=clock, folder=folder, api_key=PORTAL_KEY))


def issuer(clock: Clock, folder: Path) -> Any:
    from tripcortex.sandbox.issuer import IssuerSandbox, issuer_app

    return issuer_app(IssuerSandbox(clock=clock, folder=folder))


def variables(parties: Mapping[str, str], own: str) -> dict[str, str]:
    """What a system at the address `own` has to know of those that stand in: by name, where each of them is."""
    told = {secret_variable(name): value for name, value in _SECRETS.items()}
    told |= {"TRIPCORTEX_NODE_URL": own, "TRIPCORTEX_APPROVERS": APPROVERS}
    if "portal" in parties:
        told |= {
            "TRIPCORTEX_PORTAL_URL": parties["portal"],
            "TRIPCORTEX_PORTAL_WEB_URL": parties["portal"],
            secret_variable("tripcortex/portal-key"): PORTAL_KEY,
        }
    if "issuer" in parties:
        from tripcortex.sandbox.issuer import variables as of_issuer

        told |= of_issuer(parties["issuer"])
    return told


def secret_variable(name: str) -> str:
    """As `holdfast.open_secrets` looks a name up in the environment."""
    return "HOLDFAST_SECRET_" + re.sub(r"[/-]", "_", name).upper()
