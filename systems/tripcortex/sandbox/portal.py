"""A stand-in for a travel portal, over real HTTP: flights, prices that move, offers that end, payments that fail, faults.

    POST /v1/searches               what is flown between airports on a day
    GET  /v1/offers/{id}            an offer at what it costs now; 410 offer_expired
    POST /v1/orders                 buys: 402 payment_failed, 409 price_changed or sold_out, 410 offer_expired
    GET  /v1/orders?reference=R     what was bought under a reference, the oldest first
    POST /v1/orders/{id}/cancel     void within a day of the booking, else with a fee
    GET  /flights                   the page that a fallback link leads to
    GET  /                          the ledger as a page

Who calls /v1 sends the API key as `x-api-key`. **Nothing is deduplicated**: the same reference twice is bought twice, unless the
portal `knows_keys`; then an `idempotency-key` that was bought under is answered with that order. A payment
fails for the payment `declined-account`, for a traveller whose id ends in `-declined`, and for those named at the door below.
How fares are made and move stands in `portal_flights`. Doors for tests and demos:

    POST /sandbox/faults    shares of what goes wrong, and `slow_s` before each answer; of the next `late_orders` nothing is heard, and
                            each is sold `late_s` later, when nobody waits any more
    POST /sandbox/outage    {"is_down": true}: every call of /v1 is a 503 until it is false
    POST /sandbox/payments  {"declined": ["emp-7"]}: whose payments fail
    POST /sandbox/prices    {"factor": "1.25"}: all prices from now on
    GET  /sandbox/ledger    every order and cancellation, the oldest first

The ledger outlives the process; so do offers, whose ids say what they are of.
"""

from __future__ import annotations

import asyncio
import hmac
import html
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.web.sandboxes import WHO_DIED, Door, Faults, FaultsTold, faulted
from tripcortex.model import Cabin
from tripcortex.portal import ports
from tripcortex.portal.ports import Offer, Order
from tripcortex.sandbox.portal_flights import CENT, Asked, Timetable, Unflown, airport, read_offer_id
from tripcortex.sandbox.portal_ledger import Entry, PortalLedger

M = TypeVar("M", bound=BaseModel)
Endpoint = Callable[[Request], Awaitable[Response]]

