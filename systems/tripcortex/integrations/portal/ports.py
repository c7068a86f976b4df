"""The port `Portal` of a travel portal: its five calls, its offers and orders, and its refusal codes.

    search → offers ── chosen ──> price ── as agreed ──> book → order ──> look_up, cancel

A call fails with `ExternalServiceFailed`, whose `may_be_done` says whether it may have taken effect, or is
refused permanently with `ExternalServiceRefused` and one of the codes below. Each call sends one request;
`purchases` decides what is safe to repeat. The models bound the portal's responses: data that could not be
stored is an invalid response here, not a failure of a later step.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Final, Protocol

from pydantic import AwareDatetime, ConfigDict, Field, PlainSerializer

from holdfast import Document
from tripcortex.model.entities import Cabin, FlightOption, Preferences, Segment, TripParameters

AIRPORT: Final = r"^[A-Z]{3}$"
CARRIER: Final = r"^[A-Z0-9]{2}$"
PNR: Final = r"^[A-Z0-9]{6}$"
E_TICKET: Final = r"^[0-9]{13}$"
CONFIRMATION: Final = r"^[A-Z0-9]{2}-[A-Z0-9]{6}$"
REFERENCE: Final = r"^[A-Za-z0-9][A-Za-z0-9-]{0,63}$"
# The maximum length of an employee's id (`tripcortex.api.identity`).
MAX_TRAVELLER_CHARS: Final = 128
MAX_ID_CHARS: Final = 200
MAX_NAME_CHARS: Final = 100
MAX_FLIGHT_CHARS: Final = 10
# Per direction.
MAX_LEGS: Final = 10
MAX_MINUTES: Final = 14 * 24 * 60

Id = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]
# Some portals calculate in fractions of a cent; no fare reaches a billion dollars.
Usd = Annotated[Decimal, Field(ge=0, max_digits=13, decimal_places=4)]
AwareLocalTime = Annotated[AwareDatetime, PlainSerializer(datetime.isoformat)]

# The codes of permanent refusals.
OFFER_EXPIRED: Final = "offer_expired"
PRICE_CHANGED: Final = "price_changed"
PAYMENT_FAILED: Final = "payment_failed"
SOLD_OUT: Final = "sold_out"
UNKNOWN_OFFER: Final = "unknown_offer"
UNKNOWN_ORDER: Final = "unknown_order"
ORDER_CANCELLED: Final = "order_cancelled"
NOT_FLOWN: Final = "not_flown"
INVALID_REQUEST: Final = "invalid_request"
CODES: Final = frozenset(
    {
        OFFER_EXPIRED,
        PRICE_CHANGED,
        PAYMENT_FAILED,
        SOLD_OUT,
        UNKNOWN_OFFER,
        UNKNOWN_ORDER,
        ORDER_CANCELLED,
        NOT_FLOWN,
        INVALID_REQUEST,
    }
)


class OrderStatus(StrEnum):
    """The status of an order at the portal."""

    confirmed = "confirmed"
    cancelled = "cancelled"


class PortalResponse(Document):
    """Base of the portal's responses. Unknown fields are dropped, because they may contain personal data."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)


class Leg(Segment):
    """One flight segment as the portal describes it."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    carrier: str = Field(pattern=CARRIER)
    flight_number: str = Field(min_length=1, max_length=MAX_FLIGHT_CHARS)
    origin: str = Field(pattern=AIRPORT)
    destination: str = Field(pattern=AIRPORT)
    departs_at: AwareLocalTime
    arrives_at: AwareLocalTime
    duration_minutes: int = Field(ge=0, le=MAX_MINUTES)


class Offer(PortalResponse):
    """A flight, or an outbound and inbound pair, at a price that may change before `expires_at`."""

    offer_id: Id
    expires_at: AwareDatetime
    carrier: str = Field(pattern=CARRIER)
    carrier_name: str = Field(max_length=MAX_NAME_CHARS)
    cabin: Cabin
    price_usd: Usd = Field(gt=0)
    outbound: list[Leg] = Field(min_length=1, max_length=MAX_LEGS)
    inbound: list[Leg] = Field(default_factory=list, max_length=MAX_LEGS)

    @property
    def stops(self) -> int:
        """Return the number of stops in the direction with more of them."""
        return max(len(self.outbound), len(self.inbound)) - 1

    @property
    def duration_minutes(self) -> int:
        """Return the minutes from the first departure to the last arrival, in the longer direction."""
        return max(_compute_minutes(each) for each in (self.outbound, self.inbound) if each)

    def to_option(self, option_id: str) -> FlightOption:
        """Return the offer as an option for the employee. The rules add what the policy says."""
        return FlightOption(
            option_id=option_id,
            offer_id=self.offer_id,
            offer_expires_at=self.expires_at,
            carrier=self.carrier,
            carrier_name=self.carrier_name,
            cabin=self.cabin,
            price_usd=self.price_usd,
            outbound=[*self.outbound],
            inbound=[*self.inbound],
            stops=self.stops,
            duration_minutes=self.duration_minutes,
        )


class Traveller(Document):
    """The traveller's id; the portal has the profile.

    `payment` is the portal's name for the company's payment method.
    """

    traveller_id: str = Field(min_length=1, max_length=MAX_TRAVELLER_CHARS)
    payment: str = "company-account"


class Order(PortalResponse):
    """An order under our reference."""

    reference: str = Field(pattern=REFERENCE)
    order_id: Id
    offer_id: Id
    carrier: str = Field(pattern=CARRIER)
    pnr: str = Field(pattern=PNR)
    e_ticket_number: str = Field(pattern=E_TICKET)
    price_usd: Usd
    status: OrderStatus = OrderStatus.confirmed
    booked_at: AwareDatetime

    @property
    def confirmation(self) -> str:
        """Return the confirmation number for the traveller: the carrier and its record locator."""
        return f"{self.carrier}-{self.pnr}"


class Cancellation(PortalResponse):
    """The cancellation of an order. Within a day of the booking the order is void and fully refunded."""

    reference: str = Field(pattern=REFERENCE)
    order_id: Id
    refund_usd: Usd
    is_void: bool
    cancelled_at: AwareDatetime


class Portal(Protocol):
    """The port of a travel portal."""

    @property
    def act_s(self) -> float:
        """Return the seconds in which the portal may still complete a purchase after it was sent.

        It is looked up only after that.
        """
        ...

    async def search(self, parameters: TripParameters, preferences: Preferences) -> tuple[Offer, ...]:
        """Return the available offers, cheapest first; empty if there are none."""
        ...

    async def price(self, offer_id: str) -> Offer:
        """Return the offer at its current price. An expired offer is refused with `offer_expired`."""
        ...

    async def book(self, reference: str, offer_id: str, traveller: Traveller, price_usd: Decimal) -> Order:
        """Buy the offer at exactly that price. A repeated call may buy twice."""
        ...

    async def look_up(self, reference: str) -> tuple[Order, ...]:
        """Return all orders under the reference, cancelled or not, oldest first; empty if there are none."""
        ...

    async def cancel(self, order: Order) -> Cancellation:
        """Cancel that order, and no other under its reference. A repeated call returns the same result."""
        ...


def select_live(orders: tuple[Order, ...]) -> tuple[Order, ...]:
    """Return the orders that were not cancelled."""
    return tuple(each for each in orders if each.status is OrderStatus.confirmed)


def _compute_minutes(segments: list[Leg]) -> int:
    """Return the minutes from the first departure to the last arrival."""
    return round((segments[-1].arrives_at - segments[0].departs_at).total_seconds() / 60)
