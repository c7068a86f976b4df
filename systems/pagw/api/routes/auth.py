"""Authentication and authorization, in front of every route that serves a client.

    correlation id → caller (a token; on reads also a session) → the tenant's rate limit → scope →
    accepted media types → route; `errors` turns any exception into a response

Refusals are audited (`refusal_audit`) with their codes and nothing of the request. Calls over the rate limit
are not, because the limit protects the database from floods.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from holdfast import Stores
from holdfast.core.correlation import bind_correlation_id
from holdfast.core.errors import SettingsError
from holdfast.web.tokens import BearerGuard, Caller, open_token_verifier, require_bearer
from pagw.api.routes.errors import Refusal, build_refusal
from pagw.api.routes.parameters import check_accept
from pagw.api.routes.refusal_audit import RefusalAudit, build_actor
from pagw.model import sessions
from pagw.model.rate_limits import count_call
from pagw.settings import PagwSettings

CLAIM_READ: Final = "system/Claim.read"
CLAIM_WRITE: Final = "system/Claim.write"
SUBSCRIPTION_READ: Final = "system/Subscription.read"
SUBSCRIPTION_WRITE: Final = "system/Subscription.write"

SESSION_COOKIE: Final = "pagw_session"
CORRELATION_HEADER: Final = "x-correlation-id"
# A UUID, a trace id or a ULID: none of these can contain patient data.
CORRELATION: Final = re.compile(
    r"[0-9A-Fa-f]{8}(?:-?[0-9A-Fa-f]{4}){3}-?[0-9A-Fa-f]{12}|[0-9A-HJKMNP-TV-Z]{26}|[0-9a-f]{16}"
)
UNAUTHENTICATED: Final = 401

Endpoint = Callable[[Request, Caller], Awaitable[Response]]
PlainEndpoint = Callable[[Request], Awaitable[Response]]


class Gate:
    """Authenticates callers; one per process and component. It contacts the token issuer on first use,
    because that may start later.
    """

    def __init__(self, stores: Stores, settings: PagwSettings) -> None:
        self.stores, self.settings = stores, settings
        self._bearer: BearerGuard | None = None
        self._refused = RefusalAudit(stores)

    def authorize(
        self, scope: str | None = None, *, audits: str | None = None
    ) -> Callable[[Endpoint], PlainEndpoint]:
        """Return a decorator that makes an endpoint of a function of request and caller.

        The endpoint authenticates the caller, counts the call against the tenant's rate limit, and requires
        `scope` and a client that accepts JSON. Every refusal is audited if `audits` names the subject of the
        route; unauthenticated and forbidden calls are audited in any case.
        """

        def guarded(endpoint: Endpoint) -> PlainEndpoint:
            async def answer(request: Request) -> Response:
                callers: list[Caller] = []

                async def route() -> Response:
                    caller = await self._get_caller(request)
                    callers.append(caller)
                    await count_call(self.stores, self.settings, caller.tenant)
                    caller.require_scopes(*(() if scope is None else (scope,)))
                    check_accept(request)
                    return await endpoint(request, caller)

                async def refused(refusal: Refusal) -> None:
                    if callers:
                        await self._refused.record(request, refusal, callers[0], audits)
                    elif refusal.status == UNAUTHENTICATED:
                        await self._refused.record_unauthenticated(request, refusal, audits or "call")

                return await run_route(request, route, refused)

            return _copy_name(answer, endpoint)

        return guarded

    async def _get_caller(self, request: Request) -> Caller:
        """Return the caller of the session (GET only) or of the bearer token. Raise `CallerRefused`."""
        session = get_session(request) if request.method == "GET" else None
        if session is not None:
            tenant, logged_in = await sessions.find(self.stores, session)
            scopes = frozenset(logged_in.scopes)
            return Caller(tenant, logged_in.subject, scopes, logged_in.client_id, logged_in.ends_at)
        self._bearer = self._bearer or self._build_bearer()
        return await self._bearer(request)

    def _build_bearer(self) -> BearerGuard:
        """Build the verifier of bearer tokens. Raise `SettingsError` if no token issuer is configured."""
        settings = self.settings
        if not (settings.jwks_url and settings.token_issuer):
            raise SettingsError(
                "Clients cannot authenticate: set PAGW_JWKS_URL and PAGW_TOKEN_ISSUER to those of the issuer "
                "of clients' tokens."
            )
        keys = settings.jwks_url if "://" in settings.jwks_url else Path(settings.jwks_url)
        return require_bearer(
            open_token_verifier(
                keys,
                issuer=settings.token_issuer,
                audience=settings.token_audience,
                clock=self.stores.clock,
            )
        )


async def run_route(
    request: Request,
    route: Callable[[], Awaitable[Response]],
    on_refusal: Callable[[Refusal], Awaitable[None]] | None = None,
) -> Response:
    """Return the response of the route, or its refusal, under a correlation id that the response names."""
    given = request.headers.get(CORRELATION_HEADER, "")
    with bind_correlation_id(given if CORRELATION.fullmatch(given) else None) as id:
        try:
            answer = await route()
        except Exception as error:
            refusal = await build_refusal(request, error)
            if on_refusal is not None:
                await on_refusal(refusal)
            answer = refusal.to_response()
    answer.headers[CORRELATION_HEADER] = id
    # Caches must not store patient data.
    answer.headers.setdefault("cache-control", "no-store")
    return answer


def allow_anonymous(endpoint: PlainEndpoint) -> PlainEndpoint:
    """Return the endpoint without authentication. Its errors become refusals as on all routes."""

    async def answered(request: Request) -> Response:
        return await run_route(request, lambda: endpoint(request))

    return _copy_name(answered, endpoint)


def get_session(request: Request) -> str | None:
    """Return the session that a request names, or None. If there is an `Authorization` header, cookies are
    ignored.
    """
    given = request.headers.get("authorization")
    if given is None:
        return request.cookies.get(SESSION_COOKIE)
    scheme, _, session = given.partition(" ")
    return session.strip() if scheme.lower() == "session" else None


def _copy_name(answered: PlainEndpoint, endpoint: Callable[..., Awaitable[Response]]) -> PlainEndpoint:
    """Copy the endpoint's name. `functools.wraps` would also copy its signature, which must stay request
    only.
    """
    answered.__name__, answered.__doc__ = endpoint.__name__, endpoint.__doc__
    answered.__qualname__ = endpoint.__qualname__
    return answered


__all__ = [
    "CLAIM_READ",
    "CLAIM_WRITE",
    "SESSION_COOKIE",
    "SUBSCRIPTION_READ",
    "SUBSCRIPTION_WRITE",
    "UNAUTHENTICATED",
    "Gate",
    "allow_anonymous",
    "build_actor",
    "get_session",
    "run_route",
]
