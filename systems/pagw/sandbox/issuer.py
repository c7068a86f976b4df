"""A stand-in for the issuer of tokens (SANDBOX: it gives a token to whoever asks politely; never trust it outside a demo).

It makes a key, keeps it in its folder, and publishes the public half at `/.well-known/jwks.json`; `/token` gives tokens by
client credentials. The client of a tenant is `{tenant}-client`, and its secret `secret_of(client_id)`. Several processes
may stand on one folder: each reads the keys that are there. What it signs also says so: the claim `sandbox` is true.

The doors under `/sandbox/…` rotate the key, make the key set fail, and give tokens that must be refused. A test in the
same process calls `minted` instead.
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
from uuid import uuid4

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.web.sandbox_keys import SandboxIssuer, SandboxKeys
from holdfast.web.sandboxes import WHO_DIED, Faults

ISSUER: Final = "https://issuer.sandbox.invalid"
AUDIENCE: Final = "https://pagw.sandbox.invalid"
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


def secret_of(client_id: str) -> str:
    """Known to everybody who can read this: what it opens is a sandbox."""
    return f"sandbox-secret-of-{client_id}"


@dataclass
class IssuerSandbox(SandboxIssuer):
    """The issuer. Its keys are those of its folder, or its own."""

    clock: Clock = SYSTEM_CLOCK
    folder: Path | None = None
    issuer: str = ISSUER
    audience: str = AUDIENCE
    lifetime_s: float = LIFETIME_S
    faults: Faults = field(default_factory=Faults)

    def __post_init__(self) -> None:
        self._keys = SandboxKeys(self.folder, KEYS_FILE)

    def minted(
        self,
        tenant: str,
        *,
        scope: str = " ".join(SCOPES),
        lifetime_s: float | None = None,
        flaw: Flaw | None = None,
        **claims: Any,
    ) -> str:
        """A token for the client of a tenant; with a flaw, one that must be refused."""
        now = self.clock.now()
        told = {
            "iss": self.issuer,
            "aud": self.audience,
            "sub": f"{tenant}-client",
            "client_id": f"{tenant}-client",
            "tenant": tenant,
            "scope": scope,
            "iat": int(now),
            "exp": int(now + (self.lifetime_s if lifetime_s is None else lifetime_s)),
            "jti": str(uuid4()),
            "sandbox": True,
            **claims,
        }
        return self._keys.signed(_flawed(told, flaw, now), flaw)

    # --- as the party ----------------------------------------------------------------------------------------

    async def get_jwks(self, request: Request) -> Response:
        return JSONResponse(self.jwks, headers=HEADERS)

    async def give_token(self, request: Request) -> Response:
        """Client credentials (RFC 6749, section 4.4): by the header `Authorization: Basic …`, or in the form."""
        form = {name: values[-1] for name, values in parse_qs((await request.body()).decode()).items()}
        if form.get("grant_type") != "client_credentials":
            return _refused(400, "unsupported_grant_type")
        client_id, secret = _credentials(request, form)
        known = CLIENT.fullmatch(client_id)
        if known is None or not hmac.compare_digest(secret.encode(), secret_of(client_id).encode()):
            return _refused(UNAUTHORIZED, "invalid_client")
        scopes = form.get("scope", " ".join(SCOPES)).split()
        if not set(scopes) <= set(SCOPES):
            return _refused(400, "invalid_scope")
        token = self.minted(known["tenant"], scope=" ".join(scopes))
        told = {"access_token": token, "token_type": "bearer", "expires_in": int(self.lifetime_s)}
        return JSONResponse({**told, "scope": " ".join(scopes), "sandbox": True}, headers=HEADERS)

    # --- how it is driven ------------------------------------------------------------------------------------

    async def mint(self, request: Request) -> Response:
        """`{"tenant": …, "scope": …, "flaw": …}`: any token, also one that must be refused."""
        asked: dict[str, Any] = await request.json()
        return JSONResponse({"access_token": self.minted(**asked), "sandbox": True}, headers=HEADERS)


def issuer_app(sandbox: IssuerSandbox) -> Starlette:
    return Starlette(
        routes=[
            Route("/.well-known/jwks.json", sandbox.party(sandbox.get_jwks)),
            Route("/token", sandbox.party(sandbox.give_token), methods=["POST"]),
            Route("/sandbox/tokens", sandbox.mint, methods=["POST"]),
            Route("/sandbox/rotate", sandbox.rotate_key, methods=["POST"]),
            Route("/sandbox/faults", sandbox.set_faults, methods=["POST"]),
        ],
        exception_handlers=WHO_DIED,
    )


def _flawed(claims: dict[str, Any], flaw: Flaw | None, now: float) -> dict[str, Any]:
    changes: dict[Flaw, dict[str, Any]] = {
        "expired": {"iat": int(now) - 7200, "exp": int(now) - 3600},
        "early": {"nbf": int(now) + 3600},
        "other_issuer": {"iss": "https://another-issuer.invalid"},
        "other_audience": {"aud": "https://another-service.invalid"},
        "no_tenant": {"tenant": ""},
    }
    return {**claims, **(changes.get(flaw, {}) if flaw else {})}


def _credentials(request: Request, form: dict[str, str]) -> tuple[str, str]:
    scheme, _, proof = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return form.get("client_id", ""), form.get("client_secret", "")
    try:
        client_id, _, secret = base64.b64decode(proof, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return client_id, secret


def _refused(status: int, error: str) -> Response:
    challenge = {"www-authenticate": "Basic"} if status == UNAUTHORIZED else {}
    return JSONResponse(
        {"error": error, "sandbox": True}, status_code=status, headers={**HEADERS, **challenge}
    )
