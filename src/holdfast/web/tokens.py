"""Bearer tokens in front of an API: one shared token from the settings, or tokens of an issuer.

`require_token` compares with the shared token in constant time; `make_app` puts it in front of all routes if
it is given a token, and a single route may use it too.

`require_bearer` accepts JSON Web Tokens (`security/tokens.py`) and returns the `Caller`, as a dependency that
also requires scopes:

    guard = require_bearer(open_token_verifier(keys, issuer=…, audience=…, clock=clock))

    async def submit(caller: Annotated[Caller, Security(guard, scopes=["system/Claim.write"])]) -> View: …

FastAPI cannot resolve an annotation with a local name if its module has `from __future__ import annotations`:
leave that line out of a module of routes.

`BearerToken` returns the token itself, for a system that reads other claims. All of them raise Holdfast's
errors, which `problems.py` answers with their status and the header `WWW-Authenticate`.
"""

from __future__ import annotations

import hmac
import math
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, TypeAlias

from holdfast.core.distribution import explain_missing
from holdfast.core.errors import CallerForbidden, SettingsError, TokenRefused

with explain_missing(__name__, "api"):
    from fastapi import Depends, HTTPException
    from fastapi.openapi.models import HTTPBearer as HTTPBearerModel
    from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer, SecurityScopes
    from fastapi.security.base import SecurityBase
    from starlette.requests import HTTPConnection, Request

if TYPE_CHECKING:
    # Only an API that accepts an issuer's tokens needs the verifier's dependencies.
    from holdfast.core.clock import Clock
    from holdfast.security.tokens import TokenVerifier, VerifiedToken

__all__ = [
    "BearerGuard",
    "BearerToken",
    "Caller",
    "LazyVerifier",
    "OnCaller",
    "Verifier",
    "get_bearer_token",
    "get_caller",
    "open_token_verifier",
    "require_bearer",
    "require_token",
]

_BEARER: Final = HTTPBearer(auto_error=False, description="The API token from the settings.")
_Credentials: TypeAlias = Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]

# The characters of a bearer token (RFC 6750, section 2.1).
_TOKEN_FORM: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_UNAUTHORIZED: Final = 401
_DESCRIPTION: Final = "A token from the issuer."

TENANT_CLAIM: Final = "tenant"
# A tenant becomes part of keys, rows and paths, so it contains no character that is special there.
TENANT_FORM: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,49}")


def require_token(token: str) -> Callable[[HTTPAuthorizationCredentials | None], None]:
    """Return a dependency that refuses every request without this token: `Depends(require_token(token))`.

    Raise `SettingsError` for a token with characters that a header cannot carry.
    """
    if not _TOKEN_FORM.fullmatch(token):
        raise SettingsError(
            "Invalid token: expected letters, digits and - . _ ~ + /. Make one with "
            "`python -c 'import secrets; print(secrets.token_urlsafe())'`, or configure none."
        )
    expected = token.encode()

    def token_required(given: _Credentials) -> None:
        if given is None:
            raise _build_unauthorized(
                "Bearer", "This request needs a token: send the header `Authorization: Bearer TOKEN`."
            )
        if not hmac.compare_digest(given.credentials.encode(), expected):
            raise _build_unauthorized('Bearer error="invalid_token"', "Invalid token: check it and retry.")

    return token_required


def _build_unauthorized(challenge: str, detail: str) -> HTTPException:
    return HTTPException(_UNAUTHORIZED, detail, headers={"WWW-Authenticate": challenge})


# --- tokens of an issuer ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller: its tenant and scopes. A scope is a text such as `system/Claim.write`."""

    tenant: str
    subject: str
    scopes: frozenset[str]
    client_id: str
    # The expiry time of its token, in epoch seconds.
    expires_at: float = field(default=math.inf, compare=False)

    def require_scopes(self, *scopes: str) -> None:
        """Raise `CallerForbidden` unless the caller has all of these scopes."""
        if missing := [each for each in scopes if each not in self.scopes]:
            raise CallerForbidden(missing)


OnCaller: TypeAlias = Callable[[Request, Caller], Awaitable[None]]
"""Called with each request and its verified caller, before the route."""


class Verifier(Protocol):
    """Verifies bearer tokens. Raise `TokenRefused` for a token that is not valid."""

    async def verify(self, token: str) -> VerifiedToken: ...


def open_token_verifier(
    keys: str | Path, *, issuer: str, audience: str | None, clock: Clock, **options: Any
) -> TokenVerifier:
    """Return a verifier of one issuer's tokens; `keys` is the URL or file of its JSON Web Key Set.

    `options` are those of `TokenVerifier`: `algorithms`, `leeway_s`, `required`.
    """
    from holdfast.security.tokens import TokenKeys, TokenVerifier

    return TokenVerifier(TokenKeys(keys, clock), issuer=issuer, audience=audience, clock=clock, **options)


