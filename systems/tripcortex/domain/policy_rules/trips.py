"""The facts of a trip that policy rules depend on."""

from __future__ import annotations

from datetime import date, time
from decimal import Decimal

from pydantic import AliasChoices, Field

from holdfast import Document
from tripcortex.model.entities import Cabin


class Trip(Document):
    """The facts of a trip that rules depend on.

    `price_usd` is the total price. Without a price, as in a plan, fares are not judged; without a carrier,
    carriers are not. `outbound_hours` and `inbound_hours` are the hours of the longest flight in each
    direction; where they are
    None, they are estimated by distance. `employee_level` is in the policy's words.
    """

    origin: str = Field(pattern=r"^[A-Z]{3}$")
    destination: str = Field(pattern=r"^[A-Z]{3}$")
    depart: date
    return_date: date | None = Field(default=None, validation_alias=AliasChoices("return", "return_date"))
    cabin: Cabin = Cabin.economy
    carrier: str | None = None
    # All carriers that sell or fly the trip, in addition to `carrier`.
    carriers: tuple[str, ...] = ()
    price_usd: Decimal | None = None
    # The lowest comparable fare, if known: preferred carriers may exceed it by their margin.
    lowest_usd: Decimal | None = None
    booked_on: date
    employee_level: str | None = None
    outbound_hours: Decimal | None = None
    inbound_hours: Decimal | None = None
    departs_at: time | None = None
    returns_at: time | None = None

    @property
    def all_carriers(self) -> tuple[str, ...]:
        """Return the codes of all carriers of the trip, each once."""
        named = (*([self.carrier] if self.carrier else []), *self.carriers)
        return tuple(dict.fromkeys(each.upper() for each in named))
