"""A bearer token in front of an API: one secret of the settings, or the tokens of an issuer.

`require_token` compares with the one secret, in constant time; `make_app` puts it in front of all routes when it is given
a token, and a route may also ask for it alone.

`bearer` takes JSON Web Tokens (`security/tokens.py`) and gives the `Caller`. It stands before a route as a dependency, or
is awaited with the request where a route takes the request alone (`direct.py`):

    verifier = token_verifier(keys_url, issuer=…, audience=…, clock=clock)
    guard = bearer(verifier, scope="system/Claim.write")

    proved = Depends(guard)
    async def submit(request: Request, caller: Caller = proved) -> Response: …

    async def submit(request: Request) -> Response:
        caller = await guard(request)

What it raises are errors of ours, so that a system can answer them in its own words: `http_status` is the status, and
`challenge`, where an error has one, belongs into the header `WWW-Authenticate`.
"""

from __future__ import annotations

import hmac
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, TypeAlias

from fastapi import Depends, HTTPException
from fastapi.openapi.models import HTTPBearer as HTTPBearerModel
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from fastapi.security.base import SecurityBase
from starlette.requests import HTTPConnection, Request

from holdfast.errors import CallerForbidden, HoldfastError, SettingsError, TokenRefused

if TYPE_CHECKING:
    # Only who takes tokens of an issuer needs what verifies them.
    from holdfast.clock import Clock
    from holdfast.security.tokens import TokenVerifier, VerifiedToken

_BEARER: Final = HTTPBearer(auto_error=False, description="The token of the settings.")
_Given: TypeAlias = Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]

# What a bearer token may be made of (RFC 6750, section 2.1).
_SENDABLE: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_UNAUTHORIZED: Final = 401

TENANT_CLAIM: Final = "tenant"
# A tenant becomes part of keys, rows and paths, and so has no character that means something there.
TENANT_FORM: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,49}")


def require_token(token: str) -> Callable[[HTTPAuthorizationCredentials | None], None]:
    """A dependency that refuses every request without this very token: `Depends(require_token(token))`."""
    if not _SENDABLE.fullmatch(token):
        raise SettingsError(
            "The token cannot be sent in a header: make one of letters, digits and - . _ ~ + /, for example with "
            "`python -c 'import secrets; print(secrets.token_urlsafe())'`, or configure none."
        )
    expected = token.encode()

    def token_required(given: _Given) -> None:
        if given is None:
            raise _refused("Bearer", "This needs a token: send the header `Authorization: Bearer TOKEN`.")
        if not hmac.compare_digest(given.credentials.encode(), expected):
            raise _refused('Bearer error="invalid_token"', "This is not the token: look it up and try again.")

    return token_required


def _refused(challenge: str, detail: str) -> HTTPException:
    return HTTPException(_UNAUTHORIZED, detail, headers={"WWW-Authenticate": challenge})


# --- tokens of an issuer ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, for which tenant, and what it may do. A scope is just a text, such as `system/Claim.write`."""

    tenant: str
    subject: str
    scopes: frozenset[str]
    client_id: str
    # When its token ends, in epoch seconds.
    expires_at: float = field(default=math.inf, compare=False)

    def need(self, *scopes: str) -> None:
        """`CallerForbidden` unless the caller has all of these."""
        if missing := [each for each in scopes if each not in self.scopes]:
            raise CallerForbidden(missing)


class Verifier(Protocol):
    async def verify(self, token: str) -> VerifiedToken: ...


def token_verifier(
    keys: str | Path, *, issuer: str, audience: str | None, clock: Clock, **options: Any
) -> TokenVerifier:
    """Verifies the tokens of one issuer; `keys` is the address or the file of its JSON Web Key Set.

    `options` are those of `TokenVerifier`: `algorithms`, `leeway_s`, `required`.
    """
    from holdfast.security.tokens import TokenKeys, TokenVerifier

    return TokenVerifier(TokenKeys(keys, clock), issuer=issuer, audience=audience, clock=clock, **options)


def bearer(
    verifier: Verifier,
    *,
    tenant_claim: str = TENANT_CLAIM,
    tenant_form: re.Pattern[str] = TENANT_FORM,
    scope: str | Sequence[str] = (),
) -> Bearer:
    """A guard that gives the `Caller` of a request, or raises; it asks for every scope that is named."""
    scopes = (scope,) if isinstance(scope, str) else tuple(scope)
    return Bearer(verifier, tenant_claim, tenant_form, scopes)


class Bearer(SecurityBase):
    """A dependency (`Depends(guard)`), described in OpenAPI, and a coroutine function (`await guard(request)`)."""

    def __init__(
        self, verifier: Verifier, tenant_claim: str, tenant_form: re.Pattern[str], scopes: Sequence[str]
    ) -> None:
        self.model = HTTPBearerModel(bearerFormat="JWT", description="A token of the issuer.")
        self.scheme_name = "Bearer"
        self._verifier, self._scopes = verifier, tuple(scopes)
        self._tenant_claim, self._tenant_form = tenant_claim, tenant_form

    async def __call__(self, request: Request) -> Caller:
        verified = await self._verifier.verify(bearer_token(request))
        tenant = verified.claims.get(self._tenant_claim)
        if not isinstance(tenant, str) or not self._tenant_form.fullmatch(tenant):
            raise TokenRefused(
                "ClaimMissing", f"The token does not say for which tenant it is (claim {self._tenant_claim})."
            )
        caller = Caller(tenant, verified.subject, verified.scopes, verified.client_id, verified.expires_at)
        caller.need(*self._scopes)
        return caller


def refusal_headers(error: HoldfastError) -> Mapping[str, str]:
    """What the answer to a refused call must say beside its body."""
    challenge = getattr(error, "challenge", None)
    return {} if challenge is None else {"WWW-Authenticate": challenge}


def bearer_token(call: HTTPConnection) -> str:
    """Of the one header `Authorization` of a request or a WebSocket; not of the address, which ends in logs."""
    given = call.headers.getlist("authorization")
    scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    if scheme.lower() != "bearer" or not token.strip():
        raise TokenRefused(
            "TokenMissing",
            "This needs a token: send the header `Authorization: Bearer TOKEN`.",
            challenge="Bearer",
        )
    if not _SENDABLE.fullmatch(token.strip()):
        raise TokenRefused("TokenMalformed", "The token cannot be read: it is no bearer token.")
    return token.strip()
