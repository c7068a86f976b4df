"""A stand-in for Clerk (SANDBOX: it gives a token to whoever asks; never trust it outside a demo).

It makes a key, keeps it in its folder, and publishes the public half at `/.well-known/jwks.json`, as Clerk does. Its tokens
are session tokens of Clerk's shape: `sub` the user, `sid` the session, `azp` the page that asked, `org_id` and `org_role`, or in
version 2 `o` with both; what a template of Clerk's adds are `aud` (here in version 1 alone), `email`, `employee_id` and
`public_metadata`. They end soon, as Clerk's do, and say of themselves that they are a sandbox's.

The doors under `/sandbox/…` give any token, also one that must be refused, rotate the key and make the key set fail. A test
in the same process calls `minted` instead.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal
from uuid import uuid4

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.web.sandbox_keys import SandboxIssuer, SandboxKeys
from holdfast.web.sandboxes import WHO_DIED, Faults

ISSUER: Final = "https://clerk.sandbox.invalid"
AUDIENCE: Final = "tripcortex"
# The page in whose name a browser asks.
PARTY: Final = "https://trips.sandbox.invalid"
ORGANISATION: Final = "org_sandbox"
ADMIN_ROLE: Final = "org:admin"
MEMBER_ROLE: Final = "org:member"
ROLE_PREFIX: Final = "org:"
LIFETIME_S: Final = 900.0
KEYS_FILE: Final = "sandbox_clerk_keys.json"
HEADERS: Final = {"x-sandbox": "holdfast-tripcortex-issuer", "cache-control": "no-store"}
EMPLOYEE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

Flaw = Literal[
    "expired",
    "early",
    "forged",
    "unknown_key",
    "other_issuer",
    "other_audience",
    "other_party",
    "other_organisation",
    "no_employee",
]


@dataclass
class IssuerSandbox(SandboxIssuer):
    """The issuer. Its keys are those of its folder, or its own."""

    clock: Clock = SYSTEM_CLOCK
    folder: Path | None = None
    issuer: str = ISSUER
    audience: str = AUDIENCE
    organisation: str = ORGANISATION
    lifetime_s: float = LIFETIME_S
    faults: Faults = field(default_factory=Faults)

    def __post_init__(self) -> None:
        self._keys = SandboxKeys(self.folder, KEYS_FILE, lambda: f"ins_sandbox{uuid4().hex}")

    def minted(
        self,
        employee_id: str,
        /,
        *,
        is_admin: bool = False,
        time_zone: str = "America/New_York",
        home_airport: str | None = "BOS",
        lifetime_s: float | None = None,
        version: Literal[1, 2] = 1,
        flaw: Flaw | None = None,
        **claims: Any,
    ) -> str:
        """A token of an employee; with a flaw, one that must be refused."""
        now = self.clock.now()
        user = f"user_{hashlib.sha256(employee_id.encode()).hexdigest()[:27]}"
        told = {
            "iss": self.issuer,
            "azp": PARTY,
            "sub": user,
            "sid": f"sess_{uuid4().hex[:27]}",
            "email": f"{employee_id}@employees.invalid",
            "employee_id": employee_id,
            **self._membership(ADMIN_ROLE if is_admin else MEMBER_ROLE, version),
            "public_metadata": {"time_zone": time_zone, "home_airport": home_airport},
            "iat": int(now),
            "nbf": int(now) - 10,
            "exp": int(now + (self.lifetime_s if lifetime_s is None else lifetime_s)),
            "jti": str(uuid4()),
            "sandbox": True,
            **claims,
        }
        return self._keys.signed(_flawed(told, flaw, now), flaw)

    def _membership(self, role: str, version: int) -> dict[str, Any]:
        if version == 1:
            return {"aud": self.audience, "org_id": self.organisation, "org_role": role}
        nested = {"id": self.organisation, "slg": "sandbox", "rol": role.removeprefix(ROLE_PREFIX)}
        return {"v": version, "o": nested, "fva": [1, -1], "sts": "active"}

    # --- as the party ----------------------------------------------------------------------------------------

    async def get_jwks(self, request: Request) -> Response:
        return JSONResponse(self.jwks, headers=HEADERS)

    # --- how it is driven ------------------------------------------------------------------------------------

    async def mint(self, request: Request) -> Response:
        """`{"employee_id": …, "is_admin": …, "flaw": …}`: any token, also one that must be refused."""
        asked: dict[str, Any] = await request.json()
        employee_id = str(asked.pop("employee_id", ""))
        if not EMPLOYEE.fullmatch(employee_id):
            return JSONResponse({"error": "name an employee_id", "sandbox": True}, 400, headers=HEADERS)
        return JSONResponse({"token": self.minted(employee_id, **asked), "sandbox": True}, headers=HEADERS)


def issuer_app(sandbox: IssuerSandbox) -> Starlette:
    return Starlette(
        routes=[
            Route("/.well-known/jwks.json", sandbox.party(sandbox.get_jwks)),
            Route("/sandbox/tokens", sandbox.mint, methods=["POST"]),
            Route("/sandbox/rotate", sandbox.rotate_key, methods=["POST"]),
            Route("/sandbox/faults", sandbox.set_faults, methods=["POST"]),
        ],
        exception_handlers=WHO_DIED,
    )


def variables(url: str) -> dict[str, str]:
    """What Trip Cortex has to know of an issuer at this address."""
    return {
        "TRIPCORTEX_JWKS_URL": f"{url}/.well-known/jwks.json",
        "TRIPCORTEX_TOKEN_ISSUER": ISSUER,
        "TRIPCORTEX_TOKEN_AUDIENCE": AUDIENCE,
        "TRIPCORTEX_AUTHORIZED_PARTIES": PARTY,
        "TRIPCORTEX_ORGANISATION": ORGANISATION,
    }


def _flawed(claims: dict[str, Any], flaw: Flaw | None, now: float) -> dict[str, Any]:
    another: dict[str, Any] = {"org_id": "org_another"}
    if "o" in claims:
        another = {"o": {"id": "org_another", "slg": "another", "rol": "admin"}}
    changes: dict[Flaw, dict[str, Any]] = {
        "expired": {"iat": int(now) - 7200, "exp": int(now) - 3600},
        "early": {"nbf": int(now) + 3600},
        "other_issuer": {"iss": "https://another-issuer.invalid"},
        "other_audience": {"aud": "another-service"},
        "other_party": {"azp": "https://another-page.invalid"},
        "other_organisation": another,
        "no_employee": {"employee_id": "", "sub": "not one: it has spaces"},
    }
    return {**claims, **(changes.get(flaw, {}) if flaw else {})}
