"""The HTTP API of the sandbox help desk and shop, and its control endpoints (`/sandbox/…`)."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from pydantic import Field
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.web.bodies import JsonBody
from holdfast.web.sandbox_faults import (
    ERROR_HANDLERS,
    TOO_MANY,
    ControlBody,
    Faults,
    FaultsBody,
    FiniteJson,
    apply_faults,
    read_object,
)
from holdfast_demo.richpanel.sandbox.help_desk import Effect, SandboxHelpDesk, Ticket, to_json
from holdfast_demo.richpanel.sandbox.shop import SandboxOrder, SandboxShop
from holdfast_demo.richpanel.sandbox.webhook_deliveries import DeliveryFaults, WebhookDeliveries

KEY_HEADER: Final = "x-richpanel-key"
EFFECTS: Final[dict[str, tuple[Effect, str]]] = {
    "messages": ("message", "text"),
    "notes": ("note", "text"),
    "tags": ("tag", "tag"),
    "assignee": ("assign", "team"),
}


class TicketBody(ControlBody):
    """A ticket to open."""

    id: str = Field(min_length=1)
    channel: str = "email"
    customer: dict[str, FiniteJson] = Field(default_factory=dict)


class MessageBody(ControlBody):
    """A message of the customer. `extra` is added to the payload of its webhook."""

    text: str
    id: str | None = None
    extra: dict[str, FiniteJson] = Field(default_factory=dict)


class OrderBody(ControlBody):
    """An order of the shop."""

    number: str
    email: str
    status: str
    carrier: str = ""
    tracking: str = ""
    expected: str = ""


class DeliveryFaultsBody(ControlBody):
    """Faults of the deliveries."""

    copies_max: int = Field(default=1, ge=1, le=100)
    late_s: float = Field(default=0.0, ge=0, le=600)
    seed: int = 0


class WebhookBody(ControlBody):
    """Where the webhooks are sent to; no URL ends them."""

    url: str = Field(pattern="^(https?://[!-~]+)?$", max_length=2000)
    secret: str
    faults: DeliveryFaultsBody = Field(default_factory=DeliveryFaultsBody)


@dataclass
class Sandbox:
    """Both services. Callers must send `key`; an empty one means no key is required. `too_many` counts the
    429 responses.
    """

    clock: Clock = SYSTEM_CLOCK
    key: str = ""
    faults: Faults = field(default_factory=Faults)

    def __post_init__(self) -> None:
        self.desk, self.shop = SandboxHelpDesk(self.clock), SandboxShop()
        self.deliveries = WebhookDeliveries(self.clock)
        self.too_many = 0

    # --- the help desk --------------------------------------------------------------------------------------

    async def get_ticket(self, request: Request) -> Response:
        """Return a ticket with the ids of its messages; 404 if it does not exist."""
        return _ok({"ticket": ticket.to_json()}) if (ticket := self._find_ticket(request)) else _not_found()

    async def get_message(self, request: Request) -> Response:
        """Return one message of a ticket; 404 if either does not exist."""
        ticket = self._find_ticket(request)
        wanted = request.path_params["message_id"]
        for message in ticket.messages if ticket else ():
            if message.id == wanted:
                return _ok({"message": asdict(message)})
        return _not_found()

    async def get_messages(self, request: Request) -> Response:
        """Return all messages of a ticket, oldest first; 404 if it does not exist."""
        ticket = self._find_ticket(request)
        if ticket is None:
            return _not_found()
        return _ok({"messages": [asdict(message) for message in ticket.messages]})

    async def get_activities(self, request: Request) -> Response:
        """Return the effects on a ticket; only those with the query parameter `reference`, if it is given."""
        ticket = self._find_ticket(request)
        reference = request.query_params.get("reference")
        if ticket is None:
            return _not_found()
        found = [to_json(entry) for entry in ticket.activities if reference in (None, entry.reference)]
        return _ok({"activities": found})

    async def change_ticket(self, request: Request) -> Response:
        """Add a message, a note, a tag or an assignee: the last segment of the path says which."""
        ticket = self._find_ticket(request)
        effect, member = EFFECTS[request.url.path.rpartition("/")[2]]
        body = await read_object(request)
        if ticket is None:
            return _not_found()
        if not isinstance(body.get(member), str):
            return JSONResponse({"error": f"{member} is missing"}, status_code=422)
        entry = self.desk.apply(ticket, effect, body[member], str(body.get("reference", "")))
        return _ok({"activity": to_json(entry)})

    # --- the shop -------------------------------------------------------------------------------------------

    async def get_order(self, request: Request) -> Response:
        """Return an order of the shop; 404 if it does not exist."""
        order = self.shop.find_order(request.path_params["number"])
        return _not_found() if order is None else _ok({"order": order})

    # --- control endpoints ----------------------------------------------------------------------------------

    async def open_ticket(self, request: Request) -> Response:
        """Open a ticket, or return the existing one with this id."""
        body = await JsonBody(TicketBody)(request)
        ticket = self.desk.open_ticket(body.id, body.channel, body.customer)
        return _ok({"ticket": ticket.to_json()})

    async def receive_message(self, request: Request) -> Response:
        """Add a message of the customer and schedule its webhook. Return the message and the webhook's
        payload.
        """
        ticket = self._find_ticket(request)
        if ticket is None:
            return _not_found()
        body = await JsonBody(MessageBody)(request)
        message = self.desk.add_customer_message(ticket, body.text, body.id)
        payload = {
            "ticket_id": ticket.id,
            "conversation_id": ticket.id,
            "message_id": message.id,
            "created_at": message.created_at,
            "channel": ticket.channel,
            "trigger": "customer_message",
            **body.extra,
        }
        self.deliveries.schedule(payload)
        return _ok({"message": asdict(message), "payload": payload})

    async def add_order(self, request: Request) -> Response:
        """Add or replace an order of the shop."""
        body = await JsonBody(OrderBody)(request)
        self.shop.add_order(SandboxOrder(**body.model_dump()))
        return _ok({})

    async def set_faults(self, request: Request) -> Response:
        """Replace the injected faults."""
        self.faults = (await JsonBody(FaultsBody)(request)).to_faults()
        return _ok({})

    async def set_webhook(self, request: Request) -> Response:
        """Set the webhooks' url, secret and faults."""
        body = await JsonBody(WebhookBody)(request)
        self.deliveries.configure(body.url, body.secret, DeliveryFaults(**body.faults.model_dump()))
        return _ok({})

    async def get_ledger(self, request: Request) -> Response:
        """Return every effect on a ticket, oldest first, and the number of 429 responses."""
        return _ok({"ledger": [to_json(entry) for entry in self.desk.ledger], "too_many": self.too_many})

    async def get_deliveries(self, request: Request) -> Response:
        """Return how many webhook deliveries are under way, were accepted and were refused."""
        sent = self.deliveries
        return _ok({"pending": sent.pending, "done": sent.done, "refused": sent.refused})

    def _find_ticket(self, request: Request) -> Ticket | None:
        return self.desk.find_ticket(request.path_params["ticket_id"])

    # --- faults ---------------------------------------------------------------------------------------------

    def with_faults(
        self, endpoint: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Wrap an endpoint of a service: check the key and apply the faults."""

        async def respond(request: Request) -> Response:
            given = request.headers.get(KEY_HEADER, "")
            if self.key and not hmac.compare_digest(given.encode(), self.key.encode()):
                return JSONResponse({"error": "wrong key"}, status_code=401)
            changes = request.method != "GET"
            answer = await apply_faults(self.faults, self.clock.now(), changes, lambda: endpoint(request))
            self.too_many += answer.status_code == TOO_MANY
            return answer

        return respond


def build_sandbox_app(sandbox: Sandbox | None = None) -> Starlette:
    """Build one ASGI app with both services."""
    both = sandbox or Sandbox()
    ticket = "/v1/tickets/{ticket_id}"

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await both.deliveries.close()

    return Starlette(
        routes=[
            Route(ticket, both.with_faults(both.get_ticket)),
            Route(ticket + "/messages", both.with_faults(both.get_messages)),
            Route(ticket + "/messages/{message_id}", both.with_faults(both.get_message)),
            Route(ticket + "/activities", both.with_faults(both.get_activities)),
            *(
                Route(f"{ticket}/{name}", both.with_faults(both.change_ticket), methods=["POST"])
                for name in EFFECTS
            ),
            Route("/shop/orders/{number}", both.with_faults(both.get_order)),
            Route("/sandbox/tickets", both.open_ticket, methods=["POST"]),
            Route("/sandbox/tickets/{ticket_id}/messages", both.receive_message, methods=["POST"]),
            Route("/sandbox/orders", both.add_order, methods=["POST"]),
            Route("/sandbox/faults", both.set_faults, methods=["POST"]),
            Route("/sandbox/webhook", both.set_webhook, methods=["POST"]),
            Route("/sandbox/ledger", both.get_ledger),
            Route("/sandbox/deliveries", both.get_deliveries),
        ],
        exception_handlers=ERROR_HANDLERS,
        lifespan=lifespan,
    )


def _ok(body: dict[str, Any]) -> Response:
    return JSONResponse(body)


def _not_found() -> Response:
    return JSONResponse({"error": "not found"}, status_code=404)
