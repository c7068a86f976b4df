"""The HTTP of the help desk and the shop, and the doors by which a test or a demo drives them (`/sandbox/…`)."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.web.sandboxes import TOO_MANY, Faults, faulted
from richpanel.sandbox.deliveries import Deliveries, DeliveryFaults
from richpanel.sandbox.desk import Desk, Effect, Ticket, told
from richpanel.sandbox.shop import Order, Shop

KEY_HEADER: Final = "x-richpanel-key"
EFFECTS: Final[dict[str, tuple[Effect, str]]] = {
    "messages": ("message", "text"),
    "notes": ("note", "text"),
    "tags": ("tag", "tag"),
    "assignee": ("assign", "team"),
}


@dataclass
class Sandbox:
    """The two parties. `key` is what callers must send; empty asks for none."""

    clock: Clock = SYSTEM_CLOCK
    key: str = ""
    faults: Faults = field(default_factory=Faults)

    def __post_init__(self) -> None:
        self.desk, self.shop = Desk(self.clock), Shop()
        self.deliveries = Deliveries(self.clock)
        self.too_many = 0

    # --- the help desk --------------------------------------------------------------------------------------

    async def get_ticket(self, request: Request) -> Response:
        return _found({"ticket": ticket.shown()}) if (ticket := self._ticket(request)) else _missing()

    async def get_message(self, request: Request) -> Response:
        ticket = self._ticket(request)
        wanted = request.path_params["message_id"]
        for message in ticket.messages if ticket else ():
            if message.id == wanted:
                return _found({"message": asdict(message)})
        return _missing()

    async def get_messages(self, request: Request) -> Response:
        ticket = self._ticket(request)
        if ticket is None:
            return _missing()
        return _found({"messages": [asdict(message) for message in ticket.messages]})

    async def get_activities(self, request: Request) -> Response:
        """What was done to a ticket, by the reference that came with it."""
        ticket = self._ticket(request)
        reference = request.query_params.get("reference")
        if ticket is None:
            return _missing()
        found = [told(entry) for entry in ticket.activities if reference in (None, entry.reference)]
        return _found({"activities": found})

    async def change(self, request: Request) -> Response:
        """A message, a note, a tag or an assignee: by the last word of the path."""
        ticket = self._ticket(request)
        effect, member = EFFECTS[request.url.path.rpartition("/")[2]]
        body = await request.json()
        if ticket is None:
            return _missing()
        if not isinstance(body.get(member), str):
            return JSONResponse({"error": f"{member} is missing"}, status_code=422)
        entry = self.desk.do(ticket, effect, body[member], str(body.get("reference", "")))
        return _found({"activity": told(entry)})

    # --- the shop -------------------------------------------------------------------------------------------

    async def get_order(self, request: Request) -> Response:
        order = self.shop.order(request.path_params["number"])
        return _missing() if order is None else _found({"order": order})

    # --- how it is driven -----------------------------------------------------------------------------------

    async def open_ticket(self, request: Request) -> Response:
        body = await request.json()
        ticket = self.desk.open(body["id"], body.get("channel", "email"), body.get("customer", {}))
        return _found({"ticket": ticket.shown()})

    async def hear(self, request: Request) -> Response:
        """A customer writes; the webhook follows."""
        ticket = self._ticket(request)
        if ticket is None:
            return _missing()
        body = await request.json()
        message = self.desk.hear(ticket, body["text"], body.get("id"))
        payload = {
            "ticket_id": ticket.id,
            "conversation_id": ticket.id,
            "message_id": message.id,
            "created_at": message.created_at,
            "channel": ticket.channel,
            "trigger": "customer_message",
            **body.get("extra", {}),
        }
        self.deliveries.announce(payload)
        return _found({"message": asdict(message), "payload": payload})

    async def take_order(self, request: Request) -> Response:
        self.shop.take(Order(**await request.json()))
        return _found({})

    async def set_faults(self, request: Request) -> Response:
        self.faults = Faults(**await request.json())
        return _found({})

    async def point(self, request: Request) -> Response:
        """Where webhooks go: url, secret, and how often and how late."""
        body = await request.json()
        faults = DeliveryFaults(**body.get("faults", {}))
        self.deliveries.point(body["url"], body["secret"], faults)
        return _found({})

    async def get_ledger(self, request: Request) -> Response:
        return _found({"ledger": [told(entry) for entry in self.desk.ledger], "too_many": self.too_many})

    async def get_deliveries(self, request: Request) -> Response:
        sent = self.deliveries
        return _found({"pending": sent.pending, "done": sent.done, "refused": sent.refused})

    def _ticket(self, request: Request) -> Ticket | None:
        return self.desk.ticket(request.path_params["ticket_id"])

    # --- what goes wrong ------------------------------------------------------------------------------------

    def party(
        self, endpoint: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """An endpoint of a party: it asks for the key, and fails as the faults have it."""

        async def answered(request: Request) -> Response:
            if self.key and not hmac.compare_digest(request.headers.get(KEY_HEADER, ""), self.key):
                return JSONResponse({"error": "wrong key"}, status_code=401)
            changes = request.method != "GET"
            answer = await faulted(self.faults, self.clock.now(), changes, lambda: endpoint(request))
            self.too_many += answer.status_code == TOO_MANY
            return answer

        return answered


def sandbox_app(sandbox: Sandbox | None = None) -> Starlette:
    """Both parties as one ASGI app."""
    both = sandbox or Sandbox()
    ticket = "/v1/tickets/{ticket_id}"

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await both.deliveries.close()

    return Starlette(
        routes=[
            Route(ticket, both.party(both.get_ticket)),
            Route(ticket + "/messages", both.party(both.get_messages)),
            Route(ticket + "/messages/{message_id}", both.party(both.get_message)),
            Route(ticket + "/activities", both.party(both.get_activities)),
            *(Route(f"{ticket}/{name}", both.party(both.change), methods=["POST"]) for name in EFFECTS),
            Route("/shop/orders/{number}", both.party(both.get_order)),
            Route("/sandbox/tickets", both.open_ticket, methods=["POST"]),
            Route("/sandbox/tickets/{ticket_id}/messages", both.hear, methods=["POST"]),
            Route("/sandbox/orders", both.take_order, methods=["POST"]),
            Route("/sandbox/faults", both.set_faults, methods=["POST"]),
            Route("/sandbox/webhook", both.point, methods=["POST"]),
            Route("/sandbox/ledger", both.get_ledger),
            Route("/sandbox/deliveries", both.get_deliveries),
        ],
        lifespan=lifespan,
    )


def _found(body: dict[str, Any]) -> Response:
    return JSONResponse(body)


def _missing() -> Response:
    return JSONResponse({"error": "not found"}, status_code=404)