DECLINED_PAYMENT: Final = "declined-account"
DECLINED_SUFFIX: Final = "-declined"
SEATS: Final = 180
# So far ahead flights are sold.
DAYS_AHEAD_MAX: Final = 360
AIRPORTS_MAX: Final = 5
STATUS_OF: Final = {
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
    """`code` is one of `ports.CODES`; `more` stands beside it in the answer."""

    def __init__(self, code: str, **more: str) -> None:
        super().__init__(code)
        self.code, self.more = code, more


class PortalFaultsTold(FaultsTold):
    late_orders: int = Field(default=0, ge=0)
    late_s: float = Field(default=30.0, ge=0, le=86_400)


class OutageTold(Door):
    is_down: bool


class PaymentsTold(Door):
    declined: list[str]


class PricesTold(Door):
    factor: Decimal = Field(gt=0, le=100)


class SearchAsked(Door):
    origins: list[str] = Field(min_length=1, max_length=AIRPORTS_MAX)
    destinations: list[str] = Field(min_length=1, max_length=AIRPORTS_MAX)
    departure_date: date
    return_date: date | None = None
    cabin: Cabin = Cabin.economy
    nonstop: bool = False


class OrderAsked(Door):
    reference: str = Field(pattern=ports.REFERENCE)
    offer_id: ports.Id
    price_usd: Decimal = Field(gt=0)
    traveller_id: str = Field(min_length=1, max_length=ports.TRAVELLER_CHARS_MAX)
    payment: str = Field(min_length=1, max_length=100)


@dataclass
class PortalSandbox:
    """Without an `api_key` anybody may call. Prices stand with `price_step_s` 0; a flight has `seats`."""

    clock: Clock = SYSTEM_CLOCK
    folder: Path | None = None
    api_key: str = ""
    seed: int = 0
    price_step_s: float = 900.0
    offer_life_s: float = 3600.0
    seats: int = SEATS
    faults: Faults = field(default_factory=Faults)
    slow_s: float = 0.0
    late_orders: int = 0
    late_s: float = 30.0
    knows_keys: bool = False
    is_down: bool = False
    declined: set[str] = field(default_factory=set)
    price_factor: Decimal = Decimal(1)

    def __post_init__(self) -> None:
        self.timetable = Timetable(self.seed, self.price_step_s, self.offer_life_s)
        self.orders = PortalLedger(self.clock, self.folder)
        self._late: list[tuple[float, OrderAsked]] = []

    @property
    def ledger(self) -> list[Entry]:
        """Every effect: `order` and `cancellation`, each with its reference."""
        self._sell_late()
        return self.orders.entries

    # --- as the portal ---------------------------------------------------------------------------------------

    async def search(self, request: Request) -> Response:
        asked = _read(SearchAsked, await _json(request))
        trips = self._trips(asked)
        now = self.clock.now()
        found = [self._as_now(each) for trip in trips for each in self.timetable.offers(trip, now)]
        offers = [each for each in found if self._may_be_bought(each, nonstop=asked.nonstop)]
        return JSONResponse({"offers": [_dumped(each) for each in offers]})

    async def offer(self, request: Request) -> Response:
        return JSONResponse(_dumped(self._offer(request.path_params["offer_id"])))

    async def order(self, request: Request) -> Response:
        asked = _read(OrderAsked, await _json(request))
        if self.late_orders:
            self.late_orders -= 1
            self._late.append((self.clock.now() + self.late_s, asked))
            return JSONResponse({"error": "no answer in time"}, status_code=504)
        known = self._known(request.headers.get("idempotency-key", ""))
        order = known or self._sold(asked)
        return JSONResponse(order.model_dump(mode="json"), status_code=200 if known else 201)

    async def orders_under(self, request: Request) -> Response:
        found = self.orders.under(request.query_params.get("reference", ""))
        return JSONResponse({"orders": [each.model_dump(mode="json") for each in found]})

    async def cancel(self, request: Request) -> Response:
        ended = self.orders.cancel(request.path_params["order_id"])
        if ended is None:
            raise PortalRefused(ports.UNKNOWN_ORDER)
        return JSONResponse(ended.model_dump(mode="json"))

    def _trips(self, asked: SearchAsked) -> list[Asked]:
        pairs = [(start, end) for start in asked.origins for end in asked.destinations if start != end]
        if not pairs or (asked.return_date is not None and asked.return_date < asked.departure_date):
            raise PortalRefused(ports.NOT_FLOWN)
        try:
            today = min(self._today(start) for start, _ in pairs)
            for _, end in pairs:
                airport(end)
        except Unflown:
            raise PortalRefused(ports.NOT_FLOWN) from None
        last = asked.return_date or asked.departure_date
        if asked.departure_date < today or last > today + timedelta(days=DAYS_AHEAD_MAX):
            raise PortalRefused(ports.NOT_FLOWN)
        return [
            Asked(start, end, asked.departure_date, asked.return_date, asked.cabin) for start, end in pairs
        ]

    def _today(self, origin: str) -> date:
        return self._now().astimezone(airport(origin).zone).date()

    def _may_be_bought(self, offer: Offer, *, nonstop: bool) -> bool:
        is_to_come = offer.outbound[0].departs_at > self._now()
        return is_to_come and self.orders.sold(offer) < self.seats and not (nonstop and offer.stops)

    def _offer(self, offer_id: str) -> Offer:
        """As it is now. What is over is told apart from what never was."""
        known = read_offer_id(offer_id)
        now = self.clock.now()
        if known is None or known[3] > now:
            raise PortalRefused(ports.UNKNOWN_OFFER)
        trip, carrier, departure, since = known
        if now >= since + self.offer_life_s:
            raise PortalRefused(ports.OFFER_EXPIRED)
        return self._as_now(self.timetable.offer(trip, carrier, departure, since, now))

    def _as_now(self, offer: Offer) -> Offer:
        if self.price_factor == 1:
            return offer
        price = (offer.price_usd * self.price_factor).quantize(CENT, ROUND_HALF_UP)
        return offer.model_copy(update={"price_usd": price})

    def _sold(self, asked: OrderAsked) -> Order:
        """Nothing awaits from the first check to the sale."""
        offer = self._offer(asked.offer_id)
        if self.orders.sold(offer) >= self.seats:
            raise PortalRefused(ports.SOLD_OUT)
        if offer.price_usd != asked.price_usd:
            raise PortalRefused(ports.PRICE_CHANGED, price_usd=str(offer.price_usd))
        is_declined = asked.traveller_id.endswith(DECLINED_SUFFIX) or asked.traveller_id in self.declined
        if is_declined or asked.payment == DECLINED_PAYMENT:
            raise PortalRefused(ports.PAYMENT_FAILED)
        return self.orders.sell(asked.reference, offer, asked.traveller_id)

    def _known(self, key: str) -> Order | None:
        return next(iter(self.orders.under(key)), None) if self.knows_keys else None

    def _sell_late(self) -> None:
        """What was taken and is due by now, whoever looks: nobody can tell when it was sold."""
        due = [asked for at, asked in self._late if at <= self.clock.now()]
        self._late = [each for each in self._late if each[0] > self.clock.now()]
        for asked in due:
            # Refused now, it is nothing that anybody is told.
            with suppress(PortalRefused):
                if self._known(asked.reference) is None:
                    self._sold(asked)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now(), UTC)

    # --- its pages -------------------------------------------------------------------------------------------

    async def flights_page(self, request: Request) -> Response:
        told = "".join(
            f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>"
            for name, value in request.query_params.items()
        )
        return HTMLResponse(_page("Flights", f"<p>Log in to book this trip.</p><dl>{told}</dl>"))

    async def ledger_page(self, request: Request) -> Response:
        rows = "".join(
            f"<tr><td>{each['number']}</td><td>{each['what']}</td><td>{html.escape(each['reference'])}</td>"
            f"<td>{html.escape(each['at'])}</td></tr>"
            for each in self.ledger
        )
        head = "<tr><th>number</th><th>what</th><th>reference</th><th>at</th></tr>"
        return HTMLResponse(_page("Ledger of the sandbox portal", f"<table>{head}{rows}</table>"))

    # --- how it is driven ------------------------------------------------------------------------------------

    async def set_faults(self, request: Request) -> Response:
        told = _read(PortalFaultsTold, await _json(request))
        self.slow_s, self.late_orders, self.late_s = told.slow_s, told.late_orders, told.late_s
        self.faults = told.faults()
        return JSONResponse({})

    async def set_outage(self, request: Request) -> Response:
        self.is_down = _read(OutageTold, await _json(request)).is_down
        return JSONResponse({})

    async def set_payments(self, request: Request) -> Response:
        self.declined = set(_read(PaymentsTold, await _json(request)).declined)
        return JSONResponse({})

    async def set_prices(self, request: Request) -> Response:
        self.price_factor = _read(PricesTold, await _json(request)).factor
        return JSONResponse({})

    async def get_ledger(self, request: Request) -> Response:
        return JSONResponse({"ledger": self.ledger})

    # --- who may, and what goes wrong ------------------------------------------------------------------------

    def guarded(self, endpoint: Endpoint, *, changes: bool = False) -> Endpoint:
        """Who does not prove itself is refused before anything goes wrong."""

        async def answered(request: Request) -> Response:
            given = request.headers.get("x-api-key", "").encode(errors="replace")
            if self.api_key and not hmac.compare_digest(given, self.api_key.encode()):
                return JSONResponse({"error": "unauthorized"}, status_code=401)
            if self.slow_s:
                await asyncio.sleep(self.slow_s)
            self._sell_late()
            if self.is_down:
                return JSONResponse({"error": "maintenance"}, status_code=503)
            return await faulted(self.faults, self.clock.now(), changes, lambda: _told(endpoint, request))

        return answered


