"""Sandbox of a payer over real HTTP: expiring tokens, decisions by a rule, callbacks, and faults on demand.

    POST /oauth/token                                  client credentials (RFC 6749), by HTTP Basic
    POST /prior-authorizations                         once per reference; another body under it is a 409
    GET  /prior-authorizations?reference=R             the current answer
    POST /prior-authorizations/R/update, …/R/cancel    a new request that replaces R

`pagw.integrations.payers.messages` defines the messages, `payer_rules.py` the decisions. Controls for tests
and demos:

    POST   /sandbox/faults     shares of faults, `slow_s`, and `callback_copies`
    GET    /sandbox/ledger     every effect, oldest first
    POST   /sandbox/decisions  {"reference": R}: decide a pended request now
    GET    /sandbox/callbacks  how many are due, in progress, accepted and refused
    POST   /sandbox/callbacks  {"url": U}: send callbacks to U instead of the requests' URLs; "" resets
    DELETE /sandbox/tokens     invalidate all tokens

The ledger survives the process. Tokens do not: a client that is refused fetches another.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.web.bodies import JsonBody
from holdfast.web.sandbox_faults import (
    ERROR_HANDLERS,
    ControlBody,
    Faults,
    FaultsBody,
    apply_faults,
    read_object,
)
from holdfast_demo.pagw.sandbox.payer_callbacks import PayerCallbacks
from holdfast_demo.pagw.sandbox.payer_ledger import Entry
from holdfast_demo.pagw.sandbox.payer_state import (
    Authorization,
    AuthorizationRequest,
    PayerRefused,
    PayerState,
)
from holdfast_demo.pagw.sandbox.payer_tokens import PayerTokens

Endpoint = Callable[[Request], Awaitable[Response]]

PATH: Final = "/prior-authorizations"
CALLBACK_SECRET: Final = "sandbox-payer-callbacks"
TOKEN_LIFE_S: Final = 3600.0
DECIDE_AFTER_S: Final = 60.0
# The interval of checks of the clock, which another process may move.
POLL_S: Final = 0.05
KEY_HEADER: Final = "idempotency-key"


class PayerFaultsBody(FaultsBody):
    """The body of `POST /sandbox/faults`."""

    callback_copies: int = Field(default=1, ge=1, le=100)


class DecisionBody(ControlBody):
    """The body of `POST /sandbox/decisions`."""

    reference: str = Field(min_length=1)


class CallbacksBody(ControlBody):
    """The body of `POST /sandbox/callbacks`."""

    url: str = Field(pattern="^(https?://[!-~]+)?$", max_length=2000)


@dataclass
class PayerSandbox:
    """The payer. A client authenticates with `client_id` and `client_secret` for a token, or with `api_key`;
    without them, every call is accepted.

    It decides a pended request `decide_after_s` later by the clock, and signs callbacks with
    `callback_secret`.
    """

    clock: Clock = SYSTEM_CLOCK
    folder: Path | None = None
    client_id: str = ""
    client_secret: str = ""
    api_key: str = ""
    callback_secret: str = CALLBACK_SECRET
    token_life_s: float = TOKEN_LIFE_S
    decide_after_s: float = DECIDE_AFTER_S
    faults: Faults = field(default_factory=Faults)

    def __post_init__(self) -> None:
        self.state = PayerState(self.clock, self.folder)
        self.callbacks = PayerCallbacks(self.clock, self.callback_secret)
        self.tokens = PayerTokens(
            self.clock, self.client_id, self.client_secret, self.api_key, self.token_life_s
        )

    @property
    def ledger(self) -> list[Entry]:
        """Return every effect: `authorization`, `decision` (of a pended request) and `callback` (that was
        accepted).
        """
        return self.state.ledger.entries

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Decide due requests and call back until the context ends."""
        self.callbacks.start()
        polling = asyncio.create_task(self._poll())
        try:
            yield
        finally:
            polling.cancel()
            await self.callbacks.close()
            with suppress(asyncio.CancelledError):
                await polling

    async def _poll(self) -> None:
        """Decide due requests and start due callbacks, every `POLL_S` seconds."""
        while True:
            self.state.decide_due()
            for each in self.state.list_due_callbacks():
                self._call_back(each)
            await asyncio.sleep(POLL_S)

    def _call_back(self, found: Authorization) -> None:
        """Start the callback of a decided request, unless it is in progress."""
        body = {"id": found.callback_id, **found.to_json()}
        self.callbacks.call(
            found.callback_id, found.callback_url, body, lambda: self.state.record_callback(found)
        )

    # --- the payer ------------------------------------------------------------------------------------------

    async def issue_token(self, request: Request) -> Response:
        """Issue a token by client credentials."""
        return await self.tokens.issue(request)

    async def submit(self, request: Request) -> Response:
        """Handle a new request."""
        return await self._act(request, "submit", "")

    async def update(self, request: Request) -> Response:
        """Handle an update of a request."""
        return await self._act(request, "update", request.path_params["former"])

    async def cancel(self, request: Request) -> Response:
        """Handle a cancellation of a request."""
        return await self._act(request, "cancel", request.path_params["former"])

    async def find(self, request: Request) -> Response:
        """Return a list with the current answer about a reference; an empty one for an unknown reference."""
        self.state.decide_due()
        found = self.state.authorizations.get(request.query_params.get("reference", ""))
        return JSONResponse({"authorizations": [] if found is None else [found.to_json()]})

    async def _act(self, request: Request, kind: str, former: str) -> Response:
        """Process a request of this kind once per reference. `former` is the request that it replaces, or
        empty.
        """
        try:
            body = await read_object(request)
            parsed = AuthorizationRequest.model_validate(body)
            if parsed.kind != kind or request.headers.get(KEY_HEADER) != parsed.reference:
                return _build_refusal(400, "invalid_request")
            self.state.decide_due()
            return JSONResponse(self.state.act(parsed, body, former, self.decide_after_s).to_json())
        except ValidationError:
            return _build_refusal(400, "invalid_request")
        except PayerRefused as error:
            return _build_refusal(error.status, error.code)

    # --- controls -------------------------------------------------------------------------------------------

    async def set_faults(self, request: Request) -> Response:
        """Set the faults."""
        body = await JsonBody(PayerFaultsBody)(request)
        self.callbacks.copies, self.faults = body.callback_copies, body.to_faults()
        return JSONResponse({})

    async def get_ledger(self, request: Request) -> Response:
        """Return the ledger."""
        return JSONResponse({"ledger": self.ledger})

    async def decide(self, request: Request) -> Response:
        """Decide a pended request now."""
        body = await JsonBody(DecisionBody)(request)
        found = self.state.decide(body.reference)
        if found is None:
            return JSONResponse({"error": "no request with this reference is pended"}, status_code=404)
        return JSONResponse(found.to_json())

    async def get_callbacks(self, request: Request) -> Response:
        """Return the counts of callbacks."""
        due, sent = len(self.state.list_due_callbacks()), self.callbacks
        return JSONResponse({"owed": due, "pending": sent.pending, "done": sent.done, "failed": sent.failed})

    async def point_callbacks(self, request: Request) -> Response:
        """Send all callbacks to one URL."""
        self.callbacks.url = (await JsonBody(CallbacksBody)(request)).url
        return JSONResponse({})

    async def forget_tokens(self, request: Request) -> Response:
        """Invalidate all tokens."""
        self.tokens.forget()
        return JSONResponse({})

    # --- authentication and faults --------------------------------------------------------------------------

    def with_faults(self, endpoint: Endpoint, *, has_effect: bool = False) -> Endpoint:
        """Return the endpoint with the simulated faults."""

        async def answer(request: Request) -> Response:
            return await apply_faults(self.faults, self.clock.now(), has_effect, lambda: endpoint(request))

        return answer

    def require_token(self, endpoint: Endpoint) -> Endpoint:
        """Return the endpoint behind authentication, which comes before any simulated fault."""

        async def answer(request: Request) -> Response:
            if not self.tokens.is_authorized(request):
                return _build_refusal(401, "invalid_token")
            return await self.with_faults(endpoint, has_effect=request.method != "GET")(request)

        return answer


