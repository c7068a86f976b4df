"""A travel portal with an API, over HTTP: one call at a time, and what its failure means.

    POST /v1/searches                 what is flown
    GET  /v1/offers/{id}              an offer at what it costs now
    POST /v1/orders                   buys, under our reference; it is the `idempotency-key` too, for a portal that knows one
    GET  /v1/orders?reference=R       what was bought under it
    POST /v1/orders/{id}/cancel       ends it

A refusal names its reason by a code (`ports.CODES`), and that alone is told on: a portal's own words may be about a traveller.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeVar
from urllib.parse import quote

import httpx2
from pydantic import ValidationError

from holdfast import open_secrets
from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.errors import NotFound, PartyFailed, PartyRefused, SettingsError
from holdfast.web.parties import REFUSALS, WAITED, Answer, Party, member
from holdfast.web.party_addresses import party_address
from tripcortex.model import Preferences, TripParameters
from tripcortex.portal import ports
from tripcortex.portal.ports import Cancellation, Offer, Order, Told, Traveller
from tripcortex.settings import TripCortexSettings, variable_of

T = TypeVar("T", bound=Told)

NAME: Final = "The travel portal"
URL_VARIABLE: Final = variable_of("portal_url")
API_KEY: Final = "tripcortex/portal-key"
SEARCHES: Final = "/v1/searches"
OFFERS: Final = "/v1/offers"
ORDERS: Final = "/v1/orders"
# How long the portal has to make a purchase that it was sent.
ACT_S: Final = 20.0
# Given up before that, so that a portal that hangs is a failure and counts as one.
ANSWER_S: Final = 10.0
CONNECT_S: Final = 3.0
CONNECTIONS_MAX: Final = 64
TOO_MANY: Final = 429
NO_CREDENTIALS: Final = frozenset({401, 403})
PAYMENT_REQUIRED: Final = 402
FOR_GOOD: Final = REFUSALS | {PAYMENT_REQUIRED}
# Of the airports of a city, so many are asked for.
AIRPORTS_MAX: Final = 5
# All are told in our words; a 429 has none of the portal's.
TOLD_BY_US: Final = frozenset(range(400, 500)) - {TOO_MANY}
SAID: Final = {
    ports.OFFER_EXPIRED: "the offer has expired; search again",
    ports.PRICE_CHANGED: "the price has changed; price the offer again",
    ports.PAYMENT_FAILED: "the payment failed; see to the company's account there",
    ports.SOLD_OUT: "the flight is sold out; choose another",
    ports.UNKNOWN_OFFER: "it knows no such offer; search again",
    ports.UNKNOWN_ORDER: "it knows no such order",
    ports.ORDER_CANCELLED: "it was bought there and has been cancelled; ask for the trip anew",
    ports.NOT_FLOWN: "nothing is flown between these places on that day; choose others",
    ports.INVALID_REQUEST: "it cannot read the request",
}


@dataclass(frozen=True)
class HttpPortal:
    """The port over HTTP. The client knows the address and the API key."""

    http: httpx2.AsyncClient
    clock: Clock = SYSTEM_CLOCK
    answer_s: float = ANSWER_S
    act_s: float = ACT_S

    async def search(self, parameters: TripParameters, preferences: Preferences) -> tuple[Offer, ...]:
        answer = await self._asked("POST", SEARCHES, json=searched(parameters, preferences), changes=False)
        offers = [read_told(Offer, each, changes=False) for each in member(answer.body, "offers", list, NAME)]
        return tuple(sorted(offers, key=lambda offer: (offer.price_usd, offer.offer_id)))

    async def price(self, offer_id: str) -> Offer:
        answer = await self._asked("GET", f"{OFFERS}/{quote(offer_id, safe='')}", changes=False)
        return read_told(Offer, answer.body, changes=False)

    async def book(self, reference: str, offer_id: str, traveller: Traveller, price_usd: Decimal) -> Order:
        told = {
            "reference": reference,
            "offer_id": offer_id,
            "price_usd": str(price_usd),
            "traveller_id": traveller.traveller_id,
            "payment": traveller.payment,
        }
        key = {"idempotency-key": reference}
        answer = await self._asked("POST", ORDERS, json=told, headers=key, changes=True)
        order = read_told(Order, answer.body, changes=True)
        if order.reference != reference:
            # Somebody else's order must never be taken for this one's.
            raise nonsense("the order is about another reference", may_be_done=True)
        return order

    async def look_up(self, reference: str) -> tuple[Order, ...]:
        answer = await self._asked("GET", ORDERS, params={"reference": reference}, changes=False)
        return read_orders(answer.body, reference)

    async def cancel(self, order: Order) -> Cancellation:
        path = f"{ORDERS}/{quote(order.order_id, safe='')}/cancel"
        answer = await self._asked("POST", path, changes=True)
        return read_told(Cancellation, answer.body, changes=True)

    async def _asked(
        self,
        method: str,
        path: str,
        *,
        changes: bool,
        json: Any = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        party = Party(self.http, NAME, self.clock, answer_s=self.answer_s)
        told: dict[str, Any] = {"json": json, "params": params, "headers": headers}
        answer = await party.ask(method, path, **told, changes=changes, passes=TOLD_BY_US)
        if answer.status in TOLD_BY_US:
            raise _failure(answer, changes)
        return answer


@asynccontextmanager
async def open_portal(clock: Clock) -> AsyncIterator[HttpPortal]:
    """The portal that TRIPCORTEX_PORTAL_URL names, with the API key from the secrets. A sandbox may ask for none."""
    address = TripCortexSettings.load().portal_url
    if not address:
        raise SettingsError(
            f"Nobody says where the travel portal is: set {URL_VARIABLE} to its address, or to that of the sandbox."
        )
    try:
        address = party_address(address)
    except ValueError as error:
        raise SettingsError(f"{URL_VARIABLE} {error}.") from None
    async with make_client(address, _api_key()) as http:
        yield HttpPortal(http, clock)


def _api_key() -> str:
    try:
        return open_secrets().get(API_KEY).current
    except NotFound:
        return ""


def make_client(address: str, api_key: str) -> httpx2.AsyncClient:
    """Close it when done. A redirect is not followed: what goes out is for that address alone."""
    return httpx2.AsyncClient(
        base_url=address,
        headers={"accept": "application/json", "user-agent": "tripcortex", "x-api-key": api_key},
        timeout=httpx2.Timeout(None, connect=CONNECT_S, pool=CONNECT_S),
        limits=httpx2.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_MAX),
        follow_redirects=False,
    )


def searched(parameters: TripParameters, preferences: Preferences) -> dict[str, Any]:
    """What a portal is asked for: airports, days and the cabin. Of the preferences, those that it can heed."""
    return {
        "origins": _few([parameters.origin, *preferences.origin_airports]),
        "destinations": _few([parameters.destination, *preferences.destination_airports]),
        "departure_date": parameters.departure_date.isoformat(),
        "return_date": parameters.return_date.isoformat() if parameters.return_date else None,
        "cabin": parameters.cabin_class.value,
        "nonstop": preferences.nonstop,
    }


def _few(airports: list[str]) -> list[str]:
    return list(dict.fromkeys(airports))[:AIRPORTS_MAX]


def refusal(code: str) -> PartyRefused:
    """A portal's refusal in our words."""
    why = SAID.get(code, "without a reason that is known here")
    return PartyRefused(code, f"{NAME} refuses it for good: {why}.")


