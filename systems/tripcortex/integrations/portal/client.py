"""The `Portal` over HTTP, for a travel portal with an API, and the mapping of its failures to our errors.

    POST /v1/searches                 search offers
    GET  /v1/offers/{id}              an offer at its current price
    POST /v1/orders                   buy, with our reference, which is also sent as `idempotency-key`
    GET  /v1/orders?reference=R       the orders under a reference
    POST /v1/orders/{id}/cancel       cancel an order

A refusal carries a code (`ports.CODES`). Only the code is passed on: the portal's own text may contain
personal data.
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

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused, NotFound, SettingsError
from holdfast.runtime import open_secrets
from holdfast.web.external_addresses import validate_address
from holdfast.web.external_client import (
    PROXY_TIMEOUTS,
    REFUSALS,
    ExternalClient,
    ExternalResponse,
    read_field,
)
from tripcortex.integrations.portal import ports
from tripcortex.integrations.portal.ports import Cancellation, Offer, Order, PortalResponse, Traveller
from tripcortex.model.entities import Preferences, TripParameters
from tripcortex.settings import TripCortexSettings, get_variable_name

T = TypeVar("T", bound=PortalResponse)

NAME: Final = "The travel portal"
URL_VARIABLE: Final = get_variable_name("portal_url")
API_KEY: Final = "tripcortex/portal-key"
SEARCHES: Final = "/v1/searches"
OFFERS: Final = "/v1/offers"
ORDERS: Final = "/v1/orders"
# The time that the portal has to complete a purchase.
ACT_S: Final = 20.0
# Shorter than ACT_S, so that a portal that hangs counts as a failure.
ANSWER_S: Final = 10.0
CONNECT_S: Final = 3.0
MAX_CONNECTIONS: Final = 64
TOO_MANY_REQUESTS: Final = 429
CREDENTIAL_STATUSES: Final = frozenset({401, 403})
PAYMENT_REQUIRED: Final = 402
PERMANENT_STATUSES: Final = REFUSALS | {PAYMENT_REQUIRED}
# The maximum number of a city's airports in one search.
MAX_AIRPORTS: Final = 5
# Statuses that this client maps to its own errors; the library handles 429.
MAPPED_STATUSES: Final = frozenset(range(400, 500)) - {TOO_MANY_REQUESTS}
REFUSAL_TEXTS: Final = {
    ports.OFFER_EXPIRED: "the offer has expired; search again",
    ports.PRICE_CHANGED: "the price has changed; price the offer again",
    ports.PAYMENT_FAILED: "the payment failed; check the company's account at the portal",
    ports.SOLD_OUT: "the flight is sold out; choose another",
    ports.UNKNOWN_OFFER: "the offer is unknown; search again",
    ports.UNKNOWN_ORDER: "the order is unknown",
    ports.ORDER_CANCELLED: "the order was cancelled at the portal; request the trip again",
    ports.NOT_FLOWN: "there are no flights between these places on that day; choose others",
    ports.INVALID_REQUEST: "the request is invalid",
}


@dataclass(frozen=True)
class HttpPortal:
    """A `Portal` over HTTP. The HTTP client holds the address and the API key.

    Each call has `answer_s` seconds; a purchase may complete until `act_s` seconds after it was sent.
    """

    http: httpx2.AsyncClient
    clock: Clock = SYSTEM_CLOCK
    answer_s: float = ANSWER_S
    act_s: float = ACT_S

    async def search(self, parameters: TripParameters, preferences: Preferences) -> tuple[Offer, ...]:
        """Return the available offers, cheapest first."""
        answer = await self._request(
            "POST", SEARCHES, json=build_search(parameters, preferences), changes=False
        )
        offers = [
            parse_response(Offer, each, changes=False)
            for each in read_field(answer.body, "offers", list, NAME)
        ]
        return tuple(sorted(offers, key=lambda offer: (offer.price_usd, offer.offer_id)))

    async def price(self, offer_id: str) -> Offer:
        answer = await self._request("GET", f"{OFFERS}/{quote(offer_id, safe='')}", changes=False)
        return parse_response(Offer, answer.body, changes=False)

    async def book(self, reference: str, offer_id: str, traveller: Traveller, price_usd: Decimal) -> Order:
        """Buy the offer at exactly that price, with the reference as the idempotency key.

        Raise `ExternalServiceFailed` if the answer is an order under another reference.
        """
        order_request = {
            "reference": reference,
            "offer_id": offer_id,
            "price_usd": str(price_usd),
            "traveller_id": traveller.traveller_id,
            "payment": traveller.payment,
        }
        key = {"idempotency-key": reference}
        answer = await self._request("POST", ORDERS, json=order_request, headers=key, changes=True)
        order = parse_response(Order, answer.body, changes=True)
        if order.reference != reference:
            # Another booking's order must never be used for this one.
            raise build_invalid_response("the order has another reference", may_be_done=True)
        return order

    async def look_up(self, reference: str) -> tuple[Order, ...]:
        """Return all orders under the reference, oldest first."""
        answer = await self._request("GET", ORDERS, params={"reference": reference}, changes=False)
        return parse_orders(answer.body, reference)

    async def cancel(self, order: Order) -> Cancellation:
        path = f"{ORDERS}/{quote(order.order_id, safe='')}/cancel"
        answer = await self._request("POST", path, changes=True)
        return parse_response(Cancellation, answer.body, changes=True)

    async def _request(
        self,
        method: str,
        path: str,
        *,
        changes: bool,
        json: Any = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> ExternalResponse:
        """Send a request and return the response. `changes`: it has an effect at the portal.

        Raise `ExternalServiceRefused` for a permanent refusal, `ExternalServiceFailed` for any other failure.
        """
        service = ExternalClient(self.http, NAME, self.clock, timeout_s=self.answer_s)
        request: dict[str, Any] = {"json": json, "params": params, "headers": headers}
        answer = await service.request(
            method, path, **request, has_effect=changes, accepted_statuses=MAPPED_STATUSES
        )
        if answer.status in MAPPED_STATUSES:
            raise _build_failure(answer, changes)
        return answer


@asynccontextmanager
async def open_portal(clock: Clock) -> AsyncIterator[HttpPortal]:
    """Open the portal at TRIPCORTEX_PORTAL_URL with the API key from the secrets; a sandbox may need none.

    Raise `SettingsError` for a missing or invalid address.
    """
    address = TripCortexSettings.load().portal_url
    if not address:
        raise SettingsError(
            f"The travel portal has no address: set {URL_VARIABLE} to its address or to that of the sandbox."
        )
    try:
        address = validate_address(address)
    except ValueError as error:
        raise SettingsError(f"{URL_VARIABLE} {error}.") from None
    async with make_client(address, _load_api_key()) as http:
        yield HttpPortal(http, clock)


def _load_api_key() -> str:
    """Return the portal's API key, or an empty string if the secret does not exist."""
    try:
        return open_secrets().get(API_KEY).current
    except NotFound:
        return ""


