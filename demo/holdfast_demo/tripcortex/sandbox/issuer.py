"""Sandbox of Clerk as the token issuer: it signs a session token for any caller, also an invalid token.

Never trust it outside a demo. It creates a key, stores it in its folder, and publishes the public half at
`/.well-known/jwks.json`, as Clerk does. Its tokens are session tokens of Clerk's shape: `sub` the user, `sid`
the session, `azp` the web origin, `org_id` and `org_role`, or in version 2 `o` with both; a template of Clerk
adds `aud` (here in version 1 only), `email`, `employee_id` and `public_metadata`. They expire soon, as
Clerk's do, and carry the claim `sandbox`.

The endpoints under `/sandbox/…` issue any token, also an invalid one, rotate the key and make the key set
fail. A test in the same process calls `mint_token` instead.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import ConfigDict, Field
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.rng import make_uuid
from holdfast.web.bodies import JsonBody
from holdfast.web.sandbox_faults import ERROR_HANDLERS, ControlBody, Faults, FiniteJson
from holdfast.web.sandbox_keys import SandboxIssuer, SandboxKeys

ISSUER: Final = "https://clerk.sandbox.invalid"
AUDIENCE: Final = "tripcortex"
# The web origin in `azp`.
AUTHORIZED_PARTY: Final = "https://trips.sandbox.invalid"
ORGANISATION: Final = "org_sandbox"
ADMIN_ROLE: Final = "org:admin"
MEMBER_ROLE: Final = "org:member"
ROLE_PREFIX: Final = "org:"
LIFETIME_S: Final = 900.0
KEYS_FILE: Final = "sandbox_clerk_keys.json"
HEADERS: Final = {"x-sandbox": "holdfast-tripcortex-issuer", "cache-control": "no-store"}
EMPLOYEE_FORM: Final = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
# Ten years, also for a token that has expired.
MAX_LIFETIME_S: Final = 10 * 366 * 86_400

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


class TokenBody(ControlBody):
    """A token to issue. Further members override its claims."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, FiniteJson]

    employee_id: str = Field(pattern=EMPLOYEE_FORM)
    is_admin: bool = False
    time_zone: str = ""
    home_airport: str | None = None
    lifetime_s: float = Field(default=LIFETIME_S, ge=-MAX_LIFETIME_S, le=MAX_LIFETIME_S)
    version: Literal[1, 2] = 1
    flaw: Flaw | None = None
    iss: str = ISSUER


@dataclass
class IssuerSandbox(SandboxIssuer):
    """The issuer. It loads its keys from its folder, or creates new ones.

    Without a folder they are in memory.
    """

    clock: Clock = SYSTEM_CLOCK
    folder: Path | None = None
    issuer: str = ISSUER
    audience: str = AUDIENCE
    organisation: str = ORGANISATION
    lifetime_s: float = LIFETIME_S
    faults: Faults = field(default_factory=Faults)

    def __post_init__(self) -> None:
        self._keys = SandboxKeys(self.folder, KEYS_FILE, lambda: f"ins_sandbox{make_uuid().hex}")

    def mint_token(
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
        """Return a signed token of an employee, valid for 15 minutes unless `lifetime_s` is given.

        `flaw` makes it invalid in that way; `version` is that of Clerk's claims; `claims` override any claim.
        """
        now = self.clock.now()
        user = f"user_{hashlib.sha256(employee_id.encode()).hexdigest()[:27]}"
        payload = {
            "iss": self.issuer,
            "azp": AUTHORIZED_PARTY,
            "sub": user,
            "sid": f"sess_{make_uuid().hex[:27]}",
            "email": f"{employee_id}@employees.invalid",
            "employee_id": employee_id,
            **self._build_membership(ADMIN_ROLE if is_admin else MEMBER_ROLE, version),
            "public_metadata": {"time_zone": time_zone, "home_airport": home_airport},
            "iat": int(now),
            "nbf": int(now) - 10,
            "exp": int(now + (self.lifetime_s if lifetime_s is None else lifetime_s)),
            "jti": str(make_uuid()),
            "sandbox": True,
            **claims,
        }
        return self._keys.sign(_apply_flaw(payload, flaw, now), flaw)

    def _build_membership(self, role: str, version: int) -> dict[str, Any]:
        """Return the claims of organisation and role in this version; version 1 has the audience."""
        if version == 1:
            return {"aud": self.audience, "org_id": self.organisation, "org_role": role}
        nested = {"id": self.organisation, "slg": "sandbox", "rol": role.removeprefix(ROLE_PREFIX)}
        return {"v": version, "o": nested, "fva": [1, -1], "sts": "active"}

    # --- Clerk's endpoint -----------------------------------------------------------------------------------

    async def get_jwks(self, request: Request) -> Response:
        return JSONResponse(self.jwks, headers=HEADERS)

    # --- control endpoints ----------------------------------------------------------------------------------

    async def post_token(self, request: Request) -> Response:
        """Issue any token, also an invalid one: `{"employee_id": …, "is_admin": …, "flaw": …}`."""
        wanted = (await JsonBody(TokenBody)(request)).model_dump(exclude_unset=True)
        token = self.mint_token(wanted.pop("employee_id"), **wanted)
        return JSONResponse({"token": token, "sandbox": True}, headers=HEADERS)


def build_issuer_app(sandbox: IssuerSandbox) -> Starlette:
    """Return the ASGI app: the key set, which can fail, and the control endpoints."""
    return Starlette(
        routes=[
            Route("/.well-known/jwks.json", sandbox.with_faults(sandbox.get_jwks)),
            Route("/sandbox/tokens", sandbox.post_token, methods=["POST"]),
            Route("/sandbox/rotate", sandbox.rotate_key, methods=["POST"]),
            Route("/sandbox/faults", sandbox.set_faults, methods=["POST"]),
        ],
        exception_handlers=ERROR_HANDLERS,
    )


def build_issuer_variables(url: str) -> dict[str, str]:
    """Return Trip Cortex's variables for an issuer at this URL."""
    return {
        "TRIPCORTEX_JWKS_URL": f"{url}/.well-known/jwks.json",
        "TRIPCORTEX_TOKEN_ISSUER": ISSUER,
        "TRIPCORTEX_TOKEN_AUDIENCE": AUDIENCE,
        "TRIPCORTEX_AUTHORIZED_PARTIES": AUTHORIZED_PARTY,
        "TRIPCORTEX_ORGANISATION": ORGANISATION,
    }


def _apply_flaw(claims: dict[str, Any], flaw: Flaw | None, now: float) -> dict[str, Any]:
    """Return the claims changed so that the token has this flaw; flaws of the signature change none."""
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