def nonsense(why: str, *, may_be_done: bool) -> PartyFailed:
    return PartyFailed(f"{NAME} answers nonsense: {why}.", may_be_done=may_be_done)


def read_told(kind: type[T], body: Any, *, changes: bool) -> T:
    """An answer as it must be; anything else is nonsense, told without what stands in it."""
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        faults = error.errors(include_input=False, include_url=False, include_context=False)
        where = "; ".join(
            f"{'.'.join(map(str, each['loc'])) or 'the body'}: {each['msg']}" for each in faults
        )
        raise nonsense(where, may_be_done=changes) from None


def read_orders(body: Any, reference: str) -> tuple[Order, ...]:
    """All that a look-up found, the oldest first. Somebody else's order must never be taken for this one's."""
    orders = [read_told(Order, each, changes=False) for each in member(body, "orders", list, NAME)]
    if any(each.reference != reference for each in orders):
        raise nonsense("an order is about another reference", may_be_done=False)
    return tuple(sorted(orders, key=lambda order: (order.booked_at, order.order_id)))


def _failure(answer: Answer, changes: bool) -> Exception:
    status, code = answer.status, _code(answer.body)
    if status in NO_CREDENTIALS:
        text = f"{NAME} refuses the credentials with {status}: mend the API key."
        return PartyFailed(text, may_be_done=False)
    if code or status in FOR_GOOD:
        return refusal(code or str(status))
    return PartyFailed(f"{NAME} refuses for now with {status}.", may_be_done=changes and status in WAITED)


def _code(body: Any) -> str:
    """Only what is among the codes: any other name might be of somebody."""
    code = body.get("error") if isinstance(body, dict) else None
    return code if isinstance(code, str) and code in ports.CODES else ""