def portal_app(sandbox: PortalSandbox) -> Starlette:
    return Starlette(
        routes=[
            Route("/v1/searches", sandbox.guarded(sandbox.search), methods=["POST"]),
            Route("/v1/offers/{offer_id}", sandbox.guarded(sandbox.offer)),
            Route("/v1/orders", sandbox.guarded(sandbox.order, changes=True), methods=["POST"]),
            Route("/v1/orders", sandbox.guarded(sandbox.orders_under)),
            Route(
                "/v1/orders/{order_id}/cancel",
                sandbox.guarded(sandbox.cancel, changes=True),
                methods=["POST"],
            ),
            Route("/flights", sandbox.flights_page),
            Route("/", sandbox.ledger_page),
            Route("/sandbox/faults", sandbox.set_faults, methods=["POST"]),
            Route("/sandbox/outage", sandbox.set_outage, methods=["POST"]),
            Route("/sandbox/payments", sandbox.set_payments, methods=["POST"]),
            Route("/sandbox/prices", sandbox.set_prices, methods=["POST"]),
            Route("/sandbox/ledger", sandbox.get_ledger),
        ],
        exception_handlers={PortalRefused: _refused, **WHO_DIED},
    )


async def _told(endpoint: Endpoint, request: Request) -> Response:
    try:
        return await endpoint(request)
    except PortalRefused as refused:
        return await _refused(request, refused)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, PortalRefused)
    return JSONResponse({"error": error.code, **error.more}, status_code=STATUS_OF[error.code])


async def _json(request: Request) -> Any:
    try:
        return json.loads(await request.body())
    except (ValueError, RecursionError, ClientDisconnect):
        raise PortalRefused(ports.INVALID_REQUEST, where="the body is no JSON") from None


def _read(kind: type[M], body: Any) -> M:
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        faults = error.errors(include_input=False, include_url=False, include_context=False)
        where = "; ".join(
            f"{'.'.join(map(str, each['loc'])) or 'the body'}: {each['msg']}" for each in faults
        )
        raise PortalRefused(ports.INVALID_REQUEST, where=where) from None


def _dumped(offer: Offer) -> dict[str, Any]:
    return offer.model_dump(mode="json")


def _page(title: str, body: str) -> str:
    return f"<!doctype html><html lang='en'><title>{title}</title><h1>{title}</h1>{body}</html>"
