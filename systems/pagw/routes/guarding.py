"""Who calls, and whether it may: in front of every route that serves a client.

    the correlation id → who calls (a token; on reads also a session) → the tenant's rate limit → the scope →
    what it takes as an answer → the route; what any of them raises is told by `refusals`

What is refused is audited (`refused_calls`), with the codes of why and nothing of what it was. What is over the limit is not:
the limit keeps floods from the database.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from holdfast import Stores
from holdfast.correlation import correlated
from holdfast.errors import SettingsError
from holdfast.web.tokens import Bearer, Caller, bearer, token_verifier
from pagw import sessions
from pagw.limits import take_one
from pagw.routes.asking import check_accept
from pagw.routes.refusals import Refusal, refusal_of
from pagw.routes.refused_calls import RefusedCalls, actor_of
from pagw.settings import PagwSettings

CLAIM_READ: Final = "system/Claim.read"
CLAIM_WRITE: Final = "system/Claim.write"
SUBSCRIPTION_READ: Final = "system/Subscription.read"
SUBSCRIPTION_WRITE: Final = "system/Subscription.write"

SESSION_COOKIE: Final = "pagw_session"
CORRELATION_HEADER: Final = "x-correlation-id"
# A UUID, a trace id, a ULID: what a client might write there about a patient is none of these.
CORRELATION: Final = re.compile(
    r"[0-9A-Fa-f]{8}(?:-?[0-9A-Fa-f]{4}){3}-?[0-9A-Fa-f]{12}|[0-9A-HJKMNP-TV-Z]{26}|[0-9a-f]{16}"
)
UNPROVED: Final = 401

Endpoint = Callable[[Request, Caller], Awaitable[Response]]
PlainEndpoint = Callable[[Request], Awaitable[Response]]


class Gate:
    """One per process and component. It is made without a look at the issuer: that may come up later."""

    def __init__(self, stores: Stores, settings: PagwSettings) -> None:
        self.stores, self.settings = stores, settings
        self._bearer: Bearer | None = None
        self._refused = RefusedCalls(stores)

    def serves(
        self, scope: str | None = None, *, audits: str | None = None
    ) -> Callable[[Endpoint], PlainEndpoint]:
        """Makes an endpoint of what takes a request and its caller. `audits` names what it is about, where every refusal of
        it is to be written down; who proves nothing, or may not, is written down in any case."""

        def guarded(endpoint: Endpoint) -> PlainEndpoint:
            async def answered(request: Request) -> Response:
                callers: list[Caller] = []

                async def route() -> Response:
                    caller = await self._caller(request)
                    callers.append(caller)
                    await take_one(self.stores, self.settings, caller.tenant)
                    caller.need(*(() if scope is None else (scope,)))
                    check_accept(request)
                    return await endpoint(request, caller)

                async def refused(refusal: Refusal) -> None:
                    if callers:
                        await self._refused.told(request, refusal, callers[0], audits)
                    elif refusal.status == UNPROVED:
                        await self._refused.unproved(request, refusal, audits or "call")

                return await told(request, route, refused)

            return _named(answered, endpoint)

        return guarded

    async def _caller(self, request: Request) -> Caller:
        session = session_of(request) if request.method == "GET" else None
        if session is not None:
            tenant, logged_in = await sessions.found(self.stores, session)
            scopes = frozenset(logged_in.scopes)
            return Caller(tenant, logged_in.subject, scopes, logged_in.client_id, logged_in.ends_at)
        self._bearer = self._bearer or self._made_bearer()
        return await self._bearer(request)

    def _made_bearer(self) -> Bearer:
        settings = self.settings
        if not (settings.jwks_url and settings.token_issuer):
            raise SettingsError(
                "Nobody can prove who calls: set PAGW_JWKS_URL and PAGW_TOKEN_ISSUER to those of the issuer of "
                "clients' tokens."
            )
        keys = settings.jwks_url if "://" in settings.jwks_url else Path(settings.jwks_url)
        return bearer(
            token_verifier(
                keys,
                issuer=settings.token_issuer,
                audience=settings.token_audience,
                clock=self.stores.clock,
            )
        )


async def told(
    request: Request,
    route: Callable[[], Awaitable[Response]],
    on_refusal: Callable[[Refusal], Awaitable[None]] | None = None,
) -> Response:
    """What the route answers, or its refusal; under a correlation id that the answer names."""
    given = request.headers.get(CORRELATION_HEADER, "")
    with correlated(given if CORRELATION.fullmatch(given) else None) as id:
        try:
            answer = await route()
        except Exception as error:
            refusal = await refusal_of(request, error)
            if on_refusal is not None:
                await on_refusal(refusal)
            answer = refusal.response()
    answer.headers[CORRELATION_HEADER] = id
    # What is about a patient is for who asked, and no cache between.
    answer.headers.setdefault("cache-control", "no-store")
    return answer


def open_to_all(endpoint: PlainEndpoint) -> PlainEndpoint:
    """For routes that ask for no token: they refuse as all do."""

    async def answered(request: Request) -> Response:
        return await told(request, lambda: endpoint(request))

    return _named(answered, endpoint)


def session_of(request: Request) -> str | None:
    """The session that a request names. A header `Authorization` decides alone, whatever cookies there are."""
    given = request.headers.get("authorization")
    if given is None:
        return request.cookies.get(SESSION_COOKIE)
    scheme, _, session = given.partition(" ")
    return session.strip() if scheme.lower() == "session" else None


def _named(answered: PlainEndpoint, endpoint: Callable[..., Awaitable[Response]]) -> PlainEndpoint:
    """Not by `functools.wraps`: its signature must stay that of an endpoint, with the request alone."""
    answered.__name__, answered.__doc__ = endpoint.__name__, endpoint.__doc__
    answered.__qualname__ = endpoint.__qualname__
    return answered


__all__ = [
    "CLAIM_READ",
    "CLAIM_WRITE",
    "SESSION_COOKIE",
    "SUBSCRIPTION_READ",
    "SUBSCRIPTION_WRITE",
    "UNPROVED",
    "Gate",
    "actor_of",
    "open_to_all",
    "session_of",
    "told",
]