class LazyVerifier:
    """A verifier that is opened with the first token, as its settings name it: `keys` is a URL or a path.

    A process starts without these settings; a call then raises `SettingsError` with the text `missing`.
    """

    def __init__(self, keys: str, *, issuer: str, audience: str | None, clock: Clock, missing: str) -> None:
        self._keys, self._issuer, self._audience = keys, issuer, audience
        self._clock, self._missing = clock, missing
        self._verifier: TokenVerifier | None = None

    async def verify(self, token: str) -> VerifiedToken:
        """Verify a token. Raise as the verifier does, and `SettingsError` if there is no issuer."""
        self._verifier = self._verifier or self._open()
        return await self._verifier.verify(token)

    def _open(self) -> TokenVerifier:
        if not (self._keys and self._issuer):
            raise SettingsError(self._missing)
        keys = self._keys if "://" in self._keys else Path(self._keys)
        return open_token_verifier(keys, issuer=self._issuer, audience=self._audience, clock=self._clock)


def require_bearer(
    verifier: Verifier,
    *,
    tenant_claim: str = TENANT_CLAIM,
    tenant_form: re.Pattern[str] = TENANT_FORM,
    on_caller: OnCaller | None = None,
    description: str = _DESCRIPTION,
) -> BearerGuard:
    """Return a guard that returns the `Caller` of a request, or raises.

    `tenant_claim` is the claim with the tenant, which must match `tenant_form`. `on_caller` is awaited with
    the request and the caller before the scopes are checked: it counts the call against a rate limit, and
    may refuse it. `description` is that of the token in OpenAPI.
    """
    return BearerGuard(verifier, tenant_claim, tenant_form, on_caller, description)


class BearerToken(SecurityBase):
    """A dependency that returns the bearer token of a request. Raise `TokenRefused` without one."""

    def __init__(self, description: str = _DESCRIPTION) -> None:
        self.model = HTTPBearerModel(bearerFormat="JWT", description=description)
        self.scheme_name = "Bearer"

    async def __call__(self, request: Request) -> str:
        """Return the token, unverified."""
        return get_bearer_token(request)


class BearerGuard(SecurityBase):
    """A dependency that returns the caller of a token: `Security(guard, scopes=[…])`, or `Depends(guard)`."""

    def __init__(
        self,
        verifier: Verifier,
        tenant_claim: str,
        tenant_form: re.Pattern[str],
        on_caller: OnCaller | None,
        description: str,
    ) -> None:
        self.model = HTTPBearerModel(bearerFormat="JWT", description=description)
        self.scheme_name = "Bearer"
        self._verifier, self._on_caller = verifier, on_caller
        self._tenant_claim, self._tenant_form = tenant_claim, tenant_form

    async def __call__(self, request: Request, needed: SecurityScopes) -> Caller:
        """Return the caller. Raise `TokenRefused` or `TokenKeysUnreachable`, or `CallerForbidden` without a
        scope.
        """
        return await self.admit(request, await self.authenticate(request), needed.scopes)

    async def authenticate(self, request: Request) -> Caller:
        """Return the caller of the token. Raise `TokenRefused` or `TokenKeysUnreachable`."""
        verified = await self._verifier.verify(get_bearer_token(request))
        tenant = verified.claims.get(self._tenant_claim)
        if not isinstance(tenant, str) or not self._tenant_form.fullmatch(tenant):
            raise TokenRefused(
                "ClaimMissing", f"The token does not name its tenant (claim {self._tenant_claim})."
            )
        return Caller(tenant, verified.subject, verified.scopes, verified.client_id, verified.expires_at)

    async def admit(self, request: Request, caller: Caller, scopes: Sequence[str]) -> Caller:
        """Return the caller if `on_caller` admits it and it has the scopes; `get_caller` returns it too."""
        request.state.caller = caller
        if self._on_caller is not None:
            await self._on_caller(request, caller)
        caller.require_scopes(*scopes)
        return caller


def get_caller(request: Request) -> Caller | None:
    """Return the caller that a guard has authenticated, or None if none has."""
    return getattr(request.state, "caller", None)


def get_bearer_token(call: HTTPConnection) -> str:
    """Return the token of the `Authorization` header of a request or WebSocket. Raise `TokenRefused` without
    one.

    A token in the URL is not accepted: URLs end up in logs.
    """
    given = call.headers.getlist("authorization")
    scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    if scheme.lower() != "bearer" or not token.strip():
        raise TokenRefused(
            "TokenMissing",
            "This request needs a token: send the header `Authorization: Bearer TOKEN`.",
            challenge="Bearer",
        )
    if not _TOKEN_FORM.fullmatch(token.strip()):
        raise TokenRefused(
            "TokenMalformed", "Invalid bearer token: expected letters, digits and - . _ ~ + /."
        )
    return token.strip()
