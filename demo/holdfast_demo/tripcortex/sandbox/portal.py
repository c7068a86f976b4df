"""A sandbox of a travel portal, over real HTTP: flights, prices, expiring offers, failing payments, faults.

    POST /v1/searches               flights between airports on a day
    GET  /v1/offers/{id}            an offer at its current price; 410 offer_expired
    POST /v1/orders                 buy: 402 payment_failed, 409 price_changed or sold_out, 410 offer_expired
    GET  /v1/orders?reference=R     the orders under a reference, oldest first
    POST /v1/orders/{id}/cancel     void within a day of the booking, else with a fee
    GET  /flights                   the page of a fallback link
    GET  /                          the ledger as a page

Calls to /v1 send the API key as `x-api-key`. **Nothing is deduplicated**: the same reference twice is bought
twice, unless the portal `knows_keys`; then an `idempotency-key` with an order is answered with
that order. A payment fails for the payment `declined-account`, for a traveller whose id ends in `-declined`,
and for those set below. `portal_timetable` documents the fares. Control endpoints for tests and demos:

    POST /sandbox/faults    fault rates, and `slow_s` before each answer; the next `late_orders` orders get no
                            answer, and each is sold `late_s` later, after the client gave up
    POST /sandbox/outage    {"is_down": true}: every call of /v1 is a 503 until it is false
    POST /sandbox/payments  {"declined": ["emp-7"]}: travellers whose payments fail
    POST /sandbox/prices    {"factor": "1.25"}: multiplies all prices from now on
    GET  /sandbox/ledger    every order and cancellation, oldest first

The ledger outlives the process; so do offers, because their ids encode them.
"""

from __future__ import annotations

import hmac
import html
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.web.bodies import JsonBody
from holdfast.web.sandbox_faults import (
    ERROR_HANDLERS,
    ControlBody,
    Faults,
    FaultsBody,
    apply_faults,
)
from holdfast_demo.tripcortex.sandbox.portal_ledger import Entry, PortalLedger
from holdfast_demo.tripcortex.sandbox.portal_timetable import (
    CENT,
    NotFlown,
    Timetable,
    TripRequest,
    get_airport,
    parse_offer_id,
)
from tripcortex.integrations.portal import ports
from tripcortex.integrations.portal.ports import Offer, Order
from tripcortex.model.entities import Cabin

M = TypeVar("M", bound=BaseModel)
Endpoint = Callable[[Request], Awaitable[Response]]

DECLINED_PAYMENT: Final = "declined-account"
DECLINED_SUFFIX: Final = "-declined"
SEATS: Final = 180
# Flights are sold at most this far ahead.
MAX_DAYS_AHEAD: Final = 360
MAX_AIRPORTS: Final = 5
HTTP_STATUSES: Final = {
    ports.OFFER_EXPIRED: 410,
    ports.PRICE_CHANGED: 409,
    ports.PAYMENT_FAILED: 402,
    ports.SOLD_OUT: 409,
    ports.UNKNOWN_OFFER: 404,
    ports.UNKNOWN_ORDER: 404,
    ports.NOT_FLOWN: 422,
    ports.INVALID_REQUEST: 400,
}


class PortalRefused(Exception):
    """A refusal. `code` is one of `ports.CODES`; `more` are further fields of the answer."""

    def __init__(self, code: str, **more: str) -> None:
        super().__init__(code)
        self.code, self.more = code, more


class PortalFaultsBody(FaultsBody):
    """Faults, and how many of the next orders are answered 504 and sold `late_s` seconds later."""

    late_orders: int = Field(default=0, ge=0)
    late_s: float = Field(default=30.0, ge=0, le=86_400)


class OutageBody(ControlBody):
    is_down: bool


class PaymentsBody(ControlBody):
    declined: list[str]


class PricesBody(ControlBody):
    factor: Decimal = Field(gt=0, le=100)


class SearchBody(ControlBody):
    origins: list[str] = Field(min_length=1, max_length=MAX_AIRPORTS)
    destinations: list[str] = Field(min_length=1, max_length=MAX_AIRPORTS)
    departure_date: date
    return_date: date | None = None
    cabin: Cabin = Cabin.economy
    nonstop: bool = False


