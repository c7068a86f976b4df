"""Sandbox of a payer that speaks Da Vinci PAS over real HTTP, with a ledger, notifications and faults.

    POST /oauth/token          client credentials, by secret or by signed assertion
    GET  /metadata             the CapabilityStatement
    POST /Claim/$submit        acts on every call: PAS has no idempotency key
    POST /Claim/$inquire       the current authorizations of a Claim's identifier, member and provider
    POST /Subscription         a rest-hook for decisions, active after its handshake

`payer_rules.py` has the decisions, as for the other payer. Controls for tests and demos:

    POST   /sandbox/faults     shares of faults, `slow_s`, and `callback_copies`
    GET    /sandbox/ledger     every effect, oldest first
    POST   /sandbox/decisions  {"reference": R}: decide a pended request now
    POST   /sandbox/revisions  {"reference": R}: replace a decision by its opposite
    GET    /sandbox/callbacks  how many notifications are due, in progress, accepted and refused
    POST   /sandbox/subscriptions  {"url": U, "secret": S}: send all decisions to U
    DELETE /sandbox/tokens     invalidate all tokens
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import Field
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.web.bodies import JsonBody
from holdfast.web.sandbox_faults import ERROR_HANDLERS, ControlBody, Faults, apply_faults
from holdfast_demo.pagw.sandbox.pas_notifications import PasNotifications, PasSubscription
from holdfast_demo.pagw.sandbox.pas_state import PasAuthorization, PasRefused, PasState
from holdfast_demo.pagw.sandbox.payer import (
    DECIDE_AFTER_S,
    POLL_S,
    TOKEN_LIFE_S,
    DecisionBody,
    PayerFaultsBody,
)
from holdfast_demo.pagw.sandbox.payer_ledger import Entry
from holdfast_demo.pagw.sandbox.payer_tokens import PayerTokens
from pagw.domain.fhir.exact_json import dump_exact, parse_exact
from pagw.domain.fhir.outcomes import FhirRefused, select_errors
from pagw.domain.fhir.responses.notifications import build_handshake
from pagw.domain.fhir.responses.response_bundles import to_inquiry_response
from pagw.domain.fhir.rules.pas_rules import check_inquiry, check_request
from pagw.domain.fhir.subscriptions import SubscriptionRequest, parse_subscription
from pagw.domain.fhir.urls import CONTENT_TYPE, TOPIC

Endpoint = Callable[[Request], Awaitable[Response]]
BASE_URL: Final = "http://pas-payer.example"


class SubscriptionBody(ControlBody):
    """The body of `POST /sandbox/subscriptions`."""

    url: str = Field(pattern="^https?://[!-~]+$", max_length=2000)
    secret: str = Field(min_length=1, max_length=200)


@dataclass
class PasPayerSandbox:
    """The payer. `tokens` authenticates its clients. `guide` is the version of PAS that it speaks, and with
    `returns_traces` it returns the trace numbers of a request's items.
    """

    clock: Clock = SYSTEM_CLOCK
    folder: Path | None = None
    client_id: str = ""
    client_secret: str = ""
    jwks: dict[str, Any] | None = None
    token_life_s: float = TOKEN_LIFE_S
    decide_after_s: float = DECIDE_AFTER_S
    guide: str = "2.2.1"
    returns_traces: bool = True
    faults: Faults = field(default_factory=Faults)

    def __post_init__(self) -> None:
        self.state = PasState(self.clock, self.folder)
        self.notifications = PasNotifications(self.clock, "")
        self.subscriptions: list[PasSubscription] = []
        self.tokens = PayerTokens(
            self.clock, self.client_id, self.client_secret, life_s=self.token_life_s, jwks=self.jwks
        )

    @property
    def ledger(self) -> list[Entry]:
        """Return every effect: `authorization`, `decision`, `revision`, and `callback` (an accepted
        notification).
        """
        return self.state.ledger.entries

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Decide due requests and notify the gateway until the context ends."""
        self.notifications.start()
        polling = asyncio.create_task(self._poll())
        try:
            yield
        finally:
            polling.cancel()
            await self.notifications.close()
            with suppress(asyncio.CancelledError):
                await polling

    async def _poll(self) -> None:
        """Decide due requests and start due notifications, every `POLL_S` seconds."""
        while True:
            self.state.decide_due()
            for id, each in list(self.state.due_notifications.items()):
                self._notify(id, each)
            await asyncio.sleep(POLL_S)

    def _notify(self, id: str, found: PasAuthorization) -> None:
        """Start the notification of a decided request. Without a subscription, none is due."""
        subscription = next(
            (each for each in self.subscriptions if each.covers(found.claim.provider_npi)), None
        )
        if subscription is None:
            self.state.due_notifications.pop(id, None)
            return
        response = found.build_response(with_traces=self.returns_traces)
        self.notifications.notify(
            id, subscription, response, lambda: self.state.record_notification(id, found)
        )

    # --- the payer ------------------------------------------------------------------------------------------

    async def get_metadata(self, request: Request) -> Response:
        """Return the CapabilityStatement."""
        statement = {"resourceType": "CapabilityStatement", "status": "active", "fhirVersion": "4.0.1"}
        return JSONResponse(statement, media_type=CONTENT_TYPE)

    async def submit(self, request: Request) -> Response:
        """Act on a request, an update or a cancellation."""
        body = await request.body()
        try:
            if select_errors(check_request(parse_exact(body))):
                return _build_refusal(422, "invalid")
            found = self.state.submit(body, self.decide_after_s)
        except PasRefused as error:
            return _build_refusal(error.status, error.code)
        except (ValueError, FhirRefused):
            return _build_refusal(400, "structure")
        return _respond(found.build_response(with_traces=self.returns_traces))

    async def inquire(self, request: Request) -> Response:
        """Return the current authorizations: Parameters with Bundles, or one Bundle (2.0.1)."""
        body = await request.body()
        try:
            if select_errors(check_inquiry(parse_exact(body))):
                return _build_refusal(422, "invalid")
            found = self.state.inquire(body)
        except (ValueError, FhirRefused):
            return _build_refusal(400, "structure")
        answers = [
            to_inquiry_response(each.build_response(with_traces=self.returns_traces)) for each in found
        ]
        if self.guide == "2.0.1":
            entries = {each["fullUrl"]: each for answer in answers for each in answer["entry"]}
            return _respond({"resourceType": "Bundle", "type": "collection", "entry": list(entries.values())})
        parameters = [{"name": "return", "resource": each} for each in answers]
        return _respond({"resourceType": "Parameters", "parameter": parameters})

    async def subscribe(self, request: Request) -> Response:
        """Create a subscription: active if its endpoint answers the handshake."""
        resource = parse_exact(await request.body())
        try:
            wanted = parse_subscription(resource)
        except FhirRefused:
            return _build_refusal(422, "invalid")
        id = f"subscription-{len(self.subscriptions) + 1}"
        subscription = PasSubscription(f"{BASE_URL}/Subscription/{id}", wanted)
        handshake = build_handshake(
            subscription_url=subscription.url, at=self.state.get_time(), id=f"handshake-{id}"
        )
        is_active = await self.notifications.send(subscription, dump_exact(handshake))
        if is_active:
            self.subscriptions.append(subscription)
        status = "active" if is_active else "error"
        return _respond({**resource, "id": id, "status": status}, 201)

    # --- controls -------------------------------------------------------------------------------------------

    async def set_faults(self, request: Request) -> Response:
        """Set the faults."""
        body = await JsonBody(PayerFaultsBody)(request)
        self.notifications.copies, self.faults = body.callback_copies, body.to_faults()
        return JSONResponse({})

    async def get_ledger(self, request: Request) -> Response:
        """Return the ledger."""
        return JSONResponse({"ledger": self.ledger})

    async def decide(self, request: Request) -> Response:
        """Decide a pended request now."""
        return _report(self.state.decide((await JsonBody(DecisionBody)(request)).reference))

    async def revise(self, request: Request) -> Response:
        """Replace a decision by its opposite."""
        return _report(self.state.revise((await JsonBody(DecisionBody)(request)).reference))

    async def get_callbacks(self, request: Request) -> Response:
        """Return the counts of notifications."""
        due, sent = len(self.state.due_notifications), self.notifications
        return JSONResponse({"owed": due, "pending": sent.pending, "done": sent.done, "failed": sent.failed})

    async def add_subscription(self, request: Request) -> Response:
        """Subscribe an endpoint to all decisions, without a handshake."""
        body = await JsonBody(SubscriptionBody)(request)
        headers = (f"Authorization: Bearer {body.secret}",)
        wanted = SubscriptionRequest(topic=TOPIC, organization="*", endpoint=body.url, headers=headers)
        self.subscriptions.append(PasSubscription(f"{BASE_URL}/Subscription/all", wanted))
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

    def require_token(self, endpoint: Endpoint, *, has_effect: bool = False) -> Endpoint:
        """Return the endpoint behind authentication, which comes before any simulated fault."""

        async def answer(request: Request) -> Response:
            if not self.tokens.is_authorized(request):
                return _build_refusal(401, "login")
            return await self.with_faults(endpoint, has_effect=has_effect)(request)

        return answer


