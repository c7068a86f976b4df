"""What Trip Cortex knows of a travel portal, whatever stands behind it: offers that end, orders, and the calls between.

    search → offers ── chosen ──> price ── as agreed ──> book → order ──> look_up, cancel

A call fails with `PartyFailed`, which says whether it may be done, or is refused for good with `PartyRefused` and one of
the codes below. Each call asks once: what is safe to repeat is decided by `booking_once`. What a portal says is bounded
here: what could not be kept is its nonsense, and no surprise of a later step.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Final, Protocol

from pydantic import AwareDatetime, ConfigDict, Field, PlainSerializer

from holdfast import Document
from tripcortex.model import Cabin, FlightOption, Preferences, Segment, TripParameters

AIRPORT: Final = r"^[A-Z]{3}$"
CARRIER: Final = r"^[A-Z0-9]{2}$"
PNR: Final = r"^[A-Z0-9]{6}$"
E_TICKET: Final = r"^[0-9]{13}$"
CONFIRMATION: Final = r"^[A-Z0-9]{2}-[A-Z0-9]{6}$"
REFERENCE: Final = r"^[A-Za-z0-9][A-Za-z0-9-]{0,63}$"
# As long as an employee's id may be (`live.identity`).
TRAVELLER_CHARS_MAX: Final = 128
ID_CHARS_MAX: Final = 200
NAME_CHARS_MAX: Final = 100
FLIGHT_CHARS_MAX: Final = 10
# Of one direction.
LEGS_MAX: Final = 10
MINUTES_MAX: Final = 14 * 24 * 60

Id = Annotated[str, Field(min_length=1, max_length=ID_CHARS_MAX)]
# Some portals reckon to parts of a cent; none has a fare of a thousand million.
Usd = Annotated[Decimal, Field(ge=0, max_digits=13, decimal_places=4)]
AwareLocalTime = Annotated[AwareDatetime, PlainSerializer(datetime.isoformat)]

# Why a portal refuses, for good.
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
    confirmed = "confirmed"
    cancelled = "cancelled"


class Told(Document):
    """What a portal says. What it says beyond this is left where it is: it may be of a person."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)


class Leg(Segment):
    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    carrier: str = Field(pattern=CARRIER)
    flight_number: str = Field(min_length=1, max_length=FLIGHT_CHARS_MAX)
    origin: str = Field(pattern=AIRPORT)
    destination: str = Field(pattern=AIRPORT)
    departs_at: AwareLocalTime
    arrives_at: AwareLocalTime
    duration_minutes: int = Field(ge=0, le=MINUTES_MAX)


class Offer(Told):
    """A flight, or a pair of them, at a price that is meant until `expires_at` and may move meanwhile."""

    offer_id: Id
    expires_at: AwareDatetime
    carrier: str = Field(pattern=CARRIER)
    carrier_name: str = Field(max_length=NAME_CHARS_MAX)
    cabin: Cabin
    price_usd: Usd = Field(gt=0)
    outbound: list[Leg] = Field(min_length=1, max_length=LEGS_MAX)
    inbound: list[Leg] = Field(default_factory=list, max_length=LEGS_MAX)

    @property
    def stops(self) -> int:
        """Of the direction that has more of them."""
        return max(len(self.outbound), len(self.inbound)) - 1

    @property
    def duration_minutes(self) -> int:
        """From the first departure to the last arrival, of the direction that takes longer."""
        return max(_minutes(each) for each in (self.outbound, self.inbound) if each)

    def as_option(self, option_id: str) -> FlightOption:
        """As an employee may choose it. What the policy says of it comes from the rules."""
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
    """Who flies, as a pointer: the portal has the profile. `payment` is its name for how the company pays."""

    traveller_id: str = Field(min_length=1, max_length=TRAVELLER_CHARS_MAX)
    payment: str = "company-account"


class Order(Told):
    """What was bought under our reference. `confirmation` is what a traveller is told: the carrier and its record locator."""

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
        return f"{self.carrier}-{self.pnr}"


class Cancellation(Told):
    """The end of an order. Within a day of the booking it is void, and everything comes back."""

    reference: str = Field(pattern=REFERENCE)
    order_id: Id
    refund_usd: Usd
    is_void: bool
    cancelled_at: AwareDatetime


class Portal(Protocol):
    """The port."""

    @property
    def act_s(self) -> float:
        """How long after a purchase was sent the portal may still make it. Only then it is looked up."""
        ...

    async def search(self, parameters: TripParameters, preferences: Preferences) -> tuple[Offer, ...]:
        """What is flown, the cheapest first; nothing is an empty answer."""
        ...

    async def price(self, offer_id: str) -> Offer:
        """The offer at what it costs now. One that has ended is refused with `offer_expired`."""
        ...

    async def book(self, reference: str, offer_id: str, traveller: Traveller, price_usd: Decimal) -> Order:
        """Buys it at that price and no other. Asked twice, a portal may buy twice."""
        ...

    async def look_up(self, reference: str) -> tuple[Order, ...]:
        """All that was bought under the reference, cancelled or not, the oldest first; nothing is an empty answer."""
        ...

    async def cancel(self, order: Order) -> Cancellation:
        """Ends that order, and no other under its reference. A second time it answers as the first."""
        ...


def live_of(orders: tuple[Order, ...]) -> tuple[Order, ...]:
    """Those that were not cancelled."""
    return tuple(each for each in orders if each.status is OrderStatus.confirmed)


def _minutes(segments: list[Leg]) -> int:
    return round((segments[-1].arrives_at - segments[0].departs_at).total_seconds() / 60)