class OrderBody(ControlBody):
    reference: str = Field(pattern=ports.REFERENCE)
    offer_id: ports.Id
    price_usd: Decimal = Field(gt=0)
    traveller_id: str = Field(min_length=1, max_length=ports.MAX_TRAVELLER_CHARS)
    payment: str = Field(min_length=1, max_length=100)


@dataclass
class PortalSandbox:
    """The portal's state and endpoints. Each flight has `seats` seats.

    Without an `api_key` all calls are accepted. With `price_step_s` 0 prices are constant.
    """

    clock: Clock = SYSTEM_CLOCK
    folder: Path | None = None
    api_key: str = ""
    seed: int = 0
    price_step_s: float = 900.0
    offer_life_s: float = 3600.0
    seats: int = SEATS
    faults: Faults = field(default_factory=Faults)
    late_orders: int = 0
    late_s: float = 30.0
    knows_keys: bool = False
    is_down: bool = False
    declined: set[str] = field(default_factory=set)
    price_factor: Decimal = Decimal(1)

    def __post_init__(self) -> None:
        self.timetable = Timetable(self.seed, self.price_step_s, self.offer_life_s)
        self.orders = PortalLedger(self.clock, self.folder)
        self._late_orders: list[tuple[float, OrderBody]] = []

    @property
    def ledger(self) -> list[Entry]:
        """Return every `order` and `cancellation`, each with its reference."""
        self._sell_due_orders()
        return self.orders.entries

    # --- the portal's API -----------------------------------------------------------------------------------

    async def post_search(self, request: Request) -> Response:
        """Answer the available offers of all pairs of airports."""
        body = await _read_body(SearchBody, request)
        trips = self._build_trip_requests(body)
        now = self.clock.now()
        found = [
            self._apply_price_factor(each) for trip in trips for each in self.timetable.list_offers(trip, now)
        ]
        offers = [each for each in found if self._is_available(each, nonstop=body.nonstop)]
        return JSONResponse({"offers": [_dump_offer(each) for each in offers]})

    async def get_offer(self, request: Request) -> Response:
        """Answer an offer at its current price."""
        return JSONResponse(_dump_offer(self._load_offer(request.path_params["offer_id"])))

    async def post_order(self, request: Request) -> Response:
        """Sell the offer (201), or answer the order of a known idempotency key (200).

        A late order is answered 504 now and sold `late_s` seconds later.
        """
        body = await _read_body(OrderBody, request)
        if self.late_orders:
            self.late_orders -= 1
            self._late_orders.append((self.clock.now() + self.late_s, body))
            return JSONResponse({"error": "no answer in time"}, status_code=504)
        known = self._find_by_key(request.headers.get("idempotency-key", ""))
        order = known or self._sell(body)
        return JSONResponse(order.model_dump(mode="json"), status_code=200 if known else 201)

    async def get_orders(self, request: Request) -> Response:
        """Answer the orders under the parameter `reference`, oldest first."""
        found = self.orders.find_orders(request.query_params.get("reference", ""))
        return JSONResponse({"orders": [each.model_dump(mode="json") for each in found]})

    async def post_cancellation(self, request: Request) -> Response:
        """Cancel the order in the path. Raise `PortalRefused` (unknown_order) if it does not exist."""
        ended = self.orders.cancel(request.path_params["order_id"])
        if ended is None:
            raise PortalRefused(ports.UNKNOWN_ORDER)
        return JSONResponse(ended.model_dump(mode="json"))

    def _build_trip_requests(self, body: SearchBody) -> list[TripRequest]:
        """Return a trip request for each pair of different airports.

        Raise `PortalRefused` (not_flown) for an unknown airport or a date that is past, reversed or too far
        ahead.
        """
        pairs = [(start, end) for start in body.origins for end in body.destinations if start != end]
        if not pairs or (body.return_date is not None and body.return_date < body.departure_date):
            raise PortalRefused(ports.NOT_FLOWN)
        try:
            today = min(self._get_local_date(start) for start, _ in pairs)
            for _, end in pairs:
                get_airport(end)
        except NotFlown:
            raise PortalRefused(ports.NOT_FLOWN) from None
        last = body.return_date or body.departure_date
        if body.departure_date < today or last > today + timedelta(days=MAX_DAYS_AHEAD):
            raise PortalRefused(ports.NOT_FLOWN)
        return [
            TripRequest(start, end, body.departure_date, body.return_date, body.cabin) for start, end in pairs
        ]

    def _get_local_date(self, origin: str) -> date:
        """Return today's date at the airport."""
        return self._now().astimezone(get_airport(origin).zone).date()

    def _is_available(self, offer: Offer, *, nonstop: bool) -> bool:
        """Return whether the offer is still to depart, has seats left, and is nonstop if that is wanted."""
        is_to_come = offer.outbound[0].departs_at > self._now()
        return is_to_come and self.orders.count_sold(offer) < self.seats and not (nonstop and offer.stops)

    def _load_offer(self, offer_id: str) -> Offer:
        """Return the offer at its current price.

        Raise `PortalRefused`: unknown_offer for an unknown id, offer_expired for an expired offer.
        """
        known = parse_offer_id(offer_id)
        now = self.clock.now()
        if known is None or known[3] > now:
            raise PortalRefused(ports.UNKNOWN_OFFER)
        trip, carrier, departure, since = known
        if now >= since + self.offer_life_s:
            raise PortalRefused(ports.OFFER_EXPIRED)
        return self._apply_price_factor(self.timetable.get_offer(trip, carrier, departure, since, now))

    def _apply_price_factor(self, offer: Offer) -> Offer:
        """Return the offer with its price multiplied by the control endpoint's factor, in whole cents."""
        if self.price_factor == 1:
            return offer
        price = (offer.price_usd * self.price_factor).quantize(CENT, ROUND_HALF_UP)
        return offer.model_copy(update={"price_usd": price})

    def _sell(self, body: OrderBody) -> Order:
        """Sell the offer and record the order, without awaiting in between.

        Raise `PortalRefused` if it is expired, sold out, its price has changed, or the payment is declined.
        """
        offer = self._load_offer(body.offer_id)
        if self.orders.count_sold(offer) >= self.seats:
            raise PortalRefused(ports.SOLD_OUT)
        if offer.price_usd != body.price_usd:
            raise PortalRefused(ports.PRICE_CHANGED, price_usd=str(offer.price_usd))
        is_declined = body.traveller_id.endswith(DECLINED_SUFFIX) or body.traveller_id in self.declined
        if is_declined or body.payment == DECLINED_PAYMENT:
            raise PortalRefused(ports.PAYMENT_FAILED)
        return self.orders.sell(body.reference, offer, body.traveller_id)

    def _find_by_key(self, key: str) -> Order | None:
        """Return the first order under the idempotency key; None unless the portal `knows_keys`."""
        return next(iter(self.orders.find_orders(key)), None) if self.knows_keys else None

    def _sell_due_orders(self) -> None:
        """Sell the late orders that are due.

        Called before every access, so the time of the sale cannot be observed.
        """
        due = [body for at, body in self._late_orders if at <= self.clock.now()]
        self._late_orders = [each for each in self._late_orders if each[0] > self.clock.now()]
        for body in due:
            # No client waits for the answer, so a refusal is dropped.
            with suppress(PortalRefused):
                if self._find_by_key(body.reference) is None:
                    self._sell(body)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now(), UTC)

    # --- pages ----------------------------------------------------------------------------------------------

    async def get_flights_page(self, request: Request) -> Response:
        """Answer the page of a fallback link, with its parameters."""
        items = "".join(
            f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>"
            for name, value in request.query_params.items()
        )
        return HTMLResponse(_build_page("Flights", f"<p>Log in to book this trip.</p><dl>{items}</dl>"))

    async def get_ledger_page(self, request: Request) -> Response:
        """Answer the ledger as an HTML table."""
        rows = "".join(
            f"<tr><td>{each['number']}</td><td>{each['what']}</td><td>{html.escape(each['reference'])}</td>"
            f"<td>{html.escape(each['at'])}</td></tr>"
            for each in self.ledger
        )
        head = "<tr><th>number</th><th>what</th><th>reference</th><th>at</th></tr>"
        return HTMLResponse(_build_page("Ledger of the sandbox portal", f"<table>{head}{rows}</table>"))

    # --- control endpoints ----------------------------------------------------------------------------------

    async def set_faults(self, request: Request) -> Response:
        """Replace all faults, slowness and late orders by the body's."""
        body = await JsonBody(PortalFaultsBody)(request)
        self.late_orders, self.late_s, self.faults = body.late_orders, body.late_s, body.to_faults()
        return JSONResponse({})

    async def set_outage(self, request: Request) -> Response:
        self.is_down = (await JsonBody(OutageBody)(request)).is_down
        return JSONResponse({})

    async def set_payments(self, request: Request) -> Response:
        """Replace the travellers whose payments fail."""
        self.declined = set((await JsonBody(PaymentsBody)(request)).declined)
        return JSONResponse({})

    async def set_prices(self, request: Request) -> Response:
        self.price_factor = (await JsonBody(PricesBody)(request)).factor
        return JSONResponse({})

    async def get_ledger(self, request: Request) -> Response:
        return JSONResponse({"ledger": self.ledger})

    # --- authentication and faults --------------------------------------------------------------------------

    def guard(self, endpoint: Endpoint, *, changes: bool = False) -> Endpoint:
        """Return the endpoint behind API key, slowness, outage and faults.

        `changes`: it changes the portal's state. Unauthenticated calls are refused before any fault.
        """

        async def answered(request: Request) -> Response:
            given = request.headers.get("x-api-key", "").encode(errors="replace")
            if self.api_key and not hmac.compare_digest(given, self.api_key.encode()):
                return JSONResponse({"error": "unauthorized"}, status_code=401)
            if self.is_down:
                return JSONResponse({"error": "maintenance"}, status_code=503)
            return await apply_faults(
                self.faults, self.clock.now(), changes, lambda: self._call_endpoint(endpoint, request)
            )

        return answered

    async def _call_endpoint(self, endpoint: Endpoint, request: Request) -> Response:
        """Call the endpoint; answer a refusal as a response, so that faults apply to it too."""
        self._sell_due_orders()
        try:
            return await endpoint(request)
        except PortalRefused as refused:
            return await _build_refusal(request, refused)


