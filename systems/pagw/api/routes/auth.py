"""Authentication and authorization of clients, as dependencies of their routes.

    caller (a token; on reads also a session) → the tenant's rate limit → accepted media types → scope

`Gate.bearer` and `Gate.session` return the caller; `Security(…, scopes=[…])` names the scopes of a route.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

from starlette.requests import Request

from holdfast import Stores
from holdfast.web.sessions import build_session_guard, build_session_reader
from holdfast.web.tokens import BearerGuard, Caller, LazyVerifier, Verifier, require_bearer
from pagw.api.routes.parameters import check_accept
from pagw.api.routes.refusal_audit import RefusalAudit
from pagw.domain.fhir.smart import expand_scopes
from pagw.model import sessions
from pagw.model.rate_limits import count_call
from pagw.settings import PagwSettings

CLAIM_READ: Final = "system/Claim.read"
CLAIM_WRITE: Final = "system/Claim.write"
SUBSCRIPTION_READ: Final = "system/Subscription.read"
SUBSCRIPTION_WRITE: Final = "system/Subscription.write"

SCOPES: Final = (CLAIM_READ, CLAIM_WRITE, SUBSCRIPTION_READ, SUBSCRIPTION_WRITE)
SESSION_COOKIE: Final = "pagw_session"
NO_ISSUER: Final = (
    "Clients cannot authenticate: set PAGW_JWKS_URL and PAGW_TOKEN_ISSUER to those of the issuer of clients' "
    "tokens."
)
TOKEN: Final = (
    "A JWT from the client's token issuer, with the tenant and the scopes: "
    f"{', '.join(SCOPES)}. Wildcards (`system/*.read`) and letters (`system/Claim.rs`) are understood."
)


class SmartVerifier:
    """A verifier that adds to a token's scopes those that its wildcards and letters include."""

    def __init__(self, verifier: Verifier) -> None:
        self._verifier = verifier

    async def verify(self, token: str) -> Any:
        """Verify a token. Raise as the verifier does."""
        verified = await self._verifier.verify(token)
        return replace(verified, scopes=expand_scopes(verified.scopes, SCOPES))


class Gate:
    """The dependencies that authenticate callers, and the stores and settings that the routes share.

    One per process and component. It contacts the token issuer on first use, because that may start later.
    """

    def __init__(self, stores: Stores, settings: PagwSettings) -> None:
        self.stores, self.settings = stores, settings
        self.audit = RefusalAudit(stores)
        verifier = SmartVerifier(
            LazyVerifier(
                settings.jwks_url,
                issuer=settings.token_issuer,
                audience=settings.token_audience,
                clock=stores.clock,
                missing=NO_ISSUER,
            )
        )
        self.bearer: BearerGuard = require_bearer(verifier, on_caller=self._admit, description=TOKEN)
        self.read_session = build_session_reader(SESSION_COOKIE)
        # For reads: the caller of a session, or of a token.
        self.session: Callable[..., Awaitable[Caller]] = build_session_guard(
            self.bearer, self.read_session, self._find_caller
        )

    async def _admit(self, request: Request, caller: Caller) -> None:
        """Count the call against the tenant's rate limit. Refuse a client that accepts no JSON (406)."""
        await count_call(self.stores, self.settings, caller.tenant)
        check_accept(request)

    async def _find_caller(self, session: str) -> Caller:
        """Return the caller of a session. Raise `TokenRefused` if it is unknown or over."""
        tenant, logged_in = await sessions.find(self.stores, session)
        scopes = frozenset(logged_in.scopes)
        return Caller(tenant, logged_in.subject, scopes, logged_in.client_id, logged_in.ends_at)
