"""Who calls, and whether it may: in front of every route that serves a client.

    the correlation id → who calls (a token; on reads also a session) → the tenant's rate limit → the scope →
    what it takes as an answer → the route; what any of them raises is told by `refusals`

A submission that is refused is audited, with the codes of why and nothing of what it was. One that is over the limit is
not: the limit keeps floods from the database.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from holdfast import Stores
from holdfast.correlation import correlated
from holdfast.errors import HoldfastError, SettingsError
from holdfast.web.tokens import Bearer, Caller, bearer, token_verifier
from pagw import sessions
from pagw.auditing import Actor, AuditEvent, record
from pagw.limits import take_one
from pagw.routes.asking import check_accept
from pagw.routes.refusals import Refusal, refusal_of
from pagw.settings import PagwSettings

CLAIM_READ: Final = "system/Claim.read"
CLAIM_WRITE: Final = "system/Claim.write"
SUBSCRIPTION_READ: Final = "system/Subscription.read"
SUBSCRIPTION_WRITE: Final = "system/Subscription.write"

SERVICE: Final = "pasorchestrator"
SESSION_COOKIE: Final = "pagw_session"
CORRELATION_HEADER: Final = "x-correlation-id"
CORRELATION: Final = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
ACTOR_CHARS_MAX: Final = 100
CODES_TOLD_MAX: Final = 20
TOO_MANY: Final = 429

Endpoint = Callable[[Request, Caller], Awaitable[Response]]
PlainEndpoint = Callable[[Request], Awaitable[Response]]

log = logging.getLogger(__name__)


class Gate:
    """One per process and component. It is made without a look at the issuer: that may come up later."""

    def __init__(self, stores: Stores, settings: PagwSettings) -> None:
        self.stores, self.settings = stores, settings
        self._bearer: Bearer | None = None

    def serves(
        self, scope: str | None = None, *, audits: bool = False
    ) -> Callable[[Endpoint], PlainEndpoint]:
        """Makes an endpoint of what takes a request and its caller. `audits` is for submissions."""

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
                    if audits and callers:
                        await self._audit(request, callers[0], refusal)

                return await told(request, route, refused)

            return _named(answered, endpoint)

        return guarded

    async def _caller(self, request: Request) -> Caller:
        session = session_of(request) if request.method == "GET" else None
        if session is not None:
            tenant, logged_in = await sessions.found(self.stores, session)
            return Caller(tenant, logged_in.subject, frozenset(logged_in.scopes), logged_in.client_id)
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

    async def _audit(self, request: Request, caller: Caller, refusal: Refusal) -> None:
        """A failure of ours is no refusal; and an audit that cannot be written leaves the answer as it is."""
        if refusal.status >= 500 or refusal.status == TOO_MANY:
            return
        codes = [issue.code for issue in refusal.issues if issue.is_error][:CODES_TOLD_MAX]
        event = AuditEvent(
            type="REFUSED",
            actor=actor_of(caller),
            service=SERVICE,
            tenant=caller.tenant,
            resource_type="submission",
            details={"status": refusal.status, "codes": codes, "path": request.url.path},
        )
        try:
            await record(self.stores, event)
        except HoldfastError as error:
            log.error("The refusal of a submission could not be audited: %s", type(error).__name__)


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


def actor_of(caller: Caller) -> Actor:
    return Actor("user", caller.subject[:ACTOR_CHARS_MAX])


def _named(answered: PlainEndpoint, endpoint: Callable[..., Awaitable[Response]]) -> PlainEndpoint:
    """Not by `functools.wraps`: its signature must stay that of an endpoint, with the request alone."""
    answered.__name__, answered.__doc__ = endpoint.__name__, endpoint.__doc__
    answered.__qualname__ = endpoint.__qualname__
    return answered