def build_portal_app(sandbox: PortalSandbox) -> Starlette:
    """Return the ASGI app: the guarded API under /v1, the pages, and the control endpoints."""
    return Starlette(
        routes=[
            Route("/v1/searches", sandbox.guard(sandbox.post_search), methods=["POST"]),
            Route("/v1/offers/{offer_id}", sandbox.guard(sandbox.get_offer)),
            Route("/v1/orders", sandbox.guard(sandbox.post_order, changes=True), methods=["POST"]),
            Route("/v1/orders", sandbox.guard(sandbox.get_orders)),
            Route(
                "/v1/orders/{order_id}/cancel",
                sandbox.guard(sandbox.post_cancellation, changes=True),
                methods=["POST"],
            ),
            Route("/flights", sandbox.get_flights_page),
            Route("/", sandbox.get_ledger_page),
            Route("/sandbox/faults", sandbox.set_faults, methods=["POST"]),
            Route("/sandbox/outage", sandbox.set_outage, methods=["POST"]),
            Route("/sandbox/payments", sandbox.set_payments, methods=["POST"]),
            Route("/sandbox/prices", sandbox.set_prices, methods=["POST"]),
            Route("/sandbox/ledger", sandbox.get_ledger),
        ],
        exception_handlers={PortalRefused: _build_refusal, **ERROR_HANDLERS},
    )


async def _build_refusal(_: Request, error: Exception) -> Response:
    """Answer a `PortalRefused` with its status and its code as JSON."""
    assert isinstance(error, PortalRefused)
    return JSONResponse({"error": error.code, **error.more}, status_code=HTTP_STATUSES[error.code])


async def _read_body(kind: type[M], request: Request) -> M:
    """Return the body as a model. Raise `PortalRefused` (invalid_request) with the invalid fields."""
    try:
        return await JsonBody(kind)(request)
    except ValidationError as error:
        faults = error.errors(include_input=False, include_url=False, include_context=False)
        where = "; ".join(
            f"{'.'.join(map(str, each['loc'])) or 'the body'}: {each['msg']}" for each in faults
        )
        raise PortalRefused(ports.INVALID_REQUEST, where=where) from None


def _dump_offer(offer: Offer) -> dict[str, Any]:
    return offer.model_dump(mode="json")


def _build_page(title: str, body: str) -> str:
    return f"<!doctype html><html lang='en'><title>{title}</title><h1>{title}</h1>{body}</html>"