def build_pas_payer_app(sandbox: PasPayerSandbox) -> Starlette:
    """Build the app."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with sandbox.run():
            yield

    submit = sandbox.require_token(sandbox.submit, has_effect=True)
    return Starlette(
        routes=[
            Route("/oauth/token", sandbox.with_faults(sandbox.tokens.issue), methods=["POST"]),
            Route("/metadata", sandbox.require_token(sandbox.get_metadata)),
            Route("/Claim/$submit", submit, methods=["POST"]),
            Route("/Claim/$inquire", sandbox.require_token(sandbox.inquire), methods=["POST"]),
            Route("/Subscription", sandbox.require_token(sandbox.subscribe), methods=["POST"]),
            Route("/sandbox/faults", sandbox.set_faults, methods=["POST"]),
            Route("/sandbox/ledger", sandbox.get_ledger),
            Route("/sandbox/decisions", sandbox.decide, methods=["POST"]),
            Route("/sandbox/revisions", sandbox.revise, methods=["POST"]),
            Route("/sandbox/callbacks", sandbox.get_callbacks),
            Route("/sandbox/subscriptions", sandbox.add_subscription, methods=["POST"]),
            Route("/sandbox/tokens", sandbox.forget_tokens, methods=["DELETE"]),
        ],
        exception_handlers=ERROR_HANDLERS,
        lifespan=lifespan,
    )


def _respond(resource: dict[str, Any], status: int = 200) -> Response:
    return Response(dump_exact(resource), status, media_type=CONTENT_TYPE)


def _report(found: PasAuthorization | None) -> Response:
    """Answer a control request with the authorization's decision, or 404."""
    if found is None:
        return JSONResponse({"error": "no such request"}, status_code=404)
    return JSONResponse({"reference": found.reference, "outcome": found.decision.outcome})


def _build_refusal(status: int, code: str) -> Response:
    """Build the OperationOutcome of a refusal."""
    issue = {"severity": "error", "code": code}
    content = json.dumps({"resourceType": "OperationOutcome", "issue": [issue]})
    return Response(content, status, media_type=CONTENT_TYPE)
