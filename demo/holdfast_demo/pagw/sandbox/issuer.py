"""Sandbox of the token issuer. It gives a token to every client: never trust it outside a demo.

It creates a key, keeps it in its folder and publishes the public half at `/.well-known/jwks.json`; `/token`
issues tokens by client credentials. The client of a tenant is `{tenant}-client` with the secret
`get_secret(client_id)`. Several processes may share a folder: each reads its keys. Every token has the claim
`sandbox: true`.

The endpoints under `/sandbox/…` rotate the key, make the key set fail and issue tokens that must be refused.
A test in the same process calls `mint_token` instead.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import parse_qs

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

ISSUER: Final = "https://issuer.sandbox.invalid"
AUDIENCE: Final = "https://pagw.sandbox.invalid"
# Ten years, also for a token that has expired.
MAX_LIFETIME_S: Final = 10 * 366 * 86_400
LIFETIME_S: Final = 900.0
SCOPES: Final = (
    "system/Claim.read",
    "system/Claim.write",
    "system/Subscription.read",
    "system/Subscription.write",
)
CLIENT: Final = re.compile(r"(?P<tenant>[a-z0-9][a-z0-9-]{0,49})-client")
KEYS_FILE: Final = "sandbox_issuer_keys.json"
HEADERS: Final = {"x-sandbox": "holdfast-pagw-issuer", "cache-control": "no-store"}
UNAUTHORIZED: Final = 401

Flaw = Literal["expired", "early", "forged", "unknown_key", "other_issuer", "other_audience", "no_tenant"]


def get_secret(client_id: str) -> str:
    """Return the client's secret. It is public: it only opens a sandbox."""
    return f"sandbox-secret-of-{client_id}"


class TokenBody(ControlBody):
    """A token to issue. Further members override its claims."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, FiniteJson]

    tenant: str = Field(min_length=1)
    scope: str = " ".join(SCOPES)
    lifetime_s: float = Field(default=LIFETIME_S, ge=-MAX_LIFETIME_S, le=MAX_LIFETIME_S)
    flaw: Flaw | None = None
    iss: str = ISSUER


@dataclass
class IssuerSandbox(SandboxIssuer):
    """The issuer. Its keys are in its folder, or in memory without one."""

    clock: Clock = SYSTEM_CLOCK
    folder: Path | None = None
    issuer: str = ISSUER
    audience: str = AUDIENCE
    lifetime_s: float = LIFETIME_S
    faults: Faults = field(default_factory=Faults)

    def __post_init__(self) -> None:
        self._keys = SandboxKeys(self.folder, KEYS_FILE)

    def mint_token(
        self,
        tenant: str,
        /,
        *,
        scope: str = " ".join(SCOPES),
        lifetime_s: float | None = None,
        flaw: Flaw | None = None,
        **claims: Any,
    ) -> str:
        """Return a token for the client of a tenant; with a flaw, one that must be refused."""
        now = self.clock.now()
        payload = {
            "iss": self.issuer,
            "aud": self.audience,
            "sub": f"{tenant}-client",
            "client_id": f"{tenant}-client",
            "tenant": tenant,
            "scope": scope,
            "iat": int(now),
            "exp": int(now + (self.lifetime_s if lifetime_s is None else lifetime_s)),
            "jti": str(make_uuid()),
            "sandbox": True,
            **claims,
        }
        return self._keys.sign(_apply_flaw(payload, flaw, now), flaw)

    # --- the issuer -----------------------------------------------------------------------------------------

    async def get_jwks(self, request: Request) -> Response:
        """Return the public keys."""
        return JSONResponse(self.jwks, headers=HEADERS)

    async def issue_token(self, request: Request) -> Response:
        """Issue a token by client credentials (RFC 6749, section 4.4), from the header `Authorization: Basic
        …` or the form.
        """
        form = {
            name: values[-1]
            for name, values in parse_qs((await request.body()).decode(errors="replace")).items()
        }
        if form.get("grant_type") != "client_credentials":
            return _build_refusal(400, "unsupported_grant_type")
        client_id, secret = _parse_credentials(request, form)
        known = CLIENT.fullmatch(client_id)
        if known is None or not hmac.compare_digest(secret.encode(), get_secret(client_id).encode()):
            return _build_refusal(UNAUTHORIZED, "invalid_client")
        scopes = form.get("scope", " ".join(SCOPES)).split()
        if not set(scopes) <= set(SCOPES):
            return _build_refusal(400, "invalid_scope")
        token = self.mint_token(known["tenant"], scope=" ".join(scopes))
        body = {"access_token": token, "token_type": "bearer", "expires_in": int(self.lifetime_s)}
        return JSONResponse({**body, "scope": " ".join(scopes), "sandbox": True}, headers=HEADERS)

    # --- controls -------------------------------------------------------------------------------------------

    async def mint(self, request: Request) -> Response:
        """Issue any token, also one that must be refused: `{"tenant": …, "scope": …, "flaw": …}`"""
        wanted = (await JsonBody(TokenBody)(request)).model_dump(exclude_unset=True)
        token = self.mint_token(wanted.pop("tenant"), **wanted)
        return JSONResponse({"access_token": token, "sandbox": True}, headers=HEADERS)


def build_issuer_app(sandbox: IssuerSandbox) -> Starlette:
    """Build the app."""
    return Starlette(
        routes=[
            Route("/.well-known/jwks.json", sandbox.with_faults(sandbox.get_jwks)),
            Route("/token", sandbox.with_faults(sandbox.issue_token), methods=["POST"]),
            Route("/sandbox/tokens", sandbox.mint, methods=["POST"]),
            Route("/sandbox/rotate", sandbox.rotate_key, methods=["POST"]),
            Route("/sandbox/faults", sandbox.set_faults, methods=["POST"]),
        ],
        exception_handlers=ERROR_HANDLERS,
    )


def _apply_flaw(claims: dict[str, Any], flaw: Flaw | None, now: float) -> dict[str, Any]:
    """Return the claims with a flaw. Flaws of the signature (`forged`, `unknown_key`) change no claim."""
    changes: dict[Flaw, dict[str, Any]] = {
        "expired": {"iat": int(now) - 7200, "exp": int(now) - 3600},
        "early": {"nbf": int(now) + 3600},
        "other_issuer": {"iss": "https://another-issuer.invalid"},
        "other_audience": {"aud": "https://another-service.invalid"},
        "no_tenant": {"tenant": ""},
    }
    return {**claims, **(changes.get(flaw, {}) if flaw else {})}


def _parse_credentials(request: Request, form: dict[str, str]) -> tuple[str, str]:
    """Return client id and secret from the Basic header or the form; empty texts if they are malformed."""
    scheme, _, proof = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return form.get("client_id", ""), form.get("client_secret", "")
    try:
        client_id, _, secret = base64.b64decode(proof, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return client_id, secret


def _build_refusal(status: int, error: str) -> Response:
    challenge = {"www-authenticate": "Basic"} if status == UNAUTHORIZED else {}
    return JSONResponse(
        {"error": error, "sandbox": True}, status_code=status, headers={**HEADERS, **challenge}
    )
