"""Harness: the sandbox payer over real HTTP, its client, and a receiver of its callbacks."""

from __future__ import annotations

import json
import queue
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.runtime import Secret
from holdfast.web import serve_in_thread, verify
from holdfast_demo.pagw.sandbox.payer import PayerSandbox, build_payer_app
from pagw.domain.fhir.decisions import Decision
from pagw.integrations.payers.config import PayerConfig, parse_payer_config
from pagw.integrations.payers.connection import make_client
from pagw.integrations.payers.formats import JsonFormat
from pagw.integrations.payers.json_client import JsonPayerClient
from pagw.integrations.payers.oauth import AccessToken, fetch_token

NOW = datetime(2026, 2, 4, 10, 30, tzinfo=UTC)
CLIENT, CLIENT_SECRET = "pagw-gateway", "s3cret of:the/test"
CREDENTIALS = json.dumps({"client_id": CLIENT, "client_secret": CLIENT_SECRET})
CALLBACK_SECRET = "callback-secret-of-the-test"
MEMBER = "M-77-GRACE"
PATIENT = "Hopper-Testpatient"
WAIT_S = 20.0


class ManualClock:
    """Clock that moves only when a test sets `at`."""

    def __init__(self) -> None:
        self.at = NOW.timestamp()

    def now(self) -> float:
        return self.at


class TokenCache:
    """Token cache that behaves like the gateway's."""

    def __init__(self, http: httpx2.AsyncClient, config: PayerConfig, clock: ManualClock) -> None:
        self._http, self._config, self._clock = http, config, clock
        self.cached: AccessToken | None = None
        self.until = 0.0
        self.fetch_count = 0

    async def get_token(self) -> str:
        """Return the cached token, or fetch a new one if it is missing or nearly expired."""
        if self.cached is None or self._clock.now() >= self.until:
            secret = Secret(self._config.credentials_name, CREDENTIALS)
            self.cached = await fetch_token(self._http, self._config, secret, clock=self._clock)
            self.until = self._clock.now() + self.cached.get_usable_s(self._clock.now())
            self.fetch_count += 1
        return self.cached.access_token

    async def forget(self, token: str) -> None:
        """Drop the cached token if it is this one."""
        if self.cached is not None and self.cached.access_token == token:
            self.cached = None


def make_sandbox(**settings: Any) -> PayerSandbox:
    """Make a payer that requires the test's credentials. `settings` are fields of `PayerSandbox`."""
    given = {
        "clock": ManualClock(),
        "client_id": CLIENT,
        "client_secret": CLIENT_SECRET,
        "callback_secret": CALLBACK_SECRET,
        **settings,
    }
    return PayerSandbox(**given)


def make_config(url: str, **settings: Any) -> PayerConfig:
    """Make the configuration of a payer at this address. `settings` replace its columns."""
    given = {
        "payer_id": "acme",
        "name": "Acme Health",
        "api_endpoint": url,
        "auth_type": "oauth2",
        "credentials_arn": "pagw/payers/acme",
        "answer_s": 5.0,
        **settings,
    }
    return parse_payer_config(given)


def make_body(reference: str, *codes: str, kind: str = "submit", **members: Any) -> bytes:
    """Make a request in the payer's format, with one item per code. `members` are further fields."""
    items = [{"sequence": n, "code": code, "quantity": 20} for n, code in enumerate(codes or ("99213",), 1)]
    enriched = {
        "reference": reference,
        "kind": kind,
        "member_id": MEMBER,
        "provider_npi": "1234567893",
        "items": items,
        "bundle": {"resourceType": "Bundle", "entry": [{"resource": {"name": [{"family": PATIENT}]}}]},
        **members,
    }
    return JsonFormat().convert(enriched)


@asynccontextmanager
async def open_payer_at(
    url: str, clock: Any, **settings: Any
) -> AsyncIterator[tuple[JsonPayerClient, TokenCache]]:
    """Open a client of the payer at `url`, and its token cache."""
    async with make_client() as http:
        config = make_config(url, **settings)
        tokens = TokenCache(http, config, clock)
        yield JsonPayerClient(http, config, tokens.get_token, tokens.forget, clock), tokens


@asynccontextmanager
async def open_payer(sandbox: PayerSandbox, **settings: Any) -> AsyncIterator[JsonPayerClient]:
    """Open a client of the sandbox over real HTTP."""
    with serve_in_thread(build_payer_app(sandbox)) as url:
        async with open_payer_at(url, sandbox.clock, **settings) as (payer, _):
            yield payer


def parse_decision(answer: bytes) -> Decision:
    """Return the decision in an answer of the sandbox."""
    decision = JsonFormat().parse_answer(answer).decision
    assert decision is not None
    return decision


def list_acted_references(sandbox: PayerSandbox) -> list[str]:
    """Return the references that the payer acted on, in order."""
    return [each["reference"] for each in sandbox.ledger if each["what"] == "authorization"]


class Callbacks:
    """Receiver of signed callbacks, like the gateway's. It refuses the first `fails` with a 503."""

    def __init__(self, clock: Any, fails: int = 0) -> None:
        self.received: queue.Queue[dict[str, Any]] = queue.Queue()
        self.refused = 0
        self._clock, self._fails = clock, fails

    async def receive(self, request: Request) -> Response:
        """Verify the signature and keep the callback's body."""
        body = await request.body()
        verify(request.headers.get("x-payer-signature"), body, (CALLBACK_SECRET,), now=self._clock.now())
        if self.refused < self._fails:
            self.refused += 1
            return JSONResponse({}, status_code=503)
        self.received.put(json.loads(body))
        return JSONResponse({})

    def next(self) -> dict[str, Any]:
        """Return the next callback. Wait for it, at most `WAIT_S` seconds."""
        return self.received.get(timeout=WAIT_S)

    @contextmanager
    def listen(self) -> Iterator[str]:
        """Serve the receiver until the block ends, and yield its URL."""
        app = Starlette(routes=[Route("/payer-callbacks/acme", self.receive, methods=["POST"])])
        with serve_in_thread(app) as url:
            yield f"{url}/payer-callbacks/acme"