def make_client(address: str, api_key: str) -> httpx2.AsyncClient:
    """Create the HTTP client; the caller closes it.

    Redirects are not followed: the data is for this address only.
    """
    return httpx2.AsyncClient(
        base_url=address,
        headers={"accept": "application/json", "user-agent": "tripcortex", "x-api-key": api_key},
        timeout=httpx2.Timeout(None, connect=CONNECT_S, pool=CONNECT_S),
        limits=httpx2.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS),
        follow_redirects=False,
    )


def build_search(parameters: TripParameters, preferences: Preferences) -> dict[str, Any]:
    """Return the search request: airports, dates, the cabin, and the preferences that a portal supports."""
    return {
        "origins": _limit_airports([parameters.origin, *preferences.origin_airports]),
        "destinations": _limit_airports([parameters.destination, *preferences.destination_airports]),
        "departure_date": parameters.departure_date.isoformat(),
        "return_date": parameters.return_date.isoformat() if parameters.return_date else None,
        "cabin": parameters.cabin_class.value,
        "nonstop": preferences.nonstop,
    }


def _limit_airports(airports: list[str]) -> list[str]:
    """Return the first five airports, each once."""
    return list(dict.fromkeys(airports))[:MAX_AIRPORTS]


def build_refusal(code: str) -> ExternalServiceRefused:
    """Return the error for a permanent refusal with this code, in our own words; the caller raises it."""
    why = REFUSAL_TEXTS.get(code, "for an unknown reason")
    return ExternalServiceRefused(code, f"{NAME} refused the request permanently: {why}.")


def build_invalid_response(why: str, *, may_be_done: bool) -> ExternalServiceFailed:
    """Return the error for an invalid response; the caller raises it.

    `may_be_done`: the call may have taken effect.
    """
    return ExternalServiceFailed(f"{NAME} sent an invalid response: {why}.", may_be_done=may_be_done)


def parse_response(kind: type[T], body: Any, *, changes: bool) -> T:
    """Parse a response body as this model. `changes`: the call had an effect, so it may be done.

    Raise `ExternalServiceFailed` if the body is invalid, without quoting its values.
    """
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        faults = error.errors(include_input=False, include_url=False, include_context=False)
        where = "; ".join(
            f"{'.'.join(map(str, each['loc'])) or 'the body'}: {each['msg']}" for each in faults
        )
        raise build_invalid_response(where, may_be_done=changes) from None


def parse_orders(body: Any, reference: str) -> tuple[Order, ...]:
    """Return the orders in a look-up's response, oldest first.

    Raise `ExternalServiceFailed` if one has another reference.
    """
    orders = [parse_response(Order, each, changes=False) for each in read_field(body, "orders", list, NAME)]
    if any(each.reference != reference for each in orders):
        raise build_invalid_response("an order has another reference", may_be_done=False)
    return tuple(sorted(orders, key=lambda order: (order.booked_at, order.order_id)))


def _build_failure(answer: ExternalResponse, changes: bool) -> Exception:
    """Return the error for a 4xx response; the caller raises it."""
    status, code = answer.status, _get_refusal_code(answer.body)
    if status in CREDENTIAL_STATUSES:
        text = f"{NAME} refused the credentials with {status}. Fix the API key."
        return ExternalServiceFailed(text, may_be_done=False)
    if code or status in PERMANENT_STATUSES:
        return build_refusal(code or str(status))
    return ExternalServiceFailed(
        f"{NAME} refused the request temporarily with {status}.",
        may_be_done=changes and status in PROXY_TIMEOUTS,
    )


def _get_refusal_code(body: Any) -> str:
    """Return the refusal's code if it is in `ports.CODES`, else empty.

    Any other text might contain personal data.
    """
    code = body.get("error") if isinstance(body, dict) else None
    return code if isinstance(code, str) and code in ports.CODES else ""