def build_payer_app(sandbox: PayerSandbox) -> Starlette:
    """Build the app."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with sandbox.run():
            yield

    one = PATH + "/{former}"
    return Starlette(
        routes=[
            Route("/oauth/token", sandbox.with_faults(sandbox.issue_token), methods=["POST"]),
            Route(PATH, sandbox.require_token(sandbox.submit), methods=["POST"]),
            Route(PATH, sandbox.require_token(sandbox.find)),
            Route(f"{one}/update", sandbox.require_token(sandbox.update), methods=["POST"]),
            Route(f"{one}/cancel", sandbox.require_token(sandbox.cancel), methods=["POST"]),
            Route("/sandbox/faults", sandbox.set_faults, methods=["POST"]),
            Route("/sandbox/ledger", sandbox.get_ledger),
            Route("/sandbox/decisions", sandbox.decide, methods=["POST"]),
            Route("/sandbox/callbacks", sandbox.get_callbacks),
            Route("/sandbox/callbacks", sandbox.point_callbacks, methods=["POST"]),
            Route("/sandbox/tokens", sandbox.forget_tokens, methods=["DELETE"]),
        ],
        exception_handlers=ERROR_HANDLERS,
        lifespan=lifespan,
    )


def _build_refusal(status: int, code: str) -> Response:
    return JSONResponse({"error": code}, status_code=status)
