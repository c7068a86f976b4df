"""Sandboxes of the external services, over real HTTP: the travel portal and the issuer of employees' tokens.

    portal.py   a travel portal with a ledger of every order; tests check the ledger
    issuer.py   issues employees' tokens

This module connects them to the system: it holds the shared secrets, and builds the environment variables
with their URLs. For demos and tests only: the secrets are in this file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from holdfast.core.clock import Clock

PORTAL_KEY: Final = "sandbox-key-of-the-portal"
# Employees who hold the approver roles of the sample policy.
APPROVERS: Final = "line-manager=emp-7,travel-desk=emp-9"
_SECRETS: Final = {
    "tripcortex/flow-token": "sandbox-secret-of-waits",
    "tripcortex/connections": "sandbox-secret-between-processes",
}


def make_portal(clock: Clock, folder: Path) -> Any:
    """Return the ASGI app of the portal, with its ledger in the folder."""
    from holdfast_demo.tripcortex.sandbox.portal import PortalSandbox, build_portal_app

    return build_portal_app(PortalSandbox(clock=clock, folder=folder, api_key=PORTAL_KEY))


def make_issuer(clock: Clock, folder: Path) -> Any:
    """Return the ASGI app of the token issuer, with its keys in the folder."""
    from holdfast_demo.tripcortex.sandbox.issuer import IssuerSandbox, build_issuer_app

    return build_issuer_app(IssuerSandbox(clock=clock, folder=folder))


def build_variables(sandbox_urls: Mapping[str, str], own_url: str) -> dict[str, str]:
    """Return the environment variables of a system at `own_url` that uses these sandboxes.

    `sandbox_urls` has their URLs by the names `portal` and `issuer`; the variables of an absent one are left
    out.
    """
    values = {get_secret_variable(name): value for name, value in _SECRETS.items()}
    values |= {"TRIPCORTEX_NODE_URL": own_url, "TRIPCORTEX_APPROVERS": APPROVERS}
    if "portal" in sandbox_urls:
        values |= {
            "TRIPCORTEX_PORTAL_URL": sandbox_urls["portal"],
            "TRIPCORTEX_PORTAL_WEB_URL": sandbox_urls["portal"],
            get_secret_variable("tripcortex/portal-key"): PORTAL_KEY,
        }
    if "issuer" in sandbox_urls:
        from holdfast_demo.tripcortex.sandbox.issuer import build_issuer_variables as issuer_variables

        values |= issuer_variables(sandbox_urls["issuer"])
    return values


def get_secret_variable(name: str) -> str:
    """Return the environment variable in which `holdfast.open_secrets` looks up a secret."""
    return "HOLDFAST_SECRET_" + re.sub(r"[/-]", "_", name).upper()
