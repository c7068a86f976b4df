"""A stand-in for a payer, over real HTTP: tokens that expire, decisions by a rule, callbacks, and faults on demand.

    POST /oauth/token                                  client credentials (RFC 6749), by HTTP Basic
    POST /prior-authorizations                         once for a reference; another body under it is a 409
    GET  /prior-authorizations?reference=R             what became of it
    POST /prior-authorizations/R/update, …/R/cancel    a request of its own, that takes the place of R

What is sent and answered is in `pagw.payers.messages`, what is decided in `payer_rules.py`. Doors for tests and demos:

    POST   /sandbox/faults     shares of what goes wrong, `slow_s`, and `callback_copies`
    GET    /sandbox/ledger     every effect, oldest first
    POST   /sandbox/decisions  {"reference": R}: a pended one is decided now
    GET    /sandbox/callbacks  how many are under way, taken and refused
    POST   /sandbox/callbacks  {"url": U}: where callbacks go, whatever a request says; "" is as requests say
    DELETE /sandbox/tokens     no token is valid any more

The ledger outlives the process. A token does not: whoever is refused fetches another.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs, unquote

from pydantic import BaseModel, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.web.sandboxes import WHO_DIED, Door, Faults, FaultsTold, faulted
from pagw.sandbox.payer_callbacks import PayerCallbacks
from pagw.sandbox.payer_desk import Asked, Authorization, DeskRefused, PayerDesk
from pagw.sandbox.payer_ledger import Entry

M = TypeVar("M", bound=BaseModel)
Endpoint = Callable[[Request], Awaitable[Response]]

PATH: Final = "/prior-authorizations"
CALLBACK_SECRET: Final = "sandbox-payer-callbacks"
TOKEN_LIFE_S: Final = 3600.0
DECIDE_AFTER_S: Final = 60.0
# How often the clock is looked at: it may be moved by another process.
LOOK_S: Final = 0.05
KEY_HEADER: Final = "idempotency-key"


class Nonsense(Exception):
    """A body that cannot be read, and where it is wrong."""


class PayerFaultsTold(FaultsTold):
    callback_copies: int = Field(default=1, ge=1, le=100)


class DecisionTold(Door):
    reference: str = Field(min_length=1)


class CallbacksTold(Door):
    url: str = Field(pattern="^(https?://[!-~]+)?$", max_length=2000)


@dataclass
class PayerSandbox:
    """`client_id` and `client_secret` are asked for a token, `api_key` is taken instead of one; without any, all may.

    A pended request is decided `decide_after_s` later by the clock. Callbacks are signed with `callback_secret`.
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
    slow_s: float = 0.0

    def __post_init__(self) -> None:
        self.desk = PayerDesk(self.clock, self.folder)
        self.callbacks = PayerCallbacks(self.clock, self.callback_secret)
        self._tokens: dict[str, float] = {}

    @property
    def ledger(self) -> list[Entry]:
        """Every effect: `authorization`, `decision` (of what was pended), `callback` (that was taken)."""
        return self.desk.ledger.entries

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While it lasts, what is due is decided and called back."""
        self.callbacks.start()
        looking = asyncio.create_task(self._look())
        try:
            yield
        finally:
            looking.cancel()
            await self.callbacks.close()
            with suppress(asyncio.CancelledError):
                await looking

    async def _look(self) -> None:
        while True:
            self.desk.decide_due()
            for each in self.desk.to_call_back():
                self._call_back(each)
            await asyncio.sleep(LOOK_S)

    def _call_back(self, found: Authorization) -> None:
        body = {"id": found.callback_id, **found.told()}
        self.callbacks.call(found.callback_id, found.callback_url, body, lambda: self.desk.called_back(found))

    # --- as the payer ----------------------------------------------------------------------------------------

    async def token(self, request: Request) -> Response:
        form = parse_qs((await request.body()).decode(errors="replace"))
        if form.get("grant_type") != ["client_credentials"]:
            return _refused(400, "unsupported_grant_type")
        if not self._is_client(request.headers.get("authorization", "")):
            return _refused(401, "invalid_client")
        now, token = self.clock.now(), secrets.token_urlsafe(32)
        self._tokens = {each: ends for each, ends in self._tokens.items() if ends > now}
        self._tokens[token] = now + self.token_life_s
        said = {"access_token": token, "token_type": "Bearer", "expires_in": self.token_life_s}
        return JSONResponse(said, headers={"cache-control": "no-store"})

    async def submit(self, request: Request) -> Response:
        return await self._acted(request, "submit", "")

    async def update(self, request: Request) -> Response:
        return await self._acted(request, "update", request.path_params["former"])

    async def cancel(self, request: Request) -> Response:
        return await self._acted(request, "cancel", request.path_params["former"])

    async def find(self, request: Request) -> Response:
        self.desk.decide_due()
        found = self.desk.authorizations.get(request.query_params.get("reference", ""))
        return JSONResponse({"authorizations": [] if found is None else [found.told()]})

    async def _acted(self, request: Request, kind: str, former: str) -> Response:
        try:
            body = await _json(request)
            asked = _read(Asked, body)
            if asked.kind != kind or request.headers.get(KEY_HEADER) != asked.reference:
                raise Nonsense("the kind is that of the path, and the idempotency key is the reference")
            self.desk.decide_due()
            return JSONResponse(self.desk.act(asked, body, former, self.decide_after_s).told())
        except (Nonsense, RecursionError):
            return _refused(400, "invalid_request")
        except DeskRefused as error:
            return _refused(error.status, error.code)

    # --- how it is driven ------------------------------------------------------------------------------------

    async def set_faults(self, request: Request) -> Response:
        told = _read(PayerFaultsTold, await _json(request))
        self.slow_s, self.callbacks.copies = told.slow_s, told.callback_copies
        self.faults = told.faults()
        return JSONResponse({})

    async def get_ledger(self, request: Request) -> Response:
        return JSONResponse({"ledger": self.ledger})

    async def decide(self, request: Request) -> Response:
        told = _read(DecisionTold, await _json(request))
        found = self.desk.decide(told.reference)
        if found is None:
            return JSONResponse({"error": "no request under this reference is pended"}, status_code=404)
        return JSONResponse(found.told())

    async def get_callbacks(self, request: Request) -> Response:
        owed, sent = len(self.desk.to_call_back()), self.callbacks
        return JSONResponse({"owed": owed, "pending": sent.pending, "done": sent.done, "failed": sent.failed})

    async def point_callbacks(self, request: Request) -> Response:
        self.callbacks.url = _read(CallbacksTold, await _json(request)).url
        return JSONResponse({})

    async def forget_tokens(self, request: Request) -> Response:
        self._tokens.clear()
        return JSONResponse({})

    # --- who may, and what goes wrong ------------------------------------------------------------------------

    def faulty(self, endpoint: Endpoint, *, changes: bool = False) -> Endpoint:
        async def answered(request: Request) -> Response:
            if self.slow_s:
                await asyncio.sleep(self.slow_s)
            return await faulted(self.faults, self.clock.now(), changes, lambda: endpoint(request))

        return answered

    def guarded(self, endpoint: Endpoint) -> Endpoint:
        """Who does not prove itself is refused before anything goes wrong."""

        async def answered(request: Request) -> Response:
            if not self._may(request):
                return _refused(401, "invalid_token")
            return await self.faulty(endpoint, changes=request.method != "GET")(request)

        return answered

    def _may(self, request: Request) -> bool:
        if not self.client_secret and not self.api_key:
            return True
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.casefold() == "bearer" and self._tokens.get(token, 0.0) > self.clock.now():
            return True
        return bool(self.api_key) and _is_same(request.headers.get("x-api-key", ""), self.api_key)

    def _is_client(self, header: str) -> bool:
        if not self.client_secret:
            return True
        scheme, _, proof = header.partition(" ")
        try:
            id, _, secret = base64.b64decode(proof).decode().partition(":")
        except ValueError:
            return False
        is_known = _is_same(unquote(id), self.client_id) & _is_same(unquote(secret), self.client_secret)
        return scheme.casefold() == "basic" and is_known


def payer_app(sandbox: PayerSandbox) -> Starlette:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with sandbox.running():
            yield

    one = PATH + "/{former}"
    return Starlette(
        routes=[
            Route("/oauth/token", sandbox.faulty(sandbox.token), methods=["POST"]),
            Route(PATH, sandbox.guarded(sandbox.submit), methods=["POST"]),
            Route(PATH, sandbox.guarded(sandbox.find)),
            Route(f"{one}/update", sandbox.guarded(sandbox.update), methods=["POST"]),
            Route(f"{one}/cancel", sandbox.guarded(sandbox.cancel), methods=["POST"]),
            Route("/sandbox/faults", sandbox.set_faults, methods=["POST"]),
            Route("/sandbox/ledger", sandbox.get_ledger),
            Route("/sandbox/decisions", sandbox.decide, methods=["POST"]),
            Route("/sandbox/callbacks", sandbox.get_callbacks),
            Route("/sandbox/callbacks", sandbox.point_callbacks, methods=["POST"]),
            Route("/sandbox/tokens", sandbox.forget_tokens, methods=["DELETE"]),
        ],
        exception_handlers={Nonsense: _told_nonsense, **WHO_DIED},
        lifespan=lifespan,
    )


async def _told_nonsense(request: Request, error: Exception) -> Response:
    said = str(error).encode(errors="replace").decode()
    return JSONResponse({"error": said}, status_code=400)


async def _json(request: Request) -> Any:
    try:
        return json.loads(await request.body())
    except (ValueError, RecursionError):
        raise Nonsense("the body is no JSON") from None


def _read(kind: type[M], body: Any) -> M:
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        faults = error.errors(include_input=False, include_url=False, include_context=False)
        where = "; ".join(
            f"{'.'.join(map(str, each['loc'])) or 'the body'}: {each['msg']}" for each in faults
        )
        raise Nonsense(where) from None


def _refused(status: int, code: str) -> Response:
    return JSONResponse({"error": code}, status_code=status)


def _is_same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), known.encode())
